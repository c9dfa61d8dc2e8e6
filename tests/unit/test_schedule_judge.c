/*
 * Every schedule is legal: known families of networks, random graphs and the shared ones, with every kind of
 * option, against the judge that replays them by the rules.
 */
#include "server/model/tall.h"
#include "server/schedule/json.h"
#include "server/schedule/read.h"
#include "tests/support/judge.h"
#include "tests/support/networks.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"
#include "tests/support/transposed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tally {
    int32_t schedules, cautious, steps[4], rings, inner[4], inner_rings, joined, again;
};

static struct schedule *judged(const struct graph *graph, const struct schedule_options *options,
                               const char *name, struct tally *tally)
{
    struct error error;
    char reason[256];
    int32_t cautious;
    error_clear(&error);
    struct schedule *schedule = schedule_make(graph, options, &error);
    if (!schedule)
        fail_msg("%s: %s", name, error.message);
    if (!judge_schedule(graph, options, schedule, &cautious, reason, sizeof reason))
        fail_msg("%s, axes %d, extra %g, streamed %d, %d bits: %s", name, (int)options->axes,
                 options->extra_macs, options->streamed, options->accumulator, reason);
    tally->schedules++;
    tally->cautious += cautious;
    for (int32_t s = 0; s < schedule->n_steps; s++) {
        tally->steps[schedule->steps[s].mode]++;
        tally->again += schedule->steps[s].again > 0;
        for (int32_t i = 0; i < schedule->steps[s].n_inner; i++) {
            const struct schedule_step *inner = &schedule->steps[s].inner[i];
            tally->inner[inner->mode]++;
            tally->inner_rings += inner->mode == SCHEDULE_CHANNELS && inner->rows;
        }
        tally->joined += schedule->joined[schedule->steps[s].ops[0]];
        tally->rings += schedule->steps[s].mode == SCHEDULE_CHANNELS && schedule->steps[s].rows;
    }
    return schedule;
}

/* All kinds of options; more axes, MACs or bytes never take more memory or time. */
static void judge_all(const struct graph *graph, const char *name, struct tally *tally)
{
    struct schedule_options options = {.axes = SCHEDULE_AXES_FULL, .accumulator = 32};
    struct schedule *full = judged(graph, &options, name, tally), *made;
    int64_t peak[3];
    bool quick = graph->n_ops > 60; /* channels by 32 bits and all axes are enough then */
    for (int32_t bits = 32; bits >= (quick ? 32 : 8); bits /= 2) {
        options.axes = SCHEDULE_AXES_CHANNELS;
        options.accumulator = bits;
        made = judged(graph, &options, name, tally);
        assert_true(made->peak_bytes <= full->peak_bytes);
        schedule_free(made);
    }
    options.accumulator = 32;
    options.axes = SCHEDULE_AXES_ROWS;
    if (!quick)
        schedule_free(judged(graph, &options, name, tally));
    options.axes = SCHEDULE_AXES_ALL;
    for (int32_t i = 0; i < 3; i++) {
        peak[i] = i > 0 ? peak[0] : 0;
        if (quick && i > 0)
            continue;
        options.extra_macs = i == 1 ? 15 : 0;
        options.streamed = i == 2;
        made = judged(graph, &options, name, tally);
        peak[i] = made->peak_bytes;
        schedule_free(made);
    }
    if (peak[1] > peak[0] || peak[2] > peak[0] || peak[0] > full->peak_bytes)
        fail_msg("%s: more takes more: %lld, %lld with extra MACs, %lld streamed", name, (long long)peak[0],
                 (long long)peak[1], (long long)peak[2]);
    options.streamed = false;
    options.ram = (peak[0] + full->peak_bytes) / 2;
    if (!quick)
        schedule_free(judged(graph, &options, name, tally));
    schedule_free(full);
}

static void judge_json(json_t *json, const char *name, struct tally *tally)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = schedule_read(json, &error);
    if (!graph)
        fail_msg("%s: %s at %s", name, error.message, error.layer);
    json_decref(json);
    judge_all(graph, name, tally);
    graph_free(graph);
}

