/*
 * Single steps by rows and by patches, as the scheduler plans them, against the boxes of the operator table.
 */
#include "server/model/optable.h"
#include "server/schedule/cost.h"
#include "server/schedule/json.h"
#include "server/schedule/memo.h"
#include "server/schedule/search.h"
#include "tests/support/small_network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- rows: a plan is walked tick by tick, and what is read must be there ---- */

struct walker {
    const struct net *net;
    const int32_t *ops;
    int32_t n;
    const struct row_plan *plan;
};

static const struct row_plan *planned(const struct walker *w, int32_t tensor)
{
    for (int32_t v = 0; w->plan[v].tensor >= 0; v++)
        if (w->plan[v].tensor == tensor)
            return &w->plan[v];
    return NULL;
}

/* The row that operator k makes at this tick, or -1. A sum makes "row" t of its input. */
static int32_t row_due(const struct walker *w, int32_t k, int64_t tick)
{
    const struct net_op *op = &w->net->ops[w->ops[k]];
    const struct row_plan *out = planned(w, op->out), *at = out;
    int32_t h = w->net->tensors[op->row_sums ? op->in[0] : op->out].shape.h;
    struct row_plan whole = {.per = 1, .phase = out->phase};
    if (op->row_sums)
        at = planned(w, op->in[0]) ? planned(w, op->in[0]) : &whole;
    int64_t row = tick - at->phase;
    return row >= 0 && row % at->per == 0 && row / at->per < h ? (int32_t)(row / at->per) : -1;
}

static void rows_of(const struct net_op *op, int32_t i, int32_t row, int32_t *r0, int32_t *r1)
{
    *r0 = op->row_sums ? row : op->need0[i][row];
    *r1 = op->row_sums ? row + 1 : op->need1[i][row];
}

/* Whether row y of a tensor is read at (tick, k) or later; by an operator that does not write over it at
 * once. */
static bool read_from(const struct walker *w, int32_t tensor, int32_t y, int64_t tick, int32_t from,
                      int64_t end)
{
    for (int64_t t = tick; t <= end; t++)
        for (int32_t k = t == tick ? from : 0; k < w->n; k++) {
            const struct net_op *op = &w->net->ops[w->ops[k]];
            int32_t row = row_due(w, k, t), r0, r1;
            for (int32_t i = 0; i < op->n_in && row >= 0; i++) {
                rows_of(op, i, row, &r0, &r1);
                if (op->in[i] == tensor && r0 <= y && y < r1 && !(t == tick && k == from && op->inplace))
                    return true;
            }
        }
    return false;
}

static int32_t place_of(const struct walker *w, int32_t tensor)
{
    int32_t k = 0;
    while (w->net->ops[w->ops[k]].out != tensor)
        k++;
    return k;
}

static void check_present(const struct walker *w, const struct net_op *op, int32_t row, int64_t tick,
                          const int32_t *made)
{
    for (int32_t i = 0; i < op->n_in; i++) {
        const struct row_plan *in = planned(w, op->in[i]);
        int32_t r0, r1;
        rows_of(op, i, row, &r0, &r1);
        if (!in || r1 <= r0)
            continue;
        assert_true(r1 <= made[op->in[i]]); /* it was made */
        if (!in->kept)
            assert_true(r0 >= made[op->in[i]] - (in->ring ? in->ring : 1)); /* and is still in the ring */
        if (in->passing)
            assert_true(row_due(w, place_of(w, op->in[i]), tick) == r0 &&
                        r1 == r0 + 1); /* made in this tick */
    }
}

