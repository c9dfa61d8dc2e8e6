/*
 * A segment by patches as code: two LOOPs over the tiles of the last operator's output; what a tile needs of
 * each tensor before it is affine in the loops' counters. Within a tile the operators run whole, in loops
 * over channels or row by row (ranges within the tile's), on tensors of the tile's size.
 *
 * Invariant: the area of a tensor holds what the areas of its readers need, at every tile.
 */
#include "server/schedule/areas.h"
#include "server/schedule/lower_internal.h"

#include <stdlib.h>
#include <string.h>

struct patch {
    struct lower *l;
    const struct net *outer;
    const int32_t *ops;
    int32_t n, tiles[2];                   /* rows and columns of tiles */
    struct area area[2][NET_LOOP_OPS_MAX]; /* of each operator's output */
    struct net inner;
    struct net_op inner_ops[NET_LOOP_OPS_MAX];
    int32_t *readers; /* n * n */
};

static const struct net_op *op_at(const struct patch *p, int32_t k)
{
    return &p->outer->ops[p->ops[k]];
}

static int32_t made_by(const struct patch *p, int32_t tensor)
{
    for (int32_t k = 0; k < p->n; k++)
        if (op_at(p, k)->out == tensor)
            return k;
    return LOWER_NONE;
}

/* ---- areas ---- */

static int32_t size_of(struct shape shape, int axis)
{
    return axis ? shape.w : shape.h;
}

static bool set_areas(struct patch *p, int axis, int32_t tile)
{
    struct shape last = p->l->graph->tensors[op_at(p, p->n - 1)->out].shape;
    p->tiles[axis] = (size_of(last, axis) + tile - 1) / tile;
    return areas_find(p->outer, p->ops, p->n, axis, tile, p->area[axis]);
}

static int32_t clamp(int32_t x, int32_t hi)
{
    return x < 0 ? 0 : x > hi ? hi : x;
}

/* The most that an area ever holds. */
static int32_t most(struct area area, int32_t tiles, int32_t size)
{
    int32_t max = 1;
    for (int32_t n = 0; n < tiles; n++) {
        int32_t lo = clamp(area.a * n + area.b0, size), hi = clamp(area.a * n + area.b1, size);
        max = hi - lo > max ? hi - lo : max;
    }
    return max;
}

/* Ranges of the innermost open loop. */
static void open_axis(struct patch *p, int axis)
{
    struct lower *l = p->l;
    lower_loop(l, p->tiles[axis]);
    for (int32_t k = 0; k < p->n && !l->refused; k++) {
        int32_t tensor = op_at(p, k)->out, size = size_of(l->graph->tensors[tensor].shape, axis);
        struct area area = p->area[axis][k];
        int32_t range = lower_affine(l, area.a, area.b0, area.b1, 1, 0, size);
        *(axis ? &l->area[tensor].w : &l->area[tensor].h) = range;
        *(axis ? &l->area[tensor].cap_w : &l->area[tensor].cap_h) = most(area, p->tiles[axis], size);
        if (!axis)
            l->area[tensor].rows = area.b1 - area.b0;
        l->area[tensor].tile = true;
    }
}

/* ---- the net within a patch ---- */

/* False without memory. */
static bool make_inner(struct patch *p)
{
    p->inner = *p->outer;
    p->inner.ops = p->inner_ops;
    p->inner.n_ops = p->n;
    p->inner.tensors = malloc((size_t)p->outer->n_tensors * sizeof *p->inner.tensors);
    p->readers = malloc((size_t)p->n * (size_t)p->n * sizeof *p->readers);
    if (!p->inner.tensors || !p->readers)
        return false;
    memcpy(p->inner.tensors, p->outer->tensors, (size_t)p->outer->n_tensors * sizeof *p->inner.tensors);
    for (int32_t t = 0; t < p->outer->n_tensors; t++) {
        struct net_tensor *tensor = &p->inner.tensors[t];
        int32_t k = made_by(p, t);
        tensor->producer = k;
        tensor->output = k == p->n - 1;
        tensor->n_readers = 0;
        tensor->readers = k < 0 ? NULL : p->readers + k * p->n;
    }
    for (int32_t k = 0; k < p->n; k++) {
        p->inner_ops[k] = *op_at(p, k);
        for (int32_t i = 0; i < p->inner_ops[k].n_in; i++) {
            struct net_tensor *in = &p->inner.tensors[p->inner_ops[k].in[i]];
            if (in->producer >= 0)
                in->readers[in->n_readers++] = k;
        }
    }
    return true;
}

static void inner_step(struct patch *p, const struct schedule_step *step, done_word *after)
{
    struct lower *l = p->l;
    int32_t ops[NET_LOOP_OPS_MAX];
    for (int32_t i = 0; i < step->n_ops; i++) {
        ops[i] = 0;
        while (ops[i] < p->n - 1 && p->inner_ops[ops[i]].graph_op != step->ops[i])
            ops[i]++;
        done_add(after, ops[i]);
    }
    if (step->mode == SCHEDULE_FULL)
        lower_step_full(l, ops[0]);
    else if (step->mode == SCHEDULE_CHANNELS)
        lower_step_channels(l, ops, step->n_ops, step->k, step->rows, step->n_rows);
    else
        lower_step_rows(l, ops, step->n_ops, step->rows, step->n_rows);
}

static void inner_steps(struct patch *p, const struct schedule_step *step)
{
    struct lower *l = p->l;
    const done_word *done = l->done, *after = l->after;
    done_word inner_done[SCHEDULE_OPS_MAX / 64 + 1] = {0}, inner_after[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    l->net = &p->inner;
    l->done = inner_done;
    l->after = inner_after;
    l->tiles = true;
    for (int32_t i = 0; i < step->n_inner && !l->failed && !l->refused; i++) {
        inner_step(p, &step->inner[i], inner_after);
        memcpy(inner_done, inner_after, sizeof inner_done);
    }
    l->tiles = false;
    l->net = p->outer;
    l->done = done;
    l->after = after;
}

static void forget_tiles(struct patch *p)
{
    struct lower *l = p->l;
    for (int32_t k = 0; k < p->n; k++) {
        int32_t tensor = op_at(p, k)->out;
        l->now[tensor] = LOWER_NONE;
        l->area[tensor].tile = false;
        if (k < p->n - 1)
            l->home[tensor] = LOWER_NONE;
    }
}

void lower_step_patches(struct lower *l, const int32_t *ops, const struct schedule_step *step)
{
    struct patch p = {.l = l, .outer = l->net, .ops = ops, .n = step->n_ops};
    int32_t from = l->out->n_code, last = l->net->ops[ops[step->n_ops - 1]].out;
    if (!set_areas(&p, 0, step->tile_h) || !set_areas(&p, 1, step->tile_w)) {
        l->refused = "what a patch needs is not affine";
        return;
    }
    if (make_inner(&p)) {
        l->now[last] = lower_whole(l, lower_new_home(l, last, LOWER_NONE), last, 1);
        open_axis(&p, 0);
        open_axis(&p, 1);
        if (!l->failed && !l->refused)
            inner_steps(&p, step);
        lower_end(l);
        lower_end(l);
        forget_tiles(&p);
        lower_overlap(l, from);
    } else {
        l->failed = true;
    }
    free(p.inner.tensors);
    free(p.readers);
}
