/*
 * The table of supported operators, one row each, and the conversion of those without windows
 * (tflite_window.c has those with). A conversion names every parameter outright: axes resolved to (h, w, c),
 * constants read, smaller operands second.
 */
#include "server/import/tflite_convert.h"

#include <math.h>
#include <string.h>

static const struct tflite_tensor *input_of(const struct convert *cx, const struct tflite_op *in, int32_t k)
{
    return &cx->file->tensors[in->inputs[k]];
}

static const struct tflite_tensor *output_of(const struct convert *cx, const struct tflite_op *in)
{
    return &cx->file->tensors[in->outputs[0]];
}

/* Shape of input `k`, without a batch. */
static int shape_of(struct convert *cx, const struct tflite_op *in, int32_t k, struct shape *shape)
{
    if (tflite_shape(input_of(cx, in, k), shape))
        return 0;
    return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "input %d has a batch; only batch 1 is supported", k);
}

static int convert_unary(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    int status = convert_input(cx, op, in->inputs[0]);
    return status ? status : convert_output_plain(cx, op);
}

/* Softmax and logistic answer probabilities: scale 1/256, lowest value 0. */
static int convert_probability(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    const struct tflite_tensor *y = output_of(cx, in);
    int64_t zero = y->n_zero_points ? y->zero_points[0] : 0, want = y->type == TFLITE_INT8 ? -128 : 0;
    if (y->n_scales != 1 || fabsf(y->scales[0] - 1.0f / 256) > 0.001f / 256 || zero != want)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "its output must have scale 1/256 and zero point %lld", (long long)want);
    op->beta = in->options.beta;
    if (op->kind == OP_SOFTMAX && (!isfinite(op->beta) || op->beta <= 0.0f))
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its beta is %g", (double)op->beta);
    return convert_unary(cx, in, op);
}

/* Constant input `t` of the graph, repeated along axes of size 1 until it has shape `to`. */
static int32_t broadcast_constant(struct convert *cx, int32_t t, struct shape to)
{
    struct shape from = cx->graph->tensors[t].shape;
    if ((from.h != 1 && from.h != to.h) || (from.w != 1 && from.w != to.w) || (from.c != 1 && from.c != to.c))
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "a constant of %dx%dx%d does not fit %dx%dx%d",
                              from.h, from.w, from.c, to.h, to.w, to.c);
    const int8_t *x = cx->graph->tensors[t].data;
    int8_t *y = convert_constant(cx, shape_elements(to), 1);
    int32_t wide = y ? convert_temporary(cx, &cx->graph->tensors[t], to, "/broadcast") : -1;
    if (!y || wide < 0)
        return cx->error->status;
    for (int32_t h = 0; h < to.h; h++)
        for (int32_t w = 0; w < to.w; w++)
            for (int32_t c = 0; c < to.c; c++) {
                int64_t at = ((from.h == 1 ? 0 : (int64_t)h) * from.w + (from.w == 1 ? 0 : w)) * from.c +
                             (from.c == 1 ? 0 : c);
                y[((int64_t)h * to.w + w) * to.c + c] = x[at];
            }
    cx->graph->tensors[wide].data = y;
    return wide;
}

static int convert_elementwise(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    struct shape a, b, y;
    int status = shape_of(cx, in, 0, &a);
    if (!status)
        status = shape_of(cx, in, 1, &b);
    if (status)
        return status;
    bool const_a = input_of(cx, in, 0)->data != NULL, const_b = input_of(cx, in, 1)->data != NULL;
    if (const_a && const_b)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "both inputs are constant");
    if (!tflite_shape(output_of(cx, in), &y))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its output has a batch");
    bool swap = const_a || (!shape_equal(a, y) && shape_equal(b, y));
    if (swap && op->kind == OP_SUB)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "its first input is constant or smaller than its output");
    int32_t first = in->inputs[swap ? 1 : 0], second = in->inputs[swap ? 0 : 1];
    struct shape small = swap ? a : b;
    if (!shape_equal(swap ? b : a, y))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "neither input has the shape of its output");
    status = convert_input(cx, op, first);
    if (!status)
        status = convert_input(cx, op, second);
    if (status)
        return status;
    bool fits = shape_equal(small, y) || (small.h == 1 && small.w == 1 && (small.c == 1 || small.c == y.c));
    if (!fits && !cx->file->tensors[second].data)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "an input of %dx%dx%d cannot be repeated to %dx%dx%d", small.h, small.w,
                              small.c, y.h, y.w, y.c);
    if (!fits) {
        op->inputs[1] = broadcast_constant(cx, op->inputs[1], y);
        if (op->inputs[1] < 0)
            return cx->error->status;
    }
    status = convert_activation(cx, in, op);
    return status ? status : convert_output_plain(cx, op);
}