static void print_tally(const char *what, const struct tally *tally)
{
    print_message(
        "%s: %d schedules, steps full %d channels %d (%d with rings) rows %d patches %d (of channels %d, "
        "%d with rings, of rows %d), joined %d, again %d; %d counted with caution\n",
        what, tally->schedules, tally->steps[0], tally->steps[1], tally->rings, tally->steps[2],
        tally->steps[3], tally->inner[1], tally->inner_rings, tally->inner[2], tally->joined, tally->again,
        tally->cautious);
}

static void families_of_networks_get_legal_schedules(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (int32_t i = 0; i < NETWORKS; i++)
        judge_json(network_make(i), network_name(i), &tally);
    print_tally("families", &tally);
    assert_true(tally.steps[SCHEDULE_ROWS] > 20 && tally.steps[SCHEDULE_CHANNELS] > 20 &&
                tally.steps[SCHEDULE_PATCHES] > 2);
}

static void random_networks_get_legal_schedules(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (uint64_t seed = 0; seed < 50; seed++) {
        char name[32];
        (void)snprintf(name, sizeof name, "seed %d", (int)seed);
        judge_json(network_random(seed, 4 + (int32_t)(seed % 20), 3 + (int32_t)(seed % 5), 24), name, &tally);
    }
    print_tally("random", &tally);
    assert_true(tally.steps[SCHEDULE_ROWS] > 100 && tally.steps[SCHEDULE_CHANNELS] > 100 &&
                tally.steps[SCHEDULE_PATCHES] > 3 && tally.again > 0);
}

static void random_models_get_legal_schedules(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
        char name[32];
        (void)snprintf(name, sizeof name, "model %d", (int)seed);
        struct graph *graph = random_graph(seed, NULL);
        judge_all(graph, name, &tally);
        graph_free(graph);
    }
    print_tally("models", &tally);
    struct tally joined = {0};
    for (uint64_t seed = 100; seed < 116; seed++) {
        struct graph *graph = random_graph(seed, &(struct random_graph_options){.branches = true, .ops = 5});
        judge_all(graph, "branches", &joined);
        graph_free(graph);
    }
    print_tally("branches", &joined);
    assert_true(joined.joined > 4);
}

static void shared_graphs_get_legal_schedules(void **state)
{
    static const char *const names[] = {"mbv2_224", "mbv2_112", "effnetb0_224", "resnet8", "ds_cnn_l", "irb"};
    (void)state;
    struct tally tally = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        const char *facts = getenv("FACTS");
        (void)snprintf(path, sizeof path, "%s/graphs/%s.json", facts ? facts : "../shared", names[i]);
        json_t *json = json_load_file(path, 0, NULL);
        if (!json) {
            print_message("SKIP shared_graphs_get_legal_schedules: no %s\n", path);
            skip();
        }
        judge_json(json, names[i], &tally);
    }
    print_tally("shared", &tally);
}

static void graphs_of_a_hundred_operators_are_scheduled_within_their_work(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct error error;
        error_clear(&error);
        json_t *json = network_random(seed, 100, 4 + 6 * (int32_t)seed, 48);
        struct graph *graph = schedule_read(json, &error);
        assert_non_null(graph);
        json_decref(json);
        struct schedule_options options = {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = 10};
        schedule_free(judged(graph, &options, "a hundred operators", &tally));
        graph_free(graph);
    }
    print_tally("a hundred operators", &tally);
}

static bool turns_wholly(const struct graph *graph)
{
    for (int32_t o = 0; o < graph->n_ops; o++)
        if (tall_stays(graph, &graph->ops[o]))
            return false;
    return true;
}

