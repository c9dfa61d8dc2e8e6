/*
 * Loops over channels: blocks of memory with a first and a last moment, for every choice of overwriting.
 */
#include "tests/support/judge_internal.h"

#include <stdlib.h>
#include <string.h>

static int64_t loop_size(const struct loop *l, int32_t tensor)
{
    return l->size ? l->size[tensor] : size_of(l->j, tensor);
}

static const struct op *loop_op(const struct loop *l, int32_t k)
{
    return &l->j->graph->ops[l->step->ops[k]];
}

static int32_t loop_maker(const struct loop *l, int32_t tensor)
{
    for (int32_t k = 0; k < l->step->n_ops; k++)
        if (loop_op(l, k)->output == tensor)
            return k;
    return -1;
}

/* Part of the output's channels needs that part of input i's only. */
static bool is_slice(const struct judge *j, const struct op *op, int32_t i)
{
    struct shape in = j->graph->tensors[op->inputs[i]].shape, out = j->graph->tensors[op->output].shape;
    struct box box = box_whole(out);
    if (in.c == 1 || out.c % in.c)
        return false;
    box.c1 = out.c / in.c;
    struct box need = row_of(op)->need(j->graph, op, i, box);
    return need.c0 == 0 && need.c1 == 1;
}

bool judge_loop_sums(const struct loop *l, int32_t k)
{
    const struct op *op = loop_op(l, k);
    return row_of(op)->class == OP_CLASS_AGGREGATING && loop_maker(l, op->inputs[0]) >= 0;
}

static bool loop_kept(const struct loop *l, int32_t tensor, const bool *last_of_patch)
{
    return last_of_patch ? last_of_patch[tensor] : judge_is_needed(l->j, l->j->after, tensor);
}

static int32_t last_read(const struct loop *l, int32_t tensor)
{
    int32_t last = -1;
    for (int32_t k = 0; k < l->step->n_ops; k++)
        if (reads(loop_op(l, k), tensor))
            last = k;
    return last;
}

static int32_t greatest(int32_t a, int32_t b)
{
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void judge_forms(struct loop *l)
{
    struct judge *j = l->j;
    int32_t parts = 0;
    for (int32_t k = 0; k < l->step->n_ops; k++) {
        const struct op *op = loop_op(l, k);
        enum op_class class = row_of(op)->class;
        if (class == OP_CLASS_NEITHER ||
            (class == OP_CLASS_CHANNELWISE && !(row_of(op)->axes(j->graph, op) & OP_AXIS_C)))
            judge_fault(j, "%s cannot run a channel at a time", op->name);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (j->graph->tensors[op->inputs[i]].data)
                continue;
            int32_t from = loop_maker(l, op->inputs[i]);
            bool slice = class == OP_CLASS_CHANNELWISE && is_slice(j, op, i);
            if (from >= 0 && (judge_loop_sums(l, from) || (class == OP_CLASS_CHANNELWISE && !slice)))
                judge_fault(j, "%s reads what is whole after the loop only", op->name);
            if (slice)
                parts = greatest(j->graph->tensors[op->inputs[i]].shape.c, parts);
        }
        if (!judge_loop_sums(l, k))
            parts = greatest(j->graph->tensors[op->output].shape.c, parts);
    }
    if (parts < 2 || parts != l->step->iterations || l->step->k < 1 || l->step->k > parts)
        judge_fault(j, "k %d of %d iterations, the channels allow %d", l->step->k, l->step->iterations,
                    parts);
}

/* The output of operator k may lie where input i lies. *whole: that is a tensor that is there before the
 * loop. */
