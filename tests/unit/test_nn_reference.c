/*
 * Kernels and tables against the reference executor, which shares no code with them: every operator of random
 * graphs is run once more through hand-made row tables, over random boxes, from the reference's own inputs;
 * the bytes must be the reference's. Convolutions go at once or through sums of random channel parts.
 */
#include "server/model/reference.h"
#include "shared/nn/nn.h"
#include "tests/support/build_graph.h"
#include "tests/support/nn_map.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { GRAPHS = 400, BOXES = 3, CHANNELS_MAX = 4096 };

struct check {
    const struct graph *graph;
    const struct op *op;
    void **tensors;
    struct prng *prng;
    struct nn_params p;
    struct map x, want, got;
    struct map_rows rows, second;
    int32_t mantissa[CHANNELS_MAX], shift[CHANNELS_MAX], bias[CHANNELS_MAX];
};

static struct map tensor_map(const struct check *k, int32_t t)
{
    const struct tensor *tensor = &k->graph->tensors[t];
    struct shape s = tensor->shape;
    union {
        const void *constant;
        void *bytes;
    } data = {.constant = tensor->data ? tensor->data : k->tensors[t]};
    return (struct map){s.h, s.w, s.c, 1, s.c, s.c * s.w, data.bytes};
}

static double scale_of(const struct check *k, int32_t t)
{
    return (double)k->graph->tensors[t].quant.scale;
}

static int32_t quantised(const struct check *k, float real)
{
    struct quant q = k->graph->tensors[k->op->output].quant;
    float steps = roundf(real / q.scale);
    return steps > 1000 ? 127 : q.zero_point + (int32_t)steps;
}

/* The clamp of an activation, in the output's quantisation. */
static void activation_range(const struct check *k, enum activation activation, int16_t *lo, int16_t *hi)
{
    int32_t low = -128, high = 127;
    if (activation == ACTIVATION_RELU || activation == ACTIVATION_RELU6)
        low = quantised(k, 0);
    if (activation == ACTIVATION_RELU6)
        high = quantised(k, 6);
    if (activation == ACTIVATION_RELU_N1_TO_1) {
        low = quantised(k, -1);
        high = quantised(k, 1);
    }
    *lo = (int16_t)(low < -128 ? -128 : low);
    *hi = (int16_t)(high > 127 ? 127 : high);
}

static void common_params(struct check *k)
{
    const struct op *op = k->op;
    k->p = (struct nn_params){.kernel_h = (uint16_t)op->kernel_h,
                              .kernel_w = (uint16_t)op->kernel_w,
                              .stride_h = (uint16_t)op->stride_h,
                              .stride_w = (uint16_t)op->stride_w,
                              .dilation_h = (uint16_t)op->dilation_h,
                              .dilation_w = (uint16_t)op->dilation_w,
                              .pad_top = (int16_t)op->pad_top,
                              .pad_left = (int16_t)op->pad_left,
                              .multiplier = (uint16_t)op->multiplier,
                              .weight_zero_point = (int16_t)op->weight_zero_point};
    for (int i = 0; i < 2 && i < op->n_inputs; i++)
        k->p.in_zero_point[i] = (int16_t)k->graph->tensors[op->inputs[i]].quant.zero_point;
    k->p.out_zero_point = (int16_t)k->graph->tensors[op->output].quant.zero_point;
    activation_range(k, op->activation, &k->p.act_lo, &k->p.act_hi);
}

static struct nn_out random_box(struct check *k)
{
    const struct map *y = &k->got;
    int32_t h0 = prng_range(k->prng, 0, y->h - 1), h1 = prng_range(k->prng, h0 + 1, y->h);
    int32_t w0 = prng_range(k->prng, 0, y->w - 1), w1 = prng_range(k->prng, w0 + 1, y->w);
    int32_t c0 = prng_range(k->prng, 0, y->c - 1), c1 = prng_range(k->prng, c0 + 1, y->c);
    return map_out(y, &k->rows, h0, h1, w0, w1, c0, c1);
}

/* Rows that the windows of the box reach, within and without the image. */
static struct nn_in window_rows(struct check *k, const struct nn_out *out, int32_t c0)
{
    int32_t h0 = out->h0 * k->p.stride_h - k->p.pad_top;
    int32_t h1 = (out->h1 - 1) * k->p.stride_h - k->p.pad_top + (k->p.kernel_h - 1) * k->p.dilation_h + 1;
    return map_in(&k->x, &k->rows, h0, h1, 0, c0);
}

