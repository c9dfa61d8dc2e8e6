/* Requantisation against 128-bit arithmetic and libm; tables and softmax against their real functions. */
#include "shared/quant/exponential.h"
#include "shared/quant/quant.h"
#include "tests/support/fixed_naive.h"
#include "tests/support/prng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Mostly random, sometimes where rounding turns. */
static int32_t edgy(struct prng *prng)
{
    static const int32_t edges[] = {0,       1,         -1, 2, -2, INT32_MAX, INT32_MIN, INT32_MIN + 1,
                                    1 << 30, -(1 << 30)};
    if (prng_one_in(prng, 3))
        return edges[prng_range(prng, 0, 9)];
    return (int32_t)prng_next(prng) >> prng_range(prng, 0, 31);
}

static void doubling_high_rounds_half_up_and_saturates(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    for (int i = 0; i < 200000; i++) {
        int32_t a = edgy(&prng), b = edgy(&prng);
        assert_int_equal(quant_doubling_high(a, b), naive_doubling_high(a, b));
    }
    assert_int_equal(quant_doubling_high(INT32_MIN, INT32_MIN), INT32_MAX);
    assert_int_equal(quant_doubling_high(1 << 30, 1), 1);    /* a tie */
    assert_int_equal(quant_doubling_high(-(1 << 30), 1), 0); /* a tie */
}

static void rounding_shift_rounds_half_away_from_zero(void **state)
{
    (void)state;
    struct prng prng = prng_seed(2);
    for (int i = 0; i < 200000; i++) {
        int32_t x = edgy(&prng), e = prng_range(&prng, 0, 31);
        assert_int_equal(quant_rounding_shift(x, e), naive_rounding_shift(x, e));
    }
    assert_int_equal(quant_rounding_shift(3, 1), 2);
    assert_int_equal(quant_rounding_shift(-3, 1), -2);
}

static void scale_rounds_twice(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    int differ = 0;
    for (int i = 0; i < 200000; i++) {
        struct quant_multiplier m = {prng_range(&prng, 1 << 30, INT32_MAX), prng_range(&prng, -31, 7)};
        int32_t x = edgy(&prng) >> (m.shift > 0 ? m.shift : 0);
        int64_t y = naive_scale(x, m.mantissa, m.shift);
        assert_int_equal(quant_scale(x, m), y);
        differ += llround(ldexp((double)x * m.mantissa, m.shift - 31)) != y;
    }
    assert_true(differ > 100); /* rounding once would have passed otherwise */
}

static void scale_is_defined_for_every_multiplier(void **state)
{
    (void)state;
    struct prng prng = prng_seed(4);
    int64_t sum = 0;
    for (int i = 0; i < 200000; i++) {
        struct quant_multiplier m = {edgy(&prng), edgy(&prng)};
        sum += quant_scale(edgy(&prng), m);
        sum += quant_rounding_shift(edgy(&prng), edgy(&prng));
    }
    assert_true(sum != 0); /* under the sanitizer: no undefined shift or sum */
}

static void multiplier_is_frexp_rounded(void **state)
{
    (void)state;
    struct prng prng = prng_seed(5);
    for (int i = 0; i < 100000; i++) {
        double x = ldexp(prng_unit(&prng) + 0x1p-53, prng_range(&prng, -40, 30));
        int shift;
        int64_t mantissa = llround(ldexp(frexp(x, &shift), 31));
        if (mantissa == INT64_C(1) << 31) {
            mantissa /= 2;
            shift++;
        }
        struct quant_multiplier m = quant_multiplier(x);
        assert_int_equal(m.mantissa, shift < -31 ? 0 : mantissa);
        assert_int_equal(m.shift, shift < -31 ? 0 : shift);
    }
}

static void multiplier_carries_and_has_limits(void **state)
{
    (void)state;
    struct quant_multiplier m = quant_multiplier(nextafter(1.0, 0.0));
    assert_int_equal(m.mantissa, 1 << 30);
    assert_int_equal(m.shift, 1);
    const double zeros[] = {0.0, -0.0, -1.0, 0x1p-33, 5e-324, NAN, -INFINITY};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        m = quant_multiplier(zeros[i]);
        assert_int_equal(m.mantissa, 0);
        assert_int_equal(m.shift, 0);
    }
    const double large[] = {0x1p31, 1e300, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        m = quant_multiplier(large[i]);
        assert_int_equal(m.mantissa, INT32_MAX);
        assert_int_equal(m.shift, 30);
    }
}

static void mean_multiplier_divides_by_the_count(void **state)
{
    (void)state;
    struct prng prng = prng_seed(6);
    for (int i = 0; i < 20000; i++) {
        double scale = exp2(prng_unit(&prng) * 16 - 8);
        int32_t count = prng_range(&prng, 1, i < 10000 ? 100 : 65535);
        struct quant_multiplier m = quant_mean_multiplier(scale, count), whole = quant_multiplier(scale);
        double real = ldexp(m.mantissa, m.shift - 31), want = ldexp(whole.mantissa, whole.shift - 31) / count;
        assert_true(real <= want && real > want * (1 - 0x1p-29)); /* truncated, at least 30 bits kept */
    }
    assert_int_equal(quant_mean_multiplier(1.0, 0).mantissa, 0);
}

static void exponential_is_near_exp(void **state)
{
    (void)state;
    struct prng prng = prng_seed(7);
    for (int i = 0; i < 50000; i++) {
        int32_t bits = prng_one_in(&prng, 2) ? 4 : 5;
        int32_t a = -(prng_range(&prng, 0, INT32_MAX) >> prng_range(&prng, 0, 30));
        double want = exp(ldexp(a, bits - 31)), got = ldexp(quant_exp_negative(a, bits), -31);
        assert_true(fabs(got - want) < 2e-6);
    }
}

