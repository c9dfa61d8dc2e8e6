/*
 * Bytes from a stranger to a board that holds one fragment: whatever comes, the board neither crashes nor
 * hangs nor writes outside its memory. The first byte of the input says in which pieces the rest arrives.
 * Then the server vanishes: the board must close the link by itself, say why, once, and begin anew. Its flash
 * is an emulated NOR flash.
 */
#include "firmware/core/flash_store.h"
#include "server/sim/virtual_board.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/nor_flash.h"
#include "tests/support/tiny_fragment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LINK = 16384, POLLS = 4000, LOG = 16384, FLASH = 5 * 4096, GONE_US = 25000000 };

static struct tiny_fragment held, offered;
static uint64_t now_us;
static struct nor_flash nor;
static struct flash_store flash;
static unsigned reasons; /* that the board gave for closing the link */

static void see_log(void *context, uint8_t level, const char *text)
{
    (void)context;
    (void)level;
    reasons += strncmp(text, "the link is closed: ", 20) == 0;
}

static uint64_t fake_now(void *context)
{
    (void)context;
    return now_us += 50;
}

static void make_fragments(void)
{
    if (held.bytes != NULL)
        return;
    held = (struct tiny_fragment){
        .party = 1, .h = 3, .w = 5, .c = 7, .add = 1, .fillers = 1, .filler = {{3000, 1}}};
    offered = (struct tiny_fragment){.party = 1,
                                     .h = 3,
                                     .w = 5,
                                     .c = 7,
                                     .add = 2,
                                     .fillers = 2,
                                     .filler = {{3000, 1}, {500, 2}},
                                     .resident_bytes = 256};
    tiny_fragment_make(&held);
    tiny_fragment_make(&offered);
}

static void store_held(const struct board_store *store)
{
    uint32_t valid;
    assert(store->begin(store->context, held.hash, held.size, &valid) == 0 && valid == 0);
    assert(store->write(store->context, 0, held.bytes, held.size) == 0);
    assert(store->commit(store->context) == 0);
}

static struct virtual_board *open_board(void)
{
    static const struct flash_store_place place = {0, LOG, LOG, FLASH};
    nor_flash_new(&nor, LOG + FLASH, 4096, 0);
    assert(flash_store_open(&flash, &nor.flash, &place) == 0);
    struct board_store store = flash_store_functions(&flash);
    struct virtual_config config = {.name = "fuzz",
                                    .arena_bytes = 32768,
                                    .resident_bytes = 256,
                                    .link_bytes = LINK,
                                    .clock_hz = 600000000,
                                    .clock = {NULL, fake_now},
                                    .hooks = {.log = see_log},
                                    .store = &store};
    store_held(&store);
    reasons = 0;
    struct virtual_board *board = virtual_board_new(&config);
    assert(board != NULL);
    return board;
}

/* False when the board has closed the link. */
static bool poll_until_idle(struct virtual_board *board)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    bool busy = true;
    for (int i = 0; busy; i++) {
        assert(i < POLLS);
        if (virtual_board_poll(board, &busy) < 0)
            return false;
        while (virtual_board_receive(board, &header, payload) >= 0)
            ;
    }
    return true;
}

/* A new link works, whatever was on the former. */
static void begin_anew(struct virtual_board *board)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    bool busy;
    virtual_board_cut(board);
    virtual_board_reconnect(board);
    assert(virtual_board_poll(board, &busy) == 0);
    assert(virtual_board_receive(board, &header, payload) > 0 && header.type == WIRE_HELLO);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return;
    make_fragments();
    now_us = 1000;
    struct virtual_board *board = open_board();
    uint32_t piece = bytes[0] == 0 ? LINK : (uint32_t)bytes[0] * 17;
    bool open = true;
    for (size_t at = 1, n = 1; open && n > 0 && at < size; at += n) {
        n = size - at < piece ? size - at : piece;
        n = virtual_board_send_raw(board, bytes + at, (uint32_t)n); /* 0: it does not read on */
        open = poll_until_idle(board);
    }
    for (int i = 0; open; i++) {
        assert(i < 3);
        now_us += GONE_US;
        open = poll_until_idle(board);
    }
    assert(reasons == 1);
    begin_anew(board);
    assert(virtual_board_guards_intact(board));
    virtual_board_free(board);
    nor_flash_free(&nor);
}

/* ---- seeds: whole conversations ---- */

struct stream {
    uint8_t *out;
    size_t n, room;
};

static void put(struct stream *stream, struct wire_header header, const uint8_t *payload)
{
    assert(stream->room - stream->n >= WIRE_HEADER_BYTES + header.length);
    wire_header_put(&header, stream->out + stream->n);
    stream->n += WIRE_HEADER_BYTES;
    if (header.length > 0)
        memcpy(stream->out + stream->n, payload, header.length);
    stream->n += header.length;
}

static void put_message(struct stream *stream, uint8_t type, uint32_t inference, const void *message)
{
    uint8_t payload[WIRE_PAYLOAD_MAX];
    int n = wire_encode(type, message, payload);
    assert(n >= 0);
    put(stream, (struct wire_header){.type = type, .inference = inference, .length = (uint32_t)n}, payload);
}

