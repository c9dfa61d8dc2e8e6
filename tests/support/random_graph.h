/*
 * Small random int8 graphs, the same for the same seed everywhere: convolutions with strides, dilation,
 * groups and odd padding, depthwise with multipliers, pools, element-wise operators with broadcast and
 * constants, concats, look-ups, resizes, pads, means, squeeze-and-excite, residuals, transposes, reshapes
 * with fully connected layers, softmax. Quantisation is random but sane: values spread over the type, few
 * saturate.
 */
#ifndef SHOAL_TESTS_SUPPORT_RANDOM_GRAPH_H
#define SHOAL_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "server/model/graph.h"

/* Zero means the default in brackets. */
struct random_graph_options {
    int32_t ops;          /* blocks to put in a row [random 3..14] */
    int32_t max_side;     /* rows and columns of the inputs, at least 4 [13] */
    int32_t max_channels; /* of a tensor, at least 8 [24] */
    int32_t inputs;       /* [1, sometimes 2] */
    int32_t max_outputs;  /* [3] */
    uint32_t without;     /* bit mask of 1u << enum op_kind to leave out [none] */
    bool int8_ends;       /* only int8 graph inputs and outputs [also float32 and uint8 ones] */
    bool branches;        /* half of the blocks are branches of one scale that are concatenated */
    bool one_row;         /* inputs of one row, of up to 4 * max_side columns; few operators add rows */
    bool no_classifier;   /* never ends in pool, fully connected layers, softmax [half of them do] */
};

/* `options` may be NULL. Finished; the caller's to free with graph_free. Ends the process if it cannot. */
struct graph *random_graph(uint64_t seed, const struct random_graph_options *options);

/* Bytes for all graph inputs, malloc'ed: random over the whole type, floats over their quantised range. */
void *random_input(const struct graph *graph, uint64_t seed, size_t *bytes);

#endif
