/*
 * Partial execution is exact: schedules of random graphs, lowered, packed, emitted, checked and walked, equal
 * the reference executor bit for bit, within the arena that the plan states.
 */
#include "server/emit/emit.h"
#include "server/model/reference.h"
#include "server/schedule/internal.h"
#include "shared/vm/vm.h"
#include "tests/support/painted_run.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef SHOAL_SANITIZE
enum { EVERY = 4 }; /* of the seeds */
#else
enum { EVERY = 1 };
#endif

static const char *const modes[] = {"full", "channels", "rows", "patches"};

struct tally {
    int32_t steps[4], tall[4], rings, inner[4], inner_rings, joined, again, plans, inputs, outputs,
        met; /* met: arena at most peak and scratch, to alignment */
    int64_t peak, arena, scratch;
};

static void tally_up(struct tally *tally, const struct schedule *schedule, const struct plan *plan)
{
    const struct plan_party *party = &plan->parties[0];
    for (int32_t s = 0; s < schedule->n_steps; s++) {
        tally->steps[schedule->steps[s].mode]++;
        tally->tall[schedule->steps[s].mode] += schedule->steps[s].tall;
        tally->again += schedule->steps[s].again > 0;
        tally->joined += schedule->joined[schedule->steps[s].ops[0]];
        tally->rings += schedule->steps[s].mode == SCHEDULE_CHANNELS && schedule->steps[s].rows;
        for (int32_t i = 0; i < schedule->steps[s].n_inner; i++) {
            const struct schedule_step *inner = &schedule->steps[s].inner[i];
            tally->inner[inner->mode]++;
            tally->inner_rings += inner->mode == SCHEDULE_CHANNELS && inner->rows;
        }
    }
    tally->plans++;
    tally->inputs += plan->graph->n_inputs > 1;
    tally->outputs += plan->graph->n_outputs > 1;
    tally->peak += party->peak_bytes;
    tally->arena += party->arena_bytes;
    tally->scratch += party->scratch_bytes;
    tally->met += party->arena_bytes <= party->peak_bytes + party->scratch_bytes + 31;
}

static void print_steps(const struct graph *graph, const struct schedule *schedule)
{
    for (int32_t s = 0; s < schedule->n_steps; s++) {
        const struct schedule_step *step = &schedule->steps[s];
        print_message("%-8s k %d again %d tile %dx%d:", modes[step->mode], step->k, step->again, step->tile_h,
                      step->tile_w);
        for (int32_t i = 0; i < step->n_ops; i++) {
            const struct op *op = &graph->ops[step->ops[i]];
            struct shape out = graph->tensors[op->output].shape;
            print_message(" %d:%s(", step->ops[i], op->name);
            for (int32_t j = 0; j < op->n_inputs; j++)
                print_message("t%d ", op->inputs[j]);
            print_message(")->t%d %dx%dx%d", op->output, out.h, out.w, out.c);
        }
        print_message("\n");
    }
}

/* What the plan predicts is what the walker counts in the fragment, but for kinds of convolutions that the
 * two tell apart differently. */
static void check_time(const struct plan *plan, const struct emit_fragment *image)
{
    const struct plan_board *board = &plan->boards[0];
    struct fragment fragment;
    struct fragment_place place;
    struct vm_cost cost = {.executions = 0};
    struct vm vm;
    uint32_t rank;
    assert_int_equal(fragment_open(&fragment, image->bytes, image->size, &place), 0);
    vm_start(&vm, &fragment, (struct vm_memory){0}, (struct vm_io){0});
    while (vm_cost(&vm, &cost, &rank) == VM_WAITING)
        ;
    double seconds = (double)cost.elements / board->element_per_cycle;
    for (int i = 0; i < 4; i++)
        seconds += (double)cost.macs[i] / board->mac_per_cycle[i];
    seconds = seconds / board->clock_hz + 1e-6 * (double)cost.executions;
    double said = plan->parties[0].times.computing_ms / 1e3;
    assert_true(said < seconds * 1.25 + 1e-5 && said > seconds * 0.8 - 1e-5);
}

