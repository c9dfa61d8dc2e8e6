/*
 * The layers' arithmetic, forwards and backwards, over n pictures. Backwards a layer adds to the gradients of
 * what it reads and of its weights; `back` of its own output is complete when it is called.
 */
#include "tools/digits/digits.h"
#include "tools/digits/gemm.h"

#include <string.h>

static int32_t map_size(const struct layer *layer)
{
    return layer->side * layer->side * layer->channels;
}

static void add_to(int64_t n, const float *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static void multiply_add(int32_t n, const float *restrict a, const float *restrict b, float *restrict sum)
{
    for (int32_t i = 0; i < n; i++)
        sum[i] += a[i] * b[i];
}

/* ---- 1x1 ---- */

static void pointwise_forward(const struct layer *in, struct layer *layer, int32_t n)
{
    int32_t pixels = n * layer->side * layer->side, c = layer->channels;
    const float *bias = layer->weights + layer->n_weights;
    for (int32_t p = 0; p < pixels; p++)
        memcpy(layer->out + (int64_t)p * c, bias, (size_t)c * sizeof *bias);
    gemm(pixels, c, in->channels, in->out, in->channels, 1, layer->weights, layer->out);
}

static void pointwise_backward(struct layer *in, struct layer *layer, int32_t n, float *transposed)
{
    int32_t pixels = n * layer->side * layer->side, c = layer->channels, k = in->channels;
    float *bias = layer->gradient + layer->n_weights;
    for (int32_t p = 0; p < pixels; p++)
        add_to(c, layer->back + (int64_t)p * c, bias);
    gemm(k, c, pixels, in->out, 1, k, layer->back, layer->gradient);
    if (in->kind == LAYER_PATCHES)
        return;
    for (int32_t i = 0; i < k; i++)
        for (int32_t j = 0; j < c; j++)
            transposed[j * k + i] = layer->weights[i * c + j];
    gemm(pixels, k, c, layer->back, c, 1, transposed, in->back);
}

/* ---- depthwise ---- */

/* One tap's part of one output pixel: where the tap lies in the input, or -1 outside. */
static int64_t tap_at(const struct layer *in, const struct layer *layer, int32_t y, int32_t x, int32_t tap)
{
    int32_t total = (layer->side - 1) * layer->stride + 3 - in->side, before = total / 2;
    int32_t h = y * layer->stride + tap / 3 - before, w = x * layer->stride + tap % 3 - before;
    if (h < 0 || h >= in->side || w < 0 || w >= in->side)
        return -1;
    return ((int64_t)h * in->side + w) * in->channels;
}

static void depthwise_forward(const struct layer *in, struct layer *layer, int32_t n)
{
    int32_t c = layer->channels;
    float *out = layer->out;
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p < layer->side * layer->side; p++, out += c) {
            const float *x = in->out + (int64_t)i * map_size(in);
            memcpy(out, layer->weights + layer->n_weights, (size_t)c * sizeof *out);
            for (int32_t tap = 0; tap < 9; tap++) {
                int64_t at = tap_at(in, layer, p / layer->side, p % layer->side, tap);
                if (at >= 0)
                    multiply_add(c, x + at, layer->weights + tap * c, out);
            }
        }
}

static void depthwise_backward(struct layer *in, struct layer *layer, int32_t n)
{
    int32_t c = layer->channels;
    const float *back = layer->back;
    float *bias = layer->gradient + layer->n_weights;
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p < layer->side * layer->side; p++, back += c) {
            int64_t map = (int64_t)i * map_size(in);
            add_to(c, back, bias);
            for (int32_t tap = 0; tap < 9; tap++) {
                int64_t at = tap_at(in, layer, p / layer->side, p % layer->side, tap);
                if (at < 0)
                    continue;
                multiply_add(c, in->out + map + at, back, layer->gradient + tap * c);
                multiply_add(c, layer->weights + tap * c, back, in->back + map + at);
            }
        }
}

/* ---- mean ---- */

static void mean_forward(const struct layer *in, struct layer *layer, int32_t n)
{
    int32_t pixels = in->side * in->side, c = layer->channels;
    memset(layer->out, 0, (size_t)n * (size_t)c * sizeof *layer->out);
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p < pixels; p++)
            for (int32_t j = 0; j < c; j++)
                layer->out[i * c + j] += in->out[((int64_t)i * pixels + p) * c + j] / (float)pixels;
}

static void mean_backward(struct layer *in, const struct layer *layer, int32_t n)
{
    int32_t pixels = in->side * in->side, c = layer->channels;
    for (int32_t i = 0; i < n; i++)
        for (int32_t p = 0; p < pixels; p++)
            for (int32_t j = 0; j < c; j++)
                in->back[((int64_t)i * pixels + p) * c + j] += layer->back[i * c + j] / (float)pixels;
}

/* ---- any layer ---- */

void layer_forward(struct net *net, int32_t l, int32_t n)
{
    struct layer *layer = &net->layers[l], *in = &net->layers[layer->in];
    int64_t size = (int64_t)n * map_size(layer);
    switch (layer->kind) {
    case LAYER_PATCHES:
        break;
    case LAYER_POINTWISE:
        pointwise_forward(in, layer, n);
        break;
    case LAYER_DEPTHWISE:
        depthwise_forward(in, layer, n);
        break;
    case LAYER_ADD:
        memcpy(layer->out, in->out, (size_t)size * sizeof *layer->out);
        add_to(size, net->layers[layer->skip].out, layer->out);
        break;
    case LAYER_MEAN:
        mean_forward(in, layer, n);
        break;
    }
}

void layer_backward(struct net *net, int32_t l, int32_t n)
{
    struct layer *layer = &net->layers[l], *in = &net->layers[layer->in];
    int64_t size = (int64_t)n * map_size(layer);
    for (int64_t i = 0; layer->relu6 && i < size; i++)
        if (layer->out[i] <= 0.0f || layer->out[i] >= 6.0f)
            layer->back[i] = 0.0f;
    switch (layer->kind) {
    case LAYER_PATCHES:
        break;
    case LAYER_POINTWISE:
        pointwise_backward(in, layer, n, net->scratch);
        break;
    case LAYER_DEPTHWISE:
        depthwise_backward(in, layer, n);
        break;
    case LAYER_ADD:
        add_to(size, layer->back, in->back);
        add_to(size, layer->back, net->layers[layer->skip].back);
        break;
    case LAYER_MEAN:
        mean_backward(in, layer, n);
        break;
    }
}
