/*
 * Outputs that grow behind their inputs run away downwards: each lies below the one before, and the memory
 * that the first had is out of reach for the last. Where that costs more than the schedule counted, a tensor
 * is moved to an end of what its chain took before the step that uses it up: row by row, so that what was
 * moved never covers what is still to be moved. Which moves help, schedule_lower tries.
 */
#include "server/schedule/lower_internal.h"

static bool reads(const struct lower *l, const int32_t *ops, int32_t n, int32_t tensor)
{
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = 0; i < l->net->ops[ops[k]].n_in; i++)
            if (l->net->ops[ops[k]].in[i] == tensor)
                return true;
    return false;
}

/* How far the tensor may go to the highest (or lowest) end of what it overlapped with. */
static int64_t room(const struct lower *l, int32_t buffer, bool up)
{
    const struct lower_buffer *it = &l->out->buffers[buffer];
    int64_t top = it->distance + it->bytes, bottom = it->distance;
    for (int32_t i = 0; i < l->out->n_buffers && it->group; i++) {
        const struct lower_buffer *other = &l->out->buffers[i];
        if (other->group != it->group || other->tensor >= l->graph->n_tensors)
            continue;
        top = other->distance + other->bytes > top ? other->distance + other->bytes : top;
        bottom = other->distance < bottom ? other->distance : bottom;
    }
    return up ? (top - it->distance - it->bytes) / 4 * 4 : (bottom - it->distance) / 4 * 4;
}

static void move(struct lower *l, int32_t tensor, int64_t distance)
{
    struct shape shape = l->graph->tensors[tensor].shape;
    int32_t from = l->home[tensor], in = lower_whole(l, from, tensor, 1);
    int32_t to = lower_new_home(l, tensor, LOWER_NONE), out = lower_whole(l, to, tensor, 1);
    bool up = distance > 0, apart = up && distance >= l->out->buffers[from].bytes;
    if (!apart) {
        lower_tie(l, to, from, distance);
        lower_loop(l, shape.h);
    }
    int32_t h = apart ? lower_const(l, 0, shape.h)
                : up  ? lower_affine(l, -1, shape.h - 1, shape.h, 1, 0, shape.h)
                      : lower_affine(l, 1, 0, 1, 1, 0, shape.h);
    int32_t w = lower_const(l, 0, shape.w), c = lower_const(l, 0, shape.c);
    struct lower_code *code = lower_code(l, FRAGMENT_COPY, LOWER_NONE);
    code->in[0] = in;
    code->out = out;
    code->h = h;
    code->w = w;
    code->c = c;
    if (!apart)
        lower_end(l);
}

/* By how much the largest output that stays is larger than the tensor. */
static int64_t growth(const struct lower *l, const int32_t *ops, int32_t n, int32_t tensor)
{
    int64_t most = 0;
    for (int32_t k = 0; k < n; k++) {
        int32_t out = l->net->ops[ops[k]].out;
        int64_t more = l->net->tensors[out].bytes - l->net->tensors[tensor].bytes;
        if (net_is_live(l->net, l->after, out, false) && more > most)
            most = more;
    }
    return (most + 3) / 4 * 4;
}

void lower_move(struct lower *l, const int32_t *ops, int32_t n)
{
    for (int32_t k = 0; k < l->net->n_used && !l->failed; k++) {
        int32_t t = l->net->used[k];
        if (l->home[t] < 0 || !net_is_live(l->net, l->done, t, l->options->streamed) ||
            !net_dies(l->net, l->after, t) || !lower_alone(l->net, t) || !reads(l, ops, n, t))
            continue;
        int64_t row = l->net->tensors[t].bytes / l->net->tensors[t].shape.h;
        const int64_t distance[LOWER_MOVES] = {0, room(l, l->home[t], true), room(l, l->home[t], false),
                                               n > 1 ? growth(l, ops, n, t) : 0};
        int64_t most =
            distance[LOWER_UP] > distance[LOWER_AHEAD] ? distance[LOWER_UP] : distance[LOWER_AHEAD];
        most = -distance[LOWER_DOWN] > most ? -distance[LOWER_DOWN] : most;
        if (most < row || l->n_moves == LOWER_MOVES_MAX)
            continue;
        int64_t chosen = distance[l->moves >> LOWER_MOVE_BITS * l->n_moves & (LOWER_MOVES - 1)];
        l->n_moves++;
        if (chosen >= row || -chosen >= row)
            move(l, t, chosen);
    }
}
