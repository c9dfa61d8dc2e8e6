/* graph_finish: what it orders, places and refuses; and the byte form against truncation and mutation. */
#include "server/model/graph.h"
#include "server/model/optable.h"
#include "tests/support/build_graph.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct quant Q = {0.05f, 3};
static const struct shape MAP = {6, 5, 4};

/* A 1x1 convolution of `in` to `out_c` channels with every weight 1. */
static int32_t conv(struct builder *b, int32_t in, int32_t out_c)
{
    int8_t weights[256];
    float scale = 0.01f;
    struct shape shape = b->graph->tensors[in].shape;
    struct op op = build_plain(OP_CONV, in, -1);
    memset(weights, 1, sizeof weights);
    build_weights(b, &op, weights, (int64_t)shape.c * out_c, &scale, 1, NULL, 0);
    shape.c = out_c;
    return build_op(b, op, shape, Q);
}

static int32_t relu(struct builder *b, int32_t in)
{
    return build_op(b, build_plain(OP_RELU, in, -1), b->graph->tensors[in].shape, Q);
}

/* The one operator that writes tensor `t`. */
static struct op *writer(struct graph *graph, int32_t t)
{
    for (int32_t o = 0; o < graph->n_ops; o++)
        if (graph->ops[o].output == t)
            return &graph->ops[o];
    return NULL;
}

static void assert_refused(struct builder *b, enum status status, const char *layer, const char *words)
{
    struct error error;
    struct graph *graph = build_unfinished(b);
    error_clear(&error);
    assert_int_equal(graph_finish(graph, &error), status);
    assert_int_equal(error.status, status);
    assert_string_equal(error.layer, layer);
    if (!strstr(error.message, words))
        fail_msg("'%s' lacks '%s'", error.message, words);
    graph_free(graph);
}

static void finish_sorts_operators_topologically_and_keeps_order_else(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
    int32_t x = conv(&b, in, 4), y = relu(&b, x), z = conv(&b, y, 2);
    build_output(&b, z);
    struct op first = b.graph->ops[0];
    b.graph->ops[0] = b.graph->ops[2];
    b.graph->ops[2] = first;
    struct graph *graph = build_finish(&b);
    assert_int_equal(graph->ops[0].output, x);
    assert_int_equal(graph->ops[1].output, y);
    assert_int_equal(graph->ops[2].output, z);
    for (int32_t o = 0; o < 3; o++)
        assert_int_equal(graph->tensors[graph->ops[o].output].producer, o);
    assert_int_equal(graph->tensors[in].producer, -1);
    graph_free(graph);
}

static void finish_drops_operators_that_nobody_needs(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
    int32_t dead = relu(&b, conv(&b, in, 4)), x = conv(&b, in, 2);
    b.graph->tensors[dead].dims[3] = -5; /* even one that would be refused */
    build_output(&b, x);
    struct graph *graph = build_finish(&b);
    assert_int_equal(graph->n_ops, 1);
    assert_int_equal(graph->ops[0].output, x);
    assert_int_equal(graph->tensors[dead].producer, -1);
    graph_free(graph);
}

static void readers_are_found_in_order(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q), readers[2] = {-1, -1};
    int32_t x = conv(&b, in, 4);
    int32_t y = build_op(&b, build_plain(OP_ADD, in, x), MAP, Q);
    build_output(&b, build_op(&b, build_plain(OP_MUL, y, y), MAP, Q));
    struct graph *graph = build_finish(&b);
    assert_int_equal(graph_readers(graph, in, readers, 2), 2);
    assert_int_equal(readers[0], 0);
    assert_int_equal(readers[1], 1);
    assert_int_equal(graph_readers(graph, y, readers, 1), 1); /* read twice, by one operator */
    assert_int_equal(graph_readers(graph, in, NULL, 0), 2);
    graph_free(graph);
}

