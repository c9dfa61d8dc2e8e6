/*
 * ADD for Cortex-M7: as add.c, for what layers have: two tensors of one shape, both added, right shifts, the
 * whole of int8 as the clamp. Scaling by a multiplier of one half (the input with the larger scale) rounds
 * once, any other twice. Everything else is refused and left to the plain kernel.
 */
#include "shared/nn/dsp.h"
#include "shared/nn/layout.h"
#include "shared/nn/requantise.h"

enum { LEFT_MAX = 20 /* no sum of two reaches 2^30 */ };

struct side {
    int32_t zero; /* zero point, shifted like the input */
    int32_t mantissa, right, half;
};

struct sum {
    struct side a, b;
    int32_t left; /* one more than the left shift */
    int32_t mantissa, factor, zero_point;
};

static inline int32_t scaled(const struct side *s, int32_t q, int32_t left, bool once)
{
    int32_t x = dsp_smmulr((int32_t)((uint32_t)q << left) - s->zero, s->mantissa);
    return once ? x : (x + (x >> 31) + s->half) >> s->right;
}

static inline int8_t add_one(const struct sum *s, int32_t a, int32_t b, bool a_once, bool b_once)
{
    int32_t x = scaled(&s->a, a, s->left, a_once) + scaled(&s->b, b, s->left, b_once);
    x = dsp_smmulr((int32_t)((uint32_t)x << 1), s->mantissa);
    return (int8_t)dsp_ssat8(dsp_smmlar(x + (x >> 31), s->factor, s->zero_point));
}

static inline void add_run(const struct sum *shared, const int8_t *a, const int8_t *b, int8_t *y, int32_t n,
                           bool a_once, bool b_once)
{
    const struct sum own = *shared; /* that no store could alias */
    for (; n >= 4; n -= 4, a += 4, b += 4, y += 4) {
        uint32_t p = dsp_load(a), q = dsp_load(b);
        int8_t out[4];
        for (int i = 0; i < 4; i++)
            out[i] = add_one(&own, (int8_t)(p >> 8 * i), (int8_t)(q >> 8 * i), a_once, b_once);
        memcpy(y, out, sizeof out);
    }
    for (; n > 0; n--)
        *y++ = add_one(&own, *a++, *b++, a_once, b_once);
}

NN_NOINLINE NN_ITCM static void run_second(const struct sum *s, const int8_t *a, const int8_t *b, int8_t *y,
                                           int32_t n)
{
    add_run(s, a, b, y, n, true, false);
}

NN_NOINLINE NN_ITCM static void run_first(const struct sum *s, const int8_t *a, const int8_t *b, int8_t *y,
                                          int32_t n)
{
    add_run(s, a, b, y, n, false, true);
}

NN_NOINLINE static void run_any(const struct sum *s, const int8_t *a, const int8_t *b, int8_t *y, int32_t n)
{
    if (s->a.right == 0)
        add_run(s, a, b, y, n, true, true);
    else
        add_run(s, a, b, y, n, false, false);
}

/* False: not of the kind that this file is for. */
static bool set_side(const struct nn_params *p, int i, struct side *s)
{
    struct quant_multiplier m = p->m[i];
    int32_t zero_point = p->in_zero_point[i];
    if (m.mantissa < 0 || m.shift > 0 || m.shift < -30 || zero_point < INT8_MIN || zero_point > INT8_MAX)
        return false;
    *s = (struct side){zero_point * (2 << p->count), m.mantissa, -m.shift, (1 << -m.shift) >> 1};
    return true;
}

bool nn_add_quick_s8(const struct nn_params *p, const struct nn_in *a, const struct nn_in *b,
                     const struct nn_out *out)
{
    struct nn_output o = nn_output(p);
    struct sum s;
    if (o.lo != INT8_MIN || o.hi != INT8_MAX || p->count < 0 || p->count > LEFT_MAX || p->m[2].shift > -2 ||
        p->m[2].shift < -31 || !set_side(p, 0, &s.a) || !set_side(p, 1, &s.b))
        return false;
    s.left = p->count + 1;
    s.mantissa = p->m[2].mantissa;
    s.factor = (int32_t)(1u << (32 + p->m[2].shift));
    s.zero_point = o.zero_point;
    int32_t width = out->w1 - out->w0, n = out->c1 - out->c0;
    void (*run)(const struct sum *, const int8_t *, const int8_t *, int8_t *, int32_t) =
        (s.a.right == 0) == (s.b.right == 0) ? run_any
        : s.a.right == 0                     ? run_second
                                             : run_first;
    bool solid = a->pixel_stride == n && b->pixel_stride == n && out->pixel_stride == n;
    for (int32_t h = out->h0; h < out->h1; h++) {
        const void *ra = nn_in_row(a, h), *rb = nn_in_row(b, h);
        for (int32_t w = out->w0; ra && rb && w < out->w1; w += solid ? width : 1)
            run(&s, nn_in_s8(a, ra, w, out->c0), nn_in_s8(b, rb, w, out->c0), nn_out_pixel(out, h, w),
                solid ? width * n : n);
    }
    return true;
}
