/*
 * Memory is counted by storage: a view has that of what it views. Loops over channels: blocks of memory with
 * a first and a last moment, for every choice of overwriting. Rows: the plan is walked tick by tick, and what
 * is read must have been made and still be held. Patches: every tile by itself.
 */
#include "tests/support/judge.h"

#include "server/model/optable.h"
#include "tests/support/transposed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    const struct graph *graph;  /* in a step that is tall, `turned` */
    const struct graph *turned; /* rows and columns exchanged */
    const struct schedule_options *options;
    const struct schedule *schedule;
    const struct schedule_step *step;
    bool *done, *after; /* of each operator */
    bool *out;          /* of each tensor: needed at the end */
    bool *live, *lives; /* of each root: before the step, and after it */
    bool *within;       /* of each tensor: made within the output of a concatenation */
    bool *part;         /* of each tensor: boards have it */
    int32_t *root;      /* of each tensor: whose memory it has */
    int32_t number, cautious;
    int64_t extra;
    char *reason;
    size_t size;
    bool legal;
};

static void fault(struct judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fault(struct judge *j, const char *format, ...)
{
    va_list args;
    if (!j->legal)
        return;
    j->legal = false;
    int n = snprintf(j->reason, j->size, "step %d: ", j->number);
    va_start(args, format);
    (void)vsnprintf(j->reason + n, j->size - (size_t)n, format, args);
    va_end(args);
}

static const struct op *op_at(const struct judge *j, int32_t k)
{
    return &j->graph->ops[j->step->ops[k]];
}

static const struct op_row *row_of(const struct op *op)
{
    return op_row(op->kind);
}

static int64_t size_of(const struct judge *j, int32_t tensor)
{
    return shape_elements(j->graph->tensors[tensor].shape);
}

static bool in_body(const struct judge *j, int32_t op)
{
    return op >= 0 && j->graph->ops[op].place == OP_PLACE_BODY;
}

static bool is_there(const struct judge *j, const bool *done, int32_t tensor)
{
    int32_t producer = j->graph->tensors[tensor].producer;
    return !in_body(j, producer) || done[producer];
}

static bool is_view(const struct judge *j, int32_t tensor)
{
    int32_t producer = j->graph->tensors[tensor].producer;
    return in_body(j, producer) &&
           (row_of(&j->graph->ops[producer])->kernel == OP_KERNEL_FREE || j->schedule->joined[producer]);
}

/* What a tensor takes beside what is live when it comes into being. */
static int64_t new_size(const struct judge *j, int32_t tensor)
{
    if (!j->within[tensor])
        return size_of(j, tensor);
    return j->live[j->root[tensor]] ? 0 : size_of(j, j->root[tensor]);
}

static bool overwrites(const struct judge *j, const struct op *op, int32_t input)
{
    return row_of(op)->inplace && !j->within[op->output] && !j->within[input];
}

static bool reads(const struct op *op, int32_t tensor)
{
    for (int32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] == tensor)
            return true;
    return false;
}

/* Somebody who is not done, or the end, needs the tensor. */
static bool is_needed(const struct judge *j, const bool *done, int32_t tensor)
{
    if (j->out[tensor])
        return true;
    for (int32_t o = 0; o < j->graph->n_ops; o++)
        if (in_body(j, o) && !done[o] && reads(&j->graph->ops[o], tensor))
            return true;
    return false;
}

static bool has_arrived(const struct judge *j, const bool *done, int32_t tensor)
{
    if (!j->schedule->streamed || in_body(j, j->graph->tensors[tensor].producer))
        return true;
    for (int32_t o = 0; o < j->graph->n_ops; o++)
        if (in_body(j, o) && done[o] && reads(&j->graph->ops[o], tensor))
            return true;
    return false;
}

static bool is_boards(const struct judge *j, int32_t tensor)
{
    if (j->graph->tensors[tensor].data)
        return false;
    if (in_body(j, j->graph->tensors[tensor].producer))
        return true;
    for (int32_t o = 0; o < j->graph->n_ops; o++)
        if (in_body(j, o) && reads(&j->graph->ops[o], tensor))
            return true;
    return false;
}

/* Roots whose memory is in use. */
static void find_live(const struct judge *j, const bool *done, bool *live)
{
    memset(live, 0, (size_t)j->graph->n_tensors);
    for (int32_t u = 0; u < j->graph->n_tensors; u++)
        if (j->part[u] && !live[j->root[u]])
            live[j->root[u]] = is_there(j, done, u) && is_needed(j, done, u) && has_arrived(j, done, u);
}

static int64_t live_bytes(const struct judge *j)
{
    int64_t sum = 0;
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        sum += j->live[t] ? size_of(j, t) : 0;
    return sum;
}

/* Inputs that arrive because this step reads them first. */
static int64_t arriving(const struct judge *j)
{
    int64_t sum = 0;
    for (int32_t t = 0; t < j->graph->n_tensors && j->schedule->streamed; t++) {
        bool read = false;
        for (int32_t k = 0; k < j->step->n_ops && !read; k++)
            read = reads(op_at(j, k), t);
        sum += read && !j->graph->tensors[t].data && !has_arrived(j, j->done, t) ? size_of(j, t) : 0;
    }
    return sum;
}

static int32_t maker_in_step(const struct judge *j, int32_t tensor)
{
    for (int32_t k = 0; k < j->step->n_ops; k++)
        if (op_at(j, k)->output == tensor)
            return k;
    return -1;
}

static void check_peak(struct judge *j, int64_t least)
{
    if (j->step->peak_bytes < least)
        fault(j, "%lld bytes, the rules give %lld", (long long)j->step->peak_bytes, (long long)least);
    j->cautious += j->step->peak_bytes > least;
}

