/*
 * The digit reader: a stem of stride 2, nine inverted residual blocks, a head, the mean over the map, a dense
 * layer. There is no batch normalisation to fold: net_settle gives every layer the spread that it would have
 * given at the start, and that is enough for a network of this depth.
 */
#include "tools/digits/digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t map_bytes(const struct layer *layer)
{
    return (size_t)BATCH * (size_t)(layer->side * layer->side * layer->channels) * sizeof(float);
}

static int32_t parameters(const struct layer *layer)
{
    return layer->n_weights ? layer->n_weights + layer->channels : 0;
}

static int32_t add_layer(struct net *net, struct layer layer, int32_t block, const char *name)
{
    if (net->n == LAYERS_MAX)
        abort();
    if (block > 0)
        (void)snprintf(layer.name, sizeof layer.name, "block%d/%s", block, name);
    else
        (void)snprintf(layer.name, sizeof layer.name, "%s", name);
    layer.out = need(calloc(1, map_bytes(&layer)));
    layer.back = need(calloc(1, map_bytes(&layer)));
    size_t n = (size_t)parameters(&layer);
    if (n > 0) {
        layer.weights = need(calloc(n, sizeof(float)));
        layer.gradient = need(calloc(n, sizeof(float)));
        layer.moment1 = need(calloc(n, sizeof(float)));
        layer.moment2 = need(calloc(n, sizeof(float)));
    }
    net->layers[net->n] = layer;
    return net->n++;
}

static void draw_weights(struct layer *layer, struct prng *prng, int32_t fan_in)
{
    float most = sqrtf(6.0f / (float)fan_in);
    for (int32_t i = 0; i < layer->n_weights; i++)
        layer->weights[i] = most * (2.0f * (float)prng_unit(prng) - 1.0f);
}

static int32_t pointwise(struct net *net, struct prng *prng, int32_t in, int32_t channels, bool relu6,
                         int32_t block, const char *name)
{
    const struct layer *x = &net->layers[in];
    int32_t l = add_layer(net,
                          (struct layer){.kind = LAYER_POINTWISE,
                                         .in = in,
                                         .side = x->side,
                                         .channels = channels,
                                         .stride = 1,
                                         .relu6 = relu6,
                                         .n_weights = x->channels * channels},
                          block, name);
    draw_weights(&net->layers[l], prng, net->layers[in].channels);
    return l;
}

static int32_t depthwise(struct net *net, struct prng *prng, int32_t in, int32_t stride, int32_t block)
{
    const struct layer *x = &net->layers[in];
    int32_t l = add_layer(net,
                          (struct layer){.kind = LAYER_DEPTHWISE,
                                         .in = in,
                                         .side = (x->side + stride - 1) / stride,
                                         .channels = x->channels,
                                         .stride = stride,
                                         .relu6 = true,
                                         .n_weights = 9 * x->channels},
                          block, "depthwise");
    draw_weights(&net->layers[l], prng, 9);
    return l;
}

/* Expand, depthwise, project; added to its input where the shapes allow. */
static int32_t inverted_residual(struct net *net, struct prng *prng, int32_t in, int32_t block,
                                 int32_t expand, int32_t channels, int32_t stride)
{
    int32_t c = net->layers[in].channels, l = in;
    if (expand > 1)
        l = pointwise(net, prng, l, c * expand, true, block, "expand");
    l = depthwise(net, prng, l, stride, block);
    l = pointwise(net, prng, l, channels, false, block, "project");
    if (stride != 1 || channels != c)
        return l;
    struct layer sum = {.kind = LAYER_ADD,
                        .in = in,
                        .skip = l,
                        .side = net->layers[l].side,
                        .channels = channels,
                        .stride = 1};
    return add_layer(net, sum, block, "add");
}

struct net *net_new(struct prng *prng)
{
    static const int32_t blocks[][3] = {/* expand, channels, stride */
                                        {1, 16, 1}, {4, 24, 2}, {4, 24, 1}, {4, 40, 2}, {4, 40, 1},
                                        {4, 64, 1}, {4, 64, 1}, {4, 64, 1}, {4, 64, 1}};
    struct net *net = need(calloc(1, sizeof *net));
    struct layer patches = {.kind = LAYER_PATCHES, .side = SIDE / 2, .channels = 9, .stride = 2};
    int32_t l = add_layer(net, patches, 0, "image"), widest = 0;
    l = pointwise(net, prng, l, 16, true, 0, "stem");
    for (int32_t i = 0; i < (int32_t)(sizeof blocks / sizeof *blocks); i++)
        l = inverted_residual(net, prng, l, i + 1, blocks[i][0], blocks[i][1], blocks[i][2]);
    l = pointwise(net, prng, l, 192, true, 0, "head");
    struct layer mean = {.kind = LAYER_MEAN, .in = l, .side = 1, .channels = 192, .stride = 1};
    l = add_layer(net, mean, 0, "pool");
    pointwise(net, prng, l, CLASSES, false, 0, "dense");
    for (int32_t i = 0; i < net->n; i++)
        widest = net->layers[i].n_weights > widest ? net->layers[i].n_weights : widest;
    net->scratch = need(calloc((size_t)widest, sizeof *net->scratch));
    return net;
}

void net_free(struct net *net)
{
    for (int32_t i = 0; i < net->n; i++) {
        struct layer *layer = &net->layers[i];
        float *owned[] = {layer->out,      layer->back,    layer->weights,
                          layer->gradient, layer->moment1, layer->moment2};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
            free(owned[k]);
    }
    free(net->scratch);
    free(net);
}

