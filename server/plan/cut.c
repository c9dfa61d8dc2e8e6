/*
 * The published split: which party makes which boxes of an operator's output. Convolutions and all operators
 * whose row allows it are cut into channel-major runs in proportion to the shares; operators that may work in
 * place, and concatenations, follow the pieces of their input so that nothing moves; what cannot be cut runs
 * on the first board.
 *
 * Invariant: the tasks of an operator are disjoint and cover its output.
 */
#include "server/plan/internal.h"

#include <math.h>

bool maker_runs(const struct graph *graph, const struct op *op)
{
    (void)graph;
    return op->place == OP_PLACE_BODY && op_row(op->kind)->kernel != OP_KERNEL_FREE;
}

bool maker_constant(const struct graph *graph, int32_t tensor)
{
    return graph->tensors[tensor].data != NULL;
}

static struct shape shape_of(const struct maker *maker, int32_t tensor)
{
    return maker->graph->tensors[tensor].shape;
}

static void add_task(struct maker *maker, int32_t op, uint16_t party, int32_t input, struct box box)
{
    if (box_empty(box))
        return;
    struct task *task = maker_push(maker, &maker->tasks, &maker->n_tasks, &maker->cap_tasks, sizeof *task);
    if (task)
        *task = (struct task){op, input, party, box, {-1, -1}, -1, -1};
}

/* Several inputs that are copied beside one another. */
static bool joins_inputs(const struct op *op)
{
    const struct op_row *row = op_row(op->kind);
    return row->kernel == OP_KERNEL_COPY && row->max_inputs > 1;
}

/* Offset of input i in the output of an operator that joins its inputs, as a box of zero extent. */
static struct box joined_at(const struct maker *maker, const struct op *op, int32_t i, struct box in)
{
    int32_t before = 0;
    for (int32_t j = 0; j < i; j++) {
        struct shape shape = shape_of(maker, op->inputs[j]);
        before += op->axis == 0 ? shape.h : op->axis == 1 ? shape.w : shape.c;
    }
    if (op->axis == 0)
        in.h0 += before, in.h1 += before;
    else if (op->axis == 1)
        in.w0 += before, in.w1 += before;
    else
        in.c0 += before, in.c1 += before;
    return in;
}

/* Adds the tasks of `box` of the output for a party: one, or one for each joined input that it touches. */
static void add_box(struct maker *maker, int32_t index, uint16_t party, struct box box)
{
    const struct op *op = &maker->graph->ops[index];
    if (!joins_inputs(op)) {
        add_task(maker, index, party, 0, box);
        return;
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        struct box in = op_row(op->kind)->need(maker->graph, op, i, box);
        if (!box_empty(in))
            add_task(maker, index, party, i, joined_at(maker, op, i, in));
    }
}

/* The input whose pieces an element-wise operator can follow: of the output's shape, made by boards. -1:
 * none. */
static int32_t followed(const struct maker *maker, const struct op *op)
{
    if (!op_row(op->kind)->inplace)
        return -1;
    struct shape out = shape_of(maker, op->output);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t root = maker->root[op->inputs[i]];
        if (!maker_constant(maker->graph, root) && maker->holdings[root].n > 0 &&
            shape_equal(shape_of(maker, root), out))
            return i;
    }
    return -1;
}

/* Every piece of the followed input must be a box that the operator's axes allow. */
static bool may_follow(const struct maker *maker, const struct op *op, int32_t input)
{
    uint32_t axes = op_row(op->kind)->axes(maker->graph, op);
    const struct holding *holding = &maker->holdings[maker->root[op->inputs[input]]];
    struct shape out = shape_of(maker, op->output);
    for (int32_t i = 0; i < holding->n; i++) {
        struct box box = holding->pieces[i].box;
        if ((!(axes & OP_AXIS_H) && box.h1 - box.h0 != out.h) ||
            (!(axes & OP_AXIS_W) && box.w1 - box.w0 != out.w) ||
            (!(axes & OP_AXIS_C) && box.c1 - box.c0 != out.c))
            return false;
    }
    return true;
}

static void cut_followed(struct maker *maker, int32_t index, int32_t input)
{
    const struct holding *holding = &maker->holdings[maker->root[maker->graph->ops[index].inputs[input]]];
    for (int32_t p = 1; p <= maker->plan->n_boards; p++)
        for (int32_t i = 0; i < holding->n; i++)
            if (holding->pieces[i].party == p)
                add_task(maker, index, (uint16_t)p, 0, holding->pieces[i].box);
}

/* All inputs made by boards, in their own shape: each piece is copied where it is. */
static bool may_join(const struct maker *maker, const struct op *op)
{
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t root = maker->root[op->inputs[i]];
        if (maker_constant(maker->graph, root) || maker->holdings[root].n == 0 ||
            !shape_equal(shape_of(maker, root), shape_of(maker, op->inputs[i])))
            return false;
    }
    return true;
}

static void cut_joined(struct maker *maker, int32_t index)
{
    const struct op *op = &maker->graph->ops[index];
    for (int32_t p = 1; p <= maker->plan->n_boards; p++)
        for (int32_t i = 0; i < op->n_inputs; i++) {
            const struct holding *holding = &maker->holdings[maker->root[op->inputs[i]]];
            for (int32_t k = 0; k < holding->n; k++)
                if (holding->pieces[k].party == p)
                    add_task(maker, index, (uint16_t)p, i, joined_at(maker, op, i, holding->pieces[k].box));
        }
}

static void cut_runs(struct maker *maker, int32_t index)
{
    struct shape shape = shape_of(maker, maker->graph->ops[index].output);
    int64_t total = shape_elements(shape), begin = 0;
    for (int32_t b = 0; b < maker->plan->n_boards; b++) {
        int64_t end = (int64_t)floor((double)total * maker->fraction[b] + 0.5);
        struct box boxes[BOX_RUN_MAX];
        end = end > total ? total : end < begin ? begin : end;
        int n = box_run(shape, begin, end, boxes);
        for (int i = 0; i < n; i++)
            add_box(maker, index, (uint16_t)(b + 1), boxes[i]);
        begin = end;
    }
}

void cut_op(struct maker *maker, int32_t index)
{
    const struct op *op = &maker->graph->ops[index];
    struct shape out = shape_of(maker, op->output);
    int32_t input = followed(maker, op);
    if (input >= 0 && may_follow(maker, op, input)) {
        cut_followed(maker, index, input);
        return;
    }
    if (joins_inputs(op) && may_join(maker, op)) {
        cut_joined(maker, index);
        return;
    }
    uint32_t axes = op_row(op->kind)->axes(maker->graph, op);
    uint32_t needed =
        (out.h > 1 ? OP_AXIS_H : 0u) | (out.w > 1 ? OP_AXIS_W : 0u) | (out.c > 1 ? OP_AXIS_C : 0u);
    if ((axes & needed) == needed)
        cut_runs(maker, index);
    else
        add_box(maker, index, (uint16_t)(maker->first_board + 1), box_whole(out));
}

int32_t cut_join(struct box *boxes, int32_t n, int64_t waste)
{
    for (bool joined = true; joined;) {
        joined = false;
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = i + 1; j < n; j++) {
                struct box hull = box_hull(boxes[i], boxes[j]);
                int64_t sum = box_elements(boxes[i]) + box_elements(boxes[j]);
                bool overlap = !box_empty(box_intersect(boxes[i], boxes[j]));
                if (!overlap && box_elements(hull) > sum + waste + sum / 8)
                    continue;
                boxes[i] = hull;
                boxes[j--] = boxes[--n];
                joined = true;
            }
    }
    return n;
}
