/*
 * The whole board over the fragment store and an emulated NOR flash; the test is the server. Fragments come
 * by frames and run from the flash; the power goes at every step of a deployment's life; bits flip.
 */
#include "firmware/core/flash_store.h"
#include "server/sim/virtual_board.h"
#include "tests/support/nor_flash.h"
#include "tests/support/tiny_fragment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ERASE = 4096, LOG = 16384, FLASH = 20 * ERASE, ELEMENTS = 105, NONE = -1 };
static const struct flash_store_place place = {0, LOG, LOG, FLASH};

static struct nor_flash nor;
static struct flash_store flash;
static struct virtual_board *board;
static struct wire_header header;
static uint8_t payload[WIRE_PAYLOAD_MAX];
static struct tiny_fragment former, next;
static uint32_t runs;

static uint64_t fake_now(void *context)
{
    static uint64_t us;
    (void)context;
    return us += 10;
}

static int make_fragments(void **state)
{
    (void)state;
    former = (struct tiny_fragment){
        .party = 1, .h = 3, .w = 5, .c = 7, .add = 1, .fillers = 2, .filler = {{9000, 1}, {3000, 2}}};
    next = (struct tiny_fragment){.party = 1,
                                  .h = 3,
                                  .w = 5,
                                  .c = 7,
                                  .add = 2,
                                  .fillers = 3,
                                  .filler = {{9000, 1}, {14000, 3}, {500, 4}},
                                  .resident_bytes = 256};
    tiny_fragment_make(&former);
    tiny_fragment_make(&next);
    return 0;
}

static int free_fragments(void **state)
{
    (void)state;
    tiny_fragment_free(&former);
    tiny_fragment_free(&next);
    return 0;
}

/* A reset: everything in RAM is gone. */
static void start(void)
{
    assert_int_equal(flash_store_open(&flash, &nor.flash, &place), 0);
    struct board_store store = flash_store_functions(&flash);
    struct virtual_config config = {.name = "flash",
                                    .arena_bytes = 8192,
                                    .resident_bytes = 512,
                                    .link_bytes = 65536,
                                    .clock_hz = 600000000,
                                    .clock = {NULL, fake_now},
                                    .store = &store};
    board = virtual_board_new(&config);
    assert_non_null(board);
    runs = 0;
}

static void stop(void)
{
    assert_true(virtual_board_guards_intact(board));
    virtual_board_free(board);
    board = NULL;
}

static void settle(void)
{
    bool busy = true;
    for (int i = 0; busy; i++) {
        assert_true(i < 100000);
        assert_int_equal(virtual_board_poll(board, &busy), 0);
    }
}

/* The next frame that is no BEAT, HELLO or LOG; 0: none. */
static int next_frame(void)
{
    while (virtual_board_receive(board, &header, payload) >= 0)
        if (header.type != WIRE_BEAT && header.type != WIRE_HELLO && header.type != WIRE_LOG)
            return header.type;
    return 0;
}

static void send(uint8_t type, uint32_t inference, const void *message)
{
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    int n = wire_encode(type, message, bytes);
    assert_true(n >= 0);
    assert_true(virtual_board_send(
        board, &(struct wire_header){.type = type, .inference = inference, .length = (uint32_t)n}, bytes));
}

static void welcome(void)
{
    struct wire_welcome message = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED};
    send(WIRE_WELCOME, 0, &message);
    settle();
}

static void serve_want(const struct tiny_fragment *fragment)
{
    struct wire_want want;
    assert_int_equal(wire_decode_want(payload, header.length, &want), 0);
    assert_true(want.offset + want.length <= fragment->size);
    for (uint32_t at = 0; at < want.length;) {
        uint32_t n = want.length - at < 4000 ? want.length - at : 4000;
        struct wire_header chunk = {.type = WIRE_CHUNK,
                                    .flags = at + n == want.length ? WIRE_FLAG_LAST : 0,
                                    .offset = want.offset + at,
                                    .length = n};
        assert_true(virtual_board_send(board, &chunk, fragment->bytes + want.offset + at));
        at += n;
        settle();
    }
}

/* Until HAVE: its status. */
static int have(const struct tiny_fragment *fragment)
{
    static struct wire_have message;
    for (int i = 0; i < 1000; i++) {
        settle();
        int type = next_frame();
        if (type == WIRE_WANT)
            serve_want(fragment);
        else if (type == WIRE_HAVE) {
            assert_int_equal(wire_decode_have(payload, header.length, &message), 0);
            return message.status;
        }
    }
    fail_msg("no HAVE");
    return 0;
}

