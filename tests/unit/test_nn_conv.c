/*
 * Convolutions against the sum written out in 64 bits, over random shapes, boxes, cuts and layouts. The
 * inputs' tables hold exactly the rows that the box needs, so that a kernel that reads another row fails.
 */
#include "shared/nn/nn.h"
#include "tests/support/fixed_naive.h"
#include "tests/support/nn_map.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CHANNELS_MAX = 80 };

/* A layer with plain OHWI (or HWC) weights for all channels, and its maps. */
struct layer {
    struct nn_params p;
    int32_t k0, k1, c; /* input channels read (of a group), output channels */
    bool depthwise;
    int8_t *plain, *blocked;
    int32_t mantissa[CHANNELS_MAX], shift[CHANNELS_MAX], bias[CHANNELS_MAX];
    struct map x, y;
};

static void random_multipliers(struct layer *l, struct prng *prng)
{
    for (int32_t c = 0; c < l->c; c++) {
        l->mantissa[c] = prng_range(prng, 1 << 30, INT32_MAX);
        l->shift[c] = prng_range(prng, -12, 1);
        l->bias[c] = prng_range(prng, -20000, 20000);
    }
}

static void random_window(struct layer *l, struct prng *prng)
{
    struct nn_params *p = &l->p;
    bool pointwise = prng_one_in(prng, 4);
    p->kernel_h = (uint16_t)(pointwise ? 1 : prng_range(prng, 1, 5));
    p->kernel_w = (uint16_t)(pointwise ? 1 : prng_range(prng, 1, 5));
    p->stride_h = (uint16_t)prng_range(prng, 1, 3);
    p->stride_w = (uint16_t)prng_range(prng, 1, 3);
    p->dilation_h = (uint16_t)prng_range(prng, 1, 3);
    p->dilation_w = (uint16_t)prng_range(prng, 1, 3);
    p->pad_top = (int16_t)prng_range(prng, 0, 6);
    p->pad_left = (int16_t)prng_range(prng, 0, 6);
    p->in_zero_point[0] = (int16_t)prng_range(prng, -128, 127);
    p->weight_zero_point = (int16_t)(prng_one_in(prng, 3) ? prng_range(prng, -128, 127) : 0);
    p->out_zero_point = (int16_t)prng_range(prng, -128, 127);
    p->act_lo = (int16_t)prng_range(prng, -128, 0);
    p->act_hi = (int16_t)prng_range(prng, 0, 127);
}

static struct layer random_layer(struct prng *prng, bool depthwise)
{
    struct layer l = {.depthwise = depthwise};
    random_window(&l, prng);
    l.p.multiplier = (uint16_t)(depthwise ? (prng_one_in(prng, 2) ? 1 : prng_range(prng, 2, 4)) : 0);
    int32_t in_c = prng_range(prng, 1, prng_one_in(prng, 8) ? 600 : 20);
    if (depthwise)
        in_c = prng_range(prng, 1, CHANNELS_MAX / l.p.multiplier);
    l.k0 = depthwise ? 0 : prng_range(prng, 0, in_c - 1);
    l.k1 = depthwise ? 1 : prng_range(prng, l.k0 + 1, in_c);
    l.c = depthwise ? in_c * l.p.multiplier : prng_range(prng, 1, prng_one_in(prng, 3) ? CHANNELS_MAX : 8);
    l.x = map_new(prng_range(prng, 1, 12), prng_range(prng, 1, 12), in_c, 1, prng_range(prng, 0, 3));
    l.y = map_new(prng_range(prng, 1, 9), prng_range(prng, 1, 9), l.c, 1, prng_range(prng, 0, 3));
    map_random(&l.x, prng);
    random_multipliers(&l, prng);
    size_t bytes = (size_t)l.c * l.p.kernel_h * l.p.kernel_w * (size_t)(l.k1 - l.k0);
    l.plain = malloc(bytes);
    l.blocked = malloc(bytes);
    prng_fill(prng, l.plain, bytes);
    return l;
}

static void free_layer(struct layer *l)
{
    free(l->plain);
    free(l->blocked);
    map_free(&l->x);
    map_free(&l->y);
}

static size_t plain_index(const struct layer *l, int32_t c, int32_t kh, int32_t kw, int32_t k)
{
    if (l->depthwise)
        return (size_t)((kh * l->p.kernel_w + kw) * l->c + c);
    return (size_t)(((c * l->p.kernel_h + kh) * l->p.kernel_w + kw) * (l->k1 - l->k0) + k - l->k0);
}

