/*
 * Depthwise convolution from NN_LAYOUT_PAIRS: multiplier 1, no dilation, windows up to 7x7. Four channels at
 * a time are taken apart into planes of int16 with the zero point subtracted and zeros outside the image, two
 * columns a word, DW_ROWS rows below each other (tiles.h); then each channel runs over its plane: 3x3 with
 * stride 1 or 2 in the loops of depthwise_rows.c, every other window here. As many columns go at a time as
 * the scratch holds.
 */
#include "shared/nn/requantise.h"
#include "shared/nn/scratch.h"
#include "shared/nn/tiles.h"

enum { PAIRS_MAX = 4 /* words of one row of weights, up to 7 taps at either parity */ };

struct call {
    const struct nn_params *p;
    const struct nn_weights *w;
    const struct nn_in *in;
    const struct nn_out *out;
    int32_t zx, zw;
    struct nn_output output;
    uint32_t *planes; /* DW_GROUP of plane_words */
    int32_t words;    /* of a row */
    int32_t width;    /* outputs of a row at a time */
};

/* Outputs under way: rows [h0, h1), columns [w0, w1); and where the planes begin in the input. */
struct part {
    int32_t h0, h1, w0, w1;
    int64_t row, column;
};

/* ---- scratch ---- */

/* Words of a plane's row for `width` outputs, which go in quads. */
static int64_t words_for(const struct nn_params *p, int64_t width)
{
    int64_t quads = (width + DW_QUAD - 1) / DW_QUAD;
    return ((quads * DW_QUAD - 1) * p->stride_w + p->kernel_w + 2) / 2;
}

