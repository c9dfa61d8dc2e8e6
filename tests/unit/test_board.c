/*
 * The board's core over a link, clock and flash of plain memory: each rule of ENCODING C that a board must
 * keep, one test a rule. The test is the server.
 */
#include "firmware/core/enrol.h"
#include "firmware/core/sha256.h"
#include "server/base/hash.h"
#include "server/sim/virtual_board.h"
#include "shared/nn/layout.h"
#include "tests/support/prng.h"
#include "tests/support/tiny_fragment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t fake_us;
static uint32_t fake_step_us; /* added at each look at the clock */

static uint64_t fake_now(void *context)
{
    (void)context;
    return fake_us += fake_step_us;
}

static struct virtual_board *board;
static struct wire_header header;
static uint8_t payload[WIRE_PAYLOAD_MAX];
static int last_status;
static uint32_t welcomes, identified;
static char configured[64], logged[512];

static void see_welcome(void *context, const struct wire_welcome *welcome)
{
    (void)context;
    welcomes += welcome->state == WIRE_STATE_ACCEPTED;
}

static void see_identify(void *context, uint32_t seconds)
{
    (void)context;
    identified = seconds;
}

static int see_configure(void *context, const char *name)
{
    (void)context;
    strncpy(configured, name, sizeof configured - 1);
    return 0;
}

static void see_log(void *context, uint8_t level, const char *text)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

static int make_request(void *context, struct wire_enrol *enrol)
{
    (void)context;
    enrol->n_request = 3;
    return 0;
}

/* Polls until the board has nothing more to do. */
static void settle(void)
{
    bool busy = true;
    for (int i = 0; i < 100000 && busy; i++)
        last_status = virtual_board_poll(board, &busy);
    assert_false(busy);
}

/* The next frame that is not a BEAT: its type, 0 for none. */
static int next_frame(void)
{
    while (virtual_board_receive(board, &header, payload) >= 0)
        if (header.type != WIRE_BEAT)
            return header.type;
    return 0;
}

static void send_frame(struct wire_header h, const uint8_t *bytes)
{
    assert_true(virtual_board_send(board, &h, bytes));
}

#define SEND(type_, lower, ...)                                                          \
    do {                                                                                 \
        static uint8_t bytes_[WIRE_PAYLOAD_MAX];                                         \
        struct wire_##lower message_ = {__VA_ARGS__};                                    \
        int n_ = wire_encode_##lower(&message_, bytes_);                                 \
        assert_true(n_ >= 0);                                                            \
        send_frame((struct wire_header){.type = type_, .length = (uint32_t)n_}, bytes_); \
    } while (0)

static void open_board(uint32_t arena, uint32_t resident, uint32_t flash, uint32_t link)
{
    struct virtual_config config = {.name = "fake",
                                    .arena_bytes = arena,
                                    .resident_bytes = resident,
                                    .flash_bytes = flash,
                                    .link_bytes = link,
                                    .clock_hz = 600000000,
                                    .clock = {NULL, fake_now},
                                    .hooks = {.welcome = see_welcome,
                                              .identify = see_identify,
                                              .configure = see_configure,
                                              .renew = make_request,
                                              .log = see_log}};
    fake_us = 1000;
    fake_step_us = 0;
    board = virtual_board_new(&config);
    assert_non_null(board);
    settle();
    assert_int_equal(next_frame(), WIRE_HELLO);
    SEND(WIRE_WELCOME, welcome, .version = 1, .state = WIRE_STATE_ACCEPTED);
    settle();
    assert_int_equal(next_frame(), 0);
}

static void close_board(void)
{
    assert_true(virtual_board_guards_intact(board));
    virtual_board_free(board);
    board = NULL;
}

static struct tiny_fragment tiny_of(uint16_t h, uint16_t w, uint16_t c)
{
    struct tiny_fragment tiny = {.party = 1, .h = h, .w = w, .c = c, .add = 3};
    tiny_fragment_make(&tiny);
    return tiny;
}

static void send_run(uint32_t inference, const uint8_t *hash)
{
    struct wire_run run = {.deployment = 1, .generation = 1};
    memcpy(run.fragment, hash, WIRE_HASH_BYTES);
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    int n = wire_encode_run(&run, bytes);
    send_frame((struct wire_header){.type = WIRE_RUN, .inference = inference, .length = (uint32_t)n}, bytes);
}

static void send_data(uint32_t inference, uint32_t offset, uint32_t n, bool last, uint8_t value)
{
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    memset(bytes, value, sizeof bytes);
    send_frame((struct wire_header){.type = WIRE_DATA,
                                    .flags = last ? WIRE_FLAG_LAST : 0,
                                    .inference = inference,
                                    .offset = offset,
                                    .length = n},
               bytes);
}

static void send_abort(uint32_t inference)
{
    send_frame((struct wire_header){.type = WIRE_ABORT, .inference = inference}, NULL);
}

/* ---- session ---- */

