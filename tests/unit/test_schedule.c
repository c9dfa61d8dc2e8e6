/*
 * The scheduler of channel loops against a brute force: every order of the operators of small random graphs,
 * every cut of it into loops, every choice of overwriting. The published numbers of known networks, to the
 * byte. What is refused when a graph is read.
 */
#include "server/base/stop.h"
#include "server/schedule/cost.h"
#include "server/schedule/json.h"
#include "server/schedule/read.h"
#include "server/schedule/memo.h"
#include "server/schedule/search.h"
#include "server/model/optable.h"
#include "server/plan/plan.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BRUTE_OPS = 7, BRUTE_TENSORS = 12 };

/* ---- random networks, written as users write them ---- */

struct writer {
    struct prng prng;
    json_t *tensors, *ops, *read; /* read: names with a reader */
    struct shape shapes[BRUTE_TENSORS];
    int32_t n;
};

static const char *tensor_text(int32_t t)
{
    static const char *const names[BRUTE_TENSORS] = {"t0", "t1", "t2", "t3", "t4",  "t5",
                                                     "t6", "t7", "t8", "t9", "t10", "t11"};
    return names[t];
}

static int32_t add_tensor(struct writer *w, struct shape shape)
{
    json_object_set_new(w->tensors, tensor_text(w->n),
                        json_pack("{s:[i,i,i]}", "shape", shape.h, shape.w, shape.c));
    w->shapes[w->n] = shape;
    return w->n++;
}

static void add_op(struct writer *w, const char *type, int32_t a, int32_t b, struct shape out, int32_t k,
                   int32_t s)
{
    int32_t to = add_tensor(w, out);
    json_t *inputs = json_pack("[s]", tensor_text(a));
    json_object_set_new(w->read, tensor_text(a), json_true());
    if (b >= 0) {
        json_array_append_new(inputs, json_string(tensor_text(b)));
        json_object_set_new(w->read, tensor_text(b), json_true());
    }
    json_array_append_new(w->ops, json_pack("{s:s, s:s, s:o, s:s, s:[i,i], s:[i,i], s:s}", "name",
                                            tensor_text(to), "type", type, "inputs", inputs, "output",
                                            tensor_text(to), "k", k, k, "s", s, s, "pad", "same"));
}

static void random_op(struct writer *w)
{
    static const int32_t channels[] = {1, 2, 3, 4, 6, 8, 12};
    int32_t a = prng_range(&w->prng, w->n > 3 ? w->n - 4 : 0, w->n - 1),
            b = prng_range(&w->prng, 0, w->n - 1);
    struct shape in = w->shapes[a], other = w->shapes[b], out = in;
    int32_t s = prng_range(&w->prng, 1, 2), k = prng_one_in(&w->prng, 2) ? 1 : 3;
    struct shape strided = {(in.h + s - 1) / s, (in.w + s - 1) / s, in.c};
    switch (prng_range(&w->prng, 0, 8)) {
    case 0:
    case 1:
    case 2:
        strided.c = channels[prng_range(&w->prng, 0, 6)];
        add_op(w, "conv", a, -1, strided, k, s);
        break;
    case 3:
        strided.c *= prng_one_in(&w->prng, 4) ? 2 : 1;
        add_op(w, "dw", a, -1, strided, 3, s);
        break;
    case 4:
        add_op(w, "gap", a, -1, (struct shape){1, 1, in.c}, 1, 1);
        break;
    case 5:
        add_op(w, "relu", a, -1, out, 1, 1);
        break;
    default:
        if (a != b && shape_equal(in, other))
            add_op(w, "add", a, b, out, 1, 1);
        else if (a != b && other.h == 1 && other.w == 1 && (other.c == in.c || other.c == 1))
            add_op(w, "mul", a, b, out, 1, 1);
        else if (a != b && in.h == other.h && in.w == other.w)
            out.c += other.c, add_op(w, "concat", a, b, out, 1, 1);
        else
            add_op(w, "maxpool", a, -1, strided, 3, s);
    }
}

static json_t *random_network(uint64_t seed)
{
    struct writer w = {
        .prng = prng_seed(seed), .tensors = json_object(), .ops = json_array(), .read = json_object()};
    int32_t inputs = prng_one_in(&w.prng, 4) ? 2 : 1, n = prng_range(&w.prng, 2, BRUTE_OPS);
    struct shape shape = {prng_range(&w.prng, 2, 6), prng_range(&w.prng, 2, 6), prng_range(&w.prng, 1, 6)};
    for (int32_t i = 0; i < inputs; i++)
        add_tensor(&w, shape);
    while ((int32_t)json_array_size(w.ops) < n)
        random_op(&w);
    json_t *in = json_array(), *out = json_array();
    for (int32_t t = 0; t < w.n; t++)
        if (t < inputs && json_object_get(w.read, tensor_text(t)))
            json_array_append_new(in, json_string(tensor_text(t)));
        else if (t >= inputs && (!json_object_get(w.read, tensor_text(t)) || prng_one_in(&w.prng, 12)))
            json_array_append_new(out, json_string(tensor_text(t)));
    json_decref(w.read);
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "name", "random", "tensors", w.tensors, "ops", w.ops,
                     "inputs", in, "outputs", out);
}

