/*
 * SUM adds raw values of an input's rows, columns or channels to int32 sums (global pools); ZERO starts such
 * sums. Zero points are subtracted by FINISH, so that sums of any parts add up. Sums wrap.
 */
#include "shared/nn/rows.h"

#include <stdbool.h>
#include <string.h>

void nn_zero_s32(const struct nn_out *out)
{
    if (out->c1 <= out->c0)
        return;
    size_t bytes = (size_t)(out->c1 - out->c0) * sizeof(int32_t);
    for (int32_t h = out->h0; h < out->h1; h++)
        for (int32_t w = out->w0; w < out->w1; w++)
            memset(nn_out_pixel(out, h, w), 0, bytes);
}

NN_HOT static void add_pixel(const int8_t *x, int32_t n, int32_t *sums)
{
    for (int32_t c = 0; c < n; c++)
        sums[c] = fixed_add(sums[c], x[c]);
}

NN_HOT static void add_channels(const int8_t *x, int32_t n, int32_t *sum)
{
    int32_t total = 0;
    for (int32_t c = 0; c < n; c++)
        total = fixed_add(total, x[c]);
    *sum = fixed_add(*sum, total);
}

enum { REDUCE_H = 1, REDUCE_W = 2, REDUCE_C = 4 };

/* Input row h into output row `to`. */
static void add_row(const struct nn_params *p, const struct nn_in *in, int32_t h, int32_t ca, int32_t cb,
                    const struct nn_out *out, int32_t to)
{
    const void *row = nn_in_row(in, h);
    if (!row)
        return;
    for (int32_t w = p->reduce & REDUCE_W ? 0 : out->w0; w < (p->reduce & REDUCE_W ? in->width : out->w1);
         w++) {
        int32_t *sums = nn_out_pixel(out, to, p->reduce & REDUCE_W ? out->w0 : w);
        if (p->reduce & REDUCE_C)
            add_channels(nn_in_s8(in, row, w, ca), cb - ca, sums);
        else
            add_pixel(nn_in_s8(in, row, w, out->c0), out->c1 - out->c0, sums);
    }
}

void nn_sum_s32(const struct nn_params *p, const struct nn_in *in, int32_t ha, int32_t hb, int32_t ca,
                int32_t cb, const struct nn_out *out)
{
    if (out->h1 <= out->h0 || out->w1 <= out->w0 || out->c1 <= out->c0)
        return;
    bool reduce_h = p->reduce & REDUCE_H;
    int32_t from = reduce_h ? ha : nn_max(ha, out->h0), to = reduce_h ? hb : nn_min(hb, out->h1);
    for (int32_t h = from; h < to; h++)
        add_row(p, in, h, ca, cb, out, reduce_h ? out->h0 : h);
}
