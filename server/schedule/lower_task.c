/*
 * One operator over ranges of its output, as instructions: one, or one a group (grouped convolution), one an
 * input (concatenation), a look-up before (another scale), or ZERO, SUM, FINISH (global pool). What decides
 * is the kernel that the operator's row names.
 */
#include "server/schedule/lower_internal.h"

/* Sets h, w, c. */
static void set_box(struct lower_code *code, int32_t h, int32_t w, int32_t c)
{
    code->h = h;
    code->w = w;
    code->c = c;
}

void lower_zero(struct lower *l, int32_t op, int32_t sums, int32_t h, int32_t w, int32_t c)
{
    struct lower_code *code = lower_code(l, FRAGMENT_ZERO, op);
    code->out = sums;
    set_box(code, h, w, c);
}

void lower_finish(struct lower *l, int32_t op, int32_t sums, int32_t out, int32_t h, int32_t w, int32_t c)
{
    struct lower_code *code = lower_code(l, FRAGMENT_FINISH, op);
    code->in[0] = sums;
    code->out = out;
    code->whole_scales =
        op_row(l->graph->ops[op].kind)->kernel == OP_KERNEL_CONV && l->graph->ops[op].groups > 1;
    set_box(code, h, w, c);
}

/* The view of what the operator's kernel wants beside; -1: nothing. */
static int32_t kernel_scratch(struct lower *l, const struct lower_task *task)
{
    struct shape part = {task->cap_h, l->graph->tensors[l->graph->ops[task->op].output].shape.w, task->cap_c};
    int32_t bytes = l->kernels ? l->kernels->scratch(l->kernels->context, task->op, l->tall, part) : 0;
    int32_t number = l->graph->n_tensors + task->op;
    if (bytes <= 0)
        return LOWER_NONE;
    int32_t buffer = lower_buffer(l, number, bytes, true, true);
    if (!l->failed)
        l->out->buffers[buffer].align = 8;
    return lower_view(l, buffer, number, (struct shape){1, 1, bytes}, 1,
                      (struct lower_box){1, 1, bytes, LOWER_NONE, LOWER_NONE, LOWER_NONE});
}

static void conv(struct lower *l, const struct lower_task *task)
{
    const struct op *op = &l->graph->ops[task->op];
    int32_t n = l->graph->tensors[op->output].shape.c / op->groups,
            k = l->graph->tensors[op->inputs[0]].shape.c / op->groups;
    int32_t in = lower_view_of(l, op->inputs[0]), scratch = kernel_scratch(l, task);
    for (int32_t g = 0; g < op->groups; g++) {
        int32_t c = op->groups == 1 ? task->c : lower_narrow(l, task->c, 0, g * n, (g + 1) * n);
        int32_t channels = task->k < 0 ? lower_const(l, g * k, (g + 1) * k)
                                       : lower_narrow(l, task->k, 0, g * k, (g + 1) * k);
        struct lower_code *code = lower_code(l, FRAGMENT_CONV, task->op);
        code->form = task->k < 0 ? 0 : FRAGMENT_FORM_ACC;
        code->in[0] = in;
        code->out = task->k < 0 ? task->out : task->sums;
        code->scratch = scratch;
        set_box(code, task->h, task->w, c);
        code->k = channels;
    }
}

/* Sums for the box of a task, of this iteration alone. */
static int32_t own_sums(struct lower *l, const struct lower_task *task)
{
    int32_t number = l->graph->n_tensors + task->op;
    struct lower_box box = {task->cap_h, task->cap_w, task->cap_c, task->h, task->w, task->c};
    int64_t bytes = (int64_t)box.cap_h * box.cap_w * box.cap_c * 4;
    return lower_view(l, lower_buffer(l, number, bytes, true, true), number,
                      l->graph->tensors[l->graph->ops[task->op].output].shape, 4, box);
}

static void sum(struct lower *l, const struct lower_task *task)
{
    const struct op *op = &l->graph->ops[task->op];
    int32_t sums = task->sums >= 0 ? task->sums : own_sums(l, task), in = lower_view_of(l, op->inputs[0]);
    int32_t rows =
        op->reduce & OP_AXIS_H ? lower_const(l, 0, l->graph->tensors[op->inputs[0]].shape.h) : task->h;
    lower_zero(l, task->op, sums, task->h, task->w, task->c);
    struct lower_code *code = lower_code(l, FRAGMENT_SUM, task->op);
    code->in[0] = in;
    code->out = sums;
    set_box(code, task->h, task->w, task->c);
    code->k = rows;
    lower_finish(l, task->op, sums, task->out, task->h, task->w, task->c);
}

/* ---- copies ---- */

