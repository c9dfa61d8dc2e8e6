/*
 * Depthwise convolution from NN_LAYOUT_PAIRS: multiplier 1, no dilation, windows up to 7x7. Four channels at
 * a time are taken apart into planes of int16 with the zero point subtracted and zeros outside the image, two
 * columns a word (tiles.h); then each channel runs over its plane: 3x3 with
 * stride 1 or 2 in the loops of tiles.c, every other window here. As many columns go at a time as
 * the scratch holds.
 */
#include "shared/nn/requantise.h"
#include "shared/nn/scratch.h"
#include "shared/nn/tiles.h"

enum { WINDOW_MAX = 7, PAIRS_MAX = 4 /* words of a row of as many weights, at either parity */ };

struct call {
    const struct nn_params *p;
    const struct nn_weights *w;
    const struct nn_in *in;
    const struct nn_out *out;
    int32_t zx, zw;
    struct nn_output output;
    uint32_t *planes; /* DW_GROUP of plane_words */
    int32_t width;    /* outputs of a row at a time */
};

/* Outputs under way: rows [h0, h1), columns [w0, w1). */
struct part {
    int32_t h0, h1, w0, w1;
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
    call->width = width;
    return true;
}

/* ---- planes ---- */

/* The words of a row, the same for all rows: some outside the image, perhaps one whose upper half is inside,
 * those wholly inside, perhaps one whose lower half is, then some outside. */
struct columns {
    int32_t words;
    int32_t first, inside, end;    /* words wholly inside are [first, end) */
    int32_t outside, beyond;       /* words [0, outside) and [beyond, words) are wholly outside */
    ptrdiff_t left, middle, right; /* bytes from a row pointer to the pixels of these three */
    uint32_t zero, none;           /* to be added while widening; four zero points */
};

static struct columns columns_of(const struct call *call, const struct part *part)
{
    const struct nn_params *p = call->p;
    const struct nn_in *in = call->in;
    int32_t x = part->w0 * p->stride_w - p->pad_left;
    struct columns c = {.words = ((part->w1 - part->w0 - 1) * p->stride_w + p->kernel_w + 1) / 2,
                        .zero = dsp_pair(-call->zx, -call->zx),
                        .none = (uint8_t)call->zx * 0x01010101u};
    c.first = x < 0 ? nn_min((1 - x) / 2, c.words) : 0;
    c.outside = c.first - (c.first > 0 && x + 2 * c.first == 1);
    int32_t left = in->width - (x + 2 * c.first);
    c.inside = left > 1 ? nn_min(left / 2, c.words - c.first) : 0;
    c.end = c.first + c.inside;
    int32_t after = x + 2 * c.end;
    c.beyond = c.end + (c.end < c.words && after >= 0 && after < in->width);
    c.left = -(ptrdiff_t)in->w0 * in->pixel_stride;
    c.middle = (ptrdiff_t)(x + 2 * c.first - in->w0) * in->pixel_stride;
    c.right = (ptrdiff_t)(after - in->w0) * in->pixel_stride;
    return c;
}

/* Four channels of a pixel of which n are there; no row: the zero point. */
static uint32_t pixel(const struct columns *c, const uint8_t *row, ptrdiff_t by, int32_t n)
{
    uint32_t word = c->none;
    if (row)
        memcpy(&word, row + by, (size_t)n);
    return word;
}

/* Rows r and r + 1 of a word of which only the upper (left border) or the lower half is inside the image. */
static inline void put_halves(uint32_t *at, uint32_t zero, uint32_t a, uint32_t b, uint32_t keep, int up)
{
    uint32_t x = dsp_add_even(zero, a), y = dsp_add_even(zero, b);
    at[0] = x << up & keep;
    at[1] = y << up & keep;
    at[2 * DW_ROWS] = x >> (16 - up) & keep;
    at[2 * DW_ROWS + 1] = y >> (16 - up) & keep;
    x = dsp_add_odd(zero, a);
    y = dsp_add_odd(zero, b);
    at[DW_ROWS] = x << up & keep;
    at[DW_ROWS + 1] = y << up & keep;
    at[3 * DW_ROWS] = x >> (16 - up) & keep;
    at[3 * DW_ROWS + 1] = y >> (16 - up) & keep;
}

/* Words [from, to) of rows r and r + 1 of the planes. */
static inline void clear(uint32_t *at, int32_t from, int32_t to)
{
    for (at += from * DW_PITCH; from < to; from++, at += DW_PITCH)
        for (int i = 0; i < DW_GROUP; i++)
            at[i * DW_ROWS] = at[i * DW_ROWS + 1] = 0;
}

/* One row. */
static inline void clear_row(uint32_t *at, int32_t words)
{
    for (int32_t j = 0; j < words; j++, at += DW_PITCH)
        at[0] = at[DW_ROWS] = at[2 * DW_ROWS] = at[3 * DW_ROWS] = 0;
}

