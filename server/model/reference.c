/*
 * The reference executor: runs a graph operator by operator, every tensor whole and in memory of its own.
 * Nothing is shared with the boards' kernels (shared/nn, shared/quant); this is what they are judged by.
 */
#include "server/model/reference.h"

#include "server/base/stop.h"
#include "server/model/reference_kernels.h"

#include <stdlib.h>
#include <string.h>

static reference_kernel *const kernels[OP_KIND_COUNT] = {
    [OP_CONV] = reference_conv,
    [OP_DEPTHWISE] = reference_depthwise,
    [OP_AVERAGE_POOL] = reference_average_pool,
    [OP_MAX_POOL] = reference_max_pool,
    [OP_MEAN] = reference_mean,
    [OP_ADD] = reference_add,
    [OP_SUB] = reference_sub,
    [OP_MUL] = reference_mul,
    [OP_PAD] = reference_pad,
    [OP_RESHAPE] = reference_reshape,
    [OP_SOFTMAX] = reference_softmax,
    [OP_LOGISTIC] = reference_logistic,
    [OP_RELU] = reference_relu,
    [OP_RELU6] = reference_relu6,
    [OP_CONCAT] = reference_concat,
    [OP_RESIZE_NEAREST] = reference_resize,
    [OP_TRANSPOSE] = reference_transpose,
    [OP_REQUANTIZE] = reference_requantize,
    [OP_QUANTIZE] = reference_quantize,
    [OP_DEQUANTIZE] = reference_dequantize,
};

const struct tensor *reference_input(struct reference_call call, int32_t i)
{
    return &call.graph->tensors[call.op->inputs[i]];
}

const struct tensor *reference_output(struct reference_call call)
{
    return &call.graph->tensors[call.op->output];
}

const void *reference_in(struct reference_call call, int32_t i)
{
    const struct tensor *tensor = reference_input(call, i);
    return tensor->data ? tensor->data : call.tensors[call.op->inputs[i]];
}

void *reference_out(struct reference_call call)
{
    return call.tensors[call.op->output];
}

static int run_op(const struct graph *graph, const struct op *op, void **tensors, struct error *error)
{
    struct reference_call call = {graph, op, tensors};
    int status = STATUS_OK;
    for (int32_t i = 0; i < op->n_inputs; i++)
        if (!reference_in(call, i))
            status =
                error_set(error, STATUS_INTERNAL, "tensor '%s' is missing", reference_input(call, i)->name);
    if (status == STATUS_OK && !tensors[op->output]) {
        tensors[op->output] = malloc(tensor_bytes(reference_output(call)));
        if (!tensors[op->output])
            status = error_set(error, STATUS_NO_MEMORY, "out of memory for tensor '%s'",
                               reference_output(call)->name);
    }
    if (status == STATUS_OK)
        kernels[op->kind](call);
    else
        error_at_layer(error, op->name, op->file_op);
    return status;
}

int reference_run_place(const struct graph *graph, enum op_place place, void **tensors, struct error *error)
{
    int status = STATUS_OK;
    for (int32_t o = 0; o < graph->n_ops && status == STATUS_OK; o++)
        if (graph->ops[o].place == place)
            status = run_op(graph, &graph->ops[o], tensors, error);
    return status;
}

static int check_size(const char *what, size_t need, size_t have, struct error *error)
{
    if (need == have)
        return STATUS_OK;
    error_set(error, STATUS_INPUT_SIZE, "the model's %s has %zu bytes, not %zu", what, need, have);
    error_limit(error, (int64_t)need, (int64_t)have);
    return STATUS_INPUT_SIZE;
}

int reference_run_keep(const struct graph *graph, const void *input, size_t input_bytes, void **tensors,
                       struct error *error)
{
    const unsigned char *at = input;
    memset(tensors, 0, (size_t)graph->n_tensors * sizeof *tensors);
    int status = check_size("input", graph_input_bytes(graph), input_bytes, error);
    for (int32_t i = 0; i < graph->n_inputs && status == STATUS_OK; i++) {
        int32_t t = graph->inputs[i];
        size_t bytes = tensor_bytes(&graph->tensors[t]);
        tensors[t] = malloc(bytes);
        if (!tensors[t]) {
            status = error_set(error, STATUS_NO_MEMORY, "out of memory");
        } else {
            memcpy(tensors[t], at, bytes);
            at += bytes;
        }
    }
    for (int32_t o = 0; o < graph->n_ops && status == STATUS_OK; o++) {
        status = stop_check(error);
        if (status == STATUS_OK)
            status = run_op(graph, &graph->ops[o], tensors, error);
    }
    if (status != STATUS_OK)
        reference_free_tensors(graph, tensors);
    return status;
}

void reference_free_tensors(const struct graph *graph, void **tensors)
{
    for (int32_t t = 0; t < graph->n_tensors; t++) {
        free(tensors[t]);
        tensors[t] = NULL;
    }
}

int reference_run(const struct graph *graph, const void *input, size_t input_bytes, void *output,
                  size_t output_bytes, struct error *error)
{
    int status = check_size("output", graph_output_bytes(graph), output_bytes, error);
    if (status != STATUS_OK)
        return status;
    void **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
    if (!tensors)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    status = reference_run_keep(graph, input, input_bytes, tensors, error);
    unsigned char *at = output;
    for (int32_t i = 0; i < graph->n_outputs && status == STATUS_OK; i++) {
        size_t bytes = tensor_bytes(&graph->tensors[graph->outputs[i]]);
        memcpy(at, tensors[graph->outputs[i]], bytes);
        at += bytes;
    }
    reference_free_tensors(graph, tensors);
    free(tensors);
    return status;
}