/* ---- the brute force: blocks of memory with a first and a last moment ---- */

struct brute {
    const struct graph *graph;
    int32_t bits;
    bool streamed;
    int64_t memo[1 << BRUTE_OPS]; /* least peak of what remains; -1: not known */
    uint32_t before;              /* operators done before the loop */
    int32_t loop[BRUTE_OPS], n;
    int64_t *best;
};

struct block {
    int64_t bytes;
    int32_t first, last;
};

static bool is_done(uint32_t done, const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;
    return producer < 0 || (done >> producer & 1);
}

static bool needed_after(const struct graph *graph, uint32_t done, int32_t tensor)
{
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] == tensor)
            return true;
    for (int32_t o = 0; o < graph->n_ops; o++)
        for (int32_t i = 0; i < graph->ops[o].n_inputs; i++)
            if (!(done >> o & 1) && graph->ops[o].inputs[i] == tensor)
                return true;
    return false;
}

/* A streamed input takes nothing before an operator of `now` or an earlier one has read it. */
static bool has_come(const struct brute *b, uint32_t done, uint32_t now, int32_t tensor)
{
    bool come = !b->streamed || b->graph->tensors[tensor].producer >= 0;
    for (int32_t o = 0; o < b->graph->n_ops && !come; o++)
        for (int32_t i = 0; i < b->graph->ops[o].n_inputs; i++)
            come |= ((done | now) >> o & 1) && b->graph->ops[o].inputs[i] == tensor;
    return come;
}

static int32_t in_loop(const struct brute *b, int32_t tensor)
{
    for (int32_t k = 0; k < b->n; k++)
        if (b->graph->ops[b->loop[k]].output == tensor)
            return k;
    return -1;
}

static int64_t size_of(const struct graph *graph, int32_t tensor)
{
    return shape_elements(graph->tensors[tensor].shape);
}

static bool part_of(const struct graph *graph, const struct op *op, int32_t i)
{
    struct shape in = graph->tensors[op->inputs[i]].shape, out = graph->tensors[op->output].shape;
    struct box box = box_whole(out);
    if (in.c == 1 || out.c % in.c)
        return false;
    box.c1 = out.c / in.c;
    return op_row(op->kind)->need(graph, op, i, box).c1 == 1;
}

static int32_t last_read(const struct brute *b, int32_t tensor)
{
    int32_t last = -1;
    for (int32_t k = 0; k < b->n; k++)
        for (int32_t i = 0; i < b->graph->ops[b->loop[k]].n_inputs; i++)
            if (b->graph->ops[b->loop[k]].inputs[i] == tensor)
                last = k;
    return last;
}

static bool sums(const struct brute *b, int32_t k)
{
    const struct op *op = &b->graph->ops[b->loop[k]];
    return op_row(op->kind)->class == OP_CLASS_AGGREGATING && in_loop(b, op->inputs[0]) >= 0;
}

/* Iterations of the loop, 0 where a rule forbids it. */
static int32_t iterations(const struct brute *b)
{
    int32_t n = 0;
    for (int32_t k = 0; k < b->n; k++) {
        const struct op *op = &b->graph->ops[b->loop[k]];
        enum op_class class = op_row(op->kind)->class;
        if (class == OP_CLASS_NEITHER)
            return 0;
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t from = in_loop(b, op->inputs[i]);
            bool slice = class == OP_CLASS_CHANNELWISE && part_of(b->graph, op, i);
            if (from >= 0 && (sums(b, from) || (class == OP_CLASS_CHANNELWISE && !slice)))
                return 0;
            int32_t c = b->graph->tensors[op->inputs[i]].shape.c;
            for (int32_t rest; slice && c; c = rest)
                rest = n % c, n = c;
        }
        int32_t c = b->graph->tensors[op->output].shape.c;
        for (int32_t rest; !sums(b, k) && c; c = rest)
            rest = n % c, n = c;
    }
    return n;
}

static bool may_share(const struct brute *b, int32_t k, int32_t i, uint32_t after, const int32_t *block_of,
                      bool *host_whole)
{
    const struct op *op = &b->graph->ops[b->loop[k]];
    int32_t in = op->inputs[i], from = in_loop(b, in);
    if (!op_row(op->kind)->inplace || !part_of(b->graph, op, i) || last_read(b, in) != k ||
        size_of(b->graph, in) != size_of(b->graph, op->output) || sums(b, k))
        return false;
    bool kept = needed_after(b->graph, after, op->output);
    if (from >= 0) {
        *host_whole = block_of[in] < b->graph->n_tensors && b->graph->tensors[block_of[in]].producer != -2 &&
                      in_loop(b, block_of[in]) < 0;
        return !needed_after(b->graph, after, in) && (!kept || *host_whole);
    }
    for (int32_t j = 0; j < b->n; j++)
        for (int32_t m = 0; m < b->graph->ops[b->loop[j]].n_inputs; m++)
            if (b->graph->ops[b->loop[j]].inputs[m] == in &&
                (op_row(b->graph->ops[b->loop[j]].kind)->class != OP_CLASS_CHANNELWISE ||
                 !part_of(b->graph, &b->graph->ops[b->loop[j]], m)))
                return false;
    *host_whole = true;
    return !needed_after(b->graph, after, in);
}

