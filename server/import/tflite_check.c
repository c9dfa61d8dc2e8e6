/*
 * The meaning pass over a TensorFlow Lite file: every index lies in its range, every tensor that is used has
 * a supported type, a sane shape, data of just that size and a sane quantisation, every operator is known in
 * that version, and every tensor is written once or given. After it the conversion may index without looking.
 * It does not look for cycles and does not infer shapes: graph_finish() does, on the converted graph.
 */
#include "server/import/tflite_file.h"

#include "server/model/graph.h"

#include <math.h>

enum { PRODUCER_NONE = -1, PRODUCER_INPUT = -2, ELEMENTS_MAX = 64 * 1024 * 1024 };

struct check {
    const struct tflite_file *file;
    struct error *error;
    int32_t *producer; /* operator, or PRODUCER_* */
    bool *seen;        /* tensor was checked */
    bool has_8_bit;    /* some tensor that an operator writes is int8 or uint8 */
};

int64_t tflite_elements(const struct tflite_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] <= 0 || n > (INT64_C(1) << 40) / tensor->dims[i])
            return -1;
        n *= tensor->dims[i];
    }
    return n;
}

static int64_t type_bytes(int32_t type)
{
    switch (type) {
    case TFLITE_INT8:
    case TFLITE_UINT8:
        return 1;
    case TFLITE_INT32:
    case TFLITE_FLOAT32:
        return 4;
    case TFLITE_INT64:
        return 8;
    default:
        return 0;
    }
}

static bool eight_bit(int32_t type)
{
    return type == TFLITE_INT8 || type == TFLITE_UINT8;
}

static int check_quantization(struct check *c, int32_t i, int32_t t, const struct tflite_tensor *x)
{
    int64_t low = x->type == TFLITE_INT8 ? -128 : 0, high = low + 255;
    if (x->n_scales == 0)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "tensor %d is %s without a quantisation", t, tflite_type_name(x->type));
    if (x->n_zero_points != 0 && x->n_zero_points != x->n_scales)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                             "tensor %d has %d scales and %d zero points", t, x->n_scales, x->n_zero_points);
    for (int32_t k = 0; k < x->n_scales; k++)
        if (!isfinite(x->scales[k]) || x->scales[k] <= 0.0f)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                                 "scale %d of tensor %d is %g; it must be finite and above 0", k, t,
                                 (double)x->scales[k]);
    for (int32_t k = 0; k < x->n_zero_points; k++)
        if (x->zero_points[k] < low || x->zero_points[k] > high)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                                 "zero point %d of tensor %d is %lld, outside %s", k, t,
                                 (long long)x->zero_points[k], tflite_type_name(x->type));
    if (x->n_scales == 1)
        return 0;
    if (!x->data)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "tensor %d has %d scales; activations have one", t, x->n_scales);
    int32_t axis = x->quantized_dimension;
    if (axis < 0 || axis >= x->rank || x->n_scales != x->dims[axis])
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                             "tensor %d has %d scales along dimension %d, which has not that many channels",
                             t, x->n_scales, axis);
    return 0;
}

static int check_shape(struct check *c, int32_t i, int32_t t, const struct tflite_tensor *x)
{
    if (x->rank > GRAPH_RANK_MAX + (x->data ? 1 : 0))
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "tensor %d has %d dimensions, more than %d", t, x->rank, GRAPH_RANK_MAX);
    for (int32_t k = 0; k < x->rank; k++) {
        if (x->dims[k] <= 0)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                                 "dimension %d of tensor %d is %d", k, t, x->dims[k]);
        if (x->dims[k] > GRAPH_DIM_MAX) {
            int status = tflite_refuse(c->file, i, c->error, STATUS_MODEL_LIMIT,
                                       "dimension %d of tensor %d is %d, more than %d", k, t, x->dims[k],
                                       GRAPH_DIM_MAX);
            error_limit(c->error, GRAPH_DIM_MAX, x->dims[k]);
            return status;
        }
    }
    int64_t n = tflite_elements(x);
    if (n < 0 || n > ELEMENTS_MAX) {
        int status = tflite_refuse(c->file, i, c->error, STATUS_MODEL_LIMIT,
                                   "tensor %d has more than %d elements", t, ELEMENTS_MAX);
        error_limit(c->error, ELEMENTS_MAX, n);
        return status;
    }
    if (x->data && (int64_t)x->data_bytes != n * type_bytes(x->type))
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                             "tensor %d has %zu bytes of data; its shape needs %lld", t, x->data_bytes,
                             (long long)(n * type_bytes(x->type)));
    return 0;
}