static void hello_says_what_the_board_has(void **state)
{
    (void)state;
    struct tiny_fragment tiny = tiny_of(2, 2, 2);
    struct wire_hello hello;
    open_board(4096, 512, 100000, 8192);
    assert_int_equal(virtual_board_store(board, tiny.bytes, tiny.size, tiny.hash), 0);
    virtual_board_cut(board);
    virtual_board_reconnect(board);
    settle();
    assert_int_equal(next_frame(), WIRE_HELLO);
    assert_int_equal(wire_decode_hello(payload, header.length, &hello), 0);
    assert_int_equal(hello.version_min, 1);
    assert_string_equal(hello.name, "fake");
    assert_int_equal(hello.n_regions, 2);
    assert_string_equal(hello.regions[0].name, "arena");
    assert_int_equal(hello.regions[0].bytes, 4096);
    assert_int_equal(hello.flash_bytes, 100000);
    assert_int_equal(hello.flash_used_bytes, tiny.size);
    assert_int_equal(hello.n_held, 1);
    assert_memory_equal(hello.held[0].hash, tiny.hash, WIRE_HASH_BYTES);
    assert_int_equal(hello.layouts & 1, 1);
    close_board();
    tiny_fragment_free(&tiny);
}

static int count_beats(void)
{
    int n = 0;
    while (virtual_board_receive(board, &header, payload) >= 0)
        n += header.type == WIRE_BEAT;
    return n;
}

static void beat_goes_out_each_second_also_while_computing(void **state)
{
    (void)state;
    struct tiny_fragment tiny = tiny_of(64, 8, 8);
    open_board(16384, 0, 100000, 65536);
    fake_us += 3000000;
    settle();
    assert_int_equal(count_beats(), 1);
    assert_int_equal(virtual_board_store(board, tiny.bytes, tiny.size, tiny.hash), 0);
    send_run(1, tiny.hash);
    send_data(1, 0, 4080, false, 1);
    send_data(1, 4080, 16, true, 1);
    fake_step_us = 200000; /* the board looks at the clock several times a step */
    settle();
    assert_int_not_equal(count_beats(), 0);
    close_board();
    tiny_fragment_free(&tiny);
}

static void link_silent_for_20_seconds_is_dropped(void **state)
{
    (void)state;
    open_board(4096, 0, 1000, 8192);
    fake_us += 19900000;
    settle();
    assert_int_equal(last_status, 0);
    send_frame((struct wire_header){.type = WIRE_NOP}, NULL);
    settle();
    fake_us += 19900000;
    settle();
    assert_int_equal(last_status, 0);
    fake_us += 200000;
    settle();
    assert_int_equal(last_status, STATUS_OFFLINE);
    close_board();
}

static void wrong_version_and_revoked_end_the_session(void **state)
{
    (void)state;
    open_board(4096, 0, 1000, 8192);
    SEND(WIRE_WELCOME, welcome, .version = 2, .state = WIRE_STATE_ACCEPTED);
    settle();
    assert_int_equal(last_status, STATUS_WIRE_VERSION);
    virtual_board_cut(board);
    virtual_board_reconnect(board);
    SEND(WIRE_WELCOME, welcome, .version = 1, .state = WIRE_STATE_REVOKED);
    settle();
    assert_int_equal(last_status, STATUS_CERTIFICATE_REVOKED);
    close_board();
}

static void probe_is_echoed_when_its_last_frame_is_in(void **state)
{
    (void)state;
    static const uint8_t filler[WIRE_PAYLOAD_MAX];
    open_board(4096, 0, 1000, 65536);
    send_frame((struct wire_header){.type = WIRE_PROBE, .transfer = 9, .length = 4080}, filler);
    settle();
    assert_int_equal(next_frame(), 0);
    send_frame(
        (struct wire_header){
            .type = WIRE_PROBE, .transfer = 9, .offset = 4080, .length = 16, .flags = WIRE_FLAG_LAST},
        filler);
    settle();
    assert_int_equal(next_frame(), WIRE_ECHO);
    assert_int_equal(header.transfer, 9);
    assert_int_equal(header.offset, 4096);
    assert_int_equal(header.length, 0);
    close_board();
}

static void orders_reach_the_port(void **state)
{
    (void)state;
    struct wire_beat beat;
    open_board(65536, 0, 1000, 8192);
    SEND(WIRE_DO, do, .what = WIRE_DO_IDENTIFY, .number = 5);
    SEND(WIRE_DO, do, .what = WIRE_DO_CONFIGURE, .name = "attic");
    SEND(WIRE_DO, do, .what = WIRE_DO_RENEW);
    SEND(WIRE_DO, do, .what = 77);
    settle();
    assert_int_equal(identified, 5);
    assert_string_equal(configured, "attic");
    assert_int_equal(next_frame(), WIRE_ENROL);
    fake_step_us = 3;
    SEND(WIRE_DO, do, .what = WIRE_DO_CALIBRATE);
    settle();
    fake_step_us = 0;
    fake_us += 1000000;
    settle();
    int n = 0;
    while (virtual_board_receive(board, &header, payload) >= 0)
        if (header.type == WIRE_BEAT && wire_decode_beat(payload, header.length, &beat) == 0)
            n++;
    assert_true(n > 0);
    assert_int_equal(beat.calibrations, 1);
    assert_int_equal(beat.calibration_bytes, 4096);
    assert_true(beat.calibration_us > 0);
    virtual_board_core(board)->config.layouts = NN_LAYOUT_MASK_ALL; /* by the kernels for these */
    SEND(WIRE_DO, do, .what = WIRE_DO_CALIBRATE);
    settle();
    fake_us += 1000000;
    settle();
    while (virtual_board_receive(board, &header, payload) >= 0)
        if (header.type == WIRE_BEAT)
            assert_int_equal(wire_decode_beat(payload, header.length, &beat), 0);
    assert_int_equal(beat.calibrations, 2);
    close_board();
}

