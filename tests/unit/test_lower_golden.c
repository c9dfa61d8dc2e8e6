/*
 * Real models under schedules of partial execution meet TensorFlow Lite's own answers byte for byte, within
 * the arena that the plan states. Needs the facts folder (environment variable FACTS, default ../shared);
 * without it each test skips and says so. To stay short each way to schedule takes one golden input.
 */
#include "server/emit/emit.h"
#include "server/schedule/schedule.h"
#include "tests/support/golden.h"
#include "tests/support/painted_run.h"
#include "tests/support/transposed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *name, const struct graph *graph, const struct schedule_options *options, int k)
{
    struct emit_fragment *fragments = NULL;
    struct plan_board board = *plan_profile("teensy41-good");
    struct error error;
    size_t in_size, out_size;
    uint32_t highest;
    uint8_t *in = golden_read(name, "in", k, &in_size), *expected = golden_read(name, "out", k, &out_size);
    uint8_t *out = calloc(1, out_size);
    board.flash_bytes = 1 << 30;
    board.layouts = k % 2 ? NN_LAYOUT_MASK_ALL : NN_LAYOUT_MASK_PLAIN;
    error_clear(&error);
    struct schedule *schedule = schedule_make(graph, options, &error);
    struct plan *plan = schedule ? plan_scheduled(graph, "", &board, schedule, options, &error) : NULL;
    if (!plan || emit_plan(plan, &fragments, &error) < 0)
        fail_msg("%s: %s", name, error.message);
    int status = painted_run(plan, &fragments[0], in, in_size, out, out_size, &highest, &error);
    if (status < 0)
        fail_msg("%s: %s", name, status_name(status));
    if (memcmp(out, expected, out_size) != 0)
        fail_msg("%s, axes %d, input %d: the answer differs", name, (int)options->axes, k);
    const struct plan_party *party = &plan->parties[0];
    if (getenv("LOWER_VERBOSE"))
        print_message("%-48s axes %d extra %2.0f %%: peak %8lld arena %8lld scratch %6lld fragment %8u\n",
                      name, (int)options->axes, options->extra_macs, (long long)party->peak_bytes,
                      (long long)party->arena_bytes, (long long)party->scratch_bytes, fragments[0].size);
    assert_true(highest <= party->arena_bytes);
    if (k % 2 == 0) /* packed kernels may leave a part of their scratch */
        assert_true(highest + 32 > party->arena_bytes);
    assert_true(party->arena_bytes < (party->peak_bytes + party->scratch_bytes) * 51 / 50 + 32);
    emit_free(fragments, 1);
    plan_free(plan);
    schedule_free(schedule);
    free(in);
    free(expected);
    free(out);
}

static const struct schedule_options ways[] = {
    {.axes = SCHEDULE_AXES_FULL, .accumulator = 32},
    {.axes = SCHEDULE_AXES_CHANNELS, .accumulator = 32},
    {.axes = SCHEDULE_AXES_ROWS, .accumulator = 32},
    {.axes = SCHEDULE_AXES_ALL, .accumulator = 32},
    {.axes = SCHEDULE_AXES_ALL, .accumulator = 32, .extra_macs = 10},
};

#ifdef SHOAL_SANITIZE
enum { FIRST = 3 }; /* of the ways */
#else
enum { FIRST = 0 };
#endif

static void scheduled_model_meets_the_goldens(void **state)
{
    const char *name = *state;
    struct graph *graph = golden_load(name, "schedule");
    for (int i = FIRST; i < 5; i++)
        check(name, graph, &ways[i], i % GOLDENS);
    graph_free(graph);
}

/* The larger ones take the way with everything on alone. */
static void scheduled_large_model_meets_the_goldens(void **state)
{
    const char *name = *state;
    struct graph *graph = golden_load(name, "schedule");
    for (int i = getenv("LOWER_VERBOSE") ? 0 : 4; i < 5; i++)
        check(name, graph, &ways[i], i % GOLDENS);
    graph_free(graph);
}

/* Least memory of any schedule; *columns: its steps that go along columns. */
static int64_t least(const struct graph *graph, const struct schedule_options *options, int32_t *columns)
{
    struct schedule *schedule = schedule_make(graph, options, NULL);
    assert_non_null(schedule);
    int64_t peak = schedule->peak_bytes;
    *columns = 0;
    for (int32_t s = 0; s < schedule->n_steps; s++)
        *columns += schedule->steps[s].tall;
    schedule_free(schedule);
    return peak;
}

/* A network over time, of one column in its file, has the same bytes as one row. */
static void a_model_of_one_row_meets_the_goldens_along_columns(void **state)
{
    const char *name = "silabs_keyword_spotting_on_off_v3";
    struct graph *graph = golden_load(name, "schedule"), *row = transposed(graph);
    (void)state;
    assert_non_null(row);
    for (int i = 2; i < 5; i++) {
        int32_t none, some;
        assert_int_equal(least(graph, &ways[i], &none), least(row, &ways[i], &some));
        assert_true(none == 0 && some > 0);
        for (int k = 0; k < 2; k++)
            check(name, row, &ways[i], k);
    }
    transposed_free(row);
    graph_free(graph);
}

#define ROW(function, model)                                                   \
    {                                                                          \
        "schedule_of_" model, function, NULL, NULL, (void *)(uintptr_t)(model) \
    }
#define SMALL(model) ROW(scheduled_model_meets_the_goldens, model)
#define LARGE(model) ROW(scheduled_large_model_meets_the_goldens, model)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_one_row_meets_the_goldens_along_columns),
        SMALL("cfu_model_mobilenetv2_160_035"),
        SMALL("coral_mobilenet_v1_0.25_128_quant"),
        SMALL("derived_cfu_model_mobilenetv2_160_035_to112"),
        SMALL("emlearn_mnist_cnn_int8"),
        SMALL("mcunet_vww"),
        SMALL("mlperf_ad01_int8"),
        SMALL("mlperf_kws_ref_model"),
        SMALL("mlperf_pretrainedResnet_quant"),
        SMALL("mlperf_vww_96_int8"),
        SMALL("nxp_yolo_face_detect"),
        SMALL("silabs_image_example1"),
        SMALL("silabs_keyword_spotting_on_off_v3"),
        SMALL("tflm_hello_world_int8"),
        SMALL("tflm_person_detect"),
        LARGE("derived_coral_tf2_mobilenet_v2_1.0_224_ptq_to112"),
        LARGE("coral_tf2_mobilenet_v2_1.0_224_ptq"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
