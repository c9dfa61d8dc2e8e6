/*
 * One function a family of operators. Constants of the graph and the integer parameters of the format (axes,
 * shapes, paddings) become tensors with a buffer of their own. Tensor i of the graph is tensor i of the file.
 */
#include "tests/support/tflite_write.h"

#include "server/import/tflite_schema.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    const struct graph *graph;
    struct tw_model *model;
    bool legacy;
    const char *reason; /* first cause */
};

static void *copy(struct writer *w, const void *bytes, size_t size)
{
    void *p = arena_copy(w->model->arena, bytes, size);
    if (!p)
        abort();
    return p;
}

static void refuse(struct writer *w, const char *reason)
{
    if (!w->reason)
        w->reason = reason;
}

/* int8 bytes as the file has them. */
static uint32_t int8_buffer(struct writer *w, const int8_t *data, size_t n)
{
    unsigned char *bytes = copy(w, data, n);
    for (size_t i = 0; i < n && w->legacy; i++)
        bytes[i] ^= 0x80;
    return tw_buffer(w->model, bytes, n);
}

static int32_t int_constant(struct writer *w, const int32_t *values, int32_t n, int32_t rank,
                            int32_t first_dim)
{
    struct tw_tensor t = {.name = "constant", .type = TFLITE_INT32, .rank = rank};
    t.dims[0] = rank == 2 ? first_dim : n;
    t.dims[1] = rank == 2 ? n / first_dim : 0;
    t.buffer = tw_buffer(w->model, values, (size_t)n * sizeof *values);
    return tw_tensor(w->model, t);
}

static void set_quant(struct writer *w, struct tw_tensor *t, float scale, int64_t zero_point)
{
    t->scales = copy(w, &scale, sizeof scale);
    t->zero_points = copy(w, &zero_point, sizeof zero_point);
    t->n_scales = t->n_zero_points = 1;
}

static void write_tensor(struct writer *w, int32_t i)
{
    const struct tensor *x = &w->graph->tensors[i];
    static const int32_t types[] = {TFLITE_INT8, TFLITE_UINT8, TFLITE_INT32, TFLITE_FLOAT32};
    bool shifted = w->legacy && x->dtype == DTYPE_INT8;
    struct tw_tensor t = {.name = x->name ? copy(w, x->name, strlen(x->name) + 1) : NULL,
                          .type = shifted ? TFLITE_UINT8 : types[x->dtype],
                          .rank = x->rank};
    memcpy(t.dims, x->dims, sizeof x->dims);
    if (x->dtype == DTYPE_INT8 || x->dtype == DTYPE_UINT8)
        set_quant(w, &t, x->quant.scale, x->quant.zero_point + (shifted ? 128 : 0));
    if (x->data && x->dtype != DTYPE_INT8)
        refuse(w, "a constant that is not int8");
    else if (x->data)
        t.buffer = int8_buffer(w, x->data, (size_t)shape_elements(x->shape));
    tw_tensor(w->model, t);
}

static struct tw_op *new_op(struct writer *w, int32_t builtin, int32_t version, const struct op *op)
{
    struct tw_op *out = tw_op(w->model, builtin, version);
    for (int32_t k = 0; k < op->n_inputs; k++)
        out->inputs[out->n_inputs++] = op->inputs[k];
    out->outputs[out->n_outputs++] = op->output;
    return out;
}

static void add_input(struct tw_op *op, int32_t t)
{
    op->inputs[op->n_inputs++] = t;
}

static int32_t activation_of(const struct op *op)
{
    static const int32_t codes[] = {TFLITE_ACT_NONE, TFLITE_ACT_RELU, TFLITE_ACT_RELU6,
                                    TFLITE_ACT_RELU_N1_TO_1};
    return codes[op->activation];
}

/* Whether the padding along one axis is what SAME means. */
static bool is_same(int32_t in, int32_t kernel, int32_t stride, int32_t dilation, int32_t before,
                    int32_t after)
{
    int32_t out = (in + stride - 1) / stride, total = (out - 1) * stride + (kernel - 1) * dilation + 1 - in;
    total = total > 0 ? total : 0;
    return before == total / 2 && after == total - total / 2;
}

/* The format's padding, or -1 when it has no word for it. */
static int32_t padding_of(struct writer *w, const struct op *op)
{
    struct shape x = w->graph->tensors[op->inputs[0]].shape;
    if (!op->pad_top && !op->pad_bottom && !op->pad_left && !op->pad_right)
        return TFLITE_VALID;
    bool same = is_same(x.h, op->kernel_h, op->stride_h, op->dilation_h, op->pad_top, op->pad_bottom) &&
                is_same(x.w, op->kernel_w, op->stride_w, op->dilation_w, op->pad_left, op->pad_right);
    return same ? TFLITE_SAME : -1;
}

