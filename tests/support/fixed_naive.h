/*
 * Requantisation once more, written from its definition in 128-bit integers, to judge shared/quant and the
 * kernels. Shares no code with them.
 */
#ifndef SHOAL_TESTS_SUPPORT_FIXED_NAIVE_H
#define SHOAL_TESTS_SUPPORT_FIXED_NAIVE_H

#include <stdint.h>

__extension__ typedef __int128 naive_wide;

static inline naive_wide naive_floor_div(naive_wide a, naive_wide b)
{
    naive_wide q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/* round(2 a b / 2^32), ties upward, saturated. */
static inline int64_t naive_doubling_high(int64_t a, int64_t b)
{
    naive_wide y = naive_floor_div(2 * (naive_wide)a * b + ((naive_wide)1 << 31), (naive_wide)1 << 32);
    return y > INT32_MAX ? INT32_MAX : (int64_t)y;
}

/* round(x / 2^exponent), ties away from zero. */
static inline int64_t naive_rounding_shift(int64_t x, int exponent)
{
    int64_t magnitude = x < 0 ? -x : x, unit = (int64_t)1 << exponent;
    int64_t y = (magnitude + unit / 2) / unit;
    return x < 0 ? -y : y;
}

/* Valid while x * 2^shift fits 32 bits. */
static inline int64_t naive_scale(int64_t x, int32_t mantissa, int shift)
{
    int64_t high = naive_doubling_high(shift > 0 ? x * ((int64_t)1 << shift) : x, mantissa);
    return naive_rounding_shift(high, shift > 0 ? 0 : -shift);
}

static inline int64_t naive_clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

#endif
