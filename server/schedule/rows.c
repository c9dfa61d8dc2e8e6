/*
 * Segments row by row, in exact arithmetic and without computing anything twice: what a segment is made of,
 * its plan, and which segments are tried. Time runs in ticks; a tensor gets a row every `per` ticks from tick
 * `phase` on. A tensor inside holds a ring of the rows that are still to be read. Rows of an input that
 * nobody needs afterwards are freed behind their last reader, and the outputs grow into that space.
 */
#include "server/schedule/rows_internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_SPARSE = 200000000 };

static bool add_value(struct segment *s, int32_t tensor, int32_t op)
{
    if (s->n_values >= VALUES_MAX)
        return false;
    struct value *value = &s->values[s->n_values++];
    *value = (struct value){.tensor = tensor, .op = op};
    value->sums = op >= 0 && s->net->ops[s->ops[op]].row_sums;
    value->kept = op >= s->again && net_is_live(s->net, s->after, tensor, false);
    return true;
}

static int32_t arrival_of(const struct segment *s, int32_t tensor)
{
    for (int32_t v = 0; v < s->n_values; v++)
        if (s->values[v].op < 0 && s->values[v].tensor == tensor)
            return v;
    return -1;
}

/* The place of an operator before `k` in the segment, or -1. */
static int32_t place_before(const struct segment *s, int32_t k, int32_t op)
{
    do
        k--;
    while (k >= 0 && s->ops[k] != op);
    return k;
}

/* Sets s->in of operator k, whose inputs that arrive become values; false: it cannot run by rows. */
static bool collect_inputs(struct segment *s, int32_t k)
{
    const struct net *net = s->net;
    const struct net_op *op = &net->ops[s->ops[k]];
    for (int32_t i = 0; i < op->n_in; i++) {
        int32_t t = op->in[i], producer = net->tensors[t].producer, v = -1;
        if (producer >= 0) {
            int32_t place = place_before(s, k, producer);
            v = place < 0 ? -1 : s->out[place];
        } else if (t == s->arrives) {
            v = arrival_of(s, t);
            if (v < 0 && !add_value(s, t, -1))
                return false;
            v = v < 0 ? s->n_values - 1 : v;
        }
        s->in[k][i] = (int8_t)v;
        if (v >= 0)
            s->values[v].readers++;
    }
    return true;
}

/* Of the inputs that have not arrived the largest comes row by row: a link has one transfer at a time. False:
 * they would be read once more later. */
static bool find_arrival(struct segment *s)
{
    s->arrives = -1;
    for (int32_t k = 0; k < s->n && s->streamed; k++)
        for (int32_t i = 0; i < s->net->ops[s->ops[k]].n_in; i++) {
            int32_t t = s->net->ops[s->ops[k]].in[i];
            if (net_awaited(s->net, s->done, t, true) &&
                (s->arrives < 0 || s->net->tensors[t].bytes > s->net->tensors[s->arrives].bytes))
                s->arrives = t;
        }
    return s->arrives < 0 || !s->again;
}

/* The values of the segment; false where an operator cannot run by rows. */
static bool collect(struct segment *s)
{
    const struct net *net = s->net;
    memcpy(s->after, s->done, (size_t)done_words(net) * sizeof *s->after);
    for (int32_t k = s->again; k < s->n; k++)
        done_add(s->after, s->ops[k]);
    if (!find_arrival(s))
        return false;
    for (int32_t k = 0; k < s->n; k++) {
        const struct net_op *op = &net->ops[s->ops[k]];
        if ((!op->rows && !op->row_sums) || op->view)
            return false;
        if (!collect_inputs(s, k) || !add_value(s, op->out, k))
            return false;
        s->out[k] = (int8_t)(s->n_values - 1);
    }
    for (int32_t v = 0; v < s->n_values; v++) /* what arrives and is read again later is kept whole */
        if (s->values[v].op < 0)
            s->values[v].kept = net_is_live(net, s->after, s->values[v].tensor, false);
    return true;
}

