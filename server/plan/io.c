/*
 * The coordinator's ends of one inference: the graph's head before, its tail after, both by the reference
 * executor. Tensors are kept as that executor wants them: one malloc'ed block each, NULL for what is not
 * there.
 */
#include "server/model/optable.h"
#include "server/model/reference.h"
#include "server/plan/plan.h"

#include <stdlib.h>
#include <string.h>

void plan_io_free(struct plan_io *io)
{
    if (!io)
        return;
    for (int32_t t = 0; io->tensors && t < io->plan->graph->n_tensors; t++)
        free(io->tensors[t]);
    free(io->tensors);
    free(io->inputs);
    free(io);
}

static int put_tensor(struct plan_io *io, int32_t t, const void *bytes, struct error *error)
{
    size_t size = tensor_bytes(&io->plan->graph->tensors[t]);
    if (!io->tensors[t])
        io->tensors[t] = malloc(size ? size : 1);
    if (!io->tensors[t])
        return error_set(error, STATUS_NO_MEMORY, "no memory for a tensor of %zu bytes", size);
    memcpy(io->tensors[t], bytes, size);
    return 0;
}

/* RESHAPEs that no instruction makes. */
static int put_views(struct plan_io *io, struct error *error)
{
    const struct graph *graph = io->plan->graph;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        if (op->place != OP_PLACE_BODY || op_row(op->kind)->kernel != OP_KERNEL_FREE ||
            !io->tensors[op->inputs[0]] || io->tensors[op->output])
            continue;
        if (put_tensor(io, op->output, io->tensors[op->inputs[0]], error) < 0)
            return error->status;
    }
    return 0;
}

static int run_head(struct plan_io *io, const void *input, struct error *error)
{
    const struct graph *graph = io->plan->graph;
    const char *at = input;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        if (put_tensor(io, graph->inputs[i], at, error) < 0)
            return error->status;
        at += tensor_bytes(&graph->tensors[graph->inputs[i]]);
    }
    int status = reference_run_place(graph, OP_PLACE_HEAD, io->tensors, error);
    if (status < 0)
        return status;
    for (int32_t e = 0; e < io->plan->n_exchanges; e++)
        if (io->plan->table.exchanges[e].is_input)
            io->inputs[e] = io->tensors[io->plan->table.exchanges[e].tensor];
    return 0;
}

struct plan_io *plan_io_begin(const struct plan *plan, const void *input, size_t input_bytes,
                              struct error *error)
{
    struct error own;
    if (!error)
        error = &own;
    error_clear(error);
    size_t needed = graph_input_bytes(plan->graph);
    if (input_bytes != needed) {
        error_set(error, STATUS_INPUT_SIZE, "the input has %zu bytes, the model takes %zu", input_bytes,
                  needed);
        return NULL;
    }
    struct plan_io *io = calloc(1, sizeof *io);
    if (io) {
        io->plan = plan;
        io->tensors = calloc((size_t)plan->graph->n_tensors + 1, sizeof *io->tensors);
        io->inputs = calloc((size_t)plan->n_exchanges + 1, sizeof *io->inputs);
    }
    if (!io || !io->tensors || !io->inputs)
        error_set(error, STATUS_NO_MEMORY, "no memory for an inference");
    else if (run_head(io, input, error) == 0)
        return io;
    plan_io_free(io);
    return NULL;
}

int plan_io_end(struct plan_io *io, const int8_t *const *outputs, void *output, size_t output_bytes,
                struct error *error)
{
    const struct graph *graph = io->plan->graph;
    struct error own;
    if (!error)
        error = &own;
    error_clear(error);
    if (output_bytes != graph_output_bytes(graph))
        return error_set(error, STATUS_INVALID_ARGUMENT, "room for %zu bytes of output, %zu are needed",
                         output_bytes, graph_output_bytes(graph));
    for (int32_t e = 0; e < io->plan->n_exchanges; e++) {
        const struct conduct_exchange *exchange = &io->plan->table.exchanges[e];
        if (exchange->is_output && !exchange->is_input &&
            put_tensor(io, exchange->tensor, outputs[e], error) < 0)
            return error->status;
    }
    if (put_views(io, error) < 0)
        return error->status;
    int status = reference_run_place(graph, OP_PLACE_TAIL, io->tensors, error);
    char *at = output;
    for (int32_t i = 0; i < graph->n_outputs && status >= 0; i++) {
        const struct tensor *tensor = &graph->tensors[graph->outputs[i]];
        const void *from = io->tensors[graph->outputs[i]] ? io->tensors[graph->outputs[i]] : tensor->data;
        if (!from)
            return error_set(error, STATUS_INTERNAL, "output '%s' was not made", tensor->name);
        memcpy(at, from, tensor_bytes(tensor));
        at += tensor_bytes(tensor);
    }
    return status;
}