static void check_segment(const struct net *net, const done_word *done, const int32_t *ops, int32_t n,
                          const struct move *move, const struct row_plan *plan)
{
    struct walker w = {net, ops, n, plan};
    int32_t *made = calloc((size_t)net->n_tensors, sizeof *made);
    int64_t end = 0, fixed = 0;
    done_word after[SCHEDULE_OPS_MAX / 64 + 1] = {done[0]};
    for (int32_t k = 0; k < n; k++)
        done_add(after, ops[k]);
    for (int32_t v = 0; plan[v].tensor >= 0; v++) {
        int64_t h = net->tensors[plan[v].tensor].shape.h, bytes = net->tensors[plan[v].tensor].bytes;
        int64_t last = plan[v].phase + plan[v].per * h;
        end = last > end ? last : end;
        fixed += plan[v].sums ? 4 * bytes : plan[v].kept || plan[v].passing ? 0 : bytes / h * plan[v].ring;
    }
    for (int32_t k = 0; k < net->n_used; k++)
        end += net->tensors[net->used[k]].shape.h;
    for (int64_t tick = 0; tick <= end; tick++)
        for (int32_t k = 0; k < n; k++) {
            const struct net_op *op = &net->ops[ops[k]];
            int32_t row = row_due(&w, k, tick);
            if (row < 0)
                continue;
            check_present(&w, op, row, tick, made);
            assert_true(op->row_sums || made[op->out] == row);
            made[op->out] = row + 1;
            int64_t now = fixed;
            for (int32_t v = 0; plan[v].tensor >= 0; v++)
                if (plan[v].passing && plan[v].first_op <= k && k <= plan[v].last_op)
                    now += net->tensors[plan[v].tensor].bytes / net->tensors[plan[v].tensor].shape.h;
            for (int32_t j = 0; j < net->n_used; j++) {
                int32_t t = net->used[j];
                const struct row_plan *of = planned(&w, t);
                int64_t bytes = net->tensors[t].bytes / net->tensors[t].shape.h;
                if (of)
                    now += of->kept && !of->sums ? bytes * made[t] : 0;
                else if (net_is_live(net, done, t, false) && net_is_live(net, after, t, false))
                    now += net->tensors[t].bytes;
                else if (net_is_live(net, done, t, false))
                    for (int32_t y = 0; y < net->tensors[t].shape.h; y++)
                        now += read_from(&w, t, y, tick, k, end) ? bytes : 0;
            }
            assert_true(now <= move->fixed_bytes);
        }
    for (int32_t k = 0; k < n; k++) /* every row was made */
        assert_int_equal(
            made[net->ops[ops[k]].out],
            net->tensors[net->ops[ops[k]].row_sums ? net->ops[ops[k]].in[0] : net->ops[ops[k]].out].shape.h);
    free(made);
}

static void row_segments_read_only_rows_that_are_there_and_stay_within_their_peak(void **state)
{
    (void)state;
    struct schedule_options options = schedule_defaults();
    int32_t checked = 0, long_ones = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        struct graph *graph = small_graph_of(small_network(seed));
        struct net *net = schedule_net(graph, false);
        for (int32_t from = 0; from < net->n_ops; from++) {
            int32_t ops[NET_LOOP_OPS_MAX], n = 0;
            done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0};
            for (int32_t o = 0; o < from; o++)
                done_add(done, o);
            for (int32_t o = from; o < net->n_ops; o++) {
                struct move move;
                struct row_plan plan[ROW_PLAN_MAX];
                ops[n++] = o;
                if (!rows_plan(net, done, &options, ops, n, 0, &move, plan))
                    continue;
                check_segment(net, done, ops, n, &move, plan);
                checked++;
                long_ones += n > 2;
            }
        }
        schedule_net_free(net);
        graph_free(graph);
    }
    assert_true(checked > 3000 && long_ones > 500);
}

/* ---- patches: every tile by itself ---- */

struct patch_check {
    const struct net *net;
    const struct schedule_options *options;
    const done_word *done;
    int32_t checked;
};

static int64_t live_now(const struct patch_check *c, const done_word *after, const int32_t *first_needed)
{
    int64_t sum = 0;
    for (int32_t j = 0; j < c->net->n_used; j++) {
        int32_t t = c->net->used[j];
        const struct net_tensor *tensor = &c->net->tensors[t];
        if (!net_is_live(c->net, c->done, t, false))
            continue;
        bool dies = !net_is_live(c->net, after, t, false);
        sum += dies ? tensor->bytes / tensor->shape.h * (tensor->shape.h - first_needed[t]) : tensor->bytes;
    }
    return sum;
}

