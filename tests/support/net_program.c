/*
 * Hand-made schedulers for tests: see the header. Rates, phases, rings and overlap follow ENCODING A ("Rows,
 * without prologue"); boxes come from back-propagating windows.
 */
#include "tests/support/net_program.h"

#include "tests/support/build_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 46656, IN = 0, OUT = 1 };

static int32_t max32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- networks ---- */

static struct quant some_quant(struct builder *b, float scale)
{
    return (struct quant){scale, prng_range(&b->prng, -10, 10)};
}

static int32_t add_window(struct builder *b, int32_t in, enum op_kind kind, int32_t out_c, int32_t k,
                          int32_t s, bool relu)
{
    struct shape from = b->graph->tensors[in].shape;
    struct shape to = {(from.h + s - 1) / s, (from.w + s - 1) / s, out_c};
    struct op op = build_plain(kind, in, -1);
    op.kernel_h = op.kernel_w = k;
    op.stride_h = op.stride_w = s;
    int32_t total_h = max32(0, (to.h - 1) * s + k - from.h), total_w = max32(0, (to.w - 1) * s + k - from.w);
    op.pad_top = total_h / 2;
    op.pad_bottom = total_h - op.pad_top;
    op.pad_left = total_w / 2;
    op.pad_right = total_w - op.pad_left;
    int32_t taps = k * k * (kind == OP_CONV ? from.c : 1), n = taps * out_c;
    int8_t *weights = malloc((size_t)n);
    float *scales = malloc((size_t)out_c * sizeof *scales);
    int32_t *bias = malloc((size_t)out_c * sizeof *bias);
    float out_scale = (float)(0.01 + 0.03 * prng_unit(&b->prng)),
          in_scale = b->graph->tensors[in].quant.scale;
    for (int32_t i = 0; i < n; i++)
        weights[i] = (int8_t)prng_range(&b->prng, -127, 127);
    for (int32_t c = 0; c < out_c; c++) {
        scales[c] = (float)(out_scale / (in_scale * 80 * sqrt(taps)) * (0.7 + prng_unit(&b->prng)));
        bias[c] = prng_range(&b->prng, -3000, 3000);
    }
    build_weights(b, &op, weights, n, scales, out_c, bias, out_c);
    free(weights);
    free(scales);
    free(bias);
    op.activation = relu ? ACTIVATION_RELU : ACTIVATION_NONE;
    struct quant quant = some_quant(b, out_scale);
    if (relu)
        quant.zero_point = -128;
    return build_op(b, op, to, quant);
}

static int32_t add_block(struct builder *b, int32_t x, int32_t widen, int32_t out_c, int32_t s, int32_t k)
{
    int32_t y = x, in_c = b->graph->tensors[x].shape.c;
    if (widen > 1)
        y = add_window(b, y, OP_CONV, in_c * widen, 1, 1, true);
    y = add_window(b, y, OP_DEPTHWISE, in_c * widen, k, s, true);
    y = add_window(b, y, OP_CONV, out_c, 1, 1, false);
    if (s == 1 && in_c == out_c)
        y = build_op(b, build_plain(OP_ADD, x, y), b->graph->tensors[x].shape, some_quant(b, 0.04f));
    return y;
}

static struct net wrap(struct builder *b, int32_t out)
{
    struct net net = {.out = out};
    build_output(b, out);
    net.graph = build_finish(b);
    net.in = net.graph->inputs[0];
    net.n = net.graph->n_ops;
    for (int32_t i = 0; i < net.n; i++) {
        const struct op *op = &net.graph->ops[i];
        enum fragment_op kind = op->kind == OP_CONV        ? FRAGMENT_CONV
                                : op->kind == OP_DEPTHWISE ? FRAGMENT_DW
                                                           : FRAGMENT_ADD;
        net.ops[i] = (struct net_op){kind,
                                     {op->inputs[0], op->n_inputs > 1 ? op->inputs[1] : -1},
                                     op->output,
                                     op->kernel_h,
                                     op->kernel_w,
                                     op->stride_h,
                                     op->pad_top,
                                     op->pad_left,
                                     op};
    }
    return net;
}

struct net net_random(uint64_t seed)
{
    static const int32_t widths[] = {4, 6}, kernels[] = {3, 5};
    struct builder b = build_new(seed);
    struct prng *r = &b.prng;
    struct shape image = {prng_range(r, 9, 20), prng_range(r, 8, 17), 3};
    int32_t y = build_input(&b, DTYPE_INT8, image, some_quant(&b, 0.02f));
    y = add_window(&b, y, OP_CONV, widths[prng_range(r, 0, 1)], 3, prng_range(r, 1, 2), true);
    for (int32_t blocks = prng_range(r, 2, 4); blocks > 0; blocks--)
        y = add_block(&b, y, prng_range(r, 1, 3), widths[prng_range(r, 0, 1)], prng_one_in(r, 3) ? 2 : 1,
                      kernels[prng_range(r, 0, 1)]);
    return wrap(&b, y);
}

struct net net_block(uint64_t seed)
{
    struct builder b = build_new(seed);
    struct prng *r = &b.prng;
    struct shape shape = {prng_range(r, 12, 18), prng_range(r, 6, 12), 2 * prng_range(r, 2, 4)};
    int32_t x = build_input(&b, DTYPE_INT8, shape, some_quant(&b, 0.02f));
    int32_t y = add_block(&b, x, prng_range(r, 2, 4), shape.c, 1, 3);
    return wrap(&b, y);
}

struct net net_front(uint64_t seed)
{
    struct builder b = build_new(seed);
    int32_t y = build_input(&b, DTYPE_INT8, (struct shape){224, 224, 3}, some_quant(&b, 0.02f));
    y = add_window(&b, y, OP_CONV, 32, 3, 2, true);
    y = add_block(&b, y, 1, 16, 1, 3);
    y = add_block(&b, y, 6, 24, 2, 3);
    return wrap(&b, y);
}

