/*
 * Networks without weights, in the JSON that `shoal schedule` reads: known families written from their
 * structure, and random graphs with branches, squeeze-and-excite, concatenation, strides, dilation, several
 * inputs and outputs.
 */
#ifndef SHOAL_TESTS_SUPPORT_NETWORKS_H
#define SHOAL_TESTS_SUPPORT_NETWORKS_H

#include <jansson.h>
#include <stdint.h>

enum { NETWORKS = 12 };
const char *network_name(int32_t number);
json_t *network_make(int32_t number); /* new reference */

/* `n_ops` operators, each on one of the last `width` tensors; sizes up to `side` rows and columns. */
json_t *network_random(uint64_t seed, int32_t n_ops, int32_t width, int32_t side);

#endif