/* ---- convolutions ---- */

static void multipliers(struct check *k)
{
    const struct op *op = k->op;
    double in = scale_of(k, op->inputs[0]), out = scale_of(k, op->output);
    for (int32_t c = 0; c < k->got.c; c++) {
        double w = (double)op->weight_scales[op->n_weight_scales == 1 ? 0 : c];
        double product = op->float_scale_product ? (double)((float)in * (float)w) : in * w;
        struct quant_multiplier m = quant_multiplier(product / out);
        k->mantissa[c] = m.mantissa;
        k->shift[c] = m.shift;
        k->bias[c] = op->bias ? op->bias[c] : 0;
    }
}

/* The same box as int32 sums, added in up to three parts of the channels, then finished. */
static void conv_by_parts(struct check *k, const struct nn_weights *w, const struct nn_in *in,
                          const struct nn_out *out)
{
    struct map sums = map_new(k->got.h, k->got.w, k->got.c, 4, 0);
    struct map_rows to, from;
    struct nn_out acc = map_out(&sums, &to, out->h0, out->h1, out->w0, out->w1, out->c0, out->c1);
    map_random(&sums, k->prng);
    nn_zero_s32(&acc);
    for (int32_t a = w->k0, b; a < w->k1; a = b) {
        b = prng_range(k->prng, a + 1, w->k1);
        nn_conv_acc_s32(&k->p, w, in, a, b, &acc);
    }
    struct nn_in back = map_in(&sums, &from, out->h0, out->h1, out->w0, out->c0);
    nn_finish_s8(&k->p, w, &back, out);
    map_free(&sums);
}

static void run_conv(struct check *k, const struct nn_out *out)
{
    int32_t groups = k->op->groups, in_c = k->x.c / groups, out_c = k->got.c / groups;
    multipliers(k);
    for (int32_t g = out->c0 / out_c; g * out_c < out->c1; g++) {
        int32_t c0 = g * out_c, k0 = g * in_c;
        struct nn_weights w = {k->op->weights + (size_t)c0 * k->p.kernel_h * k->p.kernel_w * (size_t)in_c,
                               k->mantissa + c0,
                               k->shift + c0,
                               k->bias + c0,
                               c0,
                               c0 + out_c,
                               k0,
                               k0 + in_c,
                               in_c};
        int32_t from = out->c0 > c0 ? out->c0 : c0, to = out->c1 < c0 + out_c ? out->c1 : c0 + out_c;
        struct map_rows rows;
        struct nn_out part = map_out(&k->got, &rows, out->h0, out->h1, out->w0, out->w1, from, to);
        struct nn_in in = window_rows(k, out, k0);
        if (prng_one_in(k->prng, 2))
            nn_conv_s8(&k->p, &w, &in, k0, k0 + in_c, &part);
        else
            conv_by_parts(k, &w, &in, &part);
    }
}

static void run_depthwise(struct check *k, const struct nn_out *out)
{
    multipliers(k);
    struct nn_weights w = {k->op->weights, k->mantissa, k->shift, k->bias, 0, k->got.c, 0, 1, 1};
    struct nn_in in = window_rows(k, out, out->c0 / k->p.multiplier);
    nn_depthwise_s8(&k->p, &w, &in, out);
}

/* ---- the others ---- */

static void run_pool(struct check *k, const struct nn_out *out)
{
    k->p.flags = (uint16_t)((k->op->kind == OP_MAX_POOL ? NN_FLAG_MAX : 0) |
                            (k->op->legacy_uint8 ? NN_FLAG_LEGACY_UINT8 : 0));
    struct nn_in in = window_rows(k, out, out->c0);
    nn_pool_s8(&k->p, &in, k->x.h, out);
}