static int push(const struct tiny_fragment *fragment)
{
    struct wire_offer offer = {.bytes = fragment->size};
    memcpy(offer.hash, fragment->hash, WIRE_HASH_BYTES);
    send(WIRE_OFFER, 0, &offer);
    return have(fragment);
}

static int activate(const struct tiny_fragment *fragment, uint8_t what)
{
    struct wire_activate message = {.what = what};
    memcpy(message.hash, fragment->hash, WIRE_HASH_BYTES);
    send(WIRE_ACTIVATE, 0, &message);
    return have(fragment);
}

/* What a run of it answers: 0 and the right numbers, or the FAILED's status; anything else ends the test. */
static int run(const struct tiny_fragment *fragment)
{
    struct wire_run message = {.deployment = 1};
    struct wire_failed failed;
    uint8_t in[ELEMENTS];
    bool right = false;
    memcpy(message.fragment, fragment->hash, WIRE_HASH_BYTES);
    send(WIRE_RUN, ++runs, &message);
    memset(in, 40, sizeof in);
    assert_true(virtual_board_send(
        board,
        &(struct wire_header){
            .type = WIRE_DATA, .flags = WIRE_FLAG_LAST, .inference = runs, .length = sizeof in},
        in));
    settle();
    for (;;)
        switch (next_frame()) {
        case WIRE_DATA:
            assert_int_equal(header.length, ELEMENTS);
            for (int i = 0; i < ELEMENTS; i++)
                assert_int_equal(payload[i], 40 + fragment->add);
            right = true;
            break;
        case WIRE_DONE:
            assert_true(right);
            return 0;
        case WIRE_FAILED:
            assert_false(right);
            assert_int_equal(wire_decode_failed(payload, header.length, &failed), 0);
            return failed.status;
        default:
            fail_msg("frame %u", header.type);
        }
}

static void fragments_are_pulled_run_and_dropped(void **state)
{
    (void)state;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 4 * ERASE);
    start();
    welcome();
    assert_int_equal(run(&former), STATUS_FRAGMENT_UNKNOWN);
    assert_int_equal(push(&former), 0);
    assert_int_equal(run(&former), 0);
    assert_int_equal(push(&next), 0);
    assert_int_equal(activate(&next, WIRE_HAVE_ACTIVE), 0);
    assert_int_equal(run(&next), 0);
    stop();
    start(); /* a reset */
    welcome();
    assert_int_equal(run(&next), 0);
    assert_int_equal(run(&former), 0);
    assert_int_equal(activate(&former, WIRE_HAVE_DROPPED), 0);
    assert_int_equal(run(&former), STATUS_FRAGMENT_UNKNOWN);
    assert_int_equal(run(&next), 0);
    stop();
    nor_flash_free(&nor);
}

/* Resident weights are read from RAM: a flash that changes behind them is not seen until the next reset. */
static void resident_weights_are_copied_when_it_is_activated(void **state)
{
    (void)state;
    const uint8_t *bytes;
    uint32_t size;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 0);
    start();
    welcome();
    assert_int_equal(push(&next), 0);
    assert_int_equal(activate(&next, WIRE_HAVE_ACTIVE), 0);
    struct board_store fs = flash_store_functions(&flash);
    assert_int_equal(fs.find(fs.context, next.hash, &bytes, &size), 0);
    const struct fragment_header *h = (const struct fragment_header *)(const void *)bytes;
    uint32_t table = h->section[FRAGMENT_WEIGHTS].offset;
    memset(nor.bytes + (bytes - nor.bytes) + table, 0, 256); /* the table, which is resident */
    assert_int_equal(run(&next), 0);
    stop();
    start();
    welcome();
    assert_int_equal(run(&next), STATUS_HASH_MISMATCH);
    stop();
    nor_flash_free(&nor);
}

static void any_flipped_bit_of_an_image_is_refused_and_never_run(void **state)
{
    (void)state;
    const uint8_t *bytes;
    uint32_t size;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 0);
    start();
    welcome();
    assert_int_equal(push(&former), 0);
    stop();
    struct prng prng = prng_seed(5);
    for (int i = 0; i < 400; i++) {
        start();
        welcome();
        struct board_store fs = flash_store_functions(&flash);
        assert_int_equal(fs.find(fs.context, former.hash, &bytes, &size), 0);
        uint32_t bit = i < 200 ? (uint32_t)i * 5 : (uint32_t)prng_range(&prng, 0, (int32_t)size * 8 - 1);
        uint8_t *at = nor.bytes + (bytes - nor.bytes) + bit / 8;
        *at ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(run(&former), STATUS_HASH_MISMATCH);
        *at ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(run(&former), 0); /* it is asked anew each time */
        stop();
    }
    start();
    welcome();
    struct board_store fs = flash_store_functions(&flash);
    assert_int_equal(fs.find(fs.context, former.hash, &bytes, &size), 0);
    nor.bytes[bytes - nor.bytes + 3000] ^= 1;
    assert_int_equal(push(&former), STATUS_HASH_MISMATCH); /* offered again: found wrong, dropped, */
    assert_int_equal(push(&former), 0);                    /* and pulled anew */
    assert_int_equal(run(&former), 0);
    stop();
    nor_flash_free(&nor);
}

