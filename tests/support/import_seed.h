/* Small models for tests and fuzzing of the importer. */
#ifndef SHOAL_TESTS_SUPPORT_IMPORT_SEED_H
#define SHOAL_TESTS_SUPPORT_IMPORT_SEED_H

#include "tests/support/tflite_write.h"

/* Operators of import_small_model(), and of its file (each is the graph's operator of that index, too). */
enum {
    SMALL_CONV,
    SMALL_DEPTHWISE,
    SMALL_ADD,
    SMALL_POOL,
    SMALL_MEAN,
    SMALL_RESHAPE,
    SMALL_DENSE,
    SMALL_SOFTMAX
};

/* A network of one each over an 8x8x4 input: per-channel 3x3 convolution, depthwise, addition of the input,
 * max pool, mean, reshape, fully connected layer, softmax over 5. The caller's to free. */
struct graph *import_small_graph(void);
/* Its file's description, the caller's to tw_free. */
struct tw_model import_small_model(bool legacy_uint8);

/* Makes `graph` one that the writer can express where that only takes clearing flags: products of scales and
 * the rounding of average pools. With `legacy` the other way round, and weights get one scale and a zero
 * point. */
void import_make_writable(struct graph *graph, bool legacy);

#endif