/* The loop's peak for all choices of overwriting from operator k on. block_of: tensor -> number of its block.
 */
static int64_t blocks_peak(const struct brute *b, int32_t k, int32_t parts, uint32_t after, int32_t *block_of,
                           struct block *blocks)
{
    const struct graph *graph = b->graph;
    if (k == b->n) {
        int64_t peak = 0;
        for (int32_t s = 0; s < b->n; s++) {
            int64_t sum = 0;
            for (int32_t t = 0; t < graph->n_tensors; t++)
                sum += blocks[t].bytes && blocks[t].first <= s && s <= blocks[t].last ? blocks[t].bytes : 0;
            peak = sum > peak ? sum : peak;
        }
        return peak;
    }
    const struct op *op = &graph->ops[b->loop[k]];
    int32_t out = op->output, last = last_read(b, out);
    bool kept = needed_after(graph, after, out);
    struct block saved[BRUTE_TENSORS];
    memcpy(saved, blocks, sizeof saved);
    blocks[out] = kept || sums(b, k) ? (struct block){size_of(graph, out), 0, b->n - 1}
                                     : (struct block){size_of(graph, out) / parts, k, last < 0 ? k : last};
    if (sums(b, k))
        blocks[out].bytes = size_of(graph, out) * b->bits / 8;
    block_of[out] = out;
    int64_t best = blocks_peak(b, k + 1, parts, after, block_of, blocks);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        bool whole = false;
        memcpy(blocks, saved, sizeof saved);
        block_of[out] = out;
        if (!may_share(b, k, i, after, block_of, &whole))
            continue;
        int32_t block = block_of[op->inputs[i]];
        block_of[out] = block;
        if (!whole && last > blocks[block].last)
            blocks[block].last = last;
        int64_t peak = blocks_peak(b, k + 1, parts, after, block_of, blocks);
        best = peak < best ? peak : best;
    }
    memcpy(blocks, saved, sizeof saved);
    block_of[out] = out;
    return best;
}

static int64_t loop_peak(const struct brute *b, uint32_t after)
{
    struct block blocks[BRUTE_TENSORS] = {{0}};
    int32_t block_of[BRUTE_TENSORS], parts = iterations(b);
    if (parts < 2)
        return -1;
    for (int32_t t = 0; t < b->graph->n_tensors; t++) {
        block_of[t] = t;
        if (is_done(b->before, b->graph, t) && needed_after(b->graph, b->before, t) &&
            has_come(b, b->before, after, t))
            blocks[t] = (struct block){size_of(b->graph, t), 0, b->n - 1};
    }
    return blocks_peak(b, 0, parts, after, block_of, blocks);
}

static int64_t full_peak(const struct brute *b, uint32_t done, int32_t o)
{
    const struct graph *graph = b->graph;
    const struct op *op = &graph->ops[o];
    int64_t sum = size_of(graph, op->output);
    bool replaced = false;
    for (int32_t t = 0; t < graph->n_tensors; t++)
        if (is_done(done, graph, t) && needed_after(graph, done, t) && has_come(b, done, 1u << o, t))
            sum += size_of(graph, t);
    for (int32_t i = 0; i < op->n_inputs; i++)
        replaced |= op_row(op->kind)->inplace && !needed_after(graph, done | 1u << o, op->inputs[i]) &&
                    size_of(graph, op->inputs[i]) == size_of(graph, op->output);
    return sum - (replaced ? size_of(graph, op->output) : 0);
}

static int64_t least(struct brute *b, uint32_t done);

static void extend(struct brute *b, uint32_t loop, int64_t *best)
{
    uint32_t after = b->before | loop;
    if (b->n >= 2) {
        int64_t peak = loop_peak(b, after);
        if (peak >= 0 && peak < *best) {
            struct brute saved = *b;
            int64_t rest = least(b, after);
            memcpy(saved.memo, b->memo, sizeof saved.memo);
            *b = saved;
            peak = rest > peak ? rest : peak;
            *best = peak < *best ? peak : *best;
        }
    }
    for (int32_t o = 0; o < b->graph->n_ops; o++) {
        const struct op *op = &b->graph->ops[o];
        bool ready = !(after >> o & 1);
        for (int32_t i = 0; i < op->n_inputs && ready; i++)
            ready = is_done(after, b->graph, op->inputs[i]);
        if (!ready)
            continue;
        b->loop[b->n++] = o;
        extend(b, loop | 1u << o, best);
        b->n--;
    }
}

static int64_t least(struct brute *b, uint32_t done)
{
    const struct graph *graph = b->graph;
    if (done == (1u << graph->n_ops) - 1)
        return 0;
    if (b->memo[done] >= 0)
        return b->memo[done];
    int64_t best = INT64_MAX;
    for (int32_t o = 0; o < graph->n_ops; o++) {
        bool ready = !(done >> o & 1);
        for (int32_t i = 0; i < graph->ops[o].n_inputs && ready; i++)
            ready = is_done(done, graph, graph->ops[o].inputs[i]);
        if (!ready)
            continue;
        int64_t peak = full_peak(b, done, o), rest = peak < best ? least(b, done | 1u << o) : best;
        peak = rest > peak ? rest : peak;
        best = peak < best ? peak : best;
    }
    b->before = done;
    b->n = 0;
    extend(b, 0, &best);
    return b->memo[done] = best;
}

