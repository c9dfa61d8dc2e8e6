/*
 * Convolution, at once (int8) or as a contribution to sums (ACC). Four output pixels go together: the part of
 * their windows that meets one contiguous stretch of a channel's weights is gathered once as int16 with the
 * zero point subtracted, zero outside the image (so that a missing tap adds nothing), and then each output
 * channel of a block takes a dot product with it. The stretches are whole blocks of [kernel_h][kernel_w][k in
 * block] where the input channels cover them, else one tap's channels. A dot product of one chunk cannot
 * overflow; what is added up from chunks wraps.
 */
#include "shared/nn/rows.h"

#include <stdbool.h>

enum {
    PIXELS = 4,
    CHUNK = 256,  /* weights of one channel gathered at a time */
    CHANNELS = 32 /* output channels whose sums are on the stack */
};

struct call {
    const struct nn_params *p;
    const struct nn_weights *w;
    const struct nn_in *in;
    int32_t ka, kb, c0, c1; /* clamped to what the weights cover */
    int16_t zx, zw;
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
    int32_t sums[CHANNELS][PIXELS];
};

NN_HOT static void widen(const int8_t *x, int32_t n, int16_t zero_point, int16_t *out)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = (int16_t)(x[i] - zero_point);
}

/* Elements [e, e + n) of the run's window at one pixel. */
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
        else
            for (int32_t i = 0; i < m; i++)
                out[i] = 0;
        out += m;
        n -= m;
        k = 0;
        if (++kw == p->kernel_w) {
            kw = 0;
            kh++;
        }
    }
}

NN_HOT static void dot_four(int16_t (*x)[CHUNK], const int8_t *w, int32_t n, int16_t zw, int32_t sums[PIXELS])
{
    const int16_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int32_t i = 0; i < n; i++) {
        int16_t v = (int16_t)(w[i] - zw);
        s0 += x0[i] * v;
        s1 += x1[i] * v;
        s2 += x2[i] * v;
        s3 += x3[i] * v;
    }
    sums[0] = fixed_add(sums[0], s0);
    sums[1] = fixed_add(sums[1], s1);
    sums[2] = fixed_add(sums[2], s2);
    sums[3] = fixed_add(sums[3], s3);
}

NN_HOT static void dot_one(const int16_t *x, const int8_t *w, int32_t n, int16_t zw, int32_t *sum)
{
    int32_t s = 0;
    for (int32_t i = 0; i < n; i++)
        s += x[i] * (int16_t)(w[i] - zw);
    *sum = fixed_add(*sum, s);
}

/* Adds one run for output channels [c, c + n). */
static void add_run(const struct call *call, const struct run *run, const struct pixels *pixels, int32_t c,
                    int32_t n, struct tile *tile)
{
    int64_t length = run->taps * (run->k1 - run->k0);
    for (int64_t e = 0; e < length; e += CHUNK) {
        int32_t m = length - e < CHUNK ? (int32_t)(length - e) : CHUNK;
        for (int32_t i = 0; i < pixels->n; i++)
            gather(call, run, pixels->h[i], pixels->w[i], e, m, tile->x[i]);
        const int8_t *weights = run->weights + (c - call->w->c0) * run->channel + e;
        for (int32_t i = 0; i < n; i++, weights += run->channel)
            if (pixels->n == PIXELS)
                dot_four(tile->x, weights, m, call->zw, tile->sums[i]);
            else
                for (int32_t j = 0; j < pixels->n; j++)
                    dot_one(tile->x[j], weights, m, call->zw, &tile->sums[i][j]);
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
typedef void (*sink_fn)(const struct call *call, int32_t c, int32_t n, const struct tile *tile, int32_t pixel,
                        void *y);

static void finish(const struct call *call, int32_t c, int32_t n, const struct tile *tile, int32_t pixel,
                   void *y)
{
    const struct nn_weights *w = call->w;
    int8_t *out = y;
    for (int32_t i = 0, at = c - w->c0; i < n; i++, at++) {
        int32_t sum = fixed_add(tile->sums[i][pixel], w->bias[at]);
        int32_t x = fixed_scale(sum, w->mantissa[at], w->shift[at]);
        out[i] = nn_activate(call->p, fixed_add(x, call->p->out_zero_point));
    }
}

static void accumulate(const struct call *call, int32_t c, int32_t n, const struct tile *tile, int32_t pixel,
                       void *y)
{
    (void)call;
    (void)c;
    int32_t *out = y;
    for (int32_t i = 0; i < n; i++)
        out[i] = fixed_add(out[i], tile->sums[i][pixel]);
}

/* Output pixels number [first, first + pixels->n) of the box, row by row. */
static void run_pixels(const struct call *call, const struct nn_out *out, int64_t first,
                       struct pixels *pixels, int32_t element, sink_fn sink)
{
    struct tile tile;
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
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < PIXELS; j++)
                tile.sums[i][j] = 0;
        add_blocks(call, pixels, c, n, &tile);
        for (int32_t i = 0; i < pixels->n; i++)
            sink(call, c, n, &tile, i, y[i] + (ptrdiff_t)(c - out->c0) * element);
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
                        (int16_t)nn_zero_point(p->weight_zero_point)};
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
