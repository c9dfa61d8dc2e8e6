/*
 * Schedules as they are asked for: the published numbers of known networks, to the byte; memory that is
 * given; searches that are stopped; times. What is refused when a graph is read.
 */
#include "server/base/stop.h"
#include "server/model/optable.h"
#include "server/plan/plan.h"
#include "server/schedule/cost.h"
#include "server/schedule/json.h"
#include "server/schedule/read.h"
#include "tests/support/random_graph.h"
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
    return small_graph_of(json);
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
        struct graph *graph = small_graph_of(small_network(seed));
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

static int64_t arena_of(const struct graph *graph, const struct schedule_options *options)
{
    json_t *answer = schedule_describe(graph, options, NULL, NULL);
    json_t *arena = json_object_get(json_object_get(answer, "partial"), "arena_bytes");
    int64_t bytes = json_is_integer(arena) ? json_integer_value(arena) : -1;
    json_decref(answer);
    return bytes;
}

static void an_arena_that_was_told_is_enough(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        struct random_graph_options graph;
        bool streamed;
        double extra_macs;
    } asked[] = {
        {5355, {.ops = 8, .max_side = 30, .inputs = 1, .one_row = true, .no_classifier = true}, true, 0},
        {5004, {.ops = 16, .inputs = 1}, false, 10},
        {5, {.branches = true, .int8_ends = true}, false, 0},
        {6, {.branches = true, .int8_ends = true}, true, 10},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct graph *graph = random_graph(asked[i].seed, &asked[i].graph);
        struct schedule_options options = schedule_defaults();
        options.streamed = asked[i].streamed;
        options.extra_macs = asked[i].extra_macs;
        int64_t told = arena_of(graph, &options);
        assert_true(told > 0);
        options.ram = told;
        int64_t again = arena_of(graph, &options);
        if (again <= 0 || again > told)
            print_error("network %d: told %lld, then %lld\n", (int)i, (long long)told, (long long)again);
        assert_true(again > 0 && again <= told);
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
        cmocka_unit_test(known_networks_take_the_published_memory_by_channels),
        cmocka_unit_test(known_networks_take_less_by_rows_and_by_running_twice),
        cmocka_unit_test(bottleneck_adds_up_to_the_peak),
        cmocka_unit_test(memory_that_is_too_little_is_refused),
        cmocka_unit_test(an_arena_that_was_told_is_enough),
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
