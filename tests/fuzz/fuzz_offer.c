/*
 * A server that means harm: any bytes as a fragment, offered with their right hash, served as the board asks,
 * activated and run, beside a fragment that the board holds. Whatever it is, the board answers each request,
 * writes nothing outside its memory, and still runs the other one. The first byte of the input says which
 * block of its flash is bad, if any.
 */
#include "firmware/core/flash_store.h"
#include "server/base/hash.h"
#include "server/sim/virtual_board.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/nor_flash.h"
#include "tests/support/tiny_fragment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LINK = 65536, LOG = 16384, BLOCKS = 24, ERASE = 4096, POLLS = 20000, ROUNDS = 400, ELEMENTS = 105 };

struct offered {
    const uint8_t *bytes;
    uint32_t size;
    uint8_t hash[WIRE_HASH_BYTES];
};

static struct tiny_fragment held;
static uint64_t now_us;
static struct nor_flash nor;
static struct flash_store flash;
static struct virtual_board *board;
static struct wire_header header;
static uint8_t payload[WIRE_PAYLOAD_MAX];

static uint64_t fake_now(void *context)
{
    (void)context;
    return now_us += 20;
}

static void send(uint8_t type, uint32_t inference, const void *message)
{
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    int n = wire_encode(type, message, bytes);
    assert(n >= 0);
    struct wire_header h = {.type = type, .inference = inference, .length = (uint32_t)n};
    assert(virtual_board_send(board, &h, bytes));
}

/* False: the board has closed the link. */
static bool settle(void)
{
    bool busy = true;
    for (int i = 0; busy; i++) {
        assert(i < POLLS);
        if (virtual_board_poll(board, &busy) < 0)
            return false;
    }
    return true;
}

static int next_frame(void)
{
    while (virtual_board_receive(board, &header, payload) >= 0)
        if (header.type != WIRE_BEAT && header.type != WIRE_HELLO && header.type != WIRE_LOG)
            return header.type;
    return 0;
}

static void serve(const struct offered *image)
{
    struct wire_want want;
    assert(wire_decode_want(payload, header.length, &want) == 0);
    assert(want.length > 0 && want.offset <= image->size && want.length <= image->size - want.offset);
    for (uint32_t at = 0; at < want.length;) {
        uint32_t n = want.length - at < 4080 ? want.length - at : 4080;
        struct wire_header chunk = {.type = WIRE_CHUNK,
                                    .flags = at + n == want.length ? WIRE_FLAG_LAST : 0,
                                    .offset = want.offset + at,
                                    .length = n};
        assert(virtual_board_send(board, &chunk, image->bytes + want.offset + at));
        at += n;
        assert(settle());
    }
}

/* Serves until HAVE comes; its status. */
static int have(const struct offered *image)
{
    struct wire_have message;
    for (int i = 0; i < ROUNDS; i++) {
        assert(settle());
        int type = next_frame();
        if (type == WIRE_WANT)
            serve(image);
        if (type == WIRE_HAVE) {
            assert(wire_decode_have(payload, header.length, &message) == 0);
            assert(message.status <= 0 && (message.status == 0 || message.reason[0] != 0));
            return message.status;
        }
    }
    assert(!"an answer to each request");
    return 0;
}

static int push(const struct offered *image)
{
    struct wire_offer offer = {.bytes = image->size};
    memcpy(offer.hash, image->hash, WIRE_HASH_BYTES);
    send(WIRE_OFFER, 0, &offer);
    return have(image);
}

static int activate(const struct offered *image, uint8_t what)
{
    struct wire_activate message = {.what = what};
    memcpy(message.hash, image->hash, WIRE_HASH_BYTES);
    send(WIRE_ACTIVATE, 0, &message);
    return have(image);
}

