/*
 * Checks and runs one program of a network in one go, for tests: every check must pass, the run must stay
 * inside its arena and end, and answers the output tensor's bytes.
 */
#ifndef SHOAL_TESTS_SUPPORT_NET_RUN_H
#define SHOAL_TESTS_SUPPORT_NET_RUN_H

#include "tests/support/local_io.h"
#include "tests/support/net_program.h"

/* Every tensor by the reference executor for an input made from the seed; free with reference_free_tensors.
 */
void net_reference(const struct net *net, uint64_t seed, void **tensors);
size_t net_bytes(const struct net *net, int32_t tensor);

/* Bounds check, then data check; `place` gets the first refusal. */
int net_check(const struct fragment *fragment, struct fragment_place *place);

/* What a program may need to be run again: its image and what opened it. */
struct net_image {
    struct fragment fragment;
    uint8_t *bytes;
};
struct net_image net_image(struct program *program); /* takes the program */

#endif
