/*
 * The reference executor on graphs small enough to compute by hand. SOFTMAX and LOGISTIC against the real
 * functions: a fixed-point result may be one step off, never two.
 */
#include "server/model/reference.h"
#include "server/model/reference_kernels.h"
#include "tests/support/build_graph.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct quant UNIT = {1, 0};
static const struct quant PROBABILITY = {1.0f / 256, -128};

/* Finishes the graph, runs it, compares n output bytes; takes the builder's graph. */
static void assert_gives(struct builder *b, const void *in, size_t in_bytes, const void *expected, size_t n)
{
    struct graph *graph = build_finish(b);
    struct error error;
    unsigned char *out = calloc(1, n);
    assert_non_null(out);
    error_clear(&error);
    assert_int_equal(graph_output_bytes(graph), n);
    if (reference_run(graph, in, in_bytes, out, n, &error) != 0)
        fail_msg("%s", error.message);
    assert_memory_equal(out, expected, n);
    free(out);
    graph_free(graph);
}

/* One operator over one int8 input. */
static void assert_op(struct op op, struct shape in_shape, struct quant in_quant, const int8_t *in,
                      struct shape out_shape, struct quant out_quant, const int8_t *expected)
{
    struct builder b = build_new(1);
    op.inputs[0] = build_input(&b, DTYPE_INT8, in_shape, in_quant);
    build_output(&b, build_op(&b, op, out_shape, out_quant));
    assert_gives(&b, in, (size_t)shape_elements(in_shape), expected, (size_t)shape_elements(out_shape));
}

static void multipliers_have_31_bits_and_a_shift(void **state)
{
    (void)state;
    struct reference_multiplier m = reference_multiplier(0.5);
    assert_true(m.mantissa == 1 << 30 && m.shift == 0);
    m = reference_multiplier(1);
    assert_true(m.mantissa == 1 << 30 && m.shift == 1);
    m = reference_multiplier(0.75);
    assert_true(m.mantissa == 1610612736 && m.shift == 0);
    m = reference_multiplier(0.3 / 1024);
    assert_true(m.mantissa == 1288490189 && m.shift == -11);
    m = reference_multiplier(1 - 0x1p-40); /* rounds up to 2^31: carried */
    assert_true(m.mantissa == 1 << 30 && m.shift == 1);
    m = reference_multiplier(0x1p-33); /* shift -32 would be */
    assert_true(m.mantissa == 0 && m.shift == 0);
    m = reference_multiplier(0x1p-32);
    assert_true(m.mantissa == 1 << 30 && m.shift == -31);
    m = reference_multiplier(0);
    assert_true(m.mantissa == 0 && m.shift == 0);
}

static void doubling_high_rounds_half_up_and_saturates(void **state)
{
    (void)state;
    assert_int_equal(reference_doubling_high(INT32_MIN, INT32_MIN), INT32_MAX);
    assert_int_equal(reference_doubling_high(INT32_MIN, INT32_MAX), -INT32_MAX);
    assert_int_equal(reference_doubling_high(1 << 15, 1 << 15), 1);    /* 2^30 is half: up */
    assert_int_equal(reference_doubling_high(-(1 << 15), 1 << 15), 0); /* minus half: up, to 0 */
    assert_int_equal(reference_doubling_high(-3, 1 << 30), -1);        /* -1.5 becomes -1 */
    assert_int_equal(reference_doubling_high(3, 1 << 30), 2);
}

static void division_by_powers_rounds_half_away_from_zero(void **state)
{
    (void)state;
    assert_int_equal(reference_divide_power(5, 1), 3);
    assert_int_equal(reference_divide_power(-5, 1), -3);
    assert_int_equal(reference_divide_power(5, 2), 1);
    assert_int_equal(reference_divide_power(6, 2), 2);
    assert_int_equal(reference_divide_power(-6, 2), -2);
    assert_int_equal(reference_divide_power(7, 0), 7);
    assert_int_equal(reference_divide_power(INT32_MIN, 31), -1);
    assert_int_equal(reference_divide_power(INT32_MAX, 31), 1);
}

