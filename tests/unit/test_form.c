/*
 * How steps are shown: the schedule's answer, a plan's summary and a plan read back from its JSON say the
 * same of every step, and the numbers are those of the step.
 */
#include "server/emit/emit.h"
#include "server/plan/plan.h"
#include "server/schedule/json.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXTRA = 60, SEEDS = 12 };

static int64_t integer(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Times are the schedule's alone. */
static void forget_times(json_t *steps)
{
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
    {
        json_object_del(step, "predicted_ms");
        forget_times(json_object_get(step, "inner"));
    }
}

static json_t *summary_steps(const struct plan *plan)
{
    json_t *summary = plan_summary_json(plan);
    json_t *steps =
        json_incref(json_object_get(json_array_get(json_object_get(summary, "parties"), 0), "schedule"));
    json_decref(summary);
    return steps;
}

static struct plan *planned(const struct graph *graph, const struct schedule_options *options)
{
    struct schedule *schedule = schedule_make(graph, options, NULL);
    assert_non_null(schedule);
    struct plan *plan = plan_scheduled(graph, "", plan_profile("teensy41-good"), schedule, options, NULL);
    struct emit_fragment *fragments = NULL;
    if (plan) /* what is stored has been emitted */
        assert_int_equal(emit_plan(plan, &fragments, NULL), 0);
    emit_free(fragments, 1);
    schedule_free(schedule);
    return plan;
}

static void check_step(const struct graph *graph, json_t *step, int64_t seen[6])
{
    const char *mode = json_string_value(json_object_get(step, "mode"));
    json_t *layers = json_object_get(step, "layers"), *tile = json_object_get(step, "tile"), *inner;
    json_t *rings = json_object_get(step, "ring_rows"), *rows = json_object_get(step, "rows");
    int32_t last = (int32_t)json_integer_value(json_array_get(layers, json_array_size(layers) - 1));
    struct shape out = graph->tensors[graph->ops[last].output].shape;
    const char *along = json_string_value(json_object_get(step, "along"));
    bool columns = along && strcmp(along, "w") == 0;
    size_t i;
    assert_true(!columns || out.h == 1);
    seen[5] += columns;
    if (strcmp(mode, "channels") == 0) {
        assert_true(integer(step, "k") >= 1 && integer(step, "turns") >= 1);
        seen[0] += json_is_true(json_object_get(step, "rings"));
        assert_int_equal(json_is_true(json_object_get(step, "rings")), json_is_array(rows));
    }
    if (strcmp(mode, "rows") == 0)
        assert_int_equal(json_integer_value(json_array_get(rows, 1)), columns ? out.w : out.h);
    if (json_is_array(rings))
        assert_true(json_integer_value(json_array_get(rings, 0)) >= 1 &&
                    json_integer_value(json_array_get(rings, 0)) <=
                        json_integer_value(json_array_get(rings, 1)));
    for (size_t side = 0; side < 2 && json_is_array(tile); side++) {
        int64_t size = json_integer_value(json_array_get(tile, side));
        int64_t n = json_integer_value(json_array_get(json_object_get(step, "patches"), side));
        int32_t whole = side ? out.w : out.h;
        assert_true(n * size >= whole && (n - 1) * size < whole);
    }
    seen[1] += json_is_array(tile);
    seen[2] += json_is_array(rings);
    seen[3] += json_is_true(json_object_get(step, "free"));
    json_array_foreach(json_object_get(step, "inner"), i, inner)
    {
        seen[4]++;
        assert_int_equal(json_array_size(json_object_get(inner, "inner")), 0);
    }
}

/* Whatever is told apart at the peak, it adds up to the peak; and of most steps something is told apart. */
static void what_is_in_memory_at_the_peak_adds_up_to_it(void **state)
{
    static const char *const roles[] = {"input", "live", "output", "sums", "part", "ring", "patch", "step"};
    int32_t seen[8] = {0}, columns = 0;
    (void)state;
    for (uint64_t seed = 8100; seed < 8400; seed++) {
        struct schedule_options options = {.axes = (enum schedule_axes)(1 + seed % 3),
                                           .accumulator = seed % 2 ? 32 : 8,
                                           .extra_macs = seed % 4 ? 0 : EXTRA,
                                           .streamed = seed % 5 == 0};
        struct graph *graph = random_graph(seed, &(struct random_graph_options){.one_row = seed % 4 == 1});
        json_t *answer = schedule_describe(graph, &options, NULL, NULL), *tensor;
        json_t *bottleneck = json_object_get(answer, "bottleneck");
        int64_t sum = 0;
        size_t i;
        assert_non_null(answer);
        json_array_foreach(json_object_get(bottleneck, "tensors"), i, tensor)
        {
            json_t *rows = json_object_get(tensor, "rows");
            const char *role = json_string_value(json_object_get(tensor, "role"));
            int32_t known = 0;
            while (known < 8 && strcmp(role, roles[known]) != 0)
                known++;
            assert_true(known < 8);
            seen[known]++;
            assert_true(integer(tensor, "bytes") > 0);
            assert_int_equal(json_is_array(rows), strcmp(role, "ring") == 0);
            const char *along = json_string_value(json_object_get(tensor, "along"));
            columns += along && strcmp(along, "w") == 0;
            if (json_is_array(rows))
                assert_true(json_integer_value(json_array_get(rows, 0)) <=
                            json_integer_value(json_array_get(rows, 1)));
            sum += integer(tensor, "bytes");
        }
        if (json_is_object(bottleneck)) {
            assert_int_equal(sum, integer(bottleneck, "bytes"));
            assert_int_equal(sum, integer(json_object_get(answer, "partial"), "peak_bytes"));
        }
        json_decref(answer);
        graph_free(graph);
    }
    for (int32_t i = 0; i < 8; i++)
        assert_true(seen[i] > 0);
    assert_true(columns > 0);
}

static void schedule_plan_and_stored_plan_say_the_same_of_each_step(void **state)
{
    struct schedule_options options = {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = EXTRA};
    int64_t seen[6] = {0};
    (void)state;
    for (uint64_t seed = 8000; seed < 8000 + SEEDS; seed++) {
        struct graph *graph = random_graph(
            seed, &(struct random_graph_options){.branches = seed % 2, .one_row = seed % 4 == 0});
        json_t *answer = schedule_describe(graph, &options, NULL, NULL), *step;
        assert_non_null(answer);
        json_t *steps = json_object_get(json_object_get(answer, "partial"), "steps");
        size_t i;
        json_array_foreach(steps, i, step) check_step(graph, step, seen);
        struct plan *plan = planned(graph, &options);
        if (plan) {

            json_t *whole = plan_to_json(plan), *shown = summary_steps(plan);
            struct plan *back = plan_from_json(graph, whole, NULL);
            assert_non_null(back);
            json_t *again = summary_steps(back);
            forget_times(steps);
            assert_true(json_equal(shown, steps));
            assert_true(json_equal(again, steps));
            json_decref(again);
            json_decref(shown);
            json_decref(whole);
            plan_free(back);
            plan_free(plan);
        }
        json_decref(answer);
        graph_free(graph);
    }
    print_message("%d channel loops with rings, %d patches, %d steps with rings, %d free, %d inner, %d by "
                  "columns\n",
                  (int)seen[0], (int)seen[1], (int)seen[2], (int)seen[3], (int)seen[4], (int)seen[5]);
    for (int i = 1; i < 6; i++)
        assert_true(seen[i] > 0);
}

/* The first seed of a plan in which something goes by patches. */
static struct plan *with_patches(struct graph **graph)
{
    struct schedule_options options = {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = EXTRA};
    for (uint64_t seed = 8000;; seed++) {
        *graph = random_graph(seed, NULL);
        struct plan *plan = planned(*graph, &options);
        for (int32_t s = 0; plan && s < plan->parties[0].n_partial; s++)
            if (plan->parties[0].partial[s].n_inner)
                return plan;
        plan_free(plan);
        graph_free(*graph);
    }
}

/* Servers have plans that were stored when nothing said how steps run, under the hash that they have now. */
static void a_plan_without_forms_is_read_and_one_with_other_forms_is_not(void **state)
{
    struct graph *graph;
    struct plan *plan = with_patches(&graph), *back;
    json_t *whole = plan_to_json(plan), *forms = json_object_get(whole, "forms"), *inner;
    size_t i;
    (void)state;
    json_incref(forms);
    json_object_del(whole, "forms");
    back = plan_from_json(graph, whole, NULL);
    assert_non_null(back);
    assert_string_equal(back->hash, plan->hash);
    assert_int_equal(back->parties[0].n_partial, plan->parties[0].n_partial);
    assert_int_equal(back->parties[0].partial[0].form.peak_bytes,
                     plan->parties[0].partial[0].form.peak_bytes);
    plan_free(back);
    json_object_set_new(whole, "forms", forms);
    json_t *steps = json_array_get(forms, 0);
    for (i = 0; json_array_size(json_array_get(json_array_get(steps, i), 1)) == 0;)
        i++;
    inner = json_array_get(json_array_get(json_array_get(steps, i), 1), 0);
    json_array_set_new(json_array_get(json_array_get(inner, 0), 1), 0, json_integer(graph->n_ops));
    assert_null(plan_from_json(graph, whole, NULL));
    json_array_set_new(json_array_get(json_array_get(inner, 0), 1), 0, json_integer(0));
    json_array_append_new(json_array_get(inner, 1), json_integer(0));
    assert_null(plan_from_json(graph, whole, NULL));
    json_array_remove(json_array_get(inner, 1), json_array_size(json_array_get(inner, 1)) - 1);
    json_array_remove(steps, 0);
    assert_null(plan_from_json(graph, whole, NULL));
    json_decref(whole);
    plan_free(plan);
    graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_memory_at_the_peak_adds_up_to_it),
        cmocka_unit_test(schedule_plan_and_stored_plan_say_the_same_of_each_step),
        cmocka_unit_test(a_plan_without_forms_is_read_and_one_with_other_forms_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
