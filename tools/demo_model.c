/*
 * Writes the model that `make run` deploys: a small int8 image classifier of inverted residual blocks with
 * random weights, 48x48x3 in, ten classes out, about 300 KB. It knows nothing, but it has the shape of the
 * real thing: strides, depthwise, residual additions, a global pool, a fully connected layer, softmax.
 *
 *     demo_model OUT.tflite [SAMPLE.bin]
 *
 * The same bytes on every machine: the generator is the tests' own, and floats are only multiplied,
 * divided and rooted. Every filter sums to about zero, so that a layer answers to what changes in its input
 * and not to its mean; with that the spread of each layer's sums follows from its fan-in, and the scales are
 * set from it.
 */
#include "server/base/file.h"
#include "server/model/reference.h"
#include "tests/support/build_graph.h"
#include "tests/support/tflite_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 48, CLASSES = 10, WEIGHT_MAX = 96 };

/* Standard deviation of a weight that is uniform in [-96, 96], and what a layer's sums are scaled to. */
static const float weight_spread = 55.7f, relu6_scale = 6.0f / 255, linear_scale = 0.04f;

/* What the layers of the block being built are called, and its number. */
static int32_t block_number;

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

/* Gives a tensor, and with it its layer in the file, a name: "block3/expand", or the name alone outside
 * blocks. */
static int32_t name(struct builder *b, int32_t tensor, const char *layer)
{
    char text[64];
    if (block_number > 0)
        (void)snprintf(text, sizeof text, "block%d/%s", block_number, layer);
    else
        (void)snprintf(text, sizeof text, "%s", layer);
    b->graph->tensors[tensor].name = arena_string(b->graph->arena, text, sizeof text);
    return tensor;
}

static struct map finish(struct builder *b, struct op op, struct shape shape, const char *layer)
{
    bool relu6 = op.activation == ACTIVATION_RELU6;
    struct quant quant = {relu6 ? relu6_scale : linear_scale, relu6 ? -128 : 0};
    /* The root mean square: channels differ in their means, which no filter cancels. */
    return (struct map){name(b, build_op(b, op, shape, quant), layer), shape, quant.scale,
                        relu6 ? 1.7f : 1.3f};
}

static struct map pointwise(struct builder *b, struct map x, int32_t channels, bool relu6, const char *layer)
{
    struct op op = build_plain(OP_CONV, x.tensor, -1);
    op.activation = relu6 ? ACTIVATION_RELU6 : ACTIVATION_NONE;
    set_weights(b, &op, channels, x.shape.c, x.shape.c, 1, x.scale, x.spread, relu6 ? 1.6f : 1.2f);
    return finish(b, op, (struct shape){x.shape.h, x.shape.w, channels}, layer);
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
    return finish(b, op, y, depthwise ? "depthwise" : "conv");
}

/* Inverted residual: expand, depthwise, project; added to its input where the shapes allow. */
static struct map block(struct builder *b, struct map x, int32_t expand, int32_t channels, int32_t stride)
{
    block_number++;
    struct map y = expand > 1 ? pointwise(b, x, x.shape.c * expand, true, "expand") : x;
    y = pointwise(b, window(b, y, 0, stride), channels, false, "project");
    if (stride != 1 || channels != x.shape.c)
        return y;
    struct quant quant = {1.3f * linear_scale, 0};
    y.tensor = name(b, build_op(b, build_plain(OP_ADD, x.tensor, y.tensor), y.shape, quant), "add");
    y.scale = quant.scale;
    y.spread = 1.9f;
    return y;
}

static void classifier(struct builder *b, struct map x)
{
    struct op mean = build_plain(OP_MEAN, x.tensor, -1), dense;
    struct shape pixel = {1, 1, x.shape.c};
    mean.reduce = 3;
    struct quant quant = {3.0f / 255, -128};
    int32_t pooled = name(b, build_op(b, mean, pixel, quant), "pool");
    int32_t flat = name(b, build_op(b, build_plain(OP_RESHAPE, pooled, -1), pixel, quant), "flatten");
    dense = build_plain(OP_CONV, flat, -1);
    set_weights(b, &dense, CLASSES, pixel.c, pixel.c, 1, quant.scale, 0.75f, 1.5f);
    struct shape out = {1, 1, CLASSES};
    int32_t logits = name(b, build_op(b, dense, out, (struct quant){0.06f, 0}), "dense");
    struct quant probability = {1.0f / 256, -128};
    build_output(b, name(b, build_op(b, build_plain(OP_SOFTMAX, logits, -1), out, probability), "softmax"));
}

