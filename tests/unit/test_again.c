/*
 * Operators that run twice: the search against trying everything. On small networks with global pools every
 * set of operators is tried as a step by rows, and of each every part that only feeds the rest and runs once
 * more later; of all ways through the least peak within a budget of extra MACs is taken. What one step takes
 * is the scheduler's own count (test_schedule_judge.c judges that): what is tried here is the choice.
 */
#include "server/schedule/internal.h"

#include "server/schedule/read.h"
#include "tests/support/judge.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OPS_MAX = 8, WAYS_MAX = 64, NETWORKS = 300 };

/* Of all ways to a set of operators done those that no other one beats in both. */
struct ways {
    int64_t peak[WAYS_MAX], extra[WAYS_MAX];
    int32_t n;
};

struct brute {
    const struct net *net;
    struct schedule_options options;
    int64_t budget;
    struct ways ways[1 << OPS_MAX]; /* by the set of operators done */
};

static void add_way(struct ways *ways, int64_t peak, int64_t extra)
{
    int32_t n = 0;
    for (int32_t i = 0; i < ways->n; i++)
        if (ways->peak[i] <= peak && ways->extra[i] <= extra)
            return;
    for (int32_t i = 0; i < ways->n; i++)
        if (ways->peak[i] < peak || ways->extra[i] < extra) {
            ways->peak[n] = ways->peak[i];
            ways->extra[n++] = ways->extra[i];
        }
    assert_true(n < WAYS_MAX);
    ways->peak[n] = peak;
    ways->extra[n] = extra;
    ways->n = n + 1;
}

static void take(struct brute *b, uint32_t from, uint32_t to, const struct move *move)
{
    const struct ways *ways = &b->ways[from];
    for (int32_t i = 0; i < ways->n; i++) {
        int64_t peak = move_peak(move) > ways->peak[i] ? move_peak(move) : ways->peak[i];
        if (ways->extra[i] + move->extra_macs <= b->budget)
            add_way(&b->ways[to], peak, ways->extra[i] + move->extra_macs);
    }
}

/* Adds those of `set` to ops in an order in which they can run; false: there is none. */
static bool add_in_order(const struct net *net, uint32_t there, uint32_t set, int32_t *ops, int32_t *n)
{
    while (set) {
        int32_t next = -1;
        for (int32_t o = 0; o < net->n_ops && next < 0; o++) {
            done_word done[1] = {there};
            if (set >> o & 1 && net_ready(net, done, o))
                next = o;
        }
        if (next < 0)
            return false;
        set &= ~(1u << next);
        there |= 1u << next;
        ops[(*n)++] = next;
    }
    return true;
}

/* Every part of `set` that may run only for the rest. */
static void try_set(struct brute *b, uint32_t done, uint32_t set)
{
    done_word before[1] = {done};
    for (uint32_t again = (set - 1) & set;; again = (again - 1) & set) {
        int32_t ops[OPS_MAX], n = 0;
        struct move move;
        if (add_in_order(b->net, done, again, ops, &n)) {
            int32_t twice = n;
            if (add_in_order(b->net, done | again, set & ~again, ops, &n) &&
                rows_move(b->net, before, &b->options, ops, n, twice, &move))
                take(b, done, done | (set & ~again), &move);
        }
        if (again == 0)
            return;
    }
}

static int64_t brute_peak(struct brute *b)
{
    uint32_t all = (1u << b->net->n_ops) - 1;
    for (uint32_t done = 0; done <= all; done++)
        b->ways[done].n = 0;
    add_way(&b->ways[0], 0, 0);
    for (uint32_t done = 0; done < all; done++) {
        done_word before[1] = {done};
        for (int32_t o = 0; o < b->net->n_ops && b->ways[done].n; o++) {
            struct move move;
            if (!net_ready(b->net, before, o))
                continue;
            loops_full(b->net, before, &b->options, o, &move);
            take(b, done, done | 1u << o, &move);
        }
        for (uint32_t set = all & ~done; set && b->ways[done].n; set = (set - 1) & all & ~done)
            try_set(b, done, set);
    }
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < b->ways[all].n; i++)
        least = b->ways[all].peak[i] < least ? b->ways[all].peak[i] : least;
    return least;
}

/* ---- random networks in which something is made for a global pool and read once more ---- */

struct writer {
    struct prng prng;
    json_t *tensors, *ops;
    struct shape shape[OPS_MAX + 1];
    int32_t n;
};

static const char *const names[OPS_MAX + 1] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"};

static int32_t add_tensor(struct writer *w, struct shape shape)
{
    json_object_set_new(w->tensors, names[w->n],
                        json_pack("{s:[i,i,i]}", "shape", shape.h, shape.w, shape.c));
    w->shape[w->n] = shape;
    return w->n++;
}

