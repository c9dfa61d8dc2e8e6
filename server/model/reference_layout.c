/*
 * Reference operators that move elements: PAD, RESHAPE, CONCAT, RESIZE_NEAREST, TRANSPOSE. TRANSPOSE and
 * RESHAPE take any type, since they also stand at a graph's float ends.
 */
#include "server/model/reference_kernels.h"

#include <math.h>
#include <string.h>

static int64_t offset(struct shape shape, int32_t h, int32_t w, int32_t c)
{
    return ((int64_t)h * shape.w + w) * shape.c + c;
}

void reference_reshape(struct reference_call call)
{
    memcpy(reference_out(call), reference_in(call, 0), tensor_bytes(reference_output(call)));
}

void reference_pad(struct reference_call call)
{
    const struct op *op = call.op;
    struct shape in = reference_input(call, 0)->shape, out = reference_output(call)->shape;
    const int8_t *from = reference_in(call, 0);
    int8_t *to = reference_out(call);
    for (int32_t h = 0; h < out.h; h++)
        for (int32_t w = 0; w < out.w; w++)
            for (int32_t c = 0; c < out.c; c++) {
                int32_t ih = h - op->pad_top, iw = w - op->pad_left, ic = c - op->pad_c0;
                bool inside = ih >= 0 && ih < in.h && iw >= 0 && iw < in.w && ic >= 0 && ic < in.c;
                *to++ = inside ? from[offset(in, ih, iw, ic)] : (int8_t)op->fill;
            }
}

/* Copies input `i` to where it lies in the output, requantised if its scale or zero point is another. */
static void concat_input(struct reference_call call, int32_t i, const int32_t at[3])
{
    const struct tensor *from = reference_input(call, i), *to = reference_output(call);
    struct reference_multiplier m = reference_multiplier((double)from->quant.scale / (double)to->quant.scale);
    bool same = from->quant.scale == to->quant.scale && from->quant.zero_point == to->quant.zero_point;
    const int8_t *in = reference_in(call, i);
    int8_t *out = reference_out(call);
    for (int32_t h = 0; h < from->shape.h; h++)
        for (int32_t w = 0; w < from->shape.w; w++)
            for (int32_t c = 0; c < from->shape.c; c++) {
                int8_t value = *in++;
                if (!same)
                    value = reference_int8(reference_scale(value - from->quant.zero_point, m),
                                           to->quant.zero_point, -128, 127);
                out[offset(to->shape, at[0] + h, at[1] + w, at[2] + c)] = value;
            }
}

void reference_concat(struct reference_call call)
{
    int32_t at[3] = {0, 0, 0};
    for (int32_t i = 0; i < call.op->n_inputs; i++) {
        struct shape in = reference_input(call, i)->shape;
        concat_input(call, i, at);
        at[call.op->axis] += call.op->axis == 0 ? in.h : call.op->axis == 1 ? in.w : in.c;
    }
}

/* In float, as TensorFlow Lite; the operator table has its own, which this must not use. */
static int32_t nearest(const struct op *op, int32_t o, int32_t in, int32_t out)
{
    float scale = (float)in / (float)out, centre = op->half_pixel_centers ? 0.5f : 0.0f;
    if (op->align_corners && out > 1)
        scale = (float)(in - 1) / (float)(out - 1);
    float source = ((float)o + centre) * scale;
    int32_t index = (int32_t)(op->align_corners ? roundf(source) : floorf(source));
    return index < in - 1 ? index : in - 1;
}

void reference_resize(struct reference_call call)
{
    struct shape in = reference_input(call, 0)->shape, out = reference_output(call)->shape;
    const int8_t *from = reference_in(call, 0);
    int8_t *to = reference_out(call);
    for (int32_t h = 0; h < out.h; h++)
        for (int32_t w = 0; w < out.w; w++) {
            int32_t ih = nearest(call.op, h, in.h, out.h), iw = nearest(call.op, w, in.w, out.w);
            memcpy(to + offset(out, h, w, 0), from + offset(in, ih, iw, 0), (size_t)in.c);
        }
}

void reference_transpose(struct reference_call call)
{
    struct shape in = reference_input(call, 0)->shape, out = reference_output(call)->shape;
    size_t width = dtype_bytes(reference_output(call)->dtype);
    const unsigned char *from = reference_in(call, 0);
    unsigned char *to = reference_out(call);
    for (int32_t h = 0; h < out.h; h++)
        for (int32_t w = 0; w < out.w; w++)
            for (int32_t c = 0; c < out.c; c++) {
                const int32_t at[3] = {h, w, c};
                int32_t source[3] = {0, 0, 0};
                for (int a = 0; a < 3; a++)
                    source[call.op->perm[a]] = at[a];
                memcpy(to, from + (size_t)offset(in, source[0], source[1], source[2]) * width, width);
                to += width;
            }
}