static bool another_scale(const struct graph *graph, const struct op *op, int32_t input)
{
    struct quant in = graph->tensors[op->inputs[input]].quant, out = graph->tensors[op->output].quant;
    return in.scale != out.scale || in.zero_point != out.zero_point;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Input `i` of a concatenation, rescaled, for the part [before, before + its size) of the ranges. */
static int32_t rescaled(struct lower *l, const struct lower_task *task, int32_t i, int32_t axis,
                        int32_t before)
{
    const struct op *op = &l->graph->ops[task->op];
    struct shape in = l->graph->tensors[op->inputs[i]].shape;
    int32_t number = l->graph->n_tensors + task->op, from = lower_view_of(l, op->inputs[i]);
    struct lower_box box = {
        least(task->cap_h, in.h),
        least(task->cap_w, in.w),
        least(task->cap_c, in.c),
        lower_narrow(l, task->h, axis == 0 ? -before : 0, 0, in.h),
        lower_narrow(l, task->w, axis == 1 ? -before : 0, 0, in.w),
        lower_narrow(l, task->c, axis == 2 ? -before : 0, 0, in.c),
    };
    int64_t bytes = (int64_t)box.cap_h * box.cap_w * box.cap_c;
    int32_t view = lower_view(l, lower_buffer(l, number, bytes, true, true), number, in, 1, box);
    struct lower_code *code = lower_code(l, FRAGMENT_LUT, task->op);
    code->input = i;
    code->in[0] = from;
    code->out = view;
    set_box(code, box.h0, box.w0, box.c0);
    return view;
}

static void copy_one(struct lower *l, const struct lower_task *task, int32_t i, int32_t from, int32_t h,
                     int32_t w, int32_t c)
{
    struct lower_code *code = lower_code(l, FRAGMENT_COPY, task->op);
    code->input = i;
    code->in[0] = from;
    code->out = task->out;
    set_box(code, h, w, c);
}

static void copy(struct lower *l, const struct lower_task *task)
{
    const struct op *op = &l->graph->ops[task->op];
    int32_t before = 0;
    if (op_row(op->kind)->max_inputs == 1) {
        copy_one(l, task, 0, lower_view_of(l, op->inputs[0]), task->h, task->w, task->c);
        return;
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        struct shape in = l->graph->tensors[op->inputs[i]].shape;
        int32_t size = op->axis == 0 ? in.h : op->axis == 1 ? in.w : in.c, end = before + size;
        int32_t from = another_scale(l->graph, op, i) ? rescaled(l, task, i, op->axis, before)
                                                      : lower_view_of(l, op->inputs[i]);
        copy_one(l, task, i, from, op->axis == 0 ? lower_narrow(l, task->h, 0, before, end) : task->h,
                 op->axis == 1 ? lower_narrow(l, task->w, 0, before, end) : task->w,
                 op->axis == 2 ? lower_narrow(l, task->c, 0, before, end) : task->c);
        before = end;
    }
}

static void plain(struct lower *l, const struct lower_task *task, enum fragment_op kind)
{
    const struct op *op = &l->graph->ops[task->op];
    int32_t in = lower_view_of(l, op->inputs[0]), second = LOWER_NONE;
    int32_t scratch = kind == FRAGMENT_DW ? kernel_scratch(l, task) : LOWER_NONE;
    uint8_t form = 0;
    if (op_row(op->kind)->max_inputs == 2) {
        struct shape b = l->graph->tensors[op->inputs[1]].shape;
        second = lower_view_of(l, op->inputs[1]);
        if (!shape_equal(b, l->graph->tensors[op->output].shape))
            form = shape_elements(b) == 1 ? FRAGMENT_FORM_BCAST_SCALAR : FRAGMENT_FORM_BCAST_PIXEL;
    }
    struct lower_code *code = lower_code(l, kind, task->op);
    code->form = form;
    code->in[0] = in;
    code->in[1] = second;
    code->out = task->out;
    code->scratch = scratch;
    set_box(code, task->h, task->w, task->c);
}

void lower_task(struct lower *l, const struct lower_task *task)
{
    static const uint8_t kinds[] = {
        [OP_KERNEL_DW] = FRAGMENT_DW,          [OP_KERNEL_POOL] = FRAGMENT_POOL,
        [OP_KERNEL_ADD] = FRAGMENT_ADD,        [OP_KERNEL_MUL] = FRAGMENT_MUL,
        [OP_KERNEL_LUT] = FRAGMENT_LUT,        [OP_KERNEL_RESIZE] = FRAGMENT_RESIZE,
        [OP_KERNEL_SOFTMAX] = FRAGMENT_SOFTMAX};
    enum op_kernel kernel = op_row(l->graph->ops[task->op].kind)->kernel;
    if (kernel == OP_KERNEL_CONV)
        conv(l, task);
    else if (kernel == OP_KERNEL_SUM)
        sum(l, task);
    else if (kernel == OP_KERNEL_COPY)
        copy(l, task);
    else
        plain(l, task, (enum fragment_op)kinds[kernel]);
}
