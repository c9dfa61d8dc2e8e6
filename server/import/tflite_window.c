/*
 * Operators with weights or windows: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED and the pools. Padding
 * becomes numbers here, a fully connected layer a convolution whose kernel is the whole map, and legacy uint8
 * weights are stored less 128 with a zero point less 128.
 */
#include "server/import/tflite_convert.h"

#include <string.h>

int convert_activation(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    static const enum activation known[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_RELU_N1_TO_1,
                                            ACTIVATION_RELU6};
    int32_t a = in->options.activation;
    if (a < 0 || a > TFLITE_ACT_RELU6)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its fused activation %d is not supported", a);
    op->activation = known[a];
    return 0;
}

/* Padding along one axis (facts of the format: SAME puts the odd one after). */
static void pad_axis(int32_t padding, int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                     int32_t *before, int32_t *after)
{
    *before = *after = 0;
    if (padding == TFLITE_VALID)
        return;
    int64_t out = (in + stride - 1) / stride;
    int64_t total = (out - 1) * stride + (kernel - 1) * dilation + 1 - in;
    if (total > 0) {
        *before = (int32_t)(total / 2);
        *after = (int32_t)(total - total / 2);
    }
}

/* Strides, dilation and padding; the kernel is set. */
static int convert_window(struct convert *cx, const struct tflite_op *in, struct shape x, struct op *op)
{
    const struct tflite_options *o = &in->options;
    op->stride_h = o->stride_h;
    op->stride_w = o->stride_w;
    op->dilation_h = o->dilation_h;
    op->dilation_w = o->dilation_w;
    const int32_t values[] = {op->kernel_h, op->kernel_w,   op->stride_h,
                              op->stride_w, op->dilation_h, op->dilation_w};
    static const char *const names[] = {"window height",     "window width",      "vertical stride",
                                        "horizontal stride", "vertical dilation", "horizontal dilation"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i] < 1 || values[i] > GRAPH_DIM_MAX)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its %s is %d", names[i], values[i]);
    int64_t span_h = (int64_t)(op->kernel_h - 1) * op->dilation_h + 1;
    int64_t span_w = (int64_t)(op->kernel_w - 1) * op->dilation_w + 1;
    if (span_h > GRAPH_WINDOW_MAX || span_w > GRAPH_WINDOW_MAX) {
        int64_t span = span_h > span_w ? span_h : span_w;
        int status = CONVERT_REFUSE(cx, STATUS_MODEL_LIMIT, "its window spans %lld, more than %d",
                                    (long long)span, GRAPH_WINDOW_MAX);
        error_limit(cx->error, GRAPH_WINDOW_MAX, span);
        return status;
    }
    if (o->padding != TFLITE_SAME && o->padding != TFLITE_VALID)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its padding is %d", o->padding);
    pad_axis(o->padding, x.h, op->kernel_h, op->stride_h, op->dilation_h, &op->pad_top, &op->pad_bottom);
    pad_axis(o->padding, x.w, op->kernel_w, op->stride_w, op->dilation_w, &op->pad_left, &op->pad_right);
    return convert_activation(cx, in, op);
}

/* Copies the weights of an operator with `channels` output channels lying along dimension `axis`. */
static int convert_weights(struct convert *cx, const struct tflite_op *in, int32_t axis, int32_t channels,
                           struct op *op)
{
    const struct tflite_tensor *w = &cx->file->tensors[in->inputs[1]];
    bool legacy = w->type == TFLITE_UINT8;
    if (w->n_scales != 1 && (w->quantized_dimension != axis || legacy))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its weights have scales along dimension %d",
                              w->quantized_dimension);
    if (w->n_scales != 1 && w->n_scales != channels)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it has %d weight scales for %d channels",
                              w->n_scales, channels);
    for (int32_t i = 0; i < w->n_zero_points && !legacy; i++)
        if (w->zero_points[i] != 0)
            return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                                  "its int8 weights have the zero point %lld; only 0 is supported",
                                  (long long)w->zero_points[i]);
    int8_t *copy = convert_constant(cx, (int64_t)w->data_bytes, 1);
    float *scales = convert_constant(cx, w->n_scales, sizeof *scales);
    if (!copy || !scales)
        return cx->error->status;
    memcpy(scales, w->scales, (size_t)w->n_scales * sizeof *scales);
    for (size_t i = 0; i < w->data_bytes; i++)
        copy[i] = (int8_t)(legacy ? w->data[i] - 128 : (int8_t)w->data[i]);
    op->weights = copy;
    op->weight_bytes = (int64_t)w->data_bytes;
    op->weight_scales = scales;
    op->n_weight_scales = w->n_scales;
    op->weight_zero_point = legacy ? (int32_t)(w->n_zero_points ? w->zero_points[0] : 0) - 128 : 0;
    op->float_scale_product = legacy; /* as TFLite's uint8 path; its golden is met either way */
    return 0;
}

static int convert_bias(struct convert *cx, const struct tflite_op *in, int32_t channels, struct op *op)
{
    int32_t t = in->n_inputs > 2 ? in->inputs[2] : -1;
    if (t < 0)
        return 0;
    const struct tflite_tensor *b = &cx->file->tensors[t];
    if (!b->data || b->type != TFLITE_INT32)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its bias (tensor %d) is not a constant of INT32",
                              t);
    if (tflite_elements(b) != channels)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its bias has %lld values for %d channels",
                              (long long)tflite_elements(b), channels);
    int32_t *copy = convert_constant(cx, channels, sizeof *copy);
    if (!copy)
        return cx->error->status;
    memcpy(copy, b->data, b->data_bytes);
    op->bias = copy;
    return 0;
}

