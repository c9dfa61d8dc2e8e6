/*
 * The generator walks a spine: each block reads the spine's last tensor, and what it makes becomes the last
 * one. Now and then a block reads an older tensor instead; its result waits in the pool for a residual or
 * concat with the spine, or becomes another graph output. Every graph input is on the spine, so none is left
 * unread.
 */
#include "tests/support/random_graph.h"

#include "tests/support/build_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_MAX = 64 };

struct maker {
    struct builder b;
    struct random_graph_options options;
    bool legacy_weights;    /* weights with zero points, as legacy uint8 networks have */
    int32_t pool[POOL_MAX]; /* every tensor made so far */
    int32_t n_pool;
};

static int32_t pick(struct maker *m, int32_t lo, int32_t hi)
{
    return prng_range(&m->b.prng, lo, hi);
}

static bool chance(struct maker *m, int32_t n)
{
    return prng_one_in(&m->b.prng, n);
}

static bool allowed(const struct maker *m, enum op_kind kind)
{
    return !(m->options.without >> kind & 1);
}

static struct shape shape_of(const struct maker *m, int32_t t)
{
    return m->b.graph->tensors[t].shape;
}

static struct quant quant_of(const struct maker *m, int32_t t)
{
    return m->b.graph->tensors[t].quant;
}

/* The operator keeps to one row. */
static bool flat(struct maker *m)
{
    return m->options.one_row && !chance(m, 12);
}

/* A factor around 1, never the same twice. */
static float jitter(struct maker *m)
{
    return (float)(0.6 + 0.9 * prng_unit(&m->b.prng));
}

static struct quant random_quant(struct maker *m, float scale)
{
    scale = fminf(fmaxf(scale, 1e-4f), 10.0f); /* chains of products must not run away */
    return (struct quant){scale, chance(m, 8) ? pick(m, -128, 127) : pick(m, -30, 30)};
}

static int32_t keep(struct maker *m, int32_t t)
{
    if (m->n_pool < POOL_MAX)
        m->pool[m->n_pool++] = t;
    return t;
}

static enum activation random_activation(struct maker *m)
{
    return chance(m, 2) ? ACTIVATION_NONE
                        : (enum activation)pick(m, ACTIVATION_RELU, ACTIVATION_RELU_N1_TO_1);
}

/* Random weights for windows of `window` taps; sets the output's scale so that sums spread over the type. */
static struct quant random_weights(struct maker *m, struct op *op, int64_t n, int64_t window, int32_t out_c,
                                   float in_scale)
{
    int8_t *weights = malloc((size_t)n);
    float *scales = malloc((size_t)out_c * sizeof *scales);
    int32_t *bias = malloc((size_t)out_c * sizeof *bias), n_scales = chance(m, 3) ? 1 : out_c;
    float spread = 75.0f * sqrtf((float)window);
    float out_scale = (float)(0.005 + 0.05 * prng_unit(&m->b.prng)), base = out_scale / (in_scale * spread);
    if (!weights || !scales || !bias)
        abort();
    for (int64_t i = 0; i < n; i++)
        weights[i] = (int8_t)pick(m, -127, 127);
    for (int32_t c = 0; c < out_c; c++) {
        scales[c] = base * jitter(m);
        bias[c] = pick(m, -(int32_t)(spread * 40), (int32_t)(spread * 40));
    }
    op->float_scale_product = n_scales == 1 && chance(m, 2);
    build_weights(&m->b, op, weights, n, scales, n_scales, chance(m, 4) ? NULL : bias, out_c);
    if (m->legacy_weights && chance(m, 2))
        op->weight_zero_point = pick(m, -12, 12);
    free(weights);
    free(scales);
    free(bias);
    op->activation = random_activation(m);
    struct quant quant = random_quant(m, out_scale * jitter(m));
    if (op->activation == ACTIVATION_RELU6 || op->activation == ACTIVATION_RELU_N1_TO_1)
        quant.scale = (op->activation == ACTIVATION_RELU6 ? 6.0f : 2.0f) / 200 * jitter(m);
    return quant;
}