/* ---- what every step keeps to ---- */

static void check_order(struct judge *j)
{
    const struct schedule_step *step = j->step;
    for (int32_t k = 0; k < step->n_ops; k++) {
        const struct op *op = op_at(j, k);
        if (step->ops[k] < 0 || step->ops[k] >= j->graph->n_ops || !in_body(j, step->ops[k]) ||
            j->done[step->ops[k]])
            fault(j, "operator %d is not to be run", step->ops[k]);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t maker = maker_in_step(j, op->inputs[i]);
            if (!j->graph->tensors[op->inputs[i]].data && !is_there(j, j->done, op->inputs[i]) &&
                (maker < 0 || maker >= k))
                fault(j, "%s reads what is not there", op->name);
        }
    }
    for (int32_t k = 0; k < step->again; k++) /* only for the others of the step */
        for (int32_t o = 0; o < j->graph->n_ops && step->mode != SCHEDULE_ROWS; o++)
            fault(j, "runs again in a step that is not by rows");
}

static void check_live(struct judge *j)
{
    int32_t n = 0;
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        n += j->root[t] == t && j->live[t];
    for (int32_t i = 0; i < j->step->n_live; i++)
        if (!j->live[j->root[j->step->live[i]]])
            fault(j, "tensor %d is named live", j->step->live[i]);
    if (n < j->step->n_live)
        fault(j, "%d tensors are live, %d are named", n, j->step->n_live);
}

static void check_full(struct judge *j)
{
    const struct op *op = op_at(j, 0);
    int64_t out = is_view(j, op->output) ? 0 : new_size(j, op->output), sum;
    if (j->step->n_ops != 1)
        fault(j, "%d operators whole", j->step->n_ops);
    sum = live_bytes(j) + arriving(j) + out;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t in = op->inputs[i];
        if (overwrites(j, op, in) && !j->graph->tensors[in].data && size_of(j, in) == out &&
            !j->lives[j->root[in]]) {
            sum -= out;
            break;
        }
    }
    check_peak(j, sum);
}

/* ---- loops over channels ---- */

struct block {
    int64_t bytes;
    int32_t first, last;
};

struct loop {
    struct judge *j;
    const struct schedule_step *step; /* its operators are of the graph */
    const int64_t *size;              /* of each tensor, in a patch less than the whole; NULL: whole */
    struct block *blocks;             /* of each tensor */
    int32_t *place;                   /* of each tensor: the block that it lies in */
    int64_t best;
    int32_t tries;
};

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

static bool loop_sums(const struct loop *l, int32_t k)
{
    const struct op *op = loop_op(l, k);
    return row_of(op)->class == OP_CLASS_AGGREGATING && loop_maker(l, op->inputs[0]) >= 0;
}

static bool loop_kept(const struct loop *l, int32_t tensor, const bool *last_of_patch)
{
    return last_of_patch ? last_of_patch[tensor] : is_needed(l->j, l->j->after, tensor);
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

static void check_forms(struct loop *l)
{
    struct judge *j = l->j;
    int32_t parts = 0;
    for (int32_t k = 0; k < l->step->n_ops; k++) {
        const struct op *op = loop_op(l, k);
        enum op_class class = row_of(op)->class;
        if (class == OP_CLASS_NEITHER ||
            (class == OP_CLASS_CHANNELWISE && !(row_of(op)->axes(j->graph, op) & OP_AXIS_C)))
            fault(j, "%s cannot run a channel at a time", op->name);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (j->graph->tensors[op->inputs[i]].data)
                continue;
            int32_t from = loop_maker(l, op->inputs[i]);
            bool slice = class == OP_CLASS_CHANNELWISE && is_slice(j, op, i);
            if (from >= 0 && (loop_sums(l, from) || (class == OP_CLASS_CHANNELWISE && !slice)))
                fault(j, "%s reads what is whole after the loop only", op->name);
            if (slice)
                parts = greatest(j->graph->tensors[op->inputs[i]].shape.c, parts);
        }
        if (!loop_sums(l, k))
            parts = greatest(j->graph->tensors[op->output].shape.c, parts);
    }
    if (parts < 2 || parts != l->step->iterations || l->step->k < 1 || l->step->k > parts)
        fault(j, "k %d of %d iterations, the channels allow %d", l->step->k, l->step->iterations, parts);
}

/* The output of operator k may lie where input i lies. *whole: that is a tensor that is there before the
 * loop. */
