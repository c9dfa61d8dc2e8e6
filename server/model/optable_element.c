/*
 * Operator table rows that work element by element (two inputs, look-up, SOFTMAX, QUANTIZE) and MEAN. Shape
 * rules compute each real multiplier as TensorFlow Lite does and refuse those that fixed point cannot hold,
 * so that no executor meets one.
 */
#include "server/model/optable_rows.h"

#include <math.h>

int optable_require_int8(const struct graph *graph, const struct op *op, struct error *error)
{
    for (int32_t i = 0; i <= op->n_inputs; i++) {
        const struct tensor *tensor = &graph->tensors[i < op->n_inputs ? op->inputs[i] : op->output];
        if (tensor->dtype != DTYPE_INT8)
            return error_set(error, STATUS_MODEL_UNSUPPORTED,
                             "tensor '%s' is %s; this operator runs on INT8 only", tensor->name,
                             dtype_name(tensor->dtype));
    }
    return STATUS_OK;
}

int optable_require_multiplier(double multiplier, struct error *error)
{
    if (multiplier >= 0 && multiplier < 0x1p30)
        return STATUS_OK;
    return error_set(error, STATUS_MODEL_UNSUPPORTED,
                     "scales whose ratio is %g cannot be computed in fixed point", multiplier);
}

int optable_require_unit_output(const struct graph *graph, const struct op *op, struct error *error)
{
    struct quant quant = graph->tensors[op->output].quant;
    if (quant.scale == 1.0f / 256 && quant.zero_point == -128)
        return STATUS_OK;
    return error_set(error, STATUS_MODEL_UNSUPPORTED,
                     "output scale %g and zero point %d; only 1/256 and -128 are supported",
                     (double)quant.scale, quant.zero_point);
}

static double scale_of(const struct graph *graph, int32_t tensor)
{
    return (double)graph->tensors[tensor].quant.scale;
}

/* The output has the first input's shape; the second has it too, or is 1x1xc or 1x1x1. */
static int pair_shape(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    struct shape a = optable_in(graph, op, 0), b = optable_in(graph, op, 1);
    *out = a;
    if (shape_equal(a, b) || (b.h == 1 && b.w == 1 && (b.c == a.c || b.c == 1)))
        return optable_require_int8(graph, op, error);
    return error_set(error, STATUS_MODEL_UNSUPPORTED,
                     "the second input's shape %dx%dx%d does not broadcast to %dx%dx%d", b.h, b.w, b.c, a.h,
                     a.w, a.c);
}

int optable_shape_sum(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    int status = pair_shape(graph, op, out, error);
    if (status != STATUS_OK)
        return status;
    double larger = fmax(scale_of(graph, op->inputs[0]), scale_of(graph, op->inputs[1]));
    return optable_require_multiplier(2 * larger / (0x1p20 * scale_of(graph, op->output)), error);
}

int optable_shape_mul(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    int status = pair_shape(graph, op, out, error);
    if (status != STATUS_OK)
        return status;
    double product = scale_of(graph, op->inputs[0]) * scale_of(graph, op->inputs[1]);
    return optable_require_multiplier(product / scale_of(graph, op->output), error);
}

int optable_shape_scale(const struct graph *graph, const struct op *op, struct shape *out,
                        struct error *error)
{
    *out = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    if (status != STATUS_OK)
        return status;
    return optable_require_multiplier(scale_of(graph, op->inputs[0]) / scale_of(graph, op->output), error);
}

int optable_shape_logistic(const struct graph *graph, const struct op *op, struct shape *out,
                           struct error *error)
{
    *out = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    double scale = status == STATUS_OK ? scale_of(graph, op->inputs[0]) * 0x1p27 : 1;
    if (status == STATUS_OK && scale < 1)
        status = error_set(error, STATUS_MODEL_UNSUPPORTED, "input scale %g is not supported",
                           scale_of(graph, op->inputs[0]));
    if (status == STATUS_OK)
        status = optable_require_multiplier(scale, error);
    return status == STATUS_OK ? optable_require_unit_output(graph, op, error) : status;
}

