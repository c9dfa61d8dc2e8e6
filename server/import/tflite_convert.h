/*
 * The conversion of a checked TensorFlow Lite file into a graph: what the rows of tflite_ops.c and the passes
 * of tflite_convert.c share. Private to the TFLite importer.
 */
#ifndef SHOAL_SERVER_IMPORT_TFLITE_CONVERT_H
#define SHOAL_SERVER_IMPORT_TFLITE_CONVERT_H

#include "server/import/tflite_file.h"
#include "server/model/graph.h"

enum { FOLD_VALUES_MAX = 16, CONSTANT_BYTES_MAX = 8 * 1024 * 1024 };

/* A tensor of integers whose values are known while importing. */
struct fold {
    int32_t n;
    int64_t v[FOLD_VALUES_MAX];
};

struct convert {
    const struct tflite_file *file;
    struct graph *graph;
    struct arena *scratch;
    struct error *error;
    int32_t *map;              /* by tensor of the file: tensor of the graph, or -1 */
    const struct fold **folds; /* by tensor of the file, or NULL */
    bool *legacy;              /* by tensor of the file: uint8 kept as int8 less 128 */
    int32_t tensors_max, ops_max;
    int32_t at; /* operator being converted */
    int64_t constant_bytes, constant_bytes_max;
};

/* The refusal of the operator being converted. */
#define CONVERT_REFUSE(cx, status, ...) tflite_refuse((cx)->file, (cx)->at, (cx)->error, status, __VA_ARGS__)

/* Its shape as the graph sees it: dims right-aligned. False when dims before the last three are not 1. */
bool tflite_shape(const struct tflite_tensor *tensor, struct shape *shape);
/* The axis of (h, w, c) that axis `axis` (may be negative) of `tensor` is; -1 for the batch, -2 out of range.
 */
int32_t tflite_axis(const struct tflite_tensor *tensor, int64_t axis);

/* The graph's tensor for tensor `t` of the file, made at first use. Constants are copied (uint8 less 128),
 * with their dims padded to four. Returns its index or a negative status. */
int32_t convert_tensor(struct convert *cx, int32_t t);
/* A new tensor like `like` (type, quantisation) of a shape of its own. Index or negative status. */
int32_t convert_temporary(struct convert *cx, const struct tensor *like, struct shape shape,
                          const char *suffix);
/* A new operator. `suffix` is appended to the layer's name ("" for the layer itself). NULL with the error
 * set. */
struct op *convert_op(struct convert *cx, enum op_kind kind, const char *suffix);
/* Appends tensor `t` of the file as the next input. */
int convert_input(struct convert *cx, struct op *op, int32_t t);
/* Sets the output to the only output of the operator being converted. When the operator makes another shape
 * of as many elements, a RESHAPE follows. */
int convert_output(struct convert *cx, struct op *op, struct shape natural);
int convert_output_plain(struct convert *cx, struct op *op);
/* Memory for constants in the graph, within the limit. NULL with the error set. */
void *convert_constant(struct convert *cx, int64_t count, size_t size);
/* The values of an integer tensor that is constant or folded; 1 to `max` of them. `what` names it in errors.
 */
int convert_ints(struct convert *cx, int32_t t, const char *what, int32_t max, struct fold *out);

/* All operators, then the passes: uint8 ends, PAD into convolutions, unused tensors, unique names. */
int tflite_convert(struct convert *cx);

/* tflite_passes.c */
int convert_fold_pads(struct convert *cx);
int convert_drop_unused(struct convert *cx);
int convert_unique_names(struct convert *cx);

/* tflite_window.c */
int convert_conv(struct convert *cx, const struct tflite_op *in, struct op *op);
int convert_depthwise(struct convert *cx, const struct tflite_op *in, struct op *op);
int convert_fully_connected(struct convert *cx, const struct tflite_op *in, struct op *op);
int convert_pool(struct convert *cx, const struct tflite_op *in, struct op *op);
/* The fused activation; refuses those that are not supported. */
int convert_activation(struct convert *cx, const struct tflite_op *in, struct op *op);

/* tflite_fold.c */
int fold_shape(struct convert *cx, const struct tflite_op *in, struct op *op);
int fold_strided_slice(struct convert *cx, const struct tflite_op *in, struct op *op);
int fold_pack(struct convert *cx, const struct tflite_op *in, struct op *op);

#endif