/* The sum over input channels [ka, kb) without bias. */
static int64_t naive_sum(const struct layer *l, int32_t h, int32_t w, int32_t c, int32_t ka, int32_t kb)
{
    const struct nn_params *p = &l->p;
    int64_t sum = 0;
    for (int32_t kh = 0; kh < p->kernel_h; kh++)
        for (int32_t kw = 0; kw < p->kernel_w; kw++)
            for (int32_t k = ka; k < kb; k++) {
                int32_t ih = h * p->stride_h - p->pad_top + kh * p->dilation_h;
                int32_t iw = w * p->stride_w - p->pad_left + kw * p->dilation_w;
                if (ih < 0 || ih >= l->x.h || iw < 0 || iw >= l->x.w)
                    continue;
                int64_t x = map_s8(&l->x, ih, iw, l->depthwise ? c / p->multiplier : k) - p->in_zero_point[0];
                sum += x * (l->plain[plain_index(l, c, kh, kw, k)] - p->weight_zero_point);
            }
    return sum;
}

static int64_t naive_finish(const struct layer *l, int64_t sum, int32_t c)
{
    int64_t y = naive_scale(sum + l->bias[c], l->mantissa[c], l->shift[c]) + l->p.out_zero_point;
    return naive_clamp(y, l->p.act_lo, l->p.act_hi);
}

/* A slice of output channels [c0, c1) and input channels [k0, k1) in layout 0 with the given block. */
static struct nn_weights slice(struct layer *l, int32_t c0, int32_t c1, int32_t k0, int32_t k1, int32_t block)
{
    size_t n = 0;
    if (l->depthwise) {
        for (int32_t t = 0; t < l->p.kernel_h * l->p.kernel_w; t++)
            for (int32_t c = c0; c < c1; c++)
                l->blocked[n++] = l->plain[(size_t)(t * l->c + c)];
    } else {
        for (int32_t start = k0; start < k1; start += block)
            for (int32_t c = c0; c < c1; c++)
                for (int32_t kh = 0; kh < l->p.kernel_h; kh++)
                    for (int32_t kw = 0; kw < l->p.kernel_w; kw++)
                        for (int32_t k = start; k < k1 && k < start + block; k++)
                            l->blocked[n++] = l->plain[plain_index(l, c, kh, kw, k)];
    }
    return (struct nn_weights){l->blocked, l->mantissa + c0, l->shift + c0, l->bias + c0, c0, c1, k0, k1,
                               block};
}

/* A random box of y; the input table holds just its rows. */
static struct nn_out random_box(struct layer *l, const struct map *y, struct map_rows *rows,
                                struct prng *prng)
{
    int32_t h0 = prng_range(prng, 0, y->h - 1), w0 = prng_range(prng, 0, y->w - 1),
            c0 = prng_range(prng, 0, l->c - 1);
    return map_out(y, rows, h0, prng_range(prng, h0 + 1, y->h), w0, prng_range(prng, w0 + 1, y->w), c0,
                   prng_range(prng, c0 + 1, l->c));
}

static struct nn_in rows_needed(const struct layer *l, const struct nn_out *out, struct map_rows *rows,
                                struct prng *prng)
{
    int32_t h0 = out->h0 * l->p.stride_h - l->p.pad_top;
    int32_t h1 = (out->h1 - 1) * l->p.stride_h - l->p.pad_top + (l->p.kernel_h - 1) * l->p.dilation_h + 1;
    return map_in(&l->x, rows, h0 - prng_range(prng, 0, 2), h1, 0,
                  prng_range(prng, 0, l->depthwise ? 0 : l->k0));
}

#define EACH(h, w, c, out)                            \
    for (int32_t h = (out).h0; h < (out).h1; h++)     \
        for (int32_t w = (out).w0; w < (out).w1; w++) \
            for (int32_t c = (out).c0; c < (out).c1; c++)

