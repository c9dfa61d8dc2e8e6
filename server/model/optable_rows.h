/*
 * The functions that the rows of the operator table are made of, shared between the files of one table only:
 * optable.c (the table), optable_window.c, optable_element.c, optable_layout.c. Not for other modules.
 */
#ifndef SHOAL_SERVER_MODEL_OPTABLE_ROWS_H
#define SHOAL_SERVER_MODEL_OPTABLE_ROWS_H

#include "server/model/optable.h"

static inline struct shape optable_in(const struct graph *graph, const struct op *op, int32_t i)
{
    return graph->tensors[op->inputs[i]].shape;
}

static inline struct shape optable_out(const struct graph *graph, const struct op *op)
{
    return graph->tensors[op->output].shape;
}

/* Refuses an operator of which an input or the output is not int8. */
int optable_require_int8(const struct graph *graph, const struct op *op, struct error *error);
/* Refuses a real multiplier that fixed point cannot hold: it must be below 2^30. */
int optable_require_multiplier(double multiplier, struct error *error);
/* Refuses an output whose scale and zero point are not the fixed ones of SOFTMAX and LOGISTIC, 1/256 and
 * -128. */
int optable_require_unit_output(const struct graph *graph, const struct op *op, struct error *error);

/* windows */
int optable_shape_conv(const struct graph *graph, const struct op *op, struct shape *out,
                       struct error *error);
int optable_shape_depthwise(const struct graph *graph, const struct op *op, struct shape *out,
                            struct error *error);
int optable_shape_pool(const struct graph *graph, const struct op *op, struct shape *out,
                       struct error *error);
struct box optable_need_conv(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_depthwise(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_pool(const struct graph *graph, const struct op *op, int32_t i, struct box out);
int64_t optable_macs_conv(const struct graph *graph, const struct op *op, struct box out);
int64_t optable_macs_depthwise(const struct graph *graph, const struct op *op, struct box out);
enum op_cost optable_cost_conv(const struct graph *graph, const struct op *op);

/* element-wise and reductions */
int optable_shape_sum(const struct graph *graph, const struct op *op, struct shape *out, struct error *error);
int optable_shape_mul(const struct graph *graph, const struct op *op, struct shape *out, struct error *error);
int optable_shape_scale(const struct graph *graph, const struct op *op, struct shape *out,
                        struct error *error);
int optable_shape_logistic(const struct graph *graph, const struct op *op, struct shape *out,
                           struct error *error);
int optable_shape_softmax(const struct graph *graph, const struct op *op, struct shape *out,
                          struct error *error);
int optable_shape_mean(const struct graph *graph, const struct op *op, struct shape *out,
                       struct error *error);
int optable_shape_quantize(const struct graph *graph, const struct op *op, struct shape *out,
                           struct error *error);
int optable_shape_dequantize(const struct graph *graph, const struct op *op, struct shape *out,
                             struct error *error);
struct box optable_need_same(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_softmax(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_mean(const struct graph *graph, const struct op *op, int32_t i, struct box out);
uint32_t optable_axes_softmax(const struct graph *graph, const struct op *op);
uint32_t optable_axes_mean(const struct graph *graph, const struct op *op);

/* layout */
int optable_shape_pad(const struct graph *graph, const struct op *op, struct shape *out, struct error *error);
int optable_shape_reshape(const struct graph *graph, const struct op *op, struct shape *out,
                          struct error *error);
int optable_shape_concat(const struct graph *graph, const struct op *op, struct shape *out,
                         struct error *error);
int optable_shape_resize(const struct graph *graph, const struct op *op, struct shape *out,
                         struct error *error);
int optable_shape_transpose(const struct graph *graph, const struct op *op, struct shape *out,
                            struct error *error);
struct box optable_need_pad(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_reshape(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_concat(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_resize(const struct graph *graph, const struct op *op, int32_t i, struct box out);
struct box optable_need_transpose(const struct graph *graph, const struct op *op, int32_t i, struct box out);
uint32_t optable_axes_reshape(const struct graph *graph, const struct op *op);
uint32_t optable_axes_resize(const struct graph *graph, const struct op *op);

#endif