static void places_split_ends_from_body(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_FLOAT32, MAP, (struct quant){0});
    int32_t moved =
        build_typed_op(&b, build_plain(OP_TRANSPOSE, in, -1), DTYPE_FLOAT32, MAP, (struct quant){0});
    int32_t q = build_op(&b, build_plain(OP_QUANTIZE, moved, -1), MAP, Q);
    int32_t x = conv(&b, q, 4);
    int32_t inner = build_op(&b, build_plain(OP_RESHAPE, x, -1), (struct shape){1, 30, 4}, Q);
    int32_t y = relu(&b, inner);
    int32_t flat = build_op(&b, build_plain(OP_RESHAPE, y, -1), (struct shape){1, 1, 120}, Q);
    int32_t real = build_typed_op(&b, build_plain(OP_DEQUANTIZE, flat, -1), DTYPE_FLOAT32,
                                  (struct shape){1, 1, 120}, (struct quant){0});
    build_output(&b, real);
    build_output(&b, x);
    struct graph *graph = build_finish(&b);
    assert_int_equal(writer(graph, moved)->place, OP_PLACE_HEAD);
    assert_int_equal(writer(graph, q)->place, OP_PLACE_HEAD);
    assert_int_equal(writer(graph, x)->place, OP_PLACE_BODY);
    assert_int_equal(writer(graph, inner)->place, OP_PLACE_BODY);
    assert_int_equal(writer(graph, y)->place, OP_PLACE_BODY);
    assert_int_equal(writer(graph, flat)->place, OP_PLACE_TAIL);
    assert_int_equal(writer(graph, real)->place, OP_PLACE_TAIL);
    assert_int_equal(graph_input_bytes(graph), 120 * 4);
    assert_int_equal(graph_output_bytes(graph), 120 * 5);
    graph_free(graph);
}

static void int8_arithmetic_at_the_start_is_body(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int8_t one = 1;
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
    int32_t c = build_constant(&b, (struct shape){1, 1, 1}, Q, &one);
    int32_t x = build_op(&b, build_plain(OP_MUL, in, c), MAP, Q);
    build_output(&b, x);
    struct graph *graph = build_finish(&b);
    assert_int_equal(graph->ops[0].place, OP_PLACE_BODY);
    graph_free(graph);
}

static void float_in_the_middle_is_refused_with_the_layer(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
    int32_t x = conv(&b, in, 4);
    int32_t real =
        build_typed_op(&b, build_plain(OP_DEQUANTIZE, x, -1), DTYPE_FLOAT32, MAP, (struct quant){0});
    build_output(&b, conv(&b, build_op(&b, build_plain(OP_QUANTIZE, real, -1), MAP, Q), 2));
    assert_refused(&b, STATUS_MODEL_UNSUPPORTED, "op1", "FP32 in the middle");

    b = build_new(1);
    in = build_input(&b, DTYPE_FLOAT32, MAP, (struct quant){0});
    build_output(&b, conv(&b, in, 2));
    assert_refused(&b, STATUS_MODEL_UNSUPPORTED, "op0", "runs on INT8 only");
}

static void outputs_without_board_work_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_UINT8, MAP, Q);
    build_output(&b, build_op(&b, build_plain(OP_QUANTIZE, in, -1), MAP, Q));
    assert_refused(&b, STATUS_MODEL_UNSUPPORTED, "op0", "depends on no operator");
}

static void cycles_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q), x = conv(&b, in, 4);
    int32_t sum = build_op(&b, build_plain(OP_ADD, x, x), MAP, Q), y = relu(&b, sum);
    writer(b.graph, sum)->inputs[1] = y;
    build_output(&b, y);
    assert_refused(&b, STATUS_MODEL_MALFORMED, "op1", "its own output");
}

static void tensors_written_twice_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q), x = conv(&b, in, 4), y = relu(&b, x);
    build_output(&b, y);
    writer(b.graph, y)->output = x;
    assert_refused(&b, STATUS_MODEL_MALFORMED, "op1", "written twice");

    b = build_new(1);
    in = build_input(&b, DTYPE_INT8, MAP, Q);
    x = conv(&b, in, 4);
    build_output(&b, x);
    writer(b.graph, x)->output = in;
    assert_refused(&b, STATUS_MODEL_MALFORMED, "op0", "written twice");
}