static int64_t brute_peak(const struct graph *graph, int32_t bits, bool streamed)
{
    struct brute *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->graph = graph;
    b->bits = bits;
    b->streamed = streamed;
    memset(b->memo, 0xff, sizeof b->memo);
    int64_t peak = least(b, 0);
    free(b);
    return peak;
}

static int64_t search_peak(const struct graph *graph, enum schedule_axes axes, int32_t bits)
{
    struct schedule_options options = {.axes = axes, .accumulator = bits};
    struct error error;
    error_clear(&error);
    struct schedule *schedule = schedule_make(graph, &options, &error);
    if (!schedule)
        print_error("%s\n", error.message);
    assert_non_null(schedule);
    int64_t peak = schedule->peak_bytes;
    schedule_free(schedule);
    return peak;
}

static struct graph *graph_of(json_t *json)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = schedule_read(json, &error);
    if (!graph)
        print_error("%s at %s\n", error.message, error.layer);
    json_decref(json);
    assert_non_null(graph);
    return graph;
}

static void channel_loops_are_as_small_as_the_brute_force_finds(void **state)
{
    (void)state;
    int32_t better = 0, rounds = 400;
    for (int32_t seed = 0; seed < rounds; seed++) {
        json_t *json = random_network((uint64_t)seed);
        char *text = json_dumps(json, 0);
        struct graph *graph = graph_of(json);
        for (int32_t bits = 8; bits <= 32; bits *= 4) {
            int64_t want = brute_peak(graph, bits, false),
                    got = search_peak(graph, SCHEDULE_AXES_CHANNELS, bits);
            if (got != want)
                print_error("seed %d, %d bits: %lld, the brute force has %lld\n%s\n", seed, bits,
                            (long long)got, (long long)want, text);
            assert_int_equal(got, want);
        }
        better += search_peak(graph, SCHEDULE_AXES_CHANNELS, 8) < search_peak(graph, SCHEDULE_AXES_FULL, 8);
        free(text);
        graph_free(graph);
    }
    assert_true(better > rounds / 4); /* else the graphs would prove little */
}

static void streamed_channel_loops_are_as_small_as_the_brute_force_finds(void **state)
{
    (void)state;
    int32_t less = 0;
    for (uint64_t seed = 500; seed < 800; seed++) {
        struct graph *graph = graph_of(random_network(seed));
        struct schedule_options options = {
            .axes = SCHEDULE_AXES_CHANNELS, .accumulator = 32, .streamed = true};
        struct schedule *schedule = schedule_make(graph, &options, NULL);
        assert_non_null(schedule);
        int64_t there = brute_peak(graph, 32, false), comes = brute_peak(graph, 32, true);
        if (schedule->peak_bytes != (comes < there ? comes : there))
            print_error("seed %d: %lld, the brute force has %lld and %lld\n", (int)seed,
                        (long long)schedule->peak_bytes, (long long)comes, (long long)there);
        assert_int_equal(schedule->peak_bytes, comes < there ? comes : there);
        less += comes < there;
        schedule_free(schedule);
        graph_free(graph);
    }
    assert_true(less > 3);
}

/* The search of graphs that are too wide to try everything, on graphs where everything can be tried. */
static void the_search_in_one_order_is_never_below_the_brute_force_and_mostly_as_low(void **state)
{
    (void)state;
    int32_t same = 0, rounds = 200;
    for (uint64_t seed = 2000; seed < 2000 + (uint64_t)rounds; seed++) {
        struct graph *graph = graph_of(random_network(seed));
        struct net *net = schedule_net(graph, false);
        int32_t order[BRUTE_OPS];
        struct schedule_options options = {.axes = SCHEDULE_AXES_CHANNELS, .accumulator = 32};
        struct search_result result;
        assert_non_null(net);
        assert_true(order_find(net, order) && order_apply(net, order));
        cost_prepare(net, schedule_board_default());
        assert_true(search_run(net, &options, true, &result));
        int64_t want = brute_peak(graph, 32, false);
        assert_true(result.peak_bytes >= want);
        same += result.peak_bytes == want;
        free(result.moves);
        schedule_net_free(net);
        graph_free(graph);
    }
    if (same < rounds * 8 / 10)
        print_error("as low in %d of %d\n", same, rounds);
    assert_true(same >= rounds * 8 / 10);
}

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
        struct graph *graph = graph_of(random_network(seed));
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
        struct graph *graph = graph_of(random_network(seed));
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

/* ---- known networks ---- */

static struct graph *known_graph(const char *name, const char *test)
{
    char path[512];
    const char *facts = getenv("FACTS");
    (void)snprintf(path, sizeof path, "%s/graphs/%s.json", facts ? facts : "../shared", name);
    json_error_t reason;
    json_t *json = json_load_file(path, 0, &reason);
    if (!json) {
        print_message("SKIP %s: no %s\n", test, path);
        skip();
    }
    return graph_of(json);
}

