/*
 * The graph: Shoal's internal representation of an imported network. Everything lives in one arena and is
 * immutable once graph_finish() has accepted it, so threads may share it.
 *
 * Tensors are NHWC with batch 1. `dims` are the file's own (what users send and see), `shape` is where
 * planning looks: dims without the batch, right-aligned, missing axes 1 ([1,640] is 1x1x640; [1,160,3] is
 * 1x160x3). Activations are int8; float32, uint8 and int32 occur only at the graph's ends. A legacy uint8
 * network is stored as int8 (zero points and weights less 128) with a QUANTIZE from and to uint8 at its ends.
 *
 * Importers make every operator name its parameters outright: padding as numbers, axes resolved, constants
 * folded, weights separate from activations. FULLY_CONNECTED is a CONV whose kernel is the whole map (mostly
 * 1x1, since a RESHAPE precedes it).
 */
#ifndef SHOAL_SERVER_MODEL_GRAPH_H
#define SHOAL_SERVER_MODEL_GRAPH_H

#include "server/base/arena.h"
#include "server/base/error.h"
#include "server/model/box.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRAPH_RANK_MAX = 4,
    GRAPH_DIM_MAX = 65535,
    GRAPH_TENSORS_MAX = 8192,
    GRAPH_OPS_MAX = 4096,
    GRAPH_OP_INPUTS_MAX = 16,
    GRAPH_ENDS_MAX = 16,             /* graph inputs, and outputs */
    GRAPH_WINDOW_MAX = 255,          /* rows that a window may span, dilation included */
    GRAPH_NAME_MAX = 255,            /* bytes of a name */
    GRAPH_ELEMENTS_MAX = 1 << 26,    /* of one tensor */
    GRAPH_WEIGHT_BYTES_MAX = 1 << 28 /* of one operator */
};

enum dtype { DTYPE_INT8, DTYPE_UINT8, DTYPE_INT32, DTYPE_FLOAT32, DTYPE_COUNT };

enum op_kind {
    OP_CONV,      /* weights OHWI; groups >= 1 */
    OP_DEPTHWISE, /* weights HWC, output channel c reads input channel c / multiplier */
    OP_AVERAGE_POOL,
    OP_MAX_POOL,
    OP_MEAN, /* over the axes in `reduce`; output keeps them with size 1 */
    OP_ADD,  /* two inputs; the second may be a constant or 1x1xc or 1x1x1 */
    OP_SUB,
    OP_MUL,
    OP_PAD,     /* pad_* rows and columns and pad_c0, pad_c1 channels of the value `fill` */
    OP_RESHAPE, /* RESHAPE, SQUEEZE, EXPAND_DIMS: same bytes */
    OP_SOFTMAX, /* over channels */
    OP_LOGISTIC,
    OP_RELU,
    OP_RELU6,
    OP_CONCAT, /* along `axis`: 0 h, 1 w, 2 c */
    OP_RESIZE_NEAREST,
    OP_TRANSPOSE,  /* perm over (h, w, c): output axis i is input axis perm[i] */
    OP_REQUANTIZE, /* int8 -> int8 of another scale */
    OP_QUANTIZE,   /* float32 or uint8 -> int8, or int8 -> uint8 */
    OP_DEQUANTIZE, /* int8 or uint8 -> float32 */
    OP_KIND_COUNT
};

enum activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_RELU6, ACTIVATION_RELU_N1_TO_1 };

/* Where an operator runs: at the coordinator before the first int8 tensor of the boards, on boards, at the
 * coordinator after the last one. */
enum op_place { OP_PLACE_HEAD, OP_PLACE_BODY, OP_PLACE_TAIL };

/* Per-tensor affine quantisation: real = scale * (q - zero_point). scale > 0 and finite for int8 and uint8.
 */
struct quant {
    float scale;
    int32_t zero_point;
};

struct tensor {
    const char *name;
    enum dtype dtype;
    int32_t rank;
    int32_t dims[GRAPH_RANK_MAX];
    struct shape shape;
    struct quant quant;
    const void *data; /* constants: shape_elements() elements of dtype, packed h, w, c; else NULL */
    int32_t producer; /* index of the operator that writes it; -1: graph input or constant */
};

