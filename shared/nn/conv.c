/*
 * Convolution, at once (int8) or as a contribution to sums (ACC). Four output pixels go together: the part of
 * their windows that meets one contiguous stretch of a channel's weights is gathered once as int16 with the
 * zero point subtracted, zero outside the image (so that a missing tap adds nothing), and then each output
 * channel of a block takes a dot product with it. The stretches are whole blocks of [kernel_h][kernel_w][k in
 * block] where the input channels cover them, else one tap's channels. A dot product of one chunk cannot
 * overflow; what is added up from chunks wraps.
 */
#include "shared/nn/requantise.h"

#include <stdbool.h>
#include <string.h>

enum {
    PIXELS = 4,
    STEP = 16, /* a chunk is filled up with zeros to a multiple, for vector loops without a tail */
#ifdef __arm__ /* a function has 1 KiB of stack there; what must be fast has other layouts */
    CHUNK = 48,
    CHANNELS = 16
#else
    CHUNK = 256,  /* weights of one channel gathered at a time */
    CHANNELS = 32 /* output channels whose sums are on the stack */
#endif
};

struct call {
    const struct nn_params *p;
    const struct nn_weights *w;
    const struct nn_in *in;
    int32_t ka, kb, c0, c1; /* clamped to what the weights cover */
    int16_t zx, zw;
    struct nn_output output;
};

/* A stretch of weights: channels [k0, k1) of taps [tap, tap + taps), the same for each output channel. */
struct run {
    const int8_t *weights; /* of output channel w->c0 */
    ptrdiff_t channel;     /* bytes from one output channel to the next */
    int32_t k0, k1;
    int64_t tap, taps;
};

struct pixels {
    int64_t h[PIXELS], w[PIXELS]; /* input coordinates of tap (0, 0) */
    int32_t n;
};

struct tile {
    int16_t x[PIXELS][CHUNK];
    int8_t w[CHUNK];
    int32_t sums[PIXELS][CHANNELS];
};

NN_HOT static void widen(const int8_t *x, int32_t n, int16_t zero_point, int16_t *out)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = (int16_t)(x[i] - zero_point);
}

/* Elements [e, e + n) of the run's window at one pixel, into zeros. */
static void gather(const struct call *call, const struct run *run, int64_t h, int64_t w, int64_t e, int32_t n,
                   int16_t *out)
{
    const struct nn_params *p = call->p;
    int32_t depth = run->k1 - run->k0, k = (int32_t)(e % depth);
    int64_t tap = run->tap + e / depth;
    int32_t kh = (int32_t)(tap / p->kernel_w), kw = (int32_t)(tap % p->kernel_w);
    while (n > 0) {
        int32_t m = nn_min(n, depth - k);
        int64_t column = w + (int64_t)kw * nn_dilation(p->dilation_w);
        bool inside = column >= 0 && column < call->in->width;
        const void *row = inside ? nn_in_row(call->in, h + (int64_t)kh * nn_dilation(p->dilation_h)) : NULL;
        if (row)
            widen(nn_in_s8(call->in, row, column, run->k0 + k), m, call->zx, out);
        out += m;
        n -= m;
        k = 0;
        if (++kw == p->kernel_w) {
            kw = 0;
            kh++;
        }
    }
}

/* Four pixels with channel i's weights. n is a multiple of STEP; where x is zero, w may be anything. */
NN_HOT static void dot_four(struct tile *tile, const int8_t *w, int32_t n, int16_t zw, int32_t i)
{
    const int16_t *x0 = tile->x[0], *x1 = tile->x[1], *x2 = tile->x[2], *x3 = tile->x[3];
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    n &= ~(STEP - 1); /* tells the compiler that no tail remains */
    for (int32_t e = 0; e < n; e++) {
        int16_t v = (int16_t)(w[e] - zw);
        s0 += x0[e] * v;
        s1 += x1[e] * v;
        s2 += x2[e] * v;
        s3 += x3[e] * v;
    }
    tile->sums[0][i] = fixed_add(tile->sums[0][i], s0);
    tile->sums[1][i] = fixed_add(tile->sums[1][i], s1);
    tile->sums[2][i] = fixed_add(tile->sums[2][i], s2);
    tile->sums[3][i] = fixed_add(tile->sums[3][i], s3);
}

NN_HOT static void dot_one(const int16_t *x, const int8_t *w, int32_t n, int16_t zw, int32_t *sum)
{
    int32_t s = 0;
    for (int32_t i = 0; i < n; i++)
        s += x[i] * (int16_t)(w[i] - zw);
    *sum = fixed_add(*sum, s);
}

/* Channel i of a chunk of n weights. Weights that end within a step are copied, lest the loop reads beyond
 * them. */
static void dot(const struct call *call, struct tile *tile, int32_t pixels, const int8_t *weights, int32_t n,
                int32_t i)
{
    if (pixels == 1) {
        dot_one(tile->x[0], weights, n, call->zw, &tile->sums[0][i]);
    } else if (n % STEP == 0) {
        dot_four(tile, weights, n, call->zw, i);
    } else {
        memcpy(tile->w, weights, (size_t)n);
        dot_four(tile, tile->w, n + STEP - n % STEP, call->zw, i);
    }
}