void net_free(struct net *net)
{
    graph_free(net->graph);
    net->graph = NULL;
}

struct shape net_shape(const struct net *net, int32_t tensor)
{
    return net->graph->tensors[tensor].shape;
}

/* ---- parameters and weights ---- */

static struct nn_params params_of(const struct net *net, const struct net_op *o)
{
    const struct tensor *t = net->graph->tensors;
    struct quant a = t[o->in[0]].quant, y = t[o->out].quant;
    struct nn_params p = {.kernel_h = (uint16_t)o->kh,
                          .kernel_w = (uint16_t)o->kw,
                          .stride_h = (uint16_t)o->s,
                          .stride_w = (uint16_t)o->s,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .pad_top = (int16_t)o->ph,
                          .pad_left = (int16_t)o->pw,
                          .in_zero_point = {(int16_t)a.zero_point, 0},
                          .out_zero_point = (int16_t)y.zero_point,
                          .act_lo = -128,
                          .act_hi = 127,
                          .multiplier = 1};
    if (o->op->activation == ACTIVATION_RELU)
        p.act_lo = (int16_t)max32(-128, y.zero_point);
    if (o->kind == FRAGMENT_ADD) {
        struct quant b = t[o->in[1]].quant;
        double twice = 2.0 * fmax((double)a.scale, (double)b.scale);
        p.in_zero_point[1] = (int16_t)b.zero_point;
        p.m[0] = quant_multiplier((double)a.scale / twice);
        p.m[1] = quant_multiplier((double)b.scale / twice);
        p.m[2] = quant_multiplier(twice / ((1 << 20) * (double)y.scale));
        p.count = 20;
    }
    return p;
}

/* The slice of an operator: output channels [c0, c1), input channels [k0, k1) in blocks. */
static uint16_t slice_of(struct program *program, const struct net *net, const struct net_op *o, uint8_t kind,
                         int32_t c0, int32_t c1, int32_t k0, int32_t k1, int32_t block)
{
    const struct op *op = o->op;
    const struct tensor *t = net->graph->tensors;
    int32_t taps = o->kh * o->kw, n = c1 - c0, in_c = t[o->in[0]].shape.c, all_c = t[o->out].shape.c, at = 0;
    int8_t *values = malloc((size_t)(taps * n * max32(1, k1 - k0)) + 1);
    int32_t *scales = malloc((size_t)(3 * n) * sizeof *scales);
    if (kind == FRAGMENT_SLICE_CONV)
        for (int32_t kb = k0; kb < k1; kb += block)
            for (int32_t c = c0; c < c1; c++)
                for (int32_t tap = 0; tap < taps; tap++)
                    for (int32_t k = kb; k < min32(kb + block, k1); k++)
                        values[at++] = op->weights[(c * taps + tap) * in_c + k];
    if (kind == FRAGMENT_SLICE_DW)
        for (int32_t tap = 0; tap < taps; tap++)
            for (int32_t c = c0; c < c1; c++)
                values[at++] = op->weights[tap * all_c + c];
    for (int32_t c = c0; c < c1; c++) {
        double real =
            (double)t[o->in[0]].quant.scale * (double)op->weight_scales[c] / (double)t[o->out].quant.scale;
        struct quant_multiplier m = quant_multiplier(real);
        scales[c - c0] = m.mantissa;
        scales[n + c - c0] = m.shift;
        scales[2 * n + c - c0] = op->bias[c];
    }
    struct fragment_slice slice = {.c0 = (uint16_t)c0,
                                   .c1 = (uint16_t)c1,
                                   .k0 = (uint16_t)k0,
                                   .k1 = (uint16_t)k1,
                                   .k_block = (uint16_t)block,
                                   .kind = kind,
                                   .kernel = (uint32_t)taps};
    uint16_t index = program_slice(program, slice, values, (uint32_t)at, scales);
    free(values);
    free(scales);
    return index;
}

static uint16_t whole_slice(struct program *p, const struct net *net, const struct net_op *o)
{
    int32_t c = net_shape(net, o->out).c, k = net_shape(net, o->in[0]).c;
    if (o->kind == FRAGMENT_ADD)
        return FRAGMENT_NONE;
    if (o->kind == FRAGMENT_DW)
        return slice_of(p, net, o, FRAGMENT_SLICE_DW, 0, c, 0, 0, 0);
    return slice_of(p, net, o, FRAGMENT_SLICE_CONV, 0, c, 0, k, k);
}

/* ---- views, instructions, transfers ---- */

struct lay { /* how a tensor lies */
    int32_t rows, w, c;
    uint16_t h0, w0, c0;
};

static struct lay lay_whole(struct shape s)
{
    return (struct lay){s.h, s.w, s.c, FRAGMENT_NONE, FRAGMENT_NONE, FRAGMENT_NONE};
}

static int32_t lay_bytes(struct lay lay, int32_t elem)
{
    return lay.rows * lay.w * lay.c * elem;
}

static uint16_t view_of(struct program *p, const struct net *net, int32_t tensor, uint16_t number,
                        uint8_t elem, int32_t offset, struct lay lay)
{
    struct shape s = net_shape(net, tensor);
    uint32_t pixel = (uint32_t)(lay.c * elem);
    return program_view(p, (struct fragment_view){.tensor = number,
                                                  .region = FRAGMENT_REGION_ARENA,
                                                  .offset = (uint32_t)offset,
                                                  .elem = elem,
                                                  .rows = (uint16_t)lay.rows,
                                                  .row_stride = (uint32_t)lay.w * pixel,
                                                  .pixel_stride = pixel,
                                                  .w_cap = (uint16_t)lay.w,
                                                  .c_cap = (uint16_t)lay.c,
                                                  .h = (uint16_t)s.h,
                                                  .w = (uint16_t)s.w,
                                                  .c = (uint16_t)s.c,
                                                  .h0 = lay.h0,
                                                  .w0 = lay.w0,
                                                  .c0 = lay.c0});
}

