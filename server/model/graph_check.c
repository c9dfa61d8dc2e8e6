/*
 * What graph_finish asks of indices, names, tensors and operators. The graph may come from a hostile file by
 * way of the importer child, or from a damaged database; so every number is looked at before it is used.
 */
#include "server/model/graph_check.h"

#include "server/base/utf8.h"
#include "server/model/optable.h"

#include <stdlib.h>
#include <string.h>

static bool index_ok(const struct graph *graph, int32_t t)
{
    return t >= 0 && t < graph->n_tensors;
}

/* C0, DEL, C1: nothing that a terminal or a page could be steered by. */
static bool is_control(const unsigned char *s)
{
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

static int check_name(const char *name, const char *what, struct error *error)
{
    if (!name || strnlen(name, GRAPH_NAME_MAX + 1) > GRAPH_NAME_MAX)
        return error_set(error, STATUS_MODEL_LIMIT, "the name of %s is longer than %d bytes", what,
                         GRAPH_NAME_MAX);
    while (*name) {
        size_t n = utf8_length(name);
        if (n == 0 || is_control((const unsigned char *)name))
            return error_set(error, STATUS_MODEL_MALFORMED,
                             "the name of %s has control characters or is not UTF-8", what);
        name += n;
    }
    return STATUS_OK;
}

static int check_count(const char *what, int32_t count, int32_t least, int32_t most, struct error *error)
{
    if (count >= least && count <= most)
        return STATUS_OK;
    error_set(error, STATUS_MODEL_LIMIT, "the graph has %d %s; %d to %d are allowed", count, what, least,
              most);
    error_limit(error, most, count);
    return STATUS_MODEL_LIMIT;
}

static int check_op_indices(const struct graph *graph, const struct op *op, struct error *error)
{
    const struct op_row *row = op_row(op->kind);
    if (!row)
        return error_set(error, STATUS_MODEL_MALFORMED, "operator kind %d does not exist", (int)op->kind);
    if (op->n_inputs < row->min_inputs || op->n_inputs > row->max_inputs)
        return error_set(error, STATUS_MODEL_MALFORMED, "%d inputs; %s takes %d to %d", op->n_inputs,
                         row->name, row->min_inputs, row->max_inputs);
    for (int32_t i = 0; i <= op->n_inputs; i++) {
        int32_t t = i < op->n_inputs ? op->inputs[i] : op->output;
        if (!index_ok(graph, t))
            return error_set(error, STATUS_MODEL_MALFORMED, "tensor index %d, there are %d", t,
                             graph->n_tensors);
    }
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_op_names(const struct graph *graph, struct error *error)
{
    const char **names = calloc((size_t)graph->n_ops, sizeof *names);
    int status = names ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory");
    for (int32_t o = 0; o < graph->n_ops && status == STATUS_OK; o++) {
        names[o] = graph->ops[o].name;
        status = check_name(graph->ops[o].name, "an operator", error);
        if (status == STATUS_OK && !graph->ops[o].name[0])
            status = error_set(error, STATUS_MODEL_MALFORMED, "operator %d has no name", o);
        if (status == STATUS_OK)
            status = check_name(graph->ops[o].file_op, "an operator's kind", error);
    }
    if (status == STATUS_OK)
        qsort(names, (size_t)graph->n_ops, sizeof *names, compare_names);
    for (int32_t o = 1; o < graph->n_ops && status == STATUS_OK; o++)
        if (strcmp(names[o - 1], names[o]) == 0)
            status = error_set(error, STATUS_MODEL_MALFORMED, "two operators are named '%s'", names[o]);
    free(names);
    return status;
}

static int check_ends(const struct graph *graph, const int32_t *ends, int32_t count, const char *what,
                      struct error *error)
{
    int status = check_count(what, count, 1, GRAPH_ENDS_MAX, error);
    for (int32_t i = 0; i < count && status == STATUS_OK; i++)
        if (!index_ok(graph, ends[i]))
            status = error_set(error, STATUS_MODEL_MALFORMED, "graph %s: tensor index %d, there are %d", what,
                               ends[i], graph->n_tensors);
    return status;
}

int graph_check_indices(const struct graph *graph, struct error *error)
{
    int status = check_name(graph->name, "the graph", error);
    if (status == STATUS_OK)
        status = check_count("tensors", graph->n_tensors, 1, GRAPH_TENSORS_MAX, error);
    if (status == STATUS_OK)
        status = check_count("operators", graph->n_ops, 1, GRAPH_OPS_MAX, error);
    if (status == STATUS_OK)
        status = check_ends(graph, graph->inputs, graph->n_inputs, "inputs", error);
    if (status == STATUS_OK)
        status = check_ends(graph, graph->outputs, graph->n_outputs, "outputs", error);
    for (int32_t t = 0; t < graph->n_tensors && status == STATUS_OK; t++)
        status = check_name(graph->tensors[t].name, "a tensor", error);
    if (status == STATUS_OK)
        status = check_op_names(graph, error);
    for (int32_t o = 0; o < graph->n_ops && status == STATUS_OK; o++) {
        status = check_op_indices(graph, &graph->ops[o], error);
        if (status != STATUS_OK)
            error_at_layer(error, graph->ops[o].name, graph->ops[o].file_op);
    }
    return status;
}

int graph_shape(const int32_t *dims, int32_t rank, struct shape *shape, struct error *error)
{
    int32_t last[3] = {1, 1, 1};
    if (rank < 0 || rank > GRAPH_RANK_MAX)
        return error_set(error, STATUS_MODEL_LIMIT, "%d dimensions, at most %d are supported", rank,
                         GRAPH_RANK_MAX);
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] < 1 || dims[i] > GRAPH_DIM_MAX) {
            error_set(error, STATUS_MODEL_LIMIT, "a dimension of %d; 1 to %d are supported", dims[i],
                      GRAPH_DIM_MAX);
            error_limit(error, GRAPH_DIM_MAX, dims[i]);
            return STATUS_MODEL_LIMIT;
        }
    if (rank == GRAPH_RANK_MAX && dims[0] != 1)
        return error_set(error, STATUS_MODEL_UNSUPPORTED, "a batch of %d; only 1 is supported", dims[0]);
    int32_t skip = rank == GRAPH_RANK_MAX ? 1 : 0;
    for (int32_t i = skip; i < rank; i++)
        last[3 - rank + i] = dims[i];
    *shape = (struct shape){last[0], last[1], last[2]};
    int64_t elements = shape_elements(*shape);
    if (elements <= GRAPH_ELEMENTS_MAX)
        return STATUS_OK;
    error_set(error, STATUS_MODEL_LIMIT, "%lld elements, the limit is %d", (long long)elements,
              GRAPH_ELEMENTS_MAX);
    error_limit(error, GRAPH_ELEMENTS_MAX, elements);
    return STATUS_MODEL_LIMIT;
}

