/*
 * Graphs: life, sizes, readers, and graph_finish, which orders the operators and finds their places. Nothing
 * here trusts an index before check_indices() has passed; the checks of single tensors and operators are
 * graph_check.c.
 */
#include "server/model/graph_check.h"

#include "server/model/optable.h"

#include <stdlib.h>
#include <string.h>

size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_INT32 || dtype == DTYPE_FLOAT32 ? 4 : 1;
}

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[DTYPE_COUNT] = {"INT8", "UINT8", "INT32", "FP32"};
    return (unsigned)dtype < DTYPE_COUNT ? names[dtype] : "?";
}

struct graph *graph_new(size_t limit_bytes)
{
    struct arena *arena = arena_new(limit_bytes);
    struct graph *graph = arena ? arena_alloc(arena, 1, sizeof *graph) : NULL;
    if (!graph) {
        arena_free(arena);
        return NULL;
    }
    graph->arena = arena;
    graph->name = "";
    return graph;
}

void graph_free(struct graph *graph)
{
    if (graph)
        arena_free(graph->arena);
}

size_t tensor_bytes(const struct tensor *tensor)
{
    return (size_t)shape_elements(tensor->shape) * dtype_bytes(tensor->dtype);
}

static size_t ends_bytes(const struct graph *graph, const int32_t *ends, int32_t count)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += tensor_bytes(&graph->tensors[ends[i]]);
    return bytes;
}

size_t graph_input_bytes(const struct graph *graph)
{
    return ends_bytes(graph, graph->inputs, graph->n_inputs);
}

size_t graph_output_bytes(const struct graph *graph)
{
    return ends_bytes(graph, graph->outputs, graph->n_outputs);
}

static bool op_reads(const struct op *op, int32_t t)
{
    for (int32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] == t)
            return true;
    return false;
}

int32_t graph_readers(const struct graph *graph, int32_t t, int32_t *out, int32_t max)
{
    int32_t count = 0;
    for (int32_t o = 0; o < graph->n_ops; o++) {
        if (!op_reads(&graph->ops[o], t))
            continue;
        if (out && count < max)
            out[count] = o;
        count++;
    }
    return count;
}

static int at_op(struct error *error, const struct op *op, int status)
{
    error_at_layer(error, op->name, op->file_op);
    return status;
}

/* Sets each tensor's producer; no tensor may have two sources. Graph inputs are marked -2 meanwhile. */
static int set_producers(struct graph *graph, struct error *error)
{
    enum { INPUT = -2 };
    for (int32_t t = 0; t < graph->n_tensors; t++)
        graph->tensors[t].producer = -1;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        struct tensor *tensor = &graph->tensors[graph->inputs[i]];
        if (tensor->data || tensor->producer == INPUT)
            return error_set(error, STATUS_MODEL_MALFORMED, "graph input '%s' is %s", tensor->name,
                             tensor->data ? "a constant" : "named twice");
        tensor->producer = INPUT;
    }
    for (int32_t o = 0; o < graph->n_ops; o++) {
        struct op *op = &graph->ops[o];
        struct tensor *tensor = &graph->tensors[op->output];
        if (tensor->data || tensor->producer != -1)
            return at_op(
                error, op,
                error_set(error, STATUS_MODEL_MALFORMED, "tensor '%s' is written twice", tensor->name));
        tensor->producer = o;
    }
    return STATUS_OK;
}

/* Every tensor that is read must come from somewhere. Turns the marks of graph inputs into -1. */
static int check_sources(struct graph *graph, struct error *error)
{
    for (int32_t o = 0; o < graph->n_ops; o++) {
        const struct op *op = &graph->ops[o];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            const struct tensor *tensor = &graph->tensors[op->inputs[i]];
            if (tensor->producer == -1 && !tensor->data)
                return at_op(
                    error, op,
                    error_set(error, STATUS_MODEL_MALFORMED, "nobody produces tensor '%s'", tensor->name));
        }
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        const struct tensor *tensor = &graph->tensors[graph->outputs[i]];
        if (tensor->producer < 0)
            return error_set(error, STATUS_MODEL_MALFORMED, "no operator produces graph output '%s'",
                             tensor->name);
        for (int32_t j = 0; j < i; j++)
            if (graph->outputs[j] == graph->outputs[i])
                return error_set(error, STATUS_MODEL_MALFORMED, "graph output '%s' is named twice",
                                 tensor->name);
    }
    for (int32_t i = 0; i < graph->n_inputs; i++)
        graph->tensors[graph->inputs[i]].producer = -1;
    return STATUS_OK;
}