static void random_padding(struct maker *m, struct op *op)
{
    if (chance(m, 3))
        return; /* VALID */
    int32_t span_h = (op->kernel_h - 1) * op->dilation_h, span_w = (op->kernel_w - 1) * op->dilation_w;
    op->pad_top = chance(m, 4) ? pick(m, 0, span_h) : span_h / 2;
    op->pad_bottom = chance(m, 4) ? pick(m, 0, span_h) : span_h - span_h / 2;
    op->pad_left = chance(m, 4) ? pick(m, 0, span_w) : span_w / 2;
    op->pad_right = chance(m, 4) ? pick(m, 0, span_w) : span_w - span_w / 2;
}

static void random_window(struct maker *m, struct op *op, struct shape in, int32_t most)
{
    op->kernel_h = pick(m, 1, most);
    op->kernel_w = chance(m, 3) ? pick(m, 1, most) : op->kernel_h;
    op->stride_h = in.h > 3 && chance(m, 3) ? 2 : 1;
    op->stride_w = in.w > 3 && chance(m, 3) ? 2 : 1;
    if (chance(m, 16))
        op->stride_w = 3;
    if (flat(m))
        op->kernel_h = 1;
}

/* The shape after the window; shrinks kernel and dilation to 1x1 when it would not fit. */
static struct shape window_out(struct op *op, struct shape in, int32_t c)
{
    struct shape out = {
        build_window(in.h, op->kernel_h, op->stride_h, op->dilation_h, op->pad_top, op->pad_bottom),
        build_window(in.w, op->kernel_w, op->stride_w, op->dilation_w, op->pad_left, op->pad_right), c};
    if (out.h >= 1 && out.w >= 1)
        return out;
    op->kernel_h = op->kernel_w = op->stride_h = op->stride_w = op->dilation_h = op->dilation_w = 1;
    op->pad_top = op->pad_bottom = op->pad_left = op->pad_right = 0;
    return (struct shape){in.h, in.w, c};
}

static int32_t make_conv_to(struct maker *m, int32_t in, int32_t kernel, int32_t out_c)
{
    struct shape from = shape_of(m, in);
    struct op op = build_plain(OP_CONV, in, -1);
    if (kernel > 1) {
        random_window(m, &op, from, kernel);
        if (chance(m, 5))
            op.dilation_h = op.dilation_w = 2;
        random_padding(m, &op);
    }
    if (chance(m, 6) && from.c % 2 == 0 && out_c % 2 == 0)
        op.groups = 2;
    struct shape out = window_out(&op, from, out_c);
    int64_t window = (int64_t)op.kernel_h * op.kernel_w * (from.c / op.groups);
    struct quant quant = random_weights(m, &op, window * out_c, window, out_c, quant_of(m, in).scale);
    return build_op(&m->b, op, out, quant);
}

static int32_t make_conv(struct maker *m, int32_t in)
{
    return make_conv_to(m, in, chance(m, 2) ? 1 : 3 + (chance(m, 6) ? 2 : 0),
                        pick(m, 1, m->options.max_channels));
}

static int32_t make_depthwise(struct maker *m, int32_t in)
{
    struct shape from = shape_of(m, in);
    struct op op = build_plain(OP_DEPTHWISE, in, -1);
    random_window(m, &op, from, chance(m, 5) ? 5 : 3);
    if (chance(m, 8))
        op.dilation_h = op.dilation_w = 2;
    random_padding(m, &op);
    if (chance(m, 3) && from.c * 2 <= m->options.max_channels)
        op.multiplier = pick(m, 1, m->options.max_channels / from.c);
    struct shape out = window_out(&op, from, from.c * op.multiplier);
    int64_t taps = (int64_t)op.kernel_h * op.kernel_w;
    struct quant quant = random_weights(m, &op, taps * out.c, taps, out.c, quant_of(m, in).scale);
    return build_op(&m->b, op, out, quant);
}

static int32_t make_pool(struct maker *m, int32_t in)
{
    struct shape from = shape_of(m, in);
    struct op op = build_plain(chance(m, 2) ? OP_AVERAGE_POOL : OP_MAX_POOL, in, -1);
    random_window(m, &op, from, 3);
    if (chance(m, 2)) { /* SAME: windows never lie wholly in the padding */
        op.pad_top = (op.kernel_h - 1) / 2, op.pad_bottom = op.kernel_h - 1 - op.pad_top;
        op.pad_left = (op.kernel_w - 1) / 2, op.pad_right = op.kernel_w - 1 - op.pad_left;
    }
    op.activation = chance(m, 4) ? random_activation(m) : ACTIVATION_NONE;
    op.legacy_uint8 = op.kind == OP_AVERAGE_POOL && chance(m, 4);
    struct shape out = window_out(&op, from, from.c);
    return build_op(&m->b, op, out, quant_of(m, in));
}