static int check_quant(const struct tensor *tensor, struct error *error)
{
    bool is_uint8 = tensor->dtype == DTYPE_UINT8;
    if (!is_uint8 && tensor->dtype != DTYPE_INT8)
        return STATUS_OK;
    float scale = tensor->quant.scale;
    if (!(scale >= 0x1p-60f && scale <= 0x1p60f))
        return error_set(error, STATUS_MODEL_MALFORMED, "tensor '%s' has scale %g, which is not usable",
                         tensor->name, (double)scale);
    int32_t least = is_uint8 ? 0 : -128, most = is_uint8 ? 255 : 127, zero = tensor->quant.zero_point;
    if (zero < least || zero > most)
        return error_set(error, STATUS_MODEL_MALFORMED, "tensor '%s' has zero point %d, outside %s",
                         tensor->name, zero, dtype_name(tensor->dtype));
    return STATUS_OK;
}

static int check_tensor(struct tensor *tensor, struct error *error)
{
    struct shape shape;
    if ((unsigned)tensor->dtype >= DTYPE_COUNT)
        return error_set(error, STATUS_MODEL_MALFORMED, "tensor '%s' has type %d, which does not exist",
                         tensor->name, (int)tensor->dtype);
    int status = graph_shape(tensor->dims, tensor->rank, &shape, error);
    if (status != STATUS_OK)
        return status;
    if (tensor->shape.h == 0 && tensor->shape.w == 0 && tensor->shape.c == 0)
        tensor->shape = shape;
    if (!shape_equal(tensor->shape, shape))
        return error_set(error, STATUS_MODEL_MALFORMED, "tensor '%s' has dims unlike its shape %dx%dx%d",
                         tensor->name, tensor->shape.h, tensor->shape.w, tensor->shape.c);
    return check_quant(tensor, error);
}