static int convert_mean(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    struct fold axes;
    struct shape x;
    int status = shape_of(cx, in, 0, &x);
    if (!status)
        status = convert_ints(cx, in->inputs[1], "axes", TFLITE_RANK_MAX, &axes);
    if (status)
        return status;
    for (int32_t i = 0; i < axes.n; i++) {
        int32_t axis = tflite_axis(input_of(cx, in, 0), axes.v[i]);
        if (axis == -2)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its axis %lld is out of range",
                                  (long long)axes.v[i]);
        if (axis >= 0)
            op->reduce |= 1u << axis;
    }
    if (op->reduce == 0)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "it reduces nothing but the batch");
    struct shape natural = {op->reduce & 1 ? 1 : x.h, op->reduce & 2 ? 1 : x.w, op->reduce & 4 ? 1 : x.c};
    status = convert_input(cx, op, in->inputs[0]);
    return status ? status : convert_output(cx, op, natural);
}

/* The paddings of PAD and PADV2: one pair a dimension of the input. */
static int convert_paddings(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    struct fold p;
    const struct tflite_tensor *x = input_of(cx, in, 0);
    int32_t *before[] = {&op->pad_top, &op->pad_left, &op->pad_c0};
    int32_t *after[] = {&op->pad_bottom, &op->pad_right, &op->pad_c1};
    int status = convert_ints(cx, in->inputs[1], "paddings", 2 * GRAPH_RANK_MAX, &p);
    if (status)
        return status;
    if (p.n != 2 * x->rank)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it has %d paddings for %d dimensions", p.n,
                              x->rank);
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t first = p.v[2 * i], last = p.v[2 * i + 1];
        int32_t axis = tflite_axis(x, i);
        if (first < 0 || last < 0 || first > GRAPH_DIM_MAX || last > GRAPH_DIM_MAX)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it pads dimension %d by %lld and %lld", i,
                                  (long long)first, (long long)last);
        if (axis < 0 && (first || last))
            return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "it pads the batch");
        if (axis < 0)
            continue;
        *before[axis] = (int32_t)first;
        *after[axis] = (int32_t)last;
    }
    return 0;
}

static int convert_pad(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    int status = convert_paddings(cx, in, op);
    if (!status)
        status = convert_input(cx, op, in->inputs[0]);
    if (!status)
        status = convert_output_plain(cx, op);
    if (status)
        return status;
    op->fill = cx->graph->tensors[op->output].quant.zero_point;
    if (in->n_inputs < 3)
        return 0;
    const struct tflite_tensor *value = input_of(cx, in, 2);
    if (!value->data || value->data_bytes != 1 || value->type != input_of(cx, in, 0)->type)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "its value is not one constant of the input's type");
    op->fill = value->type == TFLITE_UINT8 ? value->data[0] - 128 : (int8_t)value->data[0];
    return 0;
}