static void fill_plan(const struct segment *s, struct row_plan *plan)
{
    for (int32_t v = 0; plan && v < s->n_values; v++) {
        const struct value *value = &s->values[v];
        plan[v] = (struct row_plan){.tensor = value->tensor,
                                    .ring = value->ring,
                                    .per = value->per,
                                    .phase = value->phase,
                                    .kept = value->kept,
                                    .sums = value->sums,
                                    .arrives = value->op < 0,
                                    .passing = value->passing,
                                    .first_op = value->first,
                                    .last_op = value->last};
    }
    if (plan)
        plan[s->n_values] = (struct row_plan){.tensor = -1};
}

bool rows_plan(const struct net *net, const done_word *done, const struct schedule_options *options,
               const int32_t *ops, int32_t n, int32_t again, struct move *move, struct row_plan *plan)
{
    struct segment s = {
        .net = net, .done = done, .ops = ops, .n = n, .again = again, .streamed = options->streamed};
    if (!collect(&s) || !rows_set_rates(&s))
        return false;
    rows_set_phases(&s);
    int64_t *memory = NULL, base = net_live(net, done, options->streamed) + rows_awaited(&s);
    struct dying dying[VALUES_MAX];
    int32_t n_dying = net->patch ? 0 : rows_find_dying(&s, dying, &memory, &base);
    if (n_dying < 0)
        return false;
    base += rows_ring_bytes(&s);
    *move = (struct move){.mode = SCHEDULE_ROWS, .n_ops = n, .again = again, .iterations = 1};
    move->fixed_bytes = base + rows_overlap_peak(&s, dying, n_dying);
    memcpy(move->ops, ops, (size_t)n * sizeof *ops);
    for (int32_t k = 0; k < again; k++)
        move->extra_macs += net->ops[ops[k]].macs;
    fill_plan(&s, plan);
    free(memory);
    return true;
}

bool rows_rings(const struct net *net, const done_word *done, const int32_t *ops, int32_t n, int64_t *bytes,
                struct row_plan *plan)
{
    struct segment s = {.net = net, .done = done, .ops = ops, .n = n};
    for (int32_t k = 0; k < n; k++)
        if (net->ops[ops[k]].row_sums)
            return false;
    if (!collect(&s) || !rows_set_rates(&s))
        return false;
    rows_set_phases(&s);
    *bytes = rows_ring_bytes(&s);
    fill_plan(&s, plan);
    return true;
}

bool rows_move(const struct net *net, const done_word *done, const struct schedule_options *options,
               const int32_t *ops, int32_t n, int32_t again, struct move *move)
{
    return rows_plan(net, done, options, ops, n, again, move, NULL);
}

/* With little work left only some lengths, then only pairs. */
static bool is_tried(int32_t n, const struct work *work)
{
    if (work->rows >= 0 || n <= 2)
        return true;
    return work->rows > -2 * (int64_t)ROWS_SPARSE && (n <= 4 || (n <= 8 && n % 2 == 0) || n % 8 == 0);
}

void rows_each(const struct net *net, const done_word *done, const struct schedule_options *options,
               struct work *work, move_sink *sink, void *context)
{
    int32_t ops[NET_LOOP_OPS_MAX], n = 0;
    int64_t rows = 0;
    done_word after[SCHEDULE_OPS_MAX / 64 + 1];
    memcpy(after, done, (size_t)done_words(net) * sizeof *after);
    for (int32_t o = 0; o < net->n_ops && n < NET_LOOP_OPS_MAX; o++) {
        if (done_has(done, o))
            continue;
        if ((!net->ops[o].rows && !net->ops[o].row_sums) || net->ops[o].view || !net_ready(net, after, o))
            return;
        done_add(after, o);
        ops[n++] = o;
        rows += net->tensors[net->ops[o].out].shape.h;
        struct move move;
        if (!is_tried(n, work))
            continue;
        work->rows -= rows;
        if (rows_move(net, done, options, ops, n, 0, &move))
            sink(context, &move);
    }
}

static bool in_segment(const int32_t *ops, int32_t n, int32_t op)
{
    for (int32_t k = 0; k < n; k++)
        if (ops[k] == op)
            return true;
    return false;
}

/* Adds what `op` needs and is not there, in an order in which it can run; false: something cannot run by
 * rows. */
