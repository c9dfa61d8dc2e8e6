/*
 * The reference executor on random graphs: against plain double-precision arithmetic (a fixed-point result
 * may be one step off, never two), and place by place against the whole.
 */
#include "server/model/reference.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double real_of(const struct graph *graph, void *const *tensors, int32_t t, int64_t i)
{
    const struct tensor *tensor = &graph->tensors[t];
    const int8_t *values = tensor->data ? tensor->data : tensors[t];
    return (double)tensor->quant.scale * (values[i] - tensor->quant.zero_point);
}

static int64_t offset(struct shape shape, int32_t h, int32_t w, int32_t c)
{
    return ((int64_t)h * shape.w + w) * shape.c + c;
}

static double real_window(const struct graph *graph, const struct op *op, void *const *tensors, int32_t h,
                          int32_t w, int32_t c)
{
    struct shape in = graph->tensors[op->inputs[0]].shape, out = graph->tensors[op->output].shape;
    bool depthwise = op->kind == OP_DEPTHWISE;
    int32_t depth = depthwise ? 1 : in.c / op->groups;
    int32_t first = depthwise ? c / op->multiplier : c / (out.c / op->groups) * depth;
    double scale = (double)op->weight_scales[op->n_weight_scales == 1 ? 0 : c];
    double sum = op->bias ? op->bias[c] * scale * (double)graph->tensors[op->inputs[0]].quant.scale : 0;
    for (int32_t i = 0; i < op->kernel_h; i++)
        for (int32_t j = 0; j < op->kernel_w; j++)
            for (int32_t k = 0; k < depth; k++) {
                int32_t ih = h * op->stride_h - op->pad_top + i * op->dilation_h;
                int32_t iw = w * op->stride_w - op->pad_left + j * op->dilation_w;
                if (ih < 0 || ih >= in.h || iw < 0 || iw >= in.w)
                    continue;
                int64_t at = depthwise ? ((int64_t)i * op->kernel_w + j) * out.c + c
                                       : (((int64_t)c * op->kernel_h + i) * op->kernel_w + j) * depth + k;
                sum += real_of(graph, tensors, op->inputs[0], offset(in, ih, iw, first + k)) * scale *
                       (op->weights[at] - op->weight_zero_point);
            }
    return sum;
}

static double real_pair(const struct graph *graph, const struct op *op, void *const *tensors, int64_t i)
{
    struct shape a = graph->tensors[op->inputs[0]].shape, b = graph->tensors[op->inputs[1]].shape;
    int64_t j = shape_equal(a, b) ? i : b.c == 1 ? 0 : i % a.c;
    double x = real_of(graph, tensors, op->inputs[0], i), y = real_of(graph, tensors, op->inputs[1], j);
    return op->kind == OP_ADD ? x + y : op->kind == OP_SUB ? x - y : x * y;
}

static double real_activation(enum activation activation, double x)
{
    if (activation == ACTIVATION_RELU)
        return fmax(x, 0);
    if (activation == ACTIVATION_RELU6)
        return fmin(fmax(x, 0), 6);
    return activation == ACTIVATION_RELU_N1_TO_1 ? fmin(fmax(x, -1), 1) : x;
}

/* The real value of output element (h, w, c); false for kinds that the other tests cover. */
static bool real_value(const struct graph *graph, const struct op *op, void *const *tensors, int32_t h,
                       int32_t w, int32_t c, double *value)
{
    int64_t i = offset(graph->tensors[op->output].shape, h, w, c);
    switch (op->kind) {
    case OP_CONV:
    case OP_DEPTHWISE:
        *value = real_window(graph, op, tensors, h, w, c);
        return true;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
        *value = real_pair(graph, op, tensors, i);
        return true;
    case OP_REQUANTIZE:
        *value = real_of(graph, tensors, op->inputs[0], i);
        return true;
    case OP_RELU:
        *value = fmax(real_of(graph, tensors, op->inputs[0], i), 0);
        return true;
    case OP_RELU6:
        *value = fmin(fmax(real_of(graph, tensors, op->inputs[0], i), 0), 6);
        return true;
    default:
        return false;
    }
}

