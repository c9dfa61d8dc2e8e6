/*
 * Writes the model that `make run` deploys: a small int8 image classifier of inverted residual blocks with
 * random weights, 48x48x3 in, ten classes out, about 300 KB. It knows nothing, but it has the shape of the
 * real thing: strides, depthwise, residual additions, a global pool, a fully connected layer, softmax.
 *
 *     demo_model OUT.tflite [SAMPLE.bin]
 *
 * The same bytes on every machine: the generator is the tests' own, and floats are only multiplied and
 * divided. Every filter sums to about zero, so that a layer answers to what changes in its input and not to
 * its mean; with that the spread of each layer's sums follows from its fan-in, and the scales are set from
 * it.
 */
#include "server/base/file.h"
#include "tests/support/build_graph.h"
#include "tests/support/tflite_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 48, CLASSES = 10, WEIGHT_MAX = 96 };

/* Standard deviation of a weight that is uniform in [-96, 96], and what a layer's sums are scaled to. */
static const float weight_spread = 55.7f, relu6_scale = 6.0f / 255, linear_scale = 0.04f;

/* A map and the spread of its real values, by estimate. */
struct map {
    int32_t tensor;
    struct shape shape;
    float scale, spread;
};

/* Sets random weights of `filters` filters of `taps` taps each; tap t of filter f lies at t * tap_step + f *
 * step. */
static void set_weights(struct builder *b, struct op *op, int32_t filters, int32_t taps, int32_t filter_step,
                        int32_t tap_step, float in_scale, float in_spread, float out_spread)
{
    int8_t *weights = malloc((size_t)filters * (size_t)taps);
    float *scales = malloc((size_t)filters * sizeof *scales);
    int32_t *bias = malloc((size_t)filters * sizeof *bias);
    if (!weights || !scales || !bias)
        abort();
    float per_channel = out_spread / (weight_spread * sqrtf((float)taps) * in_spread);
    for (int32_t f = 0; f < filters; f++) {
        int32_t sum = 0;
        for (int32_t t = 0; t < taps; t++) {
            int32_t v = t + 1 < taps || taps == 1 ? prng_range(&b->prng, -WEIGHT_MAX, WEIGHT_MAX) : -sum;
            v = v < -127 ? -127 : v > 127 ? 127 : v;
            sum += v;
            weights[f * filter_step + t * tap_step] = (int8_t)v;
        }
        scales[f] = per_channel * (0.75f + 0.5f * (float)prng_unit(&b->prng));
        float real = op->activation == ACTIVATION_RELU6 ? 0.5f + (float)prng_unit(&b->prng) : 0.0f;
        bias[f] = (int32_t)(real / (in_scale * scales[f]));
    }
    build_weights(b, op, weights, (int64_t)filters * taps, scales, filters, bias, filters);
    free(weights);
    free(scales);
    free(bias);
}

static struct map finish(struct builder *b, struct op op, struct shape shape, bool relu6)
{
    struct quant quant = {relu6 ? relu6_scale : linear_scale, relu6 ? -128 : 0};
    /* Half of a ReLU6's input is cut off; what remains spreads about 0.8. */
    return (struct map){build_op(b, op, shape, quant), shape, quant.scale, relu6 ? 0.8f : 1.2f};
}

static struct map pointwise(struct builder *b, struct map x, int32_t channels, bool relu6)
{
    struct op op = build_plain(OP_CONV, x.tensor, -1);
    op.activation = relu6 ? ACTIVATION_RELU6 : ACTIVATION_NONE;
    set_weights(b, &op, channels, x.shape.c, x.shape.c, 1, x.scale, x.spread, relu6 ? 1.6f : 1.2f);
    return finish(b, op, (struct shape){x.shape.h, x.shape.w, channels}, relu6);
}

/* A 3x3 window with SAME padding; depthwise when `channels` is 0. */
static struct map window(struct builder *b, struct map x, int32_t channels, int32_t stride)
{
    bool depthwise = channels == 0;
    struct op op = build_plain(depthwise ? OP_DEPTHWISE : OP_CONV, x.tensor, -1);
    op.kernel_h = op.kernel_w = 3;
    op.stride_h = op.stride_w = stride;
    op.activation = ACTIVATION_RELU6;
    struct shape y = {(x.shape.h + stride - 1) / stride, (x.shape.w + stride - 1) / stride,
                      depthwise ? x.shape.c : channels};
    int32_t total = (y.h - 1) * stride + 3 - x.shape.h;
    op.pad_top = op.pad_left = total / 2;
    op.pad_bottom = op.pad_right = total - total / 2;
    if (depthwise)
        set_weights(b, &op, y.c, 9, 1, y.c, x.scale, x.spread, 1.6f);
    else
        set_weights(b, &op, y.c, 9 * x.shape.c, 9 * x.shape.c, 1, x.scale, x.spread, 1.6f);
    return finish(b, op, y, true);
}