/* A PAD of zero points before a window; returns the padded tensor. */
static int32_t pad_before(struct writer *w, const struct op *op)
{
    struct tw_tensor t = w->model->tensors[op->inputs[0]];
    struct shape x = w->graph->tensors[op->inputs[0]].shape;
    const int32_t pads[8] = {0, 0, op->pad_top, op->pad_bottom, op->pad_left, op->pad_right, 0, 0};
    const int32_t dims[4] = {1, x.h + op->pad_top + op->pad_bottom, x.w + op->pad_left + op->pad_right, x.c};
    int32_t paddings = int_constant(w, pads, 8, 2, 4);
    t.name = "padded";
    t.rank = 4;
    t.buffer = 0;
    memcpy(t.dims, dims, sizeof dims);
    int32_t padded = tw_tensor(w->model, t);
    struct tw_op *pad = tw_op(w->model, TFLITE_PAD, 2);
    add_input(pad, op->inputs[0]);
    add_input(pad, paddings);
    pad->outputs[pad->n_outputs++] = padded;
    if (w->graph->tensors[op->inputs[0]].rank != 4)
        refuse(w, "padding of a tensor without four dimensions");
    return padded;
}

static int32_t write_weights(struct writer *w, const struct op *op, const int32_t *dims, int32_t rank,
                             int32_t axis)
{
    struct tw_tensor t = {.name = "weights", .type = w->legacy ? TFLITE_UINT8 : TFLITE_INT8, .rank = rank};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    t.quantized_dimension = op->n_weight_scales > 1 ? axis : 0;
    t.n_scales = t.n_zero_points = op->n_weight_scales;
    t.scales = copy(w, op->weight_scales, (size_t)op->n_weight_scales * sizeof(float));
    int64_t *zeros = arena_alloc(w->model->arena, (size_t)op->n_weight_scales, sizeof *zeros);
    if (!zeros)
        abort();
    if (w->legacy)
        zeros[0] = op->weight_zero_point + 128;
    else if (op->weight_zero_point != 0)
        refuse(w, "int8 weights with a zero point");
    if (w->legacy && op->n_weight_scales != 1)
        refuse(w, "uint8 weights with a scale a channel");
    t.zero_points = zeros;
    t.buffer = int8_buffer(w, op->weights, (size_t)op->weight_bytes);
    return tw_tensor(w->model, t);
}

static int32_t write_bias(struct writer *w, const struct op *op, int32_t channels)
{
    return op->bias ? int_constant(w, op->bias, channels, 1, 0) : -1;
}

bool tflite_is_fully_connected(const struct graph *graph, const struct op *op)
{
    struct shape x = graph->tensors[op->inputs[0]].shape;
    return op->kind == OP_CONV && op->float_scale_product && op->n_weight_scales == 1 && op->groups == 1 &&
           op->kernel_h == x.h && op->kernel_w == x.w && op->dilation_h == 1 && op->dilation_w == 1 &&
           !op->pad_top && !op->pad_bottom && !op->pad_left && !op->pad_right;
}

static void write_fully_connected(struct writer *w, const struct op *op)
{
    struct shape x = w->graph->tensors[op->inputs[0]].shape, y = w->graph->tensors[op->output].shape;
    const int32_t dims[2] = {y.c, (int32_t)shape_elements(x)};
    int32_t weights = write_weights(w, op, dims, 2, 0), bias = write_bias(w, op, y.c);
    struct tw_op *out = new_op(w, TFLITE_FULLY_CONNECTED, 4, op);
    add_input(out, weights);
    add_input(out, bias);
    out->options_type = TFLITE_OPT_FULLY_CONNECTED;
    tw_option(out, 0, 1, activation_of(op));
    tw_option(out, 2, 1, 0);
}