static void unproduced_tensors_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q), nobody = build_tensor(&b, DTYPE_INT8, MAP, Q);
    build_output(&b, build_op(&b, build_plain(OP_ADD, in, nobody), MAP, Q));
    assert_refused(&b, STATUS_MODEL_MALFORMED, "op0", "nobody produces");

    b = build_new(1);
    in = build_input(&b, DTYPE_INT8, MAP, Q);
    (void)conv(&b, in, 4);
    build_output(&b, in);
    assert_refused(&b, STATUS_MODEL_MALFORMED, "", "no operator produces");
}

static void unread_and_repeated_ends_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
    (void)build_input(&b, DTYPE_INT8, MAP, Q);
    build_output(&b, conv(&b, in, 4));
    assert_refused(&b, STATUS_MODEL_UNSUPPORTED, "", "nobody reads");

    b = build_new(1);
    in = build_input(&b, DTYPE_INT8, MAP, Q);
    int32_t x = conv(&b, in, 4);
    build_output(&b, x);
    build_output(&b, x);
    assert_refused(&b, STATUS_MODEL_MALFORMED, "", "named twice");
}

static void bad_indices_and_counts_are_refused(void **state)
{
    (void)state;
    const int32_t bad[] = {-1, -2147483647 - 1, 3, 8192, 2147483647};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int where = 0; where < 4; where++) {
            struct builder b = build_new(1);
            int32_t x = relu(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
            build_output(&b, x);
            int32_t *const places[] = {&b.graph->ops[1].inputs[0], &b.graph->ops[1].output,
                                       &b.graph->inputs[0], &b.graph->outputs[0]};
            *places[where] = bad[i];
            assert_refused(&b, STATUS_MODEL_MALFORMED, where < 2 ? "op1" : "", "tensor index");
        }
    struct builder b = build_new(1);
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
    b.graph->ops[0].n_inputs = 2;
    assert_refused(&b, STATUS_MODEL_MALFORMED, "op0", "2 inputs");
    b = build_new(1);
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
    b.graph->n_outputs = 0;
    assert_refused(&b, STATUS_MODEL_LIMIT, "", "outputs");
}

static void bad_quantisation_is_refused(void **state)
{
    (void)state;
    const struct quant bad[] = {{0, 0}, {-1, 0}, {NAN, 0}, {INFINITY, 0}, {1e-30f, 0}, {1, 128}, {1, -129}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct builder b = build_new(1);
        build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, bad[i]), 4));
        assert_refused(&b, STATUS_MODEL_MALFORMED, "", i < 5 ? "scale" : "zero point");
    }
    const float scales[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        struct builder b = build_new(1);
        build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
        b.graph->ops[0].weight_scales = &scales[i];
        assert_refused(&b, STATUS_MODEL_MALFORMED, "op0", "weight scale");
    }
    struct builder b = build_new(1);
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, (struct quant){0x1p50f, 0}), 4));
    b.graph->tensors[1].quant.scale = 0x1p-50f;
    assert_refused(&b, STATUS_MODEL_UNSUPPORTED, "op0", "fixed point");
}

static void bad_dims_are_refused(void **state)
{
    (void)state;
    const int32_t bad[][4] = {
        {1, 0, 5, 4}, {1, -1, 5, 4}, {1, 65536, 5, 4}, {2, 6, 5, 4}, {1, 65535, 65535, 4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct builder b = build_new(1);
        int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
        build_output(&b, conv(&b, in, 4));
        memcpy(b.graph->tensors[in].dims, bad[i], sizeof bad[i]);
        b.graph->tensors[in].shape = (struct shape){0};
        assert_refused(&b, i == 3 ? STATUS_MODEL_UNSUPPORTED : STATUS_MODEL_LIMIT, "", "");
    }
    struct builder b = build_new(1);
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q);
    build_output(&b, conv(&b, in, 4));
    b.graph->tensors[in].rank = 5;
    assert_refused(&b, STATUS_MODEL_LIMIT, "", "5 dimensions");
}

