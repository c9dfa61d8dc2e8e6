/*
 * Loops over channels by the six rules of Pex: full continue, partial continue, generate, accumulate, slice,
 * post-concatenate. A loop is closed at once: a set of operators joined by partial tensors, in which a
 * channel-wise operator continues, an aggregating one whose input is there before the loop generates, one
 * whose input is partial accumulates; a tensor that is needed after the loop is concatenated. Sets grow from
 * one operator by another reader of a tensor that is read a channel at a time, together with what that
 * reader still lacks; loops that share no such tensor gain nothing by running as one.
 *
 * Where rows are allowed too, an iteration may go row by row, so that a part is a ring of some rows of its
 * channels (rows.c); whole tensors are not overwritten then.
 */
#include "server/schedule/internal.h"

#include <stdlib.h>
#include <string.h>

enum { ORDERS_MAX = 120, HASH_SLOTS = 1 << 11 };

enum form { FORM_NONE, FORM_PART, FORM_SUM };

struct loops {
    const struct net *net;
    const done_word *done;
    done_word *after;
    const struct schedule_options *options;
    move_sink *sink;
    void *context;
    int32_t left;
    struct work *work;
    bool all;
    uint64_t *seen;
};

/* One set under evaluation; arrays run over its operators. */
struct body {
    int32_t ops[NET_LOOP_OPS_MAX];
    int32_t n;
    enum form form[NET_LOOP_OPS_MAX];
    int8_t from[NET_LOOP_OPS_MAX]
               [GRAPH_OP_INPUTS_MAX];                  /* place of the operator that makes the input, or -1 */
    int8_t readers[NET_LOOP_OPS_MAX];                  /* of the output, in the loop */
    bool kept[NET_LOOP_OPS_MAX];                       /* the output is needed after the loop */
    bool hosts[NET_LOOP_OPS_MAX][GRAPH_OP_INPUTS_MAX]; /* the input is whole and may be overwritten */
    int32_t iterations;
    int64_t base; /* context without what the order decides */
};

static int32_t position(const struct body *body, int32_t op)
{
    for (int32_t i = 0; i < body->n; i++)
        if (body->ops[i] == op)
            return i;
    return -1;
}

static int32_t gcd(int32_t a, int32_t b)
{
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Decides the form of each operator; false where a rule forbids the set. */
static bool set_forms(const struct loops *loops, struct body *body)
{
    const struct net *net = loops->net;
    body->iterations = 0;
    memset(body->readers, 0, sizeof body->readers);
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_op *op = &net->ops[body->ops[k]];
        bool sum = false;
        for (int32_t i = 0; i < op->n_in; i++) {
            const struct net_tensor *in = &net->tensors[op->in[i]];
            int32_t from = in->producer < 0 ? -1 : position(body, in->producer);
            body->from[k][i] = (int8_t)from;
            if (from >= 0)
                body->readers[from]++;
            if (from >= 0 && (from >= k || body->form[from] != FORM_PART))
                return false; /* an accumulated output is whole only after the loop */
            if (op->class == OP_CLASS_AGGREGATING)
                sum = from >= 0;
            else if (from >= 0 && !op->sliced[i])
                return false;
            else if (op->sliced[i])
                body->iterations = gcd(in->shape.c, body->iterations);
        }
        body->form[k] = sum ? FORM_SUM : FORM_PART;
        if (!sum)
            body->iterations = gcd(net->tensors[op->out].shape.c, body->iterations);
    }
    return body->iterations > 1;
}

static void set_base(const struct loops *loops, struct body *body)
{
    const struct net *net = loops->net;
    memcpy(loops->after, loops->done, (size_t)done_words(net) * sizeof *loops->after);
    for (int32_t k = 0; k < body->n; k++)
        done_add(loops->after, body->ops[k]);
    body->base = net_live(net, loops->done, loops->options->streamed);
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_op *op = &net->ops[body->ops[k]];
        const struct net_tensor *out = &net->tensors[op->out];
        body->kept[k] = net_is_live(net, loops->after, op->out, false);
        if (body->form[k] == FORM_SUM) /* they shrink in place, but not into a part of something else */
            body->base += out->bytes * loops->options->accumulator / 8 +
                          (out->joined ? net_new_bytes(net, loops->done, op->out) : 0);
        for (int32_t i = 0; i < op->n_in && loops->options->streamed; i++)
            if (net->tensors[op->in[i]].input && !net_is_live(net, loops->done, op->in[i], true)) {
                bool first = true; /* arrives now, whole */
                for (int32_t j = 0; j < k && first; j++)
                    for (int32_t m = 0; m < net->ops[body->ops[j]].n_in; m++)
                        first &= net->ops[body->ops[j]].in[m] != op->in[i];
                body->base += first ? net->tensors[op->in[i]].bytes : 0;
            }
    }
}

