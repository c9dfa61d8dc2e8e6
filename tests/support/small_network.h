/*
 * Networks without weights, small enough to try everything that a schedule could be: up to seven operators
 * with residuals, gates, concatenations, pools and strides, written as users write them.
 */
#ifndef SHOAL_TESTS_SUPPORT_SMALL_NETWORK_H
#define SHOAL_TESTS_SUPPORT_SMALL_NETWORK_H

#include "server/model/graph.h"

#include <jansson.h>
#include <stdint.h>

enum { SMALL_OPS = 7, SMALL_TENSORS = 12 };

/* The same for the same seed everywhere; a new reference. */
json_t *small_network(uint64_t seed);
/* Takes the reference. The caller's to free with graph_free; ends the process with the error if it is
 * refused. */
struct graph *small_graph_of(json_t *json);

#endif
