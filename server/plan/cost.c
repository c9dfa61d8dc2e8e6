/*
 * Predicted cost of a plan by the definitions of facts/cost-model: weights' bytes and where they are kept, an
 * upper bound for each fragment's size, and times. Every party has a clock; a rank's hop up ends when its
 * slowest sender is done, its hop down begins then; the coordinator's arithmetic is free and its own link
 * bounds every hop.
 */
#include "server/plan/internal.h"

#include "shared/fragment/fragment.h"

enum { TABLE_BYTES = 256, SCALES_BYTES = 12 }; /* an output channel: multiplier, shift, bias */

static int64_t align_up(int64_t x, int64_t align)
{
    return (x + align - 1) / align * align;
}

int64_t cost_slice_bytes(int64_t values, int32_t channels)
{
    return align_up(align_up(values, 4) + SCALES_BYTES * (int64_t)channels, FRAGMENT_ALIGN);
}

static int32_t in_channels(const struct graph *graph, const struct op *op)
{
    return graph->tensors[op->inputs[0]].shape.c;
}

/* The slices of output channels [c0, c1): one a group. */
static int32_t op_slices(const struct graph *graph, int32_t index, int32_t c0, int32_t c1,
                         struct plan_slice *out, int32_t n, int32_t max)
{
    const struct op *op = &graph->ops[index];
    bool depthwise = op_row(op->kind)->kernel == OP_KERNEL_DW;
    int32_t groups = depthwise ? 1 : op->groups;
    int32_t per_group = graph->tensors[op->output].shape.c / groups, k = in_channels(graph, op) / groups;
    for (int32_t g = c0 / per_group; g * per_group < c1; g++) {
        struct plan_slice slice = {.op = index, .c0 = c0, .c1 = c1};
        if (!depthwise) {
            slice.c0 = g * per_group > c0 ? g * per_group : c0;
            slice.c1 = (g + 1) * per_group < c1 ? (g + 1) * per_group : c1;
            slice.k0 = g * k;
            slice.k1 = (g + 1) * k;
        }
        slice.values = (int64_t)op->kernel_h * op->kernel_w * (depthwise ? 1 : k) * (slice.c1 - slice.c0);
        slice.total_bytes = cost_slice_bytes(slice.values, slice.c1 - slice.c0);
        if (n < max)
            out[n] = slice;
        n++;
    }
    return n;
}

int32_t plan_slices(const struct plan *plan, int32_t party, struct plan_slice *out, int32_t max)
{
    const struct plan_party *item = &plan->parties[party - 1];
    int32_t n = 0;
    for (int32_t s = 0; s < item->n_steps;) {
        const struct plan_step *step = &item->steps[s];
        if (step->kind != PLAN_STEP_TASK || !op_row(plan->graph->ops[step->op].kind)->needs_weights) {
            s++;
            continue;
        }
        int32_t c0 = step->box.c0, c1 = step->box.c1, op = step->op;
        for (; s < item->n_steps && item->steps[s].op == op && item->steps[s].kind == PLAN_STEP_TASK; s++) {
            c0 = item->steps[s].box.c0 < c0 ? item->steps[s].box.c0 : c0;
            c1 = item->steps[s].box.c1 > c1 ? item->steps[s].box.c1 : c1;
        }
        n = op_slices(plan->graph, op, c0, c1, out, n, max);
    }
    return n;
}

/* ---- one step ---- */

static int64_t step_need_elements(const struct plan *plan, const struct plan_step *step)
{
    const struct op *op = &plan->graph->ops[step->op];
    int32_t input = op_row(op->kind)->kernel == OP_KERNEL_COPY ? step->input : 0;
    return box_elements(op_row(op->kind)->need(plan->graph, op, input, step->box));
}