static void write_conv(struct writer *w, const struct op *op)
{
    struct shape x = w->graph->tensors[op->inputs[0]].shape, y = w->graph->tensors[op->output].shape;
    bool depthwise = op->kind == OP_DEPTHWISE;
    if (tflite_is_fully_connected(w->graph, op)) {
        write_fully_connected(w, op);
        return;
    }
    if (op->float_scale_product != w->legacy)
        refuse(w, "a convolution with this product of scales");
    const int32_t dims[4] = {depthwise ? 1 : y.c, op->kernel_h, op->kernel_w,
                             depthwise ? y.c : x.c / op->groups};
    int32_t weights = write_weights(w, op, dims, 4, depthwise ? 3 : 0), bias = write_bias(w, op, y.c);
    int32_t padding = padding_of(w, op), input = padding < 0 ? pad_before(w, op) : op->inputs[0];
    struct tw_op *out = new_op(w, depthwise ? TFLITE_DEPTHWISE_CONV_2D : TFLITE_CONV_2D, 3, op);
    out->inputs[0] = input;
    add_input(out, weights);
    if (bias >= 0)
        add_input(out, bias);
    out->options_type = depthwise ? TFLITE_OPT_DEPTHWISE_CONV_2D : TFLITE_OPT_CONV_2D;
    tw_option(out, 0, 1, padding < 0 ? TFLITE_VALID : padding);
    tw_option(out, 1, 4, op->stride_w);
    tw_option(out, 2, 4, op->stride_h);
    if (depthwise)
        tw_option(out, 3, 4, op->multiplier);
    tw_option(out, depthwise ? 4 : 3, 1, activation_of(op));
    tw_option(out, depthwise ? 5 : 4, 4, op->dilation_w);
    tw_option(out, depthwise ? 6 : 5, 4, op->dilation_h);
}

static void write_pool(struct writer *w, const struct op *op)
{
    int32_t padding = padding_of(w, op);
    if (padding < 0)
        refuse(w, "a pool whose padding is neither SAME nor VALID");
    if (op->kind == OP_AVERAGE_POOL && op->legacy_uint8 != w->legacy)
        refuse(w, "an average pool with the other type's rounding");
    struct tw_op *out =
        new_op(w, op->kind == OP_MAX_POOL ? TFLITE_MAX_POOL_2D : TFLITE_AVERAGE_POOL_2D, 2, op);
    out->options_type = TFLITE_OPT_POOL_2D;
    tw_option(out, 0, 1, padding);
    tw_option(out, 1, 4, op->stride_w);
    tw_option(out, 2, 4, op->stride_h);
    tw_option(out, 3, 4, op->kernel_w);
    tw_option(out, 4, 4, op->kernel_h);
    tw_option(out, 5, 1, activation_of(op));
}

static void write_pair(struct writer *w, const struct op *op)
{
    int32_t code = op->kind == OP_ADD ? TFLITE_ADD : op->kind == OP_SUB ? TFLITE_SUB : TFLITE_MUL;
    struct tw_op *out = new_op(w, code, 2, op);
    out->options_type = op->kind == OP_ADD   ? TFLITE_OPT_ADD
                        : op->kind == OP_SUB ? TFLITE_OPT_SUB
                                             : TFLITE_OPT_MUL;
    tw_option(out, 0, 1, activation_of(op));
}

static void write_mean(struct writer *w, const struct op *op)
{
    int32_t axes[3], n = 0, rank = w->graph->tensors[op->inputs[0]].rank;
    for (int32_t i = 0; i < 3; i++)
        if (op->reduce >> i & 1)
            axes[n++] = i + rank - 3;
    int32_t t = int_constant(w, axes, n, 1, 0);
    struct tw_op *out = new_op(w, TFLITE_MEAN, 2, op);
    add_input(out, t);
    out->options_type = TFLITE_OPT_REDUCER;
    tw_option(out, 0, 1, w->graph->tensors[op->output].rank == rank);
}

static void write_pad(struct writer *w, const struct op *op)
{
    const int32_t pads[8] = {0,          0,         op->pad_top, op->pad_bottom, op->pad_left, op->pad_right,
                             op->pad_c0, op->pad_c1};
    const struct tensor *x = &w->graph->tensors[op->inputs[0]];
    if (x->rank != 4)
        refuse(w, "padding of a tensor without four dimensions");
    int32_t paddings = int_constant(w, pads, 8, 2, 4);
    if (op->fill == x->quant.zero_point) {
        add_input(new_op(w, TFLITE_PAD, 2, op), paddings);
        return;
    }
    int8_t fill = (int8_t)op->fill;
    struct tw_tensor value = w->model->tensors[op->inputs[0]];
    value.name = "fill";
    value.rank = 1;
    value.dims[0] = 1;
    value.buffer = int8_buffer(w, &fill, 1);
    int32_t t = tw_tensor(w->model, value);
    struct tw_op *out = new_op(w, TFLITE_PADV2, 2, op);
    add_input(out, paddings);
    add_input(out, t);
}

