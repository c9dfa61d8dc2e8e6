/*
 * A graph with its tensors of one row turned into tensors of one column. Nothing is moved: every axis 0 of
 * what is turned becomes axis 1 and the other way round. Weights of a window of one row (or one column) are
 * the same bytes both ways; any other window of several rows is not turned.
 */
#include "server/model/tall.h"

#include "server/model/optable.h"

bool tall_tensor(const struct graph *graph, int32_t tensor)
{
    const struct tensor *it = &graph->tensors[tensor];
    return !it->data && it->shape.h == 1 && it->shape.w > 1;
}

static bool has_tall(const struct graph *graph, const struct op *op)
{
    bool any = tall_tensor(graph, op->output);
    for (int32_t i = 0; i < op->n_inputs; i++)
        any |= tall_tensor(graph, op->inputs[i]);
    return any && op->place == OP_PLACE_BODY && op_row(op->kind)->kernel != OP_KERNEL_FREE;
}

static bool can_turn(const struct graph *graph, const struct op *op)
{
    const struct op_row *row = op_row(op->kind);
    if (graph->tensors[op->output].shape.h > 1)
        return false;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        const struct tensor *in = &graph->tensors[op->inputs[i]];
        if (in->shape.h > 1 || (in->data && in->shape.w > 1))
            return false;
    }
    if (!row->window)
        return true;
    return (int64_t)(op->kernel_w - 1) * op->dilation_w < GRAPH_WINDOW_MAX &&
           (!row->needs_weights || op->kernel_h == 1 || op->kernel_w == 1);
}

bool tall_turns(const struct graph *graph, const struct op *op)
{
    return has_tall(graph, op) && can_turn(graph, op);
}

bool tall_stays(const struct graph *graph, const struct op *op)
{
    return has_tall(graph, op) && !can_turn(graph, op);
}

static void swap(int32_t *a, int32_t *b)
{
    int32_t kept = *a;
    *a = *b;
    *b = kept;
}

static int32_t turned_axis(int32_t axis)
{
    return axis == 0 ? 1 : axis == 1 ? 0 : axis;
}

static void turn(struct op *op)
{
    swap(&op->kernel_h, &op->kernel_w);
    swap(&op->stride_h, &op->stride_w);
    swap(&op->dilation_h, &op->dilation_w);
    swap(&op->pad_top, &op->pad_left);
    swap(&op->pad_bottom, &op->pad_right);
    swap(&op->perm[0], &op->perm[1]);
    for (int32_t i = 0; i < 3; i++)
        op->perm[i] = turned_axis(op->perm[i]);
    op->axis = turned_axis(op->axis);
    op->reduce = (op->reduce & OP_AXIS_C) | (op->reduce & OP_AXIS_H ? OP_AXIS_W : 0) |
                 (op->reduce & OP_AXIS_W ? OP_AXIS_H : 0);
}

const struct graph *tall_graph(const struct graph *graph, struct arena *arena)
{
    struct graph *tall = arena_copy(arena, graph, sizeof *graph);
    struct tensor *tensors =
        arena_copy(arena, graph->tensors, (size_t)graph->n_tensors * sizeof *graph->tensors);
    struct op *ops = arena_copy(arena, graph->ops, (size_t)graph->n_ops * sizeof *graph->ops);
    if (!tall || !tensors || !ops)
        return NULL;
    for (int32_t t = 0; t < graph->n_tensors; t++)
        if (tall_tensor(graph, t))
            swap(&tensors[t].shape.h, &tensors[t].shape.w);
    for (int32_t o = 0; o < graph->n_ops; o++)
        if (tall_turns(graph, &graph->ops[o]))
            turn(&ops[o]);
    tall->tensors = tensors;
    tall->ops = ops;
    return tall;
}