/* Two rows of fewer than four channels, one may be outside the image: pixel by pixel. */
NN_NOINLINE static void pack_some(const struct columns *c, const uint8_t *a, const uint8_t *b, int32_t stride,
                                  int32_t n, uint32_t *at)
{
    ptrdiff_t by = c->middle;
    for (int32_t j = c->first; j < c->end; j++, by += 2 * (ptrdiff_t)stride) {
        uint32_t two[2][2] = {{pixel(c, a, by, n), pixel(c, a, by + stride, n)},
                              {pixel(c, b, by, n), pixel(c, b, by + stride, n)}};
        dw_pack((const uint8_t *)two[0], (const uint8_t *)two[1], 4, 1, c->zero, at + j * DW_PITCH);
    }
    if (c->outside < c->first)
        put_halves(at + c->outside * DW_PITCH, c->zero, pixel(c, a, c->left, n), pixel(c, b, c->left, n),
                   0xFFFF0000u, 16);
    if (c->end < c->beyond)
        put_halves(at + c->end * DW_PITCH, c->zero, pixel(c, a, c->right, n), pixel(c, b, c->right, n),
                   0xFFFF, 0);
}

/* Rows r and r + 1 of the planes of channels [c, c + n), which begin at a and b. */
static inline void pack_rows(const struct columns *c, const uint8_t *a, const uint8_t *b, int32_t stride,
                             uint32_t *at)
{
    if (c->inside > 0)
        dw_pack(a + c->middle, b + c->middle, stride, (uint32_t)c->inside, c->zero, at + c->first * DW_PITCH);
    if (c->outside < c->first)
        put_halves(at + c->outside * DW_PITCH, c->zero, dsp_load(a + c->left), dsp_load(b + c->left),
                   0xFFFF0000u, 16);
    if (c->end < c->beyond)
        put_halves(at + c->end * DW_PITCH, c->zero, dsp_load(a + c->right), dsp_load(b + c->right), 0xFFFF,
                   0);
}

/* All rows that the part needs; `rows` has them from the input's first channel on, NULL outside the image. */
NN_NOINLINE NN_ITCM static void pack_planes(const struct call *call, const struct columns *columns,
                                            const uint8_t *const *rows, int32_t n_rows, int32_t c, int32_t n)
{
    const struct columns own = *columns; /* that no store below could alias */
    ptrdiff_t by = c - call->in->c0;
    int32_t stride = call->in->pixel_stride;
    uint32_t *at = call->planes;
    for (const uint8_t *const *end = rows + n_rows; rows < end; rows += 2, at += 2) {
        const uint8_t *a = rows[0], *b = rows[1];
        if (!a && !b) {
            clear(at, 0, own.words);
            continue;
        }
        if (n == DW_GROUP)
            pack_rows(&own, (a ? a : b) + by, (b ? b : a) + by, stride, at);
        else
            pack_some(columns, a ? a + by : NULL, b ? b + by : NULL, stride, n, at);
        if (own.outside > 0)
            clear(at, 0, own.outside);
        if (own.beyond < own.words)
            clear(at, own.beyond, own.words);
        if (!a || !b)
            clear_row(a ? at + 1 : at, own.words);
    }
}