/* Marks what the graph's outputs need. `stack` has room for all operators. */
static void mark_needed(const struct graph *graph, bool *needed, int32_t *stack)
{
    int32_t depth = 0;
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        int32_t o = graph->tensors[graph->outputs[i]].producer;
        if (!needed[o])
            stack[depth++] = o;
        needed[o] = true;
    }
    while (depth > 0) {
        const struct op *op = &graph->ops[stack[--depth]];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t o = graph->tensors[op->inputs[i]].producer;
            if (o < 0 || needed[o])
                continue;
            needed[o] = true;
            stack[depth++] = o;
        }
    }
}

static bool op_ready(const struct graph *graph, const struct op *op, const bool *placed)
{
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t o = graph->tensors[op->inputs[i]].producer;
        if (o >= 0 && !placed[o])
            return false;
    }
    return true;
}

/* Writes the needed operators to `order`, always the first that is ready; returns how many got a place. */
static int32_t sort_ops(const struct graph *graph, const bool *needed, bool *placed, struct op *order)
{
    int32_t count = 0, first = 0;
    for (;;) {
        int32_t o = first;
        while (o < graph->n_ops && (placed[o] || !needed[o] || !op_ready(graph, &graph->ops[o], placed)))
            o++;
        if (o == graph->n_ops)
            return count;
        placed[o] = true;
        order[count++] = graph->ops[o];
        while (first < graph->n_ops && (placed[first] || !needed[first]))
            first++;
    }
}

/* The needed operators in topological order, producers set anew. */
static int order_ops(struct graph *graph, struct error *error)
{
    size_t n = (size_t)graph->n_ops;
    int status = STATUS_NO_MEMORY;
    bool *needed = calloc(n, sizeof *needed), *placed = calloc(n, sizeof *placed);
    int32_t *stack = calloc(n, sizeof *stack), n_needed = 0;
    struct op *order = calloc(n, sizeof *order);
    if (!needed || !placed || !stack || !order) {
        error_set(error, status, "out of memory");
        goto out;
    }
    mark_needed(graph, needed, stack);
    for (int32_t o = 0; o < graph->n_ops; o++)
        n_needed += needed[o];
    if (sort_ops(graph, needed, placed, order) != n_needed) {
        int32_t o = 0;
        while (!needed[o] || placed[o])
            o++;
        status = at_op(error, &graph->ops[o],
                       error_set(error, STATUS_MODEL_MALFORMED, "the operator depends on its own output"));
        goto out;
    }
    memcpy(graph->ops, order, (size_t)n_needed * sizeof *order);
    graph->n_ops = n_needed;
    for (int32_t t = 0; t < graph->n_tensors; t++)
        graph->tensors[t].producer = -1;
    for (int32_t o = 0; o < graph->n_ops; o++)
        graph->tensors[graph->ops[o].output].producer = o;
    status = STATUS_OK;
out:
    free(needed);
    free(placed);
    free(stack);
    free(order);
    return status;
}

static bool is_output(const struct graph *graph, int32_t t)
{
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] == t)
            return true;
    return false;
}

/* HEAD: of a kind that may stand at an end, and nothing but HEAD before it. */
static bool is_head(const struct graph *graph, const struct op *op)
{
    int32_t before = graph->tensors[op->inputs[0]].producer;
    return op_row(op->kind)->ends && (before < 0 || graph->ops[before].place == OP_PLACE_HEAD);
}

/* Backwards from the last operator: TAIL is of a kind that may stand at an end, and read by TAIL only. `held`
 * has a flag for each tensor: read by an operator that is not TAIL. */
