#include "tests/support/nn_exact.h"

#include "shared/nn/layout.h"
#include "tests/support/prng.h"

#include <string.h>

enum { SIDE_MAX = 20, CANARY = 0x5A };

struct world {
    struct prng prng;
    const struct nn_exact_memory *memory;
    struct nn_params p;
    int32_t h, w, c, k; /* output; k input channels (conv) */
    int32_t in_h, in_w, in_stride, out_stride, element;
    const void *rows[NN_ROWS_MAX];
    void *plain_rows[SIDE_MAX], *other_rows[SIDE_MAX];
    uint8_t *plain, *other; /* outputs */
    size_t row_bytes;
    struct nn_weights w_plain, w_other;
    struct nn_in in;
    struct nn_out out;
};

static int32_t any(struct world *world, int32_t lo, int32_t hi)
{
    return prng_range(&world->prng, lo, hi);
}

static bool once_in(struct world *world, int32_t n)
{
    return prng_one_in(&world->prng, n);
}

static void *take(struct world *world, size_t size)
{
    return world->memory->take(world->memory->context, size ? size : 1);
}

static void *random_bytes(struct world *world, size_t size)
{
    void *bytes = take(world, size);
    prng_fill(&world->prng, bytes, size);
    return bytes;
}

/* ---- parameters ---- */

static void random_quantisation(struct world *world)
{
    struct nn_params *p = &world->p;
    p->in_zero_point[0] = (int16_t)any(world, -128, 127);
    p->in_zero_point[1] = (int16_t)any(world, -128, 127);
    p->out_zero_point = (int16_t)any(world, -128, 127);
    p->weight_zero_point = (int16_t)(once_in(world, 4) ? any(world, -255, 255) : 0);
    p->act_lo = -128;
    p->act_hi = 127;
    if (once_in(world, 3)) {
        p->act_lo = (int16_t)any(world, -128, 127);
        p->act_hi = (int16_t)any(world, p->act_lo, 127);
    }
}

static void random_window(struct world *world, bool depthwise)
{
    struct nn_params *p = &world->p;
    int32_t side = once_in(world, 3) ? 1 : once_in(world, 2) ? 3 : any(world, 1, 7);
    p->kernel_h = (uint16_t)side;
    p->kernel_w = (uint16_t)(once_in(world, 4) ? any(world, 1, 7) : side);
    p->stride_h = (uint16_t)(once_in(world, 2) ? 1 : any(world, 1, 3));
    p->stride_w = (uint16_t)(once_in(world, 4) ? any(world, 1, 3) : p->stride_h);
    p->dilation_h = (uint16_t)(depthwise || !once_in(world, 4) ? 1 : any(world, 1, 2));
    p->dilation_w = (uint16_t)(depthwise || !once_in(world, 4) ? 1 : any(world, 1, 2));
    p->pad_top = (int16_t)(once_in(world, 3) ? any(world, 0, 8) : p->kernel_h / 2);
    p->pad_left = (int16_t)(once_in(world, 3) ? any(world, 0, 8) : p->kernel_w / 2);
    p->multiplier = 1;
}

/* Mostly such as layers have; sometimes any. */
static void random_scales(struct world *world, struct nn_weights *w, int32_t n)
{
    int32_t *mantissa = take(world, (size_t)n * 4), *shift = take(world, (size_t)n * 4),
            *bias = take(world, (size_t)n * 4);
    bool wild = once_in(world, 6);
    for (int32_t i = 0; i < n; i++) {
        mantissa[i] = any(world, 1 << 30, INT32_MAX);
        shift[i] = wild ? any(world, -31, 3) : any(world, -12, -2);
        bias[i] = wild && once_in(world, 3) ? any(world, INT32_MIN, INT32_MAX) : any(world, -20000, 20000);
        if (once_in(world, 40)) /* ties of the second rounding */
            mantissa[i] = 1 << 30;
    }
    w->mantissa = mantissa;
    w->shift = shift;
    w->bias = bias;
}

/* ---- maps ---- */

/* Rows lie anywhere, in any order, and need not be aligned; some are outside the image. Only the rows that
 * the box needs are in the table, the others hold what must not be followed. */