static bool may_share(const struct loop *l, int32_t k, int32_t i, bool kept, const bool *patch, bool *whole)
{
    const struct op *op = loop_op(l, k);
    int32_t in = op->inputs[i], from = loop_maker(l, in);
    if (l->j->graph->tensors[in].data || !overwrites(l->j, op, in) || !is_slice(l->j, op, i) ||
        last_read(l, in) != k || loop_size(l, in) != loop_size(l, op->output) || loop_sums(l, k))
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
    return patch ? maker_in_step(l->j, in) >= 0 && !patch[in] : !l->j->lives[l->j->root[in]];
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
static bool is_patch_end(const struct judge *j, int32_t tensor)
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
    bool kept = loop_kept(l, out, patch), sums = loop_sums(l, k);
    bool outside = patch && is_patch_end(l->j, out);
    int64_t own = outside ? 0 : patch || !l->j->within[out] ? loop_size(l, out) : new_size(l->j, out);
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
static int64_t loop_bytes(struct judge *j, const struct schedule_step *step, const int64_t *size,
                          const bool *patch)
{
    size_t n = (size_t)j->graph->n_tensors + 1;
    struct loop l = {.j = j, .step = step, .size = size, .best = -1, .tries = 2000};
    l.blocks = calloc(n, sizeof *l.blocks);
    l.place = calloc(n, sizeof *l.place);
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        l.place[t] = t;
    check_forms(&l);
    if (j->legal)
        place_from(&l, 0, patch);
    free(l.blocks);
    free(l.place);
    return l.best;
}

/* ---- rows ---- */

struct rows {
    struct judge *j;
    int32_t *made; /* of each tensor */
};

static const struct row_plan *plan_of(const struct judge *j, int32_t tensor)
{
    for (int32_t v = 0; v < j->step->n_rows; v++)
        if (j->step->rows[v].tensor == tensor)
            return &j->step->rows[v];
    return NULL;
}

static int32_t height(const struct judge *j, int32_t tensor)
{
    return j->graph->tensors[tensor].shape.h;
}

/* The row of which it is the turn of operator k at this tick, or -1. Sums take a row of their input. */
static int32_t row_due(const struct judge *j, int32_t k, int64_t tick)
{
    const struct op *op = op_at(j, k);
    const struct row_plan *out = plan_of(j, op->output), *at = out;
    struct row_plan whole = {.per = 1, .phase = out->phase};
    int32_t h = height(j, out->sums ? op->inputs[0] : op->output);
    if (out->sums)
        at = plan_of(j, op->inputs[0]) ? plan_of(j, op->inputs[0]) : &whole;
    int64_t row = tick - at->phase;
    return row >= 0 && row % at->per == 0 && row / at->per < h ? (int32_t)(row / at->per) : -1;
}

static struct box rows_needed(const struct judge *j, const struct op *op, int32_t i, int32_t row)
{
    struct shape out = j->graph->tensors[op->output].shape;
    if (plan_of(j, op->output)->sums)
        return (struct box){row, row + 1, 0, 1, 0, 1};
    return row_of(op)->need(j->graph, op, i, (struct box){row, row + 1, 0, out.w, 0, out.c});
}

static void check_read(struct rows *r, int32_t k, int32_t row, int64_t tick)
{
    struct judge *j = r->j;
    const struct op *op = op_at(j, k);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t t = op->inputs[i];
        const struct row_plan *in = plan_of(j, t);
        struct box need = rows_needed(j, op, i, row);
        if (!in || box_empty(need))
            continue;
        if (need.h1 > r->made[t])
            fault(j, "%s row %d reads row %d, made are %d", op->name, row, need.h1 - 1, r->made[t]);
        if (!in->kept && need.h0 < r->made[t] - (in->ring > 0 ? in->ring : 1))
            fault(j, "%s row %d reads row %d, held are the last %d of %d", op->name, row, need.h0, in->ring,
                  r->made[t]);
        if (in->passing && (k > in->last_op || row_due(j, maker_in_step(j, t), tick) != need.h1 - 1))
            fault(j, "%s reads a row that has passed", op->name);
        if (in->sums)
            fault(j, "%s reads sums", op->name);
    }
}

/* Of each dying row: tick and operator of its last reader. *over: that operator overwrites it element by
 * element with a row that is kept. */
struct end {
    int64_t tick;
    int32_t k;
    bool over;
};

static struct end *last_ends(const struct judge *j, int32_t tensor, int64_t ticks)
{
    struct end *ends = calloc((size_t)height(j, tensor), sizeof *ends);
    for (int32_t y = 0; ends && y < height(j, tensor); y++)
        ends[y] = (struct end){-1, -1, false};
    for (int64_t tick = 0; tick < ticks && ends; tick++)
        for (int32_t k = 0; k < j->step->n_ops; k++) {
            const struct op *op = op_at(j, k);
            int32_t row = reads(op, tensor) ? row_due(j, k, tick) : -1;
            for (int32_t i = 0; i < op->n_inputs && row >= 0; i++) {
                struct box need = op->inputs[i] == tensor ? rows_needed(j, op, i, row) : (struct box){0};
                const struct row_plan *out = plan_of(j, op->output);
                for (int32_t y = need.h0; y < need.h1; y++)
                    ends[y] = (struct end){tick, k,
                                           row_of(op)->inplace && out->kept && !out->sums &&
                                               size_of(j, tensor) == size_of(j, op->output)};
            }
        }
    return ends;
}

static int64_t plan_ticks(const struct judge *j)
{
    int64_t end = 0;
    for (int32_t v = 0; v < j->step->n_rows; v++) {
        const struct row_plan *plan = &j->step->rows[v];
        int64_t last = plan->phase + plan->per * height(j, plan->tensor);
        end = last > end ? last : end;
    }
    for (int32_t k = 0; k < j->step->n_ops; k++)
        end += plan_of(j, op_at(j, k)->output)->sums ? height(j, op_at(j, k)->inputs[0]) : 0;
    return end;
}

/* What is held at (tick, k): everything but rings, sums and rows that pass. */
static int64_t held_now(const struct rows *r, struct end **ends, int64_t tick, int32_t k)
{
    const struct judge *j = r->j;
    int64_t sum = 0;
    for (int32_t t = 0; t < j->graph->n_tensors; t++) {
        const struct row_plan *plan = j->part[t] ? plan_of(j, t) : NULL;
        int64_t row = j->part[t] ? size_of(j, t) / height(j, t) : 0;
        if (plan) {
            sum += !plan->kept || plan->sums ? 0 : j->within[t] ? new_size(j, t) : row * r->made[t];
            continue;
        }
        if (j->root[t] != t || !j->live[t])
            continue;
        if (!ends[t]) {
            sum += size_of(j, t);
            continue;
        }
        int32_t first = 0; /* rows go in their order */
        for (int32_t y = 0; y < height(j, t); y++) {
            struct end end = ends[t][y];
            if (end.tick > tick || (end.tick == tick && end.k > k) ||
                (end.tick == tick && end.k == k && !end.over)) {
                sum += row * (height(j, t) - first);
                break;
            }
            first = y + 1;
        }
    }
    return sum;
}

