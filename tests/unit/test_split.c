/* Split equals whole: plans of random graphs and of real models, walked from their emitted fragments. */
#include "server/emit/emit.h"
#include "server/model/reference.h"
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
        snprintf(boards[b].name, sizeof boards[b].name, "board-%d", b + 1);
    }
}

static void check(const struct graph *graph, uint64_t seed, const struct plan_board *boards, int32_t n,
                  struct plan_options options)
{
    struct error error;
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    struct emit_fragment *fragments = NULL;
    void *input = random_input(graph, seed, &in_bytes);
    uint8_t *whole = malloc(out_bytes), *split = calloc(1, out_bytes);
    error_clear(&error);
    if (reference_run(graph, input, in_bytes, whole, out_bytes, &error) < 0)
        fail_msg("seed %llu: reference: %s", (unsigned long long)seed, error.message);
    error_clear(&error);
    struct plan *plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
    if (!plan)
        fail_msg("seed %llu, %d boards: plan: %s", (unsigned long long)seed, n, error.message);
    if (emit_plan(plan, &fragments, &error) < 0)
        fail_msg("seed %llu, %d boards: emit: %s", (unsigned long long)seed, n, error.message);
    for (int32_t b = 0; b < n; b++)
        assert_int_equal(fragments[b].size > 0, plan->parties[b].used);
    int status = split_run(plan, fragments, seed, input, in_bytes, split, out_bytes, &error);
    if (status < 0)
        fail_msg("seed %llu, %d boards: run: %s", (unsigned long long)seed, n, status_name(status));
    if (memcmp(whole, split, out_bytes) != 0)
        fail_msg("seed %llu, %d boards, shares %s: split differs from whole", (unsigned long long)seed, n,
                 plan_shares_name(options.shares));
    emit_free(fragments, n);
    plan_free(plan);
    free(input);
    free(whole);
    free(split);
}

static void split_of_random_graphs_equals_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct prng prng = prng_seed(seed);
        struct plan_board boards[16];
        int32_t n = prng_range(&prng, 1, 16);
        struct plan_options options = {.strategy = prng_one_in(&prng, 8) ? PLAN_STRATEGY_SINGLE
                                                                         : PLAN_STRATEGY_NEURON,
                                       .shares = (enum plan_shares)prng_range(&prng, 0, 2)};
        struct graph *graph = random_graph(seed, NULL);
        make_boards(&prng, boards, n);
        check(graph, seed, boards, n, options);
        graph_free(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_of_random_graphs_equals_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
