/*
 * Names of TensorFlow Lite's operators and types, and what people are told about a layer. All text made here
 * is one printable line of bounded length: names in the file passed the structure pass.
 */
#include "server/import/tflite_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* By code. */
static const char *const op_names[] = {
    "ADD",
    "AVERAGE_POOL_2D",
    "CONCATENATION",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "DEPTH_TO_SPACE",
    "DEQUANTIZE",
    "EMBEDDING_LOOKUP",
    "FLOOR",
    "FULLY_CONNECTED",
    "HASHTABLE_LOOKUP",
    "L2_NORMALIZATION",
    "L2_POOL_2D",
    "LOCAL_RESPONSE_NORMALIZATION",
    "LOGISTIC",
    "LSH_PROJECTION",
    "LSTM",
    "MAX_POOL_2D",
    "MUL",
    "RELU",
    "RELU_N1_TO_1",
    "RELU6",
    "RESHAPE",
    "RESIZE_BILINEAR",
    "RNN",
    "SOFTMAX",
    "SPACE_TO_DEPTH",
    "SVDF",
    "TANH",
    "CONCAT_EMBEDDINGS",
    "SKIP_GRAM",
    "CALL",
    "CUSTOM",
    "EMBEDDING_LOOKUP_SPARSE",
    "PAD",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
    "GATHER",
    "BATCH_TO_SPACE_ND",
    "SPACE_TO_BATCH_ND",
    "TRANSPOSE",
    "MEAN",
    "SUB",
    "DIV",
    "SQUEEZE",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "STRIDED_SLICE",
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "EXP",
    "TOPK_V2",
    "SPLIT",
    "LOG_SOFTMAX",
    "DELEGATE",
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "CAST",
    "PRELU",
    "MAXIMUM",
    "ARG_MAX",
    "MINIMUM",
    "LESS",
    "NEG",
    "PADV2",
    "GREATER",
    "GREATER_EQUAL",
    "LESS_EQUAL",
    "SELECT",
    "SLICE",
    "SIN",
    "TRANSPOSE_CONV",
    "SPARSE_TO_DENSE",
    "TILE",
    "EXPAND_DIMS",
    "EQUAL",
    "NOT_EQUAL",
    "LOG",
    "SUM",
    "SQRT",
    "RSQRT",
    "SHAPE",
    "POW",
    "ARG_MIN",
    "FAKE_QUANT",
    "REDUCE_PROD",
    "REDUCE_MAX",
    "PACK",
    "LOGICAL_OR",
    "ONE_HOT",
    "LOGICAL_AND",
    "LOGICAL_NOT",
    "UNPACK",
    "REDUCE_MIN",
    "FLOOR_DIV",
    "REDUCE_ANY",
    "SQUARE",
    "ZEROS_LIKE",
    "FILL",
    "FLOOR_MOD",
    "RANGE",
    "RESIZE_NEAREST_NEIGHBOR",
    "LEAKY_RELU",
    "SQUARED_DIFFERENCE",
    "MIRROR_PAD",
    "ABS",
    "SPLIT_V",
    "UNIQUE",
    "CEIL",
    "REVERSE_V2",
    "ADD_N",
    "GATHER_ND",
    "COS",
    "WHERE",
    "RANK",
    "ELU",
    "REVERSE_SEQUENCE",
    "MATRIX_DIAG",
    "QUANTIZE",
    "MATRIX_SET_DIAG",
    "ROUND",
    "HARD_SWISH",
    "IF",
    "WHILE",
    "NON_MAX_SUPPRESSION_V4",
    "NON_MAX_SUPPRESSION_V5",
    "SCATTER_ND",
    "SELECT_V2",
    "DENSIFY",
    "SEGMENT_SUM",
    "BATCH_MATMUL",
    "PLACEHOLDER",
    "CUMSUM",
    "CALL_ONCE",
    "BROADCAST_TO",
    "RFFT2D",
    "CONV_3D",
    "IMAG",
    "REAL",
    "COMPLEX_ABS",
    "HASHTABLE",
    "HASHTABLE_FIND",
    "HASHTABLE_IMPORT",
    "HASHTABLE_SIZE",
    "REDUCE_ALL",
    "CONV_3D_TRANSPOSE",
    "VAR_HANDLE",
    "READ_VARIABLE",
    "ASSIGN_VARIABLE",
    "BROADCAST_ARGS",
    "RANDOM_STANDARD_NORMAL",
    "BUCKETIZE",
    "RANDOM_UNIFORM",
    "MULTINOMIAL",
    "GELU",
    "DYNAMIC_UPDATE_SLICE",
    "RELU_0_TO_1",
    "UNSORTED_SEGMENT_PROD",
    "UNSORTED_SEGMENT_MAX",
    "UNSORTED_SEGMENT_SUM",
    "ATAN2",
    "UNSORTED_SEGMENT_MIN",
    "SIGN",
    "BITCAST",
    "BITWISE_XOR",
    "RIGHT_SHIFT",
};