static void walk_rows(struct rows *r, struct end **ends, int64_t ticks)
{
    struct judge *j = r->j;
    int64_t fixed = 0, most = 0;
    for (int32_t v = 0; v < j->step->n_rows; v++) {
        const struct row_plan *plan = &j->step->rows[v];
        int64_t row = size_of(j, plan->tensor) / height(j, plan->tensor);
        fixed += plan->sums                    ? 4 * size_of(j, plan->tensor)
                 : plan->kept || plan->passing ? 0
                                               : row * plan->ring;
    }
    for (int64_t tick = 0; tick < ticks && j->legal; tick++) {
        for (int32_t v = 0; v < j->step->n_rows; v++) { /* rows of a streamed input */
            const struct row_plan *plan = &j->step->rows[v];
            int64_t row = tick - plan->phase;
            if (plan->arrives && row >= 0 && row % plan->per == 0 &&
                row / plan->per < height(j, plan->tensor))
                r->made[plan->tensor]++;
        }
        for (int32_t k = 0; k < j->step->n_ops && j->legal; k++) {
            int32_t row = row_due(j, k, tick), out = op_at(j, k)->output;
            if (row < 0)
                continue;
            check_read(r, k, row, tick);
            if (r->made[out] != row)
                fault(j, "%s makes row %d after %d", op_at(j, k)->name, row, r->made[out]);
            r->made[out] = row + 1;
            int64_t now = fixed + held_now(r, ends, tick, k);
            for (int32_t v = 0; v < j->step->n_rows; v++) {
                const struct row_plan *plan = &j->step->rows[v];
                if (plan->passing && plan->first_op <= k && k <= plan->last_op)
                    now += size_of(j, plan->tensor) / height(j, plan->tensor);
            }
            most = now > most ? now : most;
        }
    }
    for (int32_t k = 0; k < j->step->n_ops; k++) {
        const struct op *op = op_at(j, k);
        int32_t h = height(j, plan_of(j, op->output)->sums ? op->inputs[0] : op->output);
        if (r->made[op->output] != h)
            fault(j, "%s made %d of %d rows", op->name, r->made[op->output], h);
    }
    check_peak(j, most);
}

static void check_rows(struct judge *j)
{
    struct rows r = {.j = j, .made = calloc((size_t)j->graph->n_tensors, sizeof *r.made)};
    struct end **ends = calloc((size_t)j->graph->n_tensors, sizeof *ends);
    for (int32_t k = 0; k < j->step->n_ops; k++) {
        const struct row_plan *plan = plan_of(j, op_at(j, k)->output);
        if (!plan || plan->per < 1 || plan->phase < 0)
            fault(j, "%s has no plan", op_at(j, k)->name);
        else if (k >= j->step->again && is_needed(j, j->after, plan->tensor) != plan->kept && !plan->sums)
            fault(j, "%s is kept or not against what is needed", op_at(j, k)->name);
        if (!(row_of(op_at(j, k))->axes(j->graph, op_at(j, k)) & OP_AXIS_H) && plan && !plan->sums)
            fault(j, "%s cannot run by rows", op_at(j, k)->name);
    }
    int64_t ticks = j->legal ? plan_ticks(j) : 0;
    for (int32_t t = 0; t < j->graph->n_tensors && j->legal; t++) {
        bool viewed = false;
        for (int32_t u = 0; u < j->graph->n_tensors; u++)
            viewed |= u != t && j->root[u] == t && j->part[u];
        if (j->root[t] == t && !plan_of(j, t) && j->live[t] && !j->lives[t] && !viewed)
            ends[t] = last_ends(j, t, ticks);
    }
    if (j->legal)
        walk_rows(&r, ends, ticks);
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        free(ends[t]);
    free(ends);
    free(r.made);
}

/* A loop over channels whose iterations go row by row; what is kept lies apart. */
static void check_ringed(struct judge *j)
{
    const struct schedule_step *step = j->step;
    struct rows r = {.j = j, .made = calloc((size_t)j->graph->n_tensors, sizeof *r.made)};
    struct loop forms = {.j = j, .step = step};
    int64_t fixed = live_bytes(j) + arriving(j), most = 0;
    check_forms(&forms);
    for (int32_t k = 0; k < step->n_ops && j->legal; k++) {
        const struct op *op = op_at(j, k);
        const struct row_plan *plan = plan_of(j, op->output);
        bool kept = is_needed(j, j->after, op->output);
        if (!plan || plan->per < 1 || plan->phase < 0 || plan->sums || plan->arrives || plan->kept != kept) {
            fault(j, "%s has no right plan", op->name);
            break;
        }
        if (!(row_of(op)->axes(j->graph, op) & OP_AXIS_H))
            fault(j, "%s cannot run by rows", op->name);
        int64_t row = size_of(j, op->output) / height(j, op->output) / step->iterations * step->k;
        fixed += loop_sums(&forms, k) ? size_of(j, op->output) * j->options->accumulator / 8 +
                                            (j->within[op->output] ? new_size(j, op->output) : 0)
                 : kept          ? new_size(j, op->output)
                 : plan->passing ? 0
                                 : row * plan->ring;
    }
    int64_t ticks = j->legal ? plan_ticks(j) : 0;
    for (int64_t tick = 0; tick < ticks && j->legal; tick++)
        for (int32_t k = 0; k < step->n_ops && j->legal; k++) {
            int32_t row = row_due(j, k, tick), out = op_at(j, k)->output;
            if (row < 0)
                continue;
            check_read(&r, k, row, tick);
            if (r.made[out]++ != row)
                fault(j, "%s makes row %d out of turn", op_at(j, k)->name, row);
            int64_t now = fixed;
            for (int32_t v = 0; v < step->n_rows; v++) {
                const struct row_plan *plan = &step->rows[v];
                if (plan->passing && plan->first_op <= k && k <= plan->last_op)
                    now += size_of(j, plan->tensor) / height(j, plan->tensor) / step->iterations * step->k;
            }
            most = now > most ? now : most;
        }
    for (int32_t k = 0; k < step->n_ops && j->legal; k++)
        if (r.made[op_at(j, k)->output] != height(j, op_at(j, k)->output))
            fault(j, "%s did not make all its rows", op_at(j, k)->name);
    if (j->legal)
        check_peak(j, most);
    free(r.made);
}