static void code_of(struct program *p, const struct net *net, const struct net_op *o, const uint16_t *views,
                    uint16_t h, uint16_t w, uint16_t c, uint16_t slice)
{
    struct fragment_code code = program_op(o->kind);
    code.params = program_params(p, params_of(net, o));
    code.in[0] = views[o->in[0]];
    code.in[1] = o->in[1] < 0 ? (uint16_t)FRAGMENT_NONE : views[o->in[1]];
    code.out = views[o->out];
    code.h = h;
    code.w = w;
    code.c = c;
    code.slice = slice;
    if (o->kind == FRAGMENT_CONV)
        code.k = program_span(p, 0, net_shape(net, o->in[0]).c);
    program_code(p, code);
}

static uint16_t transfer_of(struct program *p, uint16_t from, uint16_t to, uint16_t id, uint32_t rank,
                            uint8_t wire, struct shape s, int32_t h0, int32_t h1)
{
    return program_transfer(p, (struct fragment_transfer){.id = id,
                                                          .exchange = (uint16_t)rank,
                                                          .rank = rank,
                                                          .from = from,
                                                          .to = to,
                                                          .wire = wire,
                                                          .h0 = (uint16_t)h0,
                                                          .h1 = (uint16_t)h1,
                                                          .w1 = (uint16_t)s.w,
                                                          .c1 = (uint16_t)s.c});
}

static void ends_of(struct program *p, const struct net *net)
{
    struct shape a = net_shape(net, net->in), y = net_shape(net, net->out);
    transfer_of(p, 0, p->party, 0, 0, FRAGMENT_WIRE_I8, a, 0, a.h);
    transfer_of(p, p->party, 0, 1, 1, FRAGMENT_WIRE_I8, y, 0, y.h);
}

static void send_out(struct program *p, uint16_t view)
{
    program_move(p, FRAGMENT_SEND, view, OUT, 0);
}

/* ---- whole layers ---- */

void net_full(struct program *p, const struct net *net)
{
    uint16_t views[NET_TENSORS_MAX];
    int32_t at = 0;
    ends_of(p, net);
    for (int32_t t = 0; t < net->graph->n_tensors; t++) {
        struct lay lay = lay_whole(net_shape(net, t));
        views[t] = view_of(p, net, t, (uint16_t)t, 1, at, lay);
        at += lay_bytes(lay, 1);
    }
    p->arena_bytes = (uint32_t)at;
    program_move(p, FRAGMENT_RECV, views[net->in], IN, 0);
    for (int32_t i = 0; i < net->n; i++) {
        const struct net_op *o = &net->ops[i];
        struct shape s = net_shape(net, o->out);
        code_of(p, net, o, views, program_span(p, 0, s.h), program_span(p, 0, s.w), program_span(p, 0, s.c),
                whole_slice(p, net, o));
    }
    send_out(p, views[net->out]);
}

/* ---- rows: ticks a row, phases, rings ---- */

struct ticks {
    int32_t per[NET_TENSORS_MAX], phase[NET_TENSORS_MAX], count;
    int32_t ring[NET_TENSORS_MAX]; /* rows alive at once; of the output: all */
    int32_t freed_at[512];         /* tick after which input row y is not read again */
};

static bool used(const struct net *net, int32_t t)
{
    if (t == net->in)
        return true;
    for (int32_t i = 0; i < net->n; i++)
        if (net->ops[i].out == t)
            return true;
    return false;
}

static void find_rates(const struct net *net, struct ticks *k)
{
    int32_t least = INT32_MAX;
    for (int32_t t = 0; t < NET_TENSORS_MAX; t++)
        k->per[t] = 0;
    k->per[net->out] = RATE;
    for (int32_t i = net->n - 1; i >= 0; i--)
        for (int32_t j = 0; j < 2 && net->ops[i].in[j] >= 0; j++)
            k->per[net->ops[i].in[j]] = k->per[net->ops[i].out] / net->ops[i].s;
    for (int32_t t = 0; t < net->graph->n_tensors; t++)
        least = min32(least, k->per[t] > 0 ? k->per[t] : INT32_MAX);
    for (int32_t t = 0; t < net->graph->n_tensors; t++)
        k->per[t] /= least;
}

/* `drop[t]`: rows by which the raw first row of t lies off stride * that of its consumer's, for rows in
 * patches. */
static void find_phases(const struct net *net, struct ticks *k, const int32_t *raw_first,
                        const int32_t *raw_rows)
{
    bool set[NET_TENSORS_MAX] = {false};
    int32_t least = 0;
    k->phase[net->out] = 0;
    set[net->out] = true;
    for (int32_t i = net->n - 1; i >= 0; i--) {
        const struct net_op *o = &net->ops[i];
        for (int32_t j = 0; j < 2 && o->in[j] >= 0; j++) {
            int32_t t = o->in[j];
            int32_t ahead = o->kh - 1 - o->ph + o->s * raw_first[o->out] - raw_first[t];
            int32_t q = k->phase[o->out] - k->per[t] * ahead;
            k->phase[t] = set[t] ? min32(k->phase[t], q) : q;
            set[t] = true;
            least = min32(least, k->phase[t]);
        }
    }
    k->count = 0;
    for (int32_t t = 0; t < net->graph->n_tensors; t++) {
        if (!used(net, t))
            continue;
        k->phase[t] -= least;
        k->count = max32(k->count, k->phase[t] + k->per[t] * (raw_rows[t] - 1) + 1);
    }
}