/* Runs the schedule from its fragment and compares with the reference. */
static void check_run(struct plan *plan, const struct schedule *schedule, const struct graph *graph,
                      uint64_t seed, const char *what)
{
    struct error error;
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    struct emit_fragment *fragments = NULL;
    void *input = random_input(graph, seed, &in_bytes);
    uint8_t *whole = malloc(out_bytes), *mine = calloc(1, out_bytes);
    uint32_t highest;
    error_clear(&error);
    if (reference_run(graph, input, in_bytes, whole, out_bytes, &error) < 0)
        fail_msg("seed %llu, %s: reference: %s", (unsigned long long)seed, what, error.message);
    if (emit_plan(plan, &fragments, &error) < 0) {
        print_steps(graph, schedule);
        fail_msg("seed %llu, %s: emit: %s", (unsigned long long)seed, what, error.message);
    }
    if (plan->parties[0].program)
        check_time(plan, &fragments[0]);
    int status = painted_run(plan, &fragments[0], input, in_bytes, mine, out_bytes, &highest, &error);
    if (status < 0)
        fail_msg("seed %llu, %s: run: %s", (unsigned long long)seed, what, status_name(status));
    if (memcmp(whole, mine, out_bytes) != 0) {
        print_steps(graph, schedule);
        fail_msg("seed %llu, %s: differs from the reference", (unsigned long long)seed, what);
    }
    assert_true(highest <= plan->parties[0].arena_bytes);
    if (plan->boards[0].layouts == NN_LAYOUT_MASK_PLAIN) /* kernels may leave a part of their scratch */
        assert_true(highest + 32 > plan->parties[0].arena_bytes);
    emit_free(fragments, plan->n_boards);
    free(input);
    free(whole);
    free(mine);
}

/* Loops over channels go row by row wherever the rules allow it, whether that pays or not. */
static void go_by_rows(const struct graph *graph, struct schedule *schedule)
{
    struct net *net = schedule_net(graph, false);
    done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    assert_non_null(net);
    for (int32_t s = 0; s < schedule->n_steps; s++) {
        struct schedule_step *step = &schedule->steps[s];
        int32_t ops[NET_LOOP_OPS_MAX];
        int64_t bytes;
        for (int32_t i = 0; i < step->n_ops; i++)
            for (ops[i] = 0; net->ops[ops[i]].graph_op != step->ops[i];)
                ops[i]++;
        step->rows = calloc(ROW_PLAN_MAX, sizeof *step->rows);
        if (step->mode == SCHEDULE_CHANNELS && rows_rings(net, done, ops, step->n_ops, &bytes, step->rows)) {
            while (step->rows[step->n_rows].tensor >= 0)
                step->n_rows++;
        } else {
            free(step->rows);
            step->rows = NULL;
        }
        for (int32_t i = 0; i < step->n_ops; i++)
            done_add(done, ops[i]);
    }
    schedule_net_free(net);
}

/* Concatenations that are steps of their own become free wherever the rules allow it. */
static void join_all(const struct graph *graph, struct schedule *schedule)
{
    struct net *net = schedule_net(graph, false);
    assert_non_null(net);
    for (int32_t o = 0; o < net->n_ops; o++)
        if (schedule->joined[net->ops[o].graph_op])
            net_join(net, o);
    for (int32_t s = 0; s < schedule->n_steps; s++)
        for (int32_t o = 0; o < net->n_ops && schedule->steps[s].mode == SCHEDULE_FULL; o++)
            if (net->ops[o].graph_op == schedule->steps[s].ops[0] && net_may_join(net, o)) {
                net_join(net, o);
                schedule->joined[net->ops[o].graph_op] = true;
            }
    schedule_net_free(net);
}

/* Of graphs: with tensors of one row, a third of them with branches; the last two with branches. */
enum change { AS_IT_IS, BY_ROWS, ONE_ROW, BRANCHES, JOINED };