/* An even number of rows: nobody reads the last if it is one too many. */
static int32_t input_rows(const struct call *call, const struct part *part, const uint8_t *rows[DW_ROWS])
{
    const struct nn_params *p = call->p;
    int32_t n = (part->h1 - part->h0 - 1) * p->stride_h + p->kernel_h;
    int64_t h = (int64_t)part->h0 * p->stride_h - p->pad_top;
    for (int32_t r = 0; r < n; r++)
        rows[r] = nn_in_row(call->in, h + r);
    if (n & 1)
        rows[n] = rows[n - 1];
    return n + (n & 1);
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

/* Weights of one channel, for outputs that begin at an even or an odd column. */
struct window {
    uint32_t weights[2][WINDOW_MAX][PAIRS_MAX];
    int32_t rows, words, stride;
};

/* Four outputs from the words of their first; with stride 1 every other one begins at an odd column. */
static inline void quad_stride1(const struct window *v, const uint32_t *x, int32_t sums[DW_QUAD])
{
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (int32_t kh = 0; kh < v->rows; kh++, x++) {
        const uint32_t *at = x, *even = v->weights[0][kh], *odd = v->weights[1][kh];
        uint32_t here = *at, next;
        for (int32_t i = 0; i < v->words; i++, here = next) {
            uint32_t e = even[i], o = odd[i];
            next = *(at += DW_PITCH);
            a = dsp_smlad(here, e, a);
            b = dsp_smlad(here, o, b);
            c = dsp_smlad(next, e, c);
            d = dsp_smlad(next, o, d);
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

static inline void quad_stride2(const struct window *v, const uint32_t *x, int32_t sums[DW_QUAD])
{
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (int32_t kh = 0; kh < v->rows; kh++, x++) {
        const uint32_t *at = x, *even = v->weights[0][kh];
        for (int32_t i = 0; i < v->words; i++, at += DW_PITCH) {
            uint32_t e = even[i];
            a = dsp_smlad(at[0], e, a);
            b = dsp_smlad(at[DW_PITCH], e, b);
            c = dsp_smlad(at[2 * DW_PITCH], e, c);
            d = dsp_smlad(at[3 * DW_PITCH], e, d);
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* Any stride: n outputs from column `first` on. */
static void few(const struct window *v, const uint32_t *plane, int32_t first, int32_t n, int32_t *sums)
{
    for (int32_t k = 0; k < n; k++, first += v->stride) {
        sums[k] = 0;
        for (int32_t kh = 0; kh < v->rows; kh++) {
            const uint32_t *x = plane + (ptrdiff_t)(first >> 1) * DW_PITCH + kh;
            for (int32_t i = 0; i < v->words; i++, x += DW_PITCH)
                sums[k] = dsp_smlad(*x, v->weights[first & 1][kh][i], sums[k]);
        }
    }
}

static void set_window(const struct call *call, int32_t c, struct window *v)
{
    const struct nn_params *p = call->p;
    v->rows = p->kernel_h;
    v->stride = p->stride_w;
    v->words = p->stride_w == 2 ? (p->kernel_w + 1) / 2 : p->kernel_w / 2 + 1;
    for (int32_t kh = 0; kh < v->rows; kh++)
        for (int32_t odd = 0; odd < 2; odd++)
            pair_weights(call, weights_of(call, c) + kh * p->kernel_w, odd, v->weights[odd][kh]);
}

/* Outputs of one row. */
static inline void window_row(const struct call *call, const struct window *v, int32_t c, bool quick,
                              const uint32_t *plane, int32_t width, int8_t *y)
{
    int32_t at = c - call->w->c0, stride = call->out->pixel_stride, zero_point = call->output.zero_point;
    int32_t bias = call->w->bias[at], mantissa = call->w->mantissa[at];
    int32_t factor = quick ? (int32_t)(1u << (32 + call->w->shift[at])) : 0;
    for (int32_t w = 0; w < width; w += DW_QUAD) {
        int32_t sums[DW_QUAD], n = nn_min(width - w, DW_QUAD);
        if (v->stride == 1)
            quad_stride1(v, plane + (ptrdiff_t)(w >> 1) * DW_PITCH, sums);
        else if (v->stride == 2)
            quad_stride2(v, plane + (ptrdiff_t)w * DW_PITCH, sums);
        else
            few(v, plane, w * v->stride, n, sums);
        for (int32_t i = 0; i < n; i++, y += stride) {
            if (quick) {
                int32_t s = dsp_smmulr((sums[i] + bias) * 2, mantissa);
                *y = (int8_t)dsp_ssat8(dsp_smmlar(s + (s >> 31), factor, zero_point));
            } else {
                nn_requantise(call->output, call->w, at, &sums[i], 1, y);
            }
        }
    }
}

NN_NOINLINE NN_ITCM static void any_window(const struct call *call, const struct part *part, int32_t c,
                                           bool quick, const uint32_t *plane)
{
    struct window v;
    set_window(call, c, &v);
    for (int32_t h = part->h0; h < part->h1; h++, plane += call->p->stride_h) {
        int8_t *y = (int8_t *)nn_out_pixel(call->out, h, part->w0) + (c - call->out->c0);
        window_row(call, &v, c, quick, plane, part->w1 - part->w0, y);
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

NN_NOINLINE NN_ITCM static void window_3x3(const struct call *call, const struct part *part, int32_t c,
                                           const uint32_t *plane)
{
    const struct nn_params *p = call->p;
    int32_t at = c - call->w->c0, width = part->w1 - part->w0, quads = width / DW_QUAD;
    int32_t twice = 2 * call->zw;
    const int8_t *k = weights_of(call, c);
    struct dw3 d = {.x = plane,
                    .x_quads = (uint32_t)(quads * DW_QUAD * p->stride_w / 2 * DW_PITCH * 4),
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
        int32_t a = 2 * k[0] - twice, b = 2 * k[1] - twice, e = 2 * k[2] - twice;
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
    struct columns columns = columns_of(call, part);
    const uint8_t *rows[DW_ROWS];
    int32_t n_rows = input_rows(call, part, rows);
    for (int32_t c = c0; c < c1; c += DW_GROUP) {
        int32_t n = nn_min(c1 - c, DW_GROUP);
        pack_planes(call, &columns, rows, n_rows, c, n);
        for (int32_t i = 0; i < n; i++) {
            const uint32_t *plane = call->planes + i * DW_ROWS;
            bool quick = is_quick(call, c + i);
            if (small && quick)
                window_3x3(call, part, c + i, plane);
            else
                any_window(call, part, c + i, quick, plane);
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
        for (part.w0 = out->w0; part.w0 < out->w1; part.w0 = part.w1) {
            part.w1 = nn_min(part.w0 + call.width, out->w1);
            run_part(&call, &part, c0, c1);
        }
    }
}
