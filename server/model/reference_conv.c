/*
 * Reference convolutions: the sum of (input - zero point) * (weight - zero point) over the taps inside the
 * image, bias, one requantisation per output channel, activation. Taps outside the image add nothing.
 */
#include "server/model/reference_kernels.h"

struct window {
    int32_t h0, w0; /* of the first tap, maybe outside the image */
    int32_t kernel_h, kernel_w, dilation_h, dilation_w;
    struct shape in;
};

static struct window window_at(struct reference_call call, int32_t h, int32_t w)
{
    const struct op *op = call.op;
    return (struct window){h * op->stride_h - op->pad_top,
                           w * op->stride_w - op->pad_left,
                           op->kernel_h,
                           op->kernel_w,
                           op->dilation_h,
                           op->dilation_w,
                           reference_input(call, 0)->shape};
}

/* Offset in elements of the pixel under tap (i, j), or -1 outside the image. */
static int64_t tap(const struct window *window, int32_t i, int32_t j)
{
    int32_t h = window->h0 + i * window->dilation_h, w = window->w0 + j * window->dilation_w;
    if (h < 0 || h >= window->in.h || w < 0 || w >= window->in.w)
        return -1;
    return ((int64_t)h * window->in.w + w) * window->in.c;
}

static struct reference_multiplier channel_multiplier(struct reference_call call, int32_t c)
{
    const struct op *op = call.op;
    float in = reference_input(call, 0)->quant.scale, out = reference_output(call)->quant.scale;
    float weight = op->weight_scales[op->n_weight_scales == 1 ? 0 : c];
    double product = op->float_scale_product ? (double)(in * weight) : (double)in * (double)weight;
    return reference_multiplier(product / (double)out);
}

static int8_t finish(struct reference_call call, int32_t c, int32_t sum)
{
    struct quant out = reference_output(call)->quant;
    struct reference_range range = reference_activation(call.op->activation, out);
    int32_t bias = call.op->bias ? call.op->bias[c] : 0;
    int32_t scaled = reference_scale(sum + bias, channel_multiplier(call, c));
    /* In 64 bits, for a scaled value may be anything. */
    int64_t value = (int64_t)scaled + out.zero_point;
    return (int8_t)(value < range.lo ? range.lo : value > range.hi ? range.hi : value);
}

static int32_t dot(const int8_t *x, int32_t x_zero, const int8_t *w, int32_t w_zero, int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (x[i] - x_zero) * (w[i] - w_zero);
    return sum;
}

void reference_conv(struct reference_call call)
{
    const struct op *op = call.op;
    const int8_t *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    struct shape shape = reference_output(call)->shape;
    int32_t zero = reference_input(call, 0)->quant.zero_point;
    int32_t depth = reference_input(call, 0)->shape.c / op->groups, out_group = shape.c / op->groups;
    for (int32_t h = 0; h < shape.h; h++)
        for (int32_t w = 0; w < shape.w; w++) {
            struct window window = window_at(call, h, w);
            for (int32_t c = 0; c < shape.c; c++) {
                const int8_t *weights = op->weights + (int64_t)c * op->kernel_h * op->kernel_w * depth;
                int32_t sum = 0, first = c / out_group * depth;
                for (int32_t i = 0; i < op->kernel_h; i++)
                    for (int32_t j = 0; j < op->kernel_w; j++, weights += depth) {
                        int64_t at = tap(&window, i, j);
                        if (at >= 0)
                            sum += dot(in + at + first, zero, weights, op->weight_zero_point, depth);
                    }
                *out++ = finish(call, c, sum);
            }
        }
}

void reference_depthwise(struct reference_call call)
{
    const struct op *op = call.op;
    const int8_t *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    struct shape shape = reference_output(call)->shape;
    int32_t zero = reference_input(call, 0)->quant.zero_point;
    for (int32_t h = 0; h < shape.h; h++)
        for (int32_t w = 0; w < shape.w; w++) {
            struct window window = window_at(call, h, w);
            for (int32_t c = 0; c < shape.c; c++) {
                int32_t sum = 0;
                for (int32_t i = 0; i < op->kernel_h; i++)
                    for (int32_t j = 0; j < op->kernel_w; j++) {
                        int64_t at = tap(&window, i, j);
                        int32_t weight = op->weights[((int64_t)i * op->kernel_w + j) * shape.c + c];
                        if (at >= 0)
                            sum += (in[at + c / op->multiplier] - zero) * (weight - op->weight_zero_point);
                    }
                *out++ = finish(call, c, sum);
            }
        }
}
