/* A graph with rows and columns exchanged throughout, for what only looks at shapes and operators. */
#ifndef SHOAL_TESTS_SUPPORT_TRANSPOSED_H
#define SHOAL_TESTS_SUPPORT_TRANSPOSED_H

#include "server/model/graph.h"

/* Shares weights, constants and names with `graph` as they lie there (so a window of several rows and columns
 * has the wrong order of weights, and it is not for running), which must outlive it. Freed with
 * transposed_free. NULL without memory. */
struct graph *transposed(const struct graph *graph);
void transposed_free(struct graph *graph); /* NULL is allowed */

#endif