/* A run with the data that the tiny fragment takes; whether it ended by itself. */
static bool run(const struct offered *image, uint32_t inference)
{
    struct wire_run message = {.deployment = 1};
    uint8_t data[ELEMENTS];
    memcpy(message.fragment, image->hash, WIRE_HASH_BYTES);
    memset(data, 5, sizeof data);
    send(WIRE_RUN, inference, &message);
    struct wire_header h = {
        .type = WIRE_DATA, .flags = WIRE_FLAG_LAST, .inference = inference, .length = sizeof data};
    assert(virtual_board_send(board, &h, data));
    for (int i = 0; i < ROUNDS; i++) {
        if (!settle())
            return false; /* it waits for other data than this: out of order */
        int type = next_frame();
        if (type == 0)
            break; /* it waits for more */
        if (type == WIRE_DONE || type == WIRE_FAILED)
            return true;
    }
    struct wire_header abort_it = {.type = WIRE_ABORT, .inference = inference};
    assert(virtual_board_send(board, &abort_it, NULL));
    return settle();
}

static void open_board(uint8_t bad)
{
    static const struct flash_store_place place = {0, LOG, LOG, BLOCKS * ERASE};
    now_us = 1000;
    nor_flash_new(&nor, LOG + BLOCKS * ERASE, ERASE, 0);
    assert(flash_store_open(&flash, &nor.flash, &place) == 0);
    if (bad % 4 == 1)
        nor_flash_bad(&nor, LOG / ERASE + bad / 4 % BLOCKS);
    struct board_store store = flash_store_functions(&flash);
    struct virtual_config config = {.name = "offer",
                                    .arena_bytes = 32768,
                                    .resident_bytes = 256,
                                    .link_bytes = LINK,
                                    .clock_hz = 600000000,
                                    .clock = {NULL, fake_now},
                                    .store = &store};
    board = virtual_board_new(&config);
    assert(board != NULL);
    struct wire_welcome welcome = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED};
    send(WIRE_WELCOME, 0, &welcome);
}

static void other_still_runs(const struct offered *other)
{
    virtual_board_cut(board);
    virtual_board_reconnect(board);
    struct wire_welcome welcome = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED};
    send(WIRE_WELCOME, 0, &welcome);
    assert(run(other, 1) && header.type == WIRE_DONE);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    if (size < 2 || size > 60000)
        return;
    if (held.bytes == NULL) {
        held = (struct tiny_fragment){
            .party = 1, .h = 3, .w = 5, .c = 7, .add = 1, .fillers = 1, .filler = {{3000, 1}}};
        tiny_fragment_make(&held);
    }
    struct offered other = {held.bytes, held.size, {0}}, image = {bytes + 1, (uint32_t)size - 1, {0}};
    memcpy(other.hash, held.hash, sizeof other.hash);
    hash_sha256(image.bytes, image.size, image.hash);
    open_board(bytes[0]);
    assert(push(&other) == 0);
    if (push(&image) == 0) {
        if (activate(&image, WIRE_HAVE_ACTIVE) == 0)
            (void)run(&image, 1);
    }
    other_still_runs(&other);
    assert(virtual_board_guards_intact(board));
    virtual_board_free(board);
    nor_flash_free(&nor);
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    struct tiny_fragment f = {.party = 1, .h = 3, .w = 5, .c = 7, .add = 2, .by_rows = i % 2 == 1};
    if (i >= 6)
        return 0;
    if (i >= 2) {
        f.fillers = 2;
        f.filler[0].bytes = 3000; /* as the board holds it */
        f.filler[0].seed = 1;
        f.filler[1].bytes = i >= 4 ? 20000 : 500;
        f.filler[1].seed = 3;
        f.resident_bytes = 256;
    }
    tiny_fragment_make(&f);
    assert(f.size < room);
    out[0] = i >= 4 ? 9 : 0; /* a bad block where it would lie */
    memcpy(out + 1, f.bytes, f.size);
    size_t n = 1 + f.size;
    tiny_fragment_free(&f);
    return n;
}
