/*
 * A segment by rows as code: one LOOP over ticks in which each operator makes a row when it is that row's
 * turn (rows_plan says when). Tensors inside hold rings; what stays is written where it stays; global sums
 * start before the loop and finish after it.
 */
#include "server/schedule/lower_internal.h"

struct rows {
    struct lower *l;
    const int32_t *ops;
    int32_t n;
    const struct row_plan *plan;
    int32_t n_plan;
    int32_t sums[NET_LOOP_OPS_MAX]; /* views */
    int64_t first, ticks;
};

static const struct net_op *op_at(const struct rows *rows, int32_t k)
{
    return &rows->l->net->ops[rows->ops[k]];
}

static const struct row_plan *plan_of(const struct rows *rows, int32_t tensor)
{
    for (const struct row_plan *p = rows->plan; p < rows->plan + rows->n_plan; p++)
        if (p->tensor == tensor)
            return p;
    return NULL;
}

static int32_t height_of(const struct rows *rows, int32_t tensor)
{
    return lower_rows(rows->l, tensor);
}

/* Rows of the input that a global pool reads, one a tick where the segment does not make them. */
static int64_t pool_end(const struct rows *rows, const struct net_op *op, const struct row_plan *sums)
{
    return plan_of(rows, op->in[0]) ? 0 : sums->phase + height_of(rows, op->in[0]) - 1;
}

static void set_ticks(struct rows *rows)
{
    int64_t last = 0;
    rows->first = INT64_MAX;
    for (const struct row_plan *p = rows->plan; p < rows->plan + rows->n_plan; p++) {
        int64_t end = p->phase + p->per * (height_of(rows, p->tensor) - 1);
        if (p->sums)
            continue;
        rows->first = p->phase < rows->first ? p->phase : rows->first;
        last = end > last ? end : last;
    }
    for (int32_t k = 0; k < rows->n; k++) {
        const struct row_plan *p = plan_of(rows, op_at(rows, k)->out);
        if (!op_at(rows, k)->row_sums || plan_of(rows, op_at(rows, k)->in[0]))
            continue;
        int64_t end = pool_end(rows, op_at(rows, k), p);
        rows->first = p->phase < rows->first ? p->phase : rows->first;
        last = end > last ? end : last;
    }
    rows->ticks = last - rows->first + 1;
}

int32_t lower_rows(const struct lower *l, int32_t tensor)
{
    return l->tiles && l->area[tensor].tile ? l->area[tensor].rows : l->graph->tensors[tensor].shape.h;
}

int32_t lower_turn(struct lower *l, int64_t per, int64_t phase, int32_t tensor)
{
    int64_t b1 = per - phase;
    if (per > UINT16_MAX || b1 < INT32_MIN) {
        l->refused = "rows come too seldom";
        return 0;
    }
    if (l->tiles && l->area[tensor].tile)
        return lower_inside(l, l->area[tensor].h, 1, (int32_t)b1 - 1, (int32_t)b1, (int32_t)per);
    return lower_affine(l, 1, (int32_t)b1 - 1, (int32_t)b1, (int32_t)per, 0,
                        l->graph->tensors[tensor].shape.h);
}

/* Row r at tick phase + per * r. */
static int32_t turn(const struct rows *rows, int64_t per, int64_t phase, int32_t tensor)
{
    return lower_turn(rows->l, per, phase - rows->first, tensor);
}

static int32_t turn_of(const struct rows *rows, int32_t tensor)
{
    const struct row_plan *p = plan_of(rows, tensor);
    return turn(rows, p->per, p->phase, tensor);
}

/* ---- memory ---- */

static void place_ring(struct rows *rows, const struct row_plan *p)
{
    struct lower *l = rows->l;
    struct shape shape = l->graph->tensors[p->tensor].shape;
    struct lower_area area = lower_area_of(l, p->tensor);
    struct lower_box box = {p->ring, area.cap_w, shape.c, LOWER_NONE, area.w, LOWER_NONE};
    int32_t buffer = lower_buffer(l, p->tensor, (int64_t)p->ring * area.cap_w * shape.c, true, false);
    l->now[p->tensor] = lower_view(l, buffer, p->tensor, shape, 1, box);
}

/* The only reader's output: of the same shape, and in its place the row lies. */
static int32_t reader_out(const struct rows *rows, int32_t tensor)
{
    for (int32_t k = 0; k < rows->n; k++)
        for (int32_t i = 0; i < op_at(rows, k)->n_in; i++)
            if (op_at(rows, k)->in[i] == tensor)
                return op_at(rows, k)->out;
    return LOWER_NONE;
}

static int32_t origin_of(uint16_t range)
{
    return range == FRAGMENT_NONE ? LOWER_NONE : range;
}

int32_t lower_same_place(struct lower *l, int32_t tensor, int32_t over)
{
    int32_t at = lower_view_of(l, over);
    if (l->failed || l->refused)
        return LOWER_NONE;
    struct lower_view it = l->out->views[at];
    const struct fragment_view *view = &it.view;
    return lower_view(l, it.buffer, tensor, l->graph->tensors[tensor].shape, 1,
                      (struct lower_box){view->rows, view->w_cap, view->c_cap, origin_of(view->h0),
                                         origin_of(view->w0), origin_of(view->c0)});
}

static void place_overwritten(struct rows *rows, int32_t tensor)
{
    int32_t out = reader_out(rows, tensor);
    if (out >= 0)
        rows->l->now[tensor] = lower_same_place(rows->l, tensor, out);
}

