/*
 * The fixed-point steps of quant.h as inline functions, for the inner loops of kernels. Defined for every
 * argument: shifts out of range are limited, sums wrap, nothing is undefined. Private to shared/quant and
 * shared/nn; everyone else uses quant.h.
 */
#ifndef SHOAL_SHARED_QUANT_FIXED_H
#define SHOAL_SHARED_QUANT_FIXED_H

#include "shared/quant/quant.h"

#include <stdint.h>

static inline int32_t fixed_add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t fixed_sub(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static inline int32_t fixed_clamp(int32_t x, int32_t lo, int32_t hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* gemmlowp adds a nudge by sign and truncates; for 31 bits that is round half up, hence one shift. */
static inline int32_t fixed_doubling_high(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

static inline int32_t fixed_rounding_shift(int32_t x, int32_t exponent)
{
    exponent = fixed_clamp(exponent, 0, 31);
    int32_t mask = (int32_t)(((uint32_t)1 << exponent) - 1);
    int32_t threshold = (mask >> 1) + (x < 0);
    return (x >> exponent) + ((x & mask) > threshold);
}

static inline int32_t fixed_scale(int32_t x, int32_t mantissa, int32_t shift)
{
    if (shift > 0)
        return fixed_doubling_high((int32_t)((uint32_t)x << fixed_clamp(shift, 0, 31)), mantissa);
    /* not -shift: INT32_MIN has no negative */
    return fixed_rounding_shift(fixed_doubling_high(x, mantissa), shift < -31 ? 31 : -shift);
}

#endif