/* RESHAPE, SQUEEZE, EXPAND_DIMS: the output's own shape decides; a shape that is given as well must agree. */
static int convert_reshape(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    const struct tflite_tensor *x = input_of(cx, in, 0), *y = output_of(cx, in);
    if (tflite_elements(x) != tflite_elements(y))
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it makes %lld elements of %lld",
                              (long long)tflite_elements(y), (long long)tflite_elements(x));
    if (in->code == TFLITE_RESHAPE && in->n_inputs > 1 && in->inputs[1] >= 0) {
        struct fold shape;
        int status = convert_ints(cx, in->inputs[1], "shape", TFLITE_RANK_MAX, &shape);
        if (status)
            return status;
        bool agrees = shape.n == y->rank;
        for (int32_t i = 0; i < shape.n && agrees; i++)
            agrees = shape.v[i] == -1 || shape.v[i] == y->dims[i];
        if (!agrees)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED,
                                  "the shape it is given is not that of its output");
    }
    return convert_unary(cx, in, op);
}

static int convert_concat(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    op->axis = tflite_axis(output_of(cx, in), in->options.axis);
    if (op->axis == -2)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its axis %d is out of range", in->options.axis);
    if (op->axis == -1)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "it concatenates along the batch");
    if (in->options.activation != TFLITE_ACT_NONE)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "it has a fused activation");
    for (int32_t i = 0; i < in->n_inputs; i++) {
        if (input_of(cx, in, i)->rank != output_of(cx, in)->rank)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "input %d has %d dimensions, its output %d", i,
                                  input_of(cx, in, i)->rank, output_of(cx, in)->rank);
        int status = convert_input(cx, op, in->inputs[i]);
        if (status)
            return status;
    }
    return convert_output_plain(cx, op);
}

static int convert_resize(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    struct fold size;
    struct shape y;
    int status = convert_ints(cx, in->inputs[1], "size", 2, &size);
    if (status)
        return status;
    if (!tflite_shape(output_of(cx, in), &y) || size.n != 2 || size.v[0] != y.h || size.v[1] != y.w)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "the size it is given is not that of its output");
    op->align_corners = in->options.align_corners;
    op->half_pixel_centers = in->options.half_pixel_centers;
    return convert_unary(cx, in, op);
}

static int convert_transpose(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    struct fold perm;
    const struct tflite_tensor *x = input_of(cx, in, 0), *y = output_of(cx, in);
    int status = convert_ints(cx, in->inputs[1], "permutation", GRAPH_RANK_MAX, &perm);
    if (status)
        return status;
    if (perm.n != x->rank || y->rank != x->rank)
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it permutes %d of %d dimensions into %d", perm.n,
                              x->rank, y->rank);
    uint32_t seen = 0;
    for (int32_t i = 0; i < 3; i++)
        op->perm[i] = i;
    for (int32_t i = 0; i < perm.n; i++) {
        if (perm.v[i] < 0 || perm.v[i] >= perm.n || seen >> perm.v[i] & 1)
            return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "its permutation is none");
        seen |= 1u << perm.v[i];
        int32_t to = tflite_axis(x, i), from = tflite_axis(x, perm.v[i]);
        if ((to < 0) != (from < 0))
            return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "it moves the batch");
        if (to >= 0)
            op->perm[to] = from;
    }
    return convert_unary(cx, in, op);
}

/* QUANTIZE and DEQUANTIZE; between two int8 tensors it is a change of scale. */
static int convert_quantize(struct convert *cx, const struct tflite_op *in, struct op *op)
{
    int32_t from = input_of(cx, in, 0)->type, to = output_of(cx, in)->type;
    bool known = in->code == TFLITE_DEQUANTIZE
                     ? (from == TFLITE_INT8 || from == TFLITE_UINT8) && to == TFLITE_FLOAT32
                     : (from == TFLITE_INT8 || from == TFLITE_UINT8 || from == TFLITE_FLOAT32) &&
                           (to == TFLITE_INT8 || to == TFLITE_UINT8);
    if (!known)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "from %s to %s is not supported",
                              tflite_type_name(from), tflite_type_name(to));
    if (input_of(cx, in, 0)->data)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "its input is constant");
    int status = convert_unary(cx, in, op);
    if (!status && op->kind == OP_QUANTIZE && cx->graph->tensors[op->inputs[0]].dtype == DTYPE_INT8 &&
        cx->graph->tensors[op->output].dtype == DTYPE_INT8)
        op->kind = OP_REQUANTIZE;
    return status;
}

