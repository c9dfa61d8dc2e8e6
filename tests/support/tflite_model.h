/*
 * A TensorFlow Lite file as a plain description, and its encoder. Nothing is checked: tests describe faulty
 * files on purpose. Everything that a description points to is the caller's, mostly in `arena`.
 */
#ifndef SHOAL_TESTS_SUPPORT_TFLITE_MODEL_H
#define SHOAL_TESTS_SUPPORT_TFLITE_MODEL_H

#include "server/base/arena.h"
#include "server/base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum { TW_OPTIONS_MAX = 8, TW_ENDS_MAX = 80 };

struct tw_tensor {
    const char *name;  /* NULL: none */
    size_t name_bytes; /* 0: strlen(name) */
    int32_t type;
    int32_t rank, dims[12];
    uint32_t buffer; /* 0: no data */
    const float *scales;
    const int64_t *zero_points;
    int32_t n_scales, n_zero_points, quantized_dimension;
    bool variable, sparse, custom_quantization;
};

/* A scalar field: number, bytes (1, 4), bits. */
struct tw_option {
    int field, bytes;
    uint32_t bits;
};

struct tw_op {
    uint32_t code; /* index in codes */
    int32_t inputs[TW_ENDS_MAX], outputs[TW_ENDS_MAX];
    int32_t n_inputs, n_outputs;
    int32_t options_type; /* 0: none */
    struct tw_option options[TW_OPTIONS_MAX];
    int32_t n_options;
};

struct tw_code {
    int32_t deprecated_builtin, builtin, version;
    const char *custom;
};

struct tw_buffer {
    const void *data;
    size_t size;
    uint64_t outside_offset; /* not 0: the data lies outside the FlatBuffer */
};

struct tw_model {
    struct arena *arena; /* owns the arrays below */
    uint32_t version;
    struct tw_tensor *tensors;
    struct tw_op *ops;
    struct tw_code *codes;
    struct tw_buffer *buffers; /* [0] is the empty one */
    int32_t n_tensors, n_ops, n_codes, n_buffers, max;
    int32_t inputs[TW_ENDS_MAX], outputs[TW_ENDS_MAX];
    int32_t n_inputs, n_outputs;
    int32_t subgraphs; /* how often the one subgraph is listed */
};

/* An empty model with room for `max` of each; ends the process without memory. */
struct tw_model tw_new(int32_t max);
void tw_free(struct tw_model *model);
int32_t tw_tensor(struct tw_model *model, struct tw_tensor tensor);
uint32_t tw_buffer(struct tw_model *model, const void *data, size_t size); /* a copy */
/* An operator of that built-in code and version; codes are shared. */
struct tw_op *tw_op(struct tw_model *model, int32_t builtin, int32_t version);
void tw_option(struct tw_op *op, int field, int bytes, int32_t value);
void tw_option_float(struct tw_op *op, int field, float value);

/* The file. malloc'ed in out->data; out->status tells of missing memory. */
void tw_encode(const struct tw_model *model, struct bytes *out);

#endif
