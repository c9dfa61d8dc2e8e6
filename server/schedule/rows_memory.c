/*
 * Memory of a segment by rows: rings of what is inside, rows that live within a tick, and outputs that grow
 * into the place of inputs whose rows nobody needs afterwards.
 */
#include "server/schedule/rows_internal.h"

#include <stdlib.h>
#include <string.h>

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

int64_t rows_awaited(const struct segment *s)
{
    int32_t tensors[NET_LOOP_OPS_MAX * GRAPH_OP_INPUTS_MAX], n = s->streamed ? find_read(s, tensors) : 0;
    int64_t sum = 0;
    for (int32_t j = 0; j < n; j++)
        sum += net_awaited(s->net, s->done, tensors[j], true) ? s->net->tensors[tensors[j]].bytes : 0;
    return sum;
}

/* Before the first tick. */
static bool is_there(const struct segment *s, int32_t tensor)
{
    return net_is_live(s->net, s->done, tensor, s->streamed) ||
           net_awaited(s->net, s->done, tensor, s->streamed);
}

/* Inputs that die in the segment: their whole bytes leave the base, their rows are followed over time in
 * *memory, malloc'ed. Negative without memory. */
int32_t rows_find_dying(struct segment *s, struct dying *dying, int64_t **memory, int64_t *base)
{
    const struct net *net = s->net;
    int32_t tensors[NET_LOOP_OPS_MAX * GRAPH_OP_INPUTS_MAX], n_read = find_read(s, tensors), n = 0;
    int64_t rows = 1;
    for (int32_t j = 0; j < n_read; j++) { /* alone: no view of it is read here */
        const struct net_tensor *tensor = &net->tensors[tensors[j]];
        if (!tensor->alone || !is_there(s, tensors[j]) || !net_dies(net, s->after, tensors[j]) ||
            n >= VALUES_MAX)
            continue;
        tensors[n++] = tensors[j];
        rows += tensor->shape.h;
    }
    *memory = malloc((size_t)rows * sizeof **memory);
    int64_t *last = *memory;
    for (int32_t d = 0; d < n && last; d++) {
        const struct net_tensor *tensor = &net->tensors[tensors[d]];
        rows_last_moments(s, tensors[d], last);
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
int64_t rows_overlap_peak(const struct segment *s, struct dying *dying, int32_t n_dying)
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

/* ---- rings ---- */

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
int64_t rows_ring_bytes(struct segment *s)
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
        struct held held = rows_ring_of(s, v);
        value->ring = held.rows;
        set_overwritten(s, v, value->ring == 1);
        value->passing = value->ring == 1 && !value->overwritten && held.in_tick;
        value->ring = value->overwritten ? 0 : value->ring;
        sum += value->passing ? 0 : value->ring * row_bytes(tensor);
    }
    set_lives(s);
    return sum + passing_bytes(s);
}
