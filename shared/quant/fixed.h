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

/* gemmlowp adds a nudge by sign and truncates; for 31 bits that is round half up, hence one shift. Only the
 * product of two INT32_MIN exceeds 32 bits. */
static inline int32_t fixed_doubling_high(int32_t a, int32_t b)
{
    int64_t y = ((int64_t)a * b + ((int64_t)1 << 30)) >> 31;
    return y > INT32_MAX ? INT32_MAX : (int32_t)y;
}

/* Half away from zero: negative numbers are one less before the shift. */
static inline int32_t fixed_rounding_shift(int32_t x, int32_t exponent)
{
    exponent = fixed_clamp(exponent, 0, 31);
    int64_t half = ((int64_t)1 << exponent) >> 1;
    return (int32_t)((x + half - (x < 0 && exponent > 0)) >> exponent);
}

static inline int32_t fixed_scale(int32_t x, int32_t mantissa, int32_t shift)
{
    int32_t left = fixed_clamp(shift, 0, 31), right = shift < -31 ? 31 : shift < 0 ? -shift : 0;
    return fixed_rounding_shift(fixed_doubling_high((int32_t)((uint32_t)x << left), mantissa), right);
}

#endif