int32_t net_weights(const struct net *net)
{
    int32_t sum = 0;
    for (int32_t l = 0; l < net->n; l++)
        sum += net->layers[l].n_weights;
    return sum;
}

/* ---- forwards ---- */

static void activate(struct layer *layer, int32_t n)
{
    int64_t size = (int64_t)n * layer->side * layer->side * layer->channels;
    for (int64_t i = 0; layer->relu6 && i < size; i++) {
        float v = layer->out[i];
        layer->out[i] = v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v;
    }
}

static void set_patches(struct layer *layer, float pictures[BATCH][PIXELS], int32_t n)
{
    float *out = layer->out;
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p < layer->side * layer->side; p++)
            for (int32_t tap = 0; tap < 9; tap++) {
                int32_t h = p / layer->side * 2 + tap / 3, w = p % layer->side * 2 + tap % 3;
                *out++ = h < SIDE && w < SIDE ? pictures[i][h * SIDE + w] : 0.0f;
            }
}

void net_forward(struct net *net, float pictures[BATCH][PIXELS], int32_t n)
{
    set_patches(&net->layers[0], pictures, n);
    for (int32_t l = 1; l < net->n; l++) {
        layer_forward(net, l, n);
        activate(&net->layers[l], n);
    }
}

/* Makes channel c's outputs over the batch of mean `mean` and standard deviation `spread`. */
static void settle_channel(struct layer *layer, int32_t c, double mean, double spread)
{
    int32_t pixels = BATCH * layer->side * layer->side, step = layer->channels;
    double sum = 0, squares = 0;
    for (int32_t p = 0; p < pixels; p++)
        sum += layer->out[(int64_t)p * step + c];
    sum /= pixels;
    for (int32_t p = 0; p < pixels; p++) {
        double d = layer->out[(int64_t)p * step + c] - sum;
        squares += d * d / pixels;
    }
    double scale = spread / sqrt(squares + 1e-4);
    for (int32_t i = c; i < layer->n_weights; i += step)
        layer->weights[i] *= (float)scale;
    layer->weights[layer->n_weights + c] = (float)(mean - sum * scale);
}

void net_settle(struct net *net, float pictures[BATCH][PIXELS])
{
    set_patches(&net->layers[0], pictures, BATCH);
    for (int32_t l = 1; l < net->n; l++) {
        struct layer *layer = &net->layers[l];
        bool branch = l + 1 < net->n && net->layers[l + 1].kind == LAYER_ADD;
        bool last = l + 1 == net->n;
        layer_forward(net, l, BATCH);
        for (int32_t c = 0; layer->weights && c < layer->channels; c++)
            settle_channel(layer, c, layer->relu6 ? 0.5 : 0.0, last ? 0.1 : branch ? 0.3 : 1.0);
        layer_forward(net, l, BATCH);
        activate(layer, BATCH);
    }
}

/* ---- learning ---- */

/* What the gradient is multiplied by so that its length over all layers is at most 1. */
static float clip(const struct net *net)
{
    double squares = 0;
    for (int32_t l = 0; l < net->n; l++)
        for (int32_t i = 0; i < parameters(&net->layers[l]); i++)
            squares += (double)net->layers[l].gradient[i] * net->layers[l].gradient[i];
    return squares > 1 ? (float)(1 / sqrt(squares)) : 1.0f;
}

static void adam(struct layer *layer, int32_t step, float rate, float clipped)
{
    const float keep1 = 0.9f, keep2 = 0.999f, decay = 1e-4f;
    float unbias1 = 1.0f - powf(keep1, (float)step), unbias2 = 1.0f - powf(keep2, (float)step);
    for (int32_t i = 0; i < parameters(layer); i++) {
        float g = layer->gradient[i] * clipped;
        layer->moment1[i] = keep1 * layer->moment1[i] + (1.0f - keep1) * g;
        layer->moment2[i] = keep2 * layer->moment2[i] + (1.0f - keep2) * g * g;
        float move = layer->moment1[i] / unbias1 / (sqrtf(layer->moment2[i] / unbias2) + 1e-8f);
        if (i < layer->n_weights)
            move += decay * layer->weights[i] / 1e-2f;
        layer->weights[i] -= rate * move;
    }
}

/* Cross-entropy of one picture; sets the logits' gradient of the batch's mean. */
static float loss(const float *logits, int32_t label, float *back)
{
    float top = logits[0], sum = 0;
    for (int32_t c = 1; c < CLASSES; c++)
        top = logits[c] > top ? logits[c] : top;
    for (int32_t c = 0; c < CLASSES; c++)
        sum += expf(logits[c] - top);
    for (int32_t c = 0; c < CLASSES; c++)
        back[c] = (expf(logits[c] - top) / sum - (c == label ? 1.0f : 0.0f)) / BATCH;
    return logf(sum) + top - logits[label];
}

float net_learn(struct net *net, const int32_t labels[BATCH], float rate)
{
    struct layer *last = &net->layers[net->n - 1];
    float sum = 0;
    for (int32_t l = 0; l < net->n; l++) {
        struct layer *layer = &net->layers[l];
        memset(layer->back, 0, map_bytes(layer));
        if (layer->gradient)
            memset(layer->gradient, 0, (size_t)parameters(layer) * sizeof(float));
    }
    for (int32_t i = 0; i < BATCH; i++)
        sum += loss(last->out + i * CLASSES, labels[i], last->back + i * CLASSES);
    for (int32_t l = net->n - 1; l > 0; l--)
        layer_backward(net, l, BATCH);
    net->step++;
    float clipped = clip(net);
    for (int32_t l = 1; l < net->n; l++)
        if (net->layers[l].weights)
            adam(&net->layers[l], net->step, rate, clipped);
    return sum / BATCH;
}