/* The weights tensor: constant, `rank` dims, of the input's type; and the input's shape. */
static int weights_of(struct convert *cx, const struct tflite_op *in, int32_t rank,
                      const struct tflite_tensor **w, struct shape *x)
{
    const struct tflite_tensor *input = &cx->file->tensors[in->inputs[0]];
    *w = &cx->file->tensors[in->inputs[1]];
    if (!(*w)->data)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its weights (tensor %d) are not constant",
                              in->inputs[1]);
    if (input->data)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its input is constant");
    if ((*w)->type != input->type || ((*w)->type != TFLITE_INT8 && (*w)->type != TFLITE_UINT8))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "%s weights on %s activations are not supported",
                              tflite_type_name((*w)->type), tflite_type_name(input->type));
    if ((*w)->rank != rank)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its weights have %d dimensions, not %d",
                              (*w)->rank, rank);
    if (!tflite_shape(input, x))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "its input has a batch; only batch 1 is supported");
    return 0;
}

int convert_conv(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    const struct tflite_tensor *w;
    struct shape x;
    int status = weights_of(cx, in, 4, &w, &x);
    if (status)
        return status;
    if (x.c % w->dims[3] != 0 || w->dims[0] % (x.c / w->dims[3]) != 0)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "weights for %d input channels do not fit %d",
                              w->dims[3], x.c);
    op->groups = x.c / w->dims[3];
    op->kernel_h = w->dims[1];
    op->kernel_w = w->dims[2];
    status = convert_window(cx, in, x, op);
    if (!status)
        status = convert_weights(cx, in, 0, w->dims[0], op);
    if (!status)
        status = convert_bias(cx, in, w->dims[0], op);
    if (!status)
        status = convert_input(cx, op, in->inputs[0]);
    return status ? status : convert_output_plain(cx, op);
}

int convert_depthwise(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    const struct tflite_tensor *w;
    struct shape x;
    int status = weights_of(cx, in, 4, &w, &x);
    if (status)
        return status;
    op->multiplier = in->options.multiplier;
    if (op->multiplier < 1 || w->dims[0] != 1 || (int64_t)x.c * op->multiplier != w->dims[3])
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED,
                              "depth multiplier %d and weights for %d channels do not fit %d input channels",
                              op->multiplier, w->dims[3], x.c);
    op->kernel_h = w->dims[1];
    op->kernel_w = w->dims[2];
    status = convert_window(cx, in, x, op);
    if (!status)
        status = convert_weights(cx, in, 3, w->dims[3], op);
    if (!status)
        status = convert_bias(cx, in, w->dims[3], op);
    if (!status)
        status = convert_input(cx, op, in->inputs[0]);
    return status ? status : convert_output_plain(cx, op);
}

/* Sets the input of a fully connected layer over `inputs` values and its kernel: the whole map, or every
 * pixel when the weights are for the last axis only. */
static int fully_connected_input(struct convert *cx, const struct tflite_op *in, struct shape x,
                                 int32_t inputs, struct op *op)
{
    bool whole = shape_elements(x) == inputs;
    if (!whole && x.c != inputs)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "weights for %d inputs do not fit %dx%dx%d", inputs,
                              x.h, x.w, x.c);
    op->kernel_h = whole ? x.h : 1;
    op->kernel_w = whole ? x.w : 1;
    int status = convert_input(cx, op, in->inputs[0]);
    if (status || (op->kernel_h <= GRAPH_WINDOW_MAX && op->kernel_w <= GRAPH_WINDOW_MAX))
        return status;
    struct op *reshape = convert_op(cx, OP_RESHAPE, "/reshape");
    int32_t flat =
        convert_temporary(cx, &cx->graph->tensors[op->inputs[0]], (struct shape){1, 1, inputs}, "/flat");
    if (!reshape || flat < 0)
        return cx->error->status;
    reshape->inputs[0] = op->inputs[0];
    reshape->n_inputs = 1;
    reshape->output = flat;
    op->inputs[0] = flat;
    op->kernel_h = op->kernel_w = 1;
    return 0;
}

int convert_fully_connected(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    const struct tflite_tensor *w;
    struct shape x;
    int status = weights_of(cx, in, 2, &w, &x);
    if (status)
        return status;
    if (in->options.weights_format != 0)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its weights are shuffled");
    bool per_pixel = shape_elements(x) != w->dims[1];
    struct shape natural = {per_pixel ? x.h : 1, per_pixel ? x.w : 1, w->dims[0]};
    op->groups = op->stride_h = op->stride_w = op->dilation_h = op->dilation_w = 1;
    status = fully_connected_input(cx, in, x, w->dims[1], op);
    if (!status)
        status = convert_weights(cx, in, 0, w->dims[0], op);
    if (!status)
        status = convert_bias(cx, in, w->dims[0], op);
    if (!status)
        status = convert_activation(cx, in, op);
    op->float_scale_product = w->n_scales == 1;
    return status ? status : convert_output(cx, op, natural);
}

int convert_pool(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    struct shape x;
    struct tflite_op plain = *in;
    plain.options.dilation_h = plain.options.dilation_w = 1;
    if (!tflite_shape(&cx->file->tensors[in->inputs[0]], &x))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "its input has a batch; only batch 1 is supported");
    op->kernel_h = in->options.filter_h;
    op->kernel_w = in->options.filter_w;
    int status = convert_window(cx, &plain, x, op);
    if (!status)
        status = convert_input(cx, op, in->inputs[0]);
    return status ? status : convert_output_plain(cx, op);
}