static void conv_adds_nothing_outside_the_image(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    const int8_t in[] = {10, 20, 30, 40}, weights[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const float scale = 1;
    const int32_t bias = 5;
    struct quant from = {1, 10}; /* 10 is zero: padding must count as this, not as 0 */
    int32_t x = build_input(&b, DTYPE_INT8, (struct shape){2, 2, 1}, from);
    struct op op = build_plain(OP_CONV, x, -1);
    op.kernel_h = op.kernel_w = 3;
    op.pad_top = op.pad_left = op.pad_bottom = op.pad_right = 1;
    build_weights(&b, &op, weights, 9, &scale, 1, &bias, 1);
    build_output(&b, build_op(&b, op, (struct shape){2, 2, 1}, UNIT));
    const int8_t expected[] = {65, 65, 65, 65}; /* 0 + 10 + 20 + 30 + 5 */
    assert_gives(&b, in, 4, expected, 4);
}

static void conv_weights_are_ohwi_with_scales_per_channel(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    /* 1x2 pixels of 2 channels; kernel 1x2; output channel 0 reads all, 1 reads one tap */
    const int8_t in[] = {1, 2, 3, 4}, weights[] = {1, 10, 2, 20, 0, 0, 0, 25};
    const float scales[] = {1, 0.5f};
    int32_t x = build_input(&b, DTYPE_INT8, (struct shape){1, 2, 2}, UNIT);
    struct op op = build_plain(OP_CONV, x, -1);
    op.kernel_w = 2;
    build_weights(&b, &op, weights, 8, scales, 2, NULL, 0);
    build_output(&b, build_op(&b, op, (struct shape){1, 1, 2}, UNIT));
    const int8_t expected[] = {1 + 20 + 6 + 80, 50};
    assert_gives(&b, in, 4, expected, 2);
}

static void conv_groups_read_their_own_channels(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    const int8_t in[] = {1, 2, 3, 4}, weights[] = {1, 1, 1, 0, 1, 1, 0, 1};
    const float scale = 1;
    int32_t x = build_input(&b, DTYPE_INT8, (struct shape){1, 1, 4}, UNIT);
    struct op op = build_plain(OP_CONV, x, -1);
    op.groups = 2;
    build_weights(&b, &op, weights, 8, &scale, 1, NULL, 0);
    build_output(&b, build_op(&b, op, (struct shape){1, 1, 4}, UNIT));
    const int8_t expected[] = {3, 1, 7, 4};
    assert_gives(&b, in, 4, expected, 4);
}

static void conv_strides_and_dilates(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    const int8_t in[] = {1, 2, 3, 4, 5, 6, 7}, weights[] = {1, 10};
    const float scale = 1;
    int32_t x = build_input(&b, DTYPE_INT8, (struct shape){7, 1, 1}, UNIT);
    struct op op = build_plain(OP_CONV, x, -1);
    op.kernel_h = 2;
    op.dilation_h = 3;
    op.stride_h = 2;
    op.pad_bottom = 1;
    build_weights(&b, &op, weights, 2, &scale, 1, NULL, 0);
    build_output(&b, build_op(&b, op, (struct shape){3, 1, 1}, UNIT));
    const int8_t expected[] = {41, 63, 5}; /* the last tap lies in the padding */
    assert_gives(&b, in, 7, expected, 3);
}

static void depthwise_channels_read_their_input_channel(void **state)
{
    (void)state;
    struct builder b = build_new(1);
    const int8_t in[] = {1, 2, 3, 4}, weights[] = {1, 2, 3, 4, 10, 20, 30, -5};
    const float scale = 1;
    int32_t x = build_input(&b, DTYPE_INT8, (struct shape){1, 2, 2}, UNIT);
    struct op op = build_plain(OP_DEPTHWISE, x, -1);
    op.kernel_w = 2;
    op.multiplier = 2;
    build_weights(&b, &op, weights, 8, &scale, 1, NULL, 0);
    build_output(&b, build_op(&b, op, (struct shape){1, 1, 4}, UNIT));
    const int8_t expected[] = {1 + 30, 2 + 60, 6 + 120, 8 - 20};
    assert_gives(&b, in, 4, expected, 4);
}

static void fused_activations_clamp_in_the_output_scale(void **state)
{
    (void)state;
    const enum activation kinds[] = {ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_RELU6,
                                     ACTIVATION_RELU_N1_TO_1};
    const int8_t in[] = {-100, -4, 0, 4, 100};
    const int8_t expected[][5] = {
        {-100, -4, 0, 4, 100}, {10, 10, 10, 10, 100}, {10, 10, 10, 10, 22}, {8, 8, 8, 8, 12}};
    for (int i = 0; i < 4; i++) {
        struct op op = build_plain(OP_MAX_POOL, -1, -1);
        op.activation = kinds[i];
        struct quant quant = {0.5f, 10};
        assert_op(op, (struct shape){1, 1, 5}, quant, in, (struct shape){1, 1, 5}, quant, expected[i]);
    }
}

static void average_pool_rounds_half_away_from_zero(void **state)
{
    (void)state;
    const int8_t in[] = {1, 2, -1, -2, 3, 4};
    struct op op = build_plain(OP_AVERAGE_POOL, -1, -1);
    op.kernel_w = op.stride_w = 2;
    const int8_t away[] = {2, -2, 4}; /* 1.5, -1.5, 3.5 */
    assert_op(op, (struct shape){1, 6, 1}, UNIT, in, (struct shape){1, 3, 1}, UNIT, away);
    op.legacy_uint8 = true;
    const int8_t up[] = {2, -1, 4};
    assert_op(op, (struct shape){1, 6, 1}, UNIT, in, (struct shape){1, 3, 1}, UNIT, up);
}

static void average_pool_divides_by_the_taps_inside(void **state)
{
    (void)state;
    const int8_t in[] = {10, 20, 30};
    struct op op = build_plain(OP_AVERAGE_POOL, -1, -1);
    op.kernel_w = 3;
    op.pad_left = op.pad_right = 1;
    const int8_t expected[] = {15, 20, 25};
    assert_op(op, (struct shape){1, 3, 1}, UNIT, in, (struct shape){1, 3, 1}, UNIT, expected);
    op.kind = OP_MAX_POOL;
    const int8_t most[] = {20, 30, 30};
    assert_op(op, (struct shape){1, 3, 1}, UNIT, in, (struct shape){1, 3, 1}, UNIT, most);
}

static void mean_reduces_the_axes_of_its_mask(void **state)
{
    (void)state;
    const int8_t in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; /* 2 x 3 x 2 */
    const struct shape map = {2, 3, 2};
    const int8_t h[] = {4, 5, 6, 7, 8, 9}, hw[] = {6, 7}, all[] = {7}, c[] = {2, 4, 6, 8, 10, 12};
    struct op op = build_plain(OP_MEAN, -1, -1);
    op.reduce = 1;
    assert_op(op, map, UNIT, in, (struct shape){1, 3, 2}, UNIT, h);
    op.reduce = 3;
    assert_op(op, map, UNIT, in, (struct shape){1, 1, 2}, UNIT, hw);
    op.reduce = 7; /* 6.5 */
    assert_op(op, map, UNIT, in, (struct shape){1, 1, 1}, UNIT, all);
    op.reduce = 4; /* 1.5, 3.5, ... */
    assert_op(op, map, UNIT, in, (struct shape){2, 3, 1}, UNIT, c);
}

static void mean_rescales_and_moves_the_zero_point(void **state)
{
    (void)state;
    const int8_t in[] = {20, 30, 40, 50}, expected[] = {2 * (35 - 10) - 7};
    struct op op = build_plain(OP_MEAN, -1, -1);
    op.reduce = 3;
    assert_op(op, (struct shape){2, 2, 1}, (struct quant){0.5f, 10}, in, (struct shape){1, 1, 1},
              (struct quant){0.25f, -7}, expected);
}

/* One operator of two inputs over 3 values each. */
static void assert_pair(enum op_kind kind, struct quant qa, struct quant qb, struct quant qo,
                        const int8_t values[6], const int8_t *expected)
{
    struct builder b = build_new(1);
    struct shape shape = {1, 1, 3};
    int32_t x = build_input(&b, DTYPE_INT8, shape, qa), y = build_input(&b, DTYPE_INT8, shape, qb);
    build_output(&b, build_op(&b, build_plain(kind, x, y), shape, qo));
    assert_gives(&b, values, 6, expected, 3);
}

static void sums_and_products_rescale_both_inputs(void **state)
{
    (void)state;
    struct quant a = {0.5f, 1}, b = {0.25f, -2}, out = {0.25f, 3};
    const int8_t values[] = {11, -9, 101, 18, 8, 98}; /* 5, -5, 50 and 5, 2.5, 25 */
    const int8_t sum[] = {43, -7, 127}, difference[] = {3, -27, 103};
    const int8_t product[] = {103, -47, 127};
    assert_pair(OP_ADD, a, b, out, values, sum);
    assert_pair(OP_SUB, a, b, out, values, difference);
    assert_pair(OP_MUL, a, b, out, values, product);
}

static void second_input_broadcasts_as_pixel_and_as_scalar(void **state)
{
    (void)state;
    const int8_t in[] = {1, 2, 3, 4}, pixel[] = {10, 20}, one[] = {5};
    const int8_t by_pixel[] = {11, 22, 13, 24}, by_one[] = {-4, -3, -2, -1};
    struct builder b = build_new(1);
    struct shape shape = {1, 2, 2};
    int32_t x = build_input(&b, DTYPE_INT8, shape, UNIT);
    int32_t y = build_constant(&b, (struct shape){1, 1, 2}, UNIT, pixel);
    build_output(&b, build_op(&b, build_plain(OP_ADD, x, y), shape, UNIT));
    assert_gives(&b, in, 4, by_pixel, 4);
    b = build_new(1);
    x = build_input(&b, DTYPE_INT8, shape, UNIT);
    y = build_constant(&b, (struct shape){1, 1, 1}, UNIT, one);
    build_output(&b, build_op(&b, build_plain(OP_SUB, x, y), shape, UNIT));
    assert_gives(&b, in, 4, by_one, 4);
}

static void look_ups_rescale_and_clamp(void **state)
{
    (void)state;
    const struct shape shape = {1, 1, 5};
    const int8_t in[] = {-128, -3, 0, 3, 127};
    const struct quant from = {0.5f, -1}, to = {0.25f, 2};
    const int8_t requantized[] = {-128, -2, 4, 10, 127}, relu[] = {2, 2, 4, 10, 127},
                 relu6[] = {2, 2, 4, 10, 26};
    assert_op(build_plain(OP_REQUANTIZE, -1, -1), shape, from, in, shape, to, requantized);
    assert_op(build_plain(OP_RELU, -1, -1), shape, from, in, shape, to, relu);
    assert_op(build_plain(OP_RELU6, -1, -1), shape, from, in, shape, to, relu6);
}

static void logistic_is_within_one_step_of_the_real_function(void **state)
{
    (void)state;
    const float scales[] = {0.001f, 0.02f, 0.05f, 0.1f, 0.5f, 3.0f, 7.9f};
    const struct shape shape = {1, 1, 256};
    int8_t in[256], out[256];
    for (int i = 0; i < 256; i++)
        in[i] = (int8_t)(i - 128);
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++)
        for (int32_t zero = -128; zero <= 127; zero += 51) {
            struct builder b = build_new(1);
            int32_t x = build_input(&b, DTYPE_INT8, shape, (struct quant){scales[s], zero});
            build_output(&b, build_op(&b, build_plain(OP_LOGISTIC, x, -1), shape, PROBABILITY));
            struct graph *graph = build_finish(&b);
            assert_int_equal(reference_run(graph, in, 256, out, 256, NULL), 0);
            for (int i = 0; i < 256; i++) {
                double real = 256 / (1 + exp(-(double)scales[s] * (in[i] - zero))) - 128;
                assert_true(fabs(fmin(real, 127) - out[i]) <= 1);
                assert_true(i == 0 || out[i] >= out[i - 1]);
            }
            graph_free(graph);
        }
}

