/*
 * Builds small graphs by hand for tests. A builder owns its graph until build_finish hands it over; any slip
 * in a test's graph (out of memory, a refused graph) ends the process with a message, so that tests need no
 * checks.
 */
#ifndef SHOAL_TESTS_SUPPORT_BUILD_GRAPH_H
#define SHOAL_TESTS_SUPPORT_BUILD_GRAPH_H

#include "server/model/graph.h"
#include "tests/support/prng.h"

struct builder {
    struct graph *graph;
    struct prng prng; /* for random weights */
    int32_t max_tensors, max_ops;
};

struct builder build_new(uint64_t seed);

/* Tensors; each returns its index. Dims are [1, h, w, c]. */
int32_t build_tensor(struct builder *b, enum dtype dtype, struct shape shape, struct quant quant);
int32_t build_input(struct builder *b, enum dtype dtype, struct shape shape, struct quant quant);
/* An int8 constant; `values` are copied. */
int32_t build_constant(struct builder *b, struct shape shape, struct quant quant, const int8_t *values);
void build_output(struct builder *b, int32_t tensor);

/* Appends `op` as it is, with a new name, and a new int8 tensor as its output; returns the output's index. */
int32_t build_op(struct builder *b, struct op op, struct shape out, struct quant quant);
/* The same with an output of another type. */
int32_t build_typed_op(struct builder *b, struct op op, enum dtype dtype, struct shape out,
                       struct quant quant);

/* Makes an operator of `kind` over up to two inputs (-1: none), everything else neutral: windows 1x1, stride
 * 1, groups 1, multiplier 1, beta 1. */
struct op build_plain(enum op_kind kind, int32_t a, int32_t b);
/* Copies weights (int8), scales and bias (may be NULL) into the graph and sets them in op. */
void build_weights(struct builder *b, struct op *op, const int8_t *weights, int64_t n_weights,
                   const float *scales, int32_t n_scales, const int32_t *bias, int32_t n_bias);

/* The output rows (columns) of a window; 0 or less: it does not fit. */
int32_t build_window(int32_t in, int32_t kernel, int32_t stride, int32_t dilation, int32_t before,
                     int32_t after);

/* graph_finish; the caller owns the graph. */
struct graph *build_finish(struct builder *b);
/* Hands the graph over as it stands, for tests of graph_finish itself. */
struct graph *build_unfinished(struct builder *b);

#endif
