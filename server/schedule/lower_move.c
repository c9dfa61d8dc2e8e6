/*
 * Outputs that grow behind their inputs run away downwards: each lies below the one before, and the memory
 * that the first had is out of reach for the last. Where that costs more than the schedule counted, a tensor
 * is moved back up before the segment that uses it up: row by row from the last one, into what its
 * forerunners left, or at once where there is room.
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

/* Bytes between the tensor's end and the highest end of what it overlapped with. */
static int64_t room_above(const struct lower *l, int32_t buffer)
{
    const struct lower_buffer *it = &l->out->buffers[buffer];
    int64_t top = it->distance + it->bytes;
    for (int32_t i = 0; i < l->out->n_buffers && it->group; i++) {
        const struct lower_buffer *other = &l->out->buffers[i];
        int64_t end = other->distance + other->bytes;
        if (other->group == it->group && other->tensor < l->graph->n_tensors && end > top)
            top = end;
    }
    return (top - it->distance - it->bytes) / 4 * 4;
}

static void move_up(struct lower *l, int32_t tensor, int64_t distance)
{
    struct shape shape = l->graph->tensors[tensor].shape;
    int32_t from = l->home[tensor], in = lower_whole(l, from, tensor, 1);
    int32_t to = lower_new_home(l, tensor, LOWER_NONE), out = lower_whole(l, to, tensor, 1);
    bool apart = distance >= l->out->buffers[from].bytes;
    if (!apart) {
        lower_tie(l, to, from, distance);
        lower_loop(l, shape.h);
    }
    int32_t h = apart ? lower_const(l, 0, shape.h) : lower_affine(l, -1, shape.h - 1, shape.h, 1, 0, shape.h);
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

void lower_move_up(struct lower *l, const int32_t *ops, int32_t n)
{
    for (int32_t k = 0; k < l->net->n_used && l->moves && !l->failed; k++) {
        int32_t t = l->net->used[k];
        if (l->home[t] < 0 || !net_is_live(l->net, l->done, t, l->options->streamed) ||
            !net_dies(l->net, l->after, t) || !lower_alone(l->net, t) || !reads(l, ops, n, t))
            continue;
        struct shape shape = l->graph->tensors[t].shape;
        int64_t distance = room_above(l, l->home[t]);
        if (distance >= (int64_t)shape.w * shape.c)
            move_up(l, t, distance);
    }
}
