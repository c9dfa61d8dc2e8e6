/*
 * Steps row by row: the plan is walked tick by tick, and what is read must have been made and still be held.
 */
#include "tests/support/judge_internal.h"

#include <stdlib.h>
#include <string.h>

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
            judge_fault(j, "%s row %d reads row %d, made are %d", op->name, row, need.h1 - 1, r->made[t]);
        if (!in->kept && need.h0 < r->made[t] - (in->ring > 0 ? in->ring : 1))
            judge_fault(j, "%s row %d reads row %d, held are the last %d of %d", op->name, row, need.h0,
                        in->ring, r->made[t]);
        if (in->passing && (k > in->last_op || row_due(j, judge_maker(j, t), tick) != need.h1 - 1))
            judge_fault(j, "%s reads a row that has passed", op->name);
        if (in->sums)
            judge_fault(j, "%s reads sums", op->name);
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
            sum += !plan->kept || plan->sums ? 0 : j->within[t] ? judge_new_size(j, t) : row * r->made[t];
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
                judge_fault(j, "%s makes row %d after %d", op_at(j, k)->name, row, r->made[out]);
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
            judge_fault(j, "%s made %d of %d rows", op->name, r->made[op->output], h);
    }
    judge_peak(j, most);
}

void judge_rows(struct judge *j)
{
    struct rows r = {.j = j, .made = calloc((size_t)j->graph->n_tensors, sizeof *r.made)};
    struct end **ends = calloc((size_t)j->graph->n_tensors, sizeof *ends);
    for (int32_t k = 0; k < j->step->n_ops; k++) {
        const struct row_plan *plan = plan_of(j, op_at(j, k)->output);
        if (!plan || plan->per < 1 || plan->phase < 0)
            judge_fault(j, "%s has no plan", op_at(j, k)->name);
        else if (k >= j->step->again && judge_is_needed(j, j->after, plan->tensor) != plan->kept &&
                 !plan->sums)
            judge_fault(j, "%s is kept or not against what is needed", op_at(j, k)->name);
        if (!(row_of(op_at(j, k))->axes(j->graph, op_at(j, k)) & OP_AXIS_H) && plan && !plan->sums)
            judge_fault(j, "%s cannot run by rows", op_at(j, k)->name);
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
void judge_ringed(struct judge *j)
{
    const struct schedule_step *step = j->step;
    struct rows r = {.j = j, .made = calloc((size_t)j->graph->n_tensors, sizeof *r.made)};
    struct loop forms = {.j = j, .step = step};
    int64_t fixed = judge_live_bytes(j) + judge_arriving(j), most = 0;
    judge_forms(&forms);
    for (int32_t k = 0; k < step->n_ops && j->legal; k++) {
        const struct op *op = op_at(j, k);
        const struct row_plan *plan = plan_of(j, op->output);
        bool kept = judge_is_needed(j, j->after, op->output);
        if (!plan || plan->per < 1 || plan->phase < 0 || plan->sums || plan->arrives || plan->kept != kept) {
            judge_fault(j, "%s has no right plan", op->name);
            break;
        }
        if (!(row_of(op)->axes(j->graph, op) & OP_AXIS_H))
            judge_fault(j, "%s cannot run by rows", op->name);
        int64_t row = size_of(j, op->output) / height(j, op->output) / step->iterations * step->k;
        fixed += judge_loop_sums(&forms, k) ? size_of(j, op->output) * j->options->accumulator / 8 +
                                                  (j->within[op->output] ? judge_new_size(j, op->output) : 0)
                 : kept          ? judge_new_size(j, op->output)
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
                judge_fault(j, "%s makes row %d out of turn", op_at(j, k)->name, row);
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
            judge_fault(j, "%s did not make all its rows", op_at(j, k)->name);
    if (j->legal)
        judge_peak(j, most);
    free(r.made);
}