static void unknown_frames_are_skipped_and_long_ones_end_the_link(void **state)
{
    (void)state;
    uint8_t bytes[WIRE_HEADER_BYTES];
    open_board(4096, 0, 1000, 8192);
    send_frame((struct wire_header){.type = 200, .length = 3}, (const uint8_t *)"abc");
    send_frame((struct wire_header){.type = WIRE_HELLO, .length = 3}, (const uint8_t *)"abc");
    settle();
    assert_int_equal(last_status, 0);
    wire_header_put(&(struct wire_header){.type = 200, .length = WIRE_PAYLOAD_MAX + 1}, bytes);
    virtual_board_send_raw(board, bytes, sizeof bytes);
    settle();
    assert_int_equal(last_status, STATUS_WIRE_MALFORMED);
    close_board();
}

/* ---- runs ---- */

static struct tiny_fragment tiny;

static void open_with_tiny(uint16_t h, uint16_t w, uint16_t c)
{
    tiny = tiny_of(h, w, c);
    uint32_t map = ((uint32_t)h * w * c + 15) / 16 * 16;
    open_board(2 * map, 512, 1000000, 65536);
    assert_int_equal(virtual_board_store(board, tiny.bytes, tiny.size, tiny.hash), 0);
}

static void close_with_tiny(void)
{
    close_board();
    tiny_fragment_free(&tiny);
}

static void run_answers_with_data_then_done_with_times(void **state)
{
    (void)state;
    static struct wire_done done;
    open_with_tiny(10, 50, 10); /* 5000 bytes: two frames */
    fake_step_us = 10;
    send_run(7, tiny.hash);
    send_data(7, 0, 4080, false, 20);
    send_data(7, 4080, 920, true, 21);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(header.transfer, 1);
    assert_int_equal(header.inference, 7);
    assert_int_equal(header.length, 4080);
    assert_int_equal(header.flags, 0);
    assert_int_equal(payload[0], 23);
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(header.offset, 4080);
    assert_int_equal(header.flags, WIRE_FLAG_LAST);
    assert_int_equal(payload[919], 24);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(header.inference, 7);
    assert_int_equal(wire_decode_done(payload, header.length, &done), 0);
    assert_int_equal(done.bytes_sent, 5000);
    assert_int_equal(done.bytes_received, 5000);
    assert_int_equal(done.n_times, 1);
    assert_int_equal(done.times[0].layer, 5);
    assert_int_equal(done.times[0].computing_us + done.times[0].waiting_us + done.times[0].moving_us,
                     done.computing_us + done.waiting_us + done.moving_us);
    assert_in_range(done.computing_us + done.waiting_us + done.moving_us, 1, done.total_us);
    assert_int_equal(done.arena_high_water, 5008 + 5000);
    close_with_tiny();
}

static void data_may_come_in_frames_of_any_size(void **state)
{
    (void)state;
    open_with_tiny(1, 1, 9);
    send_run(1, tiny.hash);
    for (uint32_t i = 0; i < 9; i++)
        send_data(1, i, 1, i == 8, (uint8_t)i);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    for (uint8_t i = 0; i < 9; i++)
        assert_int_equal(payload[i], i + 3);
    assert_int_equal(next_frame(), WIRE_DONE);
    close_with_tiny();
}

static void second_run_waits_and_its_data_is_not_read_before(void **state)
{
    (void)state;
    open_with_tiny(1, 1, 4);
    send_run(1, tiny.hash);
    settle();
    send_run(2, tiny.hash);
    settle();
    assert_int_equal(next_frame(), 0);
    send_data(1, 0, 4, true, 1);
    send_data(2, 0, 4, true, 2);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(header.inference, 1);
    assert_int_equal(payload[0], 4);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(header.inference, 2);
    assert_int_equal(payload[0], 5);
    assert_int_equal(next_frame(), WIRE_DONE);
    close_with_tiny();
}

static void transfer_by_rows_takes_frames_that_span_rows(void **state)
{
    (void)state;
    static struct wire_done done;
    uint32_t got = 0;
    tiny = (struct tiny_fragment){.party = 1, .h = 100, .w = 3, .c = 20, .add = 3, .by_rows = true};
    tiny_fragment_make(&tiny);
    open_board(12000, 0, 1000000, 65536);
    assert_int_equal(virtual_board_store(board, tiny.bytes, tiny.size, tiny.hash), 0);
    send_run(1, tiny.hash);
    send_data(1, 0, 4080, false, 10);  /* 68 rows of 60 bytes */
    send_data(1, 4080, 50, false, 20); /* not a whole row */
    send_data(1, 4130, 1870, true, 30);
    settle();
    int type = next_frame();
    for (; type == WIRE_DATA; type = next_frame()) {
        assert_int_equal(header.offset, got);
        for (uint32_t i = 0; i < header.length; i++)
            assert_int_equal(payload[i], 3 + (got + i < 4080 ? 10 : got + i < 4130 ? 20 : 30));
        got += header.length;
        assert_int_equal((header.flags & WIRE_FLAG_LAST) != 0, got == 6000);
    }
    assert_int_equal(got, 6000);
    assert_int_equal(type, WIRE_DONE);
    assert_int_equal(wire_decode_done(payload, header.length, &done), 0);
    assert_int_equal(done.bytes_received, 6000);
    close_with_tiny();
}

