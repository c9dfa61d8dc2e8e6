/*
 * What a tile of a segment's last output needs of every tensor before it, as a function of the tile's number.
 * Windows say it by stride and padding; of other operators it is read off their boxes, line by line.
 */
#include "server/schedule/areas.h"

#include <string.h>

static int32_t floor_div(int32_t x, int32_t by)
{
    return x >= 0 ? x / by : -((-x + by - 1) / by);
}

static int32_t size_of(struct shape shape, int axis)
{
    return axis ? shape.w : shape.h;
}

/* What line `at` of the output needs of input `i`, along one axis. */
static void need_of(const struct graph *graph, const struct op *op, int32_t i, int axis, int32_t at,
                    int32_t *lo, int32_t *hi)
{
    struct box box = box_whole(graph->tensors[op->output].shape);
    if (axis)
        box.w0 = at, box.w1 = at + 1;
    else
        box.h0 = at, box.h1 = at + 1;
    box = op_row(op->kind)->need(graph, op, i, box);
    *lo = axis ? box.w0 : box.h0;
    *hi = axis ? box.w1 : box.h1;
}

/* Of an operator without a window: line r needs line floor(r / factor) + shift, or nothing. False: another
 * rule. */
static bool follow(const struct graph *graph, const struct op *op, int32_t i, int axis, int32_t *factor,
                   int32_t *shift)
{
    int32_t out = size_of(graph->tensors[op->output].shape, axis),
            in = size_of(graph->tensors[op->inputs[i]].shape, axis), lo, hi;
    bool known = false;
    *factor = out > in && out % in == 0 ? out / in : 1;
    for (int32_t pass = 0; pass < 2; pass++, *factor = 1, known = false) {
        bool good = true;
        *shift = 0;
        for (int32_t r = 0; r < out && good; r++) {
            need_of(graph, op, i, axis, r, &lo, &hi);
            if (lo == hi)
                continue;
            if (!known)
                *shift = lo - r / *factor;
            known = true;
            good = hi == lo + 1 && lo == r / *factor + *shift;
        }
        if (good)
            return true;
    }
    return false;
}

bool area_step(const struct graph *graph, const struct op *op, int32_t i, int axis, struct area_step *step)
{
    *step = (struct area_step){.known = true, .window = op_row(op->kind)->window, .factor = 1};
    if (!step->window)
        return step->known = follow(graph, op, i, axis, &step->factor, &step->shift);
    step->stride = axis ? op->stride_w : op->stride_h;
    step->before = axis ? op->pad_left : op->pad_top;
    step->reach = axis ? (op->kernel_w - 1) * op->dilation_w + 1 : (op->kernel_h - 1) * op->dilation_h + 1;
    return true;
}

bool area_step_of(const struct net_op *op, int32_t i, int axis, struct area_step *step)
{
    if (!op->steps[axis])
        return false;
    *step = op->steps[axis][i];
    return step->known;
}

bool area_back(const struct area_step *step, struct area out, struct area *in)
{
    int32_t s = step->stride, f = step->factor;
    if (step->window)
        *in = (struct area){out.a * s, out.b0 * s - step->before,
                            (out.b1 - 1) * s - step->before + step->reach};
    else
        *in = (struct area){out.a / f, floor_div(out.b0, f) + step->shift,
                            floor_div(out.b1 - 1, f) + 1 + step->shift};
    return step->window || out.a % f == 0;
}

static bool join(struct area *area, struct area more)
{
    if (area->a == 0) {
        *area = more;
        return true;
    }
    if (area->a != more.a)
        return false;
    area->b0 = more.b0 < area->b0 ? more.b0 : area->b0;
    area->b1 = more.b1 > area->b1 ? more.b1 : area->b1;
    return true;
}

static int32_t place_of(const struct net *net, const int32_t *ops, int32_t n, int32_t tensor)
{
    for (int32_t k = 0; k < n; k++)
        if (net->ops[ops[k]].out == tensor)
            return k;
    return -1;
}

bool areas_find(const struct net *net, const int32_t *ops, int32_t n, int axis, int32_t tile,
                struct area *areas)
{
    memset(areas, 0, (size_t)n * sizeof *areas);
    areas[n - 1] = (struct area){tile, 0, tile};
    for (int32_t k = n - 1; k >= 0; k--) {
        const struct op *op = &net->graph->ops[net->ops[ops[k]].graph_op];
        if (areas[k].a == 0)
            return false; /* nobody in the patch reads it */
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t from = place_of(net, ops, n, op->inputs[i]);
            struct area_step step;
            struct area need;
            if (from >= 0 && (!area_step_of(&net->ops[ops[k]], i, axis, &step) ||
                              !area_back(&step, areas[k], &need) || !join(&areas[from], need)))
                return false;
        }
    }
    return true;
}
