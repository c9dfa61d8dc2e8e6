/*
 * The operator table: one row per operator. Importers, scheduler, planner, emitter and reference executor
 * read this row and nothing else about an operator; no pass tests for an operator's name.
 */
#ifndef SHOAL_SERVER_MODEL_OPTABLE_H
#define SHOAL_SERVER_MODEL_OPTABLE_H

#include "server/model/graph.h"

/* AGGREGATING: every output channel reads all input channels. CHANNELWISE: output channel c reads input
 * channel c (or c / multiplier) wherever axes() has OP_AXIS_C. NEITHER: anything else; runs whole unless an
 * axis bit says otherwise. */
enum op_class { OP_CLASS_AGGREGATING, OP_CLASS_CHANNELWISE, OP_CLASS_NEITHER };

/* Axes over which the output may be cut, each part made on its own. */
enum { OP_AXIS_H = 1, OP_AXIS_W = 2, OP_AXIS_C = 4, OP_AXES_ALL = 7 };

/* The cost model's kinds (facts/cost-model). */
enum op_cost {
    OP_COST_CONV1X1,
    OP_COST_DEPTHWISE,
    OP_COST_CONV,
    OP_COST_FULLY_CONNECTED,
    OP_COST_ELEMENT,
    OP_COST_FREE
};

/* The kernel that a board runs for it; shared/fragment names them. FREE: a view, no instruction. */
enum op_kernel {
    OP_KERNEL_CONV,
    OP_KERNEL_DW,
    OP_KERNEL_POOL,
    OP_KERNEL_SUM,
    OP_KERNEL_ADD,
    OP_KERNEL_MUL,
    OP_KERNEL_LUT,
    OP_KERNEL_COPY,
    OP_KERNEL_RESIZE,
    OP_KERNEL_SOFTMAX,
    OP_KERNEL_FREE,
    OP_KERNEL_COORDINATOR
};

struct op_row {
    const char *name; /* "conv", lower case, for the API */
    enum op_class class;
    enum op_kernel kernel;
    int32_t min_inputs, max_inputs;
    bool window; /* kernel, stride and dilation mean something; elsewhere each is 0 or 1 */
    bool needs_weights;
    bool inplace;        /* may overwrite an input of the output's shape at its last use */
    bool constant_input; /* its second input may be a constant tensor; no other input may */
    bool ends;           /* the coordinator runs it where it stands at an end of the graph */
    /* Output shape from the inputs and parameters; checks the parameters too. */
    int (*shape)(const struct graph *graph, const struct op *op, struct shape *out, struct error *error);
    /* The smallest box of input `i` that output box `out` needs, clamped to the input; empty (all zeros) if
     * it needs none of it: padding only, or another input of a CONCAT. `out` lies in the output. */
    struct box (*need)(const struct graph *graph, const struct op *op, int32_t i, struct box out);
    /* Axes that this operator with these parameters may be cut over. */
    uint32_t (*axes)(const struct graph *graph, const struct op *op);
    /* Multiply-accumulates for an output box: convolutions and fully connected layers only; 0 otherwise.
     * Counts taps outside the image too, as published figures do. */
    int64_t (*macs)(const struct graph *graph, const struct op *op, struct box out);
    enum op_cost (*cost)(const struct graph *graph, const struct op *op);
};

/* NULL for a number that is no kind. */
const struct op_row *op_row(enum op_kind kind);

/* RESIZE_NEAREST: the input row (or column) that output row `o` of `out` reads, as TensorFlow Lite computes
 * it in float; never falls as `o` rises. */
int32_t optable_resize_source(int32_t o, int32_t in, int32_t out, bool align_corners,
                              bool half_pixel_centers);

#endif
