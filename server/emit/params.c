/*
 * From an operator's quantisation to fixed-point parameters, by TensorFlow Lite's rules (facts/numerics). All
 * real numbers here are doubles made from the float scales in the file, in the order in which TensorFlow Lite
 * multiplies them: another order can differ in the last bit of a mantissa.
 */
#include "server/emit/params.h"

#include "server/model/optable.h"

#include <math.h>

static struct quant quant_of(const struct graph *graph, int32_t tensor)
{
    return graph->tensors[tensor].quant;
}

static int32_t clamped(double x)
{
    return x < -128 ? -128 : x > 127 ? 127 : (int32_t)x;
}

/* The quantised range of a fused activation. */
static void set_activation(struct nn_params *p, enum activation activation, struct quant out)
{
    double zero = out.zero_point;
    int32_t lo = -128, hi = 127;
    if (activation == ACTIVATION_RELU || activation == ACTIVATION_RELU6)
        lo = clamped(zero);
    if (activation == ACTIVATION_RELU6)
        hi = clamped(zero + (double)roundf(6.0f / out.scale));
    if (activation == ACTIVATION_RELU_N1_TO_1) {
        lo = clamped(zero + (double)roundf(-1.0f / out.scale));
        hi = clamped(zero + (double)roundf(1.0f / out.scale));
    }
    p->act_lo = (int16_t)lo;
    p->act_hi = (int16_t)hi;
}

static void set_window(struct nn_params *p, const struct op *op)
{
    p->kernel_h = (uint16_t)op->kernel_h;
    p->kernel_w = (uint16_t)op->kernel_w;
    p->stride_h = (uint16_t)op->stride_h;
    p->stride_w = (uint16_t)op->stride_w;
    p->dilation_h = (uint16_t)op->dilation_h;
    p->dilation_w = (uint16_t)op->dilation_w;
    p->pad_top = (int16_t)op->pad_top;
    p->pad_left = (int16_t)op->pad_left;
}

/* Both inputs relative to twice the larger scale, with 20 bits of headroom below. */
static void set_sum(struct nn_params *p, const struct graph *graph, const struct op *op)
{
    enum { LEFT_SHIFT = 20 };
    double a = (double)quant_of(graph, op->inputs[0]).scale, b = (double)quant_of(graph, op->inputs[1]).scale;
    double out = (double)quant_of(graph, op->output).scale, twice = 2 * (a > b ? a : b);
    p->m[0] = quant_multiplier(a / twice);
    p->m[1] = quant_multiplier(b / twice);
    p->m[2] = quant_multiplier(twice / ((double)(1 << LEFT_SHIFT) * out));
    p->count = LEFT_SHIFT;
    if (op->kind == OP_SUB)
        p->m[1].mantissa = -p->m[1].mantissa;
}

/* One multiplier with 1 / count folded into its mantissa. */
static void set_mean(struct nn_params *p, const struct graph *graph, const struct op *op)
{
    struct shape in = graph->tensors[op->inputs[0]].shape;
    int64_t count = (op->reduce & OP_AXIS_H ? in.h : 1) * (int64_t)(op->reduce & OP_AXIS_W ? in.w : 1) *
                    (op->reduce & OP_AXIS_C ? in.c : 1);
    struct quant_multiplier m = quant_multiplier((double)quant_of(graph, op->inputs[0]).scale /
                                                 (double)quant_of(graph, op->output).scale);
    int32_t bits = 0;
    while (count >> (bits + 1))
        bits++;
    bits = bits > 32 ? 32 : bits;
    bits = bits > 31 + m.shift ? 31 + m.shift : bits;
    m.mantissa = (int32_t)(((int64_t)m.mantissa << bits) / count);
    m.shift -= bits;
    p->m[0] = m;
    p->count = (int32_t)count;
    p->reduce = (uint16_t)op->reduce;
    p->flags = NN_FLAG_MEAN;
}

static void set_move(struct nn_params *p, const struct graph *graph, const struct op *op, int32_t input)
{
    for (int i = 0; i < 3; i++)
        p->perm[i] = (uint16_t)(op->kind == OP_TRANSPOSE ? op->perm[i] : i);
    if (op->kind == OP_PAD) {
        p->pad_top = (int16_t)op->pad_top;
        p->pad_left = (int16_t)op->pad_left;
        p->pad_c = (int16_t)op->pad_c0;
        p->fill = (int16_t)op->fill;
    }
    int32_t before = 0;
    for (int32_t j = 0; j < input; j++) {
        struct shape shape = graph->tensors[op->inputs[j]].shape;
        before += op->axis == 0 ? shape.h : op->axis == 1 ? shape.w : shape.c;
    }
    if (op_row(op->kind)->max_inputs > 1)
        *(op->axis == 0 ? &p->pad_top : op->axis == 1 ? &p->pad_left : &p->pad_c) = (int16_t)before;
}

