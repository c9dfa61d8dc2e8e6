/*
 * All kernels that have no weights, against their definitions written out in double or 64-bit arithmetic,
 * over random boxes; and every kernel with nonsense for parameters, for the sanitizers.
 */
#include "shared/nn/nn.h"
#include "tests/support/fixed_naive.h"
#include "tests/support/nn_map.h"
#include "tests/support/prng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define EACH(h, w, c, out)                            \
    for (int32_t h = (out).h0; h < (out).h1; h++)     \
        for (int32_t w = (out).w0; w < (out).w1; w++) \
            for (int32_t c = (out).c0; c < (out).c1; c++)

static struct map random_map(struct prng *prng, int32_t element)
{
    int32_t h = prng_range(prng, 1, 10), w = prng_range(prng, 1, 10);
    int32_t c = prng_range(prng, 1, prng_one_in(prng, 3) ? 150 : 6);
    struct map map = map_new(h, w, c, element, prng_range(prng, 0, 3));
    map_random(&map, prng);
    return map;
}

static struct map same_shape(const struct map *map, struct prng *prng)
{
    struct map other = map_new(map->h, map->w, map->c, map->element, prng_range(prng, 0, 3));
    map_random(&other, prng);
    return other;
}

static struct nn_out random_box(const struct map *y, struct map_rows *rows, struct prng *prng)
{
    int32_t h0 = prng_range(prng, 0, y->h - 1), h1 = prng_range(prng, h0 + 1, y->h);
    int32_t w0 = prng_range(prng, 0, y->w - 1), w1 = prng_range(prng, w0 + 1, y->w);
    int32_t c0 = prng_range(prng, 0, y->c - 1), c1 = prng_range(prng, c0 + 1, y->c);
    return map_out(y, rows, h0, h1, w0, w1, c0, c1);
}

/* The rows of the box itself, pointing at a random corner at or before it. */
static struct nn_in same_rows(const struct map *x, struct map_rows *rows, const struct nn_out *out,
                              struct prng *prng)
{
    int32_t w0 = prng_range(prng, 0, out->w0), c0 = prng_range(prng, 0, out->c0);
    return map_in(x, rows, out->h0, out->h1, w0, c0);
}

static void random_activation(struct nn_params *p, struct prng *prng)
{
    p->out_zero_point = (int16_t)prng_range(prng, -128, 127);
    p->in_zero_point[0] = (int16_t)prng_range(prng, -128, 127);
    p->in_zero_point[1] = (int16_t)prng_range(prng, -128, 127);
    p->act_lo = (int16_t)prng_range(prng, -128, 0);
    p->act_hi = (int16_t)prng_range(prng, 0, 127);
}

static struct nn_params random_pool(struct prng *prng)
{
    struct nn_params p = {0};
    random_activation(&p, prng);
    p.kernel_h = (uint16_t)prng_range(prng, 1, 5);
    p.kernel_w = (uint16_t)prng_range(prng, 1, 5);
    p.stride_h = (uint16_t)prng_range(prng, 1, 3);
    p.stride_w = (uint16_t)prng_range(prng, 1, 3);
    p.dilation_h = p.dilation_w = 1;
    p.pad_top = (int16_t)prng_range(prng, 0, p.kernel_h - 1);
    p.pad_left = (int16_t)prng_range(prng, 0, p.kernel_w - 1);
    p.flags = (uint16_t)(prng_one_in(prng, 3)   ? NN_FLAG_MAX
                         : prng_one_in(prng, 2) ? NN_FLAG_LEGACY_UINT8
                                                : 0);
    return p;
}

/* The mean of n values of the given sum, as the operator rounds it. */
static double rounded_mean(int32_t flags, int64_t sum, int64_t n)
{
    if (flags & NN_FLAG_LEGACY_UINT8)
        return floor(((double)(sum + 128 * n) + (double)(n / 2)) / (double)n) - 128;
    return round((double)sum / (double)n);
}

