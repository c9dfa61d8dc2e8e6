/*
 * ADD and, with a negative second multiplier, SUB: both inputs are shifted left, scaled by their own
 * multiplier, added, and requantised once. A negative multiplier means "scale by its magnitude, then
 * subtract": that is what SUB's reference does, and it differs from scaling by a negative number where the
 * rounding is a tie.
 */
#include "shared/nn/requantise.h"

struct side {
    uint32_t zero_point, negative;
    int32_t left, mantissa, shift;
};

static struct side side(const struct nn_params *p, int i)
{
    int32_t m = p->m[i].mantissa;
    struct side s = {(uint32_t)p->in_zero_point[i], m < 0, fixed_clamp(p->count, 0, 31), m, p->m[i].shift};
    if (m < 0)
        s.mantissa = m == INT32_MIN ? INT32_MAX : -m;
    return s;
}

static int32_t scaled(struct side s, int8_t q)
{
    int32_t x = (int32_t)(((uint32_t)q - s.zero_point) << s.left);
    x = nn_scale(x, s.mantissa, s.shift);
    return s.negative ? fixed_sub(0, x) : x;
}

void nn_add_s8(const struct nn_params *p, const struct nn_in *a, const struct nn_in *b, enum nn_bcast bcast,
               const struct nn_out *out)
{
    struct side sa = side(p, 0), sb = side(p, 1);
    struct nn_output o = nn_output(p);
    struct quant_multiplier m = p->m[2];
    int32_t step = bcast == NN_BCAST_SCALAR ? 0 : 1;
    for (int32_t h = out->h0; h < out->h1; h++) {
        const void *ra = nn_in_row(a, h), *rb = bcast ? b->rows[0] : nn_in_row(b, h);
        for (int32_t w = out->w0; ra && rb && w < out->w1; w++) {
            const int8_t *xa = nn_in_s8(a, ra, w, out->c0);
            const int8_t *xb = nn_in_s8(b, rb, bcast ? b->w0 : w, step ? out->c0 : b->c0);
            int8_t *y = nn_out_pixel(out, h, w);
            for (int32_t c = 0, n = out->c1 - out->c0; c < n; c++) {
                int32_t sum = fixed_add(scaled(sa, xa[c]), scaled(sb, xb[c * step]));
                y[c] = nn_emit(o, nn_scale(sum, m.mantissa, m.shift));
            }
        }
    }
}