static void known_networks_take_the_published_memory_by_channels(void **state)
{
    static const struct {
        const char *name;
        int64_t macs, ordinary, peak[3]; /* 8, 16, 32 bits */
    } known[] = {
        {"mbv2_224", 300774272, 1505280, {376320, 577024, 602112}},
        {"mbv2_112", 82180544, 376320, {94080, 144256, 150528}},
        {"effnetb0_224", 385814752, 1505280, {602112, 602112, 602112}},
        {"resnet8", 12501632, 49152, {33792, 33792, 33792}},
        {"ds_cnn_l", 28326528, 86940, {35880, 35880, 35880}},
        {"irb", 1387152, 52728, {8450, 12506, 20618}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct graph *graph =
            known_graph(known[i].name, "known_networks_take_the_published_memory_by_channels");
        struct schedule_options options = schedule_defaults();
        options.axes = SCHEDULE_AXES_CHANNELS;
        struct error error;
        error_clear(&error);
        for (int b = 0; b < 3; b++) {
            options.accumulator = 8 << b;
            json_t *json = schedule_describe(graph, &options, NULL, &error);
            json_int_t macs, ordinary, peak;
            assert_int_equal(json_unpack(json, "{s:I, s:{s:I}, s:{s:I}}", "macs", &macs, "ordinary",
                                         "peak_bytes", &ordinary, "partial", "peak_bytes", &peak),
                             0);
            assert_int_equal(macs / 10000, known[i].macs / 10000);
            assert_int_equal(ordinary, known[i].ordinary);
            assert_int_equal(peak, known[i].peak[b]);
            json_decref(json);
        }
        graph_free(graph);
    }
}

static int64_t macs_of(const struct graph *graph)
{
    int64_t sum = 0;
    for (int32_t o = 0; o < graph->n_ops; o++)
        sum += op_row(graph->ops[o].kind)
                   ->macs(graph, &graph->ops[o], box_whole(graph->tensors[graph->ops[o].output].shape));
    return sum;
}

static void known_networks_take_less_by_rows_and_by_running_twice(void **state)
{
    static const struct {
        const char *name;
        double extra;
        int64_t peak;
    } known[] = {
        {"mbv2_224", 0, 204288},      {"mbv2_112", 0, 64512}, {"effnetb0_224", 0, 551040},
        {"effnetb0_224", 10, 333312}, {"resnet8", 0, 15872},  {"mbv2_224", 10, 165360},
        {"mbv2_112", 10, 41328},      {"ds_cnn_l", 0, 20700}, {"irb", 0, 20617},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct graph *graph =
            known_graph(known[i].name, "known_networks_take_less_by_rows_and_by_running_twice");
        struct schedule_options options = schedule_defaults();
        options.extra_macs = known[i].extra;
        struct schedule *schedule = schedule_make(graph, &options, NULL);
        assert_non_null(schedule);
        assert_true(schedule->peak_bytes <= known[i].peak);
        assert_true(known[i].extra > 0 || schedule->extra_macs == 0);
        assert_true(schedule->extra_macs <= macs_of(graph) / 10);
        schedule_free(schedule);
        graph_free(graph);
    }
}

static void bottleneck_adds_up_to_the_peak(void **state)
{
    (void)state;
    for (uint64_t seed = 1000; seed < 1100; seed++) {
        struct graph *graph = graph_of(random_network(seed));
        struct schedule_options options = schedule_defaults();
        json_t *json = schedule_describe(graph, &options, NULL, NULL), *tensor;
        json_t *bottleneck = json_object_get(json, "bottleneck");
        json_int_t sum = 0;
        size_t i;
        json_array_foreach(json_object_get(bottleneck, "tensors"), i, tensor) sum +=
            json_integer_value(json_object_get(tensor, "bytes"));
        assert_int_equal(sum, json_integer_value(json_object_get(bottleneck, "bytes")));
        assert_int_equal(sum,
                         json_integer_value(json_object_get(json_object_get(json, "partial"), "peak_bytes")));
        json_decref(json);
        graph_free(graph);
    }
}

static void memory_that_is_too_little_is_refused(void **state)
{
    (void)state;
    struct graph *graph = known_graph("irb", "memory_that_is_too_little_is_refused");
    struct schedule_options options = schedule_defaults();
    options.axes = SCHEDULE_AXES_CHANNELS;
    struct error error;
    error_clear(&error);
    options.ram = 20617;
    assert_null(schedule_make(graph, &options, &error));
    assert_int_equal(error.status, STATUS_DOES_NOT_FIT);
    assert_int_equal(error.shortfall.need_bytes, 20618);
    graph_free(graph);
}

static void memory_beyond_all_boards_is_as_good_as_much(void **state)
{
    (void)state;
    struct graph *graph = known_graph("irb", "memory_beyond_all_boards_is_as_good_as_much");
    struct schedule_options options = schedule_defaults();
    options.ram = 1000000000;
    struct schedule *much = schedule_make(graph, &options, NULL);
    options.ram = INT64_MAX;
    struct schedule *more = schedule_make(graph, &options, NULL);
    assert_non_null(much);
    assert_non_null(more);
    assert_true(more->seconds <= much->seconds);
    schedule_free(much);
    schedule_free(more);
    graph_free(graph);
}

static void a_search_ends_when_the_server_does(void **state)
{
    (void)state;
    struct graph *graph = known_graph("irb", "a_search_ends_when_the_server_does");
    struct schedule_options options = schedule_defaults();
    struct error error;
    error_clear(&error);
    stop_ask(true);
    struct schedule *schedule = schedule_make(graph, &options, &error);
    stop_ask(false);
    assert_null(schedule);
    assert_int_equal(error.status, STATUS_BUSY);
    graph_free(graph);
}

static bool gone_the_second_time(const void *asked)
{
    int32_t *times = (int32_t *)(uintptr_t)asked;
    return ++*times >= 2;
}

static void a_search_ends_when_nobody_waits_for_it(void **state)
{
    (void)state;
    struct graph *graph = known_graph("mbv2_112", "a_search_ends_when_nobody_waits_for_it");
    struct schedule_options options = schedule_defaults();
    struct error error;
    error_clear(&error);
    options.extra_macs = 10;
    int32_t asked = 0;
    stop_watch(gone_the_second_time, &asked);
    struct schedule *schedule = schedule_make(graph, &options, &error);
    stop_watch(NULL, NULL);
    assert_null(schedule);
    assert_int_equal(error.status, STATUS_CANCELLED);
    assert_int_equal(asked, 2); /* not asked any more */
    schedule = schedule_make(graph, &options, NULL);
    assert_non_null(schedule);
    schedule_free(schedule);
    graph_free(graph);
}

static void more_memory_is_never_slower(void **state)
{
    static const char *const names[] = {"irb", "resnet8", "ds_cnn_l", "mbv2_112"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct graph *graph = known_graph(names[i], "more_memory_is_never_slower");
        struct schedule_options options = schedule_defaults();
        struct schedule *least = schedule_make(graph, &options, NULL);
        assert_non_null(least);
        double first = least->seconds, before = first;
        for (int32_t n = 0; n < 12; n++) {
            options.ram = least->peak_bytes + (int64_t)n * n * least->peak_bytes / 16;
            struct schedule *schedule = schedule_make(graph, &options, NULL);
            assert_non_null(schedule);
            assert_true(schedule->peak_bytes <= options.ram);
            double sum = 0;
            for (int32_t s = 0; s < schedule->n_steps; s++)
                sum += schedule->steps[s].seconds;
            assert_true(sum > 0.999999 * schedule->seconds && sum < 1.000001 * schedule->seconds);
            assert_true(n == 0 || schedule->seconds <= before * 1.001); /* the search is not exact */
            before = schedule->seconds;
            schedule_free(schedule);
        }
        schedule_free(least);
        graph_free(graph);
    }
}

static void times_are_those_of_the_profile_and_of_the_planner(void **state)
{
    (void)state;
    struct schedule_board good, slow;
    json_t *name = json_string("teensy41-good"), *other = json_string("teensy41-cautious");
    assert_int_equal(plan_schedule_board(name, &good, NULL), 0);
    assert_int_equal(plan_schedule_board(other, &slow, NULL), 0);
    assert_memory_equal(&good, schedule_board_default(), sizeof good);
    json_decref(name);
    json_decref(other);
    struct graph *graph = known_graph("mbv2_112", "times_are_those_of_the_profile_and_of_the_planner");
    struct plan_board board = *plan_profile("teensy41-good");
    struct plan_options single = {.strategy = PLAN_STRATEGY_SINGLE, .shares = PLAN_SHARES_EVEN};
    struct plan *plan = plan_make(graph, "", &board, 1, &single, NULL, NULL, NULL);
    assert_non_null(plan);
    struct schedule_options options = {.axes = SCHEDULE_AXES_FULL, .accumulator = 32, .board = &good};
    good.weight_ram_bytes = good.arena_bytes =
        0; /* nothing resident: the planner keeps none in spare arena */
    struct schedule *schedule = schedule_make(graph, &options, NULL);
    double ms = plan->computing_ms + plan->flash_ms + 1e3 * (double)plan->parties[0].resident_bytes / 40e6;
    assert_non_null(schedule);
    assert_true(1e3 * schedule->seconds > 0.99 * ms && 1e3 * schedule->seconds < 1.01 * ms);
    double before = schedule->seconds;
    schedule_free(schedule);
    options.board = &slow;
    schedule = schedule_make(graph, &options, NULL);
    assert_true(schedule->seconds > 1.5 * before);
    schedule_free(schedule);
    plan_free(plan);
    graph_free(graph);
}

/* ---- refusals ---- */

static void check_refused(const char *text, enum status status, const char *word)
{
    struct error error;
    error_clear(&error);
    char *quoted = strdup(text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *json = json_loads(quoted, 0, NULL);
    assert_non_null(json);
    assert_null(schedule_read(json, &error));
    if (error.status != status || !strstr(error.message, word))
        print_error("%s: %s\n", text, error.message);
    assert_int_equal(error.status, status);
    assert_non_null(strstr(error.message, word));
    json_decref(json);
    free(quoted);
}

#define TENSORS "'tensors':{'a':{'shape':[4,4,2]},'b':{'shape':[4,4,2]},'c':{'shape':[4,4,2]}}"
#define RELU(name, from, to) "{'name':'" name "','type':'relu','inputs':['" from "'],'output':'" to "'}"

static void bad_graphs_are_refused_with_the_place(void **state)
{
    (void)state;
    check_refused("{" TENSORS
                  ",'inputs':['a'],'outputs':['c'],'ops':[" RELU("x", "c", "b") "," RELU("y", "b", "c") "]}",
                  STATUS_MODEL_MALFORMED, "");
    check_refused("{" TENSORS ",'inputs':['a'],'outputs':['c'],'ops':[" RELU("x", "b", "c") "]}",
                  STATUS_MODEL_MALFORMED, "b");
    check_refused("{" TENSORS ",'inputs':['a'],'outputs':['d'],'ops':[" RELU("x", "a", "b") "]}",
                  STATUS_MODEL_MALFORMED, "'d'");
    check_refused("{" TENSORS
                  ",'inputs':['a'],'outputs':['b'],'ops':[{'name':'x','type':'conv','inputs':['a'],"
                  "'output':'b','s':[2,2]}]}",
                  STATUS_MODEL_MALFORMED, "2x2x2");
    check_refused("{" TENSORS
                  ",'inputs':['a'],'outputs':['b'],'ops':[{'name':'x','type':'conv','inputs':['a'],"
                  "'output':'b','stride':[1,1]}]}",
                  STATUS_MODEL_MALFORMED, "'stride'");
    check_refused("{" TENSORS
                  ",'inputs':['a'],'outputs':['b'],'ops':[{'name':'x','type':'lstm','inputs':['a'],"
                  "'output':'b'}]}",
                  STATUS_MODEL_UNSUPPORTED, "'lstm'");
    check_refused("{'tensors':{'a':{'shape':[4,-1,2]}},'inputs':['a'],'outputs':['a'],'ops':[1]}",
                  STATUS_MODEL_MALFORMED, "shape");
    check_refused("{'tensors':{'a':{'shape':[65535,65535,65535]}},'inputs':['a'],'outputs':['a'],'ops':[1]}",
                  STATUS_MODEL_LIMIT, "");
    check_refused("[]", STATUS_MODEL_MALFORMED, "object");
}

/* One operator x from a to b, with the shapes of a and b and what else stands in the operator. */
static void check_operator_refused(const char *a, const char *b, const char *more, enum status status,
                                   const char *word, const char *layer)
{
    char text[512];
    struct error error;
    error_clear(&error);
    (void)snprintf(
        text, sizeof text,
        "{\"tensors\":{\"a\":{\"shape\":%s},\"b\":{\"shape\":%s}},\"inputs\":[\"a\"],\"outputs\":[\"b\"],"
        "\"ops\":[{\"name\":\"x\",\"output\":\"b\",%s}]}",
        a, b, more);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_null(schedule_read(json, &error));
    if (error.status != status || !strstr(error.message, word) || strcmp(error.layer, layer) != 0)
        print_error("%s: %s at %s\n", text, error.message, error.layer);
    assert_int_equal(error.status, status);
    assert_non_null(strstr(error.message, word));
    assert_string_equal(error.layer, layer);
    json_decref(json);
}

static void what_is_wrong_is_named_with_its_tensor_or_operator(void **state)
{
    (void)state;
#define ON "\"inputs\":[\"a\"],\"type\":"
    const char *s = "[4,4,2]";
    check_operator_refused("[70000,1,2]", s, ON "\"relu\"", STATUS_MODEL_MALFORMED, "65535", "a");
    check_operator_refused("[1000000000000000000,1,2]", s, ON "\"relu\"", STATUS_MODEL_MALFORMED, "65535",
                           "a");
    check_operator_refused("[0,1,2]", s, ON "\"relu\"", STATUS_MODEL_LIMIT, "dimension", "a");
    check_operator_refused("[4.5,4,2]", s, ON "\"relu\"", STATUS_MODEL_MALFORMED, "integers", "a");
    check_operator_refused("\"4x4\"", s, ON "\"relu\"", STATUS_MODEL_MALFORMED, "integers", "a");
    check_operator_refused("[4,4]", s, ON "\"relu\"", STATUS_MODEL_MALFORMED, "3 integers", "a");
    check_operator_refused(s, "[65535,65535,65535]", ON "\"relu\"", STATUS_MODEL_LIMIT, "elements", "b");
    check_operator_refused(s, "[4,4,3]", ON "\"relu\"", STATUS_MODEL_MALFORMED, "4x4x2", "x");
    check_operator_refused(s, s, ON "\"conv\",\"s\":[0,0]", STATUS_MODEL_MALFORMED, "stride 0", "x");
    check_operator_refused(s, s, ON "\"conv\",\"k\":[60000,60000]", STATUS_MODEL_LIMIT, "weights", "x");
    check_operator_refused(s, s, ON "\"conv\",\"k\":3,\"dil\":60000", STATUS_MODEL_LIMIT, "60000", "x");
    check_operator_refused(s, s, ON "\"conv\",\"groups\":3", STATUS_MODEL_MALFORMED, "3 groups", "x");
    check_operator_refused("[1,1,65535]", "[1,1,65535]", ON "\"conv\"", STATUS_MODEL_LIMIT, "weights", "x");
    check_operator_refused(s, s, "\"inputs\":\"a\",\"type\":\"relu\"", STATUS_MODEL_MALFORMED, "'inputs'",
                           "x");
    check_operator_refused(s, s, "\"inputs\":[3],\"type\":\"relu\"", STATUS_MODEL_MALFORMED, "names", "x");
    check_operator_refused(s, s, "\"inputs\":[\"q\"],\"type\":\"relu\"", STATUS_MODEL_MALFORMED, "'q'", "x");
    check_operator_refused(s, s, "\"inputs\":[\"b\"],\"type\":\"relu\"", STATUS_MODEL_MALFORMED, "own output",
                           "x");
#undef ON
    check_refused("{" TENSORS
                  ",'inputs':['a'],'outputs':['c'],'ops':[" RELU("x", "a", "b") "," RELU("x", "b", "c") "]}",
                  STATUS_MODEL_MALFORMED, "two operators");
    check_refused("{" TENSORS
                  ",'inputs':['a'],'outputs':['b'],'ops':[" RELU("x", "a", "b") "," RELU("y", "a", "b") "]}",
                  STATUS_MODEL_MALFORMED, "written twice");
    check_refused("{" TENSORS ",'inputs':['a'],'outputs':['b'],'ops':[7]}", STATUS_MODEL_MALFORMED,
                  "operator 0");
    check_refused("{" TENSORS ",'inputs':['a'],'outputs':['b'],'ops':{}}", STATUS_MODEL_MALFORMED, "'ops'");
    check_refused("{'tensors':[],'inputs':['a'],'outputs':['b'],'ops':[" RELU("x", "a", "b") "]}",
                  STATUS_MODEL_MALFORMED, "'tensors'");
    check_refused("{" TENSORS ",'outputs':['b'],'ops':[" RELU("x", "a", "b") "]}", STATUS_MODEL_MALFORMED,
                  "'inputs'");
    check_refused("{" TENSORS ",'inputs':['a','c'],'outputs':['b'],'ops':[" RELU("x", "a", "b") "]}",
                  STATUS_MODEL_UNSUPPORTED, "nobody reads");
}

static void ten_thousand_operators_are_refused(void **state)
{
    (void)state;
    json_t *tensors = json_object(), *ops = json_array();
    for (int i = 0; i < 10000; i++) {
        char from[16], to[16];
        (void)snprintf(from, sizeof from, "t%d", i);
        (void)snprintf(to, sizeof to, "t%d", i + 1);
        if (i == 0)
            json_object_set_new(tensors, from, json_pack("{s:[i,i,i]}", "shape", 2, 2, 2));
        json_object_set_new(tensors, to, json_pack("{s:[i,i,i]}", "shape", 2, 2, 2));
        json_array_append_new(ops, json_pack("{s:s, s:s, s:[s], s:s}", "name", to, "type", "relu", "inputs",
                                             from, "output", to));
    }
    json_t *json = json_pack("{s:o, s:[s], s:[s], s:o}", "tensors", tensors, "inputs", "t0", "outputs",
                             "t10000", "ops", ops);
    struct error error;
    error_clear(&error);
    assert_null(schedule_read(json, &error));
    assert_int_equal(error.status, STATUS_MODEL_LIMIT);
    assert_int_equal(error.actual, 10000);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channel_loops_are_as_small_as_the_brute_force_finds),
        cmocka_unit_test(streamed_channel_loops_are_as_small_as_the_brute_force_finds),
        cmocka_unit_test(the_search_in_one_order_is_never_below_the_brute_force_and_mostly_as_low),
        cmocka_unit_test(row_segments_read_only_rows_that_are_there_and_stay_within_their_peak),
        cmocka_unit_test(patches_count_every_mac_again_and_hold_what_later_tiles_need),
        cmocka_unit_test(known_networks_take_the_published_memory_by_channels),
        cmocka_unit_test(known_networks_take_less_by_rows_and_by_running_twice),
        cmocka_unit_test(bottleneck_adds_up_to_the_peak),
        cmocka_unit_test(memory_that_is_too_little_is_refused),
        cmocka_unit_test(memory_beyond_all_boards_is_as_good_as_much),
        cmocka_unit_test(a_search_ends_when_the_server_does),
        cmocka_unit_test(a_search_ends_when_nobody_waits_for_it),
        cmocka_unit_test(more_memory_is_never_slower),
        cmocka_unit_test(times_are_those_of_the_profile_and_of_the_planner),
        cmocka_unit_test(bad_graphs_are_refused_with_the_place),
        cmocka_unit_test(what_is_wrong_is_named_with_its_tensor_or_operator),
        cmocka_unit_test(ten_thousand_operators_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