/* Nobody in the loop reads it other than a channel at a time, and nobody needs it afterwards. */
static bool may_overwrite_whole(const struct loops *loops, const struct body *body, int32_t tensor)
{
    const struct net *net = loops->net;
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_op *op = &net->ops[body->ops[k]];
        for (int32_t i = 0; i < op->n_in; i++)
            if (op->in[i] == tensor && (op->class != OP_CLASS_CHANNELWISE || !op->sliced[i]))
                return false;
    }
    return net_dies(net, loops->after, tensor);
}

static void set_hosts(const struct loops *loops, struct body *body)
{
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_op *op = &loops->net->ops[body->ops[k]];
        for (int32_t i = 0; i < op->n_in; i++)
            body->hosts[k][i] = op->inplace && body->from[k][i] < 0 && op->sliced[i] &&
                                may_overwrite_whole(loops, body, op->in[i]);
    }
}

/* While an order is walked: bytes of each partial tensor, and the whole tensor in whose memory it lies. */
struct walk {
    int64_t part[NET_LOOP_OPS_MAX];
    int32_t host[NET_LOOP_OPS_MAX];
    int8_t left[NET_LOOP_OPS_MAX]; /* readers of the operator's output that are still to come */
    int64_t live, most, saved;
};

/* Nobody of those that are still to come reads the whole tensor. */
static bool last_reader(const struct body *body, const struct net *net, const bool *placed, int32_t tensor)
{
    for (int32_t i = 0; i < body->n; i++) {
        const struct net_op *op = &net->ops[body->ops[i]];
        for (int32_t j = 0; j < op->n_in && !placed[i]; j++)
            if (op->in[j] == tensor)
                return false;
    }
    return true;
}

/* Where operator k's output goes when it may overwrite an input: *host is a whole tensor or -1, *input the
 * place in the body of the partial tensor that it replaces, or -1. False: nowhere. */
static bool find_place(const struct loops *loops, const struct body *body, const struct walk *walk,
                       const bool *placed, int32_t k, int32_t *host, int32_t *input)
{
    const struct net *net = loops->net;
    const struct net_op *op = &net->ops[body->ops[k]];
    bool found = false;
    *host = *input = -1;
    for (int32_t i = 0; i < op->n_in && op->inplace && *host < 0; i++) {
        int32_t from = body->from[k][i];
        if (!op->sliced[i] || net->tensors[op->in[i]].bytes != net->tensors[op->out].bytes)
            continue;
        if (from >= 0 ? walk->left[from] > 1 : !last_reader(body, net, placed, op->in[i]))
            continue;
        if (from < 0 && body->hosts[k][i]) {
            *host = op->in[i];
            *input = -1;
            found = true;
        } else if (from >= 0 && !body->kept[from] && (walk->host[from] >= 0 || !body->kept[k])) {
            *host = walk->host[from];
            *input = from;
            found = true;
        }
    }
    return found;
}

static void walk_op(const struct loops *loops, const struct body *body, struct walk *walk, const bool *placed,
                    int32_t k)
{
    const struct net *net = loops->net;
    int32_t host, input;
    const struct net_op *op = &net->ops[body->ops[k]];
    int64_t bytes = net->tensors[op->out].bytes;
    walk->part[k] = 0;
    walk->host[k] = -1;
    if (body->form[k] == FORM_PART) {
        bool found = find_place(loops, body, walk, placed, k, &host, &input);
        if (body->kept[k])
            walk->saved += found && host >= 0 && !net->tensors[op->out].outside ? bytes : 0;
        else if (!found)
            walk->part[k] = bytes / body->iterations;
        else if (input >= 0) {
            walk->part[k] = walk->part[input];
            walk->live -= walk->part[input];
            walk->part[input] = 0;
        }
        walk->host[k] = found && !body->kept[k] ? host : -1;
    }
    walk->live += walk->part[k];
    walk->most = walk->live > walk->most ? walk->live : walk->most;
    for (int32_t i = 0; i < op->n_in; i++) {
        int32_t from = body->from[k][i];
        if (from >= 0 && --walk->left[from] == 0) {
            walk->live -= walk->part[from];
            walk->part[from] = 0;
        }
    }
    if (body->readers[k] == 0) { /* nobody in the loop reads it */
        walk->live -= walk->part[k];
        walk->part[k] = 0;
    }
}

struct orders {
    const struct loops *loops;
    const struct body *body;
    int32_t order[NET_LOOP_OPS_MAX], best[NET_LOOP_OPS_MAX];
    bool placed[NET_LOOP_OPS_MAX];
    int64_t whole, saves[NET_LOOP_OPS_MAX]; /* whole: without what is saved; saves: the most an op can save */
    int64_t fixed, part;
    int32_t left;
};

