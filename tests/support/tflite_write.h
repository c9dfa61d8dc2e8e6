/*
 * Graphs as TensorFlow Lite files, for tests and for the demo model. What the format cannot say is refused
 * with a reason; a convolution whose padding is neither SAME nor VALID gets a PAD before it.
 */
#ifndef SHOAL_TESTS_SUPPORT_TFLITE_WRITE_H
#define SHOAL_TESTS_SUPPORT_TFLITE_WRITE_H

#include "server/model/graph.h"
#include "tests/support/tflite_model.h"

struct tflite_write_options {
    bool legacy_uint8; /* int8 tensors and weights are written as uint8, 128 more; needs per-tensor weights */
};

/* The description, the caller's to tw_free. NULL, or why the format cannot say it. `options` may be NULL. */
const char *tflite_describe(const struct graph *graph, const struct tflite_write_options *options,
                            struct tw_model *model);
/* The file; out->data is malloc'ed. NULL, or the reason. */
const char *tflite_write(const struct graph *graph, const struct tflite_write_options *options,
                         struct bytes *out);

/* Whether the file will say FULLY_CONNECTED: the kernel is the whole map, weights are per tensor, and the
 * scale product is float. Only then can float_scale_product be written (but for legacy uint8, where it always
 * holds). */
bool tflite_is_fully_connected(const struct graph *graph, const struct op *op);

#endif
