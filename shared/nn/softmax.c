/*
 * SOFTMAX over the channels of each pixel; the output box holds all of them.
 */
#include "shared/nn/rows.h"

void nn_softmax_s8(const struct nn_params *p, const struct nn_in *in, const struct nn_out *out)
{
    struct quant_softmax parameters = {p->m[0], p->count};
    for (int32_t h = out->h0; h < out->h1; h++) {
        const void *row = nn_in_row(in, h);
        for (int32_t w = out->w0; row && w < out->w1; w++)
            quant_softmax_s8(parameters, nn_in_s8(in, row, w, out->c0), out->c1 - out->c0,
                             nn_out_pixel(out, h, w));
    }
}