static int32_t tick_of(const struct ticks *k, int32_t t, int32_t row)
{
    return k->phase[t] + k->per[t] * row;
}

/* Rows of t alive at once: from the first still needed to the newest. */
static int32_t ring_of(const struct net *net, struct ticks *k, int32_t t)
{
    int32_t last[512], rows = net_shape(net, t).h, need = 1;
    for (int32_t y = 0; y < rows; y++)
        last[y] = tick_of(k, t, y);
    for (int32_t i = 0; i < net->n; i++) {
        const struct net_op *o = &net->ops[i];
        for (int32_t j = 0; j < 2; j++)
            for (int32_t r = 0; o->in[j] == t && r < net_shape(net, o->out).h; r++)
                for (int32_t y = max32(0, r * o->s - o->ph); y < min32(rows, r * o->s - o->ph + o->kh); y++)
                    last[y] = max32(last[y], tick_of(k, o->out, r));
    }
    for (int32_t y = 1; y < rows; y++)
        last[y] = max32(last[y], last[y - 1]);
    for (int32_t y = 0, first = 0; y < rows; y++) {
        while (last[first] < tick_of(k, t, y))
            first++;
        need = max32(need, y - first + 1);
    }
    if (t == net->in)
        memcpy(k->freed_at, last, (size_t)rows * sizeof *last);
    return need;
}

static void plan_rows(const struct net *net, struct ticks *k)
{
    int32_t first[NET_TENSORS_MAX] = {0}, rows[NET_TENSORS_MAX];
    for (int32_t t = 0; t < net->graph->n_tensors; t++)
        rows[t] = net_shape(net, t).h;
    find_rates(net, k);
    find_phases(net, k, first, rows);
    for (int32_t t = 0; t < net->graph->n_tensors; t++)
        if (used(net, t))
            k->ring[t] = t == net->out ? rows[t] : ring_of(net, k, t);
}

/* Bytes by which the input must start above the output, which grows while the input's rows are freed. */
static int32_t overlap_of(const struct net *net, const struct ticks *k)
{
    struct shape a = net_shape(net, net->in), y = net_shape(net, net->out);
    int32_t distance = 0;
    for (int32_t r = 0; r < y.h; r++) {
        int32_t freed = 0;
        while (freed < a.h && k->freed_at[freed] < tick_of(k, net->out, r))
            freed++;
        distance = max32(distance, (r + 1) * y.w * y.c - freed * a.w * a.c);
    }
    return distance;
}

/* One row every per ticks from the phase on, within [lo, hi). */
static uint16_t row_range(struct program *p, const struct ticks *k, int32_t t, uint8_t loop, int32_t lo,
                          int32_t hi, uint16_t parent)
{
    return program_range(p, (struct fragment_range){.loop = loop,
                                                    .a = 1,
                                                    .b0 = k->per[t] - k->phase[t] - 1,
                                                    .b1 = k->per[t] - k->phase[t],
                                                    .div = (uint16_t)k->per[t],
                                                    .lo = (uint16_t)lo,
                                                    .hi = (uint16_t)hi,
                                                    .parent = parent});
}

static void move_row(struct program *p, enum fragment_op op, uint16_t view, uint16_t transfer, uint16_t h)
{
    program_move(p, op, view, transfer, 0);
    p->code[p->n_code - 1].h = h;
}

void net_rows(struct program *p, const struct net *net, struct net_rows options)
{
    struct ticks k = {0};
    uint16_t views[NET_TENSORS_MAX], h[NET_TENSORS_MAX];
    struct shape a = net_shape(net, net->in), y = net_shape(net, net->out);
    plan_rows(net, &k);
    ends_of(p, net);
    struct lay in_lay = lay_whole(a), out_lay = lay_whole(y);
    if (options.stream_in)
        in_lay.rows = max32(1, k.ring[net->in] - options.less_rows);
    int32_t in_at = lay_bytes(out_lay, 1);
    if (options.overlap)
        in_at = max32(0, overlap_of(net, &k) - options.less_overlap);
    int32_t at = max32(in_at + lay_bytes(in_lay, 1), lay_bytes(out_lay, 1));
    views[net->in] = view_of(p, net, net->in, (uint16_t)net->in, 1, in_at, in_lay);
    views[net->out] = view_of(p, net, net->out, (uint16_t)net->out, 1, 0, out_lay);
    for (int32_t t = 0; t < net->graph->n_tensors; t++) {
        if (!used(net, t))
            continue;
        h[t] = row_range(p, &k, t, 0, 0, net_shape(net, t).h, FRAGMENT_NONE);
        if (t == net->in || t == net->out)
            continue;
        struct lay lay = lay_whole(net_shape(net, t));
        lay.rows = max32(1, k.ring[t] - options.less_rows);
        views[t] = view_of(p, net, t, (uint16_t)t, 1, at, lay);
        at += lay_bytes(lay, 1);
    }
    p->arena_bytes = (uint32_t)at;
    if (!options.stream_in)
        program_move(p, FRAGMENT_RECV, views[net->in], IN, 0);
    program_loop(p, 0, (uint32_t)k.count);
    if (options.stream_in)
        move_row(p, FRAGMENT_RECV, views[net->in], IN, h[net->in]);
    for (int32_t i = 0; i < net->n; i++) {
        const struct net_op *o = &net->ops[i];
        struct shape s = net_shape(net, o->out);
        code_of(p, net, o, views, h[o->out], program_span(p, 0, s.w), program_span(p, 0, s.c),
                whole_slice(p, net, o));
    }
    if (options.stream_out)
        move_row(p, FRAGMENT_SEND, views[net->out], OUT, h[net->out]);
    program_end(p);
    if (!options.stream_out)
        send_out(p, views[net->out]);
}

