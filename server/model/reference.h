/*
 * The reference executor: the independent judge. Plain loops, obviously right, no code shared with shared/nn
 * and shared/quant. Bit-exact to TensorFlow Lite's reference kernels for int8 and legacy uint8; float ends of
 * a graph (QUANTIZE, DEQUANTIZE, layout changes) included.
 */
#ifndef SHOAL_SERVER_MODEL_REFERENCE_H
#define SHOAL_SERVER_MODEL_REFERENCE_H

#include "server/model/graph.h"

/* Runs the whole graph. `input` holds all graph inputs one after another, `output` gets all outputs, both raw
 * little-endian of the tensors' own types (sizes graph_input_bytes, graph_output_bytes; another size is
 * refused with STATUS_INPUT_SIZE). Returns 0, STATUS_INPUT_SIZE, STATUS_NO_MEMORY, STATUS_MODEL_UNSUPPORTED.
 */
int reference_run(const struct graph *graph, const void *input, size_t input_bytes, void *output,
                  size_t output_bytes, struct error *error);

/* As above, keeping every tensor: tensors[t] is malloc'ed (NULL for constants) and the caller's to free with
 * reference_free_tensors. For tests that look for the first layer that differs. */
int reference_run_keep(const struct graph *graph, const void *input, size_t input_bytes, void **tensors,
                       struct error *error);
void reference_free_tensors(const struct graph *graph, void **tensors);

/* Runs only the operators of one place over given tensors: the coordinator's head and tail. tensors[] as in
 * reference_run_keep; those that the place's operators read must be there, those that they write are made. */
int reference_run_place(const struct graph *graph, enum op_place place, void **tensors, struct error *error);

#endif