/* Opens a board whose first run waits for its sends: nobody takes them. */
static void open_with_stuck_send(void)
{
    tiny = tiny_of(100, 10, 10);
    open_board(20000, 512, 1000000, 8192);
    assert_int_equal(virtual_board_store(board, tiny.bytes, tiny.size, tiny.hash), 0);
    send_run(1, tiny.hash);
    send_run(2, tiny.hash);
    for (uint32_t at = 0; at < 10000; at += 2500) {
        send_data(1, at, 2500, at == 7500, 20);
        settle();
    }
    assert_int_equal(last_status, 0);
}

static void frame_that_is_not_posted_stays_in_the_link(void **state)
{
    (void)state;
    open_with_stuck_send();
    assert_true(board_wants_read(virtual_board_core(board)));
    send_data(2, 0, 2500, false, 2); /* of the run that waits */
    settle();
    assert_false(board_wants_read(virtual_board_core(board)));
    assert_int_equal(last_status, 0);
    for (int type = 0, frames = 0; type != WIRE_DONE; frames++) { /* now they are taken */
        type = next_frame();
        assert_true(frames < 10);
        settle();
    }
    assert_true(board_wants_read(virtual_board_core(board)));
    assert_int_equal(last_status, 0);
    close_with_tiny();
}

static void server_that_takes_nothing_for_20_seconds_is_dropped(void **state)
{
    (void)state;
    open_with_stuck_send();
    fake_us += 19000000;
    SEND(WIRE_DO, do, .what = 77); /* it is not silent */
    settle();
    assert_int_equal(last_status, 0);
    fake_us += 2000000;
    settle();
    assert_int_equal(last_status, STATUS_OFFLINE);
    assert_string_equal(logged,
                        "the link is closed: the peer is out of reach: nothing could be sent for 20 s");
    close_with_tiny();
}

/* What the present run waits for stands behind it: it would never come. */
static void data_of_the_next_run_before_that_of_the_present_one_ends_the_link(void **state)
{
    (void)state;
    open_with_tiny(1, 1, 4);
    send_run(1, tiny.hash);
    send_run(2, tiny.hash);
    send_data(2, 0, 4, true, 2);
    settle();
    assert_int_equal(last_status, STATUS_WIRE_ORDER);
    assert_string_equal(logged,
                        "the link is closed: a frame out of order: DATA before that of the run ahead of it: "
                        "DATA (type 3), inference 2, transfer 0, offset 0, 4 bytes");
    close_with_tiny();
}

static void run_of_an_unknown_fragment_fails(void **state)
{
    (void)state;
    static const uint8_t unknown[WIRE_HASH_BYTES] = {1};
    struct wire_failed failed;
    open_with_tiny(1, 1, 4);
    send_run(1, unknown);
    send_data(1, 0, 4, true, 1); /* dropped */
    send_run(2, tiny.hash);
    send_data(2, 0, 4, true, 1);
    settle();
    assert_int_equal(next_frame(), WIRE_FAILED);
    assert_int_equal(header.inference, 1);
    assert_int_equal(wire_decode_failed(payload, header.length, &failed), 0);
    assert_int_equal(failed.status, STATUS_FRAGMENT_UNKNOWN);
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(header.inference, 2);
    close_with_tiny();
}

static void run_of_a_damaged_fragment_fails_and_touches_nothing(void **state)
{
    (void)state;
    struct wire_failed failed;
    open_with_tiny(1, 1, 4);
    virtual_board_image(board, tiny.hash)[tiny.size - 1] ^= 1;
    send_run(1, tiny.hash);
    settle();
    assert_int_equal(next_frame(), WIRE_FAILED);
    assert_int_equal(wire_decode_failed(payload, header.length, &failed), 0);
    assert_int_equal(failed.status, STATUS_HASH_MISMATCH);
    close_with_tiny();
}

static void abort_is_answered_once_and_late_data_dropped(void **state)
{
    (void)state;
    open_with_tiny(1, 1, 4);
    send_run(1, tiny.hash);
    send_data(1, 0, 2, false, 1);
    settle();
    send_abort(1);
    send_abort(1);
    send_data(1, 2, 2, true, 1); /* late */
    settle();
    assert_int_equal(next_frame(), WIRE_ABORTED);
    assert_int_equal(header.inference, 1);
    assert_int_equal(next_frame(), 0);
    send_run(2, tiny.hash);
    send_data(2, 0, 4, true, 7);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(payload[0], 10);
    assert_int_equal(next_frame(), WIRE_DONE);
    send_abort(2); /* answered already */
    send_abort(99);
    settle();
    assert_int_equal(next_frame(), 0);
    assert_int_equal(last_status, 0);
    close_with_tiny();
}

static void abort_of_the_waiting_run_leaves_the_current_one(void **state)
{
    (void)state;
    open_with_tiny(1, 1, 4);
    send_run(1, tiny.hash);
    send_run(2, tiny.hash);
    send_abort(2);
    send_data(1, 0, 4, true, 1); /* its id is below the aborted one, and still wanted */
    settle();
    assert_int_equal(next_frame(), WIRE_ABORTED);
    assert_int_equal(header.inference, 2);
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(header.inference, 1);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(next_frame(), 0);
    close_with_tiny();
}