static void conv_equals_its_definition_over_any_box(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    struct map_rows rows;
    for (int round = 0; round < 400; round++) {
        struct layer l = random_layer(&prng, false);
        struct nn_out out = random_box(&l, &l.y, &rows, &prng);
        struct nn_in in = rows_needed(&l, &out, &rows, &prng);
        int32_t c0 = prng_range(&prng, 0, out.c0), c1 = prng_range(&prng, out.c1, l.c);
        int32_t block = prng_range(&prng, 1, l.k1 - l.k0);
        struct nn_weights w = slice(&l, c0, c1, l.k0, l.k1, prng_one_in(&prng, 2) ? l.k1 - l.k0 : block);
        nn_conv_s8(&l.p, &w, &in, l.k0, l.k1, &out);
        EACH(h, x, c, out)
        assert_int_equal(map_s8(&l.y, h, x, c), naive_finish(&l, naive_sum(&l, h, x, c, l.k0, l.k1), c));
        free_layer(&l);
    }
}

static void depthwise_equals_its_definition_over_any_box(void **state)
{
    (void)state;
    struct prng prng = prng_seed(2);
    struct map_rows rows;
    for (int round = 0; round < 400; round++) {
        struct layer l = random_layer(&prng, true);
        struct nn_out out = random_box(&l, &l.y, &rows, &prng);
        struct nn_in in = rows_needed(&l, &out, &rows, &prng);
        struct nn_weights w =
            slice(&l, prng_range(&prng, 0, out.c0), prng_range(&prng, out.c1, l.c), 0, 1, 1);
        nn_depthwise_s8(&l.p, &w, &in, &out);
        EACH(h, x, c, out)
        assert_int_equal(map_s8(&l.y, h, x, c), naive_finish(&l, naive_sum(&l, h, x, c, 0, 1), c));
        free_layer(&l);
    }
}

/* Adds [k0, k1) in random parts, in random order of halves, from slices of random extent and block. */
static void accumulate_in_parts(struct layer *l, const struct nn_in *in, const struct nn_out *out, int32_t k0,
                                int32_t k1, struct prng *prng)
{
    if (k1 - k0 > 1 && !prng_one_in(prng, 3)) {
        int32_t middle = prng_range(prng, k0 + 1, k1 - 1);
        bool swap = prng_one_in(prng, 2);
        accumulate_in_parts(l, in, out, swap ? middle : k0, swap ? k1 : middle, prng);
        accumulate_in_parts(l, in, out, swap ? k0 : middle, swap ? middle : k1, prng);
        return;
    }
    int32_t s0 = prng_range(prng, l->k0, k0), s1 = prng_range(prng, k1, l->k1);
    struct nn_weights w = slice(l, out->c0, out->c1, s0, s1, prng_range(prng, 1, s1 - s0));
    nn_conv_acc_s32(&l->p, &w, in, k0, k1, out);
}

static void sums_of_any_channel_partition_finish_to_the_whole(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    struct map_rows rows;
    for (int round = 0; round < 200; round++) {
        struct layer l = random_layer(&prng, false);
        struct map sums = map_new(l.y.h, l.y.w, l.c, 4, prng_range(&prng, 0, 2));
        struct nn_out out = random_box(&l, &sums, &rows, &prng);
        struct nn_in in = rows_needed(&l, &out, &rows, &prng);
        map_random(&sums, &prng);
        nn_zero_s32(&out);
        accumulate_in_parts(&l, &in, &out, l.k0, l.k1, &prng);
        EACH(h, x, c, out)
        assert_int_equal(map_s32(&sums, h, x, c), naive_sum(&l, h, x, c, l.k0, l.k1));
        struct map_rows final;
        struct nn_in from = map_in(&sums, &final, out.h0, out.h1, out.w0, out.c0);
        struct nn_out to = map_out(&l.y, &final, out.h0, out.h1, out.w0, out.w1, out.c0, out.c1);
        struct nn_weights w = slice(&l, out.c0, out.c1, l.k0, l.k1, 1);
        nn_finish_s8(&l.p, &w, &from, &to);
        EACH(h, x, c, out)
        assert_int_equal(map_s8(&l.y, h, x, c), naive_finish(&l, map_s32(&sums, h, x, c), c));
        map_free(&sums);
        free_layer(&l);
    }
}

