/* Split equals whole: plans of random graphs and of real models, walked from their emitted fragments. */
#include "server/emit/emit.h"
#include "server/model/reference.h"
#include "server/schedule/json.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"
#include "tests/support/split_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void make_boards(struct prng *prng, struct plan_board *boards, int32_t n)
{
    for (int32_t b = 0; b < n; b++) {
        boards[b] = *plan_profile(prng_one_in(prng, 2) ? "teensy41-good" : "teensy41-cautious");
        boards[b].clock_hz *= 0.1 + prng_unit(prng);
        boards[b].bandwidth_kb_per_s *= 0.1 + prng_unit(prng);
        boards[b].weight_ram_bytes = prng_range(prng, 0, 4) * 1000;
        boards[b].layouts = prng_one_in(prng, 2) ? NN_LAYOUT_MASK_ALL : NN_LAYOUT_MASK_PLAIN;
        snprintf(boards[b].name, sizeof boards[b].name, "board-%d", b + 1);
    }
}

/* Runs a plan from its fragments and compares with the reference. */
static void check_plan(struct plan *plan, const struct graph *graph, uint64_t seed, const char *what)
{
    struct error error;
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    struct emit_fragment *fragments = NULL;
    void *input = random_input(graph, seed, &in_bytes);
    uint8_t *whole = malloc(out_bytes), *split = calloc(1, out_bytes);
    error_clear(&error);
    if (reference_run(graph, input, in_bytes, whole, out_bytes, &error) < 0)
        fail_msg("seed %llu, %s: reference: %s", (unsigned long long)seed, what, error.message);
    if (emit_plan(plan, &fragments, &error) < 0)
        fail_msg("seed %llu, %s: emit: %s", (unsigned long long)seed, what, error.message);
    for (int32_t b = 0; b < plan->n_boards; b++)
        assert_int_equal(fragments[b].size > 0, plan->parties[b].used);
    int status = split_run(plan, fragments, seed, input, in_bytes, split, out_bytes, &error);
    if (status < 0)
        fail_msg("seed %llu, %s: run: %s", (unsigned long long)seed, what, status_name(status));
    if (memcmp(whole, split, out_bytes) != 0)
        fail_msg("seed %llu, %s, %d boards, shares %s: split differs from whole", (unsigned long long)seed,
                 what, plan->n_boards, plan_shares_name(plan->options.shares));
    emit_free(fragments, plan->n_boards);
    free(input);
    free(whole);
    free(split);
}

static struct plan *must_plan(const struct graph *graph, uint64_t seed, const struct plan_board *boards,
                              int32_t n, struct plan_options options)
{
    struct error error;
    struct plan *plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
    if (!plan)
        fail_msg("seed %llu, %d boards: plan: %s", (unsigned long long)seed, n, error.message);
    return plan;
}

static void split_of_random_graphs_equals_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct prng prng = prng_seed(seed);
        struct plan_board boards[16];
        int32_t n = prng_range(&prng, 1, 16);
        struct plan_options options = {.strategy = prng_one_in(&prng, 8) ? PLAN_STRATEGY_SINGLE
                                                                         : PLAN_STRATEGY_NEURON,
                                       .shares = (enum plan_shares)prng_range(&prng, 0, 2)};
        struct graph *graph = random_graph(seed, NULL);
        make_boards(&prng, boards, n);
        struct plan *plan = must_plan(graph, seed, boards, n, options);
        check_plan(plan, graph, seed, "any memory");
        plan_free(plan);
        graph_free(graph);
    }
}

/* One board after another loses memory until the plan is refused: whatever is still made is exact and fits.
 */