static void broken_order_ends_the_link(void **state)
{
    (void)state;
    static const struct {
        uint32_t inference, offset, n;
        bool last;
    } bad[] = {{1, 1, 3, true},  {1, 0, 5, true},  {1, 0, 3, true},
               {1, 0, 4, false}, {1, 0, 0, false}, {2, 0, 4, true}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        open_with_tiny(1, 1, 4);
        send_run(1, tiny.hash);
        settle();
        send_data(bad[i].inference, bad[i].offset, bad[i].n, bad[i].last, 1);
        settle();
        assert_int_equal(last_status, STATUS_WIRE_ORDER);
        close_with_tiny();
    }
    open_with_tiny(1, 1, 4);
    send_run(5, tiny.hash);
    send_run(5, tiny.hash);
    settle();
    assert_int_equal(last_status, STATUS_WIRE_ORDER);
    close_with_tiny();
}

static void new_link_forgets_the_run_and_starts_anew(void **state)
{
    (void)state;
    open_with_tiny(1, 1, 4);
    send_run(9, tiny.hash);
    send_data(9, 0, 2, false, 1);
    settle();
    virtual_board_cut(board);
    virtual_board_reconnect(board);
    SEND(WIRE_WELCOME, welcome, .version = 1, .state = WIRE_STATE_ACCEPTED);
    send_run(1, tiny.hash); /* a restarted server counts anew */
    send_data(1, 0, 4, true, 1);
    settle();
    assert_int_equal(next_frame(), WIRE_HELLO);
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(header.inference, 1);
    close_with_tiny();
}

/* ---- fragments ---- */

static uint32_t wanted_bytes, wants;

/* False: the link is cut before byte `cut_at` (0: never). */
static bool send_chunks(const struct tiny_fragment *source, const struct wire_want *want, uint32_t cut_at)
{
    for (uint32_t at = 0; at < want->length;) {
        uint32_t n = want->length - at < WIRE_PAYLOAD_MAX ? want->length - at : WIRE_PAYLOAD_MAX;
        if (cut_at > 0 && want->offset + at + n > cut_at)
            return false;
        send_frame((struct wire_header){.type = WIRE_CHUNK,
                                        .flags = at + n == want->length ? WIRE_FLAG_LAST : 0,
                                        .offset = want->offset + at,
                                        .length = n},
                   source->bytes + want->offset + at);
        settle();
        at += n;
    }
    return true;
}

/* Serves WANTs from `source` until HAVE comes; drops the link at `cut_at` (0: never). False when it was cut.
 */
static bool serve(const struct tiny_fragment *source, uint32_t cut_at, struct wire_have *have)
{
    for (int rounds = 0; rounds < 100000; rounds++) {
        settle();
        assert_int_equal(last_status, 0);
        int type = next_frame();
        if (type == WIRE_HAVE) {
            assert_int_equal(wire_decode_have(payload, header.length, have), 0);
            return true;
        }
        assert_int_equal(type, WIRE_WANT);
        struct wire_want want;
        assert_int_equal(wire_decode_want(payload, header.length, &want), 0);
        assert_memory_equal(want.hash, source->hash, WIRE_HASH_BYTES);
        assert_in_range(want.length, 1, WIRE_WANT_MAX);
        assert_true(want.offset + want.length <= source->size);
        wants++;
        wanted_bytes += want.length;
        if (!send_chunks(source, &want, cut_at))
            return false;
    }
    fail_msg("a push without end");
    return false;
}

static void offer(const struct tiny_fragment *t)
{
    struct wire_offer message = {.bytes = t->size};
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    memcpy(message.hash, t->hash, WIRE_HASH_BYTES);
    int n = wire_encode_offer(&message, bytes);
    send_frame((struct wire_header){.type = WIRE_OFFER, .length = (uint32_t)n}, bytes);
    wanted_bytes = wants = 0;
}

static void activate(const uint8_t *hash, uint8_t what, struct wire_have *have)
{
    struct wire_activate message = {.what = what};
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    memcpy(message.hash, hash, WIRE_HASH_BYTES);
    int n = wire_encode_activate(&message, bytes);
    send_frame((struct wire_header){.type = WIRE_ACTIVATE, .length = (uint32_t)n}, bytes);
    settle();
    assert_int_equal(next_frame(), WIRE_HAVE);
    assert_int_equal(wire_decode_have(payload, header.length, have), 0);
}

static struct tiny_fragment heavy(uint8_t add, uint8_t seed)
{
    struct tiny_fragment t = {.party = 1,
                              .h = 1,
                              .w = 1,
                              .c = 4,
                              .add = add,
                              .fillers = 3,
                              .filler = {{100001, 1}, {70000, seed}, {5000, 3}}};
    tiny_fragment_make(&t);
    return t;
}

