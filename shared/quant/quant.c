/*
 * Requantisation and multipliers. Doubles are taken apart by their bits, so that no libm is needed and every
 * machine gets the same multiplier. The element-wise tables evaluate TensorFlow Lite's reference rule for
 * each of the 256 inputs once, on the host; kernels only look up.
 */
#include "shared/quant/quant.h"
#include "shared/quant/fixed.h"

#include <stdbool.h>
#include <string.h>

int32_t quant_doubling_high(int32_t a, int32_t b)
{
    return fixed_doubling_high(a, b);
}

int32_t quant_rounding_shift(int32_t x, int32_t exponent)
{
    return fixed_rounding_shift(x, exponent);
}

int32_t quant_scale(int32_t x, struct quant_multiplier m)
{
    return fixed_scale(x, m.mantissa, m.shift);
}

int32_t quant_clamp(int32_t x, int32_t lo, int32_t hi)
{
    return fixed_clamp(x, lo, hi);
}

struct quant_multiplier quant_multiplier(double x)
{
    const struct quant_multiplier zero = {0, 0}, most = {INT32_MAX, 30};
    if (!(x > 0)) /* not a number, too */
        return zero;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t exponent = (int32_t)(bits >> 52); /* the sign is 0 */
    if (exponent == 0)                        /* below 2^-1022 */
        return zero;
    if (exponent == 0x7FF)
        return most;
    uint64_t fraction = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1)
                                                                 << 52; /* 53 bits: x * 2^53 / 2^shift */
    int32_t shift = exponent - 1022;
    uint64_t mantissa = (fraction + (1u << 21)) >> 22;
    if (mantissa == UINT64_C(1) << 31) {
        mantissa >>= 1;
        shift++;
    }
    if (shift < -31)
        return zero;
    if (shift > 30)
        return most;
    return (struct quant_multiplier){(int32_t)mantissa, shift};
}

struct quant_multiplier quant_mean_multiplier(double scale, int32_t count)
{
    struct quant_multiplier m = quant_multiplier(scale);
    if (count <= 0)
        return (struct quant_multiplier){0, 0};
    int32_t shift = 0;
    while (shift < 30 && (count >> (shift + 1)) > 0)
        shift++;
    if (shift > 31 + m.shift)
        shift = 31 + m.shift;
    m.mantissa = (int32_t)(((int64_t)m.mantissa << shift) / count);
    m.shift -= shift;
    return m;
}

void quant_table_requantize(struct quant_io io, int32_t lo, int32_t hi, int8_t table[256])
{
    struct quant_multiplier m = quant_multiplier(io.in_scale / io.out_scale);
    lo = fixed_clamp(lo, INT8_MIN, INT8_MAX);
    hi = fixed_clamp(hi, lo, INT8_MAX);
    for (int32_t q = INT8_MIN; q <= INT8_MAX; q++) {
        int32_t y = fixed_add(quant_scale(fixed_sub(q, io.in_zero_point), m), io.out_zero_point);
        table[q - INT8_MIN] = (int8_t)fixed_clamp(y, lo, hi);
    }
}