/* A partner for an operator of two inputs: an older tensor of the same shape, a constant, a pixel, a scalar.
 */
static int32_t partner(struct maker *m, int32_t in)
{
    struct shape shape = shape_of(m, in);
    for (int32_t i = 0; i < 6; i++) {
        int32_t t = m->pool[pick(m, 0, m->n_pool - 1)];
        struct shape other = shape_of(m, t);
        if (t == in)
            continue;
        if (shape_equal(other, shape) ||
            (other.h == 1 && other.w == 1 && (other.c == 1 || other.c == shape.c)))
            return t;
    }
    if (chance(m, 12))
        return in;
    if (!chance(m, 3))
        shape.h = shape.w = 1;
    if (chance(m, 4))
        shape = (struct shape){1, 1, 1};
    int8_t *values = malloc((size_t)shape_elements(shape));
    if (!values)
        abort();
    prng_fill(&m->b.prng, values, (size_t)shape_elements(shape));
    int32_t t = build_constant(&m->b, shape, random_quant(m, 0.02f * jitter(m)), values);
    free(values);
    return t;
}

static int32_t make_pair(struct maker *m, int32_t in)
{
    static const enum op_kind kinds[] = {OP_ADD, OP_ADD, OP_SUB, OP_MUL};
    enum op_kind kind = kinds[pick(m, 0, 3)];
    struct op op = build_plain(kind, in, partner(m, in));
    float a = quant_of(m, in).scale, b = quant_of(m, op.inputs[1]).scale;
    op.activation = random_activation(m);
    float scale = kind == OP_MUL ? a * b * 40 : 1.3f * fmaxf(a, b);
    return build_op(&m->b, op, shape_of(m, in), random_quant(m, scale * jitter(m)));
}

static int32_t make_look_up(struct maker *m, int32_t in)
{
    static const enum op_kind kinds[] = {OP_RELU, OP_RELU6, OP_REQUANTIZE, OP_LOGISTIC};
    enum op_kind kind = kinds[pick(m, 0, 3)];
    struct quant quant = random_quant(m, quant_of(m, in).scale * (chance(m, 3) ? 1 : jitter(m)));
    if (kind == OP_LOGISTIC)
        quant = (struct quant){1.0f / 256, -128};
    return build_op(&m->b, build_plain(kind, in, -1), shape_of(m, in), quant);
}

static int32_t make_pad(struct maker *m, int32_t in)
{
    struct shape s = shape_of(m, in);
    struct op op = build_plain(OP_PAD, in, -1);
    op.pad_top = pick(m, 0, 2), op.pad_bottom = pick(m, 0, 2);
    op.pad_left = pick(m, 0, 2), op.pad_right = pick(m, 0, 2);
    if (flat(m))
        op.pad_top = op.pad_bottom = 0;
    if (chance(m, 4))
        op.pad_c0 = pick(m, 0, 2), op.pad_c1 = pick(m, 0, 2);
    op.fill = chance(m, 4) ? pick(m, -128, 127) : quant_of(m, in).zero_point;
    struct shape out = {s.h + op.pad_top + op.pad_bottom, s.w + op.pad_left + op.pad_right,
                        s.c + op.pad_c0 + op.pad_c1};
    return build_op(&m->b, op, out, quant_of(m, in));
}

static int32_t *axis_of(struct shape *shape, int32_t axis)
{
    return axis == 0 ? &shape->h : axis == 1 ? &shape->w : &shape->c;
}