static const char *const type_names[] = {"FLOAT32", "FLOAT16",    "INT32",  "UINT8",     "INT64",
                                         "STRING",  "BOOL",       "INT16",  "COMPLEX64", "INT8",
                                         "FLOAT64", "COMPLEX128", "UINT64", "RESOURCE",  "VARIANT",
                                         "UINT32",  "UINT16",     "INT4",   "BFLOAT16"};

const char *tflite_type_name(int32_t type)
{
    bool known = type >= 0 && type < (int32_t)(sizeof type_names / sizeof *type_names);
    return known ? type_names[type] : "an unknown type";
}

const char *tflite_op_name(const struct tflite_op *op, char buffer[TFLITE_LABEL_BYTES])
{
    if (op->custom)
        return op->custom;
    if (op->code >= 0 && op->code < (int32_t)(sizeof op_names / sizeof *op_names))
        return op_names[op->code];
    (void)snprintf(buffer, TFLITE_LABEL_BYTES, "operator code %d", op->code);
    return buffer;
}

size_t tflite_layer_bytes(const struct tflite_tensor *tensor)
{
    const char *end = tensor->name_bytes ? memchr(tensor->name, ';', tensor->name_bytes) : NULL;
    return end && end > tensor->name ? (size_t)(end - tensor->name) : tensor->name_bytes;
}

const char *tflite_op_label(const struct tflite_file *file, int32_t i, char buffer[TFLITE_LABEL_BYTES])
{
    const struct tflite_op *op = &file->ops[i];
    int32_t t = op->n_outputs > 0 ? op->outputs[0] : -1;
    const struct tflite_tensor *tensor = t >= 0 && t < file->n_tensors ? &file->tensors[t] : NULL;
    if (!tensor || tensor->name_bytes == 0) {
        (void)snprintf(buffer, TFLITE_LABEL_BYTES, "operator %d", i);
        return buffer;
    }
    size_t n = tflite_layer_bytes(tensor), max = TFLITE_LABEL_BYTES - 4;
    bool cut = n > max;
    if (cut)
        for (n = max; n > 0 && ((unsigned char)tensor->name[n] & 0xc0) == 0x80;)
            n--;
    (void)snprintf(buffer, TFLITE_LABEL_BYTES, "%.*s%s", (int)n, tensor->name, cut ? "..." : "");
    return buffer;
}

int tflite_refuse(const struct tflite_file *file, int32_t i, struct error *error, enum status status,
                  const char *format, ...)
{
    char label[TFLITE_LABEL_BYTES], name[TFLITE_LABEL_BYTES], text[256];
    const char *op = tflite_op_name(&file->ops[i], name);
    tflite_op_label(file, i, label);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    int result = error_set(error, status, "layer '%s' (%s): %s", label, op, text);
    error_at_layer(error, label, op);
    return result;
}