static void logistic_has_known_values(void **state)
{
    (void)state;
    const struct shape shape = {1, 1, 5};
    const int8_t in[] = {-128, -10, 0, 10, 127}, expected[] = {-128, -59, 0, 59, 127};
    assert_op(build_plain(OP_LOGISTIC, -1, -1), shape, (struct quant){0.1f, 0}, in, shape, PROBABILITY,
              expected);
}

static void softmax_is_within_one_step_of_the_real_function(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    for (int round = 0; round < 300; round++) {
        struct shape shape = {1, 2, prng_range(&prng, 1, round % 10 ? 20 : 400)};
        struct quant quant = {(float)(0.005 + 0.3 * prng_unit(&prng)), prng_range(&prng, -128, 127)};
        size_t n = (size_t)shape_elements(shape);
        int8_t in[800], out[800];
        prng_fill(&prng, in, n);
        struct builder b = build_new(1);
        struct op op = build_plain(OP_SOFTMAX, build_input(&b, DTYPE_INT8, shape, quant), -1);
        op.beta = round % 3 ? 1 : 0.5f;
        build_output(&b, build_op(&b, op, shape, PROBABILITY));
        struct graph *graph = build_finish(&b);
        assert_int_equal(reference_run(graph, in, n, out, n, NULL), 0);
        for (int32_t pixel = 0; pixel < 2; pixel++) {
            const int8_t *row = in + pixel * shape.c;
            double sum = 0;
            for (int32_t c = 0; c < shape.c; c++)
                sum += exp((double)op.beta * (double)quant.scale * (row[c] - 127));
            for (int32_t c = 0; c < shape.c; c++) {
                double real = 256 * exp((double)op.beta * (double)quant.scale * (row[c] - 127)) / sum - 128;
                assert_true(fabs(fmin(real, 127) - out[pixel * shape.c + c]) <= 1);
            }
        }
        graph_free(graph);
    }
}