static double naive_pool(const struct nn_params *p, const struct map *x, int32_t h, int32_t w, int32_t c)
{
    int64_t sum = 0, taps = 0;
    int32_t most = INT8_MIN;
    for (int32_t kh = 0; kh < p->kernel_h; kh++)
        for (int32_t kw = 0; kw < p->kernel_w; kw++) {
            int32_t ih = h * p->stride_h - p->pad_top + kh, iw = w * p->stride_w - p->pad_left + kw;
            if (ih < 0 || ih >= x->h || iw < 0 || iw >= x->w)
                continue;
            int32_t value = map_s8(x, ih, iw, c);
            sum += value;
            taps++;
            most = value > most ? value : most;
        }
    if (taps == 0)
        return 0;
    return p->flags & NN_FLAG_MAX ? most : rounded_mean(p->flags, sum, taps);
}

static void pool_counts_only_taps_inside_the_image(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    struct map_rows rows;
    for (int round = 0; round < 400; round++) {
        struct nn_params p = random_pool(&prng);
        struct map x = random_map(&prng, 1);
        struct map y =
            map_new((x.h + p.pad_top) / p.stride_h + 1, (x.w + p.pad_left) / p.stride_w + 1, x.c, 1, 1);
        struct nn_out out = random_box(&y, &rows, &prng);
        int32_t h0 = out.h0 * p.stride_h - p.pad_top, h1 = (out.h1 - 1) * p.stride_h - p.pad_top + p.kernel_h;
        struct nn_in in = map_in(&x, &rows, h0, h1, 0, prng_range(&prng, 0, out.c0));
        nn_pool_s8(&p, &in, x.h, &out);
        EACH(h, w, c, out)
        assert_int_equal(map_s8(&y, h, w, c),
                         (int)fmin(fmax(naive_pool(&p, &x, h, w, c), p.act_lo), p.act_hi));
        map_free(&x);
        map_free(&y);
    }
}

/* The reduced axes of `reduce` at coordinates (h, w, c) of the output. */
static int64_t naive_reduced(const struct map *x, uint32_t reduce, int32_t h, int32_t w, int32_t c)
{
    int64_t sum = 0;
    for (int32_t i = reduce & 1 ? 0 : h; i < (reduce & 1 ? x->h : h + 1); i++)
        for (int32_t j = reduce & 2 ? 0 : w; j < (reduce & 2 ? x->w : w + 1); j++)
            for (int32_t k = reduce & 4 ? 0 : c; k < (reduce & 4 ? x->c : c + 1); k++)
                sum += map_s8(x, i, j, k);
    return sum;
}

static void sums_of_any_row_parts_add_up(void **state)
{
    (void)state;
    struct prng prng = prng_seed(2);
    struct map_rows rows;
    for (int round = 0; round < 400; round++) {
        struct map x = random_map(&prng, 1);
        struct nn_params p = {.reduce = (uint16_t)prng_range(&prng, 1, 7)};
        struct map y = map_new(p.reduce & 1 ? 1 : x.h, p.reduce & 2 ? 1 : x.w, p.reduce & 4 ? 1 : x.c, 4,
                               prng_range(&prng, 0, 1));
        map_random(&y, &prng);
        struct nn_out out = random_box(&y, &rows, &prng);
        nn_zero_s32(&out);
        for (int32_t h = 0, end; h < x.h; h = end) {
            end = prng_range(&prng, h + 1, x.h);
            struct nn_in in = map_in(&x, &rows, h, end, 0, 0);
            int32_t middle = prng_range(&prng, 0, x.c);
            if (p.reduce & 4) /* channels in two parts as well */
                nn_sum_s32(&p, &in, h, end, middle, x.c, &out);
            nn_sum_s32(&p, &in, h, end, 0, p.reduce & 4 ? middle : x.c, &out);
        }
        EACH(h, w, c, out)
        assert_int_equal(map_s32(&y, h, w, c), naive_reduced(&x, p.reduce, h, w, c));
        map_free(&x);
        map_free(&y);
    }
}