static void set_whole(struct orders *orders)
{
    const struct body *body = orders->body;
    const struct net *net = orders->loops->net;
    orders->whole = body->base;
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_op *op = &net->ops[body->ops[k]];
        bool kept = body->form[k] == FORM_PART && body->kept[k];
        orders->whole += kept ? net_new_bytes(net, orders->loops->done, op->out) : 0;
        orders->saves[k] = kept && op->inplace ? net->tensors[op->out].bytes : 0;
    }
}

static void take_order(struct orders *orders, const struct walk *walk)
{
    orders->fixed = orders->whole - walk->saved;
    orders->part = walk->most;
    memcpy(orders->best, orders->order, sizeof orders->best);
}

/* No order that begins like this is better than the best one. */
static bool is_worse(const struct orders *orders, const struct walk *walk)
{
    int64_t rest = 0; /* what may still be saved */
    for (int32_t k = 0; k < orders->body->n; k++)
        rest += orders->placed[k] ? 0 : orders->saves[k];
    return orders->fixed >= 0 &&
           orders->whole - walk->saved - rest + walk->most >= orders->fixed + orders->part;
}

static bool may_follow(const struct orders *orders, int32_t k)
{
    const struct net_op *op = &orders->loops->net->ops[orders->body->ops[k]];
    bool ready = !orders->placed[k];
    for (int32_t i = 0; i < op->n_in && ready; i++)
        ready = orders->body->from[k][i] < 0 || orders->placed[orders->body->from[k][i]];
    return ready;
}

/* All orders that begin as `order` does up to `at`; `before` NULL: they are no use, but count. */
static void each_order(struct orders *orders, const struct walk *before, int32_t at)
{
    const struct body *body = orders->body;
    if (before && is_worse(orders, before))
        before = NULL;
    if (at == body->n) {
        orders->left--;
        if (before)
            take_order(orders, before);
        return;
    }
    for (int32_t k = 0; k < body->n && orders->left > 0; k++) {
        if (!may_follow(orders, k))
            continue;
        struct walk walk;
        orders->placed[k] = true;
        orders->order[at] = k;
        if (before) {
            walk = *before;
            walk_op(orders->loops, body, &walk, orders->placed, k);
        }
        each_order(orders, before ? &walk : NULL, at + 1);
        orders->placed[k] = false;
    }
}

/* The same operators in the same order, row by row within an iteration, where that takes less. */
static void offer_ringed(struct loops *loops, const struct body *body, const struct move *whole)
{
    const struct net *net = loops->net;
    int64_t bytes, rows = 0;
    struct move move = *whole;
    if (loops->options->axes != SCHEDULE_AXES_ALL || loops->work->rows < 0 || whole->part_bytes == 0)
        return;
    move.fixed_bytes = body->base;
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_tensor *out = &net->tensors[net->ops[body->ops[k]].out];
        if (body->form[k] == FORM_PART && body->kept[k])
            move.fixed_bytes += net_new_bytes(net, loops->done, net->ops[body->ops[k]].out);
        rows += out->shape.h;
    }
    if (move.fixed_bytes >= move_peak(whole))
        return;
    loops->work->rows -= rows;
    if (!rows_rings(net, loops->done, move.ops, move.n_ops, &bytes, NULL))
        return;
    move.part_bytes = bytes / body->iterations;
    move.ringed = true;
    if (move_peak(&move) < move_peak(whole))
        loops->sink(loops->context, &move);
}

static void offer(struct loops *loops, struct body *body)
{
    if (body->n < 2 || !set_forms(loops, body))
        return;
    set_base(loops, body);
    set_hosts(loops, body);
    struct orders orders = {.loops = loops, .body = body, .fixed = -1, .left = ORDERS_MAX};
    struct walk walk = {.live = 0};
    memcpy(walk.left, body->readers, sizeof walk.left);
    set_whole(&orders);
    each_order(&orders, &walk, 0);
    loops->work->loops -= ORDERS_MAX - orders.left;
    struct move move = {.mode = SCHEDULE_CHANNELS,
                        .n_ops = body->n,
                        .fixed_bytes = orders.fixed,
                        .part_bytes = orders.part,
                        .iterations = body->iterations};
    for (int32_t i = 0; i < body->n; i++)
        move.ops[i] = body->ops[orders.best[i]];
    loops->sink(loops->context, &move);
    offer_ringed(loops, body, &move);
}

/* ---- growing sets ---- */

static bool insert(struct body *body, int32_t op)
{
    if (body->n >= NET_LOOP_OPS_MAX)
        return false;
    int32_t i = body->n++;
    for (; i > 0 && body->ops[i - 1] > op; i--)
        body->ops[i] = body->ops[i - 1];
    body->ops[i] = op;
    return true;
}