static void run_mean(struct check *k, const struct nn_out *out)
{
    struct map sums = map_new(k->got.h, k->got.w, k->got.c, 4, 0);
    struct map_rows to, from;
    k->p.reduce = (uint16_t)k->op->reduce;
    k->p.flags = NN_FLAG_MEAN;
    k->p.count = k->x.h * k->x.w * k->x.c / (k->got.h * k->got.w * k->got.c);
    k->p.m[0] = quant_mean_multiplier(scale_of(k, k->op->inputs[0]) / scale_of(k, k->op->output), k->p.count);
    struct nn_out acc = map_out(&sums, &to, out->h0, out->h1, out->w0, out->w1, out->c0, out->c1);
    for (int32_t a = 0, b; a < k->x.h; a = b) {
        b = prng_range(k->prng, a + 1, k->x.h);
        struct nn_in in = map_in(&k->x, &k->rows, a, b, 0, 0);
        nn_sum_s32(&k->p, &in, a, b, 0, k->x.c, &acc);
    }
    struct nn_in back = map_in(&sums, &from, out->h0, out->h1, out->w0, out->c0);
    nn_finish_s8(&k->p, NULL, &back, out);
    map_free(&sums);
}

static void add_multipliers(struct check *k)
{
    double a = scale_of(k, k->op->inputs[0]), b = scale_of(k, k->op->inputs[1]);
    double twice = 2 * (a > b ? a : b);
    k->p.count = 20;
    k->p.m[0] = quant_multiplier(a / twice);
    k->p.m[1] = quant_multiplier(b / twice);
    k->p.m[2] = quant_multiplier(twice / ((1 << 20) * scale_of(k, k->op->output)));
    if (k->op->kind == OP_SUB)
        k->p.m[1].mantissa = -k->p.m[1].mantissa;
}

static void run_pair(struct check *k, const struct nn_out *out)
{
    struct map b = tensor_map(k, k->op->inputs[1]);
    enum nn_bcast bcast = b.h == k->x.h && b.w == k->x.w && b.c == k->x.c ? NN_BCAST_NONE
                          : b.c == k->x.c                                 ? NN_BCAST_PIXEL
                                                                          : NN_BCAST_SCALAR;
    struct nn_in in = map_in(&k->x, &k->rows, out->h0, out->h1, out->w0, out->c0);
    struct nn_in other = map_in(&b, &k->second, bcast ? 0 : out->h0, bcast ? 1 : out->h1, 0, 0);
    if (k->op->kind == OP_MUL) {
        double product = scale_of(k, k->op->inputs[0]) * scale_of(k, k->op->inputs[1]);
        k->p.m[0] = quant_multiplier(product / scale_of(k, k->op->output));
        nn_mul_s8(&k->p, &in, &other, bcast, out);
    } else {
        add_multipliers(k);
        nn_add_s8(&k->p, &in, &other, bcast, out);
    }
}

static void requantise_table(struct check *k, int32_t in, int8_t table[256])
{
    struct quant_io io = {scale_of(k, in), k->graph->tensors[in].quant.zero_point, scale_of(k, k->op->output),
                          k->p.out_zero_point};
    int16_t lo, hi;
    activation_range(k,
                     k->op->kind == OP_RELU    ? ACTIVATION_RELU
                     : k->op->kind == OP_RELU6 ? ACTIVATION_RELU6
                                               : ACTIVATION_NONE,
                     &lo, &hi);
    if (k->op->kind == OP_LOGISTIC)
        quant_table_logistic(io, table);
    else
        quant_table_requantize(io, lo, hi, table);
}

static void run_look_up(struct check *k, const struct nn_out *out)
{
    int8_t table[256];
    requantise_table(k, k->op->inputs[0], table);
    struct nn_in in = map_in(&k->x, &k->rows, out->h0, out->h1, out->w0, out->c0);
    nn_lut_s8(table, &in, out);
}

static void run_copy(struct check *k, const struct nn_out *out)
{
    k->p.pad_c = (int16_t)k->op->pad_c0;
    k->p.fill = (int16_t)k->op->fill;
    if (k->op->kind == OP_TRANSPOSE)
        for (int i = 0; i < 3; i++)
            k->p.perm[i] = (uint16_t)k->op->perm[i];
    struct nn_in in = map_in(&k->x, &k->rows, 0, k->x.h, 0, 0);
    nn_copy(&k->p, &in, k->x.h, k->x.c, 1, out);
}

