/* How a step runs, in numbers for people. Nothing is decided here: all is read off the step. */
#include "server/schedule/form.h"

#include "server/model/optable.h"

static const char *const mode_names[] = {"full", "channels", "rows", "patches"};

static void count_rows(struct schedule_form *form, const struct schedule_step *step)
{
    for (int32_t i = 0; i < step->n_rows; i++) {
        const struct row_plan *plan = &step->rows[i];
        if (plan->ring <= 0 || plan->sums || (plan->kept && !plan->arrives))
            continue;
        form->ring_lo = form->ring_lo && form->ring_lo < plan->ring ? form->ring_lo : plan->ring;
        form->ring_hi = form->ring_hi > plan->ring ? form->ring_hi : plan->ring;
    }
}

static int32_t parts(int32_t whole, int32_t part)
{
    return part > 0 ? (whole + part - 1) / part : 0;
}

struct schedule_form schedule_form(const struct graph *graph, const struct schedule *schedule,
                                   const struct schedule_step *step, const struct schedule_step *outer)
{
    const struct op *first = &graph->ops[step->ops[0]], *last = &graph->ops[step->ops[step->n_ops - 1]];
    struct shape in = graph->tensors[first->inputs[0]].shape, out = graph->tensors[last->output].shape;
    int32_t tile_h = step->tall ? step->tile_w : step->tile_h,
            tile_w = step->tall ? step->tile_h : step->tile_w;
    struct schedule_form form = {.mode = step->mode,
                                 .tile_h = tile_h,
                                 .tile_w = tile_w,
                                 .patches_h = parts(out.h, tile_h),
                                 .patches_w = parts(out.w, tile_w),
                                 .again = step->again,
                                 .peak_bytes = step->peak_bytes,
                                 .extra_macs = step->extra_macs};
    if (step->mode == SCHEDULE_FULL)
        form.free = step->n_ops == 1 &&
                    (schedule->joined[step->ops[0]] || op_row(first->kind)->kernel == OP_KERNEL_FREE);
    if (step->mode == SCHEDULE_CHANNELS) {
        form.k = step->k;
        form.turns = parts(step->iterations, step->k);
        form.rings = step->rows != NULL;
    }
    if (step->rows && !outer) {
        form.rows_in = step->tall ? in.w : in.h;
        form.rows_out = step->tall ? out.w : out.h;
    }
    form.columns = step->rows && step->tall;
    if (step->rows)
        count_rows(&form, step);
    return form;
}

static json_t *pair(int32_t a, int32_t b)
{
    return a ? json_pack("[i,i]", (int)a, (int)b) : json_null();
}

static json_t *number(int32_t n)
{
    return n ? json_integer(n) : json_null();
}

json_t *schedule_form_json(const struct graph *graph, const struct schedule_form *form, const int32_t *ops,
                           int32_t n_ops, json_t *inner)
{
    json_t *names = json_array(), *layers = json_array();
    for (int32_t i = 0; i < n_ops; i++) {
        json_array_append_new(names, json_string(graph->ops[ops[i]].name));
        json_array_append_new(layers, json_integer(ops[i]));
    }
    bool by_rows = form->mode == SCHEDULE_ROWS || form->rings;
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:b, s:i, s:I, s:I, s:o}", "mode",
        mode_names[form->mode], "ops", names, "layers", layers, "k", number(form->k), "turns",
        number(form->turns), "along", by_rows ? json_string(form->columns ? "w" : "h") : json_null(), "rings",
        form->rings, "rows", pair(form->rows_in, form->rows_out), "ring_rows",
        pair(form->ring_lo, form->ring_hi), "tile", pair(form->tile_h, form->tile_w), "patches",
        pair(form->patches_h, form->patches_w), "free", form->free, "again", (int)form->again, "extra_macs",
        (json_int_t)form->extra_macs, "peak_bytes", (json_int_t)form->peak_bytes, "inner", inner);
}
