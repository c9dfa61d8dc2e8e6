/*
 * Which weight layout an operator gets on a board, and the scratch that its kernels then want. Depends on the
 * operator and on what the board's kernels take, never on a party's part of it: so a slice has one layout,
 * whatever tasks use it. The emitter asks here too.
 */
#include "server/plan/internal.h"

enum { SCRATCH_BYTES_MAX = 65528 /* a view's channels */ };

static struct nn_params window_of(const struct graph *graph, const struct op *op)
{
    return (struct nn_params){.kernel_h = (uint16_t)op->kernel_h,
                              .kernel_w = (uint16_t)op->kernel_w,
                              .stride_h = (uint16_t)op->stride_h,
                              .stride_w = (uint16_t)op->stride_w,
                              .dilation_h = (uint16_t)op->dilation_h,
                              .dilation_w = (uint16_t)op->dilation_w,
                              .multiplier = (uint16_t)op->multiplier,
                              .weight_zero_point = (int16_t)op->weight_zero_point,
                              .in_zero_point = {(int16_t)graph->tensors[op->inputs[0]].quant.zero_point, 0}};
}

static struct nn_work work_of(const struct graph *graph, const struct op *op, const struct nn_params *p,
                              struct box box)
{
    bool depthwise = op_row(op->kind)->kernel == OP_KERNEL_DW;
    struct shape out = graph->tensors[op->output].shape;
    int32_t width = box.w1 - box.w0;
    return (struct nn_work){.p = p,
                            .depthwise = depthwise,
                            .depth = depthwise ? 1 : graph->tensors[op->inputs[0]].shape.c / op->groups,
                            .channels = out.c,
                            .width = width,
                            .pixels = width * (box.h1 - box.h0)};
}

enum nn_layout plan_layout(const struct graph *graph, const struct op *op, int64_t layouts)
{
    enum op_kernel kernel = op_row(op->kind)->kernel;
    if (layouts <= NN_LAYOUT_MASK_PLAIN || (kernel != OP_KERNEL_CONV && kernel != OP_KERNEL_DW))
        return NN_LAYOUT_PLAIN;
    struct nn_params p = window_of(graph, op);
    struct nn_work work = work_of(graph, op, &p, box_whole(graph->tensors[op->output].shape));
    uint32_t mask = (uint32_t)(layouts & NN_LAYOUT_MASK_ALL);
    enum nn_layout layout = nn_layout_choose(mask, &work);
    if (layout == NN_LAYOUT_FOURS && !(op->weights && nn_layout_fours_fit(op->weights, op->weight_bytes)))
        layout = nn_layout_choose(mask & ~(1u << NN_LAYOUT_FOURS), &work);
    return layout;
}

int32_t plan_scratch(const struct graph *graph, const struct op *op, enum nn_layout layout, struct box box,
                     int32_t limit)
{
    struct nn_params p = window_of(graph, op);
    struct nn_work work = work_of(graph, op, &p, box);
    uint32_t least = nn_scratch_least(layout, &work), most = nn_scratch_most(layout, &work);
    uint32_t cap = (uint32_t)(limit < SCRATCH_BYTES_MAX ? limit : SCRATCH_BYTES_MAX);
    return (int32_t)(most < cap ? most : least > cap ? least : cap);
}