static void softmax_of_very_many_equal_values_is_defined(void **state)
{
    (void)state;
    enum { N = 4095 };
    int8_t in[N] = {0}, expected[N];
    memset(expected, -128, N); /* 256 / 4095 rounds to 0 */
    struct shape shape = {1, 1, N};
    assert_op(build_plain(OP_SOFTMAX, -1, -1), shape, (struct quant){0.1f, 0}, in, shape, PROBABILITY,
              expected);
}

static void concat_requantizes_inputs_of_another_scale(void **state)
{
    (void)state;
    const int8_t in[] = {1, 2, 3, 4, 5, 6};
    struct builder b = build_new(1);
    struct quant wide = {2, 0}, one = {1, 0};
    int32_t x = build_input(&b, DTYPE_INT8, (struct shape){1, 2, 2}, one);
    int32_t y = build_input(&b, DTYPE_INT8, (struct shape){1, 2, 1}, wide);
    struct op op = build_plain(OP_CONCAT, x, y);
    op.axis = 2;
    build_output(&b, build_op(&b, op, (struct shape){1, 2, 3}, one));
    const int8_t exact[] = {1, 2, 10, 3, 4, 12};
    assert_gives(&b, in, 6, exact, 6);
    b = build_new(1);
    x = build_input(&b, DTYPE_INT8, (struct shape){1, 2, 2}, one);
    y = build_input(&b, DTYPE_INT8, (struct shape){1, 2, 1}, (struct quant){2, 1}); /* (5 - 1) * 2 + 1 */
    op = build_plain(OP_CONCAT, x, y);
    op.axis = 2;
    build_output(&b, build_op(&b, op, (struct shape){1, 2, 3}, (struct quant){1, 0}));
    const int8_t moved[] = {1, 2, 8, 3, 4, 10};
    assert_gives(&b, in, 6, moved, 6);
}