/* ---- patches ---- */

/* MACs of a tile; its needs widen `first` (the first row needed) of tensors outside, and are held against the
 * sizes that the step states. */
static int64_t check_tile(struct judge *j, struct box last, int32_t *first)
{
    struct box boxes[64] = {{0}};
    const struct schedule_step *step = j->step;
    int64_t macs = 0;
    boxes[step->n_ops - 1] = last;
    for (int32_t k = step->n_ops - 1; k >= 0; k--) {
        const struct op *op = op_at(j, k);
        if (boxes[k].h1 - boxes[k].h0 > step->patch_h[k] || boxes[k].w1 - boxes[k].w0 > step->patch_w[k])
            fault(j, "a tile needs %dx%d of %s, stated are %dx%d", boxes[k].h1 - boxes[k].h0,
                  boxes[k].w1 - boxes[k].w0, op->name, step->patch_h[k], step->patch_w[k]);
        if (!box_empty(boxes[k]))
            macs += row_of(op)->macs(j->graph, op, boxes[k]);
        for (int32_t i = 0; i < op->n_inputs && !box_empty(boxes[k]); i++) {
            struct box need = row_of(op)->need(j->graph, op, i, boxes[k]);
            int32_t from = maker_in_step(j, op->inputs[i]);
            if (from >= 0)
                boxes[from] = box_hull(boxes[from], need);
            else if (!box_empty(need) && need.h0 < first[op->inputs[i]])
                first[op->inputs[i]] = need.h0;
        }
    }
    return macs;
}

static int64_t patch_outside(const struct judge *j, const int32_t *first, int32_t made)
{
    int32_t out = op_at(j, j->step->n_ops - 1)->output;
    int64_t sum = j->within[out] ? new_size(j, out) : size_of(j, out) / height(j, out) * made;
    for (int32_t t = 0; t < j->graph->n_tensors; t++) {
        if (j->root[t] != t || !j->live[t])
            continue;
        bool dies = !j->lives[t];
        for (int32_t u = 0; u < j->graph->n_tensors; u++)
            dies &= u == t || j->root[u] != t || !j->part[u];
        sum += dies ? size_of(j, t) / height(j, t) * (height(j, t) - first[t]) : size_of(j, t);
    }
    return sum;
}

/* The patch's output lies outside. */
static int64_t inside_live(const struct judge *j, const int64_t *size, const bool *made)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < j->step->n_ops - 1; k++) {
        int32_t t = op_at(j, k)->output;
        bool needed = false;
        for (int32_t m = 0; m < j->step->n_ops; m++)
            needed |= !made[m] && reads(op_at(j, m), t);
        sum += made[k] && needed ? size[t] : 0;
    }
    return sum;
}

/* Rows that a band of tiles needs of each tensor that the patch makes, not clamped: as windows and lines say
 * it, so that tiles at the border have as many as others. */
struct band {
    int32_t lo, hi;
};

static int32_t floor_of(int32_t x, int32_t by)
{
    return x >= 0 ? x / by : -((by - 1 - x) / by);
}

static struct band band_back(const struct judge *j, const struct op *op, int32_t i, struct band out)
{
    struct shape from = j->graph->tensors[op->inputs[i]].shape, to = j->graph->tensors[op->output].shape;
    if (row_of(op)->window)
        return (struct band){out.lo * op->stride_h - op->pad_top, (out.hi - 1) * op->stride_h - op->pad_top +
                                                                      (op->kernel_h - 1) * op->dilation_h +
                                                                      1};
    int32_t f = to.h > from.h && to.h % from.h == 0 ? to.h / from.h : 1, shift = 0;
    for (int32_t y = to.h - 1; y >= 0; y--) { /* which line any row needs */
        struct box need = row_of(op)->need(j->graph, op, i, (struct box){y, y + 1, 0, to.w, 0, to.c});
        shift = box_empty(need) ? shift : need.h0 - y / f;
    }
    return (struct band){floor_of(out.lo, f) + shift, floor_of(out.hi - 1, f) + 1 + shift};
}

static void find_bands(const struct judge *j, int32_t h0, struct band *bands)
{
    const struct schedule_step *step = j->step;
    memset(bands, 0, 64 * sizeof *bands);
    bands[step->n_ops - 1] = (struct band){h0, h0 + step->tile_h};
    for (int32_t k = step->n_ops - 1; k >= 0; k--)
        for (int32_t i = 0; i < op_at(j, k)->n_inputs; i++) {
            int32_t from = maker_in_step(j, op_at(j, k)->inputs[i]);
            if (from < 0)
                continue;
            struct band need = band_back(j, op_at(j, k), i, bands[k]);
            bool first = bands[from].lo == bands[from].hi;
            bands[from].lo = first || need.lo < bands[from].lo ? need.lo : bands[from].lo;
            bands[from].hi = first || need.hi > bands[from].hi ? need.hi : bands[from].hi;
        }
}