/* ---- patches ---- */

/* Raw box of a tensor for patch n of one axis: [a * n + b0, a * n + b1). */
struct back {
    int32_t a, b0, b1;
    bool set;
};

static void back_propagate(const struct net *net, int32_t size, bool columns, struct back *d)
{
    memset(d, 0, NET_TENSORS_MAX * sizeof *d);
    d[net->out] = (struct back){size, 0, size, true};
    for (int32_t i = net->n - 1; i >= 0; i--) {
        const struct net_op *o = &net->ops[i];
        struct back y = d[o->out];
        int32_t pad = columns ? o->pw : o->ph, kernel = columns ? o->kw : o->kh;
        struct back q = {y.a * o->s, y.b0 * o->s - pad, (y.b1 - 1) * o->s - pad + kernel, true};
        for (int32_t j = 0; j < 2 && o->in[j] >= 0; j++) {
            struct back *x = &d[o->in[j]];
            *x = (struct back){q.a, x->set ? min32(x->b0, q.b0) : q.b0, x->set ? max32(x->b1, q.b1) : q.b1,
                               true};
        }
    }
}

struct patches {
    struct program *p;
    const struct net *net;
    struct net_patches options;
    struct back rows[NET_TENSORS_MAX], columns[NET_TENSORS_MAX];
    uint16_t h[NET_TENSORS_MAX], w[NET_TENSORS_MAX], c[NET_TENSORS_MAX]; /* ranges of a patch */
    uint16_t tick[NET_TENSORS_MAX];                                      /* rows inside patches */
    uint16_t views[NET_TENSORS_MAX];
    int32_t at;
};

static int32_t uses(const struct net *net, int32_t t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < net->n; i++)
        n += (net->ops[i].in[0] == t) + (net->ops[i].in[1] == t);
    return n;
}

static bool is_triple(const struct net *net, int32_t i)
{
    if (i < 0 || i + 2 >= net->n)
        return false;
    const struct net_op *e = &net->ops[i], *d = e + 1, *q = e + 2;
    return e->kind == FRAGMENT_CONV && e->kh == 1 && d->kind == FRAGMENT_DW && q->kind == FRAGMENT_CONV &&
           q->kh == 1 && d->in[0] == e->out && q->in[0] == d->out && uses(net, e->out) == 1 &&
           uses(net, d->out) == 1;
}

int32_t net_triple(const struct net *net, int32_t from)
{
    for (int32_t i = from; i < net->n; i++)
        if (is_triple(net, i))
            return i;
    return -1;
}

static bool inside_triple(const struct net *net, int32_t t)
{
    for (int32_t i = net_triple(net, 0); i >= 0; i = net_triple(net, i + 3))
        if (net->ops[i].out == t || net->ops[i + 1].out == t)
            return true;
    return false;
}

static struct lay patch_lay(const struct patches *x, int32_t t)
{
    struct shape s = net_shape(x->net, t);
    return (struct lay){min32(s.h, x->rows[t].b1 - x->rows[t].b0),
                        min32(s.w, x->columns[t].b1 - x->columns[t].b0),
                        s.c,
                        x->h[t],
                        x->w[t],
                        FRAGMENT_NONE};
}

static void patch_ranges(struct patches *x)
{
    for (int32_t t = 0; t < x->net->graph->n_tensors; t++) {
        struct shape s = net_shape(x->net, t);
        if (!used(x->net, t))
            continue;
        struct back r = x->rows[t], q = x->columns[t];
        struct fragment_range h = {
            .loop = 0, .a = r.a, .b0 = r.b0, .b1 = r.b1, .div = 1, .hi = (uint16_t)s.h};
        struct fragment_range w = {
            .loop = 1, .a = q.a, .b0 = q.b0, .b1 = q.b1, .div = 1, .hi = (uint16_t)s.w};
        h.parent = w.parent = FRAGMENT_NONE;
        x->h[t] = program_range(x->p, h);
        x->w[t] = program_range(x->p, w);
        x->c[t] = program_span(x->p, 0, s.c);
    }
}

/* Ring rows inside a patch: by rates, rows counted from the patch's raw first. */
static int32_t patch_ring(const struct patches *x, const struct ticks *k, int32_t t)
{
    int32_t most = 1;
    for (int32_t i = 0; i < x->net->n; i++) {
        const struct net_op *o = &x->net->ops[i];
        for (int32_t j = 0; j < 2; j++) {
            int32_t rows = x->rows[o->out].b1 - x->rows[o->out].b0;
            for (int32_t r = 0; o->in[j] == t && r < rows; r++) {
                int32_t first = o->s * (r + x->rows[o->out].b0) - o->ph - x->rows[t].b0;
                int32_t newest = min32(x->rows[t].b1 - x->rows[t].b0 - 1,
                                       (tick_of(k, o->out, r) - k->phase[t]) / k->per[t]);
                most = max32(most, newest - first + 1);
            }
        }
    }
    return min32(most, net_shape(x->net, t).h);
}

static int32_t patch_rows(struct patches *x, int32_t *ring)
{
    struct ticks k = {0};
    int32_t first[NET_TENSORS_MAX] = {0}, rows[NET_TENSORS_MAX] = {0};
    for (int32_t t = 0; t < x->net->graph->n_tensors; t++) {
        first[t] = x->rows[t].b0;
        rows[t] = x->rows[t].b1 - x->rows[t].b0;
    }
    find_rates(x->net, &k);
    find_phases(x->net, &k, first, rows);
    for (int32_t t = 0; t < x->net->graph->n_tensors; t++) {
        if (!used(x->net, t))
            continue;
        ring[t] = patch_ring(x, &k, t);
        x->tick[t] = row_range(x->p, &k, t, 2, 0, 65535, x->h[t]);
    }
    return k.count;
}

