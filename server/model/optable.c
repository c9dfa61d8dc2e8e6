/*
 * The operator table: one row per operator, in the order of enum op_kind. What a row says holds for every
 * graph that graph_finish has accepted. To add an operator: one row here, its functions in one of the group
 * files.
 */
#include "server/model/optable_rows.h"

static uint32_t axes_all(const struct graph *graph, const struct op *op)
{
    (void)graph, (void)op;
    return OP_AXES_ALL;
}

static int64_t macs_none(const struct graph *graph, const struct op *op, struct box out)
{
    (void)graph, (void)op, (void)out;
    return 0;
}

static enum op_cost cost_depthwise(const struct graph *graph, const struct op *op)
{
    (void)graph, (void)op;
    return OP_COST_DEPTHWISE;
}

static enum op_cost cost_element(const struct graph *graph, const struct op *op)
{
    (void)graph, (void)op;
    return OP_COST_ELEMENT;
}

static enum op_cost cost_free(const struct graph *graph, const struct op *op)
{
    (void)graph, (void)op;
    return OP_COST_FREE;
}

#define INPUTS(least, most) .min_inputs = (least), .max_inputs = (most)
#define ELEMENT .macs = macs_none, .cost = cost_element
#define FREE .macs = macs_none, .cost = cost_free

