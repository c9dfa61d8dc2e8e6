/*
 * Operator table rows that move elements: PAD, RESHAPE, CONCAT, RESIZE_NEAREST, TRANSPOSE. Each output
 * element is one input element, or PAD's fill, or (CONCAT) that element requantised.
 */
#include "server/model/optable_rows.h"

#include <math.h>

enum { PAD_MAX = 32767 };

static int check_dim(int64_t dim, struct error *error)
{
    if (dim >= 1 && dim <= GRAPH_DIM_MAX)
        return STATUS_OK;
    error_set(error, STATUS_MODEL_LIMIT, "an output dimension of %lld, the limit is %d", (long long)dim,
              GRAPH_DIM_MAX);
    error_limit(error, GRAPH_DIM_MAX, dim);
    return STATUS_MODEL_LIMIT;
}

/* The operators of this file need not be int8 at the graph's ends, but keep the type. */
static int require_same_type(const struct graph *graph, const struct op *op, struct error *error)
{
    enum dtype from = graph->tensors[op->inputs[0]].dtype, to = graph->tensors[op->output].dtype;
    if (from == to)
        return STATUS_OK;
    return error_set(error, STATUS_MODEL_MALFORMED, "the input is %s, the output %s", dtype_name(from),
                     dtype_name(to));
}

int optable_shape_pad(const struct graph *graph, const struct op *op, struct shape *out, struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    const int32_t pads[] = {op->pad_top, op->pad_bottom, op->pad_left, op->pad_right, op->pad_c0, op->pad_c1};
    for (int i = 0; i < 6; i++)
        if (pads[i] < 0 || pads[i] > PAD_MAX)
            return error_set(error, STATUS_MODEL_MALFORMED, "a padding of %d", pads[i]);
    if (op->fill < -128 || op->fill > 127)
        return error_set(error, STATUS_MODEL_MALFORMED, "padding value %d is outside the type", op->fill);
    *out = (struct shape){in.h + pads[0] + pads[1], in.w + pads[2] + pads[3], in.c + pads[4] + pads[5]};
    int status = check_dim(out->h, error);
    if (status == STATUS_OK)
        status = check_dim(out->w, error);
    if (status == STATUS_OK)
        status = check_dim(out->c, error);
    return status == STATUS_OK ? optable_require_int8(graph, op, error) : status;
}

int optable_shape_reshape(const struct graph *graph, const struct op *op, struct shape *out,
                          struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    *out = optable_out(graph, op); /* a reshape is free to have any shape of as many elements */
    if (shape_elements(in) != shape_elements(*out))
        return error_set(error, STATUS_MODEL_MALFORMED, "%lld elements reshaped to %lld",
                         (long long)shape_elements(in), (long long)shape_elements(*out));
    return require_same_type(graph, op, error);
}

static int32_t axis_of(struct shape shape, int32_t axis)
{
    return axis == 0 ? shape.h : axis == 1 ? shape.w : shape.c;
}

static void axis_set(struct shape *shape, int32_t axis, int32_t value)
{
    *(axis == 0 ? &shape->h : axis == 1 ? &shape->w : &shape->c) = value;
}

int optable_shape_concat(const struct graph *graph, const struct op *op, struct shape *out,
                         struct error *error)
{
    int64_t total = 0;
    if (op->axis < 0 || op->axis > 2)
        return error_set(error, STATUS_MODEL_MALFORMED, "concatenation along axis %d", op->axis);
    *out = optable_in(graph, op, 0);
    struct quant to = graph->tensors[op->output].quant;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        struct shape in = optable_in(graph, op, i), rest = in;
        total += axis_of(in, op->axis);
        axis_set(&rest, op->axis, axis_of(*out, op->axis));
        if (!shape_equal(rest, *out))
            return error_set(error, STATUS_MODEL_MALFORMED,
                             "input %d is %dx%dx%d and does not fit the others", i, in.h, in.w, in.c);
        struct quant from = graph->tensors[op->inputs[i]].quant;
        if (op->legacy_uint8 && (from.scale != to.scale || from.zero_point != to.zero_point))
            return error_set(error, STATUS_MODEL_UNSUPPORTED,
                             "a UINT8 concatenation of inputs with other scales is not supported");
        int status = optable_require_multiplier((double)from.scale / (double)to.scale, error);
        if (status != STATUS_OK)
            return status;
    }
    int status = check_dim(total, error);
    if (status != STATUS_OK)
        return status;
    axis_set(out, op->axis, (int32_t)total);
    return optable_require_int8(graph, op, error);
}

int optable_shape_resize(const struct graph *graph, const struct op *op, struct shape *out,
                         struct error *error)
{
    *out = optable_out(graph, op); /* rows and columns are the operator's own choice */
    out->c = optable_in(graph, op, 0).c;
    return optable_require_int8(graph, op, error);
}

int optable_shape_transpose(const struct graph *graph, const struct op *op, struct shape *out,
                            struct error *error)
{
    struct shape in = optable_in(graph, op, 0);
    uint32_t seen = 0;
    for (int32_t i = 0; i < 3; i++) {
        if (op->perm[i] < 0 || op->perm[i] > 2)
            return error_set(error, STATUS_MODEL_MALFORMED, "a permutation of axis %d", op->perm[i]);
        seen |= 1u << op->perm[i];
        axis_set(out, i, axis_of(in, op->perm[i]));
    }
    if (seen != OP_AXES_ALL)
        return error_set(error, STATUS_MODEL_MALFORMED, "the permutation names an axis twice");
    return require_same_type(graph, op, error);
}

