/*
 * A plan of one board run from its fragment in an arena of exactly the size that the plan states, between
 * guards, all painted with one value. What the program leaves as it was painted under two different values it
 * has not written.
 */
#ifndef SHOAL_TESTS_SUPPORT_PAINTED_RUN_H
#define SHOAL_TESTS_SUPPORT_PAINTED_RUN_H

#include "server/emit/emit.h"

/* Runs one inference under the paints 0x00 and 0xA5; `output` is that of the second. Ends the process with a
 * message when a guard was touched or the outputs differ. *highest: the highest arena byte written under
 * either, plus 1. 0, or what the walker answered. */
int painted_run(const struct plan *plan, const struct emit_fragment *fragment, const void *input,
                size_t input_bytes, void *output, size_t output_bytes, uint32_t *highest,
                struct error *error);

#endif