static int32_t step_executions(const struct plan *plan, const struct plan_step *step)
{
    if (step->kind != PLAN_STEP_TASK)
        return 1;
    const struct op *op = &plan->graph->ops[step->op];
    enum op_kernel kernel = op_row(op->kind)->kernel;
    if (kernel == OP_KERNEL_SUM)
        return 3;
    if (kernel == OP_KERNEL_COPY && step->scratch >= 0)
        return 2;
    if (kernel != OP_KERNEL_CONV || op->groups == 1)
        return 1;
    int32_t per_group = plan->graph->tensors[op->output].shape.c / op->groups;
    return (step->box.c1 - 1) / per_group - step->box.c0 / per_group + 1;
}

/* Bytes that a task reads from flash in one execution of its box: values with multipliers and biases, or a
 * table. */
static int64_t step_weight_bytes(const struct plan *plan, const struct plan_step *step)
{
    const struct op *op = &plan->graph->ops[step->op];
    const struct op_row *row = op_row(op->kind);
    if (row->kernel == OP_KERNEL_LUT || (row->kernel == OP_KERNEL_COPY && step->scratch >= 0))
        return TABLE_BYTES;
    if (!row->needs_weights)
        return 0;
    int64_t k = row->kernel == OP_KERNEL_DW ? 1 : in_channels(plan->graph, op) / op->groups;
    return ((int64_t)op->kernel_h * op->kernel_w * k + SCALES_BYTES) * (step->box.c1 - step->box.c0);
}

static double step_seconds(const struct plan *plan, const struct plan_board *board,
                           const struct plan_step *step)
{
    double time = 1e-6 * step_executions(plan, step);
    if (step->kind == PLAN_STEP_COPY)
        return time + (double)box_elements(step->box) / (board->element_per_cycle * board->clock_hz);
    if (step->kind != PLAN_STEP_TASK)
        return time;
    const struct op *op = &plan->graph->ops[step->op];
    const struct op_row *row = op_row(op->kind);
    enum op_cost cost = row->cost(plan->graph, op);
    if (cost <= OP_COST_FULLY_CONNECTED)
        return time +
               (double)row->macs(plan->graph, op, step->box) / (board->mac_per_cycle[cost] * board->clock_hz);
    int64_t in = step_need_elements(plan, step), out = box_elements(step->box),
            elements = in > out ? in : out;
    if (row->kernel == OP_KERNEL_SUM)
        elements += 2 * out; /* ZERO and FINISH */
    else if (row->kernel == OP_KERNEL_COPY && step->scratch >= 0)
        elements += in; /* the look-up before the move */
    return time + (double)elements / (board->element_per_cycle * board->clock_hz);
}

/* ---- where weights are kept ---- */

/* In the order of the program while they fit: each slice is read once, so all gain alike a byte. `first`, of
 * each operator (may be NULL), says whose come before all others: a schedule reads some more than once. */
static void choose_resident(struct plan *plan, int32_t party, const struct plan_slice *slices, int32_t n,
                            const bool *first)
{
    struct plan_party *item = &plan->parties[party - 1];
    int64_t left = plan->boards[party - 1].weight_ram_bytes;
    item->resident_bytes = 0;
    for (int32_t pass = first ? 0 : 1; pass < 2; pass++)
        for (int32_t i = 0, end; i < n; i = end) {
            int64_t bytes = 0;
            for (end = i; end < n && slices[end].op == slices[i].op; end++)
                bytes += slices[end].total_bytes;
            if (bytes > left || item->resident[slices[i].op] || (pass == 0 && !first[slices[i].op]))
                continue;
            item->resident[slices[i].op] = 1;
            item->resident_bytes += bytes;
            left -= bytes;
        }
}

static void weigh(struct maker *maker, int32_t party)
{
    struct plan *plan = maker->plan;
    struct plan_party *item = &plan->parties[party - 1];
    int32_t n = plan_slices(plan, party, NULL, 0);
    struct plan_slice *slices = maker_alloc(maker, (size_t)n, sizeof *slices);
    item->resident = maker_alloc(maker, (size_t)plan->graph->n_ops, 1);
    if (maker->failed)
        return;
    plan_slices(plan, party, slices, n);
    item->weight_bytes = 0;
    for (int32_t i = 0; i < n; i++)
        item->weight_bytes += slices[i].total_bytes;
    choose_resident(plan, party, slices, n,
                    maker->partial && party == maker->first_board + 1 ? maker->partial->resident : NULL);
    if (item->used)
        item->fragment_bytes = size_fragment(maker, party, n);
}

