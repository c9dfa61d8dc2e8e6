/*
 * Tensors of one row, seen as tensors of one column: 1 x W x C and W x 1 x C are the same bytes. What goes
 * row by row then goes along the image of a network over time. Operators all of whose tensors have one row
 * are turned with them; where a network goes over to one row an operator reads or writes a tall tensor and
 * cannot be turned itself: it runs whole, or in loops over channels, with the graph as it is.
 */
#ifndef SHOAL_SERVER_MODEL_TALL_H
#define SHOAL_SERVER_MODEL_TALL_H

#include "server/model/graph.h"

/* An activation of one row and several columns. */
bool tall_tensor(const struct graph *graph, int32_t tensor);
/* The operator has such a tensor and can be turned. */
bool tall_turns(const struct graph *graph, const struct op *op);
/* The operator has such a tensor, cannot be turned, and is no view. */
bool tall_stays(const struct graph *graph, const struct op *op);
/* A copy, in `arena`, with tall tensors and turned operators; their numbers, names, weights and everything
 * else are the graph's, which must outlive it. NULL without memory. */
const struct graph *tall_graph(const struct graph *graph, struct arena *arena);

#endif
