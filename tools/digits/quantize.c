/*
 * The trained network as an int8 graph: weights symmetric, activations over the range that calibration saw.
 * Layer l of the network becomes one operator; the patches and the stem together are the graph's first
 * convolution, and a reshape and a softmax follow.
 */
#include "tests/support/build_graph.h"
#include "tools/digits/digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set_name(struct builder *b, int32_t tensor, const char *name)
{
    b->graph->tensors[tensor].name = need(arena_string(b->graph->arena, name, 64));
}

static struct quant quant_of(struct layer_range range)
{
    float low = fminf(range.low, 0.0f), high = fmaxf(range.high, 0.0f);
    float scale = fmaxf((high - low) / 255.0f, 1e-6f);
    long zero = lrintf(-128.0f - low / scale);
    return (struct quant){scale, (int32_t)(zero < -128 ? -128 : zero > 127 ? 127 : zero)};
}

/* Weight t of filter c lies at t * channels + c. A convolution's go filter by filter, a depthwise one's stay.
 */
static void set_weights(struct builder *b, struct op *op, const struct layer *layer, float in_scale,
                        bool per_tensor)
{
    int32_t channels = layer->channels, taps = layer->n_weights / channels;
    int8_t *weights = need(malloc((size_t)layer->n_weights));
    float *scales = need(calloc((size_t)channels, sizeof *scales)), most = 0;
    int32_t *bias = need(malloc((size_t)channels * sizeof *bias));
    for (int32_t i = 0; i < layer->n_weights; i++)
        scales[i % channels] = fmaxf(scales[i % channels], fmaxf(fabsf(layer->weights[i]), 1e-5f) / 127.0f);
    for (int32_t c = 0; c < channels; c++)
        most = fmaxf(most, scales[c]);
    for (int32_t c = 0; c < channels; c++) {
        float scale = scales[c] = per_tensor ? most : scales[c];
        for (int32_t t = 0; t < taps; t++) {
            long v = lrintf(layer->weights[t * channels + c] / scale);
            weights[op->kind == OP_DEPTHWISE ? t * channels + c : c * taps + t] = (int8_t)(v < -127  ? -127
                                                                                           : v > 127 ? 127
                                                                                                     : v);
        }
        bias[c] = (int32_t)lrint((double)layer->weights[layer->n_weights + c] / ((double)in_scale * scale));
    }
    build_weights(b, op, weights, layer->n_weights, scales, per_tensor ? 1 : channels, bias, channels);
    op->float_scale_product = per_tensor; /* as a FULLY_CONNECTED has it */
    free(weights);
    free(scales);
    free(bias);
}

static void set_window(struct op *op, int32_t in_side, int32_t side, int32_t stride)
{
    int32_t total = (side - 1) * stride + 3 - in_side;
    op->kernel_h = op->kernel_w = 3;
    op->stride_h = op->stride_w = stride;
    op->pad_top = op->pad_left = total / 2;
    op->pad_bottom = op->pad_right = total - total / 2;
}

static struct op operator_of(const struct net *net, int32_t l, const int32_t *tensors)
{
    const struct layer *layer = &net->layers[l], *in = &net->layers[layer->in];
    struct op op;
    switch (layer->kind) {
    case LAYER_ADD:
        return build_plain(OP_ADD, tensors[layer->in], tensors[layer->skip]);
    case LAYER_MEAN:
        op = build_plain(OP_MEAN, tensors[layer->in], -1);
        op.reduce = 3;
        return op;
    case LAYER_DEPTHWISE:
        op = build_plain(OP_DEPTHWISE, tensors[layer->in], -1);
        set_window(&op, in->side, layer->side, layer->stride);
        break;
    default:
        op = build_plain(OP_CONV, tensors[layer->in], -1);
        if (in->kind == LAYER_PATCHES)
            set_window(&op, SIDE, layer->side, in->stride);
        break;
    }
    op.activation = layer->relu6 ? ACTIVATION_RELU6 : ACTIVATION_NONE;
    return op;
}

struct graph *quantize_net(const struct net *net, const struct layer_range *ranges)
{
    struct builder b = build_new(1);
    const struct quant pixels = {1.0f / 255.0f, -128}, probability = {1.0f / 256.0f, -128};
    int32_t tensors[LAYERS_MAX], t;
    tensors[0] = build_input(&b, DTYPE_INT8, (struct shape){SIDE, SIDE, 1}, pixels);
    set_name(&b, tensors[0], "image");
    for (int32_t l = 1; l < net->n; l++) {
        const struct layer *layer = &net->layers[l];
        bool last = l == net->n - 1;
        if (last) { /* the dense layer reads a vector */
            t = tensors[layer->in];
            struct quant quant = b.graph->tensors[t].quant;
            tensors[layer->in] =
                build_op(&b, build_plain(OP_RESHAPE, t, -1), b.graph->tensors[t].shape, quant);
            set_name(&b, tensors[layer->in], "flatten");
        }
        struct op op = operator_of(net, l, tensors);
        if (layer->weights)
            set_weights(&b, &op, layer, b.graph->tensors[op.inputs[0]].quant.scale, last);
        struct shape shape = {layer->side, layer->side, layer->channels};
        tensors[l] = build_op(&b, op, shape, quant_of(ranges[l]));
        set_name(&b, tensors[l], layer->name);
    }
    struct op softmax = build_plain(OP_SOFTMAX, tensors[net->n - 1], -1);
    t = build_op(&b, softmax, (struct shape){1, 1, CLASSES}, probability);
    set_name(&b, t, "softmax");
    build_output(&b, t);
    return build_finish(&b);
}