/* Adds one run for output channels [c, c + n). */
static void add_run(const struct call *call, const struct run *run, const struct pixels *pixels, int32_t c,
                    int32_t n, struct tile *tile)
{
    int64_t length = run->taps * (run->k1 - run->k0);
    for (int64_t e = 0; e < length; e += CHUNK) {
        int32_t m = length - e < CHUNK ? (int32_t)(length - e) : CHUNK;
        for (int32_t i = 0; i < PIXELS; i++) /* up to the step, and the pixels that are missing */
            memset(tile->x[i], 0, (size_t)(m + STEP - 1) / STEP * STEP * sizeof *tile->x[i]);
        for (int32_t i = 0; i < pixels->n; i++)
            gather(call, run, pixels->h[i], pixels->w[i], e, m, tile->x[i]);
        const int8_t *weights = run->weights + (c - call->w->c0) * run->channel + e;
        for (int32_t i = 0; i < n; i++, weights += run->channel)
            dot(call, tile, pixels->n, weights, m, i);
    }
}

/* All of input channels [ka, kb) for output channels [c, c + n), block by block. */
static void add_blocks(const struct call *call, const struct pixels *pixels, int32_t c, int32_t n,
                       struct tile *tile)
{
    const struct nn_weights *w = call->w;
    int64_t taps = (int64_t)call->p->kernel_h * call->p->kernel_w;
    int64_t k_block = w->k_block > 0 ? w->k_block : w->k1 - w->k0;
    for (int64_t start = w->k0 + (call->ka - w->k0) / k_block * k_block; start < call->kb; start += k_block) {
        int32_t end = w->k1 - start < k_block ? w->k1 : (int32_t)(start + k_block);
        int32_t depth = end - (int32_t)start;
        int32_t k0 = nn_max((int32_t)start, call->ka), k1 = nn_min(end, call->kb);
        const int8_t *block = w->values + (ptrdiff_t)((start - w->k0) * taps * (w->c1 - w->c0));
        struct run run = {block, (ptrdiff_t)(taps * depth), k0, k1, 0, taps};
        if (k1 - k0 == depth) {
            add_run(call, &run, pixels, c, n, tile);
            continue;
        }
        run.taps = 1;
        for (run.tap = 0; run.tap < taps; run.tap++) {
            run.weights = block + (ptrdiff_t)(run.tap * depth) + (k0 - (int32_t)start);
            add_run(call, &run, pixels, c, n, tile);
        }
    }
}

/* What becomes of the sums of output channels [c, c + n) of one pixel; `y` is its channel c. */
typedef void (*sink_fn)(const struct call *call, int32_t c, int32_t n, const int32_t *sums, void *y);

static void finish(const struct call *call, int32_t c, int32_t n, const int32_t *sums, void *y)
{
    nn_requantise(call->output, call->w, c - call->w->c0, sums, n, y);
}

static void accumulate(const struct call *call, int32_t c, int32_t n, const int32_t *sums, void *y)
{
    (void)call;
    (void)c;
    int32_t *out = y;
    for (int32_t i = 0; i < n; i++)
        out[i] = fixed_add(out[i], sums[i]);
}

/* Output pixels number [first, first + pixels->n) of the box, row by row. */
static void run_pixels(const struct call *call, const struct nn_out *out, int64_t first,
                       struct pixels *pixels, int32_t element, sink_fn sink)
{
    struct tile tile;
    memset(tile.w, 0, sizeof tile.w);
    int32_t width = out->w1 - out->w0;
    char *y[PIXELS];
    for (int32_t i = 0; i < pixels->n; i++) {
        int32_t h = out->h0 + (int32_t)((first + i) / width), w = out->w0 + (int32_t)((first + i) % width);
        pixels->h[i] = (int64_t)h * call->p->stride_h - call->p->pad_top;
        pixels->w[i] = (int64_t)w * call->p->stride_w - call->p->pad_left;
        y[i] = nn_out_pixel(out, h, w);
    }
    for (int32_t c = call->c0; c < call->c1; c += CHANNELS) {
        int32_t n = nn_min(call->c1 - c, CHANNELS);
        memset(tile.sums, 0, sizeof tile.sums);
        add_blocks(call, pixels, c, n, &tile);
        for (int32_t i = 0; i < pixels->n; i++)
            sink(call, c, n, tile.sums[i], y[i] + (ptrdiff_t)(c - out->c0) * element);
    }
}

static void run_call(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                     int32_t ka, int32_t kb, const struct nn_out *out, int32_t element, sink_fn sink)
{
    struct call call = {p,
                        w,
                        in,
                        nn_max(ka, w->k0),
                        nn_min(kb, w->k1),
                        nn_max(out->c0, w->c0),
                        nn_min(out->c1, w->c1),
                        (int16_t)nn_zero_point(p->in_zero_point[0]),
                        (int16_t)nn_zero_point(p->weight_zero_point),
                        nn_output(p)};
    if (out->h1 <= out->h0 || out->w1 <= out->w0)
        return;
    int64_t count = (int64_t)(out->h1 - out->h0) * (out->w1 - out->w0);
    struct pixels pixels;
    for (int64_t first = 0; first < count; first += pixels.n) {
        pixels.n = count - first < PIXELS ? (int32_t)(count - first) : PIXELS;
        run_pixels(&call, out, first, &pixels, element, sink);
    }
}

void nn_conv_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in, int32_t ka,
                int32_t kb, const struct nn_out *out)
{
    run_call(p, w, in, ka, kb, out, 1, finish);
}

void nn_conv_acc_s32(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                     int32_t ka, int32_t kb, const struct nn_out *out)
{
    run_call(p, w, in, ka, kb, out, 4, accumulate);
}