/* Columns of a network of one row are worth what rows are of the same network stood on end. */
static void networks_of_one_row_take_what_those_of_one_column_take(void **state)
{
    static const struct schedule_options all[] = {
        {.axes = SCHEDULE_AXES_ROWS, .accumulator = 32},
        {.axes = SCHEDULE_AXES_ALL, .accumulator = 32},
        {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = 20},
        {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .streamed = true}};
    struct tally tally = {0};
    int32_t wholly = 0, tall = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 80; seed++) {
        struct graph *graph = random_graph(seed, &(struct random_graph_options){.one_row = true, .ops = 6});
        struct graph *column = transposed(graph);
        assert_non_null(column);
        wholly += turns_wholly(graph);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            struct schedule *schedule = judged(graph, &all[i], "one row", &tally);
            struct schedule *other = schedule_make(column, &all[i], NULL);
            assert_non_null(other);
            if (turns_wholly(graph) && schedule->peak_bytes != other->peak_bytes)
                fail_msg("seed %d, options %d: %lld bytes, as a column %lld", (int)seed, (int)i,
                         (long long)schedule->peak_bytes, (long long)other->peak_bytes);
            for (int32_t s = 0; s < schedule->n_steps; s++)
                tall += schedule->steps[s].tall;
            schedule_free(schedule);
            schedule_free(other);
        }
        transposed_free(column);
        graph_free(graph);
    }
    print_tally("one row", &tally);
    print_message("%d networks turn wholly, %d steps go along columns\n", wholly, tall);
    assert_true(wholly > 30 && tall > 200);
}

static json_t *shuffled(json_t *json, uint64_t seed)
{
    json_t *other = json_deep_copy(json), *ops = json_array(), *tensors = json_object();
    json_t *from = json_object_get(other, "ops"), *named = json_object_get(other, "tensors"), *tensor;
    struct prng prng = {seed};
    const char *name;
    while (json_array_size(from) > 0) {
        size_t at = prng_next(&prng) % json_array_size(from);
        json_array_append(ops, json_array_get(from, at));
        json_array_remove(from, at);
    }
    for (size_t pass = 0; pass < 2; pass++) /* the second half first */
        json_object_foreach(named, name, tensor) if ((strlen(name) + (size_t)name[strlen(name) - 1]) % 2 ==
                                                     pass) json_object_set(tensors, name, tensor);
    json_object_set_new(other, "ops", ops);
    json_object_set_new(other, "tensors", tensors);
    return other;
}

static void the_order_of_a_file_decides_nothing(void **state)
{
    static const struct schedule_options all[] = {
        {.axes = SCHEDULE_AXES_CHANNELS, .accumulator = 32},
        {.axes = SCHEDULE_AXES_ALL, .accumulator = 32},
        {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = 10}};
    (void)state;
    for (uint64_t seed = 300; seed < 340; seed++) {
        json_t *json = network_random(seed, 5 + (int32_t)(seed % 12), 3 + (int32_t)(seed % 4), 24);
        json_t *other = shuffled(json, seed);
        struct graph *graphs[] = {schedule_read(json, NULL), schedule_read(other, NULL)};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            int64_t peaks[2];
            for (int g = 0; g < 2; g++) {
                struct schedule *schedule = schedule_make(graphs[g], &all[i], NULL);
                assert_non_null(schedule);
                peaks[g] = schedule->peak_bytes;
                schedule_free(schedule);
            }
            if (peaks[0] != peaks[1])
                fail_msg("seed %d, options %d: %lld bytes, in another order %lld", (int)seed, (int)i,
                         (long long)peaks[0], (long long)peaks[1]);
        }
        graph_free(graphs[0]);
        graph_free(graphs[1]);
        json_decref(json);
        json_decref(other);
    }
}

static double number_at(json_t *answer, const char *object, const char *key)
{
    return json_number_value(json_object_get(json_object_get(answer, object), key));
}

