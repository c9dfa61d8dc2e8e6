/*
 * Seconds of a step. What an operator costs once is set with the net; a move says how often it runs and over
 * how much of its output. Which weights are resident is a question to the whole schedule: a path is searched
 * with a price a byte, then those that are read most are put into the room there is.
 */
#include "server/schedule/cost.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_BYTES = 24 * 1024, TABLE_BYTES = 256, SCALES_BYTES = 12 };

static const double execution_s = 1e-6;

static void prepare_op(struct net *net, struct net_op *op)
{
    const struct graph *graph = net->graph;
    const struct op *it = &graph->ops[op->graph_op];
    const struct op_row *row = op_row(it->kind);
    const struct schedule_board *board = net->board;
    enum op_cost cost = row->cost(graph, it);
    int64_t in = shape_elements(graph->tensors[it->inputs[0]].shape), out = net->tensors[op->out].bytes,
            elements = in > out ? in : out;
    op->calls = row->kernel == OP_KERNEL_CONV && it->groups > 1 ? it->groups : 1;
    if (row->kernel == OP_KERNEL_COPY && it->n_inputs > 1) {
        op->calls = it->n_inputs;
        elements = out;
    }
    if (row->kernel == OP_KERNEL_SUM) { /* ZERO and FINISH */
        op->calls = 3;
        elements += 2 * out;
    }
    op->read_bytes = it->weight_bytes;
    if (row->needs_weights)
        op->read_bytes += (int64_t)SCALES_BYTES * net->tensors[op->out].shape.c;
    op->table = row->kernel == OP_KERNEL_LUT;
    if (op->table)
        op->read_bytes = TABLE_BYTES;
    if (op->view || cost == OP_COST_FREE) {
        op->calls = 0;
        op->seconds = 0;
    } else if (cost <= OP_COST_FULLY_CONNECTED) {
        op->seconds = (double)op->macs / (board->mac_per_cycle[cost] * board->clock_hz);
    } else {
        op->seconds = (double)elements * net->element_s;
    }
}

void cost_prepare(struct net *net, const struct schedule_board *board)
{
    net->board = board;
    net->element_s = 1 / (board->element_per_cycle * board->clock_hz);
    for (int32_t o = 0; o < net->n_ops; o++)
        prepare_op(net, &net->ops[o]);
}

int64_t cost_channels(const struct move *move, int64_t limit)
{
    if (move->mode != SCHEDULE_CHANNELS)
        return 0;
    int64_t k = move->part_bytes > 0 ? (limit - move->fixed_bytes) / move->part_bytes : move->iterations;
    if (k >= move->iterations)
        return move->iterations;
    k = k >= 4 ? k / 4 * 4 : k > 0 ? k : 1;
    int64_t turns = (move->iterations + k - 1) / k, even = (move->iterations + turns - 1) / turns;
    even = even > 4 ? (even + 3) / 4 * 4 : even;
    return even < k ? even : k;
}

/* The operator at place `k` of a loop over channels adds up what it is given a part at a time. */
static bool is_sum(const struct net *net, const int32_t *ops, int32_t n, int32_t k)
{
    const struct net_op *op = &net->ops[ops[k]];
    for (int32_t j = 0; j < n && op->class == OP_CLASS_AGGREGATING; j++)
        if (net->ops[ops[j]].out == op->in[0])
            return true;
    return false;
}

/* A loop over channels, or an operator whole, run `times`; share[k]: of operator k's output in all of them.
 */
static double channels_s(const struct net *net, const struct move *move, const int32_t *ops, int64_t limit,
                         int64_t times, const double *share, const int32_t *heights)
{
    int64_t k = cost_channels(move, limit), turns = k > 0 ? (move->iterations + k - 1) / k : 1;
    double executions = 0, seconds = 0;
    for (int32_t i = 0; i < move->n_ops; i++) {
        const struct net_op *op = &net->ops[ops[i]];
        int32_t rows = !move->ringed && move->mode != SCHEDULE_ROWS ? 1
                       : heights                                    ? heights[i]
                                                                    : net->tensors[op->out].shape.h;
        seconds += op->seconds * (share ? share[i] : 1);
        executions += (double)op->calls * (double)turns * rows;
        if (move->mode == SCHEDULE_CHANNELS && is_sum(net, ops, move->n_ops, i)) {
            executions += 2; /* ZERO and FINISH */
            seconds += (double)(turns + 2) * (double)net->tensors[op->out].bytes * (share ? share[i] : 1) *
                       net->element_s;
        }
    }
    return seconds + executions * (double)times * execution_s;
}

static int64_t weights_of(const struct net *net, const struct move *move)
{
    int64_t sum = 0; /* of all operators */
    for (int32_t k = 0; k < move->n_ops; k++)
        sum += net->ops[move->ops[k]].read_bytes;
    return sum;
}

