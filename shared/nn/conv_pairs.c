/*
 * Convolution from NN_LAYOUT_PAIRS. A block of output pixels is widened once into scratch, four pixels (a
 * tile) side by side; then for each pair of output channels the weights are widened into scratch and go over
 * all tiles. Input and weight zero points are subtracted while widening and what lies outside the image is
 * zero there, so borders and partial channels need no case later.
 *
 * Where every channel's multiplier and bias allow it (`quick`), activations are widened doubled: the sums are
 * then twice the true ones, which is what one instruction of the first rounding wants. Otherwise, and for a
 * channel without its partner, sums go through nn_requantise() or are added one by one.
 */
#include "shared/nn/scratch.h"
#include "shared/nn/requantise.h"
#include "shared/nn/tiles.h"

enum {
    PIXEL_ROUND = TILE_PIXELS - 1,
    POINTER_BYTES = 8,  /* on any target: a host sizes for a board */
    SOLID_MAX = 1 << 29 /* bytes of a row, that gather_solid need not compute in 64 bits */
};

struct call {
    const struct nn_params *p;
    const struct nn_weights *w;
    const struct nn_in *in;
    const struct nn_out *out;
    int32_t c0, c1;
    int32_t zx, zw;
    struct nn_output output;
    bool sums, quick, solid;
    /* input channels [k0, k1) of the block that begins at `start`, `depth` deep */
    const int8_t *block;
    int32_t start, depth, k0, k1, taps;
    int32_t n, groups; /* weights of a channel that take part; groups of four of them, the last filled up */
    /* scratch */
    uint32_t *weights; /* of a channel pair: groups * 4 words */
    uint32_t *x;       /* of a tile: groups * 8 words */
    void **y;
    uint8_t *lines;   /* TILE_PIXELS windows of groups * 4 bytes */
    int32_t capacity; /* pixels */
};

/* ---- scratch ---- */

static int64_t groups_of(const struct nn_work *work)
{
    return ((int64_t)work->p->kernel_h * work->p->kernel_w * work->depth + 3) / 4;
}

