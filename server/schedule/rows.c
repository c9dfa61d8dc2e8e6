/*
 * Segments row by row, in exact arithmetic and without computing anything twice. Time runs in ticks; a tensor
 * gets a row every `per` ticks from tick `phase` on, per by the strides, phase as early as its inputs allow
 * for what the segment keeps and as late as its readers allow for what it does not. A tensor inside holds a
 * ring of the rows that are still to be read. Rows of an input that nobody needs afterwards are freed behind
 * their last reader, and the outputs grow into that space.
 */
#include "server/schedule/internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_SPARSE = 200000000, TICKS_MAX = 1 << 24, VALUES_MAX = ROW_PLAN_MAX - 1 };

/* A tensor that comes into being during the segment: an operator's output, or an input that arrives by rows.
 */
struct value {
    int32_t tensor, op; /* op: place in the segment, -1: arrives */
    int64_t num, den;   /* ticks a row, before scaling; 0: not known */
    int64_t per, phase;
    int32_t readers; /* in the segment */
    bool kept, read, sums;
    bool overwritten;          /* its one row lies where its only reader's row comes to lie */
    bool passing;              /* its one row is read only in the tick in which it is made */
    int32_t first, last, ring; /* passing: operators between which its memory is taken */
};

struct segment {
    const struct net *net;
    const done_word *done;
    done_word after[SCHEDULE_OPS_MAX / 64 + 1];
    const int32_t *ops;
    int32_t n, again;
    struct value values[VALUES_MAX];
    int32_t n_values;
    int8_t in[NET_LOOP_OPS_MAX][GRAPH_OP_INPUTS_MAX], out[NET_LOOP_OPS_MAX]; /* values, or -1 */
    bool overwrites[NET_LOOP_OPS_MAX]; /* the operator has an input that it writes over */
};

/* NULL: it is there before. */
static struct value *in_of(struct segment *s, int32_t k, int32_t i)
{
    return s->in[k][i] < 0 ? NULL : &s->values[s->in[k][i]];
}

static struct value *out_of(struct segment *s, int32_t k)
{
    return &s->values[s->out[k]];
}