static void resize_follows_its_centre_rule(void **state)
{
    (void)state;
    const int8_t in[] = {0, 1, 2, 3};
    const struct shape from = {1, 4, 1};
    struct op op = build_plain(OP_RESIZE_NEAREST, -1, -1);
    const int8_t twice[] = {0, 0, 1, 1, 2, 2, 3, 3}, corners[] = {0, 0, 1, 1, 2, 2, 3, 3},
                 six[] = {0, 0, 1, 2, 2, 3};
    assert_op(op, from, UNIT, in, (struct shape){1, 8, 1}, UNIT, twice);
    assert_op(op, from, UNIT, in, (struct shape){1, 6, 1}, UNIT, six);
    op.half_pixel_centers = true;
    const int8_t half[] = {0, 1, 1, 2, 3, 3}; /* floor((o + .5) * 2 / 3), 1.0 is 1 */
    assert_op(op, from, UNIT, in, (struct shape){1, 6, 1}, UNIT, half);
    op.half_pixel_centers = false;
    op.align_corners = true;
    const int8_t seven[] = {0, 1, 1, 2, 2, 3, 3}; /* round(o / 2) */
    assert_op(op, from, UNIT, in, (struct shape){1, 7, 1}, UNIT, seven);
    assert_op(op, from, UNIT, in, (struct shape){1, 8, 1}, UNIT, corners);
}

