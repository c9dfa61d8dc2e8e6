/*
 * Fixed-point exponential and reciprocal: the exponential is a fourth-order series around -1/8 on [-1/4, 0),
 * times exp(-2^k) for each bit that is left; the reciprocal is three Newton steps from 48/17 - 32/17 d. Order
 * and rounding of each step are part of TensorFlow Lite's results: a better approximation would be wrong.
 * Sums wrap where the arguments are outside the stated ranges.
 */
#include "shared/quant/exponential.h"
#include "shared/quant/fixed.h"

int32_t quant_saturating_left_shift(int32_t x, int32_t exponent)
{
    int64_t wide = (int64_t)x * ((int64_t)1 << fixed_clamp(exponent, 0, 31));
    if (wide > INT32_MAX)
        return INT32_MAX;
    return wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* exp(a) for -1/4 <= a < 0, no integer bits. */
static int32_t exp_quarter(int32_t a)
{
    const int32_t exp_minus_eighth = 1895147668, third = 715827883;
    int32_t x = fixed_add(a, 1 << 28); /* a + 1/8 */
    int32_t x2 = fixed_doubling_high(x, x);
    int32_t x3 = fixed_doubling_high(x2, x);
    int32_t x4 = fixed_doubling_high(x2, x2);
    int32_t tail = fixed_doubling_high(fixed_add(fixed_rounding_shift(x4, 2), x3), third);
    int32_t series = fixed_add(x, fixed_rounding_shift(fixed_add(tail, x2), 1));
    return fixed_add(exp_minus_eighth, fixed_doubling_high(exp_minus_eighth, series));
}

int32_t quant_exp_negative(int32_t a, int32_t integer_bits)
{
    /* exp(-2^k), k = -2 .. 4 */
    static const int32_t factor[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    if (a == 0)
        return INT32_MAX;
    integer_bits = fixed_clamp(integer_bits, 1, 5);
    int32_t fraction_bits = 31 - integer_bits;
    int32_t quarter = (int32_t)1 << (fraction_bits - 2);
    int32_t low = (a & (quarter - 1)) - quarter; /* in [-1/4, 0) */
    int32_t result = exp_quarter(quant_saturating_left_shift(low, integer_bits));
    uint32_t rest = (uint32_t)fixed_sub(low, a);
    for (int32_t k = -2; k < integer_bits; k++)
        if (rest & (uint32_t)1 << (fraction_bits + k))
            result = fixed_doubling_high(result, factor[k + 2]);
    return result;
}

int32_t quant_reciprocal_1_plus(int32_t a)
{
    const int32_t c48_17 = 1515870810, c32_17 = 1010580540, one = 1 << 29; /* two integer bits */
    int64_t sum = (int64_t)a + INT32_MAX;
    int32_t half = (int32_t)((sum + (sum >= 0 ? 1 : -1)) / 2); /* (a + 1) / 2 */
    int32_t x = fixed_add(c48_17, fixed_doubling_high(half, -c32_17));
    for (int i = 0; i < 3; i++) {
        int32_t error = fixed_sub(one, fixed_doubling_high(half, x));
        x = fixed_add(x, quant_saturating_left_shift(fixed_doubling_high(x, error), 2));
    }
    return quant_saturating_left_shift(x, 1);
}
