/*
 * int8 softmax and the logistic table: TensorFlow Lite's integer reference rules. Differences to the maximum
 * have 5 integer bits, the sum of exponentials 12; exponentials are computed twice rather than kept, so that
 * no scratch memory is needed and input and output may be one. The sum wraps above 4095 equal maxima, as the
 * reference's does.
 */
#include "shared/quant/exponential.h"
#include "shared/quant/fixed.h"
#include "shared/quant/quant.h"

#include <stdbool.h>

enum { DIFFERENCE_BITS = 5, SUM_BITS = 12, LOGISTIC_BITS = 4 };

/* The largest |difference| whose rescaled value still fits `integer_bits`: floor((2^i - 1) * 2^(31-i) /
 * 2^shift). */
static int32_t input_radius(int32_t integer_bits, int32_t shift)
{
    int64_t most = (((int64_t)1 << integer_bits) - 1) << (31 - integer_bits);
    if (shift >= 0)
        return (int32_t)(most >> fixed_clamp(shift, 0, 31));
    return INT32_MAX; /* beyond every int8 difference */
}

struct quant_softmax quant_softmax_parameters(double beta, double input_scale)
{
    double real = beta * input_scale * (double)(1 << (31 - DIFFERENCE_BITS));
    const double most = 2147483647.0;
    struct quant_softmax p = {quant_multiplier(real < most ? real : most), 0};
    p.diff_min = -input_radius(DIFFERENCE_BITS, p.m.shift);
    return p;
}

/* exp((q - max) * beta * scale), no integer bits; 0 below diff_min. */
static int32_t exponential(struct quant_softmax p, int32_t difference)
{
    if (difference < p.diff_min)
        return 0;
    return quant_exp_negative(quant_scale(difference, p.m), DIFFERENCE_BITS);
}

static int32_t leading_zeros(uint32_t x)
{
    int32_t n = 0;
    while (n < 32 && !(x & (uint32_t)1 << (31 - n)))
        n++;
    return n;
}

void quant_softmax_s8(struct quant_softmax p, const int8_t *in, int32_t n, int8_t *out)
{
    int32_t max = INT8_MIN;
    for (int32_t i = 0; i < n; i++)
        max = in[i] > max ? in[i] : max;
    uint32_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (uint32_t)fixed_rounding_shift(exponential(p, in[i] - max), SUM_BITS);
    int32_t headroom = leading_zeros(sum);
    uint32_t normal = headroom < 32 ? sum << headroom : 0;
    int32_t scale = quant_reciprocal_1_plus((int32_t)(normal - ((uint32_t)1 << 31)));
    int32_t exponent = SUM_BITS - headroom + 31 - 8;
    for (int32_t i = 0; i < n; i++) {
        int32_t difference = in[i] - max;
        int32_t part = fixed_doubling_high(scale, exponential(p, difference));
        int32_t y = exponent > 31 ? 0 : fixed_rounding_shift(part, exponent); /* a sum of 512 or more */
        out[i] = difference < p.diff_min ? INT8_MIN : (int8_t)fixed_clamp(y - 128, INT8_MIN, INT8_MAX);
    }
}

/* 1 / (1 + exp(-a)), 4 integer bits in, none out. */
static int32_t logistic(int32_t a)
{
    if (a == 0)
        return 1 << 30;
    int32_t positive = quant_reciprocal_1_plus(quant_exp_negative(a > 0 ? -a : a, LOGISTIC_BITS));
    return a > 0 ? positive : INT32_MAX - positive;
}

void quant_table_logistic(struct quant_io io, int8_t table[256])
{
    struct quant_multiplier m = quant_multiplier(io.in_scale * (double)(1 << (31 - LOGISTIC_BITS)));
    int32_t radius = input_radius(LOGISTIC_BITS, m.shift);
    for (int32_t q = INT8_MIN; q <= INT8_MAX; q++) {
        int32_t x = fixed_sub(q, io.in_zero_point), y;
        if (x <= -radius)
            y = INT8_MIN;
        else if (x >= radius)
            y = INT8_MAX;
        else
            y = fixed_rounding_shift(logistic(quant_scale(x, m)), 31 - 8) + INT8_MIN;
        table[q - INT8_MIN] = (int8_t)fixed_clamp(y, INT8_MIN, INT8_MAX);
    }
}