/* `b`: -1, or the second input. */
static int32_t add_op(struct writer *w, const char *type, int32_t a, int32_t b, int32_t k, int32_t s,
                      int32_t c)
{
    struct shape in = w->shape[a], out = {(in.h + s - 1) / s, (in.w + s - 1) / s, c};
    if (strcmp(type, "gap") == 0)
        out.h = out.w = 1;
    int32_t to = add_tensor(w, out);
    json_t *inputs = json_pack("[s]", names[a]);
    if (b >= 0)
        json_array_append_new(inputs, json_string(names[b]));
    json_array_append_new(w->ops, json_pack("{s:s, s:s, s:o, s:s, s:i, s:i}", "name", names[to], "type", type,
                                            "inputs", inputs, "output", names[to], "k", k, "s", s));
    return to;
}

/* Some operators, squeeze and excite, some more. */
static struct graph *random_network(uint64_t seed)
{
    struct writer w = {.prng = prng_seed(seed), .tensors = json_object(), .ops = json_array()};
    int32_t c = prng_range(&w.prng, 1, 4), side = prng_range(&w.prng, 4, 9);
    int32_t x = add_tensor(&w, (struct shape){side, prng_range(&w.prng, 3, 6), c}), wide = x;
    for (int32_t i = prng_range(&w.prng, 1, 2); i > 0; i--)
        if (wide > x && prng_one_in(&w.prng, 2))
            wide = add_op(&w, "dw", wide, -1, 3, prng_range(&w.prng, 1, 2), w.shape[wide].c);
        else
            wide = add_op(&w, "conv", wide, -1, prng_one_in(&w.prng, 2) ? 3 : 1,
                          prng_one_in(&w.prng, 4) ? 2 : 1, c * prng_range(&w.prng, 1, 6));
    int32_t deep = w.shape[wide].c;
    int32_t gate = add_op(&w, "conv", add_op(&w, "gap", wide, -1, 1, 1, deep), -1, 1, 1, deep);
    int32_t y = add_op(&w, "mul", wide, gate, 1, 1, deep);
    for (int32_t i = prng_range(&w.prng, 1, 2); i > 0; i--)
        y = add_op(&w, prng_one_in(&w.prng, 5) ? "dw" : "conv", y, -1, prng_one_in(&w.prng, 2) ? 3 : 1, 1,
                   w.shape[y].c);
    y = add_op(&w, "conv", y, -1, 1, prng_range(&w.prng, 1, 2), prng_range(&w.prng, 1, 3));
    json_t *json = json_pack("{s:s, s:o, s:o, s:[s], s:[s]}", "name", "random", "tensors", w.tensors, "ops",
                             w.ops, "inputs", names[x], "outputs", names[y]);
    struct error error;
    struct graph *graph = schedule_read(json, &error);
    json_decref(json);
    if (!graph)
        fail_msg("%s at %s", error.message, error.layer);
    return graph;
}

/* ---- the search ---- */

static int64_t search_peak(const struct graph *graph, const struct schedule_options *options, int32_t *again)
{
    char reason[256];
    int32_t cautious;
    struct schedule *schedule = schedule_make(graph, options, NULL);
    assert_non_null(schedule);
    if (!judge_schedule(graph, options, schedule, &cautious, reason, sizeof reason))
        fail_msg("%s", reason);
    for (int32_t s = 0; s < schedule->n_steps; s++)
        *again += schedule->steps[s].again > 0;
    int64_t peak = schedule->peak_bytes;
    schedule_free(schedule);
    return peak;
}

static void running_twice_is_found_as_trying_everything_finds_it(void **state)
{
    static const int32_t percents[] = {100, 60, 25};
    struct brute *b = calloc(1, sizeof *b);
    int32_t gains = 0, again = 0;
    (void)state;
    assert_non_null(b);
    for (uint64_t seed = 0; seed < NETWORKS; seed++) {
        struct graph *graph = random_network(seed);
        struct net *net = schedule_net(graph, false);
        assert_non_null(net);
        assert_true(net->n_ops <= OPS_MAX);
        b->net = net;
        b->options = (struct schedule_options){.axes = SCHEDULE_AXES_ROWS, .accumulator = 32};
        int64_t macs = 0;
        for (int32_t o = 0; o < net->n_ops; o++)
            macs += net->ops[o].macs;
        b->budget = 0;
        int64_t once = brute_peak(b);
        b->options.extra_macs = percents[seed % 3];
        b->budget = macs * percents[seed % 3] / 100;
        int64_t twice = brute_peak(b);
        int64_t found = search_peak(graph, &b->options, &again);
        if (found != twice)
            print_message("seed %d: %lld, %lld trying everything, %lld once\n", (int)seed, (long long)found,
                          (long long)twice, (long long)once);
        assert_int_equal(found, twice);
        gains += twice < once;
        schedule_net_free(net);
        graph_free(graph);
    }
    free(b);
    print_message("running twice gains in %d of %d networks\n", gains, NETWORKS);
    assert_true(gains > NETWORKS / 5 && again >= gains);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_twice_is_found_as_trying_everything_finds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
