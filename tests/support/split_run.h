/*
 * A minimal driver for tests: all boards of a plan in this process, walking the emitted fragments, with
 * transfers copied directly. No conductor and no frames: whether a plan is exact is tested apart from the
 * protocol. The order in which boards get their turn comes from `seed`.
 */
#ifndef SHOAL_TESTS_SUPPORT_SPLIT_RUN_H
#define SHOAL_TESTS_SUPPORT_SPLIT_RUN_H

#include "server/emit/emit.h"

/* Runs one inference; arenas are filled with garbage first. 0 or a negative status (STATUS_DEADLINE: all
 * wait). */
int split_run(const struct plan *plan, const struct emit_fragment *fragments, uint64_t seed,
              const void *input, size_t input_bytes, void *output, size_t output_bytes, struct error *error);

#endif