/* With tensors of the pool that fit along a random axis; up to four inputs. */
static int32_t make_concat(struct maker *m, int32_t in)
{
    struct op op = build_plain(OP_CONCAT, in, -1);
    struct shape out = shape_of(m, in);
    op.axis = chance(m, 2) ? 2 : pick(m, 0, 1);
    for (int32_t i = 0; i < 8 && op.n_inputs < 4; i++) {
        int32_t t = m->pool[pick(m, 0, m->n_pool - 1)];
        struct shape other = shape_of(m, t), rest = other;
        *axis_of(&rest, op.axis) = *axis_of(&out, op.axis);
        if (!shape_equal(rest, out) || *axis_of(&out, op.axis) + *axis_of(&other, op.axis) > 40)
            continue;
        *axis_of(&out, op.axis) += *axis_of(&other, op.axis);
        op.inputs[op.n_inputs++] = t;
    }
    struct quant quant = quant_of(m, in);
    if (chance(m, 2))
        quant = random_quant(m, quant.scale * jitter(m));
    return build_op(&m->b, op, out, quant);
}

/* One operator that keeps rows and columns, of a given scale. */
static int32_t branch_end(struct maker *m, int32_t in, int32_t out_c, struct quant quant)
{
    struct shape out = shape_of(m, in);
    int32_t kind = pick(m, 0, 2);
    if (kind == 0 && out.c == out_c)
        return build_op(&m->b, build_plain(OP_REQUANTIZE, in, -1), out, quant);
    struct op op = build_plain(kind == 1 && out.c == out_c ? OP_DEPTHWISE : OP_CONV, in, -1);
    op.kernel_h = op.kernel_w = chance(m, 2) ? 3 : 1;
    if (flat(m))
        op.kernel_h = 1;
    op.pad_top = op.pad_bottom = op.kernel_h / 2;
    op.pad_left = op.pad_right = op.kernel_w / 2;
    int64_t taps = (int64_t)op.kernel_h * op.kernel_w, window = op.kind == OP_CONV ? taps * out.c : taps;
    (void)random_weights(m, &op, window * out_c, window, out_c, quant_of(m, in).scale);
    out.c = out_c;
    return build_op(&m->b, op, out, quant);
}

/* Branches of one scale, whose ends are read by others too now and then. */
static int32_t make_branches(struct maker *m, int32_t in)
{
    struct op op = build_plain(OP_CONCAT, -1, -1);
    struct quant quant = random_quant(m, 0.03f * jitter(m));
    int32_t n = pick(m, 2, 3), c = pick(m, 1, 8);
    struct shape out = shape_of(m, in);
    op.axis = chance(m, 4) ? flat(m) ? 1 : 0 : 2;
    out.c = c;
    op.n_inputs = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t own = op.axis == 2 ? pick(m, 1, 8) : c, t = make_conv_to(m, in, 1, chance(m, 2) ? own : 8);
        if (chance(m, 2))
            t = make_look_up(m, t);
        op.inputs[op.n_inputs++] =
            chance(m, 3) ? keep(m, branch_end(m, t, own, quant)) : branch_end(m, t, own, quant);
    }
    *axis_of(&out, op.axis) = 0;
    for (int32_t i = 0; i < n; i++) {
        struct shape part = shape_of(m, op.inputs[i]);
        *axis_of(&out, op.axis) += *axis_of(&part, op.axis);
    }
    return build_op(&m->b, op, out, quant);
}

static int32_t make_resize(struct maker *m, int32_t in)
{
    struct shape s = shape_of(m, in);
    struct op op = build_plain(OP_RESIZE_NEAREST, in, -1);
    struct shape out = {s.h * 2, s.w * 2, s.c};
    if (chance(m, 3))
        out = (struct shape){pick(m, 1, 2 * s.h), pick(m, 1, 2 * s.w), s.c};
    if (flat(m))
        out.h = s.h;
    op.align_corners = chance(m, 4);
    op.half_pixel_centers = !op.align_corners && chance(m, 2);
    return build_op(&m->b, op, out, quant_of(m, in));
}

static int32_t make_transpose(struct maker *m, int32_t in)
{
    struct shape s = shape_of(m, in), out;
    struct op op = build_plain(OP_TRANSPOSE, in, -1);
    for (int32_t i = 2; i > 0; i--) {
        int32_t j = pick(m, 0, i), swap = op.perm[i];
        op.perm[i] = op.perm[j];
        op.perm[j] = swap;
    }
    for (int32_t i = 0; i < 3; i++)
        *axis_of(&out, i) = *axis_of(&s, op.perm[i]);
    return build_op(&m->b, op, out, quant_of(m, in));
}

