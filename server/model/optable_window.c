/*
 * Operator table rows with windows: CONV (fully connected layers too), DEPTHWISE and the pools. Shape rules
 * also prove that no int32 sum can overflow, from the actual weights, so that no executor has to think of it.
 * Padding counts as zero rows and columns around the input; a window may lie wholly in it.
 */
#include "server/model/optable_rows.h"

#include <math.h>
#include <stdlib.h>

enum { STRIDE_MAX = 255, PAD_MAX = 255 };

static int refuse(struct error *error, const char *what, int64_t limit, int64_t actual)
{
    error_set(error, STATUS_MODEL_LIMIT, "%s is %lld, the limit is %lld", what, (long long)actual,
              (long long)limit);
    error_limit(error, limit, actual);
    return STATUS_MODEL_LIMIT;
}

static bool in_range(int64_t x, int64_t lo, int64_t hi)
{
    return x >= lo && x <= hi;
}

/* Rows of the output of a window along one axis. */
static int window_axis(int32_t in, int32_t kernel, int32_t stride, int32_t dilation, int32_t before,
                       int32_t after, int32_t *out, struct error *error)
{
    if (kernel < 1 || stride < 1 || dilation < 1 || before < 0 || after < 0)
        return error_set(error, STATUS_MODEL_MALFORMED,
                         "kernel %d, stride %d, dilation %d, padding %d and %d: not a window", kernel, stride,
                         dilation, before, after);
    if (stride > STRIDE_MAX)
        return refuse(error, "the stride", STRIDE_MAX, stride);
    if (before > PAD_MAX || after > PAD_MAX)
        return refuse(error, "the padding", PAD_MAX, before > after ? before : after);
    int64_t span = (int64_t)(kernel - 1) * dilation + 1;
    if (span > GRAPH_DIM_MAX)
        return refuse(error, "the window's span", GRAPH_DIM_MAX, span);
    int64_t room = (int64_t)in + before + after - span;
    if (room < 0)
        return error_set(error, STATUS_MODEL_MALFORMED, "a window of %lld does not fit into %d with padding",
                         (long long)span, in);
    *out = (int32_t)(room / stride + 1);
    return STATUS_OK;
}

static int window_shape(const struct graph *graph, const struct op *op, struct shape *out,
                        struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    int status = window_axis(in.h, op->kernel_h, op->stride_h, op->dilation_h, op->pad_top, op->pad_bottom,
                             &out->h, error);
    if (status == STATUS_OK)
        status = window_axis(in.w, op->kernel_w, op->stride_w, op->dilation_w, op->pad_left, op->pad_right,
                             &out->w, error);
    if (status != STATUS_OK)
        return status;
    int64_t span = (int64_t)(op->kernel_h - 1) * op->dilation_h + 1;
    if (span > GRAPH_WINDOW_MAX)
        return refuse(error, "the window's span in rows", GRAPH_WINDOW_MAX, span);
    return STATUS_OK;
}

/* Before anything of `out_c` values (bias, scales) is read, the output tensor must agree that there are so
 * many. */
static int check_out_channels(const struct graph *graph, const struct op *op, int32_t out_c,
                              struct error *error)
{
    int32_t said = optable_out(graph, op).c;
    if (said == out_c)
        return STATUS_OK;
    return error_set(error, STATUS_MODEL_MALFORMED, "the weights make %d channels, the output tensor has %d",
                     out_c, said);
}

