/*
 * Rows for columns in every tensor and every operator: only copies of the two arrays change.
 */
#include "tests/support/transposed.h"

#include <stdlib.h>
#include <string.h>

#define EXCHANGE(a, b)       \
    do {                     \
        int32_t kept_ = (a); \
        (a) = (b);           \
        (b) = kept_;         \
    } while (0)

static void *copied(const void *items, size_t size)
{
    void *copy = malloc(size + 1);
    if (copy && size)
        memcpy(copy, items, size);
    return copy;
}

static void exchange(struct op *op)
{
    static const int32_t other[] = {1, 0, 2};
    EXCHANGE(op->kernel_h, op->kernel_w);
    EXCHANGE(op->stride_h, op->stride_w);
    EXCHANGE(op->dilation_h, op->dilation_w);
    EXCHANGE(op->pad_top, op->pad_left);
    EXCHANGE(op->pad_bottom, op->pad_right);
    if (op->kind == OP_CONCAT)
        op->axis = other[op->axis];
    if (op->kind == OP_MEAN)
        op->reduce = (op->reduce & 4) | (op->reduce & 1) << 1 | (op->reduce & 2) >> 1;
    if (op->kind == OP_TRANSPOSE) {
        const int32_t perm[] = {op->perm[1], op->perm[0], op->perm[2]};
        for (int i = 0; i < 3; i++)
            op->perm[i] = other[perm[i]];
    }
}

struct graph *transposed(const struct graph *graph)
{
    struct graph *copy = copied(graph, sizeof *graph);
    if (!copy)
        return NULL;
    copy->tensors = copied(graph->tensors, (size_t)graph->n_tensors * sizeof *graph->tensors);
    copy->ops = copied(graph->ops, (size_t)graph->n_ops * sizeof *graph->ops);
    if (!copy->tensors || !copy->ops) {
        transposed_free(copy);
        return NULL;
    }
    for (int32_t t = 0; t < copy->n_tensors; t++)
        EXCHANGE(copy->tensors[t].shape.h, copy->tensors[t].shape.w);
    for (int32_t o = 0; o < copy->n_ops; o++)
        exchange(&copy->ops[o]);
    return copy;
}

void transposed_free(struct graph *graph)
{
    if (!graph)
        return;
    free(graph->tensors);
    free(graph->ops);
    free(graph);
}