static void check(const struct graph *graph, const struct schedule_options *options, uint64_t seed,
                  const char *what, enum change change, struct tally *tally)
{
    struct error error;
    error_clear(&error);
    struct schedule *schedule = schedule_make(graph, options, &error);
    if (!schedule)
        fail_msg("seed %llu, %s: schedule: %s", (unsigned long long)seed, what, error.message);
    if (change == BY_ROWS)
        go_by_rows(graph, schedule);
    if (change == JOINED)
        join_all(graph, schedule);
    struct plan_board board = *plan_profile("teensy41-good");
    board.layouts = seed % 2 ? NN_LAYOUT_MASK_ALL : NN_LAYOUT_MASK_PLAIN;
    struct plan *plan = plan_scheduled(graph, "", &board, schedule, options, &error);
    if (!plan) {
        print_steps(graph, schedule);
        fail_msg("seed %llu, %s: lower: %s", (unsigned long long)seed, what, error.message);
    }
    tally_up(tally, schedule, plan);
    check_run(plan, schedule, graph, seed, what);
    plan_free(plan);
    schedule_free(schedule);
}

/* A random K: some limit between the least peak and that of whole operators. */
static void loosen(struct schedule_options *options, const struct graph *graph, struct prng *prng)
{
    struct schedule *least = schedule_make(graph, options, NULL);
    if (least && least->peak_bytes > 0)
        options->ram = least->peak_bytes + prng_range(prng, 0, 600);
    schedule_free(least);
}

static struct schedule_options with(enum schedule_axes axes, double extra, bool streamed)
{
    return (struct schedule_options){
        .axes = axes, .accumulator = 32, .extra_macs = extra, .streamed = streamed};
}

static struct tally run_some(struct schedule_options base, uint64_t first, uint64_t last, const char *what,
                             enum change change)
{
    struct tally tally = {.plans = 0};
    for (uint64_t seed = first; seed <= last; seed += EVERY) {
        struct prng prng = prng_seed(seed);
        struct schedule_options options = base;
        struct graph *graph =
            random_graph(seed, &(struct random_graph_options){
                                   .branches = change >= BRANCHES || (change == ONE_ROW && seed % 12 == 1),
                                   .one_row = change == ONE_ROW});
        if (prng_one_in(&prng, 2))
            loosen(&options, graph, &prng);
        check(graph, &options, seed, what, change, &tally);
        graph_free(graph);
    }
    print_message(
        "%s: %d plans, steps full %d channels %d (%d with rings) rows %d patches %d (of channels %d, "
        "%d with rings, of rows %d), joined %d, again %d; arena at most peak and scratch in %d; sums %lld of "
        "%lld "
        "and %lld\n",
        what, tally.plans, tally.steps[0], tally.steps[1], tally.rings, tally.steps[2], tally.steps[3],
        tally.inner[1], tally.inner_rings, tally.inner[2], tally.joined, tally.again, tally.met,
        (long long)tally.arena, (long long)tally.peak, (long long)tally.scratch);
    return tally;
}

static void run_seeds(struct schedule_options base, uint64_t first, uint64_t last, const char *what)
{
    (void)run_some(base, first, last, what, AS_IT_IS);
}

static void lowered_whole_operators_equal_the_reference(void **state)
{
    (void)state;
    run_seeds(with(SCHEDULE_AXES_FULL, 0, false), 1, 40, "full");
}

static void lowered_channel_loops_equal_the_reference(void **state)
{
    (void)state;
    run_seeds(with(SCHEDULE_AXES_CHANNELS, 0, false), 1000, 1050, "channels");
}

static void lowered_channel_loops_that_go_by_rows_equal_the_reference(void **state)
{
    (void)state;
    struct tally tally =
        run_some(with(SCHEDULE_AXES_CHANNELS, 0, false), 1000, 1060, "channels, by rows", BY_ROWS);
    assert_true(tally.rings > 40 / EVERY);
}

static void lowered_free_concatenations_equal_the_reference(void **state)
{
    (void)state;
    struct tally a = run_some(with(SCHEDULE_AXES_CHANNELS, 0, false), 8000, 8016, "joined, channels", JOINED);
    struct tally b = run_some(with(SCHEDULE_AXES_ALL, 100, false), 8100, 8107, "branches, all", BRANCHES);
    assert_true(a.joined > 24 / EVERY && (EVERY > 1 || b.joined >= 4));
}