static void an_arena_that_was_told_is_enough_and_more_is_never_slower_than_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 400; seed < 430; seed++) {
        json_t *json = network_random(seed, 5 + (int32_t)(seed % 12), 3 + (int32_t)(seed % 4), 24);
        struct graph *graph = schedule_read(json, NULL);
        struct schedule_options options = schedule_defaults();
        json_t *least = schedule_describe(graph, &options, NULL, NULL);
        assert_non_null(least);
        options.ram = (int64_t)number_at(least, "partial", "arena_bytes");
        json_t *fits = schedule_describe(graph, &options, NULL, NULL);
        assert_non_null(fits);
        if (number_at(fits, "partial", "arena_bytes") > (double)options.ram)
            fail_msg("seed %d: %.0f bytes of %lld", (int)seed, number_at(fits, "partial", "arena_bytes"),
                     (long long)options.ram);
        options.ram = (int64_t)number_at(least, "ordinary", "arena_bytes");
        json_t *whole = schedule_describe(graph, &options, NULL, NULL);
        assert_non_null(whole);
        if (number_at(whole, "partial", "predicted_ms") > number_at(whole, "ordinary", "predicted_ms"))
            fail_msg("seed %d: %.6f ms, whole %.6f", (int)seed, number_at(whole, "partial", "predicted_ms"),
                     number_at(whole, "ordinary", "predicted_ms"));
        json_decref(least);
        json_decref(fits);
        json_decref(whole);
        graph_free(graph);
        json_decref(json);
    }
}

/* A judge that lets everything pass would prove nothing. */
static void the_judge_finds_what_is_wrong(void **state)
{
    (void)state;
    struct error error;
    char reason[256];
    int32_t cautious, found = 0, tried = 0;
    error_clear(&error);
    for (int32_t i = 0; i < 5; i++) {
        json_t *json = network_make(i);
        struct graph *graph = schedule_read(json, &error);
        json_decref(json);
        assert_non_null(graph);
        struct schedule_options options = {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = 5};
        for (int32_t fault = 0; fault < 8; fault++) {
            struct schedule *schedule = schedule_make(graph, &options, NULL);
            assert_non_null(schedule);
            struct schedule_step *step = &schedule->steps[schedule->peak_step], *first = &schedule->steps[0];
            int32_t n_steps = schedule->n_steps;
            bool could = true;
            if (fault == 0)
                step->peak_bytes -= step->peak_bytes / 4, schedule->peak_bytes = 0;
            else if (fault == 1 && schedule->n_steps > 1)
                first->ops[0] = schedule->steps[schedule->n_steps - 1].ops[0];
            else if (fault == 2)
                schedule->n_steps--;
            else if (fault == 3)
                first->extra_macs++;
            else if (fault == 4 && first->mode == SCHEDULE_ROWS && first->n_rows > 2 &&
                     first->rows[0].ring > 1)
                first->rows[0].ring--;
            else if (fault == 5 && first->mode == SCHEDULE_ROWS && first->n_ops > 1)
                first->rows[first->n_rows - 1].phase = 0;
            else if (fault == 6 && first->mode == SCHEDULE_PATCHES)
                first->patch_h[0]--;
            else if (fault == 7)
                step->tall = true;
            else
                could = false;
            tried += could;
            found += could && !judge_schedule(graph, &options, schedule, &cautious, reason, sizeof reason);
            schedule->n_steps = n_steps; /* all are freed */
            schedule_free(schedule);
        }
        graph_free(graph);
    }
    print_message("%d of %d faults found\n", found, tried);
    assert_int_equal(found, tried);
    assert_true(tried > 20);
}

/* One fault in a step in which rings are held; false: not possible here. */
static bool spoil_rings(struct schedule_step *step, int32_t fault)
{
    for (int32_t v = 0; v < step->n_rows && fault < 3; v++) {
        struct row_plan *plan = &step->rows[v];
        if (plan->kept || plan->ring < 1 + (fault == 0) || (fault == 2 && !plan->passing))
            continue;
        if (fault == 0)
            plan->ring--;
        else if (fault == 1)
            plan->phase++;
        else if (fault == 2)
            plan->last_op = plan->first_op;
        return true;
    }
    step->peak_bytes -= fault == 3;
    return fault == 3;
}