static void finish_ends_means_and_averages(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    struct map_rows rows;
    for (int round = 0; round < 400; round++) {
        struct map x = random_map(&prng, 4), y = map_new(x.h, x.w, x.c, 1, 2);
        struct nn_params p = {0};
        random_activation(&p, &prng);
        bool mean = prng_one_in(&prng, 2);
        p.count = prng_range(&prng, 1, 70);
        p.flags = (uint16_t)(mean ? NN_FLAG_MEAN
                                  : NN_FLAG_AVERAGE | prng_range(&prng, 0, 1) * NN_FLAG_LEGACY_UINT8);
        p.m[0] = quant_mean_multiplier(exp2(prng_unit(&prng) * 4 - 2), p.count);
        for (int32_t h = 0; h < x.h; h++)
            for (int32_t i = 0; i < x.w * x.pixel_stride / 4; i++)
                *(int32_t *)map_at(&x, h, 0, i) = prng_range(&prng, -128 * p.count, 127 * p.count);
        struct nn_out out = random_box(&y, &rows, &prng);
        struct nn_in in = same_rows(&x, &rows, &out, &prng);
        nn_finish_s8(&p, NULL, &in, &out);
        EACH(h, w, c, out)
        {
            int64_t sum = map_s32(&x, h, w, c), want;
            if (mean)
                want =
                    naive_scale(sum - (int64_t)p.count * p.in_zero_point[0], p.m[0].mantissa, p.m[0].shift) +
                    p.out_zero_point;
            else
                want = (int64_t)rounded_mean(p.flags, sum, p.count);
            assert_int_equal(map_s8(&y, h, w, c), naive_clamp(want, p.act_lo, p.act_hi));
        }
        map_free(&x);
        map_free(&y);
    }
}

/* The second input of an element-wise operator: a whole map, a pixel or one value. */
static struct map second_input(const struct map *a, enum nn_bcast bcast, struct prng *prng)
{
    if (bcast == NN_BCAST_NONE)
        return same_shape(a, prng);
    struct map b = map_new(1, 1, bcast == NN_BCAST_PIXEL ? a->c : 1, 1, 0);
    map_random(&b, prng);
    return b;
}

static int8_t second_at(const struct map *b, enum nn_bcast bcast, int32_t h, int32_t w, int32_t c)
{
    if (bcast == NN_BCAST_NONE)
        return map_s8(b, h, w, c);
    return map_s8(b, 0, 0, bcast == NN_BCAST_PIXEL ? c : 0);
}

static int64_t naive_add(const struct nn_params *p, int32_t a, int32_t b)
{
    int64_t x = naive_scale((int64_t)(a - p->in_zero_point[0]) * (1 << 20), p->m[0].mantissa, p->m[0].shift);
    int32_t magnitude = p->m[1].mantissa < 0 ? -p->m[1].mantissa : p->m[1].mantissa;
    int64_t y = naive_scale((int64_t)(b - p->in_zero_point[1]) * (1 << 20), magnitude, p->m[1].shift);
    int64_t sum = p->m[1].mantissa < 0 ? x - y : x + y;
    return naive_scale(sum, p->m[2].mantissa, p->m[2].shift) + p->out_zero_point;
}

static int64_t naive_mul(const struct nn_params *p, int32_t a, int32_t b)
{
    int64_t product = (int64_t)(a - p->in_zero_point[0]) * (b - p->in_zero_point[1]);
    return naive_scale(product, p->m[0].mantissa, p->m[0].shift) + p->out_zero_point;
}

/* Parameters of ADD (SUB) as the importer would make them from scales. */
static void random_add(struct nn_params *p, struct prng *prng)
{
    double a = exp2(prng_unit(prng) * 4), b = exp2(prng_unit(prng) * 4), out = exp2(prng_unit(prng) * 4);
    double twice = 2 * (a > b ? a : b);
    p->count = 20;
    p->m[0] = quant_multiplier(a / twice);
    p->m[1] = quant_multiplier(b / twice);
    p->m[2] = quant_multiplier(twice / ((1 << 20) * out));
    if (prng_one_in(prng, 3)) { /* ties: few bits in the mantissa */
        p->m[1].mantissa &= ~0x3FF;
        p->m[1].mantissa |= 0x400;
        p->m[1].shift = 0;
    }
    if (prng_one_in(prng, 2))
        p->m[1].mantissa = -p->m[1].mantissa;
}