/* ---- times ---- */

struct traffic {
    int64_t sent, received;
    int32_t messages;
};

static struct traffic traffic_of(const struct plan *plan, int32_t party, uint32_t rank, uint32_t *at)
{
    struct traffic sum = {0};
    uint32_t i = *at;
    for (; i < plan->table.n_transfers && plan->table.transfers[i].rank <= rank; i++) {
        const struct conduct_transfer *transfer = &plan->table.transfers[i];
        if (transfer->rank != rank || (transfer->from != party && transfer->to != party))
            continue;
        *(transfer->from == party ? &sum.sent : &sum.received) += box_elements(transfer->box);
        sum.messages++;
    }
    return sum;
}

/* One phase of communication seen from a board. */
static double phase_seconds(const struct plan_board *board, struct traffic traffic)
{
    if (traffic.messages == 0)
        return 0;
    double sent = (double)traffic.sent, received = (double)traffic.received;
    double bytes = (sent > received ? sent : received) / board->link_bytes_per_s;
    double crypto = (sent + received) / board->crypto_bytes_per_s;
    return board->message_latency_s + (traffic.messages - 1) * board->extra_message_cpu_s +
           (bytes > crypto ? bytes : crypto);
}

struct clocks {
    double now[PLAN_BOARDS_MAX];
};

static double coordinator_rate(const struct plan *plan)
{
    double rate = 0;
    for (int32_t b = 0; b < plan->n_boards; b++)
        rate = plan->boards[b].coordinator_link_bytes_per_s > rate
                   ? plan->boards[b].coordinator_link_bytes_per_s
                   : rate;
    return rate > 0 ? rate : 110e6;
}

/* The coordinator's link carries all of it: whoever took part is done when it is. */
static void stretch(struct plan *plan, struct clocks *clocks, const bool *part, int32_t segment, double bound)
{
    for (int32_t b = 0; b < plan->n_boards; b++) {
        if (!part[b] || clocks->now[b] >= bound)
            continue;
        plan->segments[segment].times[b].moving_ms += 1e3 * (bound - clocks->now[b]);
        clocks->now[b] = bound;
    }
}

/* One hop: parties begin at `gate` at the earliest; returns when the last is done. */
static double hop(struct plan *plan, struct clocks *clocks, int32_t segment, uint32_t rank, uint32_t at,
                  double gate)
{
    double last = gate, begin = -1;
    int64_t all = 0;
    bool part[PLAN_BOARDS_MAX] = {false};
    for (int32_t b = 0; b < plan->n_boards; b++) {
        uint32_t from = at;
        struct traffic traffic = traffic_of(plan, b + 1, rank, &from);
        if (traffic.messages == 0)
            continue;
        struct plan_times *times = &plan->segments[segment].times[b];
        if (clocks->now[b] < gate) {
            times->waiting_ms += 1e3 * (gate - clocks->now[b]);
            clocks->now[b] = gate;
        }
        double start = clocks->now[b], moving = phase_seconds(&plan->boards[b], traffic);
        begin = begin < 0 || start < begin ? start : begin;
        part[b] = true;
        times->moving_ms += 1e3 * moving;
        clocks->now[b] += moving;
        last = clocks->now[b] > last ? clocks->now[b] : last;
        all += traffic.sent + traffic.received;
        plan->parties[b].bytes_sent += traffic.sent;
        plan->parties[b].bytes_received += traffic.received;
    }
    double bound = begin < 0 ? gate : begin + (double)all / coordinator_rate(plan);
    stretch(plan, clocks, part, segment, bound);
    return bound > last ? bound : last;
}