static int compare_op(const struct graph *graph, const struct op *op, void *const *tensors)
{
    const struct tensor *out = &graph->tensors[op->output];
    int compared = 0;
    for (int32_t h = 0; h < out->shape.h; h++)
        for (int32_t w = 0; w < out->shape.w; w++)
            for (int32_t c = 0; c < out->shape.c; c++) {
                double value;
                if (!real_value(graph, op, tensors, h, w, c, &value))
                    return 0;
                value =
                    real_activation(op->activation, value) / (double)out->quant.scale + out->quant.zero_point;
                value = fmin(fmax(value, -128), 127);
                int32_t have = ((const int8_t *)tensors[op->output])[offset(out->shape, h, w, c)];
                if (fabs(value - have) > 1)
                    fail_msg("kind %d at %d,%d,%d: %d, in double %f", (int)op->kind, h, w, c, have, value);
                compared++;
            }
    return compared;
}

static void random_graphs_are_within_one_step_of_double_arithmetic(void **state)
{
    (void)state;
    int64_t compared = 0;
    for (uint64_t seed = 1000; seed < 1200; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        size_t bytes;
        void *in = random_input(graph, seed, &bytes),
             **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
        assert_non_null(tensors);
        assert_int_equal(reference_run_keep(graph, in, bytes, tensors, NULL), 0);
        for (int32_t o = 0; o < graph->n_ops; o++)
            if (graph->ops[o].place == OP_PLACE_BODY)
                compared += compare_op(graph, &graph->ops[o], tensors);
        reference_free_tensors(graph, tensors);
        free(tensors);
        free(in);
        graph_free(graph);
    }
    assert_true(compared > 100000);
}

/* Random graphs are only worth something if their values are spread: not all at one end of the type. */
static void random_graphs_do_not_saturate(void **state)
{
    (void)state;
    int64_t at_end = 0, all = 0, flat = 0, tensors_seen = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        size_t bytes;
        void *in = random_input(graph, seed, &bytes),
             **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
        assert_non_null(tensors);
        assert_int_equal(reference_run_keep(graph, in, bytes, tensors, NULL), 0);
        for (int32_t o = 0; o < graph->n_ops; o++) {
            const struct tensor *tensor = &graph->tensors[graph->ops[o].output];
            const int8_t *values = tensors[graph->ops[o].output];
            int64_t n = shape_elements(tensor->shape), same = 0;
            for (int64_t i = 0; i < n && tensor->dtype == DTYPE_INT8; i++) {
                at_end += values[i] == -128 || values[i] == 127;
                same += values[i] == values[0];
                all++;
            }
            flat += n > 4 && same == n;
            tensors_seen++;
        }
        reference_free_tensors(graph, tensors);
        free(tensors);
        free(in);
        graph_free(graph);
    }
    if (at_end * 4 > all || flat * 20 > tensors_seen)
        fail_msg("%ld of %ld values at an end, %ld of %ld tensors flat", (long)at_end, (long)all, (long)flat,
                 (long)tensors_seen);
}

static void places_run_one_after_another_give_the_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        size_t bytes, out_bytes = graph_output_bytes(graph);
        unsigned char *in = random_input(graph, seed, &bytes), *at = in, *out = malloc(out_bytes),
                      *want = out;
        void **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
        assert_true(tensors && out);
        assert_int_equal(reference_run(graph, in, bytes, out, out_bytes, NULL), 0);
        for (int32_t i = 0; i < graph->n_inputs; i++) {
            size_t n = tensor_bytes(&graph->tensors[graph->inputs[i]]);
            tensors[graph->inputs[i]] = malloc(n);
            assert_non_null(tensors[graph->inputs[i]]);
            memcpy(tensors[graph->inputs[i]], at, n);
            at += n;
        }
        for (int place = OP_PLACE_HEAD; place <= OP_PLACE_TAIL; place++)
            assert_int_equal(reference_run_place(graph, (enum op_place)place, tensors, NULL), 0);
        for (int32_t i = 0; i < graph->n_outputs; i++) {
            size_t n = tensor_bytes(&graph->tensors[graph->outputs[i]]);
            assert_memory_equal(tensors[graph->outputs[i]], want, n);
            want += n;
        }
        reference_free_tensors(graph, tensors);
        free(tensors);
        free(in);
        free(out);
        graph_free(graph);
    }
}

static void missing_tensors_are_an_error(void **state)
{
    (void)state;
    struct graph *graph = random_graph(5, NULL);
    void **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
    assert_non_null(tensors);
    assert_int_equal(reference_run_place(graph, OP_PLACE_BODY, tensors, NULL), STATUS_INTERNAL);
    reference_free_tensors(graph, tensors);
    free(tensors);
    graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_are_within_one_step_of_double_arithmetic),
        cmocka_unit_test(random_graphs_do_not_saturate),
        cmocka_unit_test(places_run_one_after_another_give_the_whole),
        cmocka_unit_test(missing_tensors_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