static bool lies_in_reader(const struct row_plan *p)
{
    return !p->kept && !p->sums && p->ring == 0;
}

/* What outlives a tick. */
static void place_before(struct rows *rows)
{
    struct lower *l = rows->l;
    for (const struct row_plan *p = rows->plan; p < rows->plan + rows->n_plan; p++) {
        if (p->kept && !p->sums)
            l->now[p->tensor] = lower_output(l, p->tensor, LOWER_NONE);
        else if (!p->sums && p->ring && !p->passing)
            place_ring(rows, p);
    }
}

/* Rows that live within a tick, and then those that lie in their readers' places. */
static void place_within(struct rows *rows)
{
    for (int32_t i = 0; i < rows->n_plan; i++)
        if (rows->plan[i].passing)
            place_ring(rows, &rows->plan[i]);
    for (int32_t i = rows->n_plan; i-- > 0;) /* readers come later */
        if (lies_in_reader(&rows->plan[i]))
            place_overwritten(rows, rows->plan[i].tensor);
}

static void start_sums(struct rows *rows, int32_t k)
{
    struct lower *l = rows->l;
    const struct net_op *op = op_at(rows, k);
    struct shape shape = l->graph->tensors[op->out].shape;
    int32_t sums =
        lower_buffer(l, l->graph->n_tensors + op->graph_op, 4 * shape_elements(shape), false, false);
    lower_tie(l, lower_new_home(l, op->out, LOWER_NONE), sums, 0);
    rows->sums[k] = lower_whole_sums(l, sums, op->graph_op);
    lower_zero(l, op->graph_op, rows->sums[k], lower_const(l, 0, shape.h), lower_const(l, 0, shape.w),
               lower_const(l, 0, shape.c));
}

static void end_sums(struct rows *rows, int32_t k)
{
    struct lower *l = rows->l;
    const struct net_op *op = op_at(rows, k);
    struct shape shape = l->graph->tensors[op->out].shape;
    lower_finish(l, op->graph_op, rows->sums[k], lower_view_of(l, op->out), lower_const(l, 0, shape.h),
                 lower_const(l, 0, shape.w), lower_const(l, 0, shape.c));
}

/* ---- the loop ---- */

static void receive(struct rows *rows, const struct row_plan *p)
{
    struct lower *l = rows->l;
    struct shape shape = l->graph->tensors[p->tensor].shape;
    int32_t h = turn_of(rows, p->tensor), w = lower_const(l, 0, shape.w), c = lower_const(l, 0, shape.c);
    struct lower_code *code = lower_code(l, FRAGMENT_RECV, LOWER_NONE);
    code->out = l->now[p->tensor];
    code->h = h;
    code->w = w;
    code->c = c;
    code->tensor = p->tensor;
}

static void add_rows(struct rows *rows, int32_t k)
{
    struct lower *l = rows->l;
    const struct net_op *op = op_at(rows, k);
    struct shape shape = l->graph->tensors[op->out].shape;
    int32_t from = l->graph->ops[op->graph_op].inputs[0], view = lower_view_of(l, from);
    int32_t rows_read =
        plan_of(rows, from) ? turn_of(rows, from) : turn(rows, 1, plan_of(rows, op->out)->phase, from);
    int32_t h = lower_const(l, 0, shape.h), w = lower_const(l, 0, shape.w), c = lower_const(l, 0, shape.c);
    struct lower_code *code = lower_code(l, FRAGMENT_SUM, op->graph_op);
    code->in[0] = view;
    code->out = rows->sums[k];
    code->h = h;
    code->w = w;
    code->c = c;
    code->k = rows_read;
}

static void run_op(struct rows *rows, int32_t k)
{
    struct lower *l = rows->l;
    const struct net_op *op = op_at(rows, k);
    struct shape shape = l->graph->tensors[op->out].shape;
    if (op->row_sums) {
        add_rows(rows, k);
        return;
    }
    struct lower_area area = lower_area_of(l, op->out);
    struct lower_task task = {.op = op->graph_op,
                              .out = l->now[op->out],
                              .h = turn_of(rows, op->out),
                              .w = area.w,
                              .c = lower_const(l, 0, shape.c),
                              .k = LOWER_NONE,
                              .sums = LOWER_NONE,
                              .cap_h = 1,
                              .cap_w = area.cap_w,
                              .cap_c = shape.c};
    lower_task(l, &task);
}

void lower_step_rows(struct lower *l, const int32_t *ops, int32_t n, const struct row_plan *plan,
                     int32_t n_plan)
{
    struct rows rows = {.l = l, .ops = ops, .n = n, .plan = plan, .n_plan = n_plan};
    int32_t from = l->out->n_code;
    set_ticks(&rows);
    place_before(&rows);
    for (int32_t k = 0; k < n; k++)
        if (op_at(&rows, k)->row_sums)
            start_sums(&rows, k);
    lower_loop(l, rows.ticks);
    place_within(&rows);
    for (const struct row_plan *p = rows.plan; p->tensor >= 0; p++)
        if (p->arrives)
            receive(&rows, p);
    for (int32_t k = 0; k < n && !l->failed && !l->refused; k++)
        run_op(&rows, k);
    lower_end(l);
    for (int32_t k = 0; k < n && !l->failed && !l->refused; k++)
        if (op_at(&rows, k)->row_sums)
            end_sums(&rows, k);
    if (l->tiles)
        return;
    for (const struct row_plan *p = rows.plan; p->tensor >= 0; p++)
        l->now[p->tensor] = LOWER_NONE;
    lower_overlap(l, from);
}