static void split_within_tight_memory_equals_whole(void **state)
{
    int32_t made = 0, refused = 0;
    (void)state;
    for (uint64_t seed = 1000; seed < 1020; seed++) {
        struct prng prng = prng_seed(seed);
        struct plan_board boards[6];
        int32_t n = prng_range(&prng, 2, 6);
        struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON,
                                       .shares = (enum plan_shares)prng_range(&prng, 0, 2)};
        struct graph *graph = random_graph(seed, NULL);
        make_boards(&prng, boards, n);
        struct plan *plan = must_plan(graph, seed, boards, n, options);
        while (plan) {
            int32_t b = prng_range(&prng, 0, n - 1);
            struct error error;
            if (prng_one_in(&prng, 2))
                boards[b].arena_bytes = plan->parties[b].arena_bytes * 9 / 10 + 1;
            else
                boards[b].flash_bytes = plan->parties[b].fragment_bytes * 3 / 4 + 1;
            plan_free(plan);
            plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
            if (!plan) {
                assert_int_equal(error.status, STATUS_DOES_NOT_FIT);
                assert_true(error.shortfall.need_bytes > error.shortfall.have_bytes);
                refused++;
                break;
            }
            for (int32_t i = 0; i < n; i++) {
                assert_true(plan->parties[i].arena_bytes <= boards[i].arena_bytes);
                assert_true(plan->parties[i].fragment_bytes <= boards[i].flash_bytes);
            }
            check_plan(plan, graph, seed, "tight memory");
            made++;
        }
        graph_free(graph);
    }
    assert_int_equal(refused, 20);
    assert_true(made > 20);
}

/* What emit writes is never larger than what planning promised, and hardly smaller. */
static void check_bounds(struct plan *plan, uint64_t seed)
{
    struct error error;
    struct emit_fragment *fragments;
    int64_t bound[8];
    for (int32_t b = 0; b < plan->n_boards; b++)
        bound[b] = plan->parties[b].fragment_bytes;
    assert_int_equal(emit_plan(plan, &fragments, &error), 0);
    for (int32_t b = 0; b < plan->n_boards; b++) {
        if (fragments[b].size > bound[b] ||
            (plan->parties[b].used && fragments[b].size * 1.03 < (double)bound[b]))
            fail_msg("seed %llu, board %d%s: %u bytes, planned were %lld", (unsigned long long)seed, b,
                     plan->parties[b].program ? ", a schedule" : "", fragments[b].size, (long long)bound[b]);
        assert_int_equal(plan->parties[b].fragment_bytes,
                         plan->parties[b].used ? fragments[b].size : bound[b]);
    }
    emit_free(fragments, plan->n_boards);
}

static void split_fragments_are_within_three_percent_of_the_plans_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 2000; seed < 2060; seed++) {
        struct prng prng = prng_seed(seed);
        struct plan_board boards[8];
        struct graph *graph = random_graph(seed, NULL);
        make_boards(&prng, boards, 8);
        struct plan *plan =
            must_plan(graph, seed, boards, 8, (struct plan_options){.strategy = PLAN_STRATEGY_NEURON});
        check_bounds(plan, seed);
        plan_free(plan);
        graph_free(graph);
    }
}

static void fragments_of_schedules_are_within_three_percent_of_the_plans_bound(void **state)
{
    int32_t made = 0;
    (void)state;
    for (uint64_t seed = 3000; seed < 3060; seed++) {
        struct error error;
        struct graph *graph = random_graph(seed, NULL);
        struct schedule_options options = schedule_defaults();
        struct schedule *schedule = schedule_make(graph, &options, &error);
        struct plan *plan =
            schedule ? plan_scheduled(graph, "", plan_profile("teensy41-good"), schedule, &options, &error)
                     : NULL;
        if (plan) {
            check_bounds(plan, seed);
            made++;
        }
        plan_free(plan);
        schedule_free(schedule);
        graph_free(graph);
    }
    assert_true(made > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_of_random_graphs_equals_whole),
        cmocka_unit_test(split_within_tight_memory_equals_whole),
        cmocka_unit_test(split_fragments_are_within_three_percent_of_the_plans_bound),
        cmocka_unit_test(fragments_of_schedules_are_within_three_percent_of_the_plans_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