static const struct op_row rows[OP_KIND_COUNT] = {
    [OP_CONV] = {.window = true,
                 .name = "conv",
                 .class = OP_CLASS_AGGREGATING,
                 .kernel = OP_KERNEL_CONV,
                 INPUTS(1, 1),
                 .needs_weights = true,
                 .shape = optable_shape_conv,
                 .need = optable_need_conv,
                 .axes = axes_all,
                 .macs = optable_macs_conv,
                 .cost = optable_cost_conv},
    [OP_DEPTHWISE] = {.window = true,
                      .name = "depthwise",
                      .class = OP_CLASS_CHANNELWISE,
                      .kernel = OP_KERNEL_DW,
                      INPUTS(1, 1),
                      .needs_weights = true,
                      .shape = optable_shape_depthwise,
                      .need = optable_need_depthwise,
                      .axes = axes_all,
                      .macs = optable_macs_depthwise,
                      .cost = cost_depthwise},
    [OP_AVERAGE_POOL] = {.window = true,
                         .name = "average_pool",
                         .class = OP_CLASS_CHANNELWISE,
                         .kernel = OP_KERNEL_POOL,
                         INPUTS(1, 1),
                         .shape = optable_shape_pool,
                         .need = optable_need_pool,
                         .axes = axes_all,
                         ELEMENT},
    [OP_MAX_POOL] = {.window = true,
                     .name = "max_pool",
                     .class = OP_CLASS_CHANNELWISE,
                     .kernel = OP_KERNEL_POOL,
                     INPUTS(1, 1),
                     .shape = optable_shape_pool,
                     .need = optable_need_pool,
                     .axes = axes_all,
                     ELEMENT},
    [OP_MEAN] = {.name = "mean",
                 .class = OP_CLASS_CHANNELWISE,
                 .kernel = OP_KERNEL_SUM,
                 INPUTS(1, 1),
                 .shape = optable_shape_mean,
                 .need = optable_need_mean,
                 .axes = optable_axes_mean,
                 ELEMENT},
    [OP_ADD] = {.name = "add",
                .class = OP_CLASS_CHANNELWISE,
                .kernel = OP_KERNEL_ADD,
                INPUTS(2, 2),
                .inplace = true,
                .constant_input = true,
                .shape = optable_shape_sum,
                .need = optable_need_same,
                .axes = axes_all,
                ELEMENT},
    [OP_SUB] = {.name = "sub",
                .class = OP_CLASS_CHANNELWISE,
                .kernel = OP_KERNEL_ADD,
                INPUTS(2, 2),
                .inplace = true,
                .constant_input = true,
                .shape = optable_shape_sum,
                .need = optable_need_same,
                .axes = axes_all,
                ELEMENT},
    [OP_MUL] = {.name = "mul",
                .class = OP_CLASS_CHANNELWISE,
                .kernel = OP_KERNEL_MUL,
                INPUTS(2, 2),
                .inplace = true,
                .constant_input = true,
                .shape = optable_shape_mul,
                .need = optable_need_same,
                .axes = axes_all,
                ELEMENT},
    [OP_PAD] = {.name = "pad",
                .class = OP_CLASS_NEITHER,
                .kernel = OP_KERNEL_COPY,
                INPUTS(1, 1),
                .shape = optable_shape_pad,
                .need = optable_need_pad,
                .axes = axes_all,
                ELEMENT},
    [OP_RESHAPE] = {.name = "reshape",
                    .class = OP_CLASS_NEITHER,
                    .kernel = OP_KERNEL_FREE,
                    INPUTS(1, 1),
                    .ends = true,
                    .shape = optable_shape_reshape,
                    .need = optable_need_reshape,
                    .axes = optable_axes_reshape,
                    FREE},
    [OP_SOFTMAX] = {.name = "softmax",
                    .class = OP_CLASS_NEITHER,
                    .kernel = OP_KERNEL_SOFTMAX,
                    INPUTS(1, 1),
                    .inplace = true,
                    .shape = optable_shape_softmax,
                    .need = optable_need_softmax,
                    .axes = optable_axes_softmax,
                    ELEMENT},
    [OP_LOGISTIC] = {.name = "logistic",
                     .class = OP_CLASS_CHANNELWISE,
                     .kernel = OP_KERNEL_LUT,
                     INPUTS(1, 1),
                     .inplace = true,
                     .shape = optable_shape_logistic,
                     .need = optable_need_same,
                     .axes = axes_all,
                     ELEMENT},
    [OP_RELU] = {.name = "relu",
                 .class = OP_CLASS_CHANNELWISE,
                 .kernel = OP_KERNEL_LUT,
                 INPUTS(1, 1),
                 .inplace = true,
                 .shape = optable_shape_scale,
                 .need = optable_need_same,
                 .axes = axes_all,
                 ELEMENT},
    [OP_RELU6] = {.name = "relu6",
                  .class = OP_CLASS_CHANNELWISE,
                  .kernel = OP_KERNEL_LUT,
                  INPUTS(1, 1),
                  .inplace = true,
                  .shape = optable_shape_scale,
                  .need = optable_need_same,
                  .axes = axes_all,
                  ELEMENT},
    [OP_CONCAT] = {.name = "concat",
                   .class = OP_CLASS_NEITHER,
                   .kernel = OP_KERNEL_COPY,
                   INPUTS(1, GRAPH_OP_INPUTS_MAX),
                   .shape = optable_shape_concat,
                   .need = optable_need_concat,
                   .axes = axes_all,
                   ELEMENT},
    [OP_RESIZE_NEAREST] = {.name = "resize_nearest",
                           .class = OP_CLASS_CHANNELWISE,
                           .kernel = OP_KERNEL_RESIZE,
                           INPUTS(1, 1),
                           .shape = optable_shape_resize,
                           .need = optable_need_resize,
                           .axes = optable_axes_resize,
                           ELEMENT},
    [OP_TRANSPOSE] = {.name = "transpose",
                      .class = OP_CLASS_NEITHER,
                      .kernel = OP_KERNEL_COPY,
                      INPUTS(1, 1),
                      .ends = true,
                      .shape = optable_shape_transpose,
                      .need = optable_need_transpose,
                      .axes = axes_all,
                      ELEMENT},
    [OP_REQUANTIZE] = {.name = "requantize",
                       .class = OP_CLASS_CHANNELWISE,
                       .kernel = OP_KERNEL_LUT,
                       INPUTS(1, 1),
                       .inplace = true,
                       .shape = optable_shape_scale,
                       .need = optable_need_same,
                       .axes = axes_all,
                       ELEMENT},
    [OP_QUANTIZE] = {.name = "quantize",
                     .class = OP_CLASS_CHANNELWISE,
                     .kernel = OP_KERNEL_COORDINATOR,
                     INPUTS(1, 1),
                     .ends = true,
                     .shape = optable_shape_quantize,
                     .need = optable_need_same,
                     .axes = axes_all,
                     ELEMENT},
    [OP_DEQUANTIZE] = {.name = "dequantize",
                       .class = OP_CLASS_CHANNELWISE,
                       .kernel = OP_KERNEL_COORDINATOR,
                       INPUTS(1, 1),
                       .ends = true,
                       .shape = optable_shape_dequantize,
                       .need = optable_need_same,
                       .axes = axes_all,
                       ELEMENT},
};

const struct op_row *op_row(enum op_kind kind)
{
    return (unsigned)kind < OP_KIND_COUNT ? &rows[kind] : NULL;
}