/* Tensor `t`, as operator `i` uses it; once. */
static int check_tensor(struct check *c, int32_t i, int32_t t)
{
    const struct tflite_tensor *x = &c->file->tensors[t];
    if (c->seen[t])
        return 0;
    c->seen[t] = true;
    if (type_bytes(x->type) == 0)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "tensor %d is %s; supported are INT8, UINT8, INT32 and FLOAT32", t,
                             tflite_type_name(x->type));
    if (x->variable)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED, "tensor %d is a variable", t);
    if (x->sparse)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED, "tensor %d is sparse", t);
    if (x->custom_quantization)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "tensor %d has a custom quantisation", t);
    int status = check_shape(c, i, t, x);
    if (!status && eight_bit(x->type))
        status = check_quantization(c, i, t, x);
    return status;
}

static int check_float(struct check *c, int32_t i, const struct tflite_row *row)
{
    const struct tflite_op *op = &c->file->ops[i];
    if (row && row->float_ends)
        return 0;
    bool float_in =
        op->n_inputs > 0 && op->inputs[0] >= 0 && c->file->tensors[op->inputs[0]].type == TFLITE_FLOAT32;
    bool float_out = c->file->tensors[op->outputs[0]].type == TFLITE_FLOAT32;
    bool weights_8_bit =
        op->n_inputs > 1 && op->inputs[1] >= 0 && eight_bit(c->file->tensors[op->inputs[1]].type);
    if (!float_in && !float_out)
        return 0;
    return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                         "%s; only int8 and uint8 quantised models run for now",
                         float_in && weights_8_bit && row ? "hybrid, 8-bit weights on float activations"
                         : c->has_8_bit                   ? "computes in float"
                                                          : "this is a float model");
}

/* Operator `i`: indices of its tensors, before anything looks at the tensors. */
static int check_indices(struct check *c, int32_t i)
{
    const struct tflite_op *op = &c->file->ops[i];
    if (op->n_outputs == 0)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "it has no output");
    for (int32_t k = 0; k < op->n_outputs; k++) {
        int32_t t = op->outputs[k];
        if (t < 0 || t >= c->file->n_tensors)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "output %d is tensor %d of %d",
                                 k, t, c->file->n_tensors);
        if (c->file->tensors[t].data)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                                 "it writes the constant tensor %d", t);
        if (c->producer[t] != PRODUCER_NONE)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "it writes tensor %d, %s", t,
                                 c->producer[t] == PRODUCER_INPUT ? "an input of the model"
                                                                  : "which another operator writes too");
        c->producer[t] = i;
        c->has_8_bit = c->has_8_bit || eight_bit(c->file->tensors[t].type);
    }
    for (int32_t k = 0; k < op->n_inputs; k++) {
        int32_t t = op->inputs[k];
        if (t < -1 || t >= c->file->n_tensors)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "input %d is tensor %d of %d",
                                 k, t, c->file->n_tensors);
    }
    return 0;
}

static int check_known(struct check *c, int32_t i, const struct tflite_row *row)
{
    const struct tflite_op *op = &c->file->ops[i];
    if (!row)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "this operator is not supported");
    if (op->version < 1 || op->version > row->max_version)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_UNSUPPORTED,
                             "version %d of this operator is not supported, 1 to %d are", op->version,
                             row->max_version);
    if (op->n_inputs < row->min_inputs || op->n_inputs > row->max_inputs)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "it has %d inputs, not %d to %d",
                             op->n_inputs, row->min_inputs, row->max_inputs);
    if (op->n_outputs != 1)
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "it has %d outputs, not one",
                             op->n_outputs);
    bool options = op->options.type != TFLITE_OPT_NONE;
    if ((options && row->options != TFLITE_OPT_NONE && op->options.type != row->options) ||
        (!options && row->options_needed))
        return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "its options are %s",
                             options ? "those of another operator" : "missing");
    return 0;
}