static void shapes_are_dims_aligned_right_without_batch(void **state)
{
    (void)state;
    struct shape shape;
    assert_int_equal(graph_shape((int32_t[]){1, 640}, 2, &shape, NULL), 0);
    assert_true(shape_equal(shape, (struct shape){1, 1, 640}));
    assert_int_equal(graph_shape((int32_t[]){1, 160, 3}, 3, &shape, NULL), 0);
    assert_true(shape_equal(shape, (struct shape){1, 160, 3}));
    assert_int_equal(graph_shape((int32_t[]){1, 2, 3, 4}, 4, &shape, NULL), 0);
    assert_true(shape_equal(shape, (struct shape){2, 3, 4}));
    assert_int_equal(graph_shape(NULL, 0, &shape, NULL), 0);
    assert_true(shape_equal(shape, (struct shape){1, 1, 1}));
}

static void bad_windows_are_refused(void **state)
{
    (void)state;
    for (int fault = 0; fault < 12; fault++) {
        struct builder b = build_new(1);
        build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
        struct op *op = &b.graph->ops[0];
        int32_t *const fields[] = {&op->stride_h, &op->stride_w,   &op->kernel_h, &op->dilation_w,
                                   &op->groups,   &op->pad_bottom, &op->groups,   &op->kernel_w,
                                   &op->pad_left, &op->stride_h,   &op->kernel_h, &op->dilation_h};
        const int32_t values[] = {0, -1, 0, 0, 0, -1, 3, 7, 2147483647, 2147483647, 2147483647, -5};
        *fields[fault] = values[fault];
        struct graph *graph = build_unfinished(&b);
        struct error error;
        error_clear(&error);
        assert_true(graph_finish(graph, &error) < 0);
        assert_string_equal(error.layer, "op0");
        graph_free(graph);
    }
}

static void sums_that_can_overflow_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int32_t bias[4] = {0, 0, INT32_MAX - 1000, 0};
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
    b.graph->ops[0].bias = bias; /* 4 weights of 1 add up to 1020 */
    assert_refused(&b, STATUS_MODEL_LIMIT, "op0", "channel 2");
    b = build_new(1);
    bias[2] -= 20;
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
    b.graph->ops[0].bias = bias;
    graph_free(build_finish(&b));
}

static void names_must_be_unique_utf8_without_control(void **state)
{
    (void)state;
    const char *bad[] = {"a\nb", "\xff", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82", "\x7f", "\xc2\x85", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct builder b = build_new(1);
        build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
        b.graph->ops[0].name = bad[i];
        assert_refused(&b, STATUS_MODEL_MALFORMED, "", "name");
    }
    struct builder b = build_new(1);
    build_output(&b, relu(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4)));
    b.graph->ops[1].name = "op0";
    assert_refused(&b, STATUS_MODEL_MALFORMED, "", "two operators");
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    long_name[299] = 0;
    b = build_new(1);
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
    b.graph->ops[0].name = long_name;
    assert_refused(&b, STATUS_MODEL_LIMIT, "", "longer");
    b = build_new(1);
    build_output(&b, conv(&b, build_input(&b, DTYPE_INT8, MAP, Q), 4));
    b.graph->ops[0].name = "sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x90\x9f <b>";
    graph_free(build_finish(&b));
}

static void constants_elsewhere_are_refused(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    int8_t values[120] = {0};
    int32_t in = build_input(&b, DTYPE_INT8, MAP, Q), c = build_constant(&b, MAP, Q, values);
    int32_t x = relu(&b, c);
    build_output(&b, build_op(&b, build_plain(OP_ADD, in, x), MAP, Q));
    assert_refused(&b, STATUS_MODEL_UNSUPPORTED, "op0", "constant");
}

/* Graphs are compared by what they write. */
static void assert_same_bytes(const struct graph *graph, const unsigned char *bytes, size_t size)
{
    unsigned char *again = NULL;
    size_t again_size = 0;
    assert_int_equal(graph_write(graph, &again, &again_size, NULL), 0);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, bytes, size);
    free(again);
}

