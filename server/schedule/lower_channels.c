/*
 * A loop over channels as code: sums start before it and finish in place after it, each operator makes its
 * channels of the iteration, parts live within one iteration, and what is needed afterwards is written where
 * it stays. Which tensors overwrite which follows the rules by which the search counted.
 *
 * An iteration that goes row by row is a loop of ticks inside: parts are rings, whose views begin at the
 * iteration's channels, and nothing overwrites a whole tensor.
 */
#include "server/schedule/lower_internal.h"

struct loop {
    struct lower *l;
    int32_t ops[NET_LOOP_OPS_MAX], n;
    int32_t iterations, k;
    bool sum[NET_LOOP_OPS_MAX], kept[NET_LOOP_OPS_MAX];
    int32_t host[NET_LOOP_OPS_MAX]; /* the whole tensor in whose memory the output lies; -1 */
    int32_t over[NET_LOOP_OPS_MAX]; /* place in the loop of the partial input that it replaces; -1 */
    int32_t sums[NET_LOOP_OPS_MAX]; /* view; -1 */
    int32_t buffer[NET_LOOP_OPS_MAX];
    const struct row_plan *plan; /* NULL: not row by row */
    int32_t n_plan;
    int32_t block[NET_LOOP_OPS_MAX]; /* row by row: the iteration's channels, of sums those of the input */
};

static const struct net_op *op_at(const struct loop *loop, int32_t k)
{
    return &loop->l->net->ops[loop->ops[k]];
}

/* Place of the operator that makes the tensor in this loop; -1: there before. */
static int32_t made_by(const struct loop *loop, int32_t tensor)
{
    for (int32_t k = 0; k < loop->n; k++)
        if (op_at(loop, k)->out == tensor)
            return k;
    return LOWER_NONE;
}