static void set_tail(struct graph *graph, bool *held)
{
    for (int32_t o = graph->n_ops - 1; o >= 0; o--) {
        struct op *op = &graph->ops[o];
        if (op->place != OP_PLACE_HEAD && op_row(op->kind)->ends && !held[op->output]) {
            op->place = OP_PLACE_TAIL;
            continue;
        }
        for (int32_t i = 0; i < op->n_inputs; i++)
            held[op->inputs[i]] = true;
    }
}

static int check_body_types(const struct graph *graph, const struct op *op, struct error *error)
{
    for (int32_t i = 0; i <= op->n_inputs; i++) {
        const struct tensor *tensor = &graph->tensors[i < op->n_inputs ? op->inputs[i] : op->output];
        if (tensor->dtype != DTYPE_INT8)
            return error_set(error, STATUS_MODEL_UNSUPPORTED,
                             "tensor '%s' is %s in the middle of the network; boards compute in INT8 only",
                             tensor->name, dtype_name(tensor->dtype));
    }
    return STATUS_OK;
}

static int set_places(struct graph *graph, struct error *error)
{
    for (int32_t o = 0; o < graph->n_ops; o++) {
        struct op *op = &graph->ops[o];
        op->place = is_head(graph, op) ? OP_PLACE_HEAD : OP_PLACE_BODY;
        int32_t output = op->output;
        if (op->place == OP_PLACE_HEAD && is_output(graph, output))
            return at_op(error, op,
                         error_set(error, STATUS_MODEL_UNSUPPORTED,
                                   "graph output '%s' depends on no operator that a board runs",
                                   graph->tensors[output].name));
    }
    bool *held = calloc((size_t)graph->n_tensors, sizeof *held);
    if (!held)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    set_tail(graph, held);
    free(held);
    for (int32_t o = 0; o < graph->n_ops; o++) {
        const struct op *op = &graph->ops[o];
        int status = op->place == OP_PLACE_BODY ? check_body_types(graph, op, error) : STATUS_OK;
        if (status != STATUS_OK)
            return at_op(error, op, status);
    }
    return STATUS_OK;
}

/* Tensors that only dropped operators used were never checked: nothing of them may be followed. */
static int clear_unused(struct graph *graph, struct error *error)
{
    bool *used = calloc((size_t)graph->n_tensors, sizeof *used);
    if (!used)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    for (int32_t o = 0; o < graph->n_ops; o++) {
        used[graph->ops[o].output] = true;
        for (int32_t i = 0; i < graph->ops[o].n_inputs; i++)
            used[graph->ops[o].inputs[i]] = true;
    }
    for (int32_t t = 0; t < graph->n_tensors; t++)
        if (!used[t]) {
            graph->tensors[t].data = NULL;
            graph->tensors[t].shape = (struct shape){0};
        }
    free(used);
    return STATUS_OK;
}

static int check_inputs_read(const struct graph *graph, struct error *error)
{
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (graph_readers(graph, graph->inputs[i], NULL, 0) == 0)
            return error_set(error, STATUS_MODEL_UNSUPPORTED, "nobody reads graph input '%s'",
                             graph->tensors[graph->inputs[i]].name);
    return STATUS_OK;
}

int graph_finish(struct graph *graph, struct error *error)
{
    int status = graph_check_indices(graph, error);
    if (status == STATUS_OK)
        status = set_producers(graph, error);
    if (status == STATUS_OK)
        status = check_sources(graph, error);
    if (status == STATUS_OK)
        status = order_ops(graph, error);
    if (status == STATUS_OK)
        status = check_inputs_read(graph, error);
    if (status == STATUS_OK)
        status = clear_unused(graph, error);
    if (status == STATUS_OK)
        status = graph_check_tensors(graph, error);
    for (int32_t o = 0; o < graph->n_ops && status == STATUS_OK; o++)
        status = at_op(error, &graph->ops[o], graph_check_op(graph, &graph->ops[o], error));
    if (status == STATUS_OK)
        status = set_places(graph, error);
    return status;
}
