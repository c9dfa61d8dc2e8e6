/*
 * Real models cut over 1, 2, 3, 5, 8 and 16 boards meet TensorFlow Lite's own answers byte for byte. Needs
 * the facts folder (environment variable FACTS, default ../shared); without it each test skips and says so.
 * To stay short each model takes one golden input a number of boards, turn and turn about.
 */
#include "server/emit/emit.h"
#include "tests/support/golden.h"
#include "tests/support/split_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Boards without limits of memory and unequal in speed: exactness is asked here, not what fits. */
static void make_boards(struct plan_board *boards, int32_t n)
{
    for (int32_t b = 0; b < n; b++) {
        boards[b] = *plan_profile("teensy41-good");
        boards[b].clock_hz *= 1 + 0.3 * (b % 3);
        boards[b].arena_bytes = boards[b].flash_bytes = 1 << 30;
        boards[b].layouts = (n + b) % 2 ? NN_LAYOUT_MASK_ALL : NN_LAYOUT_MASK_PLAIN;
    }
}

static void check(const char *name, const struct graph *graph, int32_t n, int k)
{
    struct plan_board boards[16];
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON,
                                   .shares = n % 2 ? PLAN_SHARES_RATING : PLAN_SHARES_EVEN};
    struct emit_fragment *fragments = NULL;
    struct error error;
    size_t in_size, out_size;
    uint8_t *in = golden_read(name, "in", k, &in_size), *expected = golden_read(name, "out", k, &out_size);
    uint8_t *out = calloc(1, out_size);
    make_boards(boards, n);
    error_clear(&error);
    struct plan *plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
    if (!plan || emit_plan(plan, &fragments, &error) < 0)
        fail_msg("%s over %d boards: %s", name, n, error.message);
    int status = split_run(plan, fragments, (uint64_t)k, in, in_size, out, out_size, &error);
    if (status < 0)
        fail_msg("%s over %d boards: %s", name, n, status_name(status));
    if (memcmp(out, expected, out_size) != 0)
        fail_msg("%s over %d boards, input %d: the answer differs", name, n, k);
    if (getenv("SPLIT_VERBOSE"))
        printf("%-46s N=%2d peak %8lld arena %8lld fragment %8lld bound, moved %9lld rounds %3d latency "
               "%8.2f ms\n",
               name, n, (long long)plan->parties[0].peak_bytes, (long long)plan->parties[0].arena_bytes,
               (long long)plan->parties[0].fragment_bytes, (long long)plan->bytes_moved, plan->rounds,
               plan->latency_ms);
    emit_free(fragments, n);
    plan_free(plan);
    free(in);
    free(expected);
    free(out);
}

static void split_model_meets_the_goldens(void **state)
{
    static const int32_t numbers[] = {1, 2, 3, 5, 8, 16};
    const char *name = *state;
    struct graph *graph = golden_load(name, "split");
    for (int i = 0; i < 6; i++)
        check(name, graph, numbers[i], i % GOLDENS);
    graph_free(graph);
}

/* The larger ones take two numbers of boards only. */
static void split_large_model_meets_the_goldens(void **state)
{
    const char *name = *state;
    struct graph *graph = golden_load(name, "split");
    check(name, graph, 3, 3);
    check(name, graph, 8, 0);
    graph_free(graph);
}

#define ROW(function, model)                                                \
    {                                                                       \
        "split_of_" model, function, NULL, NULL, (void *)(uintptr_t)(model) \
    }
#define SMALL(model) ROW(split_model_meets_the_goldens, model)
#define LARGE(model) ROW(split_large_model_meets_the_goldens, model)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