struct op {
    enum op_kind kind;
    const char *name;    /* the layer's name for people: the file's name of its output tensor, made unique */
    const char *file_op; /* the operator's name in the file ("FULLY_CONNECTED") */
    enum op_place place;
    int32_t inputs[GRAPH_OP_INPUTS_MAX];
    int32_t n_inputs;
    int32_t output;
    /* windows: CONV, DEPTHWISE, pools. Padding may be unlike before and after; others leave 0 or 1. */
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_top, pad_left, pad_bottom, pad_right;
    int32_t groups;             /* CONV */
    int32_t multiplier;         /* DEPTHWISE: output channels an input channel */
    enum activation activation; /* fused: CONV, DEPTHWISE, pools, ADD, SUB, MUL */
    bool float_scale_product;   /* input scale times weight scale is rounded to float (facts/numerics) */
    bool legacy_uint8;          /* from a uint8 network: AVERAGE_POOL rounds half up on the unsigned sum */
    /* weights: CONV [out_c][kernel_h][kernel_w][in_c / groups], DEPTHWISE [kernel_h][kernel_w][out_c] */
    const int8_t *weights;
    int64_t weight_bytes;
    int32_t weight_zero_point; /* 0, or of a legacy uint8 network (already less 128): |w - zp| <= 255 */
    const float *weight_scales;
    int32_t n_weight_scales;                /* 1, or out_c */
    const int32_t *bias;                    /* out_c values, or NULL for none */
    int32_t axis;                           /* CONCAT */
    uint32_t reduce;                        /* MEAN: bit 0 h, bit 1 w, bit 2 c */
    int32_t perm[3];                        /* TRANSPOSE */
    int32_t pad_c0, pad_c1;                 /* PAD */
    int32_t fill;                           /* PAD: quantised value */
    float beta;                             /* SOFTMAX */
    bool align_corners, half_pixel_centers; /* RESIZE_NEAREST */
};

struct graph {
    struct arena *arena; /* owner of everything below */
    const char *name;
    struct tensor *tensors;
    int32_t n_tensors;
    struct op *ops; /* topological order */
    int32_t n_ops;
    int32_t inputs[GRAPH_ENDS_MAX], outputs[GRAPH_ENDS_MAX];
    int32_t n_inputs, n_outputs;
};

size_t dtype_bytes(enum dtype dtype);
const char *
dtype_name(enum dtype dtype); /* "INT8", "UINT8", "INT32", "FP32": the words of the inference protocol */

/* An empty graph over an arena of `limit_bytes`; NULL without memory. graph_free also frees the arena. */
struct graph *graph_new(size_t limit_bytes);
void graph_free(struct graph *graph); /* NULL is allowed */

/* Where planning looks for a tensor of these dims (see above). 0, or STATUS_MODEL_LIMIT and
 * STATUS_MODEL_UNSUPPORTED for a rank over GRAPH_RANK_MAX, a dimension outside 1..GRAPH_DIM_MAX, a batch
 * other than 1, too many elements. */
int graph_shape(const int32_t *dims, int32_t rank, struct shape *shape, struct error *error);

/* Checks and completes a graph whose tensors, ops, inputs and outputs are set in any order: drops the
 * operators whose results nobody needs (their tensors stay, unread, without producer or data), sorts the
 * others topologically (as stable as can be), sets producers, places, and a shape that was left all zero, and
 * checks every index, shape (by the operator table's shape rule), type, quantisation, parameter range and
 * name. Refuses cycles, tensors written twice, inputs nobody produces, outputs nobody produces, with the
 * layer's name. After it:
 *  - an operator in place HEAD reads graph inputs or HEAD's tensors only, one in TAIL is read by TAIL only,
 * and both are of a kind whose table row says `ends`; every tensor that a BODY operator reads or writes is
 * int8;
 *  - every graph output is written by a BODY or TAIL operator, every graph input is read;
 *  - constants are read only as the second input of ADD, SUB, MUL (row: constant_input);
 *  - no int32 sum can overflow, and every real multiplier is below 2^30.
 * Scales of tensors lie in [2^-60, 2^60]. Returns 0 or a negative status: STATUS_MODEL_MALFORMED,
 * _UNSUPPORTED or _LIMIT; STATUS_NO_MEMORY. */
int graph_finish(struct graph *graph, struct error *error);

/* Bytes of all graph inputs (outputs), one after another. */
size_t graph_input_bytes(const struct graph *graph);
size_t graph_output_bytes(const struct graph *graph);
size_t tensor_bytes(const struct tensor *tensor);

/* The operators that read tensor `t`, in order, at most `max` into `out` (may be NULL); returns how many
 * there are. */
int32_t graph_readers(const struct graph *graph, int32_t t, int32_t *out, int32_t max);

/* Byte form, used between importer child and server and in the database: little-endian, versioned, verified
 * on reading as if it came from a stranger (graph_read calls graph_finish). graph_write allocates *bytes with
 * malloc. */
int graph_write(const struct graph *graph, unsigned char **bytes, size_t *size, struct error *error);
struct graph *graph_read(const unsigned char *bytes, size_t size, struct error *error);

#endif
