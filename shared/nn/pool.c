/*
 * AVERAGE_POOL and MAX_POOL, finished at once. Only taps inside the image count, also for the divisor.
 * Channels go in blocks whose sums are on the stack, so that the loop over taps is outermost and the loop
 * over channels vectorises. A window without any tap gives zero, clamped.
 */
#include "shared/nn/requantise.h"

enum { BLOCK = 64 };

struct window {
    struct nn_taps h, w;
};

NN_HOT static void add_block(const int8_t *x, int32_t n, int32_t *sums)
{
    for (int32_t c = 0; c < n; c++)
        sums[c] = fixed_add(sums[c], x[c]);
}

NN_HOT static void max_block(const int8_t *x, int32_t n, int32_t *most)
{
    for (int32_t c = 0; c < n; c++)
        most[c] = x[c] > most[c] ? x[c] : most[c];
}

/* Sums or maxima of channels [c, c + n); returns how many taps there were. */
static int32_t gather(const struct nn_params *p, const struct nn_in *in, const struct window *window,
                      int32_t c, int32_t n, int32_t *values)
{
    int32_t taps = 0;
    for (int32_t i = 0; i < n; i++)
        values[i] = p->flags & NN_FLAG_MAX ? INT8_MIN : 0;
    for (int32_t kh = window->h.first; kh < window->h.last; kh++) {
        const void *row = nn_in_row(in, window->h.origin + (int64_t)kh * window->h.step);
        for (int32_t kw = window->w.first; row && kw < window->w.last; kw++, taps++) {
            const int8_t *x = nn_in_s8(in, row, window->w.origin + (int64_t)kw * window->w.step, c);
            if (p->flags & NN_FLAG_MAX)
                max_block(x, n, values);
            else
                add_block(x, n, values);
        }
    }
    return taps;
}

static int32_t divide(const struct nn_params *p, int32_t sum, int32_t taps)
{
    int64_t half = taps / 2;
    if (p->flags & NN_FLAG_LEGACY_UINT8)
        return (int32_t)((sum + (int64_t)128 * taps + half) / taps - 128);
    return (int32_t)((sum > 0 ? sum + half : sum - half) / taps);
}

static void pool_pixel(const struct nn_params *p, const struct nn_in *in, const struct window *window,
                       int32_t c0, int32_t c1, int8_t *y)
{
    int32_t values[BLOCK];
    struct nn_output o = nn_output(p);
    for (int32_t c = c0; c < c1; c += BLOCK) {
        int32_t n = nn_min(c1 - c, BLOCK), taps = gather(p, in, window, c, n, values);
        for (int32_t i = 0; i < n; i++) {
            int32_t value = taps == 0 ? 0 : p->flags & NN_FLAG_MAX ? values[i] : divide(p, values[i], taps);
            *y++ = nn_clamp(o, value);
        }
    }
}

void nn_pool_s8(const struct nn_params *p, const struct nn_in *in, int32_t height, const struct nn_out *out)
{
    int64_t lo = nn_max(in->h0, 0), hi = (int64_t)in->h0 + NN_ROWS_MAX;
    hi = height < hi ? height : hi;
    struct window window;
    for (int32_t h = out->h0; h < out->h1; h++) {
        window.h = nn_taps(h, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, lo, hi);
        for (int32_t w = out->w0; w < out->w1; w++) {
            window.w = nn_taps_w(p, in, w);
            pool_pixel(p, in, &window, out->c0, out->c1, nn_out_pixel(out, h, w));
        }
    }
}