static void lowered_rows_equal_the_reference(void **state)
{
    (void)state;
    run_seeds(with(SCHEDULE_AXES_ROWS, 0, false), 2000, 2050, "rows");
}

static void lowered_rows_that_run_twice_equal_the_reference(void **state)
{
    (void)state;
    run_seeds(with(SCHEDULE_AXES_ROWS, 100, false), 3000, 3040, "rows, extra MACs");
}

static void lowered_patches_equal_the_reference(void **state)
{
    (void)state;
    struct tally tally =
        run_some(with(SCHEDULE_AXES_ALL, 200, false), 5000, 5160, "all, extra MACs", AS_IT_IS);
    assert_true(tally.inner[SCHEDULE_ROWS] > 4 / EVERY && tally.inner_rings >= 4 / EVERY &&
                tally.inner[SCHEDULE_CHANNELS] > 16 / EVERY && tally.rings + tally.inner_rings > 0);
}

static void lowered_networks_of_one_row_that_go_along_columns_equal_the_reference(void **state)
{
    (void)state;
    struct tally a = run_some(with(SCHEDULE_AXES_ROWS, 100, false), 9000, 9020, "one row, rows", ONE_ROW);
    struct tally b = run_some(with(SCHEDULE_AXES_ALL, 200, false), 9100, 9124, "one row, all", ONE_ROW);
    struct tally c = run_some(with(SCHEDULE_AXES_ALL, 0, true), 9300, 9316, "one row, streamed", ONE_ROW);
    print_message("tall: rows %d, %d and %d; loops %d, patches %d\n", a.tall[SCHEDULE_ROWS],
                  b.tall[SCHEDULE_ROWS], c.tall[SCHEDULE_ROWS], b.tall[SCHEDULE_CHANNELS],
                  b.tall[SCHEDULE_PATCHES]);
    assert_true(a.tall[SCHEDULE_ROWS] > 8 / EVERY && b.tall[SCHEDULE_ROWS] > 8 / EVERY &&
                c.tall[SCHEDULE_ROWS] > 4 / EVERY && b.tall[SCHEDULE_PATCHES] > 4 / EVERY);
}

static void lowered_streamed_inputs_equal_the_reference(void **state)
{
    (void)state;
    struct tally tally = run_some(with(SCHEDULE_AXES_ALL, 0, true), 7000, 7060, "all, streamed", AS_IT_IS);
    print_message("%d of several inputs, %d of several outputs\n", tally.inputs, tally.outputs);
    assert_true(tally.inputs > 4 / EVERY && tally.outputs > 4 / EVERY);
}

/* The same images from the plan's JSON. */
static void check_json(const struct graph *graph, struct plan *plan)
{
    struct emit_fragment *a = NULL, *b = NULL;
    assert_int_equal(emit_plan(plan, &a, NULL), 0);
    json_t *json = plan_to_json(plan);
    struct plan *back = plan_from_json(graph, json, NULL);
    assert_non_null(back);
    assert_int_equal(emit_plan(back, &b, NULL), 0);
    assert_int_equal(a[0].size, b[0].size);
    assert_memory_equal(a[0].hash, b[0].hash, WIRE_HASH_BYTES);
    emit_free(a, 1);
    emit_free(b, 1);
    plan_free(back);
    json_decref(json);
}

/* What a refusal says is needed is enough, or leads there: what packing takes more is told next. */
static void follow_refusal(const struct graph *graph, struct plan_board board, int64_t need)
{
    struct plan_options options = {.strategy = PLAN_STRATEGY_AUTO};
    struct plan *plan = NULL;
    for (int32_t tries = 0; !plan && tries < 4; tries++) {
        struct error error;
        board.arena_bytes = need;
        plan = plan_make(graph, "", &board, 1, &options, NULL, NULL, &error);
        assert_true(plan || error.shortfall.need_bytes > need);
        need = error.shortfall.need_bytes;
    }
    assert_non_null(plan);
    plan_free(plan);
}

/* A board loses memory step by step: operator by operator while that fits, then a schedule that does, then a
 * refusal with what is missing. */