static void put_run(struct stream *stream, uint32_t inference, const uint8_t *hash)
{
    struct wire_run run = {.deployment = 1};
    memcpy(run.fragment, hash, WIRE_HASH_BYTES);
    put_message(stream, WIRE_RUN, inference, &run);
}

static void put_data(struct stream *stream, uint32_t inference, uint32_t offset, uint32_t n)
{
    uint8_t payload[105] = {1, 2, 3};
    put(stream,
        (struct wire_header){.type = WIRE_DATA,
                             .flags = offset + n == sizeof payload ? WIRE_FLAG_LAST : 0,
                             .inference = inference,
                             .offset = offset,
                             .length = n},
        payload + offset);
}

static void put_offer(struct stream *stream, const struct tiny_fragment *fragment)
{
    struct wire_offer offer = {.bytes = fragment->size};
    memcpy(offer.hash, fragment->hash, WIRE_HASH_BYTES);
    put_message(stream, WIRE_OFFER, 0, &offer);
}

static void put_push(struct stream *stream)
{
    put_offer(stream, &offered);
    const struct fragment_header *h = (const struct fragment_header *)offered.bytes;
    /* as the board asks: header, front, and what it cannot copy */
    uint32_t weights = h->section[FRAGMENT_WEIGHTS].offset;
    const uint32_t parts[][2] = {
        {0, sizeof *h}, {sizeof *h, weights}, {weights, weights + 256}, {weights + 256 + 3000, offered.size}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        put(stream,
            (struct wire_header){.type = WIRE_CHUNK,
                                 .flags = WIRE_FLAG_LAST,
                                 .offset = parts[i][0],
                                 .length = parts[i][1] - parts[i][0]},
            offered.bytes + parts[i][0]);
}

static void put_activate(struct stream *stream, uint8_t what, const uint8_t *hash)
{
    struct wire_activate activate = {.what = what};
    memcpy(activate.hash, hash, WIRE_HASH_BYTES);
    put_message(stream, WIRE_ACTIVATE, 0, &activate);
}

static void put_orders(struct stream *stream)
{
    static const uint8_t filler[100];
    for (uint8_t what = 0; what < 6; what++) {
        struct wire_do order = {.what = what, .number = 1, .name = "x"};
        put_message(stream, WIRE_DO, 0, &order);
    }
    put(stream, (struct wire_header){.type = WIRE_PROBE, .transfer = 3, .length = 100}, filler);
    put(stream,
        (struct wire_header){.type = WIRE_PROBE, .flags = WIRE_FLAG_LAST, .offset = 100, .length = 100},
        filler);
    put(stream, (struct wire_header){.type = WIRE_NOP}, NULL);
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    struct stream stream = {out, 1, room};
    struct wire_welcome welcome = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED};
    if (i >= 10)
        return 0;
    make_fragments();
    out[0] = i % 2 == 0 && i < 4 ? 0 : 1; /* what follows a WANT must not come with what leads to it */
    put_message(&stream, WIRE_WELCOME, 0, &welcome);
    switch (i / 2) {
    case 0:
        put_run(&stream, 1, held.hash);
        put_data(&stream, 1, 0, 105);
        put_run(&stream, 2, held.hash);
        put_data(&stream, 2, 0, 5);
        put_data(&stream, 2, 5, 100);
        break;
    case 1:
        put_run(&stream, 1, held.hash);
        put_run(&stream, 2, held.hash);
        put_data(&stream, 1, 0, 50);
        put(&stream, (struct wire_header){.type = WIRE_ABORT, .inference = 1}, NULL);
        put_data(&stream, 1, 50, 55);
        put_data(&stream, 2, 0, 105);
        break;
    case 2:
        put_push(&stream);
        put_activate(&stream, WIRE_HAVE_ACTIVE, offered.hash);
        put_run(&stream, 3, offered.hash);
        put_data(&stream, 3, 0, 105);
        put_activate(&stream, WIRE_HAVE_DROPPED, held.hash);
        break;
    case 3:
        put_offer(&stream, &held);
        put_activate(&stream, WIRE_HAVE_ACTIVE, held.hash);
        put_run(&stream, 1, held.hash);
        put_data(&stream, 1, 0, 105);
        put_activate(&stream, WIRE_HAVE_DROPPED, held.hash);
        put_run(&stream, 2, held.hash);
        put_offer(&stream, &held);
        for (uint32_t at = 0, n; at < held.size;
             at += n) { /* nothing to copy: the header, the front, the rest */
            uint32_t weights =
                ((const struct fragment_header *)(const void *)held.bytes)->section[FRAGMENT_WEIGHTS].offset;
            n = at == 0        ? (uint32_t)sizeof(struct fragment_header)
                : at < weights ? weights - at
                               : held.size - at;
            put(&stream,
                (struct wire_header){.type = WIRE_CHUNK, .flags = WIRE_FLAG_LAST, .offset = at, .length = n},
                held.bytes + at);
        }
        break;
    default:
        put_orders(&stream);
        break;
    }
    return stream.n;
}
