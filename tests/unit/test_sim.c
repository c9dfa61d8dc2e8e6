/* Plans on virtual boards: the board's own core, real frames and the conductor give what the reference
 * executor gives. */
#include "server/model/reference.h"
#include "server/sim/local.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct plan_board boards[16];

static void make_boards(struct prng *prng, int32_t n, bool uneven)
{
    for (int32_t b = 0; b < n; b++) {
        boards[b] = *plan_profile("teensy41-good");
        if (uneven)
            boards[b].clock_hz *= 0.1 + prng_unit(prng);
        snprintf(boards[b].name, sizeof boards[b].name, "board-%d", b + 1);
    }
}

struct made {
    struct plan *plan;
    struct emit_fragment *fragments;
    int32_t n;
};

static struct made make(const struct graph *graph, int32_t n, enum plan_shares shares, const char *what)
{
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON, .shares = shares};
    struct made made = {.n = n};
    struct error error;
    error_clear(&error);
    made.plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
    if (made.plan == NULL)
        fail_msg("%s: plan: %s", what, error.message);
    if (emit_plan(made.plan, &made.fragments, &error) < 0)
        fail_msg("%s: emit: %s", what, error.message);
    return made;
}

static void unmake(struct made *made)
{
    emit_free(made->fragments, made->n);
    plan_free(made->plan);
}

static void check_split_equals_whole(uint64_t seed, int32_t n, bool uneven)
{
    struct prng prng = prng_seed(seed);
    struct graph *graph = random_graph(seed, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    void *input = random_input(graph, seed, &in_bytes);
    uint8_t *whole = malloc(out_bytes), *split = calloc(1, out_bytes);
    static struct sim_local_result result;
    struct error error;
    char what[64];
    snprintf(what, sizeof what, "seed %llu, %d boards", (unsigned long long)seed, n);
    error_clear(&error);
    make_boards(&prng, n, uneven);
    struct made made = make(graph, n, uneven ? PLAN_SHARES_RATING : PLAN_SHARES_EVEN, what);
    assert_int_equal(reference_run(graph, input, in_bytes, whole, out_bytes, &error), 0);
    if (sim_local_run(made.plan, made.fragments, input, in_bytes, split, out_bytes, &result, &error) < 0)
        fail_msg("%s: %s", what, error.message);
    if (memcmp(whole, split, out_bytes) != 0)
        fail_msg("%s: split differs from whole", what);
    assert_int_equal(result.bytes_moved, made.plan->bytes_moved);
    for (int32_t b = 0; b < n; b++) {
        assert_int_equal(result.party[b].used, made.fragments[b].size > 0);
        assert_true(result.party[b].arena_high_water <= result.party[b].arena_bytes);
        assert_true(!result.party[b].used ||
                    result.party[b].arena_bytes == made.plan->parties[b].arena_bytes);
    }
    unmake(&made);
    graph_free(graph);
    free(input);
    free(whole);
    free(split);
}

static void random_graphs_on_1_to_16_boards_equal_the_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++)
        check_split_equals_whole(seed, (int32_t)(seed % 16 + 1), seed % 2 == 1);
}

static void one_fleet_answers_several_inferences(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    struct graph *graph = random_graph(11, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    uint8_t *whole = malloc(out_bytes), *split = malloc(out_bytes);
    struct error error;
    error_clear(&error);
    make_boards(&prng, 3, false);
    struct made made = make(graph, 3, PLAN_SHARES_EVEN, "seed 11");
    struct sim_local *sim = sim_local_open(made.plan, made.fragments, &error);
    assert_non_null(sim);
    for (uint64_t i = 0; i < 5; i++) {
        void *input = random_input(graph, i, &in_bytes);
        assert_int_equal(reference_run(graph, input, in_bytes, whole, out_bytes, &error), 0);
        assert_int_equal(sim_local_infer(sim, input, in_bytes, split, out_bytes, NULL, &error), 0);
        assert_memory_equal(whole, split, out_bytes);
        free(input);
    }
    assert_int_equal(sim_local_infer(sim, whole, 0, split, out_bytes, NULL, &error), STATUS_INPUT_SIZE);
    sim_local_close(sim);
    unmake(&made);
    graph_free(graph);
    free(whole);
    free(split);
}

static void damaged_fragment_is_refused_by_its_board_by_name(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    struct graph *graph = random_graph(11, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    void *input = random_input(graph, 1, &in_bytes);
    uint8_t *split = malloc(out_bytes);
    struct error error;
    error_clear(&error);
    make_boards(&prng, 2, false);
    struct made made = make(graph, 2, PLAN_SHARES_EVEN, "seed 11");
    made.fragments[1].bytes[made.fragments[1].size - 1] ^= 1;
    int status = sim_local_run(made.plan, made.fragments, input, in_bytes, split, out_bytes, NULL, &error);
    assert_int_equal(status, STATUS_HASH_MISMATCH);
    assert_non_null(strstr(error.message, "board-2"));
    unmake(&made);
    graph_free(graph);
    free(input);
    free(split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_on_1_to_16_boards_equal_the_reference),
        cmocka_unit_test(one_fleet_answers_several_inferences),
        cmocka_unit_test(damaged_fragment_is_refused_by_its_board_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