static int32_t make_reshape_to(struct maker *m, int32_t in, struct shape out)
{
    return build_op(&m->b, build_plain(OP_RESHAPE, in, -1), out, quant_of(m, in));
}

static int32_t make_reshape(struct maker *m, int32_t in)
{
    struct shape s = shape_of(m, in);
    if (chance(m, 2))
        return make_reshape_to(m, in, (struct shape){1, s.h * s.w, s.c});
    if (s.c % 2 == 0 && chance(m, 2))
        return make_reshape_to(m, in, (struct shape){s.h, s.w * 2, s.c / 2});
    return make_reshape_to(m, in, (struct shape){s.w, s.h, s.c});
}

static int32_t make_mean_over(struct maker *m, int32_t in, uint32_t reduce)
{
    struct shape s = shape_of(m, in);
    struct op op = build_plain(OP_MEAN, in, -1);
    op.reduce = reduce;
    struct shape out = {reduce & 1 ? 1 : s.h, reduce & 2 ? 1 : s.w, reduce & 4 ? 1 : s.c};
    float shrink = sqrtf((float)(shape_elements(s) / shape_elements(out)));
    return build_op(&m->b, op, out, random_quant(m, quant_of(m, in).scale / shrink * 2 * jitter(m)));
}

static int32_t make_mean(struct maker *m, int32_t in)
{
    return make_mean_over(m, in, chance(m, 2) ? 3 : (uint32_t)pick(m, 1, 7));
}

/* Squeeze and excite: the map times a gate made of its own mean. */
static int32_t make_gate(struct maker *m, int32_t in)
{
    int32_t squeezed = make_conv_to(m, make_mean_over(m, in, 3), 1, pick(m, 1, 6));
    int32_t excited = make_conv_to(m, squeezed, 1, shape_of(m, in).c);
    struct shape pixel = {1, 1, shape_of(m, in).c};
    int32_t gate =
        build_op(&m->b, build_plain(OP_LOGISTIC, excited, -1), pixel, (struct quant){1.0f / 256, -128});
    float scale = quant_of(m, in).scale * 0.7f * jitter(m);
    return build_op(&m->b, build_plain(OP_MUL, in, gate), shape_of(m, in), random_quant(m, scale));
}

/* Inverted residual: expand, depthwise, project, add. */
static int32_t make_residual(struct maker *m, int32_t in)
{
    struct shape s = shape_of(m, in);
    int32_t wide = make_conv_to(m, in, 1, pick(m, 1, m->options.max_channels));
    struct op op = build_plain(OP_DEPTHWISE, wide, -1);
    op.kernel_h = flat(m) ? 1 : 3;
    op.kernel_w = 3;
    op.pad_top = op.pad_bottom = op.kernel_h / 2;
    op.pad_left = op.pad_right = 1;
    struct shape map = shape_of(m, wide);
    int32_t taps = op.kernel_h * op.kernel_w;
    struct quant quant = random_weights(m, &op, taps * (int64_t)map.c, taps, map.c, quant_of(m, wide).scale);
    int32_t narrow = make_conv_to(m, build_op(&m->b, op, map, quant), 1, s.c);
    float scale = 1.3f * fmaxf(quant_of(m, in).scale, quant_of(m, narrow).scale) * jitter(m);
    struct op add = build_plain(OP_ADD, in, narrow);
    if (chance(m, 2))
        add = build_plain(OP_ADD, narrow, in);
    return build_op(&m->b, add, s, random_quant(m, scale));
}

static int32_t make_softmax(struct maker *m, int32_t in)
{
    return build_op(&m->b, build_plain(OP_SOFTMAX, in, -1), shape_of(m, in),
                    (struct quant){1.0f / 256, -128});
}