static struct graph *demo_graph(void)
{
    struct builder b = build_new(2026);
    struct shape shape = {SIDE, SIDE, 3};
    struct quant pixels = {1.0f / 255, -128};
    struct map x = {name(&b, build_input(&b, DTYPE_INT8, shape, pixels), "image"), shape, pixels.scale,
                    0.25f};
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
    block_number = 0;
    classifier(&b, pointwise(&b, x, 320, true, "head"));
    return build_finish(&b);
}

/* Picture number k: coloured gradients of a random slope with a few bright rectangles. */
static void picture(uint64_t k, int8_t *out)
{
    struct prng prng = prng_seed(k);
    int32_t slope[3][2], box[4];
    for (int32_t c = 0; c < 3; c++)
        for (int32_t i = 0; i < 2; i++)
            slope[c][i] = prng_range(&prng, -5, 5);
    for (int32_t h = 0; h < SIDE; h++)
        for (int32_t w = 0; w < SIDE; w++)
            for (int32_t c = 0; c < 3; c++) {
                int32_t v = slope[c][0] * (h - SIDE / 2) + slope[c][1] * (w - SIDE / 2);
                out[(h * SIDE + w) * 3 + c] = (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
            }
    for (int32_t n = prng_range(&prng, 1, 4); n > 0; n--) {
        for (int32_t i = 0; i < 4; i++)
            box[i] = prng_range(&prng, i % 2 ? SIDE / 2 : 0, i % 2 ? SIDE : SIDE / 2);
        int32_t colour = prng_range(&prng, -128, 127);
        for (int32_t h = box[0]; h < box[1]; h++)
            for (int32_t i = box[2] * 3; i < box[3] * 3; i++)
                out[h * SIDE * 3 + i] = (int8_t)(i % 3 == 1 ? colour : -colour - 1);
    }
}

/* The dense layer's sums without bias, for picture k. */
static void dense_sums(const struct graph *graph, const struct op *dense, uint64_t k, double sums[CLASSES])
{
    static int8_t pixels[SIDE * SIDE * 3];
    void **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
    const struct tensor *x = &graph->tensors[dense->inputs[0]];
    picture(k, pixels);
    if (!tensors || reference_run_keep(graph, pixels, sizeof pixels, tensors, NULL) != 0)
        abort();
    const int8_t *values = tensors[dense->inputs[0]];
    for (int32_t c = 0; c < CLASSES; c++) {
        sums[c] = 0;
        for (int32_t i = 0; i < x->shape.c; i++)
            sums[c] += dense->weights[c * x->shape.c + i] * (values[i] - x->quant.zero_point);
    }
    reference_free_tensors(graph, tensors);
    free(tensors);
}

/* Gives the dense layer the bias and the scale with which each class's logit has mean 0 and spread 1.5 over
 * some pictures. Without it random weights answer every picture alike. */
static void balance(struct graph *graph)
{
    enum { PICTURES = 24 };
    static double sums[PICTURES][CLASSES];
    struct op *dense = &graph->ops[graph->n_ops - 2];
    float *scale = arena_alloc(graph->arena, 1, sizeof *scale);
    int32_t *bias = arena_alloc(graph->arena, CLASSES, sizeof *bias);
    double in_scale = graph->tensors[dense->inputs[0]].quant.scale, variance = 0;
    for (int32_t k = 0; k < PICTURES; k++)
        dense_sums(graph, dense, (uint64_t)k + 1, sums[k]);
    for (int32_t c = 0; c < CLASSES && scale && bias; c++) {
        double mean = 0;
        for (int32_t k = 0; k < PICTURES; k++)
            mean += sums[k][c] / PICTURES;
        for (int32_t k = 0; k < PICTURES; k++)
            variance += (sums[k][c] - mean) * (sums[k][c] - mean) / (PICTURES * CLASSES);
        bias[c] = -(int32_t)mean;
    }
    if (!scale || !bias || variance <= 0)
        abort();
    *scale = (float)(1.5 / (sqrt(variance) * in_scale));
    dense->weight_scales = scale;
    dense->n_weight_scales = 1;
    dense->float_scale_product = true; /* what makes it a FULLY_CONNECTED in the file */
    dense->bias = bias;
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
    balance(graph);
    const char *reason = tflite_write(graph, NULL, &file);
    if (reason)
        (void)error_set(&error, STATUS_INTERNAL, "the model cannot be written: %s", reason);
    if (!reason && file_write(argv[1], file.data, file.size, 0644, &error) == 0 && argc == 3) {
        picture(0, pixels);
        (void)file_write(argv[2], pixels, sizeof pixels, 0644, &error);
    }
    if (error.status)
        fprintf(stderr, "demo_model: %s\n", error.message);
    if (!reason)
        bytes_free(&file);
    graph_free(graph);
    return error.status ? 1 : 0;
}
