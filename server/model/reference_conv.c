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

/* What turns the sums of one output channel into int8. */
struct finish {
    struct reference_multiplier m;
    int32_t bias, zero_point;
    struct reference_range range;
};

static struct finish channel_finish(struct reference_call call, int32_t c)
{
    struct quant out = reference_output(call)->quant;
    return (struct finish){channel_multiplier(call, c), call.op->bias ? call.op->bias[c] : 0, out.zero_point,
                           reference_activation(call.op->activation, out)};
}

static int8_t finish(const struct finish *f, int32_t sum)
{
    return reference_int8(reference_scale(sum + f->bias, f->m), f->zero_point, f->range.lo, f->range.hi);
}

static int32_t dot(const int8_t *x, int32_t x_zero, const int8_t *w, int32_t w_zero, int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (x[i] - x_zero) * (w[i] - w_zero);
    return sum;
}

/* The sum of output channel c at one window. */
static int32_t conv_sum(struct reference_call call, const struct window *window, int32_t c)
{
    const struct op *op = call.op;
    const int8_t *in = reference_in(call, 0);
    int32_t zero = reference_input(call, 0)->quant.zero_point, sum = 0;
    int32_t depth = window->in.c / op->groups, out_group = reference_output(call)->shape.c / op->groups;
    int32_t first = c / out_group * depth;
    const int8_t *weights = op->weights + (int64_t)c * op->kernel_h * op->kernel_w * depth;
    for (int32_t i = 0; i < op->kernel_h; i++)
        for (int32_t j = 0; j < op->kernel_w; j++, weights += depth) {
            int64_t at = tap(window, i, j);
            if (at >= 0)
                sum += dot(in + at + first, zero, weights, op->weight_zero_point, depth);
        }
    return sum;
}

static int32_t depthwise_sum(struct reference_call call, const struct window *window, int32_t c)
{
    const struct op *op = call.op;
    const int8_t *in = reference_in(call, 0);
    int32_t zero = reference_input(call, 0)->quant.zero_point, sum = 0,
            channels = window->in.c * op->multiplier;
    for (int32_t i = 0; i < op->kernel_h; i++)
        for (int32_t j = 0; j < op->kernel_w; j++) {
            int64_t at = tap(window, i, j);
            int32_t weight = op->weights[((int64_t)i * op->kernel_w + j) * channels + c];
            if (at >= 0)
                sum += (in[at + c / op->multiplier] - zero) * (weight - op->weight_zero_point);
        }
    return sum;
}

static void convolve(struct reference_call call,
                     int32_t (*sum)(struct reference_call call, const struct window *window, int32_t c))
{
    int8_t *out = reference_out(call);
    struct shape shape = reference_output(call)->shape;
    for (int32_t c = 0; c < shape.c; c++) {
        struct finish f = channel_finish(call, c);
        for (int32_t h = 0; h < shape.h; h++)
            for (int32_t w = 0; w < shape.w; w++) {
                struct window window = window_at(call, h, w);
                out[((int64_t)h * shape.w + w) * shape.c + c] = finish(&f, sum(call, &window, c));
            }
    }
}

void reference_conv(struct reference_call call)
{
    convolve(call, conv_sum);
}

void reference_depthwise(struct reference_call call)
{
    convolve(call, depthwise_sum);
}
