/*
 * Depthwise convolution with any multiplier, finished at once. Channels go in blocks whose sums are on the
 * stack, taps are outside, so that the loop over channels vectorises. Taps outside the image are left out;
 * zero points are subtracted while widening. Sums wrap.
 */
#include "shared/nn/requantise.h"

enum { BLOCK = 64 };

/* One tap of n output channels that read input channels one to one. */
static inline void tap_single(const int8_t *x, const int8_t *w, int32_t n, int16_t zx, int16_t zw,
                              int32_t *sums)
{
    for (int32_t c = 0; c < n; c++) {
        int16_t a = (int16_t)(x[c] - zx), b = (int16_t)(w[c] - zw);
        sums[c] = fixed_add(sums[c], a * b);
    }
}

/* Output channel c reads input channel c / m; `x` points at input channel 0's place. */
static void tap_multiple(const int8_t *x, int32_t c, int32_t m, const int8_t *w, int32_t n, int16_t zx,
                         int16_t zw, int32_t *sums)
{
    for (int32_t i = 0; i < n; i++)
        sums[i] = fixed_add(sums[i], (x[(c + i) / m] - zx) * (w[i] - zw));
}

struct window {
    struct nn_taps h, w;
};

/* Sums of output channels [c, c + n). */
NN_HOT static void gather(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                          const struct window *window, int32_t c, int32_t n, int32_t *sums)
{
    int16_t zx = (int16_t)nn_zero_point(p->in_zero_point[0]),
            zw = (int16_t)nn_zero_point(p->weight_zero_point);
    int32_t m = p->multiplier > 1 ? p->multiplier : 1;
    ptrdiff_t depth = w->c1 - w->c0;
    for (int32_t i = 0; i < n; i++)
        sums[i] = 0;
    for (int32_t kh = window->h.first; kh < window->h.last; kh++) {
        const void *row = nn_in_row(in, window->h.origin + (int64_t)kh * window->h.step);
        for (int32_t kw = window->w.first; row && kw < window->w.last; kw++) {
            int64_t column = window->w.origin + (int64_t)kw * window->w.step;
            const int8_t *taps = w->values + ((ptrdiff_t)kh * p->kernel_w + kw) * depth + (c - w->c0);
            int32_t base = c / m; /* first input channel of the block */
            const int8_t *x = nn_in_s8(in, row, column, base);
            if (m == 1)
                tap_single(x, taps, n, zx, zw, sums);
            else
                tap_multiple(x, c - base * m, m, taps, n, zx, zw, sums);
        }
    }
}

static void pixel(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                  const struct window *window, int32_t c0, int32_t c1, int8_t *y)
{
    int32_t sums[BLOCK];
    struct nn_output o = nn_output(p);
    for (int32_t c = c0; c < c1; c += BLOCK) {
        int32_t n = nn_min(c1 - c, BLOCK);
        gather(p, w, in, window, c, n, sums);
        nn_requantise(o, w, c - w->c0, sums, n, y);
        y += n;
    }
}

void nn_depthwise_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                     const struct nn_out *out)
{
    int32_t c0 = nn_max(out->c0, w->c0), c1 = nn_min(out->c1, w->c1);
    struct window window;
    for (int32_t h = out->h0; h < out->h1; h++) {
        window.h = nn_taps_h(p, in, h);
        for (int32_t col = out->w0; col < out->w1; col++) {
            window.w = nn_taps_w(p, in, col);
            pixel(p, w, in, &window, c0, c1, (int8_t *)nn_out_pixel(out, h, col) + (c0 - out->c0));
        }
    }
}