static struct box shifted(struct box box, int32_t h, int32_t w, int32_t c)
{
    return (struct box){box.h0 - h, box.h1 - h, box.w0 - w, box.w1 - w, box.c0 - c, box.c1 - c};
}

struct box optable_need_pad(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    return box_intersect(shifted(out, op->pad_top, op->pad_left, op->pad_c0),
                         box_whole(optable_in(graph, op, i)));
}

/* The box around elements [p, q] of a packed tensor. */
static struct box around_run(struct shape shape, int64_t p, int64_t q)
{
    int64_t row = (int64_t)shape.w * shape.c;
    int32_t h0 = (int32_t)(p / row), h1 = (int32_t)(q / row);
    int32_t w0 = (int32_t)(p % row / shape.c), w1 = (int32_t)(q % row / shape.c);
    if (h0 != h1)
        return (struct box){h0, h1 + 1, 0, shape.w, 0, shape.c};
    if (w0 != w1)
        return (struct box){h0, h0 + 1, w0, w1 + 1, 0, shape.c};
    return (struct box){h0, h0 + 1, w0, w0 + 1, (int32_t)(p % shape.c), (int32_t)(q % shape.c) + 1};
}

struct box optable_need_reshape(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    struct shape in = optable_in(graph, op, i), whole = optable_out(graph, op);
    if (box_empty(out) || shape_equal(in, whole))
        return box_empty(out) ? (struct box){0} : out;
    bool pixels = in.c == whole.c; /* then channels stay what they are, and pixels are renumbered */
    int32_t c0 = pixels ? 0 : out.c0, c1 = pixels ? 1 : out.c1, channels = pixels ? 1 : whole.c;
    int64_t first = ((int64_t)out.h0 * whole.w + out.w0) * channels + c0;
    int64_t last = ((int64_t)(out.h1 - 1) * whole.w + out.w1 - 1) * channels + c1 - 1;
    struct box need = around_run((struct shape){in.h, in.w, pixels ? 1 : in.c}, first, last);
    if (pixels)
        need.c0 = out.c0, need.c1 = out.c1;
    return need;
}

struct box optable_need_concat(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    int32_t before = 0;
    for (int32_t j = 0; j < i; j++)
        before += axis_of(optable_in(graph, op, j), op->axis);
    struct box box =
        shifted(out, op->axis == 0 ? before : 0, op->axis == 1 ? before : 0, op->axis == 2 ? before : 0);
    return box_intersect(box, box_whole(optable_in(graph, op, i)));
}

int32_t optable_resize_source(int32_t o, int32_t in, int32_t out, bool align_corners, bool half_pixel_centers)
{
    float scale = align_corners && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
    float at = ((float)o + (half_pixel_centers ? 0.5f : 0.0f)) * scale;
    int32_t source = (int32_t)(align_corners ? roundf(at) : floorf(at));
    return source > in - 1 ? in - 1 : source;
}

static int32_t resize_row(const struct op *op, int32_t o, int32_t in, int32_t out)
{
    return optable_resize_source(o, in, out, op->align_corners, op->half_pixel_centers);
}

struct box optable_need_resize(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    struct shape in = optable_in(graph, op, i), whole = optable_out(graph, op);
    if (box_empty(out))
        return (struct box){0};
    return (struct box){resize_row(op, out.h0, in.h, whole.h),
                        resize_row(op, out.h1 - 1, in.h, whole.h) + 1,
                        resize_row(op, out.w0, in.w, whole.w),
                        resize_row(op, out.w1 - 1, in.w, whole.w) + 1,
                        out.c0,
                        out.c1};
}

struct box optable_need_transpose(const struct graph *graph, const struct op *op, int32_t i, struct box out)
{
    (void)graph, (void)i;
    const int32_t lo[3] = {out.h0, out.w0, out.c0}, hi[3] = {out.h1, out.w1, out.c1};
    int32_t in0[3] = {0}, in1[3] = {0};
    for (int a = 0; a < 3; a++) {
        in0[op->perm[a]] = lo[a];
        in1[op->perm[a]] = hi[a];
    }
    return box_empty(out) ? (struct box){0} : (struct box){in0[0], in1[0], in0[1], in1[1], in0[2], in1[2]};
}

uint32_t optable_axes_reshape(const struct graph *graph, const struct op *op)
{
    struct shape in = optable_in(graph, op, 0), out = optable_out(graph, op);
    if (shape_equal(in, out))
        return OP_AXES_ALL;
    return in.c == out.c ? OP_AXIS_C : 0;
}

/* Integer factors whose source is o / factor may be cut along the axis. */
static bool resize_cuts(const struct op *op, int32_t in, int32_t out)
{
    if (out % in)
        return false;
    for (int32_t o = 0; o < out; o++)
        if (resize_row(op, o, in, out) != o / (out / in))
            return false;
    return true;
}

uint32_t optable_axes_resize(const struct graph *graph, const struct op *op)
{
    struct shape in = optable_in(graph, op, 0), out = optable_out(graph, op);
    uint32_t axes = OP_AXIS_C;
    if (resize_cuts(op, in.h, out.h))
        axes |= OP_AXIS_H;
    if (resize_cuts(op, in.w, out.w))
        axes |= OP_AXIS_W;
    return axes;
}