static bool add_needed(const struct net *net, const done_word *done, int32_t op, int32_t *ops, int32_t *n)
{
    if (in_segment(ops, *n, op))
        return true;
    if (done_has(done, op) || !net->ops[op].rows || net->ops[op].view)
        return false;
    for (int32_t i = 0; i < net->ops[op].n_in; i++)
        if (!net_available(net, done, net->ops[op].in[i]) &&
            !add_needed(net, done, net->tensors[net->ops[op].in[i]].producer, ops, n))
            return false;
    if (*n >= NET_LOOP_OPS_MAX - 1)
        return false;
    ops[(*n)++] = op;
    return true;
}

/* Lacks of `op`, which reads what the segment makes, in the segment's order; 0 where it cannot be added. */
static int32_t lacks(const struct net *net, const done_word *done, int32_t op, const int32_t *ops, int32_t n,
                     int32_t *larger)
{
    const struct net_op *it = &net->ops[op];
    int32_t more = n;
    memcpy(larger, ops, (size_t)n * sizeof *ops);
    if (!it->row_sums)
        return add_needed(net, done, op, larger, &more) ? more - n : 0;
    larger[n] = op; /* the end of its branch */
    return n < NET_LOOP_OPS_MAX - 1 && it->n_in == 1;
}

/* The segment with that reader of its outputs which lacks least; false: there is none. */
static bool grow(const struct net *net, const done_word *done, int32_t *ops, int32_t *n)
{
    int32_t best[NET_LOOP_OPS_MAX], larger[NET_LOOP_OPS_MAX], fewest = 0;
    for (int32_t k = 0; k < *n; k++) {
        const struct net_tensor *out = &net->tensors[net->ops[ops[k]].out];
        for (int32_t r = 0; r < out->n_readers && !net->ops[ops[k]].row_sums; r++) {
            int32_t lacking = 0;
            if (!in_segment(ops, *n, out->readers[r]))
                lacking = lacks(net, done, out->readers[r], ops, *n, larger);
            if (lacking == 0 || (fewest > 0 && lacking >= fewest))
                continue;
            fewest = lacking;
            memcpy(best, larger, (size_t)(*n + lacking) * sizeof *best);
        }
    }
    if (fewest > 0)
        memcpy(ops, best, (size_t)(*n + fewest) * sizeof *ops);
    *n += fewest;
    return fewest > 0;
}

/* It has the first operators that remain: rows_each offers it. */
static bool is_first(const struct net *net, const done_word *done, const int32_t *ops, int32_t n)
{
    for (int32_t o = 0, left = n; o < net->n_ops && left > 0; o++) {
        if (done_has(done, o))
            continue;
        if (!in_segment(ops, n, o))
            return false;
        left--;
    }
    return true;
}

void rows_each_branch(const struct net *net, const done_word *done, const struct schedule_options *options,
                      bool ordered, struct work *work, move_sink *sink, void *context)
{
    bool first = true;
    for (int32_t o = 0; o < net->n_ops && (first || !ordered); o++) {
        int32_t ops[NET_LOOP_OPS_MAX], n = 0;
        first &= done_has(done, o);
        if (!net_ready(net, done, o) || !add_needed(net, done, o, ops, &n))
            continue;
        do {
            struct move move;
            if (work->branches <= 0)
                return;
            if (is_first(net, done, ops, n))
                continue;
            for (int32_t k = 0; k < n; k++)
                work->branches -= net->tensors[net->ops[ops[k]].out].shape.h;
            if (rows_move(net, done, options, ops, n, 0, &move))
                sink(context, &move);
        } while (grow(net, done, ops, &n));
    }
}

void rows_each_again(const struct net *net, const done_word *done, const struct schedule_options *options,
                     struct work *work, move_sink *sink, void *context)
{
    for (int32_t o = 0; o < net->n_ops; o++) {
        int32_t ops[NET_LOOP_OPS_MAX], n = 0;
        const struct net_op *op = &net->ops[o];
        if (done_has(done, o) || !op->row_sums || net_available(net, done, op->in[0]))
            continue;
        struct move move;
        if (!add_needed(net, done, net->tensors[op->in[0]].producer, ops, &n))
            continue;
        ops[n++] = o;
        if (!is_tried(n, work))
            continue;
        for (int32_t k = 0; k < n; k++)
            work->rows -= net->tensors[net->ops[ops[k]].out].shape.h;
        if (rows_move(net, done, options, ops, n, n - 1, &move))
            sink(context, &move);
    }
}