static void reciprocal_is_near_the_quotient(void **state)
{
    (void)state;
    struct prng prng = prng_seed(12);
    for (int i = 0; i < 50000; i++) {
        int32_t a = prng_range(&prng, 0, INT32_MAX);
        assert_true(fabs(ldexp(quant_reciprocal_1_plus(a), -31) - 1 / (1 + ldexp(a, -31))) < 1e-8);
    }
}

static void softmax_is_near_the_real_one(void **state)
{
    (void)state;
    struct prng prng = prng_seed(8);
    for (int i = 0; i < 2000; i++) {
        int8_t in[64], out[64];
        int32_t n = prng_range(&prng, 1, 64);
        double scale = exp2(prng_unit(&prng) * 8 - 8), beta = prng_one_in(&prng, 4) ? 0.5 : 1.0, sum = 0;
        prng_fill(&prng, in, sizeof in);
        quant_softmax_s8(quant_softmax_parameters(beta, scale), in, n, out);
        for (int32_t j = 0; j < n; j++)
            sum += exp(beta * scale * in[j]);
        for (int32_t j = 0; j < n; j++) {
            int64_t want = llround(256 * exp(beta * scale * in[j]) / sum) - 128;
            assert_true(llabs(out[j] - naive_clamp(want, -128, 127)) <= 1);
        }
        quant_softmax_s8(quant_softmax_parameters(beta, scale), in, n, in);
        assert_memory_equal(in, out, (size_t)n);
    }
}

/* From a sum of 512 on, the last shift is by 32 bits and everything rounds to 0. */
static void softmax_of_many_equal_classes_rounds_to_nothing(void **state)
{
    int8_t bytes[1001];
    (void)state;
    for (int32_t n = 500; n <= 1001; n++) {
        memset(bytes, 17, sizeof bytes);
        quant_softmax_s8(quant_softmax_parameters(1, 1.0 / 256), bytes, n, bytes);
        for (int32_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], n < 512 ? -127 : -128);
    }
}

static void softmax_is_defined_for_every_parameter(void **state)
{
    (void)state;
    struct prng prng = prng_seed(9);
    for (int i = 0; i < 3000; i++) {
        int8_t bytes[40];
        prng_fill(&prng, bytes, sizeof bytes);
        struct quant_softmax p = {{edgy(&prng), edgy(&prng)}, edgy(&prng)};
        quant_softmax_s8(p, bytes, prng_range(&prng, 0, 40), bytes);
    }
    quant_softmax_s8((struct quant_softmax){{0, 0}, 0}, NULL, 0, NULL);
}

static void logistic_table_is_near_the_real_one_and_rises(void **state)
{
    (void)state;
    struct prng prng = prng_seed(10);
    for (int i = 0; i < 500; i++) {
        struct quant_io io = {exp2(prng_unit(&prng) * 12 - 10), prng_range(&prng, -128, 127), 1.0 / 256,
                              -128};
        int8_t table[256];
        quant_table_logistic(io, table);
        for (int q = -128; q <= 127; q++) {
            double real = 1 / (1 + exp(-io.in_scale * (q - io.in_zero_point)));
            int64_t want = naive_clamp(llround(256 * real) - 128, -128, 127);
            assert_true(llabs(table[q + 128] - want) <= 1);
            assert_true(q == -128 || table[q + 128] >= table[q + 127]);
            if (q == io.in_zero_point)
                assert_int_equal(table[q + 128], 0);
        }
    }
}

static void requantize_table_scales_and_clamps(void **state)
{
    (void)state;
    struct prng prng = prng_seed(11);
    for (int i = 0; i < 500; i++) {
        struct quant_io io = {exp2(prng_unit(&prng) * 8 - 8), prng_range(&prng, -128, 127),
                              exp2(prng_unit(&prng) * 8 - 8), prng_range(&prng, -128, 127)};
        int32_t lo = prng_range(&prng, -128, 127), hi = prng_range(&prng, lo, 127);
        struct quant_multiplier m = quant_multiplier(io.in_scale / io.out_scale);
        int8_t table[256];
        quant_table_requantize(io, lo, hi, table);
        for (int q = -128; q <= 127; q++) {
            int64_t y = naive_scale(q - io.in_zero_point, m.mantissa, m.shift) + io.out_zero_point;
            assert_int_equal(table[q + 128], naive_clamp(y, lo, hi));
        }
    }
    struct quant_io same = {0.1, 3, 0.1, 3};
    int8_t table[256];
    quant_table_requantize(same, 3, 127, table);
    for (int q = -128; q <= 127; q++)
        assert_int_equal(table[q + 128], q < 3 ? 3 : q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubling_high_rounds_half_up_and_saturates),
        cmocka_unit_test(rounding_shift_rounds_half_away_from_zero),
        cmocka_unit_test(scale_rounds_twice),
        cmocka_unit_test(scale_is_defined_for_every_multiplier),
        cmocka_unit_test(multiplier_is_frexp_rounded),
        cmocka_unit_test(multiplier_carries_and_has_limits),
        cmocka_unit_test(mean_multiplier_divides_by_the_count),
        cmocka_unit_test(exponential_is_near_exp),
        cmocka_unit_test(reciprocal_is_near_the_quotient),
        cmocka_unit_test(softmax_is_near_the_real_one),
        cmocka_unit_test(softmax_of_many_equal_classes_rounds_to_nothing),
        cmocka_unit_test(softmax_is_defined_for_every_parameter),
        cmocka_unit_test(logistic_table_is_near_the_real_one_and_rises),
        cmocka_unit_test(requantize_table_scales_and_clamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
