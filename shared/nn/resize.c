/*
 * RESIZE_NEAREST_NEIGHBOR. The source coordinate is computed in single precision, operation by operation as
 * TensorFlow Lite does: exact fractions give another pixel for some sizes.
 */
#include "shared/nn/rows.h"

#include <string.h>

int32_t nn_resize_source(int32_t o, int32_t in, int32_t out, uint32_t flags)
{
    if (in <= 0 || out <= 0 || o < 0)
        return 0;
    volatile float scale,
        position; /* rounded to single precision at each step, whatever the compiler fuses */
    if ((flags & NN_FLAG_ALIGN_CORNERS) && out > 1)
        scale = (float)(in - 1) / (float)(out - 1);
    else
        scale = (float)in / (float)out;
    position = (float)o + (flags & NN_FLAG_HALF_PIXEL ? 0.5f : 0.0f);
    position = position * scale;
    if (position >= (float)(in - 1))
        return in - 1;
    int32_t source = (int32_t)position;
    if ((flags & NN_FLAG_ALIGN_CORNERS) && position - (float)source >= 0.5f)
        source++;
    return source;
}

void nn_resize_s8(const struct nn_params *p, const struct nn_in *in, const struct nn_out *out)
{
    if (out->c1 <= out->c0)
        return;
    for (int32_t h = out->h0; h < out->h1; h++) {
        const void *row = nn_in_row(in, nn_resize_source(h, p->in_h, p->out_h, p->flags));
        for (int32_t w = out->w0; row && w < out->w1; w++) {
            int32_t column = nn_resize_source(w, p->in_w, p->out_w, p->flags);
            if (column >= in->width)
                break;
            memmove(nn_out_pixel(out, h, w), nn_in_s8(in, row, column, out->c0), (size_t)(out->c1 - out->c0));
        }
    }
}
