/*
 * Frames in and out. In: one frame at a time; DATA whose receive is not posted stays in the transport, so
 * that TCP holds the server. Out: one frame waits for the transport at most; answers are flags, encoded when
 * the link can take them, so nothing here can overflow. HELLO goes first, then answers, then DATA; DONE and
 * FAILED after the DATA of their run.
 */
#include "firmware/core/parts.h"
#include "shared/nn/layout.h"

#include <string.h>

enum { FRAMES_A_POLL = 8 };

/* ---- out ---- */

static uint8_t *payload_of(struct board *board)
{
    return board->tx + WIRE_HEADER_BYTES;
}

/* Makes the frame in tx ready; n is what an encoder returned. */
static bool ready(struct board *board, struct wire_header header, int n)
{
    if (n < 0) {
        board->end = "an answer that cannot be encoded";
        board->dead = n;
        return false;
    }
    header.length = (uint32_t)n;
    wire_header_put(&header, board->tx);
    board->tx_n = WIRE_HEADER_BYTES + (uint32_t)n;
    board->tx_us = board_now(board);
    return true;
}

static uint32_t stack_high_water(const struct board *board)
{
    const struct board_hooks *hooks = &board->config.hooks;
    return hooks->stack_high_water != NULL ? hooks->stack_high_water(hooks->context) : 0;
}

static void list_held(struct board *board, struct wire_hello *hello)
{
    const struct board_store *store = &board->config.store;
    uint32_t bytes;
    for (uint32_t i = 0; i < BOARD_FRAGMENTS_MAX; i++) {
        if (store->list(store->context, i, hello->held[i].hash, &bytes) < 0)
            return;
        hello->held[i].bytes = bytes;
        hello->n_held = (uint16_t)(i + 1);
    }
}

static void list_regions(const struct board *board, struct wire_hello *hello)
{
    hello->n_regions = (uint16_t)board->config.n_regions;
    for (uint32_t i = 0; i < board->config.n_regions; i++) {
        const struct board_region *region = &board->config.regions[i];
        board_text(hello->regions[i].name, sizeof hello->regions[i].name, region->name);
        hello->regions[i].bytes = region->bytes;
        hello->regions[i].high_water = region->high_water;
        if (strcmp(region->name, "arena") == 0)
            hello->regions[i].high_water = board->arena_high_water;
        if (strcmp(region->name, "weights") == 0 && board->is_loaded)
            hello->regions[i].high_water = board->loaded.header->resident_bytes;
        if (strcmp(region->name, "stack") == 0)
            hello->regions[i].high_water = stack_high_water(board);
    }
}

static bool send_hello(struct board *board)
{
    const struct board_config *config = &board->config;
    struct wire_hello *hello = &board->message.hello;
    memset(hello, 0, sizeof *hello);
    hello->version_min = hello->version_max = WIRE_VERSION;
    hello->kind = config->kind;
    board_text(hello->name, sizeof hello->name, config->name);
    board_text(hello->firmware, sizeof hello->firmware, config->firmware);
    board_text(hello->reset_reason, sizeof hello->reset_reason, config->reset_reason);
    hello->clock_hz = config->clock_hz;
    hello->uptime_ms = board_now(board) / 1000;
    hello->flash_bytes = config->store.capacity(config->store.context);
    hello->flash_used_bytes = config->store.used(config->store.context);
    hello->flash_erase_bytes = config->flash_erase_bytes;
    hello->layouts = config->layouts != 0 ? config->layouts : NN_LAYOUT_MASK_PLAIN;
    hello->calibration_bytes = board->calibration_bytes;
    hello->calibration_us = board->calibration_us;
    if (board->is_loaded)
        memcpy(hello->active, board->loaded_hash, WIRE_HASH_BYTES);
    list_regions(board, hello);
    list_held(board, hello);
    return ready(board, (struct wire_header){.type = WIRE_HELLO},
                 wire_encode_hello(hello, payload_of(board)));
}