static void a_board_of_little_memory_runs_a_schedule_that_fits(void **state)
{
    int32_t whole = 0, partial = 0, refused = 0;
    (void)state;
    for (uint64_t seed = 6000; seed < 6006; seed += EVERY) {
        struct plan_board board = *plan_profile("teensy41-good");
        board.layouts = seed % 2 ? NN_LAYOUT_MASK_ALL : NN_LAYOUT_MASK_PLAIN;
        struct plan_options options = {.strategy = PLAN_STRATEGY_AUTO};
        struct graph *graph = random_graph(seed, &(struct random_graph_options){.one_row = seed % 3 == 0});
        for (bool goes_on = true; goes_on;) {
            struct error error;
            struct plan *plan = plan_make(graph, "", &board, 1, &options, NULL, NULL, &error);
            goes_on = plan != NULL;
            if (!plan) {
                assert_int_equal(error.status, STATUS_DOES_NOT_FIT);
                assert_true(error.shortfall.need_bytes > error.shortfall.have_bytes);
                assert_int_equal(error.shortfall.need_bytes % 16, 0);
                follow_refusal(graph, board, error.shortfall.need_bytes);
                refused++;
                continue;
            }
            const struct plan_party *party = &plan->parties[0];
            assert_int_equal(plan->options.strategy, PLAN_STRATEGY_SINGLE);
            assert_true(party->arena_bytes <= board.arena_bytes);
            assert_true(party->fragment_bytes <= board.flash_bytes);
            *(party->program ? &partial : &whole) += 1;
            struct schedule none = {.n_steps = 0};
            check_run(plan, &none, graph, seed, "little memory");
            check_json(graph, plan);
            board.arena_bytes = party->arena_bytes - 16;
            plan_free(plan);
        }
        graph_free(graph);
    }
    print_message("%d whole, %d partial, %d refused\n", whole, partial, refused);
    assert_true(whole > 0 && partial > 0 && refused > 0);
}

/* They are packed, so that their memory can be told, and refused with the reason. */
static void sums_of_fewer_than_32_bits_are_not_executed(void **state)
{
    int32_t refused = 0;
    (void)state;
    for (uint64_t seed = 4000; seed < 4100; seed++) {
        struct schedule_options options = {.axes = SCHEDULE_AXES_CHANNELS, .accumulator = 8};
        struct graph *graph = random_graph(seed, NULL);
        struct schedule *schedule = schedule_make(graph, &options, NULL);
        struct lowered *lowered = schedule_lower(graph, schedule, &options, NULL, NULL);
        bool adds = false;
        assert_non_null(lowered);
        for (int32_t i = 0; i < lowered->n_code; i++)
            adds |= lowered->code[i].op == FRAGMENT_CONV && (lowered->code[i].form & FRAGMENT_FORM_ACC);
        struct error error;
        error_clear(&error);
        int status = emit_schedule(graph, schedule, &options, &error);
        if ((status < 0) != adds)
            fail_msg("seed %d: %s", (int)seed, error.message);
        assert_true(!adds || strstr(error.message, "not exact"));
        refused += adds;
        schedule_lowered_free(lowered);
        schedule_free(schedule);
        graph_free(graph);
    }
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowered_whole_operators_equal_the_reference),
        cmocka_unit_test(lowered_channel_loops_equal_the_reference),
        cmocka_unit_test(lowered_channel_loops_that_go_by_rows_equal_the_reference),
        cmocka_unit_test(lowered_free_concatenations_equal_the_reference),
        cmocka_unit_test(lowered_rows_equal_the_reference),
        cmocka_unit_test(lowered_rows_that_run_twice_equal_the_reference),
        cmocka_unit_test(lowered_patches_equal_the_reference),
        cmocka_unit_test(lowered_networks_of_one_row_that_go_along_columns_equal_the_reference),
        cmocka_unit_test(lowered_streamed_inputs_equal_the_reference),
        cmocka_unit_test(a_board_of_little_memory_runs_a_schedule_that_fits),
        cmocka_unit_test(sums_of_fewer_than_32_bits_are_not_executed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