/* Each input whole, into its part of the output. */
static void run_concat(struct check *k)
{
    int32_t at[3] = {0, 0, 0};
    for (int32_t i = 0; i < k->op->n_inputs; i++) {
        struct map x = tensor_map(k, k->op->inputs[i]), part = k->got;
        int8_t table[256];
        requantise_table(k, k->op->inputs[i], table);
        part.bytes = map_at(&k->got, at[0], at[1], at[2]);
        struct nn_out out = map_out(&part, &k->rows, 0, x.h, 0, x.w, 0, x.c);
        struct nn_in in = map_in(&x, &k->rows, 0, x.h, 0, 0);
        nn_lut_s8(table, &in, &out);
        at[k->op->axis] += k->op->axis == 0 ? x.h : k->op->axis == 1 ? x.w : x.c;
    }
}

static void run_resize(struct check *k, const struct nn_out *out)
{
    k->p.in_h = (uint16_t)k->x.h;
    k->p.in_w = (uint16_t)k->x.w;
    k->p.out_h = (uint16_t)k->got.h;
    k->p.out_w = (uint16_t)k->got.w;
    k->p.flags = (uint16_t)((k->op->align_corners ? NN_FLAG_ALIGN_CORNERS : 0) |
                            (k->op->half_pixel_centers ? NN_FLAG_HALF_PIXEL : 0));
    struct nn_in in = map_in(&k->x, &k->rows, 0, k->x.h, 0, out->c0);
    nn_resize_s8(&k->p, &in, out);
}

static void run_softmax(struct check *k, const struct nn_out *out)
{
    struct nn_out all = map_out(&k->got, &k->rows, out->h0, out->h1, out->w0, out->w1, 0, k->got.c);
    struct quant_softmax q = quant_softmax_parameters((double)k->op->beta, scale_of(k, k->op->inputs[0]));
    k->p.m[0] = q.m;
    k->p.count = q.diff_min;
    struct nn_in in = map_in(&k->x, &k->rows, out->h0, out->h1, out->w0, 0);
    nn_softmax_s8(&k->p, &in, &all);
}

static bool run_op(struct check *k, const struct nn_out *out)
{
    switch (k->op->kind) {
    case OP_CONV:
        run_conv(k, out);
        return true;
    case OP_DEPTHWISE:
        run_depthwise(k, out);
        return true;
    case OP_AVERAGE_POOL:
    case OP_MAX_POOL:
        run_pool(k, out);
        return true;
    case OP_MEAN:
        run_mean(k, out);
        return true;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
        run_pair(k, out);
        return true;
    case OP_PAD:
    case OP_TRANSPOSE:
        run_copy(k, out);
        return true;
    case OP_RELU:
    case OP_RELU6:
    case OP_LOGISTIC:
    case OP_REQUANTIZE:
        run_look_up(k, out);
        return true;
    case OP_CONCAT:
        run_concat(k);
        return true;
    case OP_RESIZE_NEAREST:
        run_resize(k, out);
        return true;
    case OP_SOFTMAX:
        run_softmax(k, out);
        return true;
    default: /* no kernel */
        return false;
    }
}

static void compare(struct check *k, const struct nn_out *out, uint64_t seed)
{
    for (int32_t h = out->h0; h < out->h1; h++)
        for (int32_t w = out->w0; w < out->w1; w++)
            for (int32_t c = out->c0; c < out->c1; c++)
                if (map_s8(&k->got, h, w, c) != map_s8(&k->want, h, w, c))
                    fail_msg("graph %llu, %s (%s) at (%d, %d, %d): %d, the reference has %d",
                             (unsigned long long)seed, k->op->name, k->op->file_op ? k->op->file_op : "", h,
                             w, c, map_s8(&k->got, h, w, c), map_s8(&k->want, h, w, c));
}

/* Runs and compares random boxes of one operator; false if it has no kernel. */
static bool check_op(struct check *k, uint64_t seed)
{
    k->x = tensor_map(k, k->op->inputs[0]);
    k->want = tensor_map(k, k->op->output);
    for (int32_t i = 0; i < BOXES; i++) {
        k->got = map_new(k->want.h, k->want.w, k->want.c, 1, prng_range(k->prng, 0, 2));
        common_params(k);
        struct nn_out out = random_box(k);
        bool ran = run_op(k, &out);
        if (ran)
            compare(k, &out, seed);
        map_free(&k->got);
        if (!ran)
            return false;
    }
    return true;
}

