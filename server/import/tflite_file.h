/*
 * A TensorFlow Lite file as small structs: what the structure pass makes of the bytes and the meaning pass
 * checks. Private to the TFLite importer. Names and data are borrowed from the file's bytes; everything else
 * lives in the scratch arena.
 */
#ifndef SHOAL_SERVER_IMPORT_TFLITE_FILE_H
#define SHOAL_SERVER_IMPORT_TFLITE_FILE_H

#include "server/base/arena.h"
#include "server/import/flatbuffer.h"
#include "server/import/tflite_schema.h"

enum {
    TFLITE_RANK_MAX = 8,
    TFLITE_OP_ENDS_MAX = 64,      /* inputs (outputs) of one operator that are read at all */
    TFLITE_NAME_BYTES_MAX = 4096, /* a fused layer's name lists all it was fused from */
    TFLITE_CODES_MAX = 4096,
    TFLITE_BUFFERS_MAX = 65536
};

struct tflite_tensor {
    const char *name; /* not zero-terminated */
    size_t name_bytes;
    int32_t type; /* enum tflite_type, or an unknown number */
    int32_t rank; /* at most TFLITE_RANK_MAX */
    int32_t dims[TFLITE_RANK_MAX];
    const unsigned char *data; /* constants, else NULL */
    size_t data_bytes;
    const float *scales;
    const int64_t *zero_points;
    int32_t n_scales, n_zero_points, quantized_dimension;
    bool variable, sparse, custom_quantization;
};

/* All options of all operators; which of them count is the operator's. */
struct tflite_options {
    int32_t type; /* enum tflite_options_type, or an unknown number */
    int32_t padding, activation, weights_format;
    int32_t stride_w, stride_h, dilation_w, dilation_h, filter_w, filter_h, multiplier;
    int32_t axis, count, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask;
    bool keep_dims, align_corners, half_pixel_centers, offset_slice;
    float beta;
};

struct tflite_op {
    int32_t code, version; /* enum tflite_code, or another number */
    const char *custom;    /* a custom operator's name, zero-terminated and printable, else NULL */
    const int32_t *inputs, *outputs;
    int32_t n_inputs, n_outputs;
    struct tflite_options options;
};

struct tflite_file {
    const struct tflite_tensor *tensors;
    const struct tflite_op *ops;
    const int32_t *inputs, *outputs;
    int32_t n_tensors, n_ops, n_inputs, n_outputs;
};

/* The structure pass: 0, STATUS_MODEL_MALFORMED, STATUS_MODEL_LIMIT, STATUS_MODEL_UNSUPPORTED (what cannot
 * even be represented: several subgraphs, data outside the file), STATUS_NO_MEMORY. */
int tflite_read(const unsigned char *bytes, size_t size, struct arena *scratch, struct tflite_file *file,
                struct error *error);

/* The meaning pass: indices, shapes, types, quantisation, constants, who writes what. */
int tflite_check(const struct tflite_file *file, struct arena *scratch, struct error *error);

struct convert; /* tflite_convert.h */
struct op;

/* What the importer knows of one of the format's operators. */
struct tflite_row {
    int32_t code; /* enum tflite_code */
    int32_t max_version;
    int32_t options; /* enum tflite_options_type that its options must have; NONE: it has none that count */
    bool options_needed;
    int32_t min_inputs, max_inputs;
    uint32_t optional; /* bit i: input i may be -1 */
    bool float_ends;   /* float32 inputs and outputs are allowed: it moves or converts values */
    int32_t kind;      /* enum op_kind of what it becomes; -1: it folds to a constant */
    /* Fills `op`: parameters, inputs, output; or, when it folds, records the constant (op is NULL). */
    int (*convert)(struct convert *cx, const struct tflite_op *in, struct op *op);
};
const struct tflite_row *tflite_row(int32_t code); /* NULL: not supported */

/* An operator's name in the format ("CONV_2D"); never NULL. `buffer` holds names made on the spot. */
enum { TFLITE_LABEL_BYTES = 128 };
const char *tflite_op_name(const struct tflite_op *op, char buffer[TFLITE_LABEL_BYTES]);
/* How many bytes of the name of the tensor that a layer makes are the layer's: TensorFlow joins the names of
 * what it fused by semicolons, the most telling first. */
size_t tflite_layer_bytes(const struct tflite_tensor *tensor);
/* What people call operator `i`: its first output tensor's name, shortened, else "operator i". */
const char *tflite_op_label(const struct tflite_file *file, int32_t i, char buffer[TFLITE_LABEL_BYTES]);
/* Sets an error about operator `i`: "layer 'x' (CONV_2D): message", with its places. Returns `status`. */
int tflite_refuse(const struct tflite_file *file, int32_t i, struct error *error, enum status status,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Elements of a tensor whose dims passed the meaning pass; -1 when a dim is not positive or the product is
 * beyond 2^40. */
int64_t tflite_elements(const struct tflite_tensor *tensor);
const char *tflite_type_name(int32_t type);

#endif