/* A fully connected layer over the whole map or over the flattened map. */
static int32_t make_dense(struct maker *m, int32_t in)
{
    struct shape s = shape_of(m, in);
    if (shape_elements(s) > 4096)
        in = make_mean_over(m, in, 3);
    s = shape_of(m, in);
    if (chance(m, 2))
        in = make_reshape_to(m, in, (struct shape){1, 1, (int32_t)shape_elements(s)});
    s = shape_of(m, in);
    int32_t out_c = pick(m, 2, m->options.max_channels);
    struct op op = build_plain(OP_CONV, in, -1);
    op.kernel_h = s.h;
    op.kernel_w = s.w;
    struct quant quant =
        random_weights(m, &op, shape_elements(s) * out_c, shape_elements(s), out_c, quant_of(m, in).scale);
    return build_op(&m->b, op, (struct shape){1, 1, out_c}, quant);
}

struct block {
    int32_t weight; /* how often */
    uint32_t kinds; /* operators in it */
    int32_t (*make)(struct maker *m, int32_t in);
};

#define KIND(kind) (1u << OP_##kind)

static const struct block blocks[] = {
    {8, KIND(CONV), make_conv},
    {5, KIND(DEPTHWISE), make_depthwise},
    {3, KIND(AVERAGE_POOL) | KIND(MAX_POOL), make_pool},
    {5, KIND(ADD) | KIND(SUB) | KIND(MUL), make_pair},
    {3, KIND(RELU) | KIND(RELU6) | KIND(REQUANTIZE) | KIND(LOGISTIC), make_look_up},
    {2, KIND(PAD), make_pad},
    {3, KIND(CONCAT), make_concat},
    {1, KIND(RESIZE_NEAREST), make_resize},
    {1, KIND(TRANSPOSE), make_transpose},
    {1, KIND(RESHAPE), make_reshape},
    {1, KIND(MEAN), make_mean},
    {1, KIND(MEAN) | KIND(CONV) | KIND(LOGISTIC) | KIND(MUL), make_gate},
    {2, KIND(CONV) | KIND(DEPTHWISE) | KIND(ADD), make_residual},
    {1, KIND(SOFTMAX), make_softmax},
};

static const struct block branches = {0, KIND(CONV) | KIND(DEPTHWISE) | KIND(REQUANTIZE) | KIND(CONCAT),
                                      make_branches};

static const struct block *random_block(struct maker *m)
{
    int32_t total = 0, n = (int32_t)(sizeof blocks / sizeof *blocks);
    for (int32_t i = 0; i < n; i++)
        total += blocks[i].kinds & m->options.without ? 0 : blocks[i].weight;
    if (total == 0)
        return &blocks[0];
    int32_t at = pick(m, 0, total - 1);
    for (int32_t i = 0; i < n; i++) {
        at -= blocks[i].kinds & m->options.without ? 0 : blocks[i].weight;
        if (at < 0)
            return &blocks[i];
    }
    return &blocks[0];
}

/* A graph input, with a QUANTIZE behind it where it is not int8. */
static int32_t make_input(struct maker *m, struct shape shape)
{
    struct quant quant = random_quant(m, (float)(0.01 + 0.03 * prng_unit(&m->b.prng)));
    if (m->options.int8_ends || !allowed(m, OP_QUANTIZE) || chance(m, 2))
        return build_input(&m->b, DTYPE_INT8, shape, quant);
    if (chance(m, 2)) {
        int32_t t = build_input(&m->b, DTYPE_FLOAT32, shape, (struct quant){0});
        return build_op(&m->b, build_plain(OP_QUANTIZE, t, -1), shape, quant);
    }
    int32_t t = build_input(&m->b, DTYPE_UINT8, shape, (struct quant){quant.scale, quant.zero_point + 128});
    if (chance(m, 2))
        quant.scale *= jitter(m);
    return build_op(&m->b, build_plain(OP_QUANTIZE, t, -1), shape, quant);
}

static int32_t make_inputs(struct maker *m)
{
    int32_t n = m->options.inputs ? m->options.inputs : 1 + chance(m, 5);
    struct shape shape = {pick(m, 4, m->options.max_side), pick(m, 4, m->options.max_side), pick(m, 1, 8)};
    if (m->options.one_row)
        shape = (struct shape){1, shape.h * 4, shape.c};
    int32_t spine = keep(m, make_input(m, shape));
    for (int32_t i = 1; i < n; i++) {
        int32_t other = keep(m, make_input(m, shape));
        struct quant quant =
            random_quant(m, 1.3f * fmaxf(quant_of(m, spine).scale, quant_of(m, other).scale));
        spine = keep(m, build_op(&m->b, build_plain(OP_ADD, spine, other), shape, quant));
    }
    return spine;
}