static void random_input(struct world *world, int32_t channels)
{
    const struct nn_params *p = &world->p;
    struct nn_in *in = &world->in;
    int32_t h0 = world->out.h0 * p->stride_h - p->pad_top;
    int32_t h1 = (world->out.h1 - 1) * p->stride_h - p->pad_top + (p->kernel_h - 1) * p->dilation_h + 1;
    world->in_stride = channels + (once_in(world, 2) ? 0 : any(world, 0, 5));
    for (int32_t i = 0; i < NN_ROWS_MAX; i++)
        world->rows[i] = (const void *)(uintptr_t)16; /* no memory: following it faults */
    for (int32_t h = h0; h < h1; h++) {
        bool inside = h >= 0 && h < world->in_h && !once_in(world, 30);
        size_t last = (size_t)(world->in_w - 1) * (size_t)world->in_stride + (size_t)channels;
        size_t odd = (size_t)any(world, 0, 3);
        world->rows[h - h0] = inside ? (uint8_t *)random_bytes(world, last + odd) + odd : NULL;
    }
    *in = (struct nn_in){world->rows, h0, 0, 0, world->in_stride, world->in_w};
}

/* Two equal outputs filled with canaries, and a random box of them. */
static void random_output(struct world *world)
{
    struct nn_out *out = &world->out;
    world->out_stride = (world->c + (once_in(world, 2) ? 0 : any(world, 0, 5))) * world->element;
    world->row_bytes = (size_t)world->w * (size_t)world->out_stride;
    world->plain = take(world, (size_t)world->h * world->row_bytes);
    world->other = take(world, (size_t)world->h * world->row_bytes);
    bool whole = once_in(world, 3);
    out->h0 = whole ? 0 : any(world, 0, world->h - 1);
    out->h1 = whole ? world->h : any(world, out->h0 + 1, world->h);
    out->w0 = whole ? 0 : any(world, 0, world->w - 1);
    out->w1 = whole ? world->w : any(world, out->w0 + 1, world->w);
    out->c0 = whole ? 0 : any(world, 0, world->c - 1);
    out->c1 = whole ? world->c : any(world, out->c0 + 1, world->c);
    out->pixel_stride = world->out_stride;
    if (world->element == 1)
        memset(world->plain, CANARY, (size_t)world->h * world->row_bytes);
    else
        prng_fill(&world->prng, world->plain, (size_t)world->h * world->row_bytes);
    memcpy(world->other, world->plain, (size_t)world->h * world->row_bytes);
    int32_t turn = any(world, 0, world->h - 1); /* a ring */
    for (int32_t h = out->h0; h < out->h1; h++) {
        size_t at = (size_t)((h + turn) % world->h) * world->row_bytes +
                    (size_t)out->w0 * (size_t)world->out_stride + (size_t)out->c0 * (size_t)world->element;
        world->plain_rows[h - out->h0] = world->plain + at;
        world->other_rows[h - out->h0] = world->other + at;
    }
}

static const char *compare(struct world *world, uint64_t *outputs)
{
    *outputs += (uint64_t)(world->out.h1 - world->out.h0) * (uint64_t)(world->out.w1 - world->out.w0) *
                (uint64_t)(world->out.c1 - world->out.c0);
    return memcmp(world->plain, world->other, (size_t)world->h * world->row_bytes) == 0
               ? NULL
               : "differs from the plain kernel";
}

static struct nn_scratch random_scratch(struct world *world, enum nn_layout layout,
                                        const struct nn_work *work)
{
    uint32_t least = nn_scratch_least(layout, work), most = nn_scratch_most(layout, work);
    uint32_t size = least;
    if (most > least && !once_in(world, 3))
        size = (uint32_t)any(world, (int32_t)least, (int32_t)(most < 60000 ? most + 64 : 60000));
    return (struct nn_scratch){take(world, size), size};
}

/* ---- convolutions ---- */