/* Places in the step of an inner step's operators; rows[i] is the plan of its operator i. */
struct inner_rows {
    const struct schedule_step *inner;
    const struct row_plan *rows[64];
    int32_t place[64];
    int32_t made[64], from[64]; /* of each of its operators: the next row, and the first one made */
};

static int32_t inner_maker(const struct judge *j, const struct inner_rows *r, int32_t tensor)
{
    for (int32_t i = 0; i < r->inner->n_ops; i++)
        if (op_at(j, r->place[i])->output == tensor)
            return i;
    return -1;
}

static void check_inner_read(struct judge *j, const struct inner_rows *r, int32_t i, int32_t y, int64_t tick)
{
    const struct op *op = op_at(j, r->place[i]);
    struct shape out = j->graph->tensors[op->output].shape;
    for (int32_t m = 0; m < op->n_inputs; m++) {
        int32_t from = inner_maker(j, r, op->inputs[m]);
        struct box need = row_of(op)->need(j->graph, op, m, (struct box){y, y + 1, 0, out.w, 0, out.c});
        if (from < 0 || box_empty(need))
            continue;
        const struct row_plan *plan = r->rows[from];
        int32_t held = plan->kept ? INT32_MAX : plan->ring > 0 ? plan->ring : 1;
        if (need.h1 > r->made[from] || need.h0 < r->from[from])
            fault(j, "in a patch %s row %d reads rows %d to %d, made are %d to %d", op->name, y, need.h0,
                  need.h1, r->from[from], r->made[from]);
        if (held < r->made[from] - need.h0)
            fault(j, "in a patch %s row %d reads row %d, held are the last %d of %d", op->name, y, need.h0,
                  held, r->made[from]);
        if (plan->passing && i > plan->last_op)
            fault(j, "in a patch %s reads a row that has passed at tick %d", op->name, (int)tick);
    }
}

static void walk_band(struct judge *j, struct inner_rows *r, const struct band *bands)
{
    int64_t ticks = 0;
    for (int32_t i = 0; i < r->inner->n_ops; i++) {
        struct band band = bands[r->place[i]];
        int64_t end = r->rows[i]->phase + r->rows[i]->per * (band.hi - band.lo);
        ticks = end > ticks ? end : ticks;
        r->made[i] = -1;
    }
    for (int64_t tick = 0; tick < ticks; tick++)
        for (int32_t i = 0; i < r->inner->n_ops && j->legal; i++) {
            struct band band = bands[r->place[i]];
            int64_t at = tick - r->rows[i]->phase, y = band.lo + at / r->rows[i]->per;
            if (at < 0 || at % r->rows[i]->per || y < 0 || y >= band.hi ||
                y >= height(j, op_at(j, r->place[i])->output))
                continue;
            check_inner_read(j, r, i, (int32_t)y, tick);
            r->from[i] = r->made[i] < 0 ? (int32_t)y : r->from[i];
            r->made[i] = (int32_t)y + 1;
        }
    for (int32_t i = 0; i < r->inner->n_ops && j->legal; i++) {
        struct band band = bands[r->place[i]];
        int32_t h = height(j, op_at(j, r->place[i])->output), end = band.hi < h ? band.hi : h;
        if (end > 0 && band.lo < h && r->made[i] != end)
            fault(j, "in a patch %s made rows up to %d of %d", op_at(j, r->place[i])->name, r->made[i], end);
    }
}

/* Bytes of an inner step that goes row by row beside what is live in the patch. */
static int64_t inner_rows_bytes(struct judge *j, const struct schedule_step *inner, const int64_t *size,
                                const bool *kept)
{
    struct inner_rows r = {.inner = inner};
    struct loop forms = {.j = j, .step = inner};
    struct band bands[64];
    bool channels = inner->mode == SCHEDULE_CHANNELS;
    int64_t fixed = 0, most = 0, row[64];
    if (channels)
        check_forms(&forms);
    for (int32_t i = 0; i < inner->n_ops && j->legal; i++) {
        int32_t t = j->graph->ops[inner->ops[i]].output;
        r.place[i] = maker_in_step(j, t);
        for (int32_t v = 0; v < inner->n_rows; v++)
            r.rows[i] = inner->rows[v].tensor == t ? &inner->rows[v] : r.rows[i];
        if (!r.rows[i] || r.rows[i]->per < 1 || r.rows[i]->phase < 0 || r.rows[i]->sums ||
            r.rows[i]->arrives || r.rows[i]->kept != kept[t]) {
            fault(j, "operator %d in a patch has no right plan", inner->ops[i]);
            return 0;
        }
        if (!(row_of(&j->graph->ops[inner->ops[i]])->axes(j->graph, &j->graph->ops[inner->ops[i]]) &
              OP_AXIS_H))
            fault(j, "operator %d cannot run by rows", inner->ops[i]);
        row[i] = (int64_t)j->step->patch_w[r.place[i]] * j->graph->tensors[t].shape.c;
        row[i] = channels ? row[i] / inner->iterations * inner->k : row[i];
        fixed += channels && loop_sums(&forms, i) ? size[t] * j->options->accumulator / 8
                 : is_patch_end(j, t)             ? 0
                 : kept[t]                        ? size[t]
                 : r.rows[i]->passing             ? 0
                                                  : row[i] * r.rows[i]->ring;
    }
    for (int32_t k = 0; k < inner->n_ops && j->legal; k++) {
        int64_t now = fixed;
        for (int32_t i = 0; i < inner->n_ops; i++)
            now += r.rows[i]->passing && r.rows[i]->first_op <= k && k <= r.rows[i]->last_op ? row[i] : 0;
        most = now > most ? now : most;
    }
    int32_t end = height(j, op_at(j, j->step->n_ops - 1)->output);
    for (int32_t h0 = 0; h0 < end && j->legal; h0 += j->step->tile_h) {
        find_bands(j, h0, bands);
        walk_band(j, &r, bands);
    }
    return most;
}