static void compute(struct plan *plan, struct clocks *clocks, int32_t segment)
{
    for (int32_t b = 0; b < plan->n_boards; b++) {
        struct plan_party *party = &plan->parties[b];
        const struct plan_board *board = &plan->boards[b];
        struct plan_times *times = &plan->segments[segment].times[b];
        times->start_ms = 1e3 * clocks->now[b];
        double computing = 0, flash = 0;
        if (party->program && segment == 0)
            partial_seconds(plan, b, &computing, &flash);
        for (int32_t s = 0; s < party->n_steps && !party->program; s++) {
            const struct plan_step *step = &party->steps[s];
            if (step->segment != segment)
                continue;
            computing += step_seconds(plan, board, step);
            if (step->kind == PLAN_STEP_TASK && !party->resident[step->op])
                flash += (double)step_weight_bytes(plan, step) / board->flash_bytes_per_s;
        }
        times->computing_ms = 1e3 * computing;
        times->flash_ms = 1e3 * flash;
        clocks->now[b] += computing + flash;
    }
}

static void sum_times(struct plan *plan)
{
    for (int32_t b = 0; b < plan->n_boards; b++) {
        struct plan_times *sum = &plan->parties[b].times;
        for (int32_t s = 0; s < plan->n_segments; s++) {
            const struct plan_times *times = &plan->segments[s].times[b];
            sum->computing_ms += times->computing_ms;
            sum->moving_ms += times->moving_ms;
            sum->waiting_ms += times->waiting_ms;
            sum->flash_ms += times->flash_ms;
        }
        plan->computing_ms = sum->computing_ms > plan->computing_ms ? sum->computing_ms : plan->computing_ms;
        plan->moving_ms = sum->moving_ms > plan->moving_ms ? sum->moving_ms : plan->moving_ms;
        plan->waiting_ms = sum->waiting_ms > plan->waiting_ms ? sum->waiting_ms : plan->waiting_ms;
        plan->flash_ms = sum->flash_ms > plan->flash_ms ? sum->flash_ms : plan->flash_ms;
        plan->bytes_moved += plan->parties[b].bytes_sent + plan->parties[b].bytes_received;
    }
}

void cost_predict(struct maker *maker)
{
    struct plan *plan = maker->plan;
    struct clocks clocks = {{0}};
    for (int32_t p = 1; p <= plan->n_boards && !maker->failed; p++)
        weigh(maker, p);
    if (maker->failed)
        return;
    uint32_t at = 0;
    double end = 0;
    for (int32_t s = 0; s <= plan->n_segments; s++) {
        int32_t op = s < plan->n_segments ? plan->segments[s].first_op : maker->graph->n_ops;
        int32_t segment = s < plan->n_segments ? s : plan->n_segments - 1, rank = maker->rank_before[op];
        for (int32_t last = program_last_rank(maker, op); rank >= 0 && rank <= last && segment >= 0;
             rank += 2) {
            double up = hop(plan, &clocks, segment, (uint32_t)rank, at, 0);
            double down = hop(plan, &clocks, segment, (uint32_t)rank + 1, at, up);
            end = down > up ? down : up;
            while (at < plan->table.n_transfers && plan->table.transfers[at].rank <= (uint32_t)rank + 1)
                at++;
        }
        if (s < plan->n_segments)
            compute(plan, &clocks, s);
    }
    for (int32_t b = 0; b < plan->n_boards; b++)
        end = clocks.now[b] > end ? clocks.now[b] : end;
    sum_times(plan);
    plan->latency_ms = plan->table.predicted_ms = 1e3 * end;
    plan->throughput_per_s = end > 0 ? 1 / end : 0;
    plan->rounds = 0;
    plan->coordinator_bytes = 0;
    for (int32_t e = 0; e < plan->n_exchanges; e++) {
        plan->rounds += plan->exchanges[e].n_have + plan->exchanges[e].n_want > 0;
        plan->coordinator_bytes += shape_elements(plan->table.exchanges[e].shape);
    }
}