/* Channels [c0, c1) around the box, input channels [k0, k1) in blocks. */
static void random_slice(struct world *world, bool depthwise, int32_t k0, int32_t k1, int32_t block,
                         enum nn_layout layout)
{
    const struct nn_out *out = &world->out;
    struct nn_weights *w = &world->w_plain;
    w->c0 = any(world, 0, out->c0);
    w->c1 = any(world, out->c1, world->c);
    w->k0 = k0;
    w->k1 = k1;
    w->k_block = block;
    int32_t taps = world->p.kernel_h * world->p.kernel_w, n = w->c1 - w->c0;
    size_t bytes = (size_t)n * (size_t)taps * (size_t)(depthwise ? 1 : k1 - k0);
    int8_t *plain = random_bytes(world, bytes), *packed = take(world, bytes + 4);
    packed += layout == NN_LAYOUT_PAIRS && once_in(world, 4) ? any(world, 1, 3) : 0; /* at any address */
    bool far = once_in(world, 3);
    for (size_t i = 0; layout == NN_LAYOUT_FOURS && i < bytes; i++)
        plain[i] = (int8_t)(far && i % 2 == 0 ? plain[i] & 127 : plain[i] < -127 ? -127 : plain[i]);
    w->values = plain;
    random_scales(world, w, n);
    world->w_other = *w;
    world->w_other.values = packed;
    int32_t *bias = take(world, (size_t)n * 4);
    memcpy(bias, w->bias, (size_t)n * 4);
    for (int32_t start = k0; start < k1; start += block) {
        int32_t depth = k1 - start < block ? k1 - start : block;
        size_t at = (size_t)n * (size_t)taps * (size_t)(start - k0);
        struct nn_work work = {.p = &world->p, .depthwise = depthwise, .depth = depth, .channels = n};
        nn_layout_pack(layout, &work, plain + at, taps * (depthwise ? 1 : depth), packed + at, bias);
    }
    world->w_other.bias = bias;
}

static struct nn_work work_of(const struct world *world, bool depthwise, bool sums)
{
    const struct nn_out *out = &world->out;
    return (struct nn_work){.p = &world->p,
                            .depthwise = depthwise,
                            .sums = sums,
                            .depth = world->w_other.k_block,
                            .channels = world->w_other.c1 - world->w_other.c0,
                            .width = out->w1 - out->w0,
                            .pixels = (out->w1 - out->w0) * (out->h1 - out->h0)};
}

static void random_sizes(struct world *world)
{
    world->in_h = any(world, 1, 16);
    world->in_w = any(world, 1, once_in(world, 3) ? 32 : 12);
    world->h = any(world, 1, 14);
    world->w = any(world, 1, once_in(world, 3) ? 18 : 9);
    world->c = any(world, 1, once_in(world, 3) ? 40 : 9);
    world->element = 1;
}

static const char *run_conv(struct world *world, bool sums, uint64_t *outputs)
{
    random_window(world, false);
    int32_t channels = any(world, 1, world->p.kernel_h > 1 ? 12 : once_in(world, 4) ? 200 : 50);
    world->element = sums ? 4 : 1;
    random_output(world);
    random_input(world, channels);
    int32_t k0 = any(world, 0, channels - 1), k1 = any(world, k0 + 1, channels);
    int32_t block = sums ? any(world, 1, k1 - k0) : k1 - k0;
    random_slice(world, false, k0, k1, block, NN_LAYOUT_PAIRS);
    struct nn_work work = work_of(world, false, sums);
    if (!nn_layout_can(NN_LAYOUT_PAIRS, &work))
        return "cannot be packed";
    struct nn_scratch scratch = random_scratch(world, NN_LAYOUT_PAIRS, &work);
    struct nn_out out = world->out;
    int32_t ka = sums ? any(world, k0, k1 - 1) : k0, kb = sums ? any(world, ka + 1, k1) : k1;
    out.rows = world->plain_rows;
    (sums ? nn_conv_acc_s32 : nn_conv_s8)(&world->p, &world->w_plain, &world->in, ka, kb, &out);
    out.rows = world->other_rows;
    (sums ? nn_conv_pairs_acc_s32 : nn_conv_pairs_s8)(&world->p, &world->w_other, &world->in, ka, kb, &out,
                                                      scratch);
    return compare(world, outputs);
}

static const char *run_depthwise(struct world *world, uint64_t *outputs)
{
    random_window(world, true);
    random_output(world);
    random_input(world, world->c);
    random_slice(world, true, 0, 1, 1, NN_LAYOUT_PAIRS);
    struct nn_work work = work_of(world, true, false);
    if (!nn_layout_can(NN_LAYOUT_PAIRS, &work))
        return "cannot be packed";
    struct nn_scratch scratch = random_scratch(world, NN_LAYOUT_PAIRS, &work);
    struct nn_out out = world->out;
    out.rows = world->plain_rows;
    nn_depthwise_s8(&world->p, &world->w_plain, &world->in, &out);
    out.rows = world->other_rows;
    nn_depthwise_pairs_s8(&world->p, &world->w_other, &world->in, &out, scratch);
    return compare(world, outputs);
}