static void align_at(struct patches *x)
{
    x->at = (x->at + 3) / 4 * 4;
}

/* ZERO, channel loop of expand, depthwise, accumulate, then FINISH, in place where that may be. */
static void patch_triple(struct patches *x, int32_t i)
{
    struct program *p = x->p;
    const struct net *net = x->net;
    const struct net_op *e = &net->ops[i], *d = e + 1, *q = e + 2;
    int32_t wide = net_shape(net, e->out).c, k = min32(x->options.k, wide), out_c = net_shape(net, q->out).c;
    uint16_t c = program_range(
        p, (struct fragment_range){
               .loop = 3, .a = k, .b1 = k, .div = 1, .hi = (uint16_t)wide, .parent = FRAGMENT_NONE});
    struct lay le = patch_lay(x, e->out), ld = patch_lay(x, d->out), lq = patch_lay(x, q->out);
    le.c = ld.c = k;
    le.c0 = ld.c0 = c;
    align_at(x);
    x->views[e->out] = view_of(p, net, e->out, (uint16_t)e->out, 1, x->at, le);
    int32_t at = x->at + lay_bytes(le, 1);
    x->views[d->out] = view_of(p, net, d->out, (uint16_t)d->out, 1, at, ld);
    x->at = at + lay_bytes(ld, 1);
    align_at(x);
    uint16_t sums = view_of(p, net, q->out, (uint16_t)(1000 + q->out), 4, x->at, lq);
    if (q->out != net->out && x->options.elsewhere) {
        int32_t beside = x->at + lay_bytes(lq, 4);
        x->views[q->out] = view_of(p, net, q->out, (uint16_t)q->out, 1, beside, lq);
        x->at += lay_bytes(lq, 1);
    } else if (q->out != net->out)
        x->views[q->out] = view_of(p, net, q->out, (uint16_t)q->out, 1, x->at, lq);
    x->at += lay_bytes(lq, 4);
    struct fragment_code zero = program_op(FRAGMENT_ZERO), acc = program_op(FRAGMENT_CONV),
                         finish = program_op(FRAGMENT_FINISH);
    zero.out = acc.out = finish.in[0] = sums;
    zero.h = acc.h = finish.h = x->h[q->out];
    zero.w = acc.w = finish.w = x->w[q->out];
    zero.c = acc.c = finish.c = x->c[q->out];
    acc.form = FRAGMENT_FORM_ACC;
    acc.in[0] = x->views[d->out];
    acc.k = c;
    acc.params = finish.params = program_params(p, params_of(net, q));
    acc.slice = slice_of(p, net, q, FRAGMENT_SLICE_CONV, 0, out_c, 0, wide, k);
    finish.slice = slice_of(p, net, q, FRAGMENT_SLICE_FINISH, 0, out_c, 0, 0, 0);
    finish.out = x->views[q->out];
    program_code(p, zero);
    program_loop(p, 3, (uint32_t)((wide + k - 1) / k));
    code_of(p, net, e, x->views, x->h[e->out], x->w[e->out], c, whole_slice(p, net, e));
    code_of(p, net, d, x->views, x->h[d->out], x->w[d->out], c, whole_slice(p, net, d));
    program_code(p, acc);
    program_end(p);
    program_code(p, finish);
}

static void patch_views(struct patches *x, const int32_t *ring)
{
    const struct net *net = x->net;
    for (int32_t t = 0; t < net->graph->n_tensors; t++) {
        if (!used(net, t) || t == net->in || t == net->out || (x->options.k > 0 && inside_triple(net, t)))
            continue;
        struct lay lay = patch_lay(x, t);
        if (x->options.rows) {
            lay.rows = ring[t];
            lay.h0 = FRAGMENT_NONE;
        }
        x->views[t] = view_of(x->p, net, t, (uint16_t)t, 1, x->at, lay);
        x->at += lay_bytes(lay, 1);
    }
}

void net_patches(struct program *p, const struct net *net, struct net_patches options)
{
    struct patches *x = calloc(1, sizeof *x);
    int32_t ring[NET_TENSORS_MAX] = {0}, ticks = 0;
    struct shape a = net_shape(net, net->in), y = net_shape(net, net->out);
    *x = (struct patches){.p = p, .net = net, .options = options};
    back_propagate(net, options.h, false, x->rows);
    back_propagate(net, options.w, true, x->columns);
    ends_of(p, net);
    patch_ranges(x);
    if (options.rows)
        ticks = patch_rows(x, ring);
    x->views[net->in] = view_of(p, net, net->in, (uint16_t)net->in, 1, 0, lay_whole(a));
    x->views[net->out] =
        view_of(p, net, net->out, (uint16_t)net->out, 1, lay_bytes(lay_whole(a), 1), lay_whole(y));
    x->at = lay_bytes(lay_whole(a), 1) + lay_bytes(lay_whole(y), 1);
    patch_views(x, ring);
    program_move(p, FRAGMENT_RECV, x->views[net->in], IN, 0);
    program_loop(p, 0, (uint32_t)((y.h + options.h - 1) / options.h));
    program_loop(p, 1, (uint32_t)((y.w + options.w - 1) / options.w));
    if (options.rows)
        program_loop(p, 2, (uint32_t)ticks);
    for (int32_t i = 0; i < net->n; i++) {
        const struct net_op *o = &net->ops[i];
        if (options.k > 0 && is_triple(net, i)) {
            patch_triple(x, i);
            i += 2;
            continue;
        }
        code_of(p, net, o, x->views, options.rows ? x->tick[o->out] : x->h[o->out], x->w[o->out],
                x->c[o->out], whole_slice(p, net, o));
    }
    for (int loops = options.rows ? 3 : 2; loops > 0; loops--)
        program_end(p);
    send_out(p, x->views[net->out]);
    p->arena_bytes = (uint32_t)x->at;
    free(x);
}