/* The most that a patch holds: its steps, each operator once. */
static int64_t patch_inside(struct judge *j, const int64_t *size)
{
    const struct schedule_step *step = j->step;
    bool *last = calloc((size_t)j->graph->n_tensors, sizeof *last), made[64] = {false};
    int64_t most = 0;
    last[op_at(j, step->n_ops - 1)->output] = true;
    for (int32_t s = 0; s < step->n_inner && j->legal; s++) {
        const struct schedule_step *inner = &step->inner[s];
        int64_t before = inside_live(j, size, made);
        bool *kept = calloc((size_t)j->graph->n_tensors, sizeof *kept);
        bool now[64];
        memcpy(now, made, sizeof now);
        for (int32_t i = 0; i < inner->n_ops; i++) {
            int32_t k = maker_in_step(j, j->graph->ops[inner->ops[i]].output);
            if (k < 0 || now[k])
                fault(j, "a patch runs operator %d amiss", inner->ops[i]);
            else
                now[k] = true;
        }
        for (int32_t k = 0; k < step->n_ops; k++) {
            int32_t t = op_at(j, k)->output;
            kept[t] = last[t];
            for (int32_t m = 0; m < step->n_ops; m++)
                kept[t] |= !now[m] && reads(op_at(j, m), t);
        }
        int64_t bytes = inner->rows                        ? inner_rows_bytes(j, inner, size, kept)
                        : inner->mode == SCHEDULE_CHANNELS ? loop_bytes(j, inner, size, kept)
                                                           : 0;
        if (inner->mode == SCHEDULE_PATCHES || (inner->mode == SCHEDULE_ROWS && !inner->rows))
            fault(j, "a patch has no steps of mode %d", (int)inner->mode);
        if (inner->mode == SCHEDULE_FULL) {
            const struct op *op = &j->graph->ops[inner->ops[0]];
            bytes = is_patch_end(j, op->output) ? 0 : size[op->output];
            for (int32_t i = 0; i < op->n_inputs; i++)
                if (row_of(op)->inplace && size[op->inputs[i]] == bytes &&
                    maker_in_step(j, op->inputs[i]) >= 0 && !kept[op->inputs[i]])
                    bytes = 0;
        }
        if (before + bytes > inner->peak_bytes)
            fault(j, "a patch's step %d takes %lld, stated are %lld", s, (long long)(before + bytes),
                  (long long)inner->peak_bytes);
        most = before + bytes > most ? before + bytes : most;
        memcpy(made, now, sizeof made);
        free(kept);
    }
    for (int32_t k = 0; k < step->n_ops; k++)
        if (!made[k])
            fault(j, "a patch does not run operator %d", step->ops[k]);
    free(last);
    return most;
}

static int64_t check_patches(struct judge *j)
{
    const struct schedule_step *step = j->step;
    int32_t *first = calloc((size_t)j->graph->n_tensors, sizeof *first),
            out = op_at(j, step->n_ops - 1)->output;
    int64_t *size = calloc((size_t)j->graph->n_tensors, sizeof *size), outside = 0, macs = 0;
    struct shape shape = j->graph->tensors[out].shape;
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        first[t] = height(j, t);
    for (int32_t k = 0; k < step->n_ops; k++) {
        int32_t t = op_at(j, k)->output;
        size[t] = (int64_t)step->patch_h[k] * step->patch_w[k] * j->graph->tensors[t].shape.c;
        if (k < step->n_ops - 1 && is_needed(j, j->after, t))
            fault(j, "%s is needed after the patches", op_at(j, k)->name);
    }
    for (int32_t band = (shape.h + step->tile_h - 1) / step->tile_h - 1; band >= 0; band--) {
        int32_t h0 = band * step->tile_h, h1 = h0 + step->tile_h < shape.h ? h0 + step->tile_h : shape.h;
        for (int32_t w0 = 0; w0 < shape.w; w0 += step->tile_w) {
            int32_t w1 = w0 + step->tile_w < shape.w ? w0 + step->tile_w : shape.w;
            macs += check_tile(j, (struct box){h0, h1, w0, w1, 0, shape.c}, first);
        }
        int64_t now = patch_outside(j, first, h1);
        outside = now > outside ? now : outside;
    }
    check_peak(j, outside + patch_inside(j, size));
    free(first);
    free(size);
    return macs;
}

/* ---- a schedule ---- */

static int64_t whole_macs(const struct judge *j, int32_t op)
{
    const struct op *it = &j->graph->ops[op];
    return row_of(it)->macs(j->graph, it, box_whole(j->graph->tensors[it->output].shape));
}

/* Tensors of one row are the same bytes as of one column. */
static void check_tall(struct judge *j)
{
    for (int32_t k = 0; k < j->step->n_ops; k++) {
        const struct op *op = op_at(j, k);
        for (int32_t i = 0; i <= op->n_inputs; i++) {
            const struct tensor *t = &j->graph->tensors[i < op->n_inputs ? op->inputs[i] : op->output];
            if (t->shape.h != 1)
                fault(j, "%s has %d rows in a step that is tall", op->name, t->shape.h);
        }
        if (row_of(op)->needs_weights && op->kernel_h > 1 && op->kernel_w > 1)
            fault(j, "%s has weights that cannot be turned", op->name);
    }
    if (!j->step->rows && j->step->mode != SCHEDULE_PATCHES)
        fault(j, "a step that goes by no rows is tall");
}

