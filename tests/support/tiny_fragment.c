/* Writes every record by hand: an example of the format, and independent of the emitter. */
#include "tests/support/tiny_fragment.h"

#include "server/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { X, Y, VIEWS };
enum { RANGE_H, RANGE_W, RANGE_C, RANGES };
enum { DOWN, UP, TRANSFERS };

static uint32_t aligned(uint32_t bytes)
{
    return (bytes + FRAGMENT_ALIGN - 1) / FRAGMENT_ALIGN * FRAGMENT_ALIGN;
}

static struct fragment_range constant(uint16_t end)
{
    return (struct fragment_range){
        .b1 = end, .div = 1, .hi = end, .parent = FRAGMENT_NONE, .loop = FRAGMENT_NO_LOOP};
}

static struct fragment_view view(const struct tiny_fragment *t, uint16_t tensor, uint32_t offset)
{
    return (struct fragment_view){.offset = offset,
                                  .row_stride = (uint32_t)t->w * t->c,
                                  .pixel_stride = t->c,
                                  .tensor = tensor,
                                  .elem = 1,
                                  .rows = t->h,
                                  .w_cap = t->w,
                                  .c_cap = t->c,
                                  .h = t->h,
                                  .w = t->w,
                                  .c = t->c,
                                  .h0 = FRAGMENT_NONE,
                                  .w0 = FRAGMENT_NONE,
                                  .c0 = FRAGMENT_NONE};
}

static struct fragment_code code(uint8_t op, uint16_t in, uint16_t out, uint32_t arg)
{
    bool wait = op == FRAGMENT_WAIT;
    return (struct fragment_code){.op = op,
                                  .loop = FRAGMENT_NO_LOOP,
                                  .params = FRAGMENT_NONE,
                                  .in = {in, FRAGMENT_NONE},
                                  .out = out,
                                  .scratch = FRAGMENT_NONE,
                                  .h = wait ? FRAGMENT_NONE : RANGE_H,
                                  .w = wait ? FRAGMENT_NONE : RANGE_W,
                                  .c = wait ? FRAGMENT_NONE : RANGE_C,
                                  .k = FRAGMENT_NONE,
                                  .slice = op == FRAGMENT_LUT ? 0 : FRAGMENT_NONE,
                                  .layer = op == FRAGMENT_LUT ? 5 : FRAGMENT_NONE,
                                  .arg = arg};
}

static void fill_transfers(const struct tiny_fragment *t, struct fragment_transfer *transfers)
{
    struct fragment_transfer whole = {.h1 = t->h, .w1 = t->w, .c1 = t->c};
    transfers[DOWN] = transfers[UP] = whole;
    transfers[DOWN].rank = 1;
    transfers[DOWN].to = t->party;
    transfers[UP].id = 1;
    transfers[UP].exchange = 1;
    transfers[UP].rank = 2;
    transfers[UP].from = t->party;
}

static void fill_slice(struct fragment_slice *slice, uint8_t kind, uint32_t offset, uint32_t bytes,
                       const uint8_t *weights)
{
    slice->offset = offset;
    slice->bytes = slice->total_bytes = bytes;
    slice->kind = kind;
    slice->resident_offset = UINT32_MAX;
    hash_sha256(weights + offset, bytes, slice->sha256);
}

static void fill_weights(const struct tiny_fragment *t, struct fragment_writer *w)
{
    for (int i = 0; i < 256; i++)
        w->weights[i] = (uint8_t)(i - 128 + t->add); /* table[q + 128] = q + add */
    fill_slice(&w->slices[0], FRAGMENT_SLICE_TABLE, 0, 256, w->weights);
    if (t->resident_bytes >= 256)
        w->slices[0].resident_offset = 0;
    uint32_t offset = 256;
    for (uint32_t i = 0; i < t->fillers; i++) {
        for (uint32_t k = 0; k < t->filler[i].bytes; k++)
            w->weights[offset + k] = (uint8_t)(k * 7 + (k >> 8) + t->filler[i].seed);
        fill_slice(&w->slices[1 + i], FRAGMENT_SLICE_CONSTANT, offset, t->filler[i].bytes, w->weights);
        offset += aligned(t->filler[i].bytes);
    }
}

static void fill_whole(struct fragment_writer *w)
{
    w->code[0] = code(FRAGMENT_POST, FRAGMENT_NONE, X, DOWN);
    w->code[1] = code(FRAGMENT_WAIT, FRAGMENT_NONE, FRAGMENT_NONE, 1);
    w->code[2] = code(FRAGMENT_LUT, X, Y, 0);
    w->code[3] = code(FRAGMENT_SEND, Y, FRAGMENT_NONE, UP);
    w->code[4] = code(FRAGMENT_WAIT, FRAGMENT_NONE, FRAGMENT_NONE, 2);
}

static void fill_rows(const struct tiny_fragment *t, struct fragment_writer *w)
{
    w->ranges[RANGE_H] =
        (struct fragment_range){.a = 1, .b1 = 1, .div = 1, .hi = t->h, .parent = FRAGMENT_NONE, .loop = 0};
    w->code[0] = code(FRAGMENT_WAIT, FRAGMENT_NONE, FRAGMENT_NONE, t->h);
    w->code[0].op = FRAGMENT_LOOP;
    w->code[0].loop = 0;
    w->code[1] = code(FRAGMENT_RECV, FRAGMENT_NONE, X, DOWN);
    w->code[2] = code(FRAGMENT_LUT, X, Y, 0);
    w->code[3] = code(FRAGMENT_SEND, Y, FRAGMENT_NONE, UP);
    w->code[4] = code(FRAGMENT_WAIT, FRAGMENT_NONE, FRAGMENT_NONE, 0);
    w->code[4].op = FRAGMENT_END;
    w->code[5] = code(FRAGMENT_WAIT, FRAGMENT_NONE, FRAGMENT_NONE, 2);
}

void tiny_fragment_make(struct tiny_fragment *t)
{
    uint32_t map = (uint32_t)t->h * t->w * t->c, weights = 256;
    struct fragment_writer w;
    for (uint32_t i = 0; i < t->fillers; i++)
        weights += aligned(t->filler[i].bytes);
    struct fragment_layout layout = {
        RANGES, VIEWS, t->by_rows ? 6 : 5, TRANSFERS, 0, (uint16_t)(1 + t->fillers), weights};
    t->size = (uint32_t)fragment_image_bytes(&layout);
    t->bytes = aligned_alloc(16, aligned(t->size));
    if (t->bytes == NULL || fragment_write(&w, &layout, t->bytes, t->size) < 0)
        abort();
    w.header->party = t->party;
    w.header->arena_bytes = w.header->peak_bytes = 2 * aligned(map);
    w.header->executions = t->by_rows ? 3u * t->h + 1 : 5;
    w.header->ranks = 3;
    w.header->resident_bytes = t->resident_bytes;
    w.ranges[RANGE_H] = constant(t->h);
    w.ranges[RANGE_W] = constant(t->w);
    w.ranges[RANGE_C] = constant(t->c);
    w.views[X] = view(t, 0, 0);
    w.views[Y] = view(t, 1, aligned(map));
    if (t->by_rows)
        fill_rows(t, &w);
    else
        fill_whole(&w);
    fill_transfers(t, w.transfers);
    fill_weights(t, &w);
    hash_sha256(t->bytes, t->size, t->hash);
}

void tiny_fragment_free(struct tiny_fragment *t)
{
    free(t->bytes);
    t->bytes = NULL;
}