#define ROW(code, version, options, needed, min, max, optional, floats, kind, convert)                  \
    {                                                                                                   \
        TFLITE_##code, version, TFLITE_OPT_##options, needed, min, max, optional, floats, kind, convert \
    }

static const struct tflite_row rows[] = {
    ROW(ADD, 5, ADD, false, 2, 2, 0, false, OP_ADD, convert_elementwise),
    ROW(AVERAGE_POOL_2D, 3, POOL_2D, true, 1, 1, 0, false, OP_AVERAGE_POOL, convert_pool),
    ROW(CONCATENATION, 4, CONCATENATION, true, 1, GRAPH_OP_INPUTS_MAX, 0, false, OP_CONCAT, convert_concat),
    ROW(CONV_2D, 8, CONV_2D, true, 2, 3, 4, false, OP_CONV, convert_conv),
    ROW(DEPTHWISE_CONV_2D, 7, DEPTHWISE_CONV_2D, true, 2, 3, 4, false, OP_DEPTHWISE, convert_depthwise),
    ROW(DEQUANTIZE, 6, NONE, false, 1, 1, 0, true, OP_DEQUANTIZE, convert_quantize),
    ROW(FULLY_CONNECTED, 13, FULLY_CONNECTED, true, 2, 3, 4, false, OP_CONV, convert_fully_connected),
    ROW(LOGISTIC, 3, NONE, false, 1, 1, 0, false, OP_LOGISTIC, convert_probability),
    ROW(MAX_POOL_2D, 3, POOL_2D, true, 1, 1, 0, false, OP_MAX_POOL, convert_pool),
    ROW(MUL, 7, MUL, false, 2, 2, 0, false, OP_MUL, convert_elementwise),
    ROW(RELU, 3, NONE, false, 1, 1, 0, false, OP_RELU, convert_unary),
    ROW(RELU6, 3, NONE, false, 1, 1, 0, false, OP_RELU6, convert_unary),
    ROW(RESHAPE, 2, RESHAPE, false, 1, 2, 2, true, OP_RESHAPE, convert_reshape),
    ROW(SOFTMAX, 3, SOFTMAX, true, 1, 1, 0, false, OP_SOFTMAX, convert_probability),
    ROW(PAD, 5, NONE, false, 2, 2, 0, false, OP_PAD, convert_pad),
    ROW(TRANSPOSE, 6, NONE, false, 2, 2, 0, true, OP_TRANSPOSE, convert_transpose),
    ROW(MEAN, 4, REDUCER, false, 2, 2, 0, false, OP_MEAN, convert_mean),
    ROW(SUB, 5, SUB, false, 2, 2, 0, false, OP_SUB, convert_elementwise),
    ROW(SQUEEZE, 2, SQUEEZE, false, 1, 1, 0, true, OP_RESHAPE, convert_reshape),
    ROW(STRIDED_SLICE, 8, STRIDED_SLICE, false, 4, 4, 0, false, -1, fold_strided_slice),
    ROW(PADV2, 5, NONE, false, 3, 3, 0, false, OP_PAD, convert_pad),
    ROW(EXPAND_DIMS, 1, EXPAND_DIMS, false, 2, 2, 0, true, OP_RESHAPE, convert_reshape),
    ROW(SHAPE, 1, SHAPE, false, 1, 1, 0, true, -1, fold_shape),
    ROW(PACK, 4, PACK, false, 1, FOLD_VALUES_MAX, 0, false, -1, fold_pack),
    ROW(RESIZE_NEAREST_NEIGHBOR, 4, RESIZE_NEAREST_NEIGHBOR, false, 2, 2, 0, false, OP_RESIZE_NEAREST,
        convert_resize),
    ROW(QUANTIZE, 5, QUANTIZE, false, 1, 1, 0, true, OP_QUANTIZE, convert_quantize),
};

const struct tflite_row *tflite_row(int32_t code)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}
