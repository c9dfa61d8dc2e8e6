/*
 * MUL: (a - zero point) * (b - zero point), requantised by one multiplier.
 */
#include "shared/nn/requantise.h"

void nn_mul_s8(const struct nn_params *p, const struct nn_in *a, const struct nn_in *b, enum nn_bcast bcast,
               const struct nn_out *out)
{
    int32_t za = nn_zero_point(p->in_zero_point[0]), zb = nn_zero_point(p->in_zero_point[1]);
    struct nn_output o = nn_output(p);
    struct quant_multiplier m = p->m[0];
    int32_t step = bcast == NN_BCAST_SCALAR ? 0 : 1;
    for (int32_t h = out->h0; h < out->h1; h++) {
        const void *ra = nn_in_row(a, h), *rb = bcast ? b->rows[0] : nn_in_row(b, h);
        for (int32_t w = out->w0; ra && rb && w < out->w1; w++) {
            const int8_t *xa = nn_in_s8(a, ra, w, out->c0);
            const int8_t *xb = nn_in_s8(b, rb, bcast ? b->w0 : w, step ? out->c0 : b->c0);
            int8_t *y = nn_out_pixel(out, h, w);
            for (int32_t c = 0, n = out->c1 - out->c0; c < n; c++)
                y[c] = nn_emit(o, nn_scale((xa[c] - za) * (xb[c * step] - zb), m.mantissa, m.shift));
        }
    }
}
