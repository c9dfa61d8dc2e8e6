/*
 * The bottleneck for people: live tensors are listed by the schedule; what the step holds itself is told
 * apart where the parts add up to what the search has counted, else it stays in one. So the sum is right
 * always.
 */
#include "server/schedule/bottleneck.h"

#include "server/model/optable.h"
#include "server/model/tall.h"

#include <stdlib.h>

struct holding {
    int32_t tensor, rows; /* rows: 0, or how many are held */
    int64_t bytes;
    const char *role;
};

struct peak {
    const struct graph *graph;
    const struct schedule_step *step;
    int32_t accumulator;
    struct holding *held;
    int32_t n;
    int64_t bytes; /* of all that is held */
};

static void hold(struct peak *peak, int32_t tensor, int64_t bytes, const char *role, int32_t rows)
{
    peak->held[peak->n++] = (struct holding){tensor, rows, bytes, role};
    peak->bytes += bytes;
}

static bool in_step(const struct schedule_step *step, int32_t op)
{
    for (int32_t i = 0; i < step->n_ops; i++)
        if (step->ops[i] == op)
            return true;
    return false;
}

static bool reads(const struct peak *peak, int32_t tensor)
{
    for (int32_t i = 0; i < peak->step->n_ops; i++)
        for (int32_t j = 0; j < peak->graph->ops[peak->step->ops[i]].n_inputs; j++)
            if (peak->graph->ops[peak->step->ops[i]].inputs[j] == tensor)
                return true;
    return false;
}

/* Made and read by the step alone. */
static bool passes(const struct peak *peak, int32_t tensor)
{
    int32_t readers = 0;
    for (int32_t o = 0; o < peak->graph->n_ops; o++)
        for (int32_t j = 0; j < peak->graph->ops[o].n_inputs; j++) {
            if (peak->graph->ops[o].inputs[j] != tensor)
                continue;
            if (!in_step(peak->step, o))
                return false;
            readers++;
        }
    for (int32_t i = 0; i < peak->graph->n_outputs; i++)
        if (peak->graph->outputs[i] == tensor)
            return false;
    return readers > 0;
}

static int64_t elements(const struct peak *peak, int32_t tensor)
{
    return shape_elements(peak->graph->tensors[tensor].shape);
}

/* As the step goes by it: columns are rows where it is tall. */
static struct shape seen(const struct peak *peak, int32_t tensor)
{
    struct shape shape = peak->graph->tensors[tensor].shape;
    if (peak->step->tall && tall_tensor(peak->graph, tensor))
        return (struct shape){shape.w, shape.h, shape.c};
    return shape;
}

/* Bytes of the channels of one turn, of `rows` rows. */
static int64_t part_bytes(const struct peak *peak, int32_t tensor, int32_t rows)
{
    struct shape shape = seen(peak, tensor);
    return (int64_t)rows * shape.w * shape.c / peak->step->iterations * peak->step->k;
}

/* A convolution that takes parts adds them up in its whole output. */
static bool adds_up(const struct peak *peak, const struct op *op)
{
    return op_row(op->kind)->class == OP_CLASS_AGGREGATING && passes(peak, op->inputs[0]);
}

static void hold_channels(struct peak *peak)
{
    for (int32_t i = 0; i < peak->step->n_ops; i++) {
        const struct op *op = &peak->graph->ops[peak->step->ops[i]];
        int32_t out = op->output;
        if (passes(peak, out))
            hold(peak, out, part_bytes(peak, out, seen(peak, out).h), "part", 0);
        else if (adds_up(peak, op))
            hold(peak, out, elements(peak, out) * peak->accumulator / 8, "sums", 0);
        else
            hold(peak, out, elements(peak, out), "output", 0);
    }
}

/* Rings are there from the first row to the last. */
static void hold_rings(struct peak *peak)
{
    for (int32_t i = 0; i < peak->step->n_rows; i++) {
        const struct row_plan *plan = &peak->step->rows[i];
        struct shape shape = seen(peak, plan->tensor);
        int64_t row = peak->step->mode == SCHEDULE_CHANNELS ? part_bytes(peak, plan->tensor, 1)
                                                            : (int64_t)shape.w * shape.c;
        if (plan->ring > 0 && !plan->passing && !plan->sums && (!plan->kept || plan->arrives))
            hold(peak, plan->tensor, plan->ring * row, "ring", plan->ring);
    }
}

static void hold_patch(struct peak *peak)
{
    const struct schedule_step *step = peak->step;
    int64_t most = 0;
    for (int32_t i = 0; i < step->n_inner; i++)
        most = step->inner[i].peak_bytes > most ? step->inner[i].peak_bytes : most;
    hold(peak, peak->graph->ops[step->ops[step->n_ops - 1]].output, most, "patch", 0);
}

/* Fills what the step holds itself: step->inner_bytes in all. */
static void hold_step(struct peak *peak)
{
    const struct schedule_step *step = peak->step;
    int32_t last = peak->graph->ops[step->ops[step->n_ops - 1]].output;
    bool whole = step->mode == SCHEDULE_CHANNELS && !step->rows;
    if (step->mode == SCHEDULE_FULL)
        hold(peak, last, step->inner_bytes, "output", 0);
    else if (step->mode == SCHEDULE_PATCHES)
        hold_patch(peak);
    else if (whole)
        hold_channels(peak);
    else
        hold_rings(peak);
    if (peak->bytes > step->inner_bytes || (whole && peak->bytes != step->inner_bytes)) {
        peak->n = 0;
        peak->bytes = 0;
    }
    if (peak->bytes < step->inner_bytes)
        hold(peak, last, step->inner_bytes - peak->bytes, "step", 0);
}

static json_t *tensor_json(const struct peak *peak, const struct holding *one)
{
    const struct tensor *tensor = &peak->graph->tensors[one->tensor];
    json_t *rows =
        one->rows ? json_pack("[i,i]", (int)one->rows, (int)seen(peak, one->tensor).h) : json_null();
    const char *along = !one->rows ? NULL : peak->step->tall ? "w" : "h";
    return json_pack("{s:s?, s:I, s:s, s:s?, s:o}", "name", tensor->name, "bytes", (json_int_t)one->bytes,
                     "role", one->role, "along", along, "rows", rows);
}

json_t *bottleneck_json(const struct graph *graph, const struct schedule *schedule, int32_t accumulator)
{
    if (schedule->peak_step < 0)
        return json_null();
    const struct schedule_step *step = &schedule->steps[schedule->peak_step];
    struct peak peak = {.graph = graph, .step = step, .accumulator = accumulator};
    json_t *tensors = json_array();
    for (int32_t i = 0; i < step->n_live; i++) {
        struct holding live = {step->live[i], 0, elements(&peak, step->live[i]), "live"};
        live.role = reads(&peak, live.tensor) ? "input" : "live";
        json_array_append_new(tensors, tensor_json(&peak, &live));
    }
    peak.held = calloc((size_t)step->n_ops + (size_t)step->n_rows + 2, sizeof *peak.held);
    if (peak.held)
        hold_step(&peak);
    for (int32_t i = 0; i < peak.n; i++)
        if (peak.held[i].bytes > 0)
            json_array_append_new(tensors, tensor_json(&peak, &peak.held[i]));
    json_t *json = peak.held ? json_pack("{s:s, s:I, s:O}", "op", graph->ops[step->ops[step->n_ops - 1]].name,
                                         "bytes", (json_int_t)step->peak_bytes, "tensors", tensors)
                             : NULL;
    json_decref(tensors);
    free(peak.held);
    return json;
}