/* Adds an operator and what it lacks. */
static bool close_over(const struct loops *loops, struct body *body, int32_t op)
{
    const struct net_op *it = &loops->net->ops[op];
    if (position(body, op) >= 0)
        return true;
    if (done_has(loops->done, op) || (it->class != OP_CLASS_AGGREGATING && !it->channels) ||
        !insert(body, op))
        return false;
    for (int32_t i = 0; i < it->n_in; i++)
        if (!net_available(loops->net, loops->done, it->in[i]) &&
            !close_over(loops, body, loops->net->tensors[it->in[i]].producer))
            return false;
    return true;
}

static bool new_set(struct loops *loops, const struct body *body)
{
    uint64_t hash = 1469598103934665603u;
    for (int32_t i = 0; i < body->n; i++)
        hash = (hash ^ (uint64_t)body->ops[i]) * 1099511628211u;
    hash |= 1;
    for (uint32_t slot = (uint32_t)(hash >> 20) % HASH_SLOTS;; slot = (slot + 1) % HASH_SLOTS) {
        if (loops->seen[slot] == hash)
            return false;
        if (loops->seen[slot])
            continue;
        loops->seen[slot] = hash;
        return true;
    }
}

static void grow(struct loops *loops, const struct body *body);

static void grow_by_readers(struct loops *loops, const struct body *body, int32_t tensor)
{
    const struct net_tensor *it = &loops->net->tensors[tensor];
    bool partial = !net_available(loops->net, loops->done, tensor), useful = partial;
    for (int32_t r = 0; r < it->n_readers; r++)
        useful |= loops->net->ops[it->readers[r]].inplace; /* only overwriting gains from a shared slice */
    for (int32_t r = 0; useful && r < it->n_readers && loops->all; r++) {
        struct body larger = *body;
        if (done_has(loops->done, it->readers[r]) || position(body, it->readers[r]) >= 0 ||
            !close_over(loops, &larger, it->readers[r]) || !new_set(loops, &larger))
            continue;
        if (--loops->left <= 0 || loops->work->loops <= 0) {
            loops->all = false;
            return;
        }
        offer(loops, &larger);
        grow(loops, &larger);
    }
}

static void grow(struct loops *loops, const struct body *body)
{
    struct body trial = *body;
    if (!set_forms(loops, &trial))
        return;
    for (int32_t k = 0; k < body->n; k++) {
        const struct net_op *op = &loops->net->ops[body->ops[k]];
        if (trial.form[k] == FORM_PART)
            grow_by_readers(loops, body, op->out);
        /* A whole tensor may be overwritten once all its readers are in the loop. */
        for (int32_t i = 0; i < op->n_in && op->channels; i++)
            if (op->sliced[i] && net_available(loops->net, loops->done, op->in[i]))
                grow_by_readers(loops, body, op->in[i]);
    }
}

bool loops_each(const struct net *net, const done_word *done, const struct schedule_options *options,
                int32_t limit, struct work *work, move_sink *sink, void *context)
{
    struct loops loops = {.net = net,
                          .done = done,
                          .options = options,
                          .sink = sink,
                          .context = context,
                          .work = work,
                          .left = limit < HASH_SLOTS / 2 ? limit : HASH_SLOTS / 2,
                          .all = true};
    loops.after = calloc((size_t)done_words(net), sizeof *loops.after);
    loops.seen = calloc(HASH_SLOTS, sizeof *loops.seen);
    for (int32_t op = 0; op < net->n_ops && loops.after && loops.seen && loops.all; op++) {
        struct body body = {.n = 0};
        if (net_ready(net, done, op) && close_over(&loops, &body, op))
            grow(&loops, &body);
    }
    bool all = loops.all && loops.after && loops.seen;
    free(loops.after);
    free(loops.seen);
    return all;
}

void loops_full(const struct net *net, const done_word *done, const struct schedule_options *options,
                int32_t op, struct move *move)
{
    const struct net_op *it = &net->ops[op];
    int64_t out = it->view ? 0 : net_new_bytes(net, done, it->out);
    *move = (struct move){.mode = SCHEDULE_FULL, .ops = {op}, .n_ops = 1, .iterations = 1};
    move->fixed_bytes = net_live(net, done, options->streamed);
    done_word after[SCHEDULE_OPS_MAX / 64 + 1];
    memcpy(after, done, (size_t)done_words(net) * sizeof *after);
    done_add(after, op);
    for (int32_t i = 0; i < it->n_in; i++) {
        if (options->streamed && net->tensors[it->in[i]].input && !net_is_live(net, done, it->in[i], true))
            move->fixed_bytes += net->tensors[it->in[i]].bytes;
        if (it->inplace && net->tensors[it->in[i]].bytes == net->tensors[it->out].bytes &&
            net_dies(net, after, it->in[i]))
            out = 0;
    }
    move->fixed_bytes += out;
}