static void acc_and_zero_touch_only_their_box(void **state)
{
    (void)state;
    struct prng prng = prng_seed(4);
    struct map_rows rows;
    for (int round = 0; round < 100; round++) {
        struct layer l = random_layer(&prng, false);
        struct map sums = map_new(l.y.h, l.y.w, l.c, 4, 1), before = map_new(l.y.h, l.y.w, l.c, 4, 1);
        map_random(&sums, &prng);
        memcpy(before.bytes, sums.bytes, (size_t)sums.h * (size_t)sums.row_stride);
        struct nn_out out = random_box(&l, &sums, &rows, &prng);
        struct nn_in in = rows_needed(&l, &out, &rows, &prng);
        struct nn_weights w = slice(&l, 0, l.c, l.k0, l.k1, l.k1 - l.k0);
        nn_zero_s32(&out);
        nn_conv_acc_s32(&l.p, &w, &in, l.k0, l.k1, &out);
        EACH(h, x, c, out)
        memcpy(map_at(&sums, h, x, c), map_at(&before, h, x, c), 4);
        assert_memory_equal(sums.bytes, before.bytes, (size_t)sums.h * (size_t)sums.row_stride);
        map_free(&sums);
        map_free(&before);
        free_layer(&l);
    }
}

static void finish_in_place_equals_finish_elsewhere(void **state)
{
    (void)state;
    struct prng prng = prng_seed(5);
    struct map_rows rows;
    for (int round = 0; round < 200; round++) {
        struct layer l = random_layer(&prng, false);
        struct map sums = map_new(l.y.h, l.y.w, l.c, 4, prng_range(&prng, 0, 1));
        for (int32_t h = 0; h < sums.h; h++)
            for (int32_t x = 0; x < sums.w * (sums.pixel_stride / 4); x++)
                *(int32_t *)map_at(&sums, h, 0, x) = prng_range(&prng, -300000, 300000);
        struct nn_weights w = slice(&l, 0, l.c, l.k0, l.k1, 1);
        struct nn_out elsewhere = map_out_all(&l.y, &rows);
        struct nn_in in = map_in(&sums, &rows, 0, sums.h, 0, 0);
        nn_finish_s8(&l.p, &w, &in, &elsewhere);
        /* the same memory, packed or with the sums' strides */
        struct map over = sums;
        over.element = 1;
        if (prng_one_in(&prng, 2)) {
            over.pixel_stride = over.c;
            over.row_stride = over.c * over.w;
        }
        struct nn_out place = map_out_all(&over, &rows);
        nn_finish_s8(&l.p, &w, &in, &place);
        struct nn_out all = elsewhere;
        EACH(h, x, c, all)
        assert_int_equal(map_s8(&over, h, x, c), map_s8(&l.y, h, x, c));
        map_free(&sums);
        free_layer(&l);
    }
}

static void a_strip_equals_the_whole(void **state)
{
    (void)state;
    struct prng prng = prng_seed(6);
    struct map_rows rows;
    for (int round = 0; round < 200; round++) {
        struct layer l = random_layer(&prng, prng_one_in(&prng, 2));
        struct map strips = map_new(l.y.h, l.y.w, l.c, 1, 0);
        struct nn_weights w = slice(&l, 0, l.c, l.k0, l.k1, l.k1 - l.k0);
        for (int32_t cut = 0, end; cut < l.y.h; cut = end) {
            end = prng_range(&prng, cut + 1, l.y.h);
            struct nn_out out = map_out(&strips, &rows, cut, end, 0, l.y.w, 0, l.c);
            struct nn_in in = rows_needed(&l, &out, &rows, &prng);
            if (l.depthwise)
                nn_depthwise_s8(&l.p, &w, &in, &out);
            else
                nn_conv_s8(&l.p, &w, &in, l.k0, l.k1, &out);
        }
        struct nn_out whole = map_out_all(&l.y, &rows);
        struct nn_in in = rows_needed(&l, &whole, &rows, &prng);
        if (l.depthwise)
            nn_depthwise_s8(&l.p, &w, &in, &whole);
        else
            nn_conv_s8(&l.p, &w, &in, l.k0, l.k1, &whole);
        EACH(h, x, c, whole)
        assert_int_equal(map_s8(&strips, h, x, c), map_s8(&l.y, h, x, c));
        map_free(&strips);
        free_layer(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_equals_its_definition_over_any_box),
        cmocka_unit_test(depthwise_equals_its_definition_over_any_box),
        cmocka_unit_test(sums_of_any_channel_partition_finish_to_the_whole),
        cmocka_unit_test(acc_and_zero_touch_only_their_box),
        cmocka_unit_test(finish_in_place_equals_finish_elsewhere),
        cmocka_unit_test(a_strip_equals_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
