/*
 * The board's life: start, link up, poll, link down. One poll sends and receives what is there, then does one
 * step of the run, or else one step of work on fragments; so a kernel is the longest thing between two looks
 * at the link, and the sign of life goes out each second also while computing.
 */
#include "firmware/core/parts.h"

#include <string.h>

uint64_t board_now(const struct board *board)
{
    return board->config.clock.now_us(board->config.clock.context);
}

bool board_hash_equal(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, WIRE_HASH_BYTES) == 0;
}

void board_text(char *to, uint32_t room, const char *from)
{
    uint32_t n = 0;
    while (from != NULL && n + 1 < room && from[n] != 0) {
        to[n] = from[n];
        n++;
    }
    to[n] = 0;
}

void board_log(struct board *board, uint8_t level, int status, const char *text)
{
    const struct board_hooks *hooks = &board->config.hooks;
    board->log = (struct wire_log){.level = level, .status = status};
    board_text(board->log.text, sizeof board->log.text, text);
    board->due_log = board->connected;
    if (hooks->log != NULL)
        hooks->log(hooks->context, level, text);
}

/* The arena must lie in a region that is at least as large: the server plans with the region. */
static bool arena_region_fits(const struct board_config *config)
{
    for (uint32_t i = 0; i < config->n_regions; i++)
        if (config->regions[i].bytes >= config->arena_bytes && strcmp(config->regions[i].name, "arena") == 0)
            return true;
    return false;
}

int board_init(struct board *board, const struct board_config *config)
{
    const struct board_store *store = &config->store;
    if (config->transport.send == NULL || config->transport.recv == NULL || config->clock.now_us == NULL ||
        store->find == NULL || store->begin == NULL || store->write == NULL || store->read == NULL ||
        store->commit == NULL || store->remove == NULL || store->list == NULL || store->capacity == NULL ||
        store->used == NULL)
        return STATUS_INVALID_ARGUMENT;
    if (config->arena == NULL || (uintptr_t)config->arena % FRAGMENT_ALIGN != 0 ||
        (uintptr_t)config->resident % FRAGMENT_ALIGN != 0 || config->n_regions > 8 ||
        !arena_region_fits(config))
        return STATUS_INVALID_ARGUMENT;
    memset(board, 0, sizeof *board);
    board->config = *config;
    return STATUS_OK;
}

void board_connected(struct board *board)
{
    board_disconnected(board);
    board->connected = true;
    board->due_hello = true;
    board->received_us = board_now(board);
    board->beat_us = board->received_us + WIRE_BEAT_MS * 1000u;
}

void board_disconnected(struct board *board)
{
    board->connected = board->welcomed = board->parked = board->swallow = false;
    board->dead = STATUS_OK;
    board->end = NULL;
    board->bad_frame = board->end_said = false;
    board->tx_n = board->rx_n = board->rx_taken = board->probe_bytes = 0;
    board->due_hello = board->due_done = board->due_failed = board->due_want = board->due_have =
        board->due_echo = board->due_log = board->due_enrol = false;
    board->n_due_aborted = 0;
    board_run_forget(board);
    board_store_forget(board);
}

bool board_wants_read(const struct board *board)
{
    return board->connected && !board->parked;
}

bool board_wants_write(const struct board *board)
{
    return board->tx_n > 0;
}

/* A server that sends nothing for 20 s is gone, and so is one that takes nothing: it always reads. While a
 * frame is parked nothing is read: then silence says nothing. */
static void check_silence(struct board *board, uint64_t now)
{
    const uint64_t most = (uint64_t)WIRE_SILENT_MS * 1000;
    if (board->parked)
        board->received_us = now;
    if (now - board->received_us >= most)
        board->end = "nothing came for 20 s";
    else if (board->tx_n > 0 && now - board->tx_us >= most)
        board->end = "nothing could be sent for 20 s";
    else
        return;
    board->dead = STATUS_OFFLINE;
}

/* DATA of the next run stands before what this one waits for, and the link is read in order: neither would
 * ever come. (A run that waits for its sends goes on when they are gone.) */
static void check_order(struct board *board)
{
    if (!board->parked || board->run_state != BOARD_RUN_WALKING || !board->blocked || board->posts.n == 0 ||
        board->sends.n > 0 || board->tx_n > 0 || board->rx_header.inference == board->current.inference)
        return;
    board->end = "DATA before that of the run ahead of it";
    board->bad_frame = true;
    board->dead = STATUS_WIRE_ORDER;
}

/* The step may have made room for the frame that waits, or queued what the idle link can take at once. */
static bool link_can_go_on(const struct board *board)
{
    if (board->parked && board_run_judge(board, &board->rx_header) != BOARD_DATA_PARK)
        return true;
    return board->run_state == BOARD_RUN_WALKING && board->sends.n > 0 && board->tx_n == 0;
}

/* While a frame waits for the transport no BEAT can go out: the port wakes when the link is writable. */
static uint32_t sleep_until_beat(const struct board *board, uint64_t now)
{
    if (board->tx_n > 0)
        return WIRE_BEAT_MS * 1000u;
    return board->beat_us <= now ? 0 : (uint32_t)(board->beat_us - now);
}

int board_poll(struct board *board, uint32_t *sleep_us)
{
    *sleep_us = 0;
    if (!board->connected)
        return STATUS_OFFLINE;
    if (board->run_state == BOARD_RUN_WALKING)
        board_run_book(board, board->blocked ? BOARD_WAITING : BOARD_COMPUTING);
    bool moved = board_link_receive(board);
    moved = board_link_send(board) || moved;
    if (moved && board->run_state == BOARD_RUN_WALKING)
        board_run_book(board, BOARD_MOVING);
    uint64_t now = board_now(board);
    check_silence(board, now);
    if (board->dead < 0) {
        board_say_end(board);
        return board->dead;
    }
    bool worked = board_run_step(board);
    check_order(board);
    if (!worked)
        worked = board_store_step(board);
    if (board->calibrate && !board_run_busy(board)) {
        board->calibrate = false;
        board_calibrate(board);
        worked = true;
    }
    if (board->due_reboot && board->tx_n == 0 && board->config.hooks.reboot != NULL) {
        board->due_reboot = false;
        board->config.hooks.reboot(board->config.hooks.context);
    }
    board_say_end(board);
    *sleep_us = moved || worked || link_can_go_on(board) ? 0 : sleep_until_beat(board, now);
    return board->dead;
}