static void random_graphs_survive_their_byte_form(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        unsigned char *bytes = NULL;
        size_t size = 0;
        struct error error;
        error_clear(&error);
        assert_int_equal(graph_write(graph, &bytes, &size, &error), 0);
        struct graph *read = graph_read(bytes, size, &error);
        if (!read)
            fail_msg("seed %d: %s", (int)seed, error.message);
        assert_same_bytes(read, bytes, size);
        assert_int_equal(read->n_ops, graph->n_ops);
        for (int32_t o = 0; o < graph->n_ops; o++) {
            assert_int_equal(read->ops[o].place, graph->ops[o].place);
            assert_string_equal(read->ops[o].name, graph->ops[o].name);
        }
        graph_free(read);
        graph_free(graph);
        free(bytes);
    }
}

static void random_graphs_hold_every_kind_of_operator(void **state)
{
    (void)state;
    int32_t seen[OP_KIND_COUNT] = {0}, places[3] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        for (int32_t o = 0; o < graph->n_ops; o++) {
            seen[graph->ops[o].kind]++;
            places[graph->ops[o].place]++;
        }
        graph_free(graph);
    }
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        assert_true(seen[kind] > 0);
    assert_true(places[0] > 0 && places[1] > 0 && places[2] > 0);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct random_graph_options options = {.ops = 5, .max_channels = 8};
    struct graph *graph = random_graph(7, &options);
    unsigned char *bytes = NULL;
    size_t size = 0;
    assert_int_equal(graph_write(graph, &bytes, &size, NULL), 0);
    size_t step = size > 6000 ? size / 6000 + 1 : 1;
    for (size_t n = 0; n < size; n += step) {
        unsigned char *part =
            malloc(n ? n : 1); /* of exactly n bytes, so that a sanitizer sees a stray read */
        struct error error;
        assert_non_null(part);
        memcpy(part, bytes, n);
        error_clear(&error);
        assert_null(graph_read(part, n, &error));
        assert_int_equal(error.status, STATUS_MODEL_MALFORMED);
        free(part);
    }
    unsigned char *longer = calloc(1, size + 1);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    assert_null(graph_read(longer, size + 1, NULL));
    free(longer);
    free(bytes);
    graph_free(graph);
}

/* A mutated graph is refused, or is one that every function of the table can be asked about. */
static void use_everything(const struct graph *graph)
{
    int64_t sum = (int64_t)(graph_input_bytes(graph) + graph_output_bytes(graph));
    for (int32_t o = 0; o < graph->n_ops; o++) {
        const struct op *op = &graph->ops[o];
        const struct op_row *row = op_row(op->kind);
        struct box whole = box_whole(graph->tensors[op->output].shape);
        sum += row->macs(graph, op, whole) + row->axes(graph, op) + row->cost(graph, op);
        for (int32_t i = 0; i < op->n_inputs; i++) {
            struct box need = row->need(graph, op, i, whole);
            assert_true(box_contains(box_whole(graph->tensors[op->inputs[i]].shape), need));
        }
    }
    assert_true(sum >= 0);
}

static void random_mutations_are_refused_or_harmless(void **state)
{
    (void)state;
    struct prng prng = prng_seed(99);
    int accepted = 0, refused = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct random_graph_options options = {.ops = 4, .max_channels = 8};
        struct graph *graph = random_graph(seed, &options);
        unsigned char *bytes = NULL;
        size_t size = 0;
        assert_int_equal(graph_write(graph, &bytes, &size, NULL), 0);
        for (int round = 0; round < 500; round++) {
            unsigned char *copy = malloc(size);
            assert_non_null(copy);
            memcpy(copy, bytes, size);
            for (int32_t n = prng_range(&prng, 1, 4); n > 0; n--) {
                static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff};
                size_t at = (size_t)prng_range(&prng, 0, (int32_t)size - 1);
                copy[at] =
                    prng_one_in(&prng, 2) ? edges[prng_range(&prng, 0, 4)] : (unsigned char)prng_next(&prng);
            }
            struct graph *read = graph_read(copy, size, NULL);
            if (read)
                use_everything(read);
            accepted += read != NULL;
            refused += read == NULL;
            graph_free(read);
            free(copy);
        }
        free(bytes);
        graph_free(graph);
    }
    assert_true(accepted > 100 && refused > 100);
}