/* MACs of a tile; first_needed: the first row of each tensor that it reads. */
static int64_t tile_macs(const struct patch_check *c, const struct move *move, struct box last,
                         int32_t *first_needed)
{
    struct box boxes[NET_LOOP_OPS_MAX] = {{0}};
    int64_t macs = 0;
    boxes[move->n_ops - 1] = last;
    for (int32_t k = move->n_ops - 1; k >= 0; k--) {
        const struct op *op = &c->net->graph->ops[c->net->ops[move->ops[k]].graph_op];
        macs += op_row(op->kind)->macs(c->net->graph, op, boxes[k]);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            struct box need = op_row(op->kind)->need(c->net->graph, op, i, boxes[k]);
            if (!box_empty(need) && need.h0 < first_needed[op->inputs[i]])
                first_needed[op->inputs[i]] = need.h0;
            for (int32_t j = 0; j < k; j++)
                if (c->net->ops[move->ops[j]].out == op->inputs[i])
                    boxes[j] = box_hull(boxes[j], need);
        }
    }
    return macs;
}

static void check_patches(void *context, const struct move *guess)
{
    struct patch_check *c = context;
    struct move resolved = *guess;
    const struct move *move = &resolved;
    assert_true(move_is_guess(guess));
    if (!patches_resolve(c->net, c->options, &resolved))
        return;
    assert_true(resolved.n_inner > 0 && move_peak(&resolved) >= move_peak(guess));
    int32_t out = c->net->ops[move->ops[move->n_ops - 1]].out;
    struct shape shape = c->net->tensors[out].shape;
    done_word after[SCHEDULE_OPS_MAX / 64 + 1] = {c->done[0]};
    int64_t extra = 0;
    for (int32_t k = 0; k < move->n_ops; k++) {
        done_add(after, move->ops[k]);
        extra -= c->net->ops[move->ops[k]].macs;
    }
    int32_t *first = malloc((size_t)c->net->n_tensors * sizeof *first);
    for (int32_t t = 0; t < c->net->n_tensors; t++)
        first[t] = c->net->tensors[t].shape.h;
    int32_t bands = (shape.h + move->tile_h - 1) / move->tile_h;
    for (int32_t b = bands - 1; b >= 0; b--) { /* backwards: what this band or a later one needs */
        int32_t h1 = (b + 1) * move->tile_h < shape.h ? (b + 1) * move->tile_h : shape.h, w1;
        for (int32_t w = 0; w < shape.w; w = w1) {
            w1 = w + move->tile_w < shape.w ? w + move->tile_w : shape.w;
            extra += tile_macs(c, move, (struct box){b * move->tile_h, h1, w, w1, 0, shape.c}, first);
        }
        int64_t made = c->net->tensors[out].bytes / shape.h * h1;
        assert_true(live_now(c, after, first) + made <= move->fixed_bytes);
    }
    assert_int_equal(extra, move->extra_macs);
    free(first);
    c->checked++;
}

static void patches_count_every_mac_again_and_hold_what_later_tiles_need(void **state)
{
    (void)state;
    struct schedule_options options = schedule_defaults();
    int32_t checked = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        struct graph *graph = small_graph_of(small_network(seed));
        struct net *net = schedule_net(graph, false);
        net->memo = memo_new();
        cost_prepare(net, schedule_board_default());
        int64_t bound = 0;
        for (int32_t o = 0; o < net->n_ops; o++)
            bound = net->tensors[net->ops[o].out].bytes > bound ? net->tensors[net->ops[o].out].bytes : bound;
        for (int32_t from = 0; from < net->n_ops; from++) {
            done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0};
            for (int32_t o = 0; o < from; o++)
                done_add(done, o);
            struct patch_check check = {net, &options, done, 0};
            struct work work = {.patches = 100000};
            patches_each(net, done, &options, 4 * bound, INT64_MAX / 4, &work, check_patches, &check);
            checked += check.checked;
        }
        memo_free(net->memo);
        schedule_net_free(net);
        graph_free(graph);
    }
    assert_true(checked > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_segments_read_only_rows_that_are_there_and_stay_within_their_peak),
        cmocka_unit_test(patches_count_every_mac_again_and_hold_what_later_tiles_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
