/*
 * Time in a segment by rows: ticks a row by the strides, the first row as early as inputs allow for what is
 * kept and as late as readers allow for what is not; then the last moment at which each row is read.
 */
#include "server/schedule/rows_internal.h"

enum { TICKS_MAX = 1 << 24 };

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

bool rows_set_rates(struct segment *s)
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

void rows_set_phases(struct segment *s)
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

/* The last moment at which each row of a tensor is read that is there before, never falling; INT64_MIN where
 * nobody reads. */
void rows_last_moments(struct segment *s, int32_t tensor, int64_t *last)
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
struct held rows_ring_of(struct segment *s, int32_t v)
{
    struct held held = {1, s->values[v].op >= 0};
    for (int32_t k = 0; k < s->n; k++)
        for (int32_t i = 0; i < s->net->ops[s->ops[k]].n_in && !s->net->ops[s->ops[k]].row_sums; i++)
            if (s->in[k][i] == v)
                hold_for(s, &s->values[v], k, i, &held);
    return held;
}