static uint8_t activity_of(const struct board *board)
{
    if (board->run_state != BOARD_RUN_NONE)
        return board->run_state == BOARD_RUN_LOADING ? WIRE_ACTIVITY_LOADING : WIRE_ACTIVITY_RUNNING;
    if (board->pull.active)
        return WIRE_ACTIVITY_STORING;
    return board->verify.active || board->check.active ? WIRE_ACTIVITY_LOADING : WIRE_ACTIVITY_IDLE;
}

static bool send_beat(struct board *board, uint64_t now)
{
    const struct board_config *config = &board->config;
    struct wire_beat *beat = &board->message.beat;
    memset(beat, 0, sizeof *beat);
    beat->uptime_ms = now / 1000;
    beat->state = activity_of(board);
    beat->inference = board->current.inference;
    beat->free_bytes = config->hooks.free_bytes != NULL ? config->hooks.free_bytes(config->hooks.context) : 0;
    beat->temperature = config->hooks.temperature != NULL ? config->hooks.temperature(config->hooks.context)
                                                          : (int16_t)WIRE_NO_TEMPERATURE;
    beat->arena_high_water = board->arena_high_water;
    beat->stack_high_water = stack_high_water(board);
    beat->flash_used_bytes = config->store.used(config->store.context);
    beat->calibrations = board->calibrations;
    beat->calibration_bytes = board->calibration_bytes;
    beat->calibration_us = board->calibration_us;
    board->beat_us = now + WIRE_BEAT_MS * 1000u;
    return ready(board, (struct wire_header){.type = WIRE_BEAT}, wire_encode_beat(beat, payload_of(board)));
}

static bool send_aborted(struct board *board)
{
    struct wire_header header = {.type = WIRE_ABORTED, .inference = board->due_aborted[0]};
    board->n_due_aborted--;
    memmove(board->due_aborted, board->due_aborted + 1, board->n_due_aborted * sizeof board->due_aborted[0]);
    return ready(board, header, 0);
}

static bool send_enrol(struct board *board)
{
    const struct board_hooks *hooks = &board->config.hooks;
    struct wire_enrol *enrol = &board->message.enrol;
    memset(enrol, 0, sizeof *enrol);
    int status = hooks->renew == NULL ? STATUS_NOT_FOUND : hooks->renew(hooks->context, enrol);
    if (status < 0) {
        board_log(board, WIRE_LEVEL_WARNING, status, "no certificate request could be made");
        return false;
    }
    return ready(board, (struct wire_header){.type = WIRE_ENROL},
                 wire_encode_enrol(enrol, payload_of(board)));
}

static bool take_due(bool *due)
{
    bool was = *due;
    *due = false;
    return was;
}

/* Encodes the next frame into tx; false: there is none. */
static bool next_frame(struct board *board, uint64_t now)
{
    struct wire_header header;
    if (take_due(&board->due_hello))
        return send_hello(board);
    if (board->n_due_aborted > 0)
        return send_aborted(board);
    if (now >= board->beat_us)
        return send_beat(board, now);
    if (take_due(&board->due_echo))
        return ready(board,
                     (struct wire_header){
                         .type = WIRE_ECHO, .transfer = board->echo_probe, .offset = board->echo_bytes},
                     0);
    if (take_due(&board->due_have))
        return ready(board, (struct wire_header){.type = WIRE_HAVE},
                     wire_encode_have(&board->have, payload_of(board)));
    if (take_due(&board->due_want))
        return ready(board, (struct wire_header){.type = WIRE_WANT},
                     wire_encode_want(&board->want, payload_of(board)));
    if (take_due(&board->due_log))
        return ready(board, (struct wire_header){.type = WIRE_LOG},
                     wire_encode_log(&board->log, payload_of(board)));
    if (take_due(&board->due_enrol) && send_enrol(board))
        return true;
    if (take_due(&board->due_done))
        return ready(board, (struct wire_header){.type = WIRE_DONE, .inference = board->answered},
                     wire_encode_done(&board->done, payload_of(board)));
    if (take_due(&board->due_failed))
        return ready(board, (struct wire_header){.type = WIRE_FAILED, .inference = board->answered},
                     wire_encode_failed(&board->failed, payload_of(board)));
    int n = board_run_next_data(board, &header, payload_of(board));
    return n >= 0 && ready(board, header, n);
}

