/*
 * Tensors for kernel tests: a map is an H x W x C tensor in memory of exactly its size (address sanitizer
 * sees the byte beyond), from which row tables are made by hand for any box. Not thread-safe; tests only.
 */
#ifndef SHOAL_TESTS_SUPPORT_NN_MAP_H
#define SHOAL_TESTS_SUPPORT_NN_MAP_H

#include "shared/nn/nn.h"
#include "tests/support/prng.h"

#include <stdlib.h>
#include <string.h>

struct map {
    int32_t h, w, c, element;
    int32_t pixel_stride, row_stride; /* bytes; a pixel may be wider than its channels */
    char *bytes;
};

/* A row table, kept by the caller while the kernel runs. */
struct map_rows {
    const void *in[NN_ROWS_MAX];
    void *out[NN_ROWS_MAX];
};

static inline struct map map_new(int32_t h, int32_t w, int32_t c, int32_t element, int32_t slack)
{
    struct map map = {h, w, c, element, (c + slack) * element, 0, NULL};
    map.row_stride = map.pixel_stride * w;
    map.bytes = calloc((size_t)h * (size_t)map.row_stride + 1, 1);
    if (!map.bytes)
        abort();
    return map;
}

static inline void map_free(struct map *map)
{
    free(map->bytes);
    map->bytes = NULL;
}

static inline void *map_at(const struct map *map, int32_t h, int32_t w, int32_t c)
{
    return map->bytes + (ptrdiff_t)h * map->row_stride + (ptrdiff_t)w * map->pixel_stride +
           (ptrdiff_t)c * map->element;
}

static inline int8_t map_s8(const struct map *map, int32_t h, int32_t w, int32_t c)
{
    return *(const int8_t *)map_at(map, h, w, c);
}

static inline int32_t map_s32(const struct map *map, int32_t h, int32_t w, int32_t c)
{
    int32_t value;
    memcpy(&value, map_at(map, h, w, c), sizeof value);
    return value;
}

static inline void map_random(struct map *map, struct prng *prng)
{
    prng_fill(prng, map->bytes, (size_t)map->h * (size_t)map->row_stride);
}

/* The map as an input whose table holds rows [h0, h1), which may lie outside the map, pointing at (w0, c0).
 */
static inline struct nn_in map_in(const struct map *map, struct map_rows *rows, int32_t h0, int32_t h1,
                                  int32_t w0, int32_t c0)
{
    memset(rows->in, 0, sizeof rows->in);
    for (int32_t h = h0; h < h1; h++)
        rows->in[h - h0] = h >= 0 && h < map->h ? map_at(map, h, w0, c0) : NULL;
    return (struct nn_in){rows->in, h0, w0, c0, map->pixel_stride, map->w};
}

static inline struct nn_out map_out(const struct map *map, struct map_rows *rows, int32_t h0, int32_t h1,
                                    int32_t w0, int32_t w1, int32_t c0, int32_t c1)
{
    memset(rows->out, 0, sizeof rows->out);
    for (int32_t h = h0; h < h1; h++)
        rows->out[h - h0] = map_at(map, h, w0, c0);
    return (struct nn_out){rows->out, h0, h1, w0, w1, c0, c1, map->pixel_stride};
}

static inline struct nn_out map_out_all(const struct map *map, struct map_rows *rows)
{
    return map_out(map, rows, 0, map->h, 0, map->w, 0, map->c);
}

#endif
