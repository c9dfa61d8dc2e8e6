/*
 * LUT: any element-wise int8 function as a table of 256, indexed by q + 128. In and out may be the same
 * memory.
 */
#include "shared/nn/rows.h"

void nn_lut_s8(const int8_t table[256], const struct nn_in *in, const struct nn_out *out)
{
    for (int32_t h = out->h0; h < out->h1; h++) {
        const void *row = nn_in_row(in, h);
        for (int32_t w = out->w0; row && w < out->w1; w++) {
            const int8_t *x = nn_in_s8(in, row, w, out->c0);
            int8_t *y = nn_out_pixel(out, h, w);
            for (int32_t c = 0; c < out->c1 - out->c0; c++)
                y[c] = table[x[c] - INT8_MIN];
        }
    }
}