/* Inverted residual: expand, depthwise, project; added to its input where the shapes allow. */
static struct map block(struct builder *b, struct map x, int32_t expand, int32_t channels, int32_t stride)
{
    struct map y = expand > 1 ? pointwise(b, x, x.shape.c * expand, true) : x;
    y = pointwise(b, window(b, y, 0, stride), channels, false);
    if (stride != 1 || channels != x.shape.c)
        return y;
    struct quant quant = {1.3f * linear_scale, 0};
    y.tensor = build_op(b, build_plain(OP_ADD, x.tensor, y.tensor), y.shape, quant);
    y.scale = quant.scale;
    y.spread = 1.5f;
    return y;
}

static void classifier(struct builder *b, struct map x)
{
    struct op mean = build_plain(OP_MEAN, x.tensor, -1), dense, reshape;
    struct shape pixel = {1, 1, x.shape.c};
    mean.reduce = 3;
    int32_t pooled = build_op(b, mean, pixel, (struct quant){3.0f / 255, -128});
    reshape = build_plain(OP_RESHAPE, pooled, -1);
    int32_t flat = build_op(b, reshape, pixel, (struct quant){3.0f / 255, -128});
    dense = build_plain(OP_CONV, flat, -1);
    set_weights(b, &dense, CLASSES, pixel.c, pixel.c, 1, 3.0f / 255, 0.3f, 1.5f);
    struct shape out = {1, 1, CLASSES};
    int32_t logits = build_op(b, dense, out, (struct quant){0.06f, 0});
    build_output(b, build_op(b, build_plain(OP_SOFTMAX, logits, -1), out, (struct quant){1.0f / 256, -128}));
}

static struct graph *demo_graph(void)
{
    struct builder b = build_new(2026);
    struct shape shape = {SIDE, SIDE, 3};
    struct quant pixels = {1.0f / 255, -128};
    struct map x = {build_input(&b, DTYPE_INT8, shape, pixels), shape, pixels.scale, 0.25f};
    x = window(&b, x, 16, 2);
    x = block(&b, x, 1, 16, 1);
    x = block(&b, x, 4, 24, 2);
    x = block(&b, x, 4, 24, 1);
    x = block(&b, x, 4, 48, 2);
    x = block(&b, x, 4, 48, 1);
    x = block(&b, x, 4, 48, 1);
    x = block(&b, x, 4, 96, 2);
    x = block(&b, x, 4, 96, 1);
    x = block(&b, x, 4, 96, 1);
    classifier(&b, pointwise(&b, x, 320, true));
    return build_finish(&b);
}

/* A picture of a kind: a coloured gradient with a bright square. */
static void sample(int8_t *out)
{
    for (int32_t h = 0; h < SIDE; h++)
        for (int32_t w = 0; w < SIDE; w++)
            for (int32_t c = 0; c < 3; c++) {
                bool square = h >= 12 && h < 30 && w >= 18 && w < 40;
                int32_t v = square ? 220 - 40 * c : c == 0 ? h * 5 : c == 1 ? w * 5 : (h + w) * 5 / 2;
                out[(h * SIDE + w) * 3 + c] = (int8_t)(v - 128);
            }
}

int main(int argc, char **argv)
{
    struct bytes file;
    struct error error;
    static int8_t pixels[SIDE * SIDE * 3];
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: demo_model OUT.tflite [SAMPLE.bin]\n");
        return 2;
    }
    error_clear(&error);
    struct graph *graph = demo_graph();
    const char *reason = tflite_write(graph, NULL, &file);
    if (reason)
        (void)error_set(&error, STATUS_INTERNAL, "the model cannot be written: %s", reason);
    if (!reason && file_write(argv[1], file.data, file.size, 0644, &error) == 0 && argc == 3) {
        sample(pixels);
        (void)file_write(argv[2], pixels, sizeof pixels, 0644, &error);
    }
    if (error.status)
        fprintf(stderr, "demo_model: %s\n", error.message);
    if (!reason)
        bytes_free(&file);
    graph_free(graph);
    return error.status ? 1 : 0;
}
