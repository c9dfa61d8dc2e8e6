/*
 * Fixed-point arithmetic of the reference executor: gemmlowp's two roundings and the ranges of activations,
 * as published with arXiv 1712.05877. Written for plainness: everything in 64 bits, no tricks with bits.
 */
#include "server/model/reference_kernels.h"

#include <math.h>

struct reference_multiplier reference_multiplier(double x)
{
    int exponent = 0;
    double mantissa = frexp(x, &exponent); /* x == mantissa * 2^exponent, 0.5 <= mantissa < 1 */
    int64_t fixed = (int64_t)round(mantissa * 0x1p31);
    if (fixed == (int64_t)1 << 31) {
        fixed /= 2;
        exponent++;
    }
    if (x == 0 || exponent < -31)
        return (struct reference_multiplier){0, 0};
    return (struct reference_multiplier){(int32_t)fixed, exponent};
}

static int32_t saturate(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

int32_t reference_doubling_high(int32_t a, int32_t b)
{
    int64_t product = (int64_t)a * b;
    int64_t nudge = product >= 0 ? (int64_t)1 << 30 : 1 - ((int64_t)1 << 30);
    return saturate((product + nudge) / ((int64_t)1 << 31)); /* C divides toward zero */
}

int32_t reference_divide_power(int32_t x, int32_t exponent)
{
    int64_t divisor = (int64_t)1 << exponent, magnitude = x < 0 ? -(int64_t)x : x;
    int64_t quotient = (magnitude + divisor / 2) / divisor;
    return (int32_t)(x < 0 ? -quotient : quotient);
}

int32_t reference_scale(int32_t x, struct reference_multiplier m)
{
    int32_t left = m.shift > 0 ? m.shift : 0, right = m.shift > 0 ? 0 : -m.shift;
    int32_t shifted = (int32_t)((uint32_t)x << left);
    return reference_divide_power(reference_doubling_high(shifted, m.mantissa), right);
}

int8_t reference_int8(int32_t x, int32_t zero_point, int32_t lo, int32_t hi)
{
    return (int8_t)reference_clamp((int32_t)((uint32_t)x + (uint32_t)zero_point), lo, hi);
}

int32_t reference_clamp(int32_t x, int32_t lo, int32_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* A real number in the output's int8 units, computed in float as TensorFlow Lite does, and clamped to int8.
 */
static int32_t quantized(float real, struct quant quant)
{
    float steps = roundf(real / quant.scale);
    if (steps > 1000)
        return 127;
    if (steps < -1000)
        return -128;
    return reference_clamp(quant.zero_point + (int32_t)steps, -128, 127);
}

struct reference_range reference_activation(enum activation activation, struct quant out)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return (struct reference_range){quantized(0, out), 127};
    case ACTIVATION_RELU6:
        return (struct reference_range){quantized(0, out), quantized(6, out)};
    case ACTIVATION_RELU_N1_TO_1:
        return (struct reference_range){quantized(-1, out), quantized(1, out)};
    case ACTIVATION_NONE:
        break;
    }
    return (struct reference_range){-128, 127};
}