static const char *run_fours(struct world *world, uint64_t *outputs)
{
    struct nn_params *p = &world->p;
    random_window(world, false);
    p->weight_zero_point = 0;
    p->kernel_h = (uint16_t)any(world, 1, 3);
    p->kernel_w = (uint16_t)any(world, 1, 3);
    world->h = world->w = 1;
    int32_t channels = any(world, 1, once_in(world, 3) ? 600 : 30);
    channels = p->kernel_h * p->kernel_w * channels % 4 == 0 ? channels : (channels + 3) / 4 * 4;
    random_output(world);
    random_input(world, channels);
    random_slice(world, false, 0, channels, channels, NN_LAYOUT_FOURS);
    struct nn_work work = work_of(world, false, false);
    if (!nn_layout_can(NN_LAYOUT_FOURS, &work))
        return "cannot be packed";
    const struct nn_weights *w = &world->w_plain;
    int32_t k = p->kernel_h * p->kernel_w * channels;
    if (!nn_layout_fours_fit(w->values, (int64_t)k * (w->c1 - w->c0)))
        return NULL; /* the emitter takes another layout */
    struct nn_scratch scratch = random_scratch(world, NN_LAYOUT_FOURS, &work);
    struct nn_out out = world->out;
    out.rows = world->plain_rows;
    nn_conv_s8(p, w, &world->in, 0, channels, &out);
    out.rows = world->other_rows;
    nn_conv_fours_s8(p, &world->w_other, &world->in, &out, scratch);
    return compare(world, outputs);
}

/* ---- add ---- */

static const char *run_add(struct world *world, uint64_t *outputs)
{
    struct nn_params *p = &world->p;
    p->kernel_h = p->kernel_w = p->stride_h = p->stride_w = p->dilation_h = p->dilation_w = 1;
    p->count = once_in(world, 4) ? any(world, 0, 22) : 20;
    for (int i = 0; i < 3; i++) {
        p->m[i].mantissa = once_in(world, 3) ? 1 << 30 : any(world, 1 << 30, INT32_MAX);
        p->m[i].shift = i == 2 ? any(world, -21, -1) : any(world, -4, 0);
    }
    world->in_h = world->h;
    world->in_w = world->w;
    random_output(world);
    random_input(world, world->c);
    struct nn_in a = world->in;
    const void *rows[NN_ROWS_MAX];
    memcpy(rows, world->rows, sizeof rows);
    a.rows = rows;
    random_input(world, world->c);
    struct nn_out out = world->out;
    out.rows = world->plain_rows;
    nn_add_s8(p, &a, &world->in, NN_BCAST_NONE, &out);
    out.rows = world->other_rows;
    if (!nn_add_quick_s8(p, &a, &world->in, &out))
        return NULL; /* the plain kernel is taken */
    return compare(world, outputs);
}

/* ---- interface ---- */

const char *nn_exact_name(enum nn_exact_kind kind)
{
    static const char *const names[NN_EXACT_KINDS] = {"convolution", "sums", "depthwise", "fully connected",
                                                      "add"};
    return names[kind];
}

static const char *run(struct world *world, enum nn_exact_kind kind, uint64_t *outputs)
{
    switch (kind) {
    case NN_EXACT_CONV:
    case NN_EXACT_SUMS:
        return run_conv(world, kind == NN_EXACT_SUMS, outputs);
    case NN_EXACT_DEPTHWISE:
        return run_depthwise(world, outputs);
    case NN_EXACT_FOURS:
        return run_fours(world, outputs);
    case NN_EXACT_ADD:
        return run_add(world, outputs);
    default:
        return "unknown kind";
    }
}

const char *nn_exact_case(enum nn_exact_kind kind, uint64_t seed, const struct nn_exact_memory *memory,
                          uint64_t *outputs)
{
    static struct world world; /* large for a board's stack */
    memset(&world, 0, sizeof world);
    world.prng = prng_seed(seed);
    world.memory = memory;
    random_quantisation(&world);
    random_sizes(&world);
    const char *fault = run(&world, kind, outputs);
    memory->drop(memory->context);
    return fault;
}