bool board_link_send(struct board *board)
{
    bool moved = false;
    for (int i = 0; i < FRAMES_A_POLL && board->dead == 0; i++) {
        if (board->tx_n == 0 && !next_frame(board, board_now(board)))
            break;
        int32_t n = board->config.transport.send(board->config.transport.context, board->tx, board->tx_n);
        if (n < 0)
            board->dead = n;
        if (n <= 0)
            break;
        board->tx_n = 0;
        moved = true;
    }
    return moved;
}

/* ---- in ---- */

static int take_welcome(struct board *board, const uint8_t *payload, uint32_t length)
{
    const struct board_hooks *hooks = &board->config.hooks;
    struct wire_welcome *welcome = &board->message.welcome;
    int status = wire_decode_welcome(payload, length, welcome);
    if (status < 0)
        return status;
    if (welcome->version != WIRE_VERSION)
        return STATUS_WIRE_VERSION;
    if (welcome->state == WIRE_STATE_REVOKED)
        return STATUS_CERTIFICATE_REVOKED;
    board->welcomed = true;
    if (hooks->welcome != NULL)
        hooks->welcome(hooks->context, welcome);
    return STATUS_OK;
}

static int take_run(struct board *board, const struct wire_header *header, const uint8_t *payload)
{
    int status = wire_decode_run(payload, header->length, &board->message.run);
    if (status < 0)
        return status;
    if (!board->welcomed || header->inference <= board->last_run || board->waiting.inference != 0)
        return STATUS_WIRE_ORDER;
    board_run_asked(board, header->inference, &board->message.run);
    return STATUS_OK;
}

static int take_offer(struct board *board, const uint8_t *payload, uint32_t length)
{
    int status = wire_decode_offer(payload, length, &board->message.offer);
    if (status == STATUS_OK)
        board_store_asked(board, BOARD_REQUEST_OFFER, board->message.offer.hash, board->message.offer.bytes);
    return status;
}

static int take_activate(struct board *board, const uint8_t *payload, uint32_t length)
{
    int status = wire_decode_activate(payload, length, &board->message.activate);
    if (status == STATUS_OK)
        board_store_asked(board,
                          board->message.activate.what == WIRE_HAVE_DROPPED ? BOARD_REQUEST_DROP
                                                                            : BOARD_REQUEST_ACTIVATE,
                          board->message.activate.hash, 0);
    return status;
}

static int take_probe(struct board *board, const struct wire_header *header)
{
    if (header->offset != board->probe_bytes)
        return STATUS_WIRE_ORDER;
    board->probe_bytes += header->length;
    if (header->flags & WIRE_FLAG_LAST) {
        board->due_echo = true;
        board->echo_probe = header->transfer;
        board->echo_bytes = board->probe_bytes;
        board->probe_bytes = 0;
    }
    return STATUS_OK;
}

static int take_do(struct board *board, const uint8_t *payload, uint32_t length)
{
    const struct board_hooks *hooks = &board->config.hooks;
    struct wire_do *order = &board->message.order;
    int status = wire_decode_do(payload, length, order);
    if (status < 0)
        return status;
    switch (order->what) {
    case WIRE_DO_IDENTIFY:
        if (hooks->identify != NULL)
            hooks->identify(hooks->context, order->number);
        break;
    case WIRE_DO_REBOOT:
        board->due_reboot = true;
        break;
    case WIRE_DO_CONFIGURE:
        if (hooks->configure != NULL && hooks->configure(hooks->context, order->name) < 0)
            board_log(board, WIRE_LEVEL_WARNING, STATUS_IO_FAILED, "the new name could not be kept");
        break;
    case WIRE_DO_CALIBRATE:
        board->calibrate = true;
        break;
    case WIRE_DO_RENEW:
        board->due_enrol = true;
        break;
    default: /* a later server's: not for us */
        break;
    }
    return STATUS_OK;
}

