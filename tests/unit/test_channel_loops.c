/*
 * The scheduler of channel loops against a brute force: every order of the operators of small random graphs,
 * every cut of it into loops, every choice of overwriting.
 */
#include "server/model/optable.h"
#include "server/schedule/cost.h"
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

/* Memory: blocks with a first and a last moment. */
struct brute {
    const struct graph *graph;
    int32_t bits;
    bool streamed;
    int64_t memo[1 << SMALL_OPS]; /* least peak of what remains; -1: not known */
    uint32_t before;              /* operators done before the loop */
    int32_t loop[SMALL_OPS], n;
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
    struct block saved[SMALL_TENSORS];
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
    struct block blocks[SMALL_TENSORS] = {{0}};
    int32_t block_of[SMALL_TENSORS], parts = iterations(b);
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

static void channel_loops_are_as_small_as_the_brute_force_finds(void **state)
{
    (void)state;
    int32_t better = 0, rounds = 400;
    for (int32_t seed = 0; seed < rounds; seed++) {
        json_t *json = small_network((uint64_t)seed);
        char *text = json_dumps(json, 0);
        struct graph *graph = small_graph_of(json);
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

/* Five outputs at several depths: with channel loops too many states to try everything. */
static void channel_loops_take_no_more_than_operator_by_operator(void **state)
{
    static const char text[] =
        "{'name': 'heads', 'inputs': ['x'], 'outputs': ['fc17', 'fc19', 'concat13', 'fc21', 'conv8'],"
        " 'tensors': {'x': {'shape': [7, 7, 3]}, 'conv1': {'shape': [7, 7, 3]}, 'add2': {'shape': [7,"
        " 7, 3]}, 'dw3': {'shape': [7, 7, 3]}, 'dw4': {'shape': [3, 3, 3]}, 'add5': {'shape': [7, 7, "
        "3]}, 'conv6': {'shape': [7, 7, 18]}, 'dw7': {'shape': [7, 7, 18]}, 'conv8': {'shape': [7, 7,"
        " 3]}, 'dw10': {'shape': [4, 4, 3]}, 'conv11': {'shape': [4, 4, 16]}, 'conv12': {'shape': [4,"
        " 4, 48]}, 'concat13': {'shape': [4, 4, 67]}, 'conv14': {'shape': [4, 4, 16]}, 'add15': "
        "{'shape': [4, 4, 16]}, 'gap16': {'shape': [1, 1, 3]}, 'fc17': {'shape': [1, 1, 5]}, 'gap18':"
        " {'shape': [1, 1, 3]}, 'fc19': {'shape': [1, 1, 5]}, 'gap20': {'shape': [1, 1, 16]}, 'fc21':"
        " {'shape': [1, 1, 5]}}, 'ops': [{'name': 'conv1', 'type': 'conv', 'inputs': ['x'], 'output':"
        " 'conv1', 'k': 3}, {'name': 'add2', 'type': 'add', 'inputs': ['conv1', 'x'], 'output': "
        "'add2'}, {'name': 'dw3', 'type': 'dw', 'inputs': ['add2'], 'output': 'dw3', 'k': [1, 3]}, "
        "{'name': 'dw4', 'type': 'dw', 'inputs': ['x'], 'output': 'dw4', 'k': 3, 's': 2, 'pad': "
        "'valid'}, {'name': 'add5', 'type': 'add', 'inputs': ['dw3', 'x'], 'output': 'add5'}, "
        "{'name': 'conv6', 'type': 'conv', 'inputs': ['dw3'], 'output': 'conv6'}, {'name': 'dw7', "
        "'type': 'dw', 'inputs': ['conv6'], 'output': 'dw7', 'k': 3}, {'name': 'conv8', 'type': "
        "'conv', 'inputs': ['dw7'], 'output': 'conv8'}, {'name': 'dw10', 'type': 'dw', 'inputs': "
        "['dw3'], 'output': 'dw10', 's': 2}, {'name': 'conv11', 'type': 'conv', 'inputs': ['dw10'], "
        "'output': 'conv11', 'k': 3}, {'name': 'conv12', 'type': 'conv', 'inputs': ['dw10'], "
        "'output': 'conv12', 'k': 3}, {'name': 'concat13', 'type': 'concat', 'inputs': ['conv11', "
        "'dw10', 'conv12'], 'output': 'concat13'}, {'name': 'conv14', 'type': 'conv', 'inputs': "
        "['conv11'], 'output': 'conv14', 'k': 3}, {'name': 'add15', 'type': 'add', 'inputs': "
        "['conv14', 'conv11'], 'output': 'add15'}, {'name': 'gap16', 'type': 'gap', 'inputs': "
        "['dw4'], 'output': 'gap16'}, {'name': 'fc17', 'type': 'fc', 'inputs': ['gap16'], 'output': "
        "'fc17'}, {'name': 'gap18', 'type': 'gap', 'inputs': ['add5'], 'output': 'gap18'}, {'name': "
        "'fc19', 'type': 'fc', 'inputs': ['gap18'], 'output': 'fc19'}, {'name': 'gap20', 'type': "
        "'gap', 'inputs': ['add15'], 'output': 'gap20'}, {'name': 'fc21', 'type': 'fc', 'inputs': "
        "['gap20'], 'output': 'fc21'}]}";
    (void)state;
    json_error_t reason;
    char *proper = strdup(text);
    assert_non_null(proper);
    for (char *at = proper; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    struct graph *graph = small_graph_of(json_loads(proper, 0, &reason));
    int64_t whole = search_peak(graph, SCHEDULE_AXES_FULL, 32);
    assert_true(search_peak(graph, SCHEDULE_AXES_CHANNELS, 32) <= whole);
    assert_true(search_peak(graph, SCHEDULE_AXES_CHANNELS, 8) <= whole);
    free(proper);
    graph_free(graph);
}

static void streamed_channel_loops_are_as_small_as_the_brute_force_finds(void **state)
{
    (void)state;
    int32_t less = 0;
    for (uint64_t seed = 500; seed < 800; seed++) {
        struct graph *graph = small_graph_of(small_network(seed));
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
        struct graph *graph = small_graph_of(small_network(seed));
        struct net *net = schedule_net(graph, false);
        int32_t order[SMALL_OPS];
        struct schedule_options options = {.axes = SCHEDULE_AXES_CHANNELS, .accumulator = 32};
        struct search_result result;
        assert_non_null(net);
        assert_true(order_find(net, order) && order_apply(net, order));
        cost_prepare(net, schedule_board_default());
        assert_true(search_run(net, &options, true, INT64_MAX, &result));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channel_loops_are_as_small_as_the_brute_force_finds),
        cmocka_unit_test(channel_loops_take_no_more_than_operator_by_operator),
        cmocka_unit_test(streamed_channel_loops_are_as_small_as_the_brute_force_finds),
        cmocka_unit_test(the_search_in_one_order_is_never_below_the_brute_force_and_mostly_as_low),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