/* As large as a graph may be, and in the worst order. */
static void the_largest_graphs_are_finished(void **state)
{
    (void)state;
    struct graph *graph = graph_new((size_t)64 << 20);
    assert_non_null(graph);
    graph->n_tensors = GRAPH_OPS_MAX + 1;
    graph->n_ops = GRAPH_OPS_MAX;
    graph->tensors = arena_alloc(graph->arena, GRAPH_OPS_MAX + 1, sizeof *graph->tensors);
    graph->ops = arena_alloc(graph->arena, GRAPH_OPS_MAX, sizeof *graph->ops);
    assert_true(graph->tensors && graph->ops);
    for (int32_t t = 0; t <= GRAPH_OPS_MAX; t++)
        graph->tensors[t] =
            (struct tensor){.name = "t", .rank = 4, .dims = {1, 1, 1, 2}, .quant = Q, .shape = {1, 1, 2}};
    for (int32_t o = 0; o < GRAPH_OPS_MAX; o++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", o);
        struct op *op = &graph->ops[GRAPH_OPS_MAX - 1 - o];
        *op = build_plain(OP_RELU, o, -1);
        op->output = o + 1;
        op->file_op = "RELU";
        op->name = arena_string(graph->arena, name, sizeof name);
    }
    graph->n_inputs = graph->n_outputs = 1;
    graph->outputs[0] = GRAPH_OPS_MAX;
    assert_int_equal(graph_finish(graph, NULL), 0);
    for (int32_t o = 0; o < GRAPH_OPS_MAX; o++)
        assert_int_equal(graph->ops[o].output, o + 1);
    graph_free(graph);
}

static void types_have_sizes_and_names(void **state)
{
    (void)state;
    assert_int_equal(dtype_bytes(DTYPE_INT8) + dtype_bytes(DTYPE_UINT8), 2);
    assert_int_equal(dtype_bytes(DTYPE_INT32) + dtype_bytes(DTYPE_FLOAT32), 8);
    assert_string_equal(dtype_name(DTYPE_FLOAT32), "FP32");
    assert_string_equal(dtype_name((enum dtype)99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finish_sorts_operators_topologically_and_keeps_order_else),
        cmocka_unit_test(finish_drops_operators_that_nobody_needs),
        cmocka_unit_test(readers_are_found_in_order),
        cmocka_unit_test(places_split_ends_from_body),
        cmocka_unit_test(int8_arithmetic_at_the_start_is_body),
        cmocka_unit_test(float_in_the_middle_is_refused_with_the_layer),
        cmocka_unit_test(outputs_without_board_work_are_refused),
        cmocka_unit_test(cycles_are_refused),
        cmocka_unit_test(tensors_written_twice_are_refused),
        cmocka_unit_test(unproduced_tensors_are_refused),
        cmocka_unit_test(unread_and_repeated_ends_are_refused),
        cmocka_unit_test(bad_indices_and_counts_are_refused),
        cmocka_unit_test(bad_quantisation_is_refused),
        cmocka_unit_test(bad_dims_are_refused),
        cmocka_unit_test(shapes_are_dims_aligned_right_without_batch),
        cmocka_unit_test(bad_windows_are_refused),
        cmocka_unit_test(sums_that_can_overflow_are_refused),
        cmocka_unit_test(names_must_be_unique_utf8_without_control),
        cmocka_unit_test(constants_elsewhere_are_refused),
        cmocka_unit_test(random_graphs_survive_their_byte_form),
        cmocka_unit_test(random_graphs_hold_every_kind_of_operator),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(random_mutations_are_refused_or_harmless),
        cmocka_unit_test(the_largest_graphs_are_finished),
        cmocka_unit_test(types_have_sizes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