static void offered_fragment_is_pulled_and_echoed(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    open_board(64, 0, 1000000, 65536);
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, 0);
    assert_int_equal(have.what, WIRE_HAVE_STORED);
    assert_int_equal(have.valid_bytes, t.size);
    assert_int_equal(wanted_bytes, t.size);
    assert_in_range(wants, 3, 8);
    offer(&t); /* again: an echo from the flash, nothing is pulled */
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, 0);
    assert_int_equal(wants, 0);
    send_run(1, t.hash);
    send_data(1, 0, 4, true, 1);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(payload[0], 4);
    assert_int_equal(next_frame(), WIRE_DONE);
    close_board();
    tiny_fragment_free(&t);
}

static void slices_held_already_are_copied_not_pulled(void **state)
{
    (void)state;
    struct tiny_fragment a = heavy(3, 50), b = heavy(9, 60); /* two of three fillers are the same */
    struct wire_have have;
    open_board(64, 0, 1000000, 65536);
    offer(&a);
    assert_true(serve(&a, 0, &have));
    offer(&b);
    assert_true(serve(&b, 0, &have));
    assert_int_equal(have.status, 0);
    assert_int_equal(have.valid_bytes, b.size);
    assert_int_equal(have.copied_bytes, 100001 + 5000);
    assert_in_range(wanted_bytes, 70000, 72000);
    assert_non_null(virtual_board_image(board, b.hash));
    assert_memory_equal(virtual_board_image(board, b.hash), b.bytes, b.size);
    close_board();
    tiny_fragment_free(&a);
    tiny_fragment_free(&b);
}

static void damaged_slice_is_not_copied(void **state)
{
    (void)state;
    struct tiny_fragment a = heavy(3, 50), b = heavy(9, 60);
    struct wire_have have;
    open_board(64, 0, 1000000, 65536);
    offer(&a);
    assert_true(serve(&a, 0, &have));
    virtual_board_image(board, a.hash)[a.size - 200000 + 50000] ^= 1; /* in the first filler */
    offer(&b);
    assert_true(serve(&b, 0, &have));
    assert_int_equal(have.status, 0);
    assert_memory_equal(virtual_board_image(board, b.hash), b.bytes, b.size);
    close_board();
    tiny_fragment_free(&a);
    tiny_fragment_free(&b);
}

static void broken_push_goes_on_where_it_was(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    open_board(64, 0, 1000000, 65536);
    offer(&t);
    assert_false(serve(&t, 120000, &have));
    virtual_board_cut(board);
    virtual_board_reconnect(board);
    SEND(WIRE_WELCOME, welcome, .version = 1, .state = WIRE_STATE_ACCEPTED);
    settle();
    assert_int_equal(next_frame(), WIRE_HELLO);
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, 0);
    assert_in_range(wanted_bytes, t.size - 120000, t.size - 120000 + WIRE_PAYLOAD_MAX);
    close_board();
    tiny_fragment_free(&t);
}

static void wrong_bytes_are_refused_by_their_hash(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    open_board(64, 0, 1000000, 65536);
    t.bytes[t.size - 1] ^= 1;
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, STATUS_HASH_MISMATCH);
    assert_null(virtual_board_image(board, t.hash));
    t.bytes[t.size - 1] ^= 1;
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, 0);
    close_board();
    tiny_fragment_free(&t);
}

static void fragment_out_of_bounds_is_refused_with_its_place(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    struct fragment_header *h = (struct fragment_header *)t.bytes;
    struct fragment_view *views = (struct fragment_view *)(t.bytes + h->section[FRAGMENT_VIEWS].offset);
    views[1].offset = 4000; /* outside the arena that it states */
    hash_sha256(t.bytes, t.size, t.hash);
    open_board(64, 0, 1000000, 65536);
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_true(have.status < 0);
    assert_int_not_equal(have.section, WIRE_NO_SECTION);
    assert_true(have.reason[0] != 0);
    assert_null(virtual_board_image(board, t.hash));
    close_board();
    tiny_fragment_free(&t);
}

static void fragment_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    open_board(16, 0, 1000000, 65536); /* arena too small */
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, STATUS_RAM_FULL);
    close_board();
    open_board(64, 0, 10000, 65536); /* flash too small: nothing is pulled */
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, STATUS_FLASH_FULL);
    assert_int_equal(wants, 0);
    close_board();
    tiny_fragment_free(&t);
}

static void nothing_is_wanted_while_a_run_is_there(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    open_with_tiny(1, 1, 4);
    send_run(1, tiny.hash);
    settle();
    offer(&t);
    settle();
    assert_int_equal(next_frame(), 0);
    send_data(1, 0, 4, true, 1);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, 0);
    tiny_fragment_free(&t);
    close_with_tiny();
}

/* Each run ends only when the next one waits: the board is never idle. */
static void push_comes_through_between_runs_without_end(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have = {.what = 0};
    uint32_t run = 1, largest = 0, runs_at_first_want = 0;
    open_with_tiny(1, 1, 4);
    send_run(run, tiny.hash);
    settle();
    offer(&t);
    while (have.what == 0 && run < 100) {
        send_run(run + 1, tiny.hash);
        settle();
        send_data(run, 0, 4, true, 1);
        settle();
        for (int type; (type = next_frame()) != 0 && have.what == 0;) {
            if (type == WIRE_HAVE) {
                assert_int_equal(wire_decode_have(payload, header.length, &have), 0);
            } else if (type == WIRE_WANT) {
                struct wire_want want;
                assert_int_equal(wire_decode_want(payload, header.length, &want), 0);
                largest = want.length > largest ? want.length : largest;
                runs_at_first_want = runs_at_first_want == 0 ? run : runs_at_first_want;
                (void)send_chunks(&t, &want, 0);
            } else {
                assert_true(type == WIRE_DATA || type == WIRE_DONE);
            }
        }
        run++;
    }
    assert_int_equal(have.what, WIRE_HAVE_STORED);
    assert_int_equal(have.status, 0);
    assert_int_equal(runs_at_first_want, 1);
    assert_int_equal(largest, 16384); /* the next run is not held up by much */
    assert_true(run > 10);
    tiny_fragment_free(&t);
    close_with_tiny();
}