static int64_t greatest(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Rows of input i that a row of the output moves on, as a fraction; false: not regular. */
static bool stride_of(const struct net *net, const struct net_op *op, int32_t i, int64_t *num, int64_t *den)
{
    const struct op *it = &net->graph->ops[op->graph_op];
    int32_t in = net->graph->tensors[op->in[i]].shape.h, out = net->graph->tensors[op->out].shape.h;
    *num = *den = 1;
    if (op_row(it->kind)->window)
        *num = it->stride_h;
    else if (in < out && out % in == 0 &&
             op->need1[i][net->tensors[op->out].shape.h - 1] - op->need0[i][0] > 1)
        *den = out / in;

    return true;
}

static bool set_rate(struct value *value, int64_t num, int64_t den, bool *changed)
{
    if (value->num && value->num * den == num * value->den)
        return true;
    int64_t common = greatest(num, den);
    num /= common;
    den /= common;
    if (num > TICKS_MAX || den > TICKS_MAX)
        return false;
    if (value->num)
        return value->num == num && value->den == den;
    value->num = num;
    value->den = den;
    *changed = true;
    return true;
}

/* One row of the output takes as many ticks as the rows of an input that it moves on. A whole 1-row operand
 * (a scale for each channel) is no such input: it must be there before. */
static bool set_rates_of(struct segment *s, int32_t k, bool *changed)
{
    const struct net *net = s->net;
    const struct net_op *op = &net->ops[s->ops[k]];
    struct value *out = out_of(s, k);
    for (int32_t i = 0; i < op->n_in; i++) {
        struct value *in = in_of(s, k, i);
        int64_t num, den;
        if (!in)
            continue;
        if (in->sums || !stride_of(net, op, i, &num, &den))
            return false;
        if (op->row_sums)
            num = den = 1;
        if (in->num && !set_rate(out, in->num * num, in->den * den, changed))
            return false;
        if (out->num && !set_rate(in, out->num * den, out->den * num, changed))
            return false;
    }
    return true;
}

static bool set_rates(struct segment *s)
{
    bool changed = true;
    s->values[0].num = s->values[0].den = 1;
    while (changed) {
        changed = false;
        for (int32_t k = 0; k < s->n; k++)
            if (!set_rates_of(s, k, &changed))
                return false;
    }
    int64_t multiple = 1, common = 0;
    for (int32_t v = 0; v < s->n_values; v++) {
        if (!s->values[v].num) /* joined to the rest by whole inputs only: a segment of its own */
            return false;
        multiple = multiple / greatest(multiple, s->values[v].den) * s->values[v].den;
        if (multiple > TICKS_MAX)
            return false;
    }
    for (int32_t v = 0; v < s->n_values; v++) {
        s->values[v].per = s->values[v].num * multiple / s->values[v].den;
        common = greatest(s->values[v].per, common);
    }
    for (int32_t v = 0; v < s->n_values; v++) {
        s->values[v].per /= common;
        if (s->values[v].per * s->net->tensors[s->values[v].tensor].shape.h > TICKS_MAX)
            return false;
    }
    return true;
}

/* ---- phases ---- */

static int64_t made_at(const struct value *value, int32_t row)
{
    return value->phase + value->per * row;
}

static void set_earliest(struct segment *s, int32_t k)
{
    const struct net_op *op = &s->net->ops[s->ops[k]];
    struct value *out = out_of(s, k);
    out->phase = 0;
    for (int32_t i = 0; i < op->n_in && !op->row_sums; i++) {
        const struct value *in = in_of(s, k, i);
        for (int32_t c = 0; in && c < op->n_corners[i]; c++) {
            int32_t r = op->corners[i][c];
            int64_t earliest = made_at(in, op->need1[i][r] - 1) - out->per * r;
            out->phase = earliest > out->phase ? earliest : out->phase;
        }
    }
}

/* What operator k's phase allows its inputs at the latest. */
static void limit_inputs(struct segment *s, int32_t k, int64_t *latest)
{
    const struct net_op *op = &s->net->ops[s->ops[k]];
    const struct value *out = out_of(s, k);
    for (int32_t i = 0; i < op->n_in && !op->row_sums; i++) {
        const struct value *in = in_of(s, k, i);
        for (int32_t c = 0; in && c < op->n_corners[i]; c++) {
            int32_t r = op->corners[i][c];
            int64_t phase = made_at(out, r) - in->per * (op->need1[i][r] - 1);
            latest[s->in[k][i]] = phase < latest[s->in[k][i]] ? phase : latest[s->in[k][i]];
        }
    }
}

static void set_phases(struct segment *s)
{
    int64_t latest[VALUES_MAX];
    for (int32_t k = 0; k < s->n; k++)
        set_earliest(s, k);
    for (int32_t v = 0; v < s->n_values; v++)
        latest[v] = INT64_MAX;
    for (int32_t v = s->n_values - 1; v >= 0; v--) { /* readers come behind what they read */
        struct value *value = &s->values[v];
        if (!value->kept && latest[v] < INT64_MAX)
            value->phase = latest[v];
        if (value->op >= 0)
            limit_inputs(s, value->op, latest);
    }
}

/* When row `row` is made among all that operators do: in a tick they run in their order, behind what arrives.
 */
static int64_t moment(const struct segment *s, const struct value *value, int32_t row)
{
    return made_at(value, row) * (s->n + 1) + value->op + 1;
}

/* The last moment at which each row of a tensor is read that is there before, never falling; INT64_MIN where
 * nobody reads. */
static void last_moments(struct segment *s, int32_t tensor, int64_t *last)
{
    const struct net *net = s->net;
    int32_t h = net->tensors[tensor].shape.h;
    for (int32_t y = 0; y < h; y++)
        last[y] = INT64_MIN;
    for (int32_t k = 0; k < s->n; k++) {
        const struct net_op *op = &net->ops[s->ops[k]];
        const struct value *out = out_of(s, k);
        for (int32_t i = 0; i < op->n_in; i++) {
            if (op->in[i] != tensor)
                continue;
            if (op->row_sums)
                for (int32_t y = 0; y < h; y++) { /* a pool: a row a tick */
                    int64_t at = (out->phase + y) * (s->n + 1) + k + 1;
                    last[y] = at > last[y] ? at : last[y];
                }
            /* Rows behind the first that r needs follow below: what is read never moves back. */
            for (int32_t r = 0; r < net->tensors[op->out].shape.h && !op->row_sums; r++)
                if (op->need1[i][r] > op->need0[i][r] && moment(s, out, r) > last[op->need0[i][r]])
                    last[op->need0[i][r]] = moment(s, out, r);
        }
    }
    for (int32_t y = 1; y < h; y++)
        last[y] = last[y] > last[y - 1] ? last[y] : last[y - 1];
}

static int64_t row_bytes(const struct net_tensor *tensor)
{
    return (int64_t)tensor->shape.w * tensor->shape.c;
}

struct held {
    int32_t rows;
    bool in_tick;
};

/* Row r of a reader's output needs rows of the value from need0 on, and those up to `newest` are there. */
static void hold(const struct value *value, const struct value *out, int32_t need0, int32_t r, int32_t h,
                 struct held *held)
{
    int64_t at = made_at(out, r), newest = (at - value->phase) / value->per;
    int64_t rows = (newest < h - 1 ? newest : h - 1) - need0 + 1;
    held->rows = rows > held->rows ? (int32_t)rows : held->rows;
    held->in_tick &= at <= made_at(value, need0);
}

/* All rows of the output; or, where both move evenly, those between which that is even too. */
static void hold_for(struct segment *s, const struct value *value, int32_t k, int32_t i, struct held *held)
{
    const struct net_op *op = &s->net->ops[s->ops[k]];
    const struct value *out = out_of(s, k);
    const int32_t *need0 = op->need0[i], *need1 = op->need1[i];
    int32_t h = s->net->tensors[value->tensor].shape.h, rows = s->net->tensors[op->out].shape.h;
    if (out->per % value->per) {
        for (int32_t r = 0; r < rows; r++)
            if (need1[r] > need0[r])
                hold(value, out, need0[r], r, h, held);
        return;
    }
    for (int32_t c = 0; c < op->n_corners[i]; c++)
        hold(value, out, need0[op->corners[i][c]], op->corners[i][c], h, held);
    int64_t all = (made_at(value, h - 1) - out->phase) / out->per; /* around it the last row comes */
    for (int64_t r = all - 1; r <= all + 1; r++)
        if (r >= 0 && r < rows && need1[r] > need0[r])
            hold(value, out, need0[r], (int32_t)r, h, held);
}

/* Rows that the ring holds at most, and whether each is read in its own tick or never. */
static struct held ring_of(struct segment *s, int32_t v)
{
    struct held held = {1, s->values[v].op >= 0};
    for (int32_t k = 0; k < s->n; k++)
        for (int32_t i = 0; i < s->net->ops[s->ops[k]].n_in && !s->net->ops[s->ops[k]].row_sums; i++)
            if (s->in[k][i] == v)
                hold_for(s, &s->values[v], k, i, &held);
    return held;
}

/* ---- memory ---- */

/* The operator writes element by element where input i lies. */
static bool may_overwrite(const struct segment *s, int32_t k, int32_t i)
{
    const struct net_op *op = &s->net->ops[s->ops[k]];
    return op->inplace && !s->overwrites[k] && !op->apart[i] &&
           shape_equal(s->net->tensors[op->in[i]].shape, s->net->tensors[op->out].shape);
}

/* After the rings are known to be of one row. */
static void set_overwritten(struct segment *s, int32_t v, bool one_row)
{
    struct value *value = &s->values[v];
    for (int32_t k = 0; k < s->n && one_row && !value->kept && value->readers == 1; k++)
        for (int32_t i = 0; i < s->net->ops[s->ops[k]].n_in; i++)
            if (s->in[k][i] == v && may_overwrite(s, k, i) && out_of(s, k)->phase == value->phase)
                s->overwrites[k] = value->overwritten = true;
}

/* The last operator that reads a dying tensor writes a kept output over it, element by element. Returns that
 * output, or -1. */
static int32_t find_over(struct segment *s, int32_t tensor, const int64_t *last)
{
    for (int32_t k = s->n - 1; k >= 0; k--) {
        const struct net_op *op = &s->net->ops[s->ops[k]];
        for (int32_t i = 0; i < op->n_in; i++) {
            if (op->in[i] != tensor)
                continue;
            const struct value *out = out_of(s, k);
            bool latest = may_overwrite(s, k, i) && out->kept && !out->sums;
            for (int32_t y = 0; y < s->net->tensors[tensor].shape.h && latest; y++)
                latest = last[y] == moment(s, out, y);
            s->overwrites[k] |= latest;
            return latest ? out->tensor : -1;
        }
    }
    return -1;
}

struct dying {
    int64_t *last; /* moments */
    int64_t row_bytes;
    int32_t h;
    int32_t over; /* the output that is written over it, -1 */
    bool paired;
};

/* What the segment reads and was there before, rising, each once; at most NET_LOOP_OPS_MAX times
 * GRAPH_OP_INPUTS_MAX. */
static int32_t find_read(const struct segment *s, int32_t *tensors)
{
    int32_t n = 0;
    for (int32_t k = 0; k < s->n; k++) {
        const struct net_op *op = &s->net->ops[s->ops[k]];
        for (int32_t i = 0; i < op->n_in; i++) {
            int32_t at = n;
            if (s->in[k][i] >= 0)
                continue;
            while (at > 0 && tensors[at - 1] > op->in[i])
                at--;
            if (at > 0 && tensors[at - 1] == op->in[i])
                continue;
            memmove(&tensors[at + 1], &tensors[at], (size_t)(n - at) * sizeof *tensors);
            tensors[at] = op->in[i];
            n++;
        }
    }
    return n;
}

/* Inputs that die in the segment: their whole bytes leave the base, their rows are followed over time in
 * *memory, malloc'ed. Negative without memory. */
static int32_t find_dying(struct segment *s, bool streamed, struct dying *dying, int64_t **memory,
                          int64_t *base)
{
    const struct net *net = s->net;
    int32_t tensors[NET_LOOP_OPS_MAX * GRAPH_OP_INPUTS_MAX], n_read = find_read(s, tensors), n = 0;
    int64_t rows = 1;
    for (int32_t j = 0; j < n_read; j++) { /* alone: no view of it is read here */
        const struct net_tensor *tensor = &net->tensors[tensors[j]];
        if (!tensor->alone || !net_is_live(net, s->done, tensors[j], streamed) ||
            !net_dies(net, s->after, tensors[j]) || n >= VALUES_MAX)
            continue;
        tensors[n++] = tensors[j];
        rows += tensor->shape.h;
    }
    *memory = malloc((size_t)rows * sizeof **memory);
    int64_t *last = *memory;
    for (int32_t d = 0; d < n && last; d++) {
        const struct net_tensor *tensor = &net->tensors[tensors[d]];
        last_moments(s, tensors[d], last);
        dying[d] =
            (struct dying){last, row_bytes(tensor), tensor->shape.h, find_over(s, tensors[d], last), false};
        last += tensor->shape.h;
        *base -= tensor->bytes;
    }
    return last ? n : -1;
}

/* Bytes that the output must lie below the input so as to grow into what is free. `over`: a row may lie where
 * the operator that makes it reads last. */
static int64_t distance(const struct segment *s, const struct dying *in, const struct value *out, int64_t row,
                        int32_t h, bool over)
{
    int64_t most = 0;
    int32_t freed = 0;
    for (int32_t r = 0; r < h; r++) {
        int64_t at = made_at(out, r) * (s->n + 1) + out->first + 1; /* by what it overwrites, if anything */
        while (freed < in->h && (in->last[freed] < at || (over && freed == r && in->last[freed] == at)))
            freed++;
        int64_t needed = (r + 1) * row - freed * in->row_bytes;
        most = freed < in->h && needed > most ? needed : most;
    }
    return most;
}

/* What the two take together, one behind the other. */
static int64_t together(const struct segment *s, const struct dying *in, const struct value *out)
{
    const struct net_tensor *tensor = &s->net->tensors[out->tensor];
    int64_t row = row_bytes(tensor), end = in->h * in->row_bytes;
    int64_t apart = distance(s, in, out, row, tensor->shape.h, in->over == out->tensor);
    if (apart > 0 && in->over == out->tensor) /* in place, or behind it */
        apart = distance(s, in, out, row, tensor->shape.h, false);
    return apart + end > tensor->bytes ? apart + end : tensor->bytes;
}

/* What outputs and dying inputs take: each output grows into the place of one input, the pair that gains most
 * first, since offsets can hold no more. */
static int64_t overlap_peak(const struct segment *s, struct dying *dying, int32_t n_dying)
{
    const struct net *net = s->net;
    bool paired[VALUES_MAX] = {false};
    int64_t held = 0;
    for (int32_t d = 0; d < n_dying; d++)
        held += dying[d].row_bytes * dying[d].h;
    for (int32_t v = 0; v < s->n_values; v++) {
        int32_t tensor = s->values[v].tensor;
        paired[v] = !s->values[v].kept || s->values[v].sums;
        held += paired[v] ? 0 : net_new_bytes(net, s->done, tensor);
        paired[v] |= net->tensors[tensor].joined;
    }
    for (;;) {
        int64_t most = 0;
        int32_t in = -1, out = -1;
        for (int32_t d = 0; d < n_dying; d++)
            for (int32_t v = 0; v < s->n_values && !dying[d].paired; v++) {
                if (paired[v])
                    continue;
                int64_t gain = dying[d].row_bytes * dying[d].h + net->tensors[s->values[v].tensor].bytes -
                               together(s, &dying[d], &s->values[v]);
                if (gain > most) {
                    most = gain;
                    in = d;
                    out = v;
                }
            }
        if (in < 0)
            return held;
        dying[in].paired = paired[out] = true;
        held -= most;
    }
}

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
static bool collect_inputs(struct segment *s, int32_t k, bool streamed)
{
    const struct net *net = s->net;
    const struct net_op *op = &net->ops[s->ops[k]];
    for (int32_t i = 0; i < op->n_in; i++) {
        int32_t t = op->in[i], producer = net->tensors[t].producer, v = -1;
        if (producer >= 0) {
            int32_t place = place_before(s, k, producer);
            v = place < 0 ? -1 : s->out[place];
        } else if (streamed && net->tensors[t].input && !net_is_live(net, s->done, t, true)) {
            if (s->again)
                return false;
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

/* The values of the segment; false where an operator cannot run by rows. */
static bool collect(struct segment *s, bool streamed)
{
    const struct net *net = s->net;
    memcpy(s->after, s->done, (size_t)done_words(net) * sizeof *s->after);
    for (int32_t k = s->again; k < s->n; k++)
        done_add(s->after, s->ops[k]);
    for (int32_t k = 0; k < s->n; k++) {
        const struct net_op *op = &net->ops[s->ops[k]];
        if ((!op->rows && !op->row_sums) || op->view)
            return false;
        if (!collect_inputs(s, k, streamed) || !add_value(s, op->out, k))
            return false;
        s->out[k] = (int8_t)(s->n_values - 1);
    }
    for (int32_t v = 0; v < s->n_values; v++) /* what arrives and is read again later is kept whole */
        if (s->values[v].op < 0)
            s->values[v].kept = net_is_live(net, s->after, s->values[v].tensor, false);
    return true;
}

/* Between which operators of a tick the memory of each passing row is taken: also by what it overwrites. */
static void set_lives(struct segment *s)
{
    for (int32_t v = 0; v < s->n_values; v++) {
        struct value *value = &s->values[v];
        value->first = value->last = value->op;
    }
    for (int32_t k = 0; k < s->n; k++) {
        const struct net_op *op = &s->net->ops[s->ops[k]];
        struct value *out = out_of(s, k);
        for (int32_t i = 0; i < op->n_in; i++) {
            struct value *in = in_of(s, k, i);
            if (in)
                in->last = k;
            if (in && in->overwritten && in->first < out->first)
                out->first = in->first;
        }
    }
}

/* The most that passing rows take at once. */
static int64_t passing_bytes(const struct segment *s)
{
    int64_t most = 0;
    for (int32_t k = 0; k < s->n; k++) {
        int64_t sum = 0;
        for (int32_t v = 0; v < s->n_values; v++)
            if (s->values[v].passing && s->values[v].first <= k && k <= s->values[v].last)
                sum += row_bytes(&s->net->tensors[s->values[v].tensor]);
        most = sum > most ? sum : most;
    }
    return most;
}

/* Rings, rows that pass, and sums. */
static int64_t ring_bytes(struct segment *s)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < s->n_values; v++) {
        struct value *value = &s->values[v];
        const struct net_tensor *tensor = &s->net->tensors[value->tensor];
        if (value->sums) {
            sum += tensor->bytes * 4;
            continue;
        }
        if (value->kept)
            continue;
        struct held held = ring_of(s, v);
        value->ring = held.rows;
        set_overwritten(s, v, value->ring == 1);
        value->passing = value->ring == 1 && !value->overwritten && held.in_tick;
        value->ring = value->overwritten ? 0 : value->ring;
        sum += value->passing ? 0 : value->ring * row_bytes(tensor);
    }
    set_lives(s);
    return sum + passing_bytes(s);
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
    struct segment s = {.net = net, .done = done, .ops = ops, .n = n, .again = again};
    if (!collect(&s, options->streamed) || !set_rates(&s))
        return false;
    set_phases(&s);
    int64_t *memory = NULL, base = net_live(net, done, options->streamed);
    struct dying dying[VALUES_MAX];
    int32_t n_dying = net->patch ? 0 : find_dying(&s, options->streamed, dying, &memory, &base);
    if (n_dying < 0)
        return false;
    base += ring_bytes(&s);
    *move = (struct move){.mode = SCHEDULE_ROWS, .n_ops = n, .again = again, .iterations = 1};
    move->fixed_bytes = base + overlap_peak(&s, dying, n_dying);
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
    if (!collect(&s, false) || !set_rates(&s))
        return false;
    set_phases(&s);
    *bytes = ring_bytes(&s);
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

/* Adds what `op` needs and is not there, in an order in which it can run; false: something cannot run by
 * rows. */
static bool add_needed(const struct net *net, const done_word *done, int32_t op, int32_t *ops, int32_t *n)
{
    for (int32_t k = 0; k < *n; k++)
        if (ops[k] == op)
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
