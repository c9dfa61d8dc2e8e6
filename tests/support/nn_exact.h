/*
 * Random cases in which the kernels of every layout must equal the plain ones bit for bit: shapes, boxes,
 * strides, borders, rows in any place, clamps, zero points, multipliers, scratch between the least and more
 * than the most. The same code runs in unit tests (portable C, sanitizers) and in an image on an emulated
 * Cortex-M7 (the instructions themselves). No malloc of its own.
 */
#ifndef SHOAL_TESTS_SUPPORT_NN_EXACT_H
#define SHOAL_TESTS_SUPPORT_NN_EXACT_H

#include <stddef.h>
#include <stdint.h>

enum nn_exact_kind {
    NN_EXACT_CONV,
    NN_EXACT_SUMS,
    NN_EXACT_DEPTHWISE,
    NN_EXACT_FOURS,
    NN_EXACT_ADD,
    NN_EXACT_KINDS
};

/* Memory for one case: blocks of exactly `size` bytes, aligned to 8, all returned at once. */
struct nn_exact_memory {
    void *(*take)(void *context, size_t size);
    void (*drop)(void *context);
    void *context;
};

const char *nn_exact_name(enum nn_exact_kind kind);
/* One case: NULL, or what differs. *outputs counts the bytes compared. */
const char *nn_exact_case(enum nn_exact_kind kind, uint64_t seed, const struct nn_exact_memory *memory,
                          uint64_t *outputs);

#endif