static void write_layout(struct writer *w, const struct op *op)
{
    const struct tensor *y = &w->graph->tensors[op->output];
    if (op->kind == OP_RESHAPE) {
        int32_t shape = int_constant(w, y->dims, y->rank, 1, 0);
        add_input(new_op(w, TFLITE_RESHAPE, 1, op), shape);
    } else if (op->kind == OP_RESIZE_NEAREST) {
        const int32_t size[2] = {y->shape.h, y->shape.w};
        int32_t t = int_constant(w, size, 2, 1, 0);
        struct tw_op *out = new_op(w, TFLITE_RESIZE_NEAREST_NEIGHBOR, 2, op);
        add_input(out, t);
        out->options_type = TFLITE_OPT_RESIZE_NEAREST_NEIGHBOR;
        tw_option(out, 0, 1, op->align_corners);
        tw_option(out, 1, 1, op->half_pixel_centers);
    } else {
        const int32_t perm[4] = {0, op->perm[0] + 1, op->perm[1] + 1, op->perm[2] + 1};
        if (y->rank != 4)
            refuse(w, "a transpose of other than four dimensions");
        int32_t t = int_constant(w, perm, 4, 1, 0);
        add_input(new_op(w, TFLITE_TRANSPOSE, 2, op), t);
    }
}

static void write_concat(struct writer *w, const struct op *op)
{
    struct tw_op *out = new_op(w, TFLITE_CONCATENATION, 2, op);
    out->options_type = TFLITE_OPT_CONCATENATION;
    tw_option(out, 0, 4, op->axis + w->graph->tensors[op->output].rank - 3);
    tw_option(out, 1, 1, 0);
}

static void write_op(struct writer *w, const struct op *op)
{
    struct tw_op *out;
    switch (op->kind) {
    case OP_CONV:
    case OP_DEPTHWISE:
        write_conv(w, op);
        break;
    case OP_AVERAGE_POOL:
    case OP_MAX_POOL:
        write_pool(w, op);
        break;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
        write_pair(w, op);
        break;
    case OP_MEAN:
        write_mean(w, op);
        break;
    case OP_PAD:
        write_pad(w, op);
        break;
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_RESIZE_NEAREST:
        write_layout(w, op);
        break;
    case OP_CONCAT:
        write_concat(w, op);
        break;
    case OP_SOFTMAX:
        out = new_op(w, TFLITE_SOFTMAX, 2, op);
        out->options_type = TFLITE_OPT_SOFTMAX;
        tw_option_float(out, 0, op->beta);
        break;
    case OP_LOGISTIC:
        new_op(w, TFLITE_LOGISTIC, 2, op);
        break;
    case OP_RELU:
        new_op(w, TFLITE_RELU, 2, op);
        break;
    case OP_RELU6:
        new_op(w, TFLITE_RELU6, 2, op);
        break;
    case OP_REQUANTIZE:
    case OP_QUANTIZE:
        new_op(w, TFLITE_QUANTIZE, 1, op);
        break;
    case OP_DEQUANTIZE:
        new_op(w, TFLITE_DEQUANTIZE, 2, op);
        break;
    case OP_KIND_COUNT:
        refuse(w, "an operator that is none");
        break;
    }
}

const char *tflite_describe(const struct graph *graph, const struct tflite_write_options *options,
                            struct tw_model *model)
{
    struct writer w = {.graph = graph, .model = model, .legacy = options && options->legacy_uint8};
    *model = tw_new(8 * (graph->n_tensors + graph->n_ops) + 64);
    for (int32_t i = 0; i < graph->n_tensors; i++)
        write_tensor(&w, i);
    for (int32_t i = 0; i < graph->n_ops; i++)
        write_op(&w, &graph->ops[i]);
    for (int32_t k = 0; k < graph->n_inputs; k++)
        model->inputs[model->n_inputs++] = graph->inputs[k];
    for (int32_t k = 0; k < graph->n_outputs; k++)
        model->outputs[model->n_outputs++] = graph->outputs[k];
    if (w.reason)
        tw_free(model);
    return w.reason;
}

const char *tflite_write(const struct graph *graph, const struct tflite_write_options *options,
                         struct bytes *out)
{
    struct tw_model model;
    const char *reason = tflite_describe(graph, options, &model);
    if (reason)
        return reason;
    tw_encode(&model, out);
    tw_free(&model);
    return out->status ? "out of memory" : NULL;
}
