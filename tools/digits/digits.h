/*
 * The parts of the digit trainer: pictures, a float network with its gradients, and its way to an int8 graph.
 * One thread; running out of memory ends the process.
 */
#ifndef SHOAL_TOOLS_DIGITS_DIGITS_H
#define SHOAL_TOOLS_DIGITS_DIGITS_H

#include "server/model/graph.h"
#include "tests/support/prng.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, BATCH = 32, LAYERS_MAX = 48 };

/* ---- pictures ---- */

struct digit {
    int32_t label;
    uint8_t pixels[PIXELS]; /* 0 paper, 255 ink */
};

struct digit_set {
    struct digit *digits;
    int32_t n;
};

/* Reads 0.json to 9.json of `folder`, each {"data": [pixels from 0 to 1 of one picture after another]}. Of
 * each digit every fifth picture is held out, beginning with the fifth; training never sees those. Returns
 * NULL, or what is wrong. */
const char *digits_read(const char *folder, struct digit_set *training, struct digit_set *held_out);
void digits_free(struct digit_set *set);

/* The picture as pixels / 255; `jitter` not NULL: shifted, turned, sheared and stretched a little. */
void digits_picture(const struct digit *digit, struct prng *jitter, float out[PIXELS]);

/* ---- network ---- */

enum layer_kind {
    LAYER_PATCHES,   /* the input: each 3x3 window of stride 2 as nine channels */
    LAYER_POINTWISE, /* weights [in channels][channels] */
    LAYER_DEPTHWISE, /* 3x3, SAME; weights [9][channels] */
    LAYER_ADD,
    LAYER_MEAN /* over rows and columns */
};

/* Maps are [picture][row][column][channel]. */
struct layer {
    enum layer_kind kind;
    int32_t in, skip; /* layers that it reads */
    int32_t side, channels, stride;
    bool relu6;
    char name[24];
    int32_t n_weights;                             /* the biases follow the weights */
    float *weights, *gradient, *moment1, *moment2; /* n_weights + channels each; NULL without weights */
    float *out, *back;                             /* BATCH maps: values, and the loss's gradient by them */
};

struct net {
    struct layer layers[LAYERS_MAX];
    int32_t n;
    int32_t step; /* of Adam */
    float *scratch;
};

struct net *net_new(struct prng *prng);
void net_free(struct net *net);
int32_t net_weights(const struct net *net); /* biases not counted */

/* Scales each layer so that over these BATCH pictures each channel has a fixed mean and spread. */
void net_settle(struct net *net, float pictures[BATCH][PIXELS]);
/* The last layer's `out` are the logits of the first n pictures. */
void net_forward(struct net *net, float pictures[BATCH][PIXELS], int32_t n);
/* After net_forward of BATCH pictures: one step of Adam on the mean cross-entropy, which is returned. */
float net_learn(struct net *net, const int32_t labels[BATCH], float rate);

/* What the layer computes before its activation; also used by net_settle. */
void layer_forward(struct net *net, int32_t l, int32_t n);
void layer_backward(struct net *net, int32_t l, int32_t n);

/* ---- int8 ---- */

/* The smallest and largest value of each layer's output. */
struct layer_range {
    float low, high;
};

/* Weights per channel (the last layer's per tensor), activations per tensor, by the given ranges. */
struct graph *quantize_net(const struct net *net, const struct layer_range *ranges);

void *need(void *p); /* p, never NULL */

#endif