static bool may_share(const struct loop *l, int32_t k, int32_t i, bool kept, const bool *patch, bool *whole)
{
    const struct op *op = loop_op(l, k);
    int32_t in = op->inputs[i], from = loop_maker(l, in);
    if (l->j->graph->tensors[in].data || !judge_overwrites(l->j, op, in) || !is_slice(l->j, op, i) ||
        last_read(l, in) != k || loop_size(l, in) != loop_size(l, op->output) || judge_loop_sums(l, k))
        return false;
    if (from >= 0) {
        *whole = loop_maker(l, l->place[in]) < 0;
        return !loop_kept(l, in, patch) && (!kept || *whole);
    }
    for (int32_t m = 0; m < l->step->n_ops; m++)
        for (int32_t n = 0; n < loop_op(l, m)->n_inputs; n++)
            if (loop_op(l, m)->inputs[n] == in &&
                (row_of(loop_op(l, m))->class != OP_CLASS_CHANNELWISE || !is_slice(l->j, loop_op(l, m), n)))
                return false;
    *whole = true;
    return patch ? judge_maker(l->j, in) >= 0 && !patch[in] : !l->j->lives[l->j->root[in]];
}

static void place_from(struct loop *l, int32_t k, const bool *patch);

static void place_end(struct loop *l)
{
    for (int32_t s = 0; s < l->step->n_ops; s++) {
        int64_t sum = 0;
        for (int32_t t = 0; t < l->j->graph->n_tensors; t++)
            sum += l->blocks[t].bytes && l->blocks[t].first <= s && s <= l->blocks[t].last
                       ? l->blocks[t].bytes
                       : 0;
        if (s == 0)
            l->blocks[l->j->graph->n_tensors].bytes = 0;
        if (sum > l->blocks[l->j->graph->n_tensors].bytes)
            l->blocks[l->j->graph->n_tensors].bytes = sum;
    }
    int64_t peak = l->blocks[l->j->graph->n_tensors].bytes;
    l->best = l->best < 0 || peak < l->best ? peak : l->best;
    l->tries--;
}

/* A patch's output is written where it stays, outside the patch. */
bool judge_patch_end(const struct judge *j, int32_t tensor)
{
    return op_at(j, j->step->n_ops - 1)->output == tensor;
}

static void place_from(struct loop *l, int32_t k, const bool *patch)
{
    if (k == l->step->n_ops) {
        place_end(l);
        return;
    }
    const struct op *op = loop_op(l, k);
    int32_t out = op->output, last = last_read(l, out), n = l->step->n_ops;
    bool kept = loop_kept(l, out, patch), sums = judge_loop_sums(l, k);
    bool outside = patch && judge_patch_end(l->j, out);
    int64_t own = outside ? 0 : patch || !l->j->within[out] ? loop_size(l, out) : judge_new_size(l->j, out);
    int64_t bytes =
        sums   ? loop_size(l, out) * l->j->options->accumulator / 8 + (!patch && l->j->within[out] ? own : 0)
        : kept ? own
               : loop_size(l, out) / l->step->iterations * l->step->k;
    for (int32_t i = 0; i < op->n_inputs && l->tries > 0; i++) {
        bool whole = false;
        if (!may_share(l, k, i, kept, patch, &whole))
            continue;
        int32_t block = l->place[op->inputs[i]], end = l->blocks[block].last;
        l->place[out] = block;
        l->blocks[out] = (struct block){0};
        if (!whole && last > end)
            l->blocks[block].last = last;
        place_from(l, k + 1, patch);
        l->blocks[block].last = end;
    }
    if (l->tries <= 0)
        return;
    l->place[out] = out;
    l->blocks[out] =
        kept || sums ? (struct block){bytes, 0, n - 1} : (struct block){bytes, k, last < 0 ? k : last};
    place_from(l, k + 1, patch);
    l->blocks[out] = (struct block){0};
}

/* Bytes of the loop beside what is live around it. `patch`: of each tensor, the patch's output. */
int64_t judge_loop_bytes(struct judge *j, const struct schedule_step *step, const int64_t *size,
                         const bool *patch)
{
    size_t n = (size_t)j->graph->n_tensors + 1;
    struct loop l = {.j = j, .step = step, .size = size, .best = -1, .tries = 2000};
    l.blocks = calloc(n, sizeof *l.blocks);
    l.place = calloc(n, sizeof *l.place);
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        l.place[t] = t;
    judge_forms(&l);
    if (j->legal)
        place_from(&l, 0, patch);
    free(l.blocks);
    free(l.place);
    return l.best;
}