static int take_cert(struct board *board, const uint8_t *payload, uint32_t length)
{
    const struct board_hooks *hooks = &board->config.hooks;
    int status = wire_decode_cert(payload, length, &board->message.cert);
    if (status == STATUS_OK && hooks->certificate != NULL)
        hooks->certificate(hooks->context, &board->message.cert);
    return status;
}

/* A whole frame that is not DATA. Types that are unknown, or not for boards, are skipped. */
static int dispatch(struct board *board, const struct wire_header *header, const uint8_t *payload)
{
    switch (header->type) {
    case WIRE_WELCOME:
        return take_welcome(board, payload, header->length);
    case WIRE_RUN:
        return take_run(board, header, payload);
    case WIRE_ABORT:
        board_run_aborted(board, header->inference);
        return STATUS_OK;
    case WIRE_OFFER:
        return take_offer(board, payload, header->length);
    case WIRE_CHUNK:
        return board_store_chunk(board, header, payload);
    case WIRE_ACTIVATE:
        return take_activate(board, payload, header->length);
    case WIRE_PROBE:
        return take_probe(board, header);
    case WIRE_DO:
        return take_do(board, payload, header->length);
    case WIRE_CERT:
        return take_cert(board, payload, header->length);
    default:
        return STATUS_OK;
    }
}

/* Reads on until `want` bytes of the frame are there; false: not yet, or dead. */
static bool read_up_to(struct board *board, uint32_t want)
{
    while (board->rx_n < want) {
        int32_t n = board->config.transport.recv(board->config.transport.context, board->rx + board->rx_n,
                                                 want - board->rx_n);
        if (n < 0)
            board->dead = n;
        if (n <= 0)
            return false;
        board->rx_n += (uint32_t)n;
        board->received_us = board_now(board);
    }
    return true;
}

static void next_in(struct board *board)
{
    board->rx_n = board->rx_taken = 0;
    board->parked = false;
}

/* The link ends, and the frame in rx_header is why. */
static void blame(struct board *board, int status)
{
    board->dead = status;
    board->bad_frame = true;
}

/* DATA: judged by its header before its payload is read, and again while parts of it wait. True when it is
 * over. */
static bool take_data(struct board *board)
{
    const struct wire_header *header = &board->rx_header;
    int judgement = board_run_judge(board, header);
    if (judgement < 0)
        blame(board, judgement);
    board->parked = judgement == BOARD_DATA_PARK;
    if (judgement < 0 || board->parked || !read_up_to(board, WIRE_HEADER_BYTES + header->length))
        return false;
    if (judgement == BOARD_DATA_TAKE) {
        board->rx_taken = board_run_data(board, header, board->rx + WIRE_HEADER_BYTES, board->rx_taken);
        board->parked = board->rx_taken < header->length; /* the rest waits for its rows to be posted */
        if (board->parked)
            return false;
    }
    next_in(board);
    return true;
}

/* One frame; false: nothing (more) now. */
static bool receive_one(struct board *board)
{
    if (board->rx_n < WIRE_HEADER_BYTES) {
        if (!read_up_to(board, WIRE_HEADER_BYTES))
            return false;
        int status = wire_header_get(board->rx, &board->rx_header);
        if (status < 0) {
            blame(board, status);
            return false;
        }
    }
    if (board->rx_header.type == WIRE_DATA)
        return take_data(board);
    if (!read_up_to(board, WIRE_HEADER_BYTES + board->rx_header.length))
        return false;
    struct wire_header header = board->rx_header;
    next_in(board);
    int status = dispatch(board, &header, board->rx + WIRE_HEADER_BYTES);
    if (status < 0)
        blame(board, status);
    return board->dead == 0;
}

bool board_link_receive(struct board *board)
{
    bool moved = false;
    for (int i = 0; i < FRAMES_A_POLL && board->dead == 0 && receive_one(board); i++)
        moved = true;
    return moved;
}