static void set_resize(struct nn_params *p, const struct graph *graph, const struct op *op)
{
    struct shape in = graph->tensors[op->inputs[0]].shape, out = graph->tensors[op->output].shape;
    p->in_h = (uint16_t)in.h;
    p->in_w = (uint16_t)in.w;
    p->out_h = (uint16_t)out.h;
    p->out_w = (uint16_t)out.w;
    p->flags = (uint16_t)((op->align_corners ? NN_FLAG_ALIGN_CORNERS : 0) |
                          (op->half_pixel_centers ? NN_FLAG_HALF_PIXEL : 0));
}

static void set_kernel(struct nn_params *p, const struct graph *graph, const struct op *op, int32_t input)
{
    struct quant in = quant_of(graph, op->inputs[0]), out = quant_of(graph, op->output);
    switch (op_row(op->kind)->kernel) {
    case OP_KERNEL_CONV:
    case OP_KERNEL_DW:
        set_window(p, op);
        p->weight_zero_point = (int16_t)op->weight_zero_point;
        p->multiplier = (uint16_t)op->multiplier;
        break;
    case OP_KERNEL_POOL:
        set_window(p, op);
        p->flags = (uint16_t)((op->kind == OP_MAX_POOL ? NN_FLAG_MAX : 0) |
                              (op->legacy_uint8 ? NN_FLAG_LEGACY_UINT8 : 0));
        break;
    case OP_KERNEL_SUM:
        set_mean(p, graph, op);
        break;
    case OP_KERNEL_ADD:
        set_sum(p, graph, op);
        break;
    case OP_KERNEL_MUL:
        p->m[0] = quant_multiplier((double)in.scale * (double)quant_of(graph, op->inputs[1]).scale /
                                   (double)out.scale);
        break;
    case OP_KERNEL_COPY:
        set_move(p, graph, op, input);
        break;
    case OP_KERNEL_RESIZE:
        set_resize(p, graph, op);
        break;
    case OP_KERNEL_SOFTMAX: {
        struct quant_softmax softmax = quant_softmax_parameters((double)op->beta, (double)in.scale);
        p->m[0] = softmax.m;
        p->count = softmax.diff_min;
        break;
    }
    default:
        break;
    }
}

struct nn_params params_of(const struct graph *graph, const struct op *op, int32_t input)
{
    struct nn_params p = {
        .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1};
    struct quant out = quant_of(graph, op->output);
    p.in_zero_point[0] = (int16_t)quant_of(graph, op->inputs[0]).zero_point;
    if (op->n_inputs > 1)
        p.in_zero_point[1] = (int16_t)quant_of(graph, op->inputs[1]).zero_point;
    p.out_zero_point = (int16_t)out.zero_point;
    set_activation(&p, op->activation, out);
    set_kernel(&p, graph, op, input);
    return p;
}

struct quant_multiplier params_channel(const struct graph *graph, const struct op *op, int32_t c)
{
    float in = quant_of(graph, op->inputs[0]).scale, out = quant_of(graph, op->output).scale;
    float weight = op->weight_scales[op->n_weight_scales > 1 ? c : 0];
    double product = op->float_scale_product ? (double)(in * weight) : (double)in * (double)weight;
    return quant_multiplier(product / (double)out);
}

void params_table(const struct graph *graph, const struct op *op, int32_t input, int8_t table[256])
{
    struct quant in = quant_of(graph, op->inputs[input]), out = quant_of(graph, op->output);
    struct quant_io io = {(double)in.scale, in.zero_point, (double)out.scale, out.zero_point};
    struct nn_params range;
    enum activation activation = op->kind == OP_RELU    ? ACTIVATION_RELU
                                 : op->kind == OP_RELU6 ? ACTIVATION_RELU6
                                                        : ACTIVATION_NONE;
    if (op->kind == OP_LOGISTIC) {
        quant_table_logistic(io, table);
        return;
    }
    set_activation(&range, activation, out);
    quant_table_requantize(io, range.act_lo, range.act_hi, table);
}