int optable_shape_softmax(const struct graph *graph, const struct op *op, struct shape *out,
                          struct error *error)
{
    /* 4096 ones of Q12.19 overflow the sum of exponentials. */
    enum { DEPTH_MAX = 4095 };
    *out = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    if (status != STATUS_OK)
        return status;
    double scale = (double)op->beta * scale_of(graph, op->inputs[0]);
    if (!(op->beta > 0) || !(scale * 0x1p26 > 1) || !(scale < 0x1p30))
        return error_set(error, STATUS_MODEL_UNSUPPORTED, "beta %g with input scale %g is not supported",
                         (double)op->beta, scale_of(graph, op->inputs[0]));
    if (out->c > DEPTH_MAX) {
        error_set(error, STATUS_MODEL_LIMIT, "softmax over %d channels, the limit is %d", out->c, DEPTH_MAX);
        error_limit(error, DEPTH_MAX, out->c);
        return STATUS_MODEL_LIMIT;
    }
    return optable_require_unit_output(graph, op, error);
}

int optable_shape_mean(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    if (status != STATUS_OK)
        return status;
    if (op->reduce == 0 || op->reduce > OP_AXES_ALL)
        return error_set(error, STATUS_MODEL_MALFORMED, "the mean is over no axis");
    *out = (struct shape){op->reduce & OP_AXIS_H ? 1 : in.h, op->reduce & OP_AXIS_W ? 1 : in.w,
                          op->reduce & OP_AXIS_C ? 1 : in.c};
    int64_t count = shape_elements(in) / shape_elements(*out);
    if (count > INT32_MAX / 256)
        return error_set(error, STATUS_MODEL_LIMIT, "the mean of %lld elements can overflow 32 bits",
                         (long long)count);
    return optable_require_multiplier(scale_of(graph, op->inputs[0]) / scale_of(graph, op->output), error);
}

int optable_shape_quantize(const struct graph *graph, const struct op *op, struct shape *out,
                           struct error *error)
{
    enum dtype from = graph->tensors[op->inputs[0]].dtype, to = graph->tensors[op->output].dtype;
    *out = optable_in(graph, op, 0);
    if (from == DTYPE_FLOAT32 && to == DTYPE_INT8)
        return STATUS_OK;
    if ((from == DTYPE_UINT8 && to == DTYPE_INT8) || (from == DTYPE_INT8 && to == DTYPE_UINT8))
        return optable_require_multiplier(scale_of(graph, op->inputs[0]) / scale_of(graph, op->output),
                                          error);
    return error_set(error, STATUS_MODEL_UNSUPPORTED, "quantising %s to %s is not supported",
                     dtype_name(from), dtype_name(to));
}

int optable_shape_dequantize(const struct graph *graph, const struct op *op, struct shape *out,
                             struct error *error)
{
    enum dtype from = graph->tensors[op->inputs[0]].dtype, to = graph->tensors[op->output].dtype;
    *out = optable_in(graph, op, 0);
    if ((from == DTYPE_INT8 || from == DTYPE_UINT8) && to == DTYPE_FLOAT32)
        return STATUS_OK;
    return error_set(error, STATUS_MODEL_UNSUPPORTED, "dequantising %s to %s is not supported",
                     dtype_name(from), dtype_name(to));
}

struct box optable_need_same(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    struct shape in = optable_in(graph, op, i), whole = optable_out(graph, op);
    if (box_empty(out))
        return (struct box){0};
    if (in.h != whole.h)
        out.h0 = 0, out.h1 = 1;
    if (in.w != whole.w)
        out.w0 = 0, out.w1 = 1;
    if (in.c != whole.c)
        out.c0 = 0, out.c1 = 1;
    return out;
}

struct box optable_need_softmax(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    if (box_empty(out))
        return (struct box){0};
    out.c0 = 0;
    out.c1 = optable_in(graph, op, i).c;
    return out;
}

struct box optable_need_mean(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    struct shape in = optable_in(graph, op, i);
    if (box_empty(out))
        return (struct box){0};
    if (op->reduce & OP_AXIS_H)
        out.h1 = in.h;
    if (op->reduce & OP_AXIS_W)
        out.w1 = in.w;
    if (op->reduce & OP_AXIS_C)
        out.c1 = in.c;
    return out;
}

uint32_t optable_axes_softmax(const struct graph *graph, const struct op *op)
{
    (void)graph, (void)op;
    return OP_AXIS_H | OP_AXIS_W;
}

uint32_t optable_axes_mean(const struct graph *graph, const struct op *op)
{
    (void)graph;
    return OP_AXES_ALL & ~op->reduce;
}