int graph_check_tensors(struct graph *graph, struct error *error)
{
    /* Tensors that nobody reads or writes (left by dropped operators) may be anything. */
    int status = STATUS_OK;
    for (int32_t i = 0; i < graph->n_inputs && status == STATUS_OK; i++)
        status = check_tensor(&graph->tensors[graph->inputs[i]], error);
    for (int32_t o = 0; o < graph->n_ops && status == STATUS_OK; o++) {
        struct op *op = &graph->ops[o];
        for (int32_t i = 0; i < op->n_inputs && status == STATUS_OK; i++)
            status = check_tensor(&graph->tensors[op->inputs[i]], error);
        if (status == STATUS_OK)
            status = check_tensor(&graph->tensors[op->output], error);
        if (status != STATUS_OK)
            error_at_layer(error, op->name, op->file_op);
    }
    return status;
}

static int check_constants(const struct graph *graph, const struct op *op, struct error *error)
{
    for (int32_t i = 0; i < op->n_inputs; i++) {
        const struct tensor *tensor = &graph->tensors[op->inputs[i]];
        if (tensor->data && !(i == 1 && op_row(op->kind)->constant_input))
            return error_set(error, STATUS_MODEL_UNSUPPORTED, "input %d, '%s', is a constant", i,
                             tensor->name);
    }
    return STATUS_OK;
}

static int check_no_window(const struct op *op, struct error *error)
{
    const int32_t fields[] = {op->kernel_h, op->kernel_w,   op->stride_h,
                              op->stride_w, op->dilation_h, op->dilation_w};
    for (int i = 0; i < 6; i++)
        if (fields[i] < 0 || fields[i] > 1)
            return error_set(error, STATUS_MODEL_MALFORMED, "a window where none belongs");
    return STATUS_OK;
}

int graph_check_op(const struct graph *graph, const struct op *op, struct error *error)
{
    const struct op_row *row = op_row(op->kind);
    struct shape made = {0}, said = graph->tensors[op->output].shape;
    int status = check_constants(graph, op, error);
    if (status == STATUS_OK && (unsigned)op->activation > ACTIVATION_RELU_N1_TO_1)
        status =
            error_set(error, STATUS_MODEL_MALFORMED, "activation %d does not exist", (int)op->activation);
    if (status == STATUS_OK && !row->window)
        status = check_no_window(op, error);
    if (status == STATUS_OK && (op->weights || op->weight_bytes || op->bias) != row->needs_weights)
        status = error_set(error, STATUS_MODEL_MALFORMED, "weights are %s",
                           row->needs_weights ? "missing" : "not expected");
    if (status == STATUS_OK && (op->weight_bytes < 0 || op->weight_bytes > GRAPH_WEIGHT_BYTES_MAX))
        status = error_set(error, STATUS_MODEL_LIMIT, "%lld bytes of weights", (long long)op->weight_bytes);
    if (status == STATUS_OK)
        status = row->shape(graph, op, &made, error);
    if (status == STATUS_OK && !shape_equal(made, said))
        status = error_set(error, STATUS_MODEL_MALFORMED, "the output is %dx%dx%d, its tensor says %dx%dx%d",
                           made.h, made.w, made.c, said.h, said.w, said.c);
    return status;
}