static bool spoil_schedule(struct schedule *schedule, int32_t fault)
{
    for (int32_t s = 0; s < schedule->n_steps; s++) {
        struct schedule_step *step = &schedule->steps[s];
        if (step->mode == SCHEDULE_CHANNELS && step->rows && spoil_rings(step, fault))
            return true;
        for (int32_t i = 0; i < step->n_inner; i++)
            if (step->inner[i].rows && spoil_rings(&step->inner[i], fault))
                return true;
    }
    return false;
}

/* In loops over channels, and in patches. */
static void the_judge_finds_what_is_wrong_with_rings(void **state)
{
    char reason[256];
    int32_t cautious, tried[2][4] = {{0}};
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++)
        for (int32_t n = 0; n < 8; n++) {
            int32_t patches = n / 4, fault = n % 4;
            struct schedule_options options = {.axes = SCHEDULE_AXES_ALL,
                                               .accumulator = 32,
                                               .extra_macs = patches ? 15 : 0,
                                               .streamed = !patches};
            struct graph *graph = random_graph(seed, NULL);
            struct schedule *schedule = schedule_make(graph, &options, NULL);
            assert_non_null(schedule);
            if (spoil_schedule(schedule, fault)) {
                tried[patches][fault]++;
                if (judge_schedule(graph, &options, schedule, &cautious, reason, sizeof reason))
                    fail_msg("seed %d, patches %d: fault %d was not found", (int)seed, patches, fault);
            }
            schedule_free(schedule);
            graph_free(graph);
        }
    for (int32_t i = 0; i < 2; i++) {
        print_message("faults found: %d rings, %d phases, %d lives, %d peaks\n", tried[i][0], tried[i][1],
                      tried[i][2], tried[i][3]);
        assert_true(tried[i][0] > 0 && tried[i][1] > 0 && tried[i][3] > 0);
    }
}

/* A concatenation is called free that is not, or one is no longer. */
static void the_judge_finds_what_is_wrong_with_free_concatenations(void **state)
{
    struct schedule_options options = {.axes = SCHEDULE_AXES_ALL, .accumulator = 32};
    int32_t cautious, called = 0, taken = 0;
    char reason[256];
    (void)state;
    for (uint64_t seed = 100; seed < 130; seed++) {
        struct graph *graph = random_graph(seed, &(struct random_graph_options){.branches = true, .ops = 5});
        struct schedule *schedule = schedule_make(graph, &options, NULL);
        assert_non_null(schedule);
        for (int32_t o = 0; o < graph->n_ops; o++) {
            const struct op *op = &graph->ops[o];
            bool was = schedule->joined[o], scaled = false;
            for (int32_t i = 0; i < op->n_inputs && op->kind == OP_CONCAT; i++)
                scaled |= graph->tensors[op->inputs[i]].quant.scale != graph->tensors[op->output].quant.scale;
            if (!was && !scaled)
                continue;
            schedule->joined[o] = !was;
            bool good = judge_schedule(graph, &options, schedule, &cautious, reason, sizeof reason);
            assert_true(was || !good);
            called += !was;
            taken += was && !good;
            schedule->joined[o] = was;
        }
        schedule_free(schedule);
        graph_free(graph);
    }
    print_message("free ones found: %d that were not, %d that were called copies\n", called, taken);
    assert_true(called > 1 && taken > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_of_networks_get_legal_schedules),
        cmocka_unit_test(random_networks_get_legal_schedules),
        cmocka_unit_test(random_models_get_legal_schedules),
        cmocka_unit_test(shared_graphs_get_legal_schedules),
        cmocka_unit_test(graphs_of_a_hundred_operators_are_scheduled_within_their_work),
        cmocka_unit_test(networks_of_one_row_take_what_those_of_one_column_take),
        cmocka_unit_test(the_order_of_a_file_decides_nothing),
        cmocka_unit_test(an_arena_that_was_told_is_enough_and_more_is_never_slower_than_whole),
        cmocka_unit_test(the_judge_finds_what_is_wrong),
        cmocka_unit_test(the_judge_finds_what_is_wrong_with_rings),
        cmocka_unit_test(the_judge_finds_what_is_wrong_with_free_concatenations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
