/*
 * Steps tile by tile: every tile by itself, and what is made within one by rows, tick by tick.
 */
#include "tests/support/judge_internal.h"

#include <stdlib.h>
#include <string.h>

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
            judge_fault(j, "a tile needs %dx%d of %s, stated are %dx%d", boxes[k].h1 - boxes[k].h0,
                        boxes[k].w1 - boxes[k].w0, op->name, step->patch_h[k], step->patch_w[k]);
        if (!box_empty(boxes[k]))
            macs += row_of(op)->macs(j->graph, op, boxes[k]);
        for (int32_t i = 0; i < op->n_inputs && !box_empty(boxes[k]); i++) {
            struct box need = row_of(op)->need(j->graph, op, i, boxes[k]);
            int32_t from = judge_maker(j, op->inputs[i]);
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
    int64_t sum = j->within[out] ? judge_new_size(j, out) : size_of(j, out) / height(j, out) * made;
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
            int32_t from = judge_maker(j, op_at(j, k)->inputs[i]);
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
            judge_fault(j, "in a patch %s row %d reads rows %d to %d, made are %d to %d", op->name, y,
                        need.h0, need.h1, r->from[from], r->made[from]);
        if (held < r->made[from] - need.h0)
            judge_fault(j, "in a patch %s row %d reads row %d, held are the last %d of %d", op->name, y,
                        need.h0, held, r->made[from]);
        if (plan->passing && i > plan->last_op)
            judge_fault(j, "in a patch %s reads a row that has passed at tick %d", op->name, (int)tick);
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
            judge_fault(j, "in a patch %s made rows up to %d of %d", op_at(j, r->place[i])->name, r->made[i],
                        end);
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
        judge_forms(&forms);
    for (int32_t i = 0; i < inner->n_ops && j->legal; i++) {
        int32_t t = j->graph->ops[inner->ops[i]].output;
        r.place[i] = judge_maker(j, t);
        for (int32_t v = 0; v < inner->n_rows; v++)
            r.rows[i] = inner->rows[v].tensor == t ? &inner->rows[v] : r.rows[i];
        if (!r.rows[i] || r.rows[i]->per < 1 || r.rows[i]->phase < 0 || r.rows[i]->sums ||
            r.rows[i]->arrives || r.rows[i]->kept != kept[t]) {
            judge_fault(j, "operator %d in a patch has no right plan", inner->ops[i]);
            return 0;
        }
        if (!(row_of(&j->graph->ops[inner->ops[i]])->axes(j->graph, &j->graph->ops[inner->ops[i]]) &
              OP_AXIS_H))
            judge_fault(j, "operator %d cannot run by rows", inner->ops[i]);
        row[i] = (int64_t)j->step->patch_w[r.place[i]] * j->graph->tensors[t].shape.c;
        row[i] = channels ? row[i] / inner->iterations * inner->k : row[i];
        fixed += channels && judge_loop_sums(&forms, i) ? size[t] * j->options->accumulator / 8
                 : judge_patch_end(j, t)                ? 0
                 : kept[t]                              ? size[t]
                 : r.rows[i]->passing                   ? 0
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
            int32_t k = judge_maker(j, j->graph->ops[inner->ops[i]].output);
            if (k < 0 || now[k])
                judge_fault(j, "a patch runs operator %d amiss", inner->ops[i]);
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
                        : inner->mode == SCHEDULE_CHANNELS ? judge_loop_bytes(j, inner, size, kept)
                                                           : 0;
        if (inner->mode == SCHEDULE_PATCHES || (inner->mode == SCHEDULE_ROWS && !inner->rows))
            judge_fault(j, "a patch has no steps of mode %d", (int)inner->mode);
        if (inner->mode == SCHEDULE_FULL) {
            const struct op *op = &j->graph->ops[inner->ops[0]];
            bytes = judge_patch_end(j, op->output) ? 0 : size[op->output];
            for (int32_t i = 0; i < op->n_inputs; i++)
                if (row_of(op)->inplace && size[op->inputs[i]] == bytes &&
                    judge_maker(j, op->inputs[i]) >= 0 && !kept[op->inputs[i]])
                    bytes = 0;
        }
        if (before + bytes > inner->peak_bytes)
            judge_fault(j, "a patch's step %d takes %lld, stated are %lld", s, (long long)(before + bytes),
                        (long long)inner->peak_bytes);
        most = before + bytes > most ? before + bytes : most;
        memcpy(made, now, sizeof made);
        free(kept);
    }
    for (int32_t k = 0; k < step->n_ops; k++)
        if (!made[k])
            judge_fault(j, "a patch does not run operator %d", step->ops[k]);
    free(last);
    return most;
}

int64_t judge_patches(struct judge *j)
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
        if (k < step->n_ops - 1 && judge_is_needed(j, j->after, t))
            judge_fault(j, "%s is needed after the patches", op_at(j, k)->name);
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
    judge_peak(j, outside + patch_inside(j, size));
    free(first);
    free(size);
    return macs;
}