/* Work that takes long gives way to the run that waits. */
static void requests_do_not_keep_a_run_waiting(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    open_with_tiny(1, 1, 4);
    assert_int_equal(virtual_board_store(board, t.bytes, t.size, t.hash), 0);
    send_run(1, tiny.hash);
    send_run(2, tiny.hash);
    settle();
    offer(&t); /* an echo: 175 KB are hashed in pieces of 64 KB */
    send_data(1, 0, 4, true, 1);
    send_data(2, 0, 4, true, 1);
    fake_step_us = 15000; /* each look at the clock */
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(header.inference, 2);
    assert_int_equal(next_frame(), WIRE_DONE);
    assert_int_equal(next_frame(), WIRE_HAVE);
    tiny_fragment_free(&t);
    close_with_tiny();
}

static void activate_loads_resident_weights_and_drop_frees_flash(void **state)
{
    (void)state;
    struct wire_have have;
    struct tiny_fragment t = {.party = 1, .h = 1, .w = 1, .c = 4, .add = 3, .resident_bytes = 256};
    tiny_fragment_make(&t);
    open_board(64, 256, 100000, 65536);
    offer(&t);
    assert_true(serve(&t, 0, &have));
    activate(t.hash, WIRE_HAVE_ACTIVE, &have);
    assert_int_equal(have.status, 0);
    assert_int_equal(have.what, WIRE_HAVE_ACTIVE);
    assert_int_equal(have.valid_bytes, t.size);
    struct fragment_header *h = (struct fragment_header *)virtual_board_image(board, t.hash);
    ((uint8_t *)h)[h->section[FRAGMENT_WEIGHTS].offset + 129] = 77; /* flash changes under it: RAM is used */
    send_run(1, t.hash);
    send_data(1, 0, 4, true, 1);
    settle();
    assert_int_equal(next_frame(), WIRE_DATA);
    assert_int_equal(payload[0], 4);
    assert_int_equal(next_frame(), WIRE_DONE);
    activate(t.hash, WIRE_HAVE_DROPPED, &have);
    assert_int_equal(have.status, 0);
    assert_int_equal(have.what, WIRE_HAVE_DROPPED);
    assert_null(virtual_board_image(board, t.hash));
    activate(t.hash, WIRE_HAVE_ACTIVE, &have);
    assert_int_equal(have.status, STATUS_FRAGMENT_UNKNOWN);
    close_board();
    open_board(64, 255, 100000, 65536);
    offer(&t);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, STATUS_RAM_FULL);
    close_board();
    tiny_fragment_free(&t);
}

static void chunks_out_of_order_end_the_link_and_an_empty_one_the_pull(void **state)
{
    (void)state;
    struct tiny_fragment t = heavy(3, 50);
    struct wire_have have;
    open_board(64, 0, 1000000, 65536);
    send_frame((struct wire_header){.type = WIRE_CHUNK, .length = 4}, t.bytes); /* not asked for */
    settle();
    assert_int_equal(last_status, STATUS_WIRE_ORDER);
    close_board();
    open_board(64, 0, 1000000, 65536);
    offer(&t);
    settle();
    assert_int_equal(next_frame(), WIRE_WANT);
    send_frame((struct wire_header){.type = WIRE_CHUNK, .flags = WIRE_FLAG_LAST}, t.bytes);
    assert_true(serve(&t, 0, &have));
    assert_int_equal(have.status, STATUS_NOT_FOUND);
    offer(&t);
    settle();
    assert_int_equal(next_frame(), WIRE_WANT);
    send_frame((struct wire_header){.type = WIRE_CHUNK, .offset = 1, .length = 4}, t.bytes);
    settle();
    assert_int_equal(last_status, STATUS_WIRE_ORDER);
    close_board();
    tiny_fragment_free(&t);
}

/* ---- enrolment ---- */

struct wire_end {
    uint8_t sent[WIRE_FRAME_MAX], answer[WIRE_FRAME_MAX];
    uint32_t n_sent, n_answer, at, piece;
    bool busy;
};

static int32_t end_send(void *context, const uint8_t *bytes, uint32_t n)
{
    struct wire_end *end = context;
    if ((end->busy = !end->busy))
        return 0;
    memcpy(end->sent, bytes, n);
    end->n_sent = n;
    return (int32_t)n;
}

static int32_t end_recv(void *context, uint8_t *bytes, uint32_t n)
{
    struct wire_end *end = context;
    uint32_t left = end->n_answer - end->at;
    n = n < left ? n : left;
    n = n < end->piece ? n : end->piece;
    memcpy(bytes, end->answer + end->at, n);
    end->at += n;
    return left == 0 ? STATUS_OFFLINE : (int32_t)n;
}

