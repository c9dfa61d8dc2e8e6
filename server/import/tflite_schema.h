/*
 * Numbers of the TensorFlow Lite file format (schema version 3): field numbers of its tables, types,
 * operators and the tables of operator options. Facts about a public format; only what the importer reads is
 * listed. A field number n is entry n of the table's vtable.
 */
#ifndef SHOAL_SERVER_IMPORT_TFLITE_SCHEMA_H
#define SHOAL_SERVER_IMPORT_TFLITE_SCHEMA_H

#define TFLITE_IDENTIFIER "TFL3"

enum { TFLITE_VERSION = 3 };

enum {
    MODEL_VERSION = 0,
    MODEL_OPERATOR_CODES = 1,
    MODEL_SUBGRAPHS = 2,
    MODEL_DESCRIPTION = 3,
    MODEL_BUFFERS = 4
};

/* The 8-bit code came first and is 127 for larger ones; the larger of the two counts. */
enum { CODE_DEPRECATED_BUILTIN = 0, CODE_CUSTOM = 1, CODE_VERSION = 2, CODE_BUILTIN = 3 };

enum {
    SUBGRAPH_TENSORS = 0,
    SUBGRAPH_INPUTS = 1,
    SUBGRAPH_OUTPUTS = 2,
    SUBGRAPH_OPERATORS = 3,
    SUBGRAPH_NAME = 4
};

enum {
    TENSOR_SHAPE = 0,
    TENSOR_TYPE = 1,
    TENSOR_BUFFER = 2,
    TENSOR_NAME = 3,
    TENSOR_QUANTIZATION = 4,
    TENSOR_IS_VARIABLE = 5,
    TENSOR_SPARSITY = 6,
    TENSOR_EXTERNAL_BUFFER = 10
};

enum { QUANT_SCALE = 2, QUANT_ZERO_POINT = 3, QUANT_DETAILS_TYPE = 4, QUANT_DIMENSION = 6 };

enum {
    OPERATOR_CODE_INDEX = 0,
    OPERATOR_INPUTS = 1,
    OPERATOR_OUTPUTS = 2,
    OPERATOR_OPTIONS_TYPE = 3,
    OPERATOR_OPTIONS = 4
};

enum { BUFFER_DATA = 0, BUFFER_OFFSET = 1, BUFFER_SIZE = 2 };

enum tflite_type {
    TFLITE_FLOAT32 = 0,
    TFLITE_FLOAT16 = 1,
    TFLITE_INT32 = 2,
    TFLITE_UINT8 = 3,
    TFLITE_INT64 = 4,
    TFLITE_STRING = 5,
    TFLITE_BOOL = 6,
    TFLITE_INT16 = 7,
    TFLITE_INT8 = 9
};

enum tflite_padding { TFLITE_SAME = 0, TFLITE_VALID = 1 };

enum tflite_activation {
    TFLITE_ACT_NONE = 0,
    TFLITE_ACT_RELU = 1,
    TFLITE_ACT_RELU_N1_TO_1 = 2,
    TFLITE_ACT_RELU6 = 3
};

enum tflite_code {
    TFLITE_ADD = 0,
    TFLITE_AVERAGE_POOL_2D = 1,
    TFLITE_CONCATENATION = 2,
    TFLITE_CONV_2D = 3,
    TFLITE_DEPTHWISE_CONV_2D = 4,
    TFLITE_DEQUANTIZE = 6,
    TFLITE_FULLY_CONNECTED = 9,
    TFLITE_LOGISTIC = 14,
    TFLITE_MAX_POOL_2D = 17,
    TFLITE_MUL = 18,
    TFLITE_RELU = 19,
    TFLITE_RELU6 = 21,
    TFLITE_RESHAPE = 22,
    TFLITE_SOFTMAX = 25,
    TFLITE_CUSTOM = 32,
    TFLITE_PAD = 34,
    TFLITE_TRANSPOSE = 39,
    TFLITE_MEAN = 40,
    TFLITE_SUB = 41,
    TFLITE_SQUEEZE = 43,
    TFLITE_STRIDED_SLICE = 45,
    TFLITE_PADV2 = 60,
    TFLITE_EXPAND_DIMS = 70,
    TFLITE_SHAPE = 77,
    TFLITE_PACK = 83,
    TFLITE_RESIZE_NEAREST_NEIGHBOR = 97,
    TFLITE_QUANTIZE = 114
};

/* Tables of operator options (the union's type numbers). */
enum tflite_options_type {
    TFLITE_OPT_NONE = 0,
    TFLITE_OPT_CONV_2D = 1,
    TFLITE_OPT_DEPTHWISE_CONV_2D = 2,
    TFLITE_OPT_POOL_2D = 5,
    TFLITE_OPT_FULLY_CONNECTED = 8,
    TFLITE_OPT_SOFTMAX = 9,
    TFLITE_OPT_CONCATENATION = 10,
    TFLITE_OPT_ADD = 11,
    TFLITE_OPT_RESHAPE = 17,
    TFLITE_OPT_MUL = 21,
    TFLITE_OPT_PAD = 22,
    TFLITE_OPT_TRANSPOSE = 26,
    TFLITE_OPT_REDUCER = 27,
    TFLITE_OPT_SUB = 28,
    TFLITE_OPT_SQUEEZE = 30,
    TFLITE_OPT_STRIDED_SLICE = 32,
    TFLITE_OPT_DEQUANTIZE = 38,
    TFLITE_OPT_PADV2 = 43,
    TFLITE_OPT_EXPAND_DIMS = 52,
    TFLITE_OPT_SHAPE = 55,
    TFLITE_OPT_PACK = 59,
    TFLITE_OPT_RESIZE_NEAREST_NEIGHBOR = 74,
    TFLITE_OPT_QUANTIZE = 89
};

#endif