static void kernels_equal_the_reference_over_any_box(void **state)
{
    (void)state;
    static struct check k;
    int32_t ran[OP_KIND_COUNT] = {0};
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        struct random_graph_options options = {.int8_ends = true};
        struct prng prng = prng_seed(seed);
        struct graph *graph = random_graph(seed, &options);
        size_t bytes;
        void *input = random_input(graph, seed, &bytes);
        void **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
        struct error error = {0};
        assert_int_equal(reference_run_keep(graph, input, bytes, tensors, &error), 0);
        for (int32_t i = 0; i < graph->n_ops; i++) {
            k.graph = graph;
            k.op = &graph->ops[i];
            k.tensors = tensors;
            k.prng = &prng;
            if (k.op->place == OP_PLACE_BODY)
                ran[k.op->kind] += check_op(&k, seed);
        }
        reference_free_tensors(graph, tensors);
        free(tensors);
        free(input);
        graph_free(graph);
    }
    for (int32_t kind = 0; kind < OP_KIND_COUNT; kind++)
        if (kind != OP_RESHAPE && kind != OP_QUANTIZE && kind != OP_DEQUANTIZE)
            assert_true(ran[kind] > 10);
}

/* One operator over an input of the given shape and scale: the reference's output for `values`. */
static void reference_single(enum op_kind kind, struct shape shape, struct quant in, struct quant out,
                             float beta, const int8_t *values, int8_t *result)
{
    struct builder b = build_new(1);
    struct op op = build_plain(kind, build_input(&b, DTYPE_INT8, shape, in), -1);
    op.beta = beta;
    build_output(&b, build_op(&b, op, shape, out));
    struct graph *graph = build_finish(&b);
    size_t n = (size_t)shape_elements(shape);
    struct error error = {0};
    assert_int_equal(reference_run(graph, values, n, result, n, &error), 0);
    graph_free(graph);
}

static void tables_equal_the_reference_for_any_scale(void **state)
{
    (void)state;
    struct prng prng = prng_seed(2);
    int8_t all[256], want[256], table[256];
    for (int q = 0; q < 256; q++)
        all[q] = (int8_t)(q - 128);
    for (int round = 0; round < 2000; round++) {
        struct quant in = {(float)exp2(prng_unit(&prng) * 12 - 10), prng_range(&prng, -128, 127)};
        struct quant out = {(float)exp2(prng_unit(&prng) * 12 - 10), prng_range(&prng, -128, 127)};
        struct quant unit = {1.0f / 256, -128};
        struct quant_io io = {(double)in.scale, in.zero_point, (double)out.scale, out.zero_point};
        reference_single(OP_LOGISTIC, (struct shape){1, 1, 256}, in, unit, 1, all, want);
        quant_table_logistic(io, table);
        assert_memory_equal(table, want, sizeof want);
        reference_single(OP_REQUANTIZE, (struct shape){1, 1, 256}, in, out, 1, all, want);
        quant_table_requantize(io, -128, 127, table);
        assert_memory_equal(table, want, sizeof want);
    }
}

static void softmax_equals_the_reference_for_any_scale(void **state)
{
    (void)state;
    enum { PIXELS = 8, DEPTH = 300 };
    struct prng prng = prng_seed(3);
    static int8_t values[PIXELS * DEPTH], want[PIXELS * DEPTH];
    for (int round = 0; round < 1500; round++) {
        struct shape shape = {1, PIXELS, prng_range(&prng, 1, prng_one_in(&prng, 2) ? 12 : DEPTH)};
        struct quant in = {(float)exp2(prng_unit(&prng) * 12 - 10), prng_range(&prng, -128, 127)};
        float beta = prng_one_in(&prng, 2) ? 1.0f : (float)(0.1 + prng_unit(&prng));
        int32_t spread = prng_range(&prng, 1, 128); /* near values share the sum */
        for (int32_t i = 0; i < PIXELS * shape.c; i++)
            values[i] = (int8_t)prng_range(&prng, -spread, spread - 1);
        reference_single(OP_SOFTMAX, shape, in, (struct quant){1.0f / 256, -128}, beta, values, want);
        struct quant_softmax q = quant_softmax_parameters((double)beta, (double)in.scale);
        for (int32_t p = 0; p < PIXELS; p++)
            quant_softmax_s8(q, values + p * shape.c, shape.c, values + p * shape.c);
        assert_memory_equal(values, want, (size_t)(PIXELS * shape.c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_equal_the_reference_for_any_scale),
        cmocka_unit_test(softmax_equals_the_reference_for_any_scale),
        cmocka_unit_test(kernels_equal_the_reference_over_any_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
