/*
 * A fuzz target is one file tests/fuzz/fuzz_*.c with these two functions; tests/fuzz/driver.c is its main. A
 * target judges by asserting what must hold (assert stays on) and by what the sanitizers find. It must not
 * keep state from one input to the next.
 */
#ifndef SHOAL_TESTS_FUZZ_FUZZ_H
#define SHOAL_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_INPUT_MAX = 1 << 20 };

/* One input, in a block of exactly `size` bytes, so that a read past its end is seen. */
void fuzz_one(const uint8_t *bytes, size_t size);

/* The i-th valid input, 0.. , written to out (at most `room` bytes); its size, 0 when there are no more. At
 * least one. The driver mutates these. */
size_t fuzz_seed(unsigned i, uint8_t *out, size_t room);

#endif