static uint32_t scratch_for(const struct nn_work *work, int64_t width)
{
    int64_t bytes = words_for(work->p, width) * DW_ROWS * 4 * DW_GROUP;
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

uint32_t nn_depthwise_pairs_scratch_least(const struct nn_work *work)
{
    return scratch_for(work, 1);
}

uint32_t nn_depthwise_pairs_scratch_most(const struct nn_work *work)
{
    return scratch_for(work, work->width);
}

static bool share_scratch(struct call *call, struct nn_scratch scratch)
{
    int64_t words = scratch.size / (DW_ROWS * 4 * DW_GROUP), step = DW_QUAD * call->p->stride_w;
    int64_t first = words_for(call->p, DW_QUAD);
    if (words < first)
        return false;
    int32_t width = (int32_t)((1 + (words - first) * 2 / step) * DW_QUAD);
    while (words_for(call->p, width) > words)
        width -= DW_QUAD;
    call->planes = scratch.bytes;
    call->words = (int32_t)words;
    call->width = width;
    return true;
}

/* ---- planes ---- */

static inline void put(uint32_t *at, ptrdiff_t plane, uint32_t zero, uint32_t a, uint32_t b)
{
    uint32_t x = dsp_add_even(zero, a), y = dsp_add_even(zero, b);
    at[0] = dsp_lows(x, y);
    at[2 * plane] = dsp_highs(x, y);
    x = dsp_add_odd(zero, a);
    y = dsp_add_odd(zero, b);
    at[plane] = dsp_lows(x, y);
    at[3 * plane] = dsp_highs(x, y);
}

/* Four channels of a pixel of a row, of which n are there; the zero point where there is nothing. */
static uint32_t word_at(const struct call *call, const uint8_t *row, int64_t column, int32_t n)
{
    uint32_t word = (uint8_t)call->zx * 0x01010101u;
    if (!row || column < 0 || column >= call->in->width)
        return word;
    row += (ptrdiff_t)(column - call->in->w0) * call->in->pixel_stride;
    if (n >= DW_GROUP)
        return dsp_load(row);
    for (int32_t i = 0; i < n; i++)
        word = (word & ~(0xFFu << 8 * i)) | (uint32_t)row[i] << 8 * i;
    return word;
}

/* Words [from, to) of rows r and r + 1, all inside the image. */
NN_ITCM static void pack_inside(const struct call *call, const uint8_t *a, const uint8_t *b, int32_t n,
                                uint32_t *at)
{
    int32_t stride = call->in->pixel_stride;
    ptrdiff_t plane = (ptrdiff_t)call->words * DW_ROWS;
    uint32_t zero = dsp_pair(-call->zx, -call->zx);
    for (; n > 0; n--, a += 2 * stride, b += 2 * stride, at += DW_ROWS) {
        uint32_t a0 = dsp_load(a), a1 = dsp_load(a + stride), b0 = dsp_load(b), b1 = dsp_load(b + stride);
        put(at, plane, zero, a0, a1);
        put(at + 1, plane, zero, b0, b1);
    }
}

/* Rows r and r + 1 of the planes of channels [c, c + n). */
static void pack_rows(const struct call *call, const struct part *part, int32_t r, int32_t words, int32_t c,
                      int32_t n)
{
    int32_t rows_end = (part->h1 - part->h0 - 1) * call->p->stride_h + call->p->kernel_h;
    const uint8_t *rows[2];
    ptrdiff_t plane = (ptrdiff_t)call->words * DW_ROWS;
    uint32_t zero = dsp_pair(-call->zx, -call->zx), *at = call->planes + r;
    for (int i = 0; i < 2; i++) {
        const uint8_t *row = r + i < rows_end ? nn_in_row(call->in, part->row + r + i) : NULL;
        rows[i] = row ? row + (c - call->in->c0) : NULL;
    }
    int64_t x = part->column, inside = call->in->width - 1;
    for (int32_t j = 0; j < words; x += 2) {
        int64_t here = x >= 0 && rows[0] && rows[1] && n == DW_GROUP ? (inside - x + 1) / 2 : 0;
        if (here > 0) {
            int32_t run = here < words - j ? (int32_t)here : words - j;
            ptrdiff_t by = (ptrdiff_t)(x - call->in->w0) * call->in->pixel_stride;
            pack_inside(call, rows[0] + by, rows[1] + by, run, at);
            j += run;
            at += run * DW_ROWS;
            x += 2 * (run - 1);
            continue;
        }
        for (int i = 0; i < 2; i++)
            put(at + i, plane, zero, word_at(call, rows[i], x, n), word_at(call, rows[i], x + 1, n));
        j++;
        at += DW_ROWS;
    }
}

static void pack_planes(const struct call *call, const struct part *part, int32_t c, int32_t n)
{
    const struct nn_params *p = call->p;
    int32_t rows = (part->h1 - part->h0 - 1) * p->stride_h + p->kernel_h;
    int32_t words = ((part->w1 - part->w0 - 1) * p->stride_w + p->kernel_w + 1) / 2;
    for (int32_t r = 0; r < rows; r += 2)
        pack_rows(call, part, r, words, c, n);
}

/* ---- one channel ---- */

static const int8_t *weights_of(const struct call *call, int32_t c)
{
    return call->w->values + (ptrdiff_t)(c - call->w->c0) * call->p->kernel_h * call->p->kernel_w;
}

/* A row's weights beginning at an even or an odd column: words of two taps, zeros around. */
static void pair_weights(const struct call *call, const int8_t *row, int32_t odd, uint32_t words[PAIRS_MAX])
{
    int32_t n = call->p->kernel_w;
    for (int32_t i = 0; i < PAIRS_MAX; i++) {
        int32_t a = 2 * i - odd, b = a + 1;
        words[i] = dsp_pair(a >= 0 && a < n ? row[a] - call->zw : 0, b < n ? row[b] - call->zw : 0);
    }
}

static void any_window(const struct call *call, const struct part *part, int32_t c, const uint32_t *plane)
{
    const struct nn_params *p = call->p;
    uint32_t weights[2][7][PAIRS_MAX];
    int32_t taps = p->kernel_h;
    for (int32_t kh = 0; kh < taps; kh++)
        for (int32_t odd = 0; odd < 2; odd++)
            pair_weights(call, weights_of(call, c) + kh * p->kernel_w, odd, weights[odd][kh]);
    for (int32_t h = part->h0; h < part->h1; h++, plane += p->stride_h) {
        int8_t *y = (int8_t *)nn_out_pixel(call->out, h, part->w0) + (c - call->out->c0);
        for (int32_t w = 0; w < part->w1 - part->w0; w++, y += call->out->pixel_stride) {
            int32_t first = w * p->stride_w, sum = 0;
            int32_t n = ((first & 1) + p->kernel_w + 1) / 2;
            for (int32_t kh = 0; kh < taps; kh++) {
                const uint32_t *x = plane + (ptrdiff_t)(first >> 1) * DW_ROWS + kh;
                const uint32_t *v = weights[first & 1][kh];
                for (int32_t i = 0; i < n; i++, x += DW_ROWS)
                    sum = dsp_smlad(*x, v[i], sum);
            }
            nn_requantise(call->output, call->w, c - call->w->c0, &sum, 1, y);
        }
    }
}

/* As in conv_pairs.c: when doubled sums and one saturation give the same. */
static bool is_quick(const struct call *call, int32_t c)
{
    const struct nn_weights *w = call->w;
    int32_t at = c - w->c0;
    return call->output.lo == INT8_MIN && call->output.hi == INT8_MAX && w->shift[at] >= -31 &&
           w->shift[at] <= -2 && w->bias[at] > -(1 << 29) && w->bias[at] < 1 << 29;
}

static void window_3x3(const struct call *call, const struct part *part, int32_t c, const uint32_t *plane)
{
    const struct nn_params *p = call->p;
    int32_t at = c - call->w->c0, width = part->w1 - part->w0, quads = width / DW_QUAD;
    const int8_t *k = weights_of(call, c);
    struct dw3 d = {.x = plane,
                    .x_quads = (uint32_t)(quads * DW_QUAD * p->stride_w / 2 * DW_ROWS * 4),
                    .x_row = p->stride_h * 4u,
                    .mantissa = call->w->mantissa[at],
                    .factor = (int32_t)(1u << (32 + call->w->shift[at])),
                    .stride = (uint32_t)call->out->pixel_stride,
                    .rows = call->out->rows + (part->h0 - call->out->h0),
                    .rows_end = call->out->rows + (part->h1 - call->out->h0),
                    .offset =
                        (intptr_t)(part->w0 - call->out->w0) * call->out->pixel_stride + (c - call->out->c0),
                    .zero_point = call->output.zero_point,
                    .bias = call->w->bias[at] * 2,
                    .rest = (uint32_t)(width % DW_QUAD)};
    for (int i = 0; i < 3; i++, k += 3) {
        int32_t a = 2 * (k[0] - call->zw), b = 2 * (k[1] - call->zw), e = 2 * (k[2] - call->zw);
        d.w[2 * i] = dsp_pair(a, b);
        d.w[2 * i + 1] = dsp_pair(b, e);
    }
    if (p->stride_w == 1)
        dw3_stride1(&d);
    else
        dw3_stride2(&d);
}

static void run_part(const struct call *call, const struct part *part, int32_t c0, int32_t c1)
{
    const struct nn_params *p = call->p;
    bool small = p->kernel_h == 3 && p->kernel_w == 3 && (p->stride_w == 1 || p->stride_w == 2);
    for (int32_t c = c0; c < c1; c += DW_GROUP) {
        int32_t n = nn_min(c1 - c, DW_GROUP);
        pack_planes(call, part, c, n);
        for (int32_t i = 0; i < n; i++) {
            const uint32_t *plane = call->planes + (ptrdiff_t)i * call->words * DW_ROWS;
            if (small && is_quick(call, c + i))
                window_3x3(call, part, c + i, plane);
            else
                any_window(call, part, c + i, plane);
        }
    }
}

void nn_depthwise_pairs_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                           const struct nn_out *out, struct nn_scratch scratch)
{
    struct call call = {.p = p,
                        .w = w,
                        .in = in,
                        .out = out,
                        .zx = nn_zero_point(p->in_zero_point[0]),
                        .zw = nn_zero_point(p->weight_zero_point),
                        .output = nn_output(p)};
    int32_t c0 = nn_max(out->c0, w->c0), c1 = nn_min(out->c1, w->c1);
    if (!share_scratch(&call, scratch))
        return;
    int32_t rows = (DW_ROWS - p->kernel_h) / p->stride_h + 1;
    struct part part;
    for (part.h0 = out->h0; part.h0 < out->h1; part.h0 = part.h1) {
        part.h1 = nn_min(part.h0 + rows, out->h1);
        part.row = (int64_t)part.h0 * p->stride_h - p->pad_top;
        for (part.w0 = out->w0; part.w0 < out->w1; part.w0 = part.w1) {
            part.w1 = nn_min(part.w0 + call.width, out->w1);
            part.column = (int64_t)part.w0 * p->stride_w - p->pad_left;
            run_part(&call, &part, c0, c1);
        }
    }
}
