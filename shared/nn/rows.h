/*
 * Addressing that all kernels share: rows and elements of an input and an output, and the part of a window
 * that lies inside the image. Coordinates are computed in 64 bits: no parameter can make them overflow.
 * Private to shared/nn.
 */
#ifndef SHOAL_SHARED_NN_ROWS_H
#define SHOAL_SHARED_NN_ROWS_H

#include "shared/nn/nn.h"
#include "shared/quant/fixed.h"

#include <stddef.h>

/* Loops that pay are vectorised also where the build says -O2, and on x86-64 once more for AVX2, chosen when
 * the program starts. Hosts only: elsewhere it costs code. Not under sanitizers, which are not set up so
 * early. */
#if defined(__x86_64__) && defined(__ELF__) && !defined(SHOAL_SANITIZE) && !defined(__AVX2__)
#define NN_CLONES target_clones("avx2", "default")
#else
#define NN_CLONES
#endif
#if defined(__GNUC__) && !defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define NN_HOT __attribute__((optimize("O3"), NN_CLONES))
#elif defined(__x86_64__) || defined(__aarch64__)
#define NN_HOT __attribute__((NN_CLONES))
#else
#define NN_HOT
#endif

static inline int32_t nn_min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t nn_max(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Row h of the input at column w0, channel c0; NULL outside the image and outside the table. */
static inline const void *nn_in_row(const struct nn_in *in, int64_t h)
{
    int64_t i = h - in->h0;
    return i < 0 || i >= NN_ROWS_MAX ? NULL : in->rows[i];
}

/* Bytes from what a row pointer points at to element (w, c). */
static inline ptrdiff_t nn_in_offset(const struct nn_in *in, int64_t w, int64_t c, int32_t element)
{
    return (ptrdiff_t)((w - in->w0) * in->pixel_stride + (c - in->c0) * element);
}

static inline const int8_t *nn_in_s8(const struct nn_in *in, const void *row, int64_t w, int64_t c)
{
    return (const int8_t *)row + nn_in_offset(in, w, c, 1);
}

/* Element (h, w, out->c0) of the output. */
static inline void *nn_out_pixel(const struct nn_out *out, int32_t h, int32_t w)
{
    return (char *)out->rows[h - out->h0] + (ptrdiff_t)(w - out->w0) * out->pixel_stride;
}

/* Zero points as bytes can have them, so that differences fit int16 whatever a record says. */
static inline int32_t nn_zero_point(int16_t zero_point)
{
    return fixed_clamp(zero_point, -256, 255);
}

/* Dilation 0 is no dilation. */
static inline int32_t nn_dilation(uint16_t dilation)
{
    return dilation > 0 ? dilation : 1;
}

/* The taps [first, last) of a window along one axis that lie inside [lo, hi), and the coordinate of tap 0. */
struct nn_taps {
    int64_t origin;
    int32_t step, first, last;
};

static inline struct nn_taps nn_taps(int32_t o, int32_t kernel, int32_t stride, uint16_t dilation,
                                     int32_t pad, int64_t lo, int64_t hi)
{
    struct nn_taps t = {(int64_t)o * stride - pad, nn_dilation(dilation), 0, 0};
    /* the first tap at or above a bound is ceil((bound - origin) / step) */
    int64_t first = lo > t.origin ? (lo - t.origin + t.step - 1) / t.step : 0;
    int64_t last = hi > t.origin ? (hi - t.origin + t.step - 1) / t.step : 0;
    t.last = (int32_t)(last < kernel ? last : kernel);
    t.first = (int32_t)(first < t.last ? first : t.last);
    return t;
}

/* Rows that the table can hold; NULL entries remain to be tested. */
static inline struct nn_taps nn_taps_h(const struct nn_params *p, const struct nn_in *in, int32_t h)
{
    return nn_taps(h, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, in->h0,
                   (int64_t)in->h0 + NN_ROWS_MAX);
}

static inline struct nn_taps nn_taps_w(const struct nn_params *p, const struct nn_in *in, int32_t w)
{
    return nn_taps(w, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, 0, in->width);
}

#endif
