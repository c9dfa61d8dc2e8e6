/*
 * An order of the operators in which they take little memory run whole, for graphs that are too wide to try
 * all orders: a beam over the sets that are done, by peak and then by what stays live. The search then walks
 * the net in that order, so that a segment of consecutive operators is a branch and not a cut across
 * branches.
 */
#include "server/schedule/internal.h"

#include <stdlib.h>
#include <string.h>

enum { BEAM = 48 };

struct front {
    int64_t live, peak;
    uint64_t hash; /* of the set that is done */
    int32_t *left; /* of each storage: readers that are still to come */
    done_word *done;
    int32_t *ready, n_ready; /* operators that may run next */
    int32_t past;            /* entry of the history; -1 */
};

struct choice {
    int64_t peak, live;
    uint64_t hash;
    int32_t front, op;
};

struct past {
    int32_t op, before;
};

struct beam {
    const struct net *net;
    struct front fronts[2][BEAM];
    int32_t n, now;              /* fronts[now][0..n) */
    struct choice choices[BEAM]; /* the best, in order, of different sets */
    int32_t n_choices;
    struct past *history;
    int32_t n_history;
    int32_t *readers; /* of each storage; large for outputs */
};

static uint64_t op_hash(int32_t op)
{
    uint64_t z = ((uint64_t)op + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static int32_t times_read(const struct net *net, const struct net_op *op, int32_t storage)
{
    int32_t n = 0;
    for (int32_t i = 0; i < op->n_in; i++)
        n += net->tensors[op->in[i]].storage == storage;
    return n;
}

/* What running `op` next takes, and what is live after it. */
static struct choice weigh(const struct beam *beam, int32_t front, int32_t o)
{
    const struct net *net = beam->net;
    const struct front *from = &beam->fronts[beam->now][front];
    const struct net_op *op = &net->ops[o];
    int64_t out = op->view ? 0 : net->tensors[op->out].bytes, freed = 0, over = 0;
    for (int32_t i = 0; i < op->n_in; i++) {
        int32_t storage = net->tensors[op->in[i]].storage;
        bool again = false;
        for (int32_t j = 0; j < i; j++)
            again |= net->tensors[op->in[j]].storage == storage;
        if (again || from->left[storage] > times_read(net, op, storage))
            continue;
        freed += net->tensors[storage].bytes;
        if (op->inplace && net->tensors[op->in[i]].bytes == out)
            over = out;
    }
    int64_t step = from->live + out - over;
    int32_t readers = op->view ? 1 : beam->readers[net->tensors[op->out].storage];
    return (struct choice){.peak = step > from->peak ? step : from->peak,
                           .live = from->live - freed + (readers > 0 ? out : 0),
                           .hash = from->hash ^ op_hash(o),
                           .front = front,
                           .op = o};
}

static int by_memory(const struct choice *x, const struct choice *y)
{
    if (x->peak != y->peak)
        return x->peak < y->peak ? -1 : 1;
    if (x->live != y->live)
        return x->live < y->live ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->front < y->front ? -1 : x->front > y->front;
}

static void follow(struct beam *beam, const struct choice *choice, struct front *to)
{
    const struct net *net = beam->net;
    const struct front *from = &beam->fronts[beam->now][choice->front];
    const struct net_op *op = &net->ops[choice->op];
    memcpy(to->left, from->left, (size_t)net->n_tensors * sizeof *to->left);
    memcpy(to->done, from->done, (size_t)done_words(net) * sizeof *to->done);
    for (int32_t i = 0; i < op->n_in; i++)
        to->left[net->tensors[op->in[i]].storage]--;
    done_add(to->done, choice->op);
    to->n_ready = 0;
    for (int32_t r = 0; r < from->n_ready; r++)
        if (from->ready[r] != choice->op)
            to->ready[to->n_ready++] = from->ready[r];
    const struct net_tensor *out = &net->tensors[op->out];
    for (int32_t r = 0; r < out->n_readers; r++)
        if (net_ready(net, to->done, out->readers[r]))
            to->ready[to->n_ready++] = out->readers[r];
    to->live = choice->live;
    to->peak = choice->peak;
    to->hash = choice->hash;
    to->past = beam->n_history;
    beam->history[beam->n_history++] = (struct past){choice->op, from->past};
}

/* Keeps the choice if it is among the best BEAM, of those that lead to the same set the best. */
static void consider(struct beam *beam, const struct choice *choice)
{
    struct choice *choices = beam->choices;
    int32_t n = beam->n_choices, at;
    if (n == BEAM && by_memory(choice, &choices[n - 1]) >= 0)
        return;
    for (int32_t i = 0; i < n; i++) {
        if (choices[i].hash != choice->hash)
            continue;
        if (by_memory(choice, &choices[i]) >= 0)
            return;
        memmove(&choices[i], &choices[i + 1], (size_t)(--n - i) * sizeof *choices);
    }
    n -= n == BEAM;
    for (at = n; at > 0 && by_memory(choice, &choices[at - 1]) < 0; at--)
        choices[at] = choices[at - 1];
    choices[at] = *choice;
    beam->n_choices = n + 1;
}

static void advance(struct beam *beam)
{
    beam->n_choices = 0;
    for (int32_t f = 0; f < beam->n; f++) {
        const struct front *front = &beam->fronts[beam->now][f];
        for (int32_t r = 0; r < front->n_ready; r++) {
            struct choice choice = weigh(beam, f, front->ready[r]);
            consider(beam, &choice);
        }
    }
    for (int32_t c = 0; c < beam->n_choices; c++)
        follow(beam, &beam->choices[c], &beam->fronts[1 - beam->now][c]);
    beam->n = beam->n_choices;
    beam->now = 1 - beam->now;
}

static bool beam_init(struct beam *beam, const struct net *net, struct arena *arena)
{
    size_t n = (size_t)net->n_tensors + 1;
    *beam = (struct beam){.net = net, .n = 1};
    beam->history = arena_alloc(arena, (size_t)BEAM * (size_t)net->n_ops + 1, sizeof *beam->history);
    beam->readers = arena_alloc(arena, n, sizeof *beam->readers);
    bool good = beam->history && beam->readers;
    for (int32_t f = 0; f < 2 * BEAM && good; f++) {
        struct front *front = &beam->fronts[f / BEAM][f % BEAM];
        front->left = arena_alloc(arena, n, sizeof *front->left);
        front->done = arena_alloc(arena, (size_t)done_words(net), sizeof *front->done);
        front->ready = arena_alloc(arena, (size_t)net->n_ops + 1, sizeof *front->ready);
        good = front->left && front->done && front->ready;
    }
    for (int32_t k = 0; k < net->n_used && good; k++) {
        const struct net_tensor *tensor = &net->tensors[net->used[k]];
        beam->readers[tensor->storage] += tensor->n_readers + (tensor->output ? 1 << 20 : 0);
    }
    if (!good)
        return false;
    struct front *start = &beam->fronts[0][0];
    done_word none[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    memcpy(start->left, beam->readers, n * sizeof *start->left);
    start->live = start->peak = net_live(net, none, false);
    start->past = -1;
    for (int32_t o = 0; o < net->n_ops; o++)
        if (net_ready(net, none, o))
            start->ready[start->n_ready++] = o;
    return true;
}

bool order_find(const struct net *net, int32_t *order)
{
    struct arena *arena = arena_new((size_t)256 << 20);
    struct beam *beam = arena ? arena_alloc(arena, 1, sizeof *beam) : NULL;
    bool good = beam && beam_init(beam, net, arena);
    for (int32_t n = 0; n < net->n_ops && good; n++)
        advance(beam);
    int32_t n = net->n_ops;
    for (int32_t p = good ? beam->fronts[beam->now][0].past : -1; p >= 0; p = beam->history[p].before)
        order[--n] = beam->history[p].op;
    arena_free(arena);
    return good && n == 0;
}

static int by_number(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What is there from the start, the graph's inputs as it names them, then what operators make, in their
 * order: ties are broken alike in every file. */
static void sort_used(struct net *net)
{
    const struct graph *graph = net->graph;
    int32_t n = 0, named = 0;
    for (int32_t k = 0; k < net->n_used; k++) /* also what the coordinator makes */
        if (net->tensors[net->used[k]].producer < 0)
            net->used[n++] = net->used[k];
    for (int32_t i = 0; i < graph->n_inputs; i++)
        for (int32_t k = named; k < n; k++)
            if (net->used[k] == graph->inputs[i]) {
                net->used[k] = net->used[named];
                net->used[named++] = graph->inputs[i];
            }
    for (int32_t o = 0; o < net->n_ops; o++)
        net->used[n++] = net->ops[o].out;
}

bool order_apply(struct net *net, const int32_t *order)
{
    struct net_op *ops = arena_copy(net->arena, net->ops, (size_t)net->n_ops * sizeof *ops);
    int32_t *place = arena_alloc(net->arena, (size_t)net->n_ops + 1, sizeof *place);
    if (!ops || !place)
        return false;
    for (int32_t i = 0; i < net->n_ops; i++) {
        place[order[i]] = i;
        net->ops[i] = ops[order[i]];
    }
    for (int32_t k = 0; k < net->n_used; k++) {
        struct net_tensor *tensor = &net->tensors[net->used[k]];
        if (tensor->producer >= 0)
            tensor->producer = place[tensor->producer];
        for (int32_t r = 0; r < tensor->n_readers; r++)
            tensor->readers[r] = place[tensor->readers[r]];
        qsort(tensor->readers, (size_t)tensor->n_readers, sizeof *tensor->readers, by_number);
    }
    sort_used(net);
    net->memory->known = false; /* sets have other numbers now */
    return true;
}

/* ---- the order of the graph itself, whatever the order of the file ---- */

struct depth_first {
    const struct net *net;
    int32_t *order, n;
    bool *seen; /* of operators */
};

static void visit(struct depth_first *walk, int32_t tensor)
{
    int32_t producer = walk->net->tensors[tensor].producer;
    if (producer < 0 || walk->seen[producer])
        return;
    walk->seen[producer] = true;
    for (int32_t i = 0; i < walk->net->ops[producer].n_in; i++)
        visit(walk, walk->net->ops[producer].in[i]);
    walk->order[walk->n++] = producer;
}

bool order_depth_first(const struct net *net, int32_t *order)
{
    const struct graph *graph = net->graph;
    struct depth_first walk = {net, order, 0, calloc((size_t)net->n_ops + 1, sizeof *walk.seen)};
    for (int32_t i = 0; i < graph->n_outputs && walk.seen; i++)
        visit(&walk, graph->outputs[i]);
    for (int32_t o = 0; o < net->n_ops && walk.seen;
         o++) /* what the coordinator reads, and what nobody does */
        visit(&walk, net->ops[o].out);
    bool good = walk.seen != NULL;
    free(walk.seen);
    return good;
}

bool order_side_by_side(const struct net *net, int32_t *order)
{
    int32_t *to_end = calloc((size_t)net->n_ops + 1, sizeof *to_end), most = 0, n = 0;
    for (int32_t o = net->n_ops - 1; o >= 0 && to_end; o--) {
        const struct net_tensor *out = &net->tensors[net->ops[o].out];
        for (int32_t r = 0; r < out->n_readers; r++)
            if (to_end[out->readers[r]] + 1 > to_end[o])
                to_end[o] = to_end[out->readers[r]] + 1;
        most = to_end[o] > most ? to_end[o] : most;
    }
    for (int32_t level = most; level >= 0 && to_end; level--)
        for (int32_t o = 0; o < net->n_ops; o++)
            if (to_end[o] == level)
                order[n++] = o;
    free(to_end);
    return n == net->n_ops;
}