static uint32_t scratch_for(const struct nn_work *work, int64_t pixels)
{
    int64_t g = groups_of(work), tiles = (pixels + PIXEL_ROUND) / TILE_PIXELS;
    int64_t bytes = g * 16 + g * 16 + tiles * (g * 32 + TILE_PIXELS * POINTER_BYTES);
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

uint32_t nn_conv_pairs_scratch_least(const struct nn_work *work)
{
    return scratch_for(work, 1);
}

uint32_t nn_conv_pairs_scratch_most(const struct nn_work *work)
{
    return scratch_for(work, work->pixels);
}

/* False: too little, nothing can be done. */
static bool share_scratch(struct call *call, struct nn_scratch scratch)
{
    uint32_t g = (uint32_t)call->groups, fixed = g * 32, tile = g * 32 + TILE_PIXELS * POINTER_BYTES;
    if (scratch.size < fixed + tile)
        return false;
    uint32_t tiles = (scratch.size - fixed) / tile;
    char *at = scratch.bytes;
    call->y = (void **)(void *)at;
    at += tiles * TILE_PIXELS * POINTER_BYTES;
    call->weights = (uint32_t *)(void *)at;
    call->x = (uint32_t *)(void *)(at + g * 16);
    call->lines = (uint8_t *)(at + g * 16 + tiles * g * 32);
    call->capacity = (int32_t)(tiles > INT16_MAX ? INT16_MAX : tiles) * TILE_PIXELS;
    return true;
}

/* ---- weights ---- */

/* Weight number e of the block of channel c (from w->c0). */
static int8_t weight_at(const struct call *call, int32_t c, int32_t e)
{
    int32_t all = call->taps * call->depth, channels = call->w->c1 - call->w->c0;
    const int8_t *pair = call->block + (ptrdiff_t)(c & ~1) * all;
    int32_t full = all / 4, g = e / 4;
    if (c == channels - 1 && (c & 1) == 0)
        return pair[e];
    if (g < full)
        return pair[g * 8 + (c & 1) * 4 + e % 4];
    return pair[full * 8 + (c & 1) * (all % 4) + e % 4];
}

/* Groups [from, groups) of a pair, weight by weight; a channel that is missing gets zeros. */
static void unpack_slowly(const struct call *call, int32_t c, int32_t from)
{
    int32_t wide = call->k1 - call->k0, channels = call->w->c1 - call->w->c0;
    for (int32_t e = from * 4; e < call->groups * 4; e++) {
        int32_t at = e / wide * call->depth + (call->k0 - call->start) + e % wide;
        for (int32_t i = 0; i < 2; i++) {
            int32_t v = e < call->n && c + i < channels ? weight_at(call, c + i, at) - call->zw : 0;
            uint32_t *word = &call->weights[e / 4 * 4 + (e & 1) * 2 + i];
            *word = e & 2 ? dsp_lows(*word, (uint32_t)v) : (uint32_t)v & 0xFFFF;
        }
    }
}

/* The pair that begins with the even channel c. */
static void unpack(const struct call *call, int32_t c)
{
    int32_t all = call->taps * call->depth, skip = call->k0 - call->start;
    bool run = call->n == all || (call->taps == 1 && skip % 4 == 0);
    int32_t whole = run ? nn_min(call->n / 4, all / 4 - skip / 4) : 0;
    const int8_t *from = call->block + (ptrdiff_t)c * all + (ptrdiff_t)skip * 2;
    if (c + 1 >= call->w->c1 - call->w->c0)
        whole = 0;
    if (call->zw == 0 && ((uintptr_t)from & 3) == 0) {
        if (whole > 0)
            tiles_unpack(from, (uint32_t)whole, call->weights);
    } else {
        uint32_t zero = dsp_pair(-call->zw, -call->zw), *to = call->weights;
        for (int32_t g = 0; g < whole; g++, from += 8, to += 4) {
            uint32_t a = dsp_load(from), b = dsp_load(from + 4);
            to[0] = dsp_add_even(zero, a);
            to[1] = dsp_add_even(zero, b);
            to[2] = dsp_add_odd(zero, a);
            to[3] = dsp_add_odd(zero, b);
        }
    }
    if (whole < call->groups)
        unpack_slowly(call, c, whole);
}

/* ---- activations ---- */

/* Four bytes widened, less the zero point, doubled where sums are. */
struct widening {
    uint32_t zero, first;
    bool twice;
};

static inline void widen(const struct widening *w, uint32_t bytes, uint32_t *even, uint32_t *odd)
{
    *even = dsp_add_even(w->first, bytes);
    *odd = dsp_add_odd(w->first, bytes);
    if (w->twice) {
        *even = dsp_add_even(*even, bytes);
        *odd = dsp_add_odd(*odd, bytes);
    }
}

/* The first n bytes at `at`, filled up to a word with the zero point. */
static uint32_t part_word(const struct call *call, const uint8_t *at, int32_t n)
{
    uint32_t word = (uint8_t)call->zx * 0x01010101u;
    for (int32_t i = 0; i < n; i++)
        word = (word & ~(0xFFu << 8 * i)) | (uint32_t)at[i] << 8 * i;
    return word;
}

NN_ITCM static void pack_twice(const uint8_t *const from[TILE_PIXELS], int32_t groups, uint32_t zero,
                               uint32_t *x)
{
    const uint8_t *a = from[0], *b = from[1], *c = from[2], *d = from[3];
    for (; groups > 0; groups--, a += 4, b += 4, c += 4, d += 4, x += TILE_WORDS) {
        uint32_t p = dsp_load(a), q = dsp_load(b), r = dsp_load(c), s = dsp_load(d);
        x[0] = dsp_add_even(dsp_add_even(zero, p), p);
        x[1] = dsp_add_even(dsp_add_even(zero, q), q);
        x[2] = dsp_add_even(dsp_add_even(zero, r), r);
        x[3] = dsp_add_even(dsp_add_even(zero, s), s);
        x[4] = dsp_add_odd(dsp_add_odd(zero, p), p);
        x[5] = dsp_add_odd(dsp_add_odd(zero, q), q);
        x[6] = dsp_add_odd(dsp_add_odd(zero, r), r);
        x[7] = dsp_add_odd(dsp_add_odd(zero, s), s);
    }
}

/* A tile from four byte strings of call->n values, or filled up to whole groups (`filled`). */
static void pack_tile(const struct call *call, const uint8_t *const from[TILE_PIXELS], bool filled,
                      uint32_t *x)
{
    struct widening w = {.twice = call->quick};
    int32_t by = w.twice ? -2 * call->zx : -call->zx, whole = filled ? call->groups : call->n / 4;
    w.first = dsp_pair(by, by);
    if (w.twice) {
        pack_twice(from, whole, w.first, x);
        x += whole * TILE_WORDS;
    } else {
        for (int32_t g = 0; g < whole; g++, x += TILE_WORDS)
            for (int32_t i = 0; i < TILE_PIXELS; i++)
                widen(&w, dsp_load(from[i] + 4 * g), &x[i], &x[TILE_PIXELS + i]);
    }
    for (int32_t i = 0; i < TILE_PIXELS && whole < call->groups; i++)
        widen(&w, part_word(call, from[i] + 4 * whole, call->n % 4), &x[i], &x[TILE_PIXELS + i]);
}

static inline void copy_bytes(uint8_t *to, const uint8_t *from, int32_t n)
{
    for (; n >= 4; n -= 4, to += 4, from += 4) {
        uint32_t word = dsp_load(from);
        memcpy(to, &word, sizeof word);
    }
    for (; n > 0; n--)
        *to++ = *from++;
}

/* The window of the output pixel (h, w), [kernel_h][kernel_w][k1 - k0], the zero point outside the image;
 * any dilation, any part of the channels. */
NN_NOINLINE static void gather_any(const struct call *call, int32_t h, int32_t w, uint8_t *line)
{
    const struct nn_params *p = call->p;
    struct nn_taps rows = nn_taps_h(p, call->in, h), columns = nn_taps_w(p, call->in, w);
    int32_t deep = call->k1 - call->k0, row_bytes = p->kernel_w * deep;
    memset(line, (uint8_t)call->zx, (size_t)call->groups * 4);
    for (int32_t kh = rows.first; kh < rows.last; kh++) {
        const void *row = nn_in_row(call->in, rows.origin + (int64_t)kh * rows.step);
        for (int32_t kw = columns.first; row && kw < columns.last; kw++)
            copy_bytes(line + kh * row_bytes + kw * deep,
                       (const uint8_t *)nn_in_s8(call->in, row, columns.origin + (int64_t)kw * columns.step,
                                                 call->k0),
                       deep);
    }
}

/* A row of n bytes of some pixels' windows, all inside the image, `step` bytes from one to the next; by
 * words, of which the last may overlap the one before. */
static inline void copy_rows(uint8_t *to, int32_t next, const uint8_t *from, int32_t step, int32_t n,
                             int32_t pixels)
{
    if (n < 4 || n > 12) {
        for (; pixels > 0; pixels--, to += next, from += step)
            copy_bytes(to, from, n);
        return;
    }
    for (; pixels > 0; pixels--, to += next, from += step) {
        uint32_t a = dsp_load(from), b = dsp_load(from + (n > 8 ? 4 : 0)), c = dsp_load(from + n - 4);
        memcpy(to, &a, sizeof a);
        memcpy(to + (n > 8 ? 4 : 0), &b, sizeof b);
        memcpy(to + n - 4, &c, sizeof c);
    }
}

/* One row of a window that reaches out of the image by `before` and `after` bytes. */
NN_NOINLINE static void copy_part(uint8_t *to, const uint8_t *from, int32_t n, int32_t before, int32_t after,
                                  int32_t none)
{
    memset(to, none, (size_t)n);
    if (before + after < n)
        copy_bytes(to + before, from + before, n - before - after);
}

/* The windows of output pixels (h, w), (h, w + 1) and so on where a window's row lies side by side: its
 * channels are all that a pixel has, no dilation. */
NN_NOINLINE NN_ITCM static void gather_solid(const struct call *call, int32_t h, int32_t w, int32_t pixels,
                                             uint8_t *lines)
{
    const struct nn_params *p = call->p;
    const struct nn_in *in = call->in;
    int32_t deep = call->k1 - call->k0, n = p->kernel_w * deep, next = call->groups * 4;
    int32_t y = h * p->stride_h - p->pad_top - in->h0, y_end = y + p->kernel_h, step = p->stride_w * deep;
    int32_t x = (w * p->stride_w - p->pad_left) * deep, room = in->width * deep - n;
    ptrdiff_t by = (call->k0 - in->c0) - (ptrdiff_t)in->w0 * deep;
    uint8_t *end = lines + call->n;
    for (; y < y_end; y++, lines += n) {
        const uint8_t *row = y >= 0 && y < NN_ROWS_MAX ? in->rows[y] : NULL;
        uint8_t *line = lines;
        int32_t at = x, none = (uint8_t)call->zx;
        if (!row) {
            for (int32_t i = 0; i < pixels; i++, line += next)
                memset(line, none, (size_t)n);
            continue;
        }
        row += by;
        if (at >= 0 && at + (pixels - 1) * step <= room) {
            copy_rows(line, next, row + at, step, n, pixels);
            continue;
        }
        for (int32_t i = 0; i < pixels; i++, line += next, at += step)
            copy_part(line, row + at, n, nn_min(nn_max(-at, 0), n), nn_max(at - room, 0), none);
    }
    for (int32_t i = 0; i < pixels; i++, end += next)
        for (int32_t k = call->n; k < next; k++)
            end[k - call->n] = (uint8_t)call->zx;
}

/* Where the window's bytes of pixel (h, w) lie as they are, for a 1x1 inside the image; else NULL. */
static const uint8_t *in_place(const struct call *call, int32_t h, int32_t w)
{
    const struct nn_params *p = call->p;
    const struct nn_in *in = call->in;
    int32_t y = h * p->stride_h - p->pad_top - in->h0, x = w * p->stride_w - p->pad_left;
    if (x < 0 || x >= in->width || y < 0 || y >= NN_ROWS_MAX || !in->rows[y])
        return NULL;
    return (const uint8_t *)in->rows[y] + (ptrdiff_t)(x - in->w0) * in->pixel_stride + (call->k0 - in->c0);
}

/* Gathers windows for a tile; true if all four lie where they are. */
static bool find_windows(const struct call *call, const int32_t h[TILE_PIXELS], const int32_t w[TILE_PIXELS],
                         const uint8_t *from[TILE_PIXELS])
{
    int32_t found = 0;
    for (int32_t t = 0; t < TILE_PIXELS && call->taps == 1; t++)
        found += (from[t] = in_place(call, h[t], w[t])) != NULL;
    if (found == TILE_PIXELS)
        return true;
    uint8_t *line = call->lines;
    bool run = call->solid && h[0] == h[TILE_PIXELS - 1] && w[TILE_PIXELS - 1] - w[0] == TILE_PIXELS - 1;
    if (run)
        gather_solid(call, h[0], w[0], TILE_PIXELS, line);
    for (int32_t t = 0; t < TILE_PIXELS; t++, line += call->groups * 4) {
        from[t] = line;
        if (!run && call->solid)
            gather_solid(call, h[t], w[t], 1, line);
        else if (!run)
            gather_any(call, h[t], w[t], line);
    }
    return false;
}

/* Output pixels [first, first + n) of the box, row by row: their tiles and addresses. A tile that is not full
 * repeats its last pixel. */
NN_NOINLINE NN_ITCM static void pack_pixels(const struct call *call, int32_t first, int32_t n)
{
    const struct nn_out *out = call->out;
    int32_t width = out->w1 - out->w0, h = out->h0 + first / width, w = out->w0 + first % width;
    uint32_t *x = call->x;
    void **y = call->y;
    for (int32_t i = 0; i < n; i += TILE_PIXELS, y += TILE_PIXELS, x += call->groups * TILE_WORDS) {
        int32_t rows[TILE_PIXELS], columns[TILE_PIXELS];
        const uint8_t *from[TILE_PIXELS];
        for (int32_t t = 0; t < TILE_PIXELS; t++) {
            rows[t] = h;
            columns[t] = w;
            y[t] = nn_out_pixel(out, h, w);
            if (i + t + 1 < n && ++w == out->w1) {
                w = out->w0;
                h++;
            }
        }
        bool direct = find_windows(call, rows, columns, from);
        pack_tile(call, from, !direct, x);
    }
}

/* ---- outputs ---- */

static struct tiles tiles_of(const struct call *call)
{
    int32_t blocks = call->groups / 4;
    return (struct tiles){.w = call->weights,
                          .loop = call->weights + blocks * 16,
                          .rest = (uint32_t)(call->groups % 4),
                          .x = call->x};
}

static intptr_t offset_of(const struct call *call, int32_t c)
{
    return (intptr_t)(c - call->out->c0) * (call->sums ? 4 : 1);
}

/* Channels [c, c + n) of the pair whose first is `pair`, for pixels [first, last), tile by tile. */
static void one_by_one(const struct call *call, int32_t pair, int32_t c, int32_t n, int32_t first,
                       int32_t last)
{
    struct tiles t = tiles_of(call);
    for (int32_t i = first; i < last; i += TILE_PIXELS) {
        int32_t sums[2 * TILE_PIXELS];
        t.x = call->x + (ptrdiff_t)(i / TILE_PIXELS) * call->groups * TILE_WORDS;
        t.x_end = t.x + (ptrdiff_t)call->groups * TILE_WORDS;
        tiles_raw(&t, sums);
        for (int32_t k = 0; k < n * TILE_PIXELS; k++) {
            int32_t channel = c + k / TILE_PIXELS, pixel = i + k % TILE_PIXELS;
            int32_t sum = sums[(channel - pair) * TILE_PIXELS + k % TILE_PIXELS];
            char *y = (char *)call->y[pixel] + offset_of(call, channel);
            if (pixel >= last)
                continue;
            if (call->sums) {
                int32_t *at = (int32_t *)(void *)y;
                *at = fixed_add(*at, sum);
            } else {
                sum = call->quick ? sum >> 1 : sum;
                nn_requantise(call->output, call->w, channel - call->w->c0, &sum, 1, (int8_t *)y);
            }
        }
    }
}

static void run_pair(const struct call *call, int32_t c, int32_t pixels)
{
    const struct nn_weights *w = call->w;
    struct tiles t = tiles_of(call);
    int32_t tiles = call->sums ? pixels / TILE_PIXELS : (pixels + PIXEL_ROUND) / TILE_PIXELS;
    t.x_end = t.x + (ptrdiff_t)tiles * call->groups * TILE_WORDS;
    t.y = call->y;
    t.offset = offset_of(call, c);
    t.zero_point = call->output.zero_point;
    if (call->sums) {
        if (tiles > 0)
            tiles_add(&t);
        one_by_one(call, c, c, 2, tiles * TILE_PIXELS, pixels);
        return;
    }
    for (int i = 0; i < 2; i++) {
        int32_t at = c + i - w->c0;
        t.bias[i] = w->bias[at] * 2;
        t.scale[i].mantissa = w->mantissa[at];
        t.scale[i].factor = (int32_t)(1u << (32 + w->shift[at]));
    }
    tiles_finish(&t);
}

static void run_pixels(const struct call *call, int32_t pixels)
{
    int32_t base = call->w->c0;
    for (int32_t c = call->c0; c < call->c1;) {
        int32_t pair = base + ((c - base) & ~1);
        int32_t n = nn_min(call->c1, pair + 2) - c;
        unpack(call, pair - base);
        if (n == 2 && (call->sums || call->quick))
            run_pair(call, c, pixels);
        else
            one_by_one(call, pair, c, n, 0, pixels);
        c += n;
    }
}

/* Whether the quick way is exact: int8's own clamp, a right shift by 2 to 31, sums below 2^30. */
static bool is_quick(const struct call *call)
{
    const struct nn_weights *w = call->w;
    int64_t room = (1 << 30) - (int64_t)384 * (128 + (call->zw < 0 ? -call->zw : call->zw)) * call->n;
    if (call->output.lo != INT8_MIN || call->output.hi != INT8_MAX)
        return false;
    for (int32_t c = call->c0 - w->c0; c < call->c1 - w->c0; c++)
        if (w->shift[c] < -31 || w->shift[c] > -2 || w->bias[c] >= room || w->bias[c] <= -room)
            return false;
    return true;
}

static void run_block(struct call *call, struct nn_scratch scratch)
{
    const struct nn_out *out = call->out;
    call->n = call->taps * (call->k1 - call->k0);
    call->groups = (call->n + 3) / 4;
    call->quick = !call->sums && is_quick(call);
    int64_t deep = call->k1 - call->k0;
    call->solid = call->p->dilation_w <= 1 && call->p->dilation_h <= 1 && call->in->pixel_stride == deep &&
                  call->in->width * deep < SOLID_MAX && out->w1 * deep * call->p->stride_w < SOLID_MAX;
    if (!share_scratch(call, scratch))
        return;
    int32_t count = (out->h1 - out->h0) * (out->w1 - out->w0); /* 256 rows at most */
    for (int32_t first = 0; first < count; first += call->capacity) {
        int32_t n = nn_min(count - first, call->capacity);
        pack_pixels(call, first, n);
        run_pixels(call, n);
    }
}

static void run_call(struct call *call, int32_t ka, int32_t kb, struct nn_scratch scratch)
{
    const struct nn_weights *w = call->w;
    const struct nn_out *out = call->out;
    ka = nn_max(ka, w->k0);
    kb = nn_min(kb, w->k1);
    call->c0 = nn_max(out->c0, w->c0);
    call->c1 = nn_min(out->c1, w->c1);
    call->zx = nn_zero_point(call->p->in_zero_point[0]);
    call->zw = nn_zero_point(call->p->weight_zero_point);
    call->output = nn_output(call->p);
    call->taps = call->p->kernel_h * call->p->kernel_w;
    if (out->h1 <= out->h0 || out->w1 <= out->w0 || call->c0 >= call->c1)
        return;
    int32_t block = w->k_block > 0 ? w->k_block : w->k1 - w->k0;
    for (int32_t start = w->k0 + (ka - w->k0) / block * block; start < kb; start += block) {
        int32_t end = w->k1 - start < block ? w->k1 : start + block;
        call->block = w->values + (ptrdiff_t)(start - w->k0) * call->taps * (w->c1 - w->c0);
        call->start = start;
        call->depth = end - start;
        call->k0 = nn_max(start, ka);
        call->k1 = nn_min(end, kb);
        run_block(call, scratch);
    }
}

void nn_conv_pairs_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                      int32_t ka, int32_t kb, const struct nn_out *out, struct nn_scratch scratch)
{
    struct call call = {.p = p, .w = w, .in = in, .out = out};
    run_call(&call, ka, kb, scratch);
}

void nn_conv_pairs_acc_s32(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                           int32_t ka, int32_t kb, const struct nn_out *out, struct nn_scratch scratch)
{
    struct call call = {.p = p, .w = w, .in = in, .out = out, .sums = true};
    run_call(&call, ka, kb, scratch);
}
