/*
 * TensorFlow Lite files become graphs. Runs in the limited child; tests call it in process. Three passes:
 * structure (tflite_read), meaning (tflite_check), conversion (tflite_convert); after that nobody touches the
 * file's bytes again.
 */
#ifndef SHOAL_SERVER_IMPORT_TFLITE_H
#define SHOAL_SERVER_IMPORT_TFLITE_H

#include "server/base/error.h"
#include "server/model/graph.h"

#include <stddef.h>

/* A finished graph named `name`, the caller's to graph_free; NULL with `error` set: STATUS_MODEL_MALFORMED,
 * STATUS_MODEL_UNSUPPORTED, STATUS_MODEL_LIMIT, STATUS_NO_MEMORY. The bytes are not kept. */
struct graph *import_tflite(const unsigned char *bytes, size_t size, const char *name, struct error *error);

#endif
