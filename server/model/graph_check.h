/*
 * The single checks of graph_finish, private to server/model. Each returns 0 or a negative status with the
 * error filled; the caller adds the layer.
 */
#ifndef SHOAL_SERVER_MODEL_GRAPH_CHECK_H
#define SHOAL_SERVER_MODEL_GRAPH_CHECK_H

#include "server/model/graph.h"

/* Counts, pointers, kinds and indices; after it every index may be followed. */
int graph_check_indices(const struct graph *graph, struct error *error);
/* Names, dims, shapes (filled where all zero), quantisation. */
int graph_check_tensors(struct graph *graph, struct error *error);
/* Constants in place, parameters, and the output's shape by the operator table. */
int graph_check_op(const struct graph *graph, const struct op *op, struct error *error);

#endif