static int check_op(struct check *c, int32_t i)
{
    const struct tflite_op *op = &c->file->ops[i];
    const struct tflite_row *row = tflite_row(op->code);
    int status = c->has_8_bit ? check_known(c, i, row) : check_float(c, i, row);
    if (!status)
        status = c->has_8_bit ? check_float(c, i, row) : check_known(c, i, row);
    for (int32_t k = 0; k < op->n_inputs && !status; k++) {
        int32_t t = op->inputs[k];
        if (t < 0) {
            if (!(row->optional >> k & 1))
                status =
                    tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED, "input %d is missing", k);
            continue;
        }
        if (!c->file->tensors[t].data && c->producer[t] == PRODUCER_NONE)
            return tflite_refuse(c->file, i, c->error, STATUS_MODEL_MALFORMED,
                                 "input %d is tensor %d, which nothing produces", k, t);
        status = check_tensor(c, i, t);
    }
    return status ? status : check_tensor(c, i, op->outputs[0]);
}

/* Inputs and outputs of the model. */
static int check_ends(struct check *c, const int32_t *ends, int32_t n, const char *what)
{
    if (n == 0)
        return error_set(c->error, STATUS_MODEL_MALFORMED, "the model has no %s", what);
    for (int32_t k = 0; k < n; k++) {
        if (ends[k] < 0 || ends[k] >= c->file->n_tensors)
            return error_set(c->error, STATUS_MODEL_MALFORMED, "%s %d is tensor %d of %d", what, k, ends[k],
                             c->file->n_tensors);
        for (int32_t j = 0; j < k; j++)
            if (ends[j] == ends[k])
                return error_set(c->error, STATUS_MODEL_MALFORMED, "%s %d is tensor %d, like %s %d", what, k,
                                 ends[k], what, j);
        const struct tflite_tensor *x = &c->file->tensors[ends[k]];
        if (x->data)
            return error_set(c->error, STATUS_MODEL_MALFORMED, "%s %d is the constant tensor %d", what, k,
                             ends[k]);
        if (x->rank > 1 && x->dims[0] != 1)
            return error_set(c->error, STATUS_MODEL_UNSUPPORTED,
                             "%s %d has a batch of %d; only batch 1 is supported", what, k, x->dims[0]);
    }
    return 0;
}

static int check_all(struct check *c)
{
    const struct tflite_file *file = c->file;
    int status = check_ends(c, file->inputs, file->n_inputs, "input");
    if (!status)
        status = check_ends(c, file->outputs, file->n_outputs, "output");
    if (status)
        return status;
    if (file->n_ops == 0)
        return error_set(c->error, STATUS_MODEL_MALFORMED, "the model has no operators");
    for (int32_t k = 0; k < file->n_inputs; k++)
        c->producer[file->inputs[k]] = PRODUCER_INPUT;
    for (int32_t i = 0; i < file->n_ops && !status; i++)
        status = check_indices(c, i);
    for (int32_t i = 0; i < file->n_ops && !status; i++)
        status = check_op(c, i);
    for (int32_t k = 0; k < file->n_inputs && !status; k++)
        if (!c->seen[file->inputs[k]])
            status = error_set(c->error, STATUS_MODEL_UNSUPPORTED,
                               "input %d (tensor %d) is read by no operator", k, file->inputs[k]);
    for (int32_t k = 0; k < file->n_outputs && !status; k++)
        if (c->producer[file->outputs[k]] < 0)
            status = error_set(c->error, STATUS_MODEL_MALFORMED,
                               "output %d is tensor %d, which no operator produces", k, file->outputs[k]);
    return status;
}

int tflite_check(const struct tflite_file *file, struct arena *scratch, struct error *error)
{
    struct check c = {.file = file, .error = error};
    c.producer = arena_alloc(scratch, (size_t)file->n_tensors, sizeof *c.producer);
    c.seen = arena_alloc(scratch, (size_t)file->n_tensors, sizeof *c.seen);
    if (!c.producer || !c.seen)
        return error_set(error, STATUS_NO_MEMORY, "out of memory while checking the model");
    for (int32_t t = 0; t < file->n_tensors; t++)
        c.producer[t] = PRODUCER_NONE;
    return check_all(&c);
}
