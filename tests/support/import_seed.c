/* Small models, built by hand. */
#include "tests/support/import_seed.h"

#include "tests/support/build_graph.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 4, CLASSES = 5 };

static void random_weights(struct builder *b, struct op *op, int32_t filters, int32_t taps, bool per_channel)
{
    int8_t weights[512];
    float scales[16];
    int32_t bias[16];
    for (int32_t i = 0; i < filters * taps; i++)
        weights[i] = (int8_t)prng_range(&b->prng, -127, 127);
    for (int32_t f = 0; f < filters; f++) {
        scales[f] = 0.002f + 0.0005f * (float)f;
        bias[f] = prng_range(&b->prng, -500, 500);
    }
    build_weights(b, op, weights, filters * taps, scales, per_channel ? filters : 1, bias, filters);
}

struct graph *import_small_graph(void)
{
    struct builder b = build_new(7);
    struct shape map = {8, 8, CHANNELS}, half = {4, 4, CHANNELS}, pixel = {1, 1, CHANNELS},
                 out = {1, 1, CLASSES};
    struct quant q = {0.05f, 3}, probability = {1.0f / 256, -128};
    int32_t x = build_input(&b, DTYPE_INT8, map, q);
    struct op op = build_plain(OP_CONV, x, -1);
    op.kernel_h = op.kernel_w = 3;
    op.pad_top = op.pad_bottom = op.pad_left = op.pad_right = 1;
    random_weights(&b, &op, CHANNELS, 9 * CHANNELS, true);
    int32_t y = build_op(&b, op, map, (struct quant){0.04f, -5});
    op = build_plain(OP_DEPTHWISE, y, -1);
    op.kernel_h = op.kernel_w = 3;
    op.pad_top = op.pad_bottom = op.pad_left = op.pad_right = 1;
    op.activation = ACTIVATION_RELU6;
    random_weights(&b, &op, CHANNELS, 9, true);
    y = build_op(&b, op, map, (struct quant){6.0f / 255, -128});
    y = build_op(&b, build_plain(OP_ADD, x, y), map, (struct quant){0.06f, 0});
    op = build_plain(OP_MAX_POOL, y, -1);
    op.kernel_h = op.kernel_w = op.stride_h = op.stride_w = 2;
    y = build_op(&b, op, half, (struct quant){0.06f, 0});
    op = build_plain(OP_MEAN, y, -1);
    op.reduce = 3;
    y = build_op(&b, op, pixel, (struct quant){0.03f, 0});
    y = build_op(&b, build_plain(OP_RESHAPE, y, -1), pixel, (struct quant){0.03f, 0});
    op = build_plain(OP_CONV, y, -1);
    op.float_scale_product = true;
    random_weights(&b, &op, CLASSES, CHANNELS, false);
    y = build_op(&b, op, out, (struct quant){0.05f, 0});
    build_output(&b, build_op(&b, build_plain(OP_SOFTMAX, y, -1), out, probability));
    return build_finish(&b);
}

void import_make_writable(struct graph *graph, bool legacy)
{
    for (int32_t i = 0; i < graph->n_ops; i++) {
        struct op *op = &graph->ops[i];
        op->legacy_uint8 = legacy;
        if (!op->weights)
            continue;
        if (legacy) {
            op->n_weight_scales = 1;
            op->weight_zero_point = i * 37 % 256 - 128;
            op->float_scale_product = true;
        } else if (!tflite_is_fully_connected(graph, op)) {
            op->float_scale_product = false;
        }
    }
}

struct tw_model import_small_model(bool legacy_uint8)
{
    struct tw_model model;
    struct tflite_write_options options = {.legacy_uint8 = legacy_uint8};
    struct graph *graph = import_small_graph();
    import_make_writable(graph, legacy_uint8);
    const char *reason = tflite_describe(graph, &options, &model);
    graph_free(graph);
    if (!reason)
        return model;
    fprintf(stderr, "import_small_model: %s\n", reason);
    abort();
}