static int enrol_with(struct wire_end *end, struct wire_cert *cert)
{
    static const struct wire_enrol request = {
        .version_min = 1, .version_max = 1, .code = "ABC", .n_request = 2, .request = {7, 8}};
    static struct enrol enrol;
    assert_int_equal(enrol_begin(&enrol, (struct board_transport){end, end_send, end_recv}, &request), 0);
    int status = 0;
    for (int i = 0; status == 0 && i < 100000; i++)
        status = enrol_poll(&enrol, cert);
    return status;
}

static void enrolment_is_one_frame_each_way(void **state)
{
    (void)state;
    static struct wire_end end;
    static struct wire_cert cert = {.state = WIRE_STATE_PENDING, .name = "n", .n_certificate = 900}, got;
    static struct wire_enrol request;
    memset(&end, 0, sizeof end);
    int n = wire_encode_cert(&cert, end.answer + WIRE_HEADER_BYTES);
    wire_header_put(&(struct wire_header){.type = WIRE_CERT, .length = (uint32_t)n}, end.answer);
    end.n_answer = WIRE_HEADER_BYTES + (uint32_t)n;
    end.piece = 7;
    assert_int_equal(enrol_with(&end, &got), 1);
    assert_int_equal(got.n_certificate, 900);
    assert_int_equal(end.sent[0], WIRE_ENROL);
    assert_int_equal(
        wire_decode_enrol(end.sent + WIRE_HEADER_BYTES, end.n_sent - WIRE_HEADER_BYTES, &request), 0);
    assert_string_equal(request.code, "ABC");
    end.at = 0;
    end.answer[0] = WIRE_WELCOME; /* not what was asked for */
    assert_int_equal(enrol_with(&end, &got), STATUS_WIRE_ORDER);
    end.at = 0;
    end.answer[0] = WIRE_CERT;
    end.n_answer -= 1; /* cut short, then the link closes */
    assert_int_equal(enrol_with(&end, &got), STATUS_OFFLINE);
}

static void sha256_is_the_standards(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    uint8_t bytes[300], ours[32], theirs[32];
    for (uint32_t n = 0; n < sizeof bytes; n++) {
        struct board_sha256 sha;
        prng_fill(&prng, bytes, n);
        board_sha256_begin(&sha);
        for (uint32_t at = 0; at < n;) {
            uint32_t step = (uint32_t)prng_range(&prng, 1, (int32_t)(n - at));
            board_sha256_add(&sha, bytes + at, step);
            at += step;
        }
        board_sha256_end(&sha, ours);
        hash_sha256(bytes, n, theirs);
        assert_memory_equal(ours, theirs, 32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_says_what_the_board_has),
        cmocka_unit_test(beat_goes_out_each_second_also_while_computing),
        cmocka_unit_test(link_silent_for_20_seconds_is_dropped),
        cmocka_unit_test(wrong_version_and_revoked_end_the_session),
        cmocka_unit_test(probe_is_echoed_when_its_last_frame_is_in),
        cmocka_unit_test(orders_reach_the_port),
        cmocka_unit_test(unknown_frames_are_skipped_and_long_ones_end_the_link),
        cmocka_unit_test(run_answers_with_data_then_done_with_times),
        cmocka_unit_test(data_may_come_in_frames_of_any_size),
        cmocka_unit_test(second_run_waits_and_its_data_is_not_read_before),
        cmocka_unit_test(transfer_by_rows_takes_frames_that_span_rows),
        cmocka_unit_test(frame_that_is_not_posted_stays_in_the_link),
        cmocka_unit_test(server_that_takes_nothing_for_20_seconds_is_dropped),
        cmocka_unit_test(data_of_the_next_run_before_that_of_the_present_one_ends_the_link),
        cmocka_unit_test(run_of_an_unknown_fragment_fails),
        cmocka_unit_test(run_of_a_damaged_fragment_fails_and_touches_nothing),
        cmocka_unit_test(abort_is_answered_once_and_late_data_dropped),
        cmocka_unit_test(abort_of_the_waiting_run_leaves_the_current_one),
        cmocka_unit_test(broken_order_ends_the_link),
        cmocka_unit_test(new_link_forgets_the_run_and_starts_anew),
        cmocka_unit_test(offered_fragment_is_pulled_and_echoed),
        cmocka_unit_test(slices_held_already_are_copied_not_pulled),
        cmocka_unit_test(damaged_slice_is_not_copied),
        cmocka_unit_test(broken_push_goes_on_where_it_was),
        cmocka_unit_test(wrong_bytes_are_refused_by_their_hash),
        cmocka_unit_test(fragment_out_of_bounds_is_refused_with_its_place),
        cmocka_unit_test(fragment_that_does_not_fit_is_refused),
        cmocka_unit_test(nothing_is_wanted_while_a_run_is_there),
        cmocka_unit_test(push_comes_through_between_runs_without_end),
        cmocka_unit_test(requests_do_not_keep_a_run_waiting),
        cmocka_unit_test(activate_loads_resident_weights_and_drop_frees_flash),
        cmocka_unit_test(chunks_out_of_order_end_the_link_and_an_empty_one_the_pull),
        cmocka_unit_test(enrolment_is_one_frame_each_way),
        cmocka_unit_test(sha256_is_the_standards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
