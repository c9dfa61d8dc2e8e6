/*
 * SOFTMAX and LOGISTIC for int8, in the fixed-point steps of gemmlowp that TensorFlow Lite's reference
 * kernels use. A Qn number is an int32 with n integer bits: its value is raw / 2^(31 - n). Multiplying Qa by
 * Qb gives Q(a + b).
 */
#include "server/model/reference_kernels.h"

#include <math.h>

enum { ONE_Q0 = INT32_MAX, DIFFERENCE_BITS = 5, SUM_BITS = 12, LOGISTIC_BITS = 4 };

static int32_t mul(int32_t a, int32_t b)
{
    return reference_doubling_high(a, b);
}

/* x * 2^exponent, saturated. */
static int32_t shift_left(int32_t x, int32_t exponent)
{
    int64_t wide = (int64_t)x * ((int64_t)1 << exponent);
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* e^x in Q0 for x in [-1/4, 0) in Q0: the Taylor polynomial around -1/8. */
static int32_t exp_small(int32_t x)
{
    const int32_t exp_minus_eighth = 1895147668, third = 715827883;
    int32_t y = x + (1 << 28); /* x + 1/8 */
    int32_t y2 = mul(y, y), y3 = mul(y2, y), y4 = mul(y2, y2);
    int32_t tail = reference_divide_power(mul(reference_divide_power(y4, 2) + y3, third) + y2, 1);
    return exp_minus_eighth + mul(exp_minus_eighth, y + tail);
}

/* e^x in Q0 for x <= 0 in Q`bits`, bits <= 5: the quarter nearest to 0, times e^-2^k for each bit k of the
 * rest. */
static int32_t exp_negative(int32_t x, int32_t bits)
{
    /* e^-1/4, e^-1/2, e^-1, e^-2, e^-4, e^-8, e^-16 in Q0 */
    static const int32_t powers[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    int32_t fraction_bits = 31 - bits, quarter = 1 << (fraction_bits - 2);
    if (x == 0)
        return ONE_Q0;
    int32_t small = (x & (quarter - 1)) - quarter, rest = small - x;
    int32_t result = exp_small(shift_left(small, bits));
    for (int32_t k = -2; k < bits; k++)
        if (rest & (int32_t)((uint32_t)1 << (fraction_bits + k)))
            result = mul(result, powers[k + 2]);
    return result;
}

/* 1 / (1 + x) in Q0 for x in [0, 1) in Q0: Newton-Raphson on d = (1 + x) / 2, in Q2. */
static int32_t one_over_one_plus(int32_t x)
{
    const int32_t c48_17 = 1515870810, minus_32_17 = -1010580540, one_q2 = 1 << 29;
    int32_t half = (int32_t)(((int64_t)x + ONE_Q0 + 1) / 2);
    int32_t y = c48_17 + mul(half, minus_32_17);
    for (int i = 0; i < 3; i++)
        y += shift_left(mul(y, one_q2 - mul(half, y)), 2); /* a product of two Q2 is Q4 */
    return shift_left(y, 1);                               /* y / 2, from Q1 to Q0 */
}

struct softmax {
    struct reference_multiplier m;
    int32_t least; /* differences below are 0 */
};

/* The largest difference that fits into Q`bits` after the multiplier. */
static int32_t radius(int32_t bits, int32_t shift)
{
    return (int32_t)floor((double)((1 << bits) - 1) * (double)((int64_t)1 << (31 - bits)) / ldexp(1, shift));
}

static struct softmax softmax_parameters(const struct op *op, struct quant in)
{
    double scale = (double)op->beta * (double)in.scale * (double)(1 << (31 - DIFFERENCE_BITS));
    double most = (double)INT32_MAX;
    struct softmax p = {.m = reference_multiplier(scale < most ? scale : most)};
    p.least = -radius(DIFFERENCE_BITS, p.m.shift);
    return p;
}

/* e^(difference * scale) in Q0. */
static int32_t softmax_exp(struct softmax p, int32_t difference)
{
    int32_t scaled = mul(shift_left(difference, p.m.shift), p.m.mantissa);
    return exp_negative(scaled, DIFFERENCE_BITS);
}

static void softmax_row(struct softmax p, const int8_t *in, int8_t *out, int32_t n)
{
    int32_t most = in[0], sum = 0, zeros = 0;
    for (int32_t c = 1; c < n; c++)
        most = in[c] > most ? in[c] : most;
    for (int32_t c = 0; c < n; c++)
        if (in[c] - most >= p.least)
            sum += reference_divide_power(softmax_exp(p, in[c] - most), SUM_BITS);
    while (!((uint32_t)sum << zeros & 0x80000000u))
        zeros++;
    /* sum = 2^(SUM_BITS - zeros) * (1 + x) */
    int32_t inverse = one_over_one_plus((int32_t)(((uint32_t)sum << zeros) - 0x80000000u));
    int32_t exponent = SUM_BITS - zeros + 31 - 8;
    for (int32_t c = 0; c < n; c++) {
        int32_t value = 0;
        if (in[c] - most >= p.least)
            value = reference_divide_power(mul(inverse, softmax_exp(p, in[c] - most)), exponent);
        out[c] = (int8_t)reference_clamp(value - 128, -128, 127);
    }
}

void reference_softmax(struct reference_call call)
{
    struct shape shape = reference_output(call)->shape;
    struct softmax p = softmax_parameters(call.op, reference_input(call, 0)->quant);
    const int8_t *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    for (int32_t pixel = 0; pixel < shape.h * shape.w; pixel++)
        softmax_row(p, in + (int64_t)pixel * shape.c, out + (int64_t)pixel * shape.c, shape.c);
}

/* 1 / (1 + e^-x) in Q0 for x in Q4. */
static int32_t logistic(int32_t x)
{
    if (x == 0)
        return 1 << 30;
    int32_t positive = one_over_one_plus(exp_negative(x > 0 ? -x : x, LOGISTIC_BITS));
    return x > 0 ? positive : ONE_Q0 - positive;
}

void reference_logistic(struct reference_call call)
{
    struct quant from = reference_input(call, 0)->quant;
    struct reference_multiplier m =
        reference_multiplier((double)from.scale * (double)(1 << (31 - LOGISTIC_BITS)));
    int32_t limit = radius(LOGISTIC_BITS, m.shift);
    const int8_t *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    for (int64_t i = 0; i < shape_elements(reference_output(call)->shape); i++) {
        int32_t x = in[i] - from.zero_point;
        if (x <= -limit || x >= limit) {
            out[i] = x < 0 || (x == 0 && limit <= 0) ? -128 : 127;
            continue;
        }
        int32_t value = reference_divide_power(logistic(reference_scale(x, m)), 31 - 8) - 128;
        out[i] = (int8_t)reference_clamp(value, -128, 127);
    }
}