/* ---- strips ---- */

void net_strip_rows(const struct net *net, int32_t tensor, int32_t n, int32_t index, int32_t *lo, int32_t *hi)
{
    int32_t rows = net_shape(net, tensor).h;
    *lo = rows * index / n;
    *hi = rows * (index + 1) / n;
}

/* Rows of each tensor that rows [lo, hi) of the output need, clamped. */
static void strip_needs(const struct net *net, int32_t lo, int32_t hi, int32_t *from, int32_t *to)
{
    for (int32_t t = 0; t < NET_TENSORS_MAX; t++) {
        from[t] = INT32_MAX;
        to[t] = 0;
    }
    from[net->out] = lo;
    to[net->out] = hi;
    for (int32_t i = net->n - 1; i >= 0; i--) {
        const struct net_op *o = &net->ops[i];
        for (int32_t j = 0; j < 2 && o->in[j] >= 0; j++) {
            int32_t t = o->in[j];
            from[t] = min32(from[t], max32(0, from[o->out] * o->s - o->ph));
            to[t] = max32(to[t], min32(net_shape(net, t).h, (to[o->out] - 1) * o->s - o->ph + o->kh));
        }
    }
}

static bool strip_needs_of(const struct net *net, int32_t n, int32_t index, int32_t *from, int32_t *to)
{
    int32_t lo, hi;
    net_strip_rows(net, net->out, n, index, &lo, &hi);
    if (lo < hi)
        strip_needs(net, lo, hi, from, to);
    return lo < hi;
}

/* The halo that `to` needs from `from`: rows of the input that `from` owns. */
static bool halo(const struct net *net, int32_t n, int32_t from, int32_t to, int32_t *lo, int32_t *hi)
{
    int32_t first[NET_TENSORS_MAX], last[NET_TENSORS_MAX], mine[NET_TENSORS_MAX], unused[NET_TENSORS_MAX];
    if (!strip_needs_of(net, n, to, first, last) || !strip_needs_of(net, n, from, mine, unused))
        return false;
    net_strip_rows(net, net->in, n, from, lo, hi);
    *lo = max32(*lo, first[net->in]);
    *hi = min32(*hi, last[net->in]);
    return *lo < *hi;
}

bool net_strip(struct program *p, const struct net *net, int32_t n, int32_t index, bool wait)
{
    int32_t from[NET_TENSORS_MAX], to[NET_TENSORS_MAX], lo, hi, at = 0;
    uint16_t views[NET_TENSORS_MAX];
    struct ticks k = {0};
    struct shape a = net_shape(net, net->in), y = net_shape(net, net->out);
    if (!strip_needs_of(net, n, index, from, to))
        return false;
    plan_rows(net, &k);
    net_strip_rows(net, net->in, n, index, &lo, &hi);
    transfer_of(p, 0, p->party, 0, 0, FRAGMENT_WIRE_I8, a, lo, hi);
    from[net->in] = min32(from[net->in], lo);
    to[net->in] = max32(to[net->in], hi);
    for (int32_t t = 0; t < net->graph->n_tensors; t++) {
        if (!used(net, t))
            continue;
        struct lay lay = lay_whole(net_shape(net, t));
        lay.rows = t == net->in || t == net->out ? to[t] - from[t] : min32(k.ring[t], to[t] - from[t]);
        if (t == net->in)
            lay.h0 = program_span(p, from[t], to[t]);
        views[t] = view_of(p, net, t, (uint16_t)t, 1, at, lay);
        at += lay_bytes(lay, 1);
    }
    p->arena_bytes = (uint32_t)at;
    program_move(p, FRAGMENT_RECV, views[net->in], 0, 0);
    bool any = false;
    for (int32_t peer = 0; peer < n; peer++) {
        if (peer == index)
            continue;
        if (halo(net, n, peer, index, &lo, &hi)) {
            uint16_t t = transfer_of(p, (uint16_t)(peer + 1), p->party, 1, 1, FRAGMENT_WIRE_I8, a, lo, hi);
            program_move(p, FRAGMENT_POST, views[net->in], t, 0);
            any = true;
        }
        if (halo(net, n, index, peer, &lo, &hi)) {
            uint16_t t = transfer_of(p, p->party, (uint16_t)(peer + 1), 1, 1, FRAGMENT_WIRE_I8, a, lo, hi);
            program_move(p, FRAGMENT_SEND, views[net->in], t, 0);
            any = true;
        }
    }
    if (wait && any)
        program_wait(p, 1);
    program_loop(p, 0, (uint32_t)k.count);
    for (int32_t i = 0; i < net->n; i++) {
        const struct net_op *o = &net->ops[i];
        struct shape s = net_shape(net, o->out);
        uint16_t h = row_range(p, &k, o->out, 0, from[o->out], to[o->out], FRAGMENT_NONE);
        code_of(p, net, o, views, h, program_span(p, 0, s.w), program_span(p, 0, s.c),
                whole_slice(p, net, o));
    }
    program_end(p);
    uint16_t t = transfer_of(p, p->party, 0, 2, 2, FRAGMENT_WIRE_I8, y, from[net->out], to[net->out]);
    program_move(p, FRAGMENT_SEND, views[net->out], t, 0);
    return true;
}

/* ---- partial sums ---- */