/* ---- power ---- */

struct said {
    bool next_stored, former_drop_asked;
};

/* The former deployment runs; the next is pushed, activated, and the former one dropped. */
static struct said life(void)
{
    struct said said = {false, false};
    welcome();
    said.next_stored = push(&next) == 0 && !nor.off;
    if (nor.off)
        return said;
    (void)activate(&next, WIRE_HAVE_ACTIVE);
    said.former_drop_asked = true;
    (void)activate(&former, WIRE_HAVE_DROPPED);
    return said;
}

static void power_cut_at_every_step_leaves_the_former_runnable_or_the_next(void **state)
{
    (void)state;
    uint64_t points = 0, both = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        nor_flash_new(&nor, LOG + FLASH, ERASE, seed % 2 == 0 ? 0 : 4 * ERASE);
        start();
        welcome();
        assert_int_equal(push(&former), 0);
        stop();
        uint8_t *kept = malloc(LOG + FLASH);
        assert_non_null(kept);
        memcpy(kept, nor.bytes, LOG + FLASH);
        for (uint64_t at = 1;; at++, points++) {
            memcpy(nor.bytes, kept, LOG + FLASH);
            nor.prng = prng_seed(seed * 7919 + at);
            nor_flash_power(&nor, at);
            start();
            struct said said = life();
            bool cut = nor.off;
            stop();
            nor_flash_power(&nor, 0);
            start();
            welcome();
            int first = run(&former), second = run(&next);
            assert_true(first == 0 || (said.former_drop_asked && first == STATUS_FRAGMENT_UNKNOWN));
            assert_true(second == 0 || (!said.next_stored && second == STATUS_FRAGMENT_UNKNOWN));
            both += first == 0 && second == 0;
            assert_int_equal(push(&next), 0); /* and it goes on from there */
            assert_int_equal(run(&next), 0);
            assert_int_equal(run(&former), first);
            stop();
            if (!cut)
                break;
        }
        free(kept);
        nor_flash_free(&nor);
    }
    printf("%llu power cuts\n", (unsigned long long)points);
    assert_true(points > 500 && both > 0);
}

static void failing_blocks_are_written_around(void **state)
{
    (void)state;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 0);
    for (int mode = 0; mode < 2; mode++) {
        nor.bad_erases = mode == 0;
        start();
        welcome();
        if (mode == 0)
            assert_int_equal(push(&former), 0);
        nor_flash_bad(&nor, LOG / ERASE + 5 + 4 * (uint32_t)mode);
        nor_flash_bad(&nor, LOG / ERASE + 7 + 4 * (uint32_t)mode);
        assert_int_equal(push(&next), 0);
        assert_int_equal(run(&next), 0);
        assert_int_equal(run(&former), 0);
        assert_int_equal(activate(&next, WIRE_HAVE_DROPPED), 0);
        stop();
    }
    struct board_store fs = flash_store_functions(&flash);
    assert_true(fs.capacity(fs.context) < FLASH); /* at least one was met */
    nor_flash_free(&nor);
}

static void flash_that_takes_nothing_is_told(void **state)
{
    (void)state;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 0);
    start();
    welcome();
    assert_int_equal(push(&former), 0);
    for (uint32_t i = 0; i < NOR_FLASH_BAD_MAX; i++)
        nor_flash_bad(&nor, (LOG + FLASH) / ERASE - 1 - i);
    int status = push(&next);
    assert_true(status == STATUS_IO_FAILED || status == STATUS_FLASH_FULL);
    assert_int_equal(run(&former), 0);
    stop();
    nor_flash_free(&nor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_are_pulled_run_and_dropped),
        cmocka_unit_test(resident_weights_are_copied_when_it_is_activated),
        cmocka_unit_test(any_flipped_bit_of_an_image_is_refused_and_never_run),
        cmocka_unit_test(power_cut_at_every_step_leaves_the_former_runnable_or_the_next),
        cmocka_unit_test(failing_blocks_are_written_around),
        cmocka_unit_test(flash_that_takes_nothing_is_told),
    };
    return cmocka_run_group_tests(tests, make_fragments, free_fragments);
}