static int check_weight_scales(const struct graph *graph, const struct op *op, int32_t out_c,
                               struct error *error)
{
    if (!op->weight_scales || (op->n_weight_scales != 1 && op->n_weight_scales != out_c))
        return error_set(error, STATUS_MODEL_MALFORMED, "%d weight scales for %d output channels",
                         op->n_weight_scales, out_c);
    if (!in_range(op->weight_zero_point, -128, 127))
        return error_set(error, STATUS_MODEL_MALFORMED, "weight zero point %d is outside the type",
                         op->weight_zero_point);
    double in_scale = (double)graph->tensors[op->inputs[0]].quant.scale;
    double out_scale = (double)graph->tensors[op->output].quant.scale;
    for (int32_t i = 0; i < op->n_weight_scales; i++) {
        float scale = op->weight_scales[i];
        if (!(scale > 0) || scale > 0x1p60f)
            return error_set(error, STATUS_MODEL_MALFORMED,
                             "weight scale %g of channel %d is not positive and finite", (double)scale, i);
        int status = optable_require_multiplier(in_scale * (double)scale / out_scale, error);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* Adds |w - zero point| of `n` weights, `step` apart. */
static int64_t weight_mass(const int8_t *weights, int64_t n, int64_t step, int32_t zero_point)
{
    int64_t mass = 0;
    for (int64_t i = 0; i < n; i++)
        mass += abs(weights[i * step] - zero_point);
    return mass;
}

/* The sum of one output channel is at most 255 times its weights' mass, plus its bias. */
static int check_channel_sum(const struct op *op, int32_t c, int64_t mass, struct error *error)
{
    int64_t bias = op->bias ? op->bias[c] : 0;
    int64_t most = 255 * mass + (bias < 0 ? -bias : bias);
    if (most <= INT32_MAX)
        return STATUS_OK;
    error_set(error, STATUS_MODEL_LIMIT, "the sum of output channel %d can reach %lld and overflow 32 bits",
              c, (long long)most);
    error_limit(error, INT32_MAX, most);
    return STATUS_MODEL_LIMIT;
}

int optable_shape_conv(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    if (status == STATUS_OK)
        status = window_shape(graph, op, out, error);
    if (status != STATUS_OK)
        return status;
    if (op->groups < 1 || in.c % op->groups)
        return error_set(error, STATUS_MODEL_MALFORMED, "%d groups do not divide %d input channels",
                         op->groups, in.c);
    int64_t window = (int64_t)op->kernel_h * op->kernel_w * (in.c / op->groups);
    if (!op->weights || op->weight_bytes < window || op->weight_bytes % window)
        return error_set(error, STATUS_MODEL_MALFORMED, "%lld weights for windows of %lld",
                         (long long)op->weight_bytes, (long long)window);
    if (op->weight_bytes / window > GRAPH_DIM_MAX)
        return refuse(error, "the number of output channels", GRAPH_DIM_MAX, op->weight_bytes / window);
    out->c = (int32_t)(op->weight_bytes / window);
    if (out->c % op->groups)
        return error_set(error, STATUS_MODEL_MALFORMED, "%d groups do not divide %d output channels",
                         op->groups, out->c);
    status = check_out_channels(graph, op, out->c, error);
    if (status == STATUS_OK)
        status = check_weight_scales(graph, op, out->c, error);
    for (int32_t c = 0; c < out->c && status == STATUS_OK; c++)
        status = check_channel_sum(
            op, c, weight_mass(op->weights + c * window, window, 1, op->weight_zero_point), error);
    return status;
}

int optable_shape_depthwise(const struct graph *graph, const struct op *op, struct shape *out,
                            struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    if (status == STATUS_OK)
        status = window_shape(graph, op, out, error);
    if (status != STATUS_OK)
        return status;
    if (op->multiplier < 1 || (int64_t)in.c * op->multiplier > GRAPH_DIM_MAX)
        return error_set(error, STATUS_MODEL_MALFORMED, "depthwise multiplier %d with %d channels",
                         op->multiplier, in.c);
    out->c = in.c * op->multiplier;
    int64_t taps = (int64_t)op->kernel_h * op->kernel_w;
    if (!op->weights || op->weight_bytes != taps * out->c)
        return error_set(error, STATUS_MODEL_MALFORMED, "%lld weights for %lld taps of %d channels",
                         (long long)op->weight_bytes, (long long)taps, out->c);
    status = check_out_channels(graph, op, out->c, error);
    if (status == STATUS_OK)
        status = check_weight_scales(graph, op, out->c, error);
    for (int32_t c = 0; c < out->c && status == STATUS_OK; c++)
        status = check_channel_sum(op, c, weight_mass(op->weights + c, taps, out->c, op->weight_zero_point),
                                   error);
    return status;
}

/* Whether some window along an axis holds no element of the input at all. */
static bool window_misses(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t before)
{
    return before >= kernel || (int64_t)(out - 1) * stride - before >= in;
}

int optable_shape_pool(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    int status = optable_require_int8(graph, op, error);
    if (status != STATUS_OK)
        return status;
    if (op->dilation_h != 1 || op->dilation_w != 1)
        return error_set(error, STATUS_MODEL_UNSUPPORTED, "a dilated pool is not supported");
    status = window_shape(graph, op, out, error);
    if (status != STATUS_OK)
        return status;
    out->c = in.c;
    if (window_misses(in.h, out->h, op->kernel_h, op->stride_h, op->pad_top) ||
        window_misses(in.w, out->w, op->kernel_w, op->stride_w, op->pad_left))
        return error_set(error, STATUS_MODEL_MALFORMED, "a window of the pool lies wholly in the padding");
    struct quant a = graph->tensors[op->inputs[0]].quant, b = graph->tensors[op->output].quant;
    if (a.zero_point != b.zero_point || fabs((double)a.scale - (double)b.scale) > 1e-6)
        return error_set(error, STATUS_MODEL_UNSUPPORTED,
                         "a pool whose output is quantised unlike its input is not supported");
    return STATUS_OK;
}

/* Input rows [*h0, *h1) that output rows [h0, h1) read, clamped. */
static void window_need(int32_t out0, int32_t out1, int32_t kernel, int32_t stride, int32_t dilation,
                        int32_t before, int32_t in, int32_t *in0, int32_t *in1)
{
    int64_t first = (int64_t)out0 * stride - before;
    int64_t end = (int64_t)(out1 - 1) * stride - before + (int64_t)(kernel - 1) * dilation + 1;
    *in0 = (int32_t)(first < 0 ? 0 : first);
    *in1 = (int32_t)(end > in ? in : end);
}

static struct box window_box(const struct graph *graph, const struct op *op, struct box out, int32_t c0,
                             int32_t c1)
{
    struct shape in = optable_in(graph, op, 0);
    struct box need = {.c0 = c0, .c1 = c1};
    window_need(out.h0, out.h1, op->kernel_h, op->stride_h, op->dilation_h, op->pad_top, in.h, &need.h0,
                &need.h1);
    window_need(out.w0, out.w1, op->kernel_w, op->stride_w, op->dilation_w, op->pad_left, in.w, &need.w0,
                &need.w1);
    return box_empty(need) ? (struct box){0} : need;
}

struct box optable_need_conv(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    (void)i;
    if (box_empty(out))
        return (struct box){0};
    int32_t in_group = optable_in(graph, op, 0).c / op->groups;
    int32_t out_group = optable_out(graph, op).c / op->groups;
    return window_box(graph, op, out, out.c0 / out_group * in_group,
                      ((out.c1 - 1) / out_group + 1) * in_group);
}

struct box optable_need_depthwise(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    (void)i;
    if (box_empty(out))
        return (struct box){0};
    return window_box(graph, op, out, out.c0 / op->multiplier, (out.c1 - 1) / op->multiplier + 1);
}

struct box optable_need_pool(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    (void)i;
    return box_empty(out) ? (struct box){0} : window_box(graph, op, out, out.c0, out.c1);
}

int64_t optable_macs_conv(const struct graph *graph, const struct op *op, struct box out)
{
    return box_elements(out) * op->kernel_h * op->kernel_w * (optable_in(graph, op, 0).c / op->groups);
}

int64_t optable_macs_depthwise(const struct graph *graph, const struct op *op, struct box out)
{
    (void)graph;
    return box_elements(out) * op->kernel_h * op->kernel_w;
}

enum op_cost optable_cost_conv(const struct graph *graph, const struct op *op)
{
    struct shape in = optable_in(graph, op, 0), out = optable_out(graph, op);
    if (out.h == 1 && out.w == 1 && in.h == op->kernel_h && in.w == op->kernel_w && op->groups == 1)
        return OP_COST_FULLY_CONNECTED;
    return op->kernel_h == 1 && op->kernel_w == 1 && op->groups == 1 ? OP_COST_CONV1X1 : OP_COST_CONV;
}