static void triple_ticks(const struct net *net, int32_t at, struct ticks *k)
{
    struct net part = {.graph = net->graph,
                       .ops = {net->ops[at], net->ops[at + 1], net->ops[at + 2]},
                       .n = 3,
                       .in = net->ops[at].in[0],
                       .out = net->ops[at + 2].out};
    plan_rows(&part, k);
}

static void partial_finish(struct program *p, const struct net *net, const struct net_op *q, uint16_t sums,
                           uint16_t out, int32_t n)
{
    struct shape y = net_shape(net, q->out);
    for (int32_t peer = 1; peer < n; peer++) {
        uint16_t t = transfer_of(p, (uint16_t)(peer + 1), 1, 1, 1, FRAGMENT_WIRE_I24, y, 0, y.h);
        program_move(p, FRAGMENT_POST, sums, t, FRAGMENT_FORM_ACC);
    }
    if (n > 1)
        program_wait(p, 1);
    struct fragment_code finish = program_op(FRAGMENT_FINISH);
    finish.in[0] = sums;
    finish.out = out;
    finish.h = program_span(p, 0, y.h);
    finish.w = program_span(p, 0, y.w);
    finish.c = program_span(p, 0, y.c);
    finish.params = program_params(p, params_of(net, q));
    finish.slice = slice_of(p, net, q, FRAGMENT_SLICE_FINISH, 0, y.c, 0, 0, 0);
    program_code(p, finish);
    uint16_t t = transfer_of(p, 1, 0, 2, 2, FRAGMENT_WIRE_I8, y, 0, y.h);
    program_move(p, FRAGMENT_SEND, out, t, 0);
}

void net_partial(struct program *p, const struct net *net, int32_t at, int32_t n, int32_t index, int32_t k)
{
    const struct net_op *e = &net->ops[at], *d = e + 1, *q = e + 2;
    struct shape a = net_shape(net, e->in[0]), y = net_shape(net, q->out), se = net_shape(net, e->out),
                 sd = net_shape(net, d->out);
    int32_t c0 = se.c * index / n, c1 = se.c * (index + 1) / n, offset = 0;
    uint16_t views[NET_TENSORS_MAX];
    struct ticks ticks = {0};
    triple_ticks(net, at, &ticks);
    k = min32(k, max32(1, c1 - c0));
    uint16_t in = transfer_of(p, 0, p->party, 0, 0, FRAGMENT_WIRE_I8, a, 0, a.h);
    uint16_t c = program_range(p, (struct fragment_range){.loop = 0,
                                                          .a = k,
                                                          .b0 = c0,
                                                          .b1 = c0 + k,
                                                          .div = 1,
                                                          .lo = (uint16_t)c0,
                                                          .hi = (uint16_t)c1,
                                                          .parent = FRAGMENT_NONE});
    uint16_t sums = view_of(p, net, q->out, 1000, 4, 0, lay_whole(y));
    uint16_t out = view_of(p, net, q->out, (uint16_t)q->out, 1, 0, lay_whole(y));
    offset = lay_bytes(lay_whole(y), 4);
    views[e->in[0]] = view_of(p, net, e->in[0], (uint16_t)e->in[0], 1, offset, lay_whole(a));
    offset += lay_bytes(lay_whole(a), 1);
    struct lay le = {ticks.ring[e->out], se.w, k, FRAGMENT_NONE, FRAGMENT_NONE, c};
    struct lay ld = {ticks.ring[d->out], sd.w, k, FRAGMENT_NONE, FRAGMENT_NONE, c};
    views[e->out] = view_of(p, net, e->out, (uint16_t)e->out, 1, offset, le);
    offset += lay_bytes(le, 1);
    views[d->out] = view_of(p, net, d->out, (uint16_t)d->out, 1, offset, ld);
    offset += lay_bytes(ld, 1);
    p->arena_bytes = (uint32_t)offset;
    struct fragment_code zero = program_op(FRAGMENT_ZERO), acc = program_op(FRAGMENT_CONV);
    zero.out = acc.out = sums;
    zero.h = program_span(p, 0, y.h);
    acc.h = row_range(p, &ticks, q->out, 1, 0, y.h, FRAGMENT_NONE);
    zero.w = acc.w = program_span(p, 0, y.w);
    zero.c = acc.c = program_span(p, 0, y.c);
    acc.form = FRAGMENT_FORM_ACC;
    acc.in[0] = views[d->out];
    acc.k = c;
    acc.params = program_params(p, params_of(net, q));
    program_move(p, FRAGMENT_RECV, views[e->in[0]], in, 0);
    program_code(p, zero);
    if (c1 > c0) {
        acc.slice = slice_of(p, net, q, FRAGMENT_SLICE_CONV, 0, y.c, c0, c1, k);
        program_loop(p, 0, (uint32_t)((c1 - c0 + k - 1) / k));
        program_loop(p, 1, (uint32_t)ticks.count);
        code_of(p, net, e, views, row_range(p, &ticks, e->out, 1, 0, se.h, FRAGMENT_NONE),
                program_span(p, 0, se.w), c, slice_of(p, net, e, FRAGMENT_SLICE_CONV, c0, c1, 0, a.c, a.c));
        code_of(p, net, d, views, row_range(p, &ticks, d->out, 1, 0, sd.h, FRAGMENT_NONE),
                program_span(p, 0, sd.w), c, slice_of(p, net, d, FRAGMENT_SLICE_DW, c0, c1, 0, 0, 0));
        program_code(p, acc);
        program_end(p);
        program_end(p);
    }
    if (index == 0) {
        partial_finish(p, net, q, sums, out, n);
        return;
    }
    uint16_t t = transfer_of(p, p->party, 1, 1, 1, FRAGMENT_WIRE_I24, y, 0, y.h);
    program_move(p, FRAGMENT_SEND, sums, t, 0);
}