static void elementwise(uint64_t seed, bool multiply)
{
    struct prng prng = prng_seed(seed);
    struct map_rows rows, second;
    for (int round = 0; round < 400; round++) {
        enum nn_bcast bcast = (enum nn_bcast)prng_range(&prng, 0, 2);
        struct map a = random_map(&prng, 1), b = second_input(&a, bcast, &prng), y = same_shape(&a, &prng);
        struct nn_params p = {0};
        random_activation(&p, &prng);
        if (multiply)
            p.m[0] = quant_multiplier(exp2(prng_unit(&prng) * 12 - 12));
        else
            random_add(&p, &prng);
        struct map *to = prng_one_in(&prng, 3) ? &a : &y; /* in place */
        struct map before = same_shape(&a, &prng);
        for (int32_t h = 0; h < a.h; h++)
            for (int32_t w = 0; w < a.w; w++)
                memcpy(map_at(&before, h, w, 0), map_at(&a, h, w, 0), (size_t)a.c);
        struct nn_out out = random_box(to, &rows, &prng);
        struct nn_in ia = same_rows(&a, &rows, &out, &prng);
        struct nn_in ib = bcast ? map_in(&b, &second, 0, 1, 0, 0) : same_rows(&b, &second, &out, &prng);
        (multiply ? nn_mul_s8 : nn_add_s8)(&p, &ia, &ib, bcast, &out);
        EACH(h, w, c, out)
        {
            int32_t x0 = map_s8(&before, h, w, c), x1 = second_at(&b, bcast, h, w, c);
            int64_t want = multiply ? naive_mul(&p, x0, x1) : naive_add(&p, x0, x1);
            assert_int_equal(map_s8(to, h, w, c), naive_clamp(want, p.act_lo, p.act_hi));
        }
        map_free(&a);
        map_free(&b);
        map_free(&y);
        map_free(&before);
    }
}

static void add_and_sub_scale_both_and_round_once_more(void **state)
{
    (void)state;
    elementwise(4, false);
}

static void mul_scales_the_product(void **state)
{
    (void)state;
    elementwise(5, true);
}

static void a_tie_rounds_differently_for_sub_than_for_a_negative_factor(void **state)
{
    (void)state;
    /* 1.5 is a tie: 2 for SUB, which then subtracts it; -1 for the product with -0.75 */
    struct nn_params p = {.act_lo = -128, .act_hi = 127, .count = 1};
    p.m[0] = (struct quant_multiplier){1 << 30, 0};
    p.m[1] = (struct quant_multiplier){-(3 << 29), 0};
    p.m[2] = (struct quant_multiplier){1 << 30, 1};
    int8_t a = 0, b = 1, y = 0;
    const void *ra = &a, *rb = &b;
    void *ry = &y;
    struct nn_in ia = {&ra, 0, 0, 0, 1, 1}, ib = {&rb, 0, 0, 0, 1, 1};
    struct nn_out out = {&ry, 0, 1, 0, 1, 0, 1, 1};
    nn_add_s8(&p, &ia, &ib, NN_BCAST_NONE, &out);
    assert_int_equal(y, -2);
    assert_int_equal(naive_doubling_high(2, -(3 << 29)), -1);
}

static void lut_looks_up_each_element(void **state)
{
    (void)state;
    struct prng prng = prng_seed(6);
    struct map_rows rows;
    for (int round = 0; round < 100; round++) {
        int8_t table[256];
        prng_fill(&prng, table, sizeof table);
        struct map x = random_map(&prng, 1), y = same_shape(&x, &prng);
        struct nn_out out = random_box(&y, &rows, &prng);
        struct nn_in in = same_rows(&x, &rows, &out, &prng);
        nn_lut_s8(table, &in, &out);
        EACH(h, w, c, out)
        assert_int_equal(map_s8(&y, h, w, c), table[map_s8(&x, h, w, c) + 128]);
        map_free(&x);
        map_free(&y);
    }
}

