/*
 * FINISH ends int32 sums: bias and per-channel requantisation (CONV), zero points and one multiplier (MEAN),
 * or division by the taps (AVERAGE_POOL), then the clamp, into int8. In place it relies on going h, w, c
 * upward: element i is read before byte i is written, and byte i lies at or below it.
 */
#include "shared/nn/requantise.h"

/* Rounds half away from zero; legacy uint8 rounds half up on the unsigned sum. */
static int32_t average(const struct nn_params *p, int32_t sum)
{
    if (p->count <= 0)
        return 0;
    int64_t n = p->count, half = n / 2;
    if (p->flags & NN_FLAG_LEGACY_UINT8)
        return (int32_t)(((int64_t)sum + 128 * n + half) / n - 128);
    return (int32_t)((sum > 0 ? sum + half : sum - half) / n);
}

static int32_t mean(const struct nn_params *p, int32_t sum)
{
    int32_t offset = (int32_t)((uint32_t)p->count * (uint32_t)p->in_zero_point[0]);
    return fixed_scale(fixed_sub(sum, offset), p->m[0].mantissa, p->m[0].shift);
}

static void finish_pixel(const struct nn_params *p, const struct nn_weights *w, const int32_t *sums,
                         int32_t c0, int32_t c1, int8_t *y)
{
    struct nn_output o = nn_output(p);
    if (p->flags & NN_FLAG_AVERAGE) {
        for (int32_t c = c0; c < c1; c++)
            *y++ = nn_clamp(o, average(p, *sums++));
    } else if (p->flags & NN_FLAG_MEAN) {
        for (int32_t c = c0; c < c1; c++)
            *y++ = nn_emit(o, mean(p, *sums++));
    } else if (w) {
        nn_requantise(o, w, c0 - w->c0, sums, c1 - c0, y);
    }
}

void nn_finish_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                  const struct nn_out *out)
{
    int32_t c0 = w ? nn_max(out->c0, w->c0) : out->c0, c1 = w ? nn_min(out->c1, w->c1) : out->c1;
    for (int32_t h = out->h0; h < out->h1; h++) {
        const char *row = nn_in_row(in, h);
        for (int32_t col = out->w0; row && col < out->w1; col++) {
            const int32_t *sums = (const void *)(row + nn_in_offset(in, col, c0, 4));
            finish_pixel(p, w, sums, c0, c1, (int8_t *)nn_out_pixel(out, h, col) + (c0 - out->c0));
        }
    }
}