static void pad_transpose_and_reshape_move_elements(void **state)
{
    (void)state;
    const int8_t in[] = {1, 2, 3, 4, 5, 6}; /* 1 x 2 x 3 */
    const struct shape from = {1, 2, 3};
    struct op op = build_plain(OP_PAD, -1, -1);
    op.pad_top = 1;
    op.pad_right = 1;
    op.pad_c0 = 1;
    op.fill = -7;
    const int8_t padded[] = {-7, -7, -7, -7, -7, -7, -7, -7, -7, -7, -7, -7,
                             -7, 1,  2,  3,  -7, 4,  5,  6,  -7, -7, -7, -7};
    assert_op(op, from, UNIT, in, (struct shape){2, 3, 4}, UNIT, padded);
    struct builder b = build_new(1); /* in the middle, between two look-ups that change nothing */
    int32_t x = build_input(&b, DTYPE_INT8, from, UNIT);
    x = build_op(&b, build_plain(OP_REQUANTIZE, x, -1), from, UNIT);
    op = build_plain(OP_TRANSPOSE, x, -1);
    op.perm[0] = 2, op.perm[1] = 0, op.perm[2] = 1;
    x = build_op(&b, op, (struct shape){3, 1, 2}, UNIT);
    x = build_op(&b, build_plain(OP_RESHAPE, x, -1), (struct shape){1, 1, 6}, UNIT);
    build_output(&b, build_op(&b, build_plain(OP_REQUANTIZE, x, -1), (struct shape){1, 1, 6}, UNIT));
    const int8_t transposed[] = {1, 4, 2, 5, 3, 6};
    assert_gives(&b, in, 6, transposed, 6);
}

static void float_ends_round_half_away_and_saturate(void **state)
{
    (void)state;
    const struct shape shape = {1, 1, 9};
    const float in[] = {0.25f, -0.25f, 0.75f, -0.75f, 0.24f, 1e30f, -1e30f, NAN, 63.4f};
    const float expected[] = {0.5f, -0.5f, 1, -1, 0, 63.5f, -64, 0, 63.5f};
    struct builder b = build_new(1);
    struct quant quant = {0.5f, 0};
    int32_t x = build_input(&b, DTYPE_FLOAT32, shape, (struct quant){0});
    x = build_op(&b, build_plain(OP_QUANTIZE, x, -1), shape, quant);
    x = build_op(&b, build_plain(OP_REQUANTIZE, x, -1), shape, quant);
    build_output(
        &b, build_typed_op(&b, build_plain(OP_DEQUANTIZE, x, -1), DTYPE_FLOAT32, shape, (struct quant){0}));
    assert_gives(&b, in, sizeof in, expected, sizeof expected);
}