static void check_step(struct judge *j)
{
    const struct schedule_step *step = j->step;
    const struct graph *given = j->graph;
    int64_t macs = 0, own = 0;
    check_order(j);
    if (step->tall)
        check_tall(j);
    if (!j->legal)
        return;
    j->graph = step->tall ? j->turned : given;
    memcpy(j->after, j->done, (size_t)j->graph->n_ops * sizeof *j->after);
    for (int32_t k = 0; k < step->n_ops; k++) {
        macs += whole_macs(j, step->ops[k]);
        own += k >= step->again ? whole_macs(j, step->ops[k]) : 0;
        if (k >= step->again)
            j->after[step->ops[k]] = true;
    }
    find_live(j, j->done, j->live);
    find_live(j, j->after, j->lives);
    check_live(j);
    if (step->mode == SCHEDULE_FULL)
        check_full(j);
    else if (step->mode == SCHEDULE_CHANNELS && step->rows)
        check_ringed(j);
    else if (step->mode == SCHEDULE_CHANNELS)
        check_peak(j, live_bytes(j) + arriving(j) + loop_bytes(j, step, NULL, NULL));
    else if (step->mode == SCHEDULE_ROWS)
        check_rows(j);
    else
        macs = check_patches(j);
    if (macs - own != step->extra_macs)
        fault(j, "%lld extra MACs, stated are %lld", (long long)(macs - own), (long long)step->extra_macs);
    j->extra += macs - own;
    j->graph = given;
    memcpy(j->done, j->after, (size_t)j->graph->n_ops * sizeof *j->done);
}

static bool prepare(struct judge *j)
{
    const struct graph *graph = j->graph;
    j->done = calloc((size_t)graph->n_ops + 1, sizeof *j->done);
    j->after = calloc((size_t)graph->n_ops + 1, sizeof *j->after);
    j->out = calloc((size_t)graph->n_tensors + 1, sizeof *j->out);
    j->root = calloc((size_t)graph->n_tensors + 1, sizeof *j->root);
    j->live = calloc((size_t)graph->n_tensors + 1, sizeof *j->live);
    j->lives = calloc((size_t)graph->n_tensors + 1, sizeof *j->lives);
    j->within = calloc((size_t)graph->n_tensors + 1, sizeof *j->within);
    j->part = calloc((size_t)graph->n_tensors + 1, sizeof *j->part);
    if (!j->done || !j->after || !j->out || !j->root || !j->live || !j->lives || !j->part || !j->within)
        return false;
    for (int32_t t = 0; t < graph->n_tensors; t++)
        j->part[t] = is_boards(j, t);
    for (int32_t t = 0; t < graph->n_tensors; t++)
        j->root[t] = t;
    for (int32_t o = 0; o < graph->n_ops; o++) {
        const struct op *op = &graph->ops[o];
        if (in_body(j, o) && row_of(op)->kernel == OP_KERNEL_FREE)
            j->root[op->output] = j->root[op->inputs[0]];
        for (int32_t i = 0; i < op->n_inputs && j->schedule->joined[o]; i++) {
            if (j->root[op->inputs[i]] != op->inputs[i] || j->root[op->output] != op->output ||
                graph->tensors[op->inputs[i]].data || !in_body(j, graph->tensors[op->inputs[i]].producer) ||
                graph->tensors[op->inputs[i]].quant.scale != graph->tensors[op->output].quant.scale ||
                graph->tensors[op->inputs[i]].quant.zero_point != graph->tensors[op->output].quant.zero_point)
                fault(j, "%s cannot be free", op->name);
            j->root[op->inputs[i]] = op->output;
            j->within[op->inputs[i]] = true;
        }
        for (int32_t i = 0; i < op->n_inputs && op->place == OP_PLACE_TAIL; i++)
            j->out[op->inputs[i]] = true;
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        j->out[graph->outputs[i]] = true;
    return true;
}

bool judge_schedule(const struct graph *graph, const struct schedule_options *options,
                    const struct schedule *schedule, int32_t *cautious, char *reason, size_t size)
{
    struct judge j = {.graph = graph,
                      .options = options,
                      .schedule = schedule,
                      .reason = reason,
                      .size = size,
                      .legal = true};
    struct graph *turned = transposed(graph);
    int64_t peak = 0;
    j.turned = turned;
    if (!turned || !prepare(&j))
        fault(&j, "no memory");
    for (j.number = 0; j.number < schedule->n_steps && j.legal; j.number++) {
        j.step = &schedule->steps[j.number];
        check_step(&j);
        peak = j.step->peak_bytes > peak ? j.step->peak_bytes : peak;
    }
    for (int32_t o = 0; o < graph->n_ops && j.legal; o++)
        if (in_body(&j, o) && !j.done[o])
            fault(&j, "%s was never run", graph->ops[o].name);
    if (peak != schedule->peak_bytes || j.extra != schedule->extra_macs)
        fault(&j, "peak %lld or extra MACs %lld are not the steps'", (long long)schedule->peak_bytes,
              (long long)schedule->extra_macs);
    if (options->ram && schedule->peak_bytes > options->ram)
        fault(&j, "more than the limit");
    *cautious = j.cautious;
    transposed_free(turned);
    free(j.done);
    free(j.after);
    free(j.out);
    free(j.root);
    free(j.live);
    free(j.lives);
    free(j.part);
    free(j.within);
    return j.legal;
}
