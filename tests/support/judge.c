/*
 * The judge replays a schedule step by step. Memory is counted by storage: a view has that of what it views.
 */
#include "tests/support/judge_internal.h"
#include "tests/support/transposed.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void judge_fault(struct judge *j, const char *format, ...)
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

bool judge_is_there(const struct judge *j, const bool *done, int32_t tensor)
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
int64_t judge_new_size(const struct judge *j, int32_t tensor)
{
    if (!j->within[tensor])
        return size_of(j, tensor);
    return j->live[j->root[tensor]] ? 0 : size_of(j, j->root[tensor]);
}

bool judge_overwrites(const struct judge *j, const struct op *op, int32_t input)
{
    return row_of(op)->inplace && !j->within[op->output] && !j->within[input];
}

/* Somebody who is not done, or the end, needs the tensor. */
bool judge_is_needed(const struct judge *j, const bool *done, int32_t tensor)
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
            live[j->root[u]] =
                judge_is_there(j, done, u) && judge_is_needed(j, done, u) && has_arrived(j, done, u);
}

int64_t judge_live_bytes(const struct judge *j)
{
    int64_t sum = 0;
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        sum += j->live[t] ? size_of(j, t) : 0;
    return sum;
}

/* Inputs that arrive because this step reads them first. */
int64_t judge_arriving(const struct judge *j)
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

int32_t judge_maker(const struct judge *j, int32_t tensor)
{
    for (int32_t k = 0; k < j->step->n_ops; k++)
        if (op_at(j, k)->output == tensor)
            return k;
    return -1;
}

void judge_peak(struct judge *j, int64_t least)
{
    if (j->step->peak_bytes < least)
        judge_fault(j, "%lld bytes, the rules give %lld", (long long)j->step->peak_bytes, (long long)least);
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
            judge_fault(j, "operator %d is not to be run", step->ops[k]);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t maker = judge_maker(j, op->inputs[i]);
            if (!j->graph->tensors[op->inputs[i]].data && !judge_is_there(j, j->done, op->inputs[i]) &&
                (maker < 0 || maker >= k))
                judge_fault(j, "%s reads what is not there", op->name);
        }
    }
    for (int32_t k = 0; k < step->again; k++) /* only for the others of the step */
        for (int32_t o = 0; o < j->graph->n_ops && step->mode != SCHEDULE_ROWS; o++)
            judge_fault(j, "runs again in a step that is not by rows");
}

static void check_live(struct judge *j)
{
    int32_t n = 0;
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        n += j->root[t] == t && j->live[t];
    for (int32_t i = 0; i < j->step->n_live; i++)
        if (!j->live[j->root[j->step->live[i]]])
            judge_fault(j, "tensor %d is named live", j->step->live[i]);
    if (n < j->step->n_live)
        judge_fault(j, "%d tensors are live, %d are named", n, j->step->n_live);
}

static void check_full(struct judge *j)
{
    const struct op *op = op_at(j, 0);
    int64_t out = is_view(j, op->output) ? 0 : judge_new_size(j, op->output), sum;
    if (j->step->n_ops != 1)
        judge_fault(j, "%d operators whole", j->step->n_ops);
    sum = judge_live_bytes(j) + judge_arriving(j) + out;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t in = op->inputs[i];
        if (judge_overwrites(j, op, in) && !j->graph->tensors[in].data && size_of(j, in) == out &&
            !j->lives[j->root[in]]) {
            sum -= out;
            break;
        }
    }
    judge_peak(j, sum);
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
                judge_fault(j, "%s has %d rows in a step that is tall", op->name, t->shape.h);
        }
        if (row_of(op)->needs_weights && op->kernel_h > 1 && op->kernel_w > 1)
            judge_fault(j, "%s has weights that cannot be turned", op->name);
    }
    if (!j->step->rows && j->step->mode != SCHEDULE_PATCHES)
        judge_fault(j, "a step that goes by no rows is tall");
}

/* By rows one input may arrive row by row, a link's transfers being in turn; the others are there before. */
static void let_arrive(struct judge *j)
{
    int32_t by_rows = -1;
    for (int32_t v = 0; v < j->step->n_rows; v++) {
        if (j->step->rows[v].arrives && by_rows >= 0)
            judge_fault(j, "two inputs arrive at a time");
        by_rows = j->step->rows[v].arrives ? j->step->rows[v].tensor : by_rows;
    }
    for (int32_t t = 0; t < j->graph->n_tensors; t++)
        for (int32_t k = 0; k < j->step->n_ops && t != by_rows; k++)
            if (reads(op_at(j, k), t) && !j->graph->tensors[t].data && !has_arrived(j, j->done, t))
                j->live[t] = true;
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
        judge_ringed(j);
    else if (step->mode == SCHEDULE_CHANNELS)
        judge_peak(j, judge_live_bytes(j) + judge_arriving(j) + judge_loop_bytes(j, step, NULL, NULL));
    else if (step->mode == SCHEDULE_ROWS) {
        let_arrive(j);
        judge_rows(j);
    } else {
        let_arrive(j);
        macs = judge_patches(j);
    }
    if (macs - own != step->extra_macs)
        judge_fault(j, "%lld extra MACs, stated are %lld", (long long)(macs - own),
                    (long long)step->extra_macs);
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
                judge_fault(j, "%s cannot be free", op->name);
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
        judge_fault(&j, "no memory");
    for (j.number = 0; j.number < schedule->n_steps && j.legal; j.number++) {
        j.step = &schedule->steps[j.number];
        check_step(&j);
        peak = j.step->peak_bytes > peak ? j.step->peak_bytes : peak;
    }
    for (int32_t o = 0; o < graph->n_ops && j.legal; o++)
        if (in_body(&j, o) && !j.done[o])
            judge_fault(&j, "%s was never run", graph->ops[o].name);
    if (peak != schedule->peak_bytes || j.extra != schedule->extra_macs)
        judge_fault(&j, "peak %lld or extra MACs %lld are not the steps'", (long long)schedule->peak_bytes,
                    (long long)schedule->extra_macs);
    if (options->ram && schedule->peak_bytes > options->ram)
        judge_fault(&j, "more than the limit");
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