static void make_output(struct maker *m, int32_t t)
{
    struct quant quant = quant_of(m, t);
    if (!m->options.int8_ends && chance(m, 3) && allowed(m, OP_DEQUANTIZE)) {
        t = build_typed_op(&m->b, build_plain(OP_DEQUANTIZE, t, -1), DTYPE_FLOAT32, shape_of(m, t),
                           (struct quant){0});
    } else if (!m->options.int8_ends && chance(m, 3) && allowed(m, OP_QUANTIZE)) {
        quant.zero_point += 128;
        t = build_typed_op(&m->b, build_plain(OP_QUANTIZE, t, -1), DTYPE_UINT8, shape_of(m, t), quant);
    }
    build_output(&m->b, t);
}

static bool is_read(const struct maker *m, int32_t t)
{
    return graph_readers(m->b.graph, t, NULL, 0) > 0;
}

/* Only what a board computes may be a graph output: not a tensor with nothing but layout changes before it.
 */
static bool is_computed(const struct maker *m, int32_t t)
{
    for (int32_t o = 0; o < m->b.graph->n_ops; o++) {
        const struct op *op = &m->b.graph->ops[o];
        if (op->output != t)
            continue;
        bool moves = op->kind == OP_RESHAPE || op->kind == OP_TRANSPOSE || op->kind == OP_QUANTIZE;
        return !moves || is_computed(m, op->inputs[0]);
    }
    return false;
}

static struct random_graph_options defaults(struct maker *m, const struct random_graph_options *options)
{
    struct random_graph_options o = options ? *options : (struct random_graph_options){0};
    o.ops = o.ops ? o.ops : pick(m, 3, 14);
    o.max_side = o.max_side ? o.max_side : 13;
    o.max_channels = o.max_channels ? o.max_channels : 24;
    o.max_outputs = o.max_outputs ? o.max_outputs : 3;
    return o;
}

struct graph *random_graph(uint64_t seed, const struct random_graph_options *options)
{
    struct maker m = {.b = build_new(seed)};
    m.options = defaults(&m, options);
    m.legacy_weights = chance(&m, 8);
    int32_t spine = make_inputs(&m);
    for (int32_t i = 0; i < m.options.ops; i++) {
        const struct block *block = m.options.branches && chance(&m, 2) ? &branches : random_block(&m);
        bool aside = i > 0 && chance(&m, 6);
        int32_t made = keep(&m, block->make(&m, aside ? m.pool[pick(&m, 0, m.n_pool - 1)] : spine));
        bool too_large = shape_elements(shape_of(&m, made)) > 20000 || shape_of(&m, made).c > 80;
        spine = aside || too_large ? spine : made;
    }
    if (!m.options.no_classifier && chance(&m, 2))
        spine = make_dense(&m, spine);
    if (!is_computed(&m, spine))
        spine = make_conv_to(&m, spine, 1, pick(&m, 2, m.options.max_channels));
    if (!m.options.no_classifier && allowed(&m, OP_SOFTMAX) && chance(&m, 3))
        spine = make_softmax(&m, spine);
    make_output(&m, spine);
    for (int32_t i = 0; i < m.n_pool && m.b.graph->n_outputs < m.options.max_outputs; i++)
        if (m.pool[i] != spine && is_computed(&m, m.pool[i]) && !is_read(&m, m.pool[i]))
            make_output(&m, m.pool[i]);
    return build_finish(&m.b);
}

void *random_input(const struct graph *graph, uint64_t seed, size_t *bytes)
{
    struct prng prng = prng_seed(seed ^ 0x696e707574u);
    *bytes = graph_input_bytes(graph);
    unsigned char *all = malloc(*bytes), *at = all;
    if (!all)
        abort();
    prng_fill(&prng, all, *bytes);
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct tensor *tensor = &graph->tensors[graph->inputs[i]];
        for (size_t j = 0; tensor->dtype == DTYPE_FLOAT32 && j < tensor_bytes(tensor); j += 4) {
            float value = (float)(10 * prng_unit(&prng) - 5);
            memcpy(at + j, &value, 4);
        }
        at += tensor_bytes(tensor);
    }
    return all;
}
