/*
 * Outputs that grow behind their inputs run away downwards: each lies below the one before, and the memory
 * that the first had is out of reach for the last. Where that costs more than the schedule counted, a tensor
 * is moved before the step that uses it up: row by row, so that what was moved never covers what is still to
 * be moved; how far, the packer decides. Which moves help, schedule_lower tries.
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

/* Row by row, by a row at least: upwards from the last row on, downwards from the first. */
static void move(struct lower *l, int32_t tensor, bool up)
{
    struct shape shape = l->graph->tensors[tensor].shape;
    int32_t from = l->home[tensor], in = lower_whole(l, from, tensor, 1);
    int32_t to = lower_new_home(l, tensor, LOWER_NONE), out = lower_whole(l, to, tensor, 1);
    int64_t row = (int64_t)shape.w * shape.c;
    lower_allow(l, (struct pack_pair){up ? from : to, up ? to : from, row, false});
    lower_loop(l, shape.h);
    int32_t h = up ? lower_affine(l, -1, shape.h - 1, shape.h, 1, 0, shape.h)
                   : lower_affine(l, 1, 0, 1, 1, 0, shape.h);
    int32_t w = lower_const(l, 0, shape.w), c = lower_const(l, 0, shape.c);
    struct lower_code *code = lower_code(l, FRAGMENT_COPY, LOWER_NONE);
    code->in[0] = in;
    code->out = out;
    code->h = h;
    code->w = w;
    code->c = c;
    lower_end(l);
}

void lower_move(struct lower *l, const int32_t *ops, int32_t n)
{
    int32_t touched[NET_TOUCHED_MAX], n_touched = net_touched(l->net, l->done, l->after, touched);
    for (int32_t k = 0; k < n_touched && !l->failed; k++) {
        int32_t t = touched[k];
        if (l->home[t] < 0 || !net_is_live(l->net, l->done, t, l->options->streamed) ||
            !net_dies(l->net, l->after, t) || !lower_alone(l->net, t) || !reads(l, ops, n, t) ||
            l->n_moves == LOWER_MOVES_MAX)
            continue;
        uint64_t chosen = l->moves >> LOWER_MOVE_BITS * l->n_moves & ((1 << LOWER_MOVE_BITS) - 1);
        l->n_moves++;
        if (chosen != LOWER_STAY)
            move(l, t, chosen == LOWER_UP);
    }
}