static int32_t gcd(int32_t a, int32_t b)
{
    while (b) {
        int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void set_forms(struct loop *loop)
{
    const struct net *net = loop->l->net;
    for (int32_t k = 0; k < loop->n; k++) {
        const struct net_op *op = op_at(loop, k);
        loop->sum[k] = op->class == OP_CLASS_AGGREGATING && made_by(loop, op->in[0]) >= 0;
        loop->kept[k] = net_is_live(net, loop->l->after, op->out, false);
        for (int32_t i = 0; i < op->n_in && op->class != OP_CLASS_AGGREGATING; i++)
            if (op->sliced[i])
                loop->iterations = gcd(net->tensors[op->in[i]].shape.c, loop->iterations);
        if (!loop->sum[k])
            loop->iterations = gcd(net->tensors[op->out].shape.c, loop->iterations);
    }
}

static bool last_reader(const struct loop *loop, int32_t at, int32_t tensor)
{
    for (int32_t k = at + 1; k < loop->n; k++)
        for (int32_t i = 0; i < op_at(loop, k)->n_in; i++)
            if (op_at(loop, k)->in[i] == tensor)
                return false;
    return true;
}

static bool may_overwrite_whole(const struct loop *loop, int32_t tensor)
{
    for (int32_t k = 0; k < loop->n; k++) {
        const struct net_op *op = op_at(loop, k);
        for (int32_t i = 0; i < op->n_in; i++)
            if (op->in[i] == tensor && (op->class != OP_CLASS_CHANNELWISE || !op->sliced[i]))
                return false;
    }
    return net_dies(loop->l->net, loop->l->after, tensor);
}

static bool same_place(const struct lower *l, int32_t in, int32_t out)
{
    if (!shape_equal(l->net->tensors[in].shape, l->net->tensors[out].shape))
        return false;
    return !l->tiles || (l->area[in].tile && l->area[out].tile && l->area[in].h == l->area[out].h &&
                         l->area[in].w == l->area[out].w && l->area[in].cap_h == l->area[out].cap_h &&
                         l->area[in].cap_w == l->area[out].cap_w);
}

static void find_place(struct loop *loop, int32_t k)
{
    const struct net_op *op = op_at(loop, k);
    loop->host[k] = loop->over[k] = LOWER_NONE;
    for (int32_t i = 0; i < op->n_in && op->inplace && !loop->sum[k] && loop->host[k] < 0; i++) {
        int32_t from = made_by(loop, op->in[i]);
        if (!op->sliced[i] || !same_place(loop->l, op->in[i], op->out) || !last_reader(loop, k, op->in[i]))
            continue;
        if (from < 0 && may_overwrite_whole(loop, op->in[i])) {
            loop->host[k] = op->in[i];
            loop->over[k] = LOWER_NONE;
        } else if (from >= 0 && !loop->kept[from] && (loop->host[from] >= 0 || !loop->kept[k])) {
            loop->host[k] = loop->host[from];
            loop->over[k] = from;
        }
    }
}

/* ---- before the loop ---- */

static struct lower_box box_of(struct lower *l, int32_t tensor, int32_t channels, int32_t c)
{
    struct lower_area area = lower_area_of(l, tensor);
    return (struct lower_box){
        area.cap_h, area.cap_w, channels, area.tile ? area.h : LOWER_NONE, area.tile ? area.w : LOWER_NONE,
        c};
}

static int64_t bytes_of(struct lower_box box)
{
    return (int64_t)box.cap_h * box.cap_w * box.cap_c;
}

/* Memory of an output that stays, and its view. */
static void keep(struct loop *loop, int32_t k)
{
    struct lower *l = loop->l;
    int32_t tensor = op_at(loop, k)->out;
    struct lower_box box = box_of(l, tensor, l->graph->tensors[tensor].shape.c, LOWER_NONE);
    if (l->now[tensor] >= 0) { /* a patch's output */
        loop->buffer[k] = LOWER_NONE;
        return;
    }
    if (l->net->tensors[tensor].joined) {
        loop->buffer[k] = LOWER_NONE;
        l->now[tensor] = lower_whole(l, lower_new_home(l, tensor, LOWER_NONE), tensor, 1);
        return;
    }
    loop->buffer[k] = lower_buffer(l, tensor, bytes_of(box), l->tiles, false);
    l->home[tensor] = loop->buffer[k];
    if (loop->host[k] >= 0)
        lower_tie(l, loop->buffer[k], l->home[l->net->tensors[loop->host[k]].storage], 0);
    l->now[tensor] = lower_view(l, loop->buffer[k], tensor, l->graph->tensors[tensor].shape, 1, box);
}

static void start_sums(struct loop *loop, int32_t k)
{
    struct lower *l = loop->l;
    const struct net_op *op = op_at(loop, k);
    struct shape shape = l->graph->tensors[op->out].shape;
    struct lower_area area = lower_area_of(l, op->out);
    struct lower_box box = box_of(l, op->out, shape.c, LOWER_NONE);
    int32_t number = l->graph->n_tensors + op->graph_op;
    int32_t buffer = lower_buffer(l, number, bytes_of(box) * l->options->accumulator / 8, l->tiles, false);
    if (loop->buffer[k] >= 0)
        lower_tie(l, loop->buffer[k], buffer, 0);
    loop->sums[k] = lower_view(l, buffer, number, shape, 4, box);
    lower_zero(l, op->graph_op, loop->sums[k], area.h, area.w, lower_const(l, 0, shape.c));
}

/* ---- within it ---- */

static int32_t channels_of(const struct loop *loop, int32_t tensor)
{
    return loop->k * (loop->l->graph->tensors[tensor].shape.c / loop->iterations);
}

static int32_t range_of(struct loop *loop, int32_t tensor)
{
    int32_t step = channels_of(loop, tensor), all = loop->l->graph->tensors[tensor].shape.c;
    return lower_affine(loop->l, step, 0, step, 1, 0, all);
}

/* The view of a part. */
static void place_part(struct loop *loop, int32_t k)
{
    struct lower *l = loop->l;
    int32_t tensor = op_at(loop, k)->out, all = l->graph->tensors[tensor].shape.c;
    struct lower_box box = box_of(l, tensor, all, LOWER_NONE);
    if (loop->host[k] >= 0) {
        loop->buffer[k] = l->home[l->net->tensors[loop->host[k]].storage];
    } else {
        int32_t most = channels_of(loop, tensor);
        box.cap_c = most < all ? most : all;
        box.c0 = range_of(loop, tensor);
        loop->buffer[k] = loop->over[k] >= 0 ? loop->buffer[loop->over[k]]
                                             : lower_buffer(l, tensor, bytes_of(box), true, false);
    }
    l->now[tensor] = lower_view(l, loop->buffer[k], tensor, l->graph->tensors[tensor].shape, 1, box);
}

static void run_op(struct loop *loop, int32_t k)
{
    struct lower *l = loop->l;
    const struct net_op *op = op_at(loop, k);
    struct lower_area area = lower_area_of(l, op->out);
    int32_t all = l->graph->tensors[op->out].shape.c, most = channels_of(loop, op->out);
    if (!loop->sum[k] && !loop->kept[k])
        place_part(loop, k);
    struct lower_task task = {.op = op->graph_op,
                              .out = l->now[op->out],
                              .h = area.h,
                              .w = area.w,
                              .k = LOWER_NONE,
                              .sums = LOWER_NONE,
                              .cap_h = area.cap_h,
                              .cap_w = area.cap_w,
                              .cap_c = most < all ? most : all};
    if (loop->sum[k]) {
        task.c = lower_const(l, 0, all);
        task.k = range_of(loop, op->in[0]);
        task.sums = loop->sums[k];
    } else {
        task.c = range_of(loop, op->out);
    }
    lower_task(l, &task);
}

static void end_sums(struct loop *loop, int32_t k)
{
    struct lower *l = loop->l;
    const struct net_op *op = op_at(loop, k);
    struct lower_area area = lower_area_of(l, op->out);
    lower_finish(l, op->graph_op, loop->sums[k], l->now[op->out], area.h, area.w,
                 lower_const(l, 0, l->graph->tensors[op->out].shape.c));
}

/* ---- row by row ---- */

static const struct row_plan *plan_of(const struct loop *loop, int32_t k)
{
    for (int32_t i = 0; i < loop->n_plan; i++)
        if (loop->plan[i].tensor == op_at(loop, k)->out)
            return &loop->plan[i];
    return NULL;
}

static int32_t height_of(const struct loop *loop, int32_t k)
{
    return lower_rows(loop->l, op_at(loop, k)->out);
}

static void place_ring(struct loop *loop, int32_t k)
{
    struct lower *l = loop->l;
    int32_t tensor = op_at(loop, k)->out;
    int32_t most = channels_of(loop, tensor), all = l->graph->tensors[tensor].shape.c;
    struct lower_box box = box_of(l, tensor, most < all ? most : all, loop->block[k]);
    box.cap_h = plan_of(loop, k)->ring;
    box.h0 = LOWER_NONE;
    int32_t buffer = lower_buffer(l, tensor, bytes_of(box), true, false);
    l->now[tensor] = lower_view(l, buffer, tensor, l->graph->tensors[tensor].shape, 1, box);
}

/* Its row lies where its only reader's row comes to lie. */
static void place_in_reader(struct loop *loop, int32_t k)
{
    int32_t tensor = op_at(loop, k)->out;
    for (int32_t j = k + 1; j < loop->n; j++)
        for (int32_t i = 0; i < op_at(loop, j)->n_in; i++)
            if (op_at(loop, j)->in[i] == tensor)
                loop->l->now[tensor] = lower_same_place(loop->l, tensor, op_at(loop, j)->out);
}

static void run_row(struct loop *loop, int32_t k, int64_t first)
{
    struct lower *l = loop->l;
    const struct net_op *op = op_at(loop, k);
    const struct row_plan *plan = plan_of(loop, k);
    struct lower_area area = lower_area_of(l, op->out);
    int32_t all = l->graph->tensors[op->out].shape.c, most = channels_of(loop, op->out);
    struct lower_task task = {.op = op->graph_op,
                              .out = l->now[op->out],
                              .h = lower_turn(l, plan->per, plan->phase - first, op->out),
                              .w = area.w,
                              .c = loop->sum[k] ? lower_const(l, 0, all) : loop->block[k],
                              .k = loop->sum[k] ? loop->block[k] : LOWER_NONE,
                              .sums = loop->sum[k] ? loop->sums[k] : LOWER_NONE,
                              .cap_h = 1,
                              .cap_w = area.cap_w,
                              .cap_c = most < all ? most : all};
    lower_task(l, &task);
}

/* One iteration as a loop of ticks. */
static void run_ticks(struct loop *loop)
{
    struct lower *l = loop->l;
    int64_t first = INT64_MAX, last = 0;
    for (int32_t k = 0; k < loop->n; k++) {
        const struct row_plan *plan = plan_of(loop, k);
        int64_t end = plan->phase + plan->per * (height_of(loop, k) - 1);
        first = plan->phase < first ? plan->phase : first;
        last = end > last ? end : last;
        loop->block[k] = range_of(loop, loop->sum[k] ? op_at(loop, k)->in[0] : op_at(loop, k)->out);
        if (!plan->kept && plan->ring > 0 && !plan->passing)
            place_ring(loop, k);
    }
    lower_loop(l, last - first + 1);
    for (int32_t k = 0; k < loop->n; k++)
        if (plan_of(loop, k)->passing)
            place_ring(loop, k);
    for (int32_t k = loop->n; k-- > 0;) /* readers come later */
        if (!plan_of(loop, k)->kept && plan_of(loop, k)->ring == 0)
            place_in_reader(loop, k);
    for (int32_t k = 0; k < loop->n && !l->refused && !l->failed; k++)
        run_row(loop, k, first);
    lower_end(l);
}

void lower_step_channels(struct lower *l, const int32_t *ops, int32_t n, int32_t k,
                         const struct row_plan *plan, int32_t n_plan)
{
    struct loop loop = {.l = l, .n = n, .k = k, .plan = plan, .n_plan = n_plan};
    for (int32_t i = 0; i < n; i++) {
        loop.ops[i] = ops[i];
        loop.host[i] = loop.over[i] = LOWER_NONE;
    }
    set_forms(&loop);
    for (int32_t i = 0; i < n && !plan; i++)
        find_place(&loop, i);
    for (int32_t i = 0; i < n; i++)
        if (loop.kept[i])
            keep(&loop, i);
    for (int32_t i = 0; i < n; i++)
        if (loop.sum[i])
            start_sums(&loop, i);
    lower_loop(l, (loop.iterations + k - 1) / k);
    if (plan && !l->refused && !l->failed)
        run_ticks(&loop);
    for (int32_t i = 0; i < n && !plan && !l->refused && !l->failed; i++)
        run_op(&loop, i);
    lower_end(l);
    for (int32_t i = 0; i < n && !l->refused && !l->failed; i++)
        if (loop.sum[i])
            end_sums(&loop, i);
    for (int32_t i = 0; i < n && !l->tiles; i++)
        l->now[op_at(&loop, i)->out] = LOWER_NONE;
}