static void copy_pads_and_permutes(void **state)
{
    (void)state;
    static const uint16_t perms[7][3] = {{0, 0, 0}, {0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct prng prng = prng_seed(7);
    struct map_rows rows;
    for (int round = 0; round < 600; round++) {
        struct map x = random_map(&prng, prng_one_in(&prng, 2) ? 1 : 4);
        struct nn_params p = {.fill = (int16_t)prng_range(&prng, -128, 127)};
        memcpy(p.perm, perms[prng_range(&prng, 0, 6)], sizeof p.perm);
        bool pad = prng_one_in(&prng, 2);
        p.pad_top = (int16_t)(pad ? prng_range(&prng, -3, 3) : 0);
        p.pad_left = (int16_t)(pad ? prng_range(&prng, -3, 3) : 0);
        p.pad_c = (int16_t)(pad ? prng_range(&prng, -3, 3) : 0);
        int32_t dims[3] = {x.h, x.w, x.c}, perm[3];
        for (int i = 0; i < 3; i++)
            perm[i] = p.perm[0] == p.perm[1] ? i : p.perm[i];
        struct map y = map_new(dims[perm[0]] + 2, dims[perm[1]] + 1, dims[perm[2]] + 2, x.element, 1);
        struct nn_out out = random_box(&y, &rows, &prng);
        struct nn_in in = map_in(&x, &rows, 0, x.h, 0, 0);
        nn_copy(&p, &in, x.h, x.c, x.element, &out);
        EACH(h, w, c, out)
        {
            int32_t at[3];
            at[perm[0]] = h - p.pad_top;
            at[perm[1]] = w - p.pad_left;
            at[perm[2]] = c - p.pad_c;
            bool inside = at[0] >= 0 && at[0] < x.h && at[1] >= 0 && at[1] < x.w && at[2] >= 0 && at[2] < x.c;
            if (x.element == 1)
                assert_int_equal(map_s8(&y, h, w, c), inside ? map_s8(&x, at[0], at[1], at[2]) : p.fill);
            else
                assert_int_equal(map_s32(&y, h, w, c), inside ? map_s32(&x, at[0], at[1], at[2]) : 0);
        }
        map_free(&x);
        map_free(&y);
    }
}

static void resize_reads_the_nearest_element_in_single_precision(void **state)
{
    (void)state;
    for (int32_t flags = 0; flags <= 48; flags += 16)
        for (int32_t in = 1; in <= 40; in++)
            for (int32_t out = 1; out <= 80; out++)
                for (int32_t o = 0; o < out; o++) {
                    bool corners = flags & NN_FLAG_ALIGN_CORNERS;
                    float scale =
                        corners && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
                    float at = ((float)o + (flags & NN_FLAG_HALF_PIXEL ? 0.5f : 0.0f)) * scale;
                    int32_t want = (int32_t)(corners ? roundf(at) : floorf(at));
                    assert_int_equal(nn_resize_source(o, in, out, (uint32_t)flags),
                                     want < in - 1 ? want : in - 1);
                }
    for (int32_t in = 1; in <= 40; in++) /* integer factors may be cut, so they must be exact */
        for (int32_t factor = 1; factor <= 8; factor++)
            for (int32_t o = 0; o < in * factor; o++)
                assert_int_equal(nn_resize_source(o, in, in * factor, 0), o / factor);
}

static void resize_copies_pixels_of_any_box(void **state)
{
    (void)state;
    struct prng prng = prng_seed(8);
    struct map_rows rows;
    for (int round = 0; round < 200; round++) {
        struct map x = random_map(&prng, 1);
        struct map y = map_new(prng_range(&prng, 1, 20), prng_range(&prng, 1, 20), x.c, 1, 1);
        struct nn_params p = {
            .in_h = (uint16_t)x.h, .in_w = (uint16_t)x.w, .out_h = (uint16_t)y.h, .out_w = (uint16_t)y.w};
        struct nn_out out = random_box(&y, &rows, &prng);
        int32_t h0 = nn_resize_source(out.h0, x.h, y.h, 0),
                h1 = nn_resize_source(out.h1 - 1, x.h, y.h, 0) + 1;
        struct nn_in in = map_in(&x, &rows, h0, h1, 0, prng_range(&prng, 0, out.c0));
        nn_resize_s8(&p, &in, &out);
        EACH(h, w, c, out)
        {
            int32_t ih = nn_resize_source(h, x.h, y.h, 0), iw = nn_resize_source(w, x.w, y.w, 0);
            assert_int_equal(map_s8(&y, h, w, c), map_s8(&x, ih, iw, c));
        }
        map_free(&x);
        map_free(&y);
    }
}

static void softmax_takes_each_pixel_on_its_own(void **state)
{
    (void)state;
    struct prng prng = prng_seed(9);
    struct map_rows rows;
    for (int round = 0; round < 100; round++) {
        struct map x = random_map(&prng, 1), y = same_shape(&x, &prng);
        struct quant_softmax q = quant_softmax_parameters(1.0, exp2(prng_unit(&prng) * 6 - 6));
        struct nn_params p = {.count = q.diff_min, .m = {q.m, {0, 0}, {0, 0}}};
        struct nn_out out = map_out_all(&y, &rows);
        struct nn_in in = map_in(&x, &rows, 0, x.h, 0, 0);
        nn_softmax_s8(&p, &in, &out);
        for (int32_t h = 0; h < x.h; h++)
            for (int32_t w = 0; w < x.w; w++) {
                int8_t pixel[256];
                quant_softmax_s8(q, map_at(&x, h, w, 0), x.c, pixel);
                assert_memory_equal(pixel, map_at(&y, h, w, 0), (size_t)x.c);
            }
        map_free(&x);
        map_free(&y);
    }
}

/* Everything random but the kernel's size, which the weights must match. */
static struct nn_params nonsense(struct prng *prng)
{
    struct nn_params p;
    prng_fill(prng, &p, sizeof p);
    if (prng_one_in(prng, 2)) {
        p.pad_top = (int16_t)prng_range(prng, -5, 5);
        p.pad_left = (int16_t)prng_range(prng, -5, 5);
        p.stride_h = (uint16_t)prng_range(prng, 0, 2);
        p.stride_w = (uint16_t)prng_range(prng, 0, 2);
        p.dilation_h = (uint16_t)prng_range(prng, 0, 2);
        p.dilation_w = (uint16_t)prng_range(prng, 0, 2);
        p.count = prng_range(prng, -1, 1);
    }
    return p;
}

static void kernels_are_defined_for_every_parameter(void **state)
{
    (void)state;
    struct prng prng = prng_seed(10);
    struct map_rows rows, more;
    int8_t values[4 * 3 * 3 * 4];
    int32_t words[3][4];
    for (int round = 0; round < 4000; round++) {
        struct map x = map_new(5, 5, 4, 1, 0), y = map_new(5, 5, 4, 1, 0), sums = map_new(5, 5, 4, 4, 0);
        map_random(&x, &prng);
        map_random(&sums, &prng);
        prng_fill(&prng, values, sizeof values);
        prng_fill(&prng, words, sizeof words);
        struct nn_params p = nonsense(&prng), q = p;
        struct nn_in in = map_in(&x, &rows, 0, 5, 0, 0), from = map_in(&sums, &more, 0, 5, 0, 0);
        struct nn_out out = map_out_all(&y, &rows), to = map_out_all(&sums, &more);
        struct nn_weights w = {values, words[0], words[1], words[2], 0, 4, 0, 4, prng_range(&prng, -1, 5)};
        nn_pool_s8(&p, &in, prng_range(&prng, 0, 5), &out);
        nn_sum_s32(&p, &in, prng_range(&prng, -9, 9), prng_range(&prng, -9, 9), 0, 4, &to);
        nn_add_s8(&p, &in, &in, NN_BCAST_SCALAR, &out);
        nn_mul_s8(&p, &in, &in, NN_BCAST_PIXEL, &out);
        nn_resize_s8(&p, &in, &out);
        nn_softmax_s8(&p, &in, &out);
        nn_copy(&p, &in, 5, 4, 1, &out);
        nn_copy(&p, &from, 5, 4, 4, &to);
        q.kernel_h = (uint16_t)prng_range(&prng, 0, 3);
        q.kernel_w = (uint16_t)prng_range(&prng, 0, 3);
        nn_conv_s8(&q, &w, &in, prng_range(&prng, 0, 4), prng_range(&prng, 0, 4), &out);
        nn_conv_acc_s32(&q, &w, &in, 0, 4, &to);
        q.multiplier = (uint16_t)prng_next(&prng);
        nn_depthwise_s8(&q, &w, &in, &out);
        nn_finish_s8(&p, &w, &from, &out);
        nn_finish_s8(&q, NULL, &from, &out);
        map_free(&x);
        map_free(&y);
        map_free(&sums);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_counts_only_taps_inside_the_image),
        cmocka_unit_test(sums_of_any_row_parts_add_up),
        cmocka_unit_test(finish_ends_means_and_averages),
        cmocka_unit_test(add_and_sub_scale_both_and_round_once_more),
        cmocka_unit_test(mul_scales_the_product),
        cmocka_unit_test(a_tie_rounds_differently_for_sub_than_for_a_negative_factor),
        cmocka_unit_test(lut_looks_up_each_element),
        cmocka_unit_test(copy_pads_and_permutes),
        cmocka_unit_test(resize_reads_the_nearest_element_in_single_precision),
        cmocka_unit_test(resize_copies_pixels_of_any_box),
        cmocka_unit_test(softmax_takes_each_pixel_on_its_own),
        cmocka_unit_test(kernels_are_defined_for_every_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
