/*
 * A convolution that makes one pixel (fully connected) from NN_LAYOUT_FOURS. Two weights in a row are one
 * int16, so that a word meets the odd activations as it is and the even ones after a single widening
 * (layout.h has the algebra). Biases hold the zero points already.
 */
#include "shared/nn/requantise.h"
#include "shared/nn/scratch.h"
#include "shared/nn/tiles.h"

struct call {
    const struct nn_params *p;
    const struct nn_weights *w;
    const struct nn_in *in;
    int32_t k; /* weights of a channel, a multiple of 4 */
    uint32_t *x, *x_end;
    uint8_t *line;
};

uint32_t nn_conv_fours_scratch(const struct nn_work *work)
{
    int64_t k = (int64_t)work->p->kernel_h * work->p->kernel_w * work->depth;
    return k > UINT16_MAX ? UINT32_MAX : (uint32_t)((3 * k + 7) / 8 * 8);
}

/* The window of the output pixel (h, w) as one string, the zero point outside the image. */
static void gather(const struct call *call, int32_t h, int32_t w)
{
    const struct nn_params *p = call->p;
    struct nn_taps rows = nn_taps_h(p, call->in, h), columns = nn_taps_w(p, call->in, w);
    size_t deep = (size_t)(call->w->k1 - call->w->k0);
    memset(call->line, (uint8_t)p->in_zero_point[0], (size_t)call->k);
    for (int32_t kh = rows.first; kh < rows.last; kh++) {
        const void *row = nn_in_row(call->in, rows.origin + (int64_t)kh * rows.step);
        uint8_t *line = call->line + (size_t)(kh * p->kernel_w) * deep;
        for (int32_t kw = columns.first; row && kw < columns.last; kw++)
            memcpy(line + (size_t)kw * deep,
                   nn_in_s8(call->in, row, columns.origin + (int64_t)kw * columns.step, call->w->k0), deep);
    }
}

/* Of every four activations: (a1, a3), then (256 a0 - a1 + 127, 256 a2 - a3 + 127). */
static void pair_up(const struct call *call)
{
    const int8_t *a = (const int8_t *)call->line;
    for (uint32_t *x = call->x; x != call->x_end; x += 2, a += 4) {
        x[0] = dsp_pair(a[1], a[3]);
        x[1] = dsp_pair(256 * a[0] - a[1] + 127, 256 * a[2] - a[3] + 127);
    }
}

/* One channel of a group of n: number i. */
static int32_t dot_one(const struct call *call, const int8_t *group, int32_t n, int32_t i, int32_t bias)
{
    const int8_t *w = group + 4 * i;
    int64_t sum = 0;
    for (const uint32_t *x = call->x; x != call->x_end; x += 2, w += 4 * n)
        sum += fours_step(dsp_load(w), x);
    return fixed_add(bias, (int32_t)(uint32_t)(uint64_t)((sum + 255) >> 8));
}

NN_NOINLINE static int8_t finish_any(const struct nn_output *o, int32_t sum, int32_t mantissa, int32_t shift)
{
    return nn_emit(*o, nn_scale(sum, mantissa, shift));
}

/* The quick way of conv_pairs.c where it is exact: a right shift by 2 to 31, a sum below 2^30, int8's clamp.
 */
static inline void finish(const struct nn_weights *w, const struct nn_output *o, bool full, int32_t first,
                          int32_t n, const int32_t *sums, int8_t *y)
{
    const int32_t *mantissa = w->mantissa + first, *shifts = w->shift + first;
    for (int32_t i = 0; i < n; i++) {
        int32_t shift = shifts[i], sum = sums[i];
        if (full && (uint32_t)(shift + 31) < 30 && (uint32_t)sum + (1u << 30) < 1u << 31) {
            sum = dsp_smmulr(sum * 2, mantissa[i]);
            sum = dsp_smmlar(sum + (sum >> 31), (int32_t)(1u << (32 + shift)), o->zero_point);
            y[i] = (int8_t)dsp_ssat8(sum);
        } else {
            y[i] = finish_any(o, sum, mantissa[i], shift);
        }
    }
}

/* Channels [c0, c1), counted from the slice's first. */
NN_NOINLINE NN_ITCM static void run_pixel(const struct call *call, int32_t c0, int32_t c1, int8_t *y)
{
    const struct nn_weights *w = call->w;
    struct nn_output o = nn_output(call->p);
    int32_t all = w->c1 - w->c0;
    bool full = o.lo == INT8_MIN && o.hi == INT8_MAX;
    for (int32_t c = c0, n; c < c1; c += n, y += n) {
        int32_t sums[FOURS_CHANNELS], first = c & ~(FOURS_CHANNELS - 1);
        int32_t size = nn_min(all - first, FOURS_CHANNELS);
        const int8_t *group = w->values + (ptrdiff_t)first * call->k;
        n = nn_min(c1, first + size) - c;
        if (n == FOURS_CHANNELS) {
            memcpy(sums, w->bias + c, sizeof sums);
            fours_dot(group, call->x, call->x_end, sums);
        } else {
            for (int32_t i = 0; i < n; i++)
                sums[i] = dot_one(call, group, size, c - first + i, w->bias[c + i]);
        }
        finish(w, &o, full, c, n, sums, y);
    }
}

void nn_conv_fours_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                      const struct nn_out *out, struct nn_scratch scratch)
{
    struct call call = {.p = p, .w = w, .in = in, .k = p->kernel_h * p->kernel_w * (w->k1 - w->k0)};
    int32_t c0 = nn_max(out->c0, w->c0), c1 = nn_min(out->c1, w->c1);
    if (call.k % 4 != 0 || call.k <= 0 || (int64_t)3 * call.k > scratch.size)
        return;
    call.x = scratch.bytes;
    call.x_end = call.x + call.k / 2;
    call.line = (uint8_t *)call.x_end;
    for (int32_t h = out->h0; h < out->h1; h++)
        for (int32_t col = out->w0; col < out->w1; col++) {
            gather(&call, h, col);
            pair_up(&call);
            run_pixel(&call, c0 - w->c0, c1 - w->c0, (int8_t *)nn_out_pixel(out, h, col) + (c0 - out->c0));
        }
}