static double rows_s(const struct net *net, const struct move *move, struct cost *cost)
{
    bool cached = weights_of(net, move) <= CACHE_BYTES;
    double seconds = 0;
    for (int32_t k = 0; k < move->n_ops; k++) {
        const struct net_op *op = &net->ops[move->ops[k]];
        int64_t rows = net->tensors[op->row_sums ? op->in[0] : op->out].shape.h;
        seconds += op->seconds +
                   execution_s * (double)(rows * (op->row_sums ? 1 : op->calls) + (op->row_sums ? 2 : 0));
        cost->reads[k] = cached ? 1 : rows;
    }
    return seconds;
}

static double patches_s(const struct net *net, const struct move *move, int64_t limit, struct cost *cost)
{
    bool cached = weights_of(net, move) <= CACHE_BYTES;
    double seconds = 0;
    for (int32_t m = 0; m < move->n_inner; m++) {
        const struct move *inner = &move->inner[m];
        int32_t ops[NET_LOOP_OPS_MAX], heights[NET_LOOP_OPS_MAX];
        double share[NET_LOOP_OPS_MAX];
        for (int32_t i = 0; i < inner->n_ops; i++) {
            int32_t k = inner->ops[i];
            ops[i] = move->ops[k];
            share[i] = move->share[k];
            heights[i] = move->heights[k];
            cost->reads[k] = cached ? 1 : move->tiles;
            if (!cached && (inner->mode == SCHEDULE_ROWS || inner->ringed))
                cost->reads[k] *= heights[i];
        }
        seconds += channels_s(net, inner, ops, limit - move->held_bytes, move->tiles, share, heights);
    }
    return seconds;
}

void cost_move(const struct net *net, const struct move *move, int64_t limit, struct cost *cost)
{
    bool again = move->ringed && weights_of(net, move) / move->iterations * cost_channels(move, limit) >
                                     CACHE_BYTES; /* every row reads the channels' weights anew */
    for (int32_t k = 0; k < move->n_ops; k++)
        cost->reads[k] = again ? net->tensors[net->ops[move->ops[k]].out].shape.h : 1;
    if (move->mode == SCHEDULE_ROWS)
        cost->seconds = rows_s(net, move, cost);
    else if (move->mode == SCHEDULE_PATCHES)
        cost->seconds = patches_s(net, move, limit, cost);
    else
        cost->seconds = channels_s(net, move, move->ops, limit, 1, NULL, NULL);
    for (int32_t k = 0; k < move->n_ops; k++) {
        const struct net_op *op = &net->ops[move->ops[k]];
        if (op->table) { /* tables lie in flash */
            cost->seconds += (double)(op->read_bytes * cost->reads[k]) / net->board->flash_bytes_per_s;
            cost->reads[k] = 0;
        }
    }
}

double cost_priced(const struct net *net, const struct move *move, int64_t limit, double byte_s)
{
    struct cost cost;
    cost_move(net, move, limit, &cost);
    for (int32_t k = 0; k < move->n_ops; k++) {
        double read_s = (double)cost.reads[k] / net->board->flash_bytes_per_s;
        cost.seconds += (double)net->ops[move->ops[k]].read_bytes * (read_s < byte_s ? read_s : byte_s);
    }
    return cost.seconds;
}

struct weights {
    int64_t reads, bytes;
    int32_t op;
};

static int by_reads(const void *a, const void *b)
{
    const struct weights *x = a, *y = b;
    if (x->reads != y->reads)
        return x->reads > y->reads ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

double cost_moves(const struct net *net, const struct move *moves, int32_t n, int64_t limit, int64_t room,
                  bool *resident)
{
    struct weights *weights = calloc((size_t)net->n_ops + 1, sizeof *weights);
    double seconds = 0;
    if (!weights)
        return -1;
    for (int32_t o = 0; o < net->n_ops; o++)
        weights[o] = (struct weights){0, net->ops[o].read_bytes, o};
    for (int32_t m = 0; m < n; m++) {
        struct cost cost;
        cost_move(net, &moves[m], limit, &cost);
        seconds += cost.seconds;
        for (int32_t k = 0; k < moves[m].n_ops; k++)
            weights[moves[m].ops[k]].reads += cost.reads[k];
    }
    qsort(weights, (size_t)net->n_ops, sizeof *weights, by_reads);
    for (int32_t i = 0; i < net->n_ops; i++) {
        bool fits = weights[i].reads > 0 && weights[i].bytes > 0 && weights[i].bytes <= room;
        room -= fits ? weights[i].bytes : 0;
        if (resident)
            resident[weights[i].op] = fits;
        if (!fits)
            seconds += (double)(weights[i].reads * weights[i].bytes) / net->board->flash_bytes_per_s;
    }
    free(weights);
    return seconds;
}