static void uint8_ends_shift_by_128(void **state)
{
    (void)state;
    const struct shape shape = {1, 1, 4};
    const uint8_t in[] = {0, 127, 128, 255};
    struct builder b = build_new(1);
    struct quant low = {0.5f, -28}, high = {0.5f, 100};
    int32_t x = build_input(&b, DTYPE_UINT8, shape, high);
    x = build_op(&b, build_plain(OP_QUANTIZE, x, -1), shape, low);
    x = build_op(&b, build_plain(OP_REQUANTIZE, x, -1), shape, low);
    build_output(&b, build_typed_op(&b, build_plain(OP_QUANTIZE, x, -1), DTYPE_UINT8, shape, high));
    assert_gives(&b, in, 4, in, 4);
}

static void inputs_and_outputs_of_another_size_are_refused(void **state)
{
    (void)state;
    struct graph *graph = random_graph(3, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    void *in = random_input(graph, 1, &in_bytes), *out = malloc(out_bytes + 1);
    struct error error;
    assert_non_null(out);
    error_clear(&error);
    assert_int_equal(reference_run(graph, in, in_bytes - 1, out, out_bytes, &error), STATUS_INPUT_SIZE);
    assert_int_equal(error.limit, in_bytes);
    assert_int_equal(error.actual, in_bytes - 1);
    assert_int_equal(reference_run(graph, in, in_bytes, out, out_bytes + 1, NULL), STATUS_INPUT_SIZE);
    assert_int_equal(reference_run(graph, in, in_bytes, out, out_bytes, NULL), 0);
    free(in);
    free(out);
    graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multipliers_have_31_bits_and_a_shift),
        cmocka_unit_test(doubling_high_rounds_half_up_and_saturates),
        cmocka_unit_test(division_by_powers_rounds_half_away_from_zero),
        cmocka_unit_test(conv_adds_nothing_outside_the_image),
        cmocka_unit_test(conv_weights_are_ohwi_with_scales_per_channel),
        cmocka_unit_test(conv_groups_read_their_own_channels),
        cmocka_unit_test(conv_strides_and_dilates),
        cmocka_unit_test(depthwise_channels_read_their_input_channel),
        cmocka_unit_test(fused_activations_clamp_in_the_output_scale),
        cmocka_unit_test(average_pool_rounds_half_away_from_zero),
        cmocka_unit_test(average_pool_divides_by_the_taps_inside),
        cmocka_unit_test(mean_reduces_the_axes_of_its_mask),
        cmocka_unit_test(mean_rescales_and_moves_the_zero_point),
        cmocka_unit_test(sums_and_products_rescale_both_inputs),
        cmocka_unit_test(second_input_broadcasts_as_pixel_and_as_scalar),
        cmocka_unit_test(look_ups_rescale_and_clamp),
        cmocka_unit_test(logistic_is_within_one_step_of_the_real_function),
        cmocka_unit_test(logistic_has_known_values),
        cmocka_unit_test(softmax_is_within_one_step_of_the_real_function),
        cmocka_unit_test(softmax_of_very_many_equal_values_is_defined),
        cmocka_unit_test(concat_requantizes_inputs_of_another_scale),
        cmocka_unit_test(resize_follows_its_centre_rule),
        cmocka_unit_test(pad_transpose_and_reshape_move_elements),
        cmocka_unit_test(float_ends_round_half_away_and_saturate),
        cmocka_unit_test(uint8_ends_shift_by_128),
        cmocka_unit_test(inputs_and_outputs_of_another_size_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
