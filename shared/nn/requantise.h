/*
 * From a sum to an output byte: the part of every finishing kernel that runs once an output. What does not
 * change within a call is copied out of the parameters first, because a store of a byte may alias anything.
 * Private to shared/nn.
 */
#ifndef SHOAL_SHARED_NN_REQUANTISE_H
#define SHOAL_SHARED_NN_REQUANTISE_H

#include "shared/nn/rows.h"

/* Zero point and clamp of the output, within int8. */
struct nn_output {
    int32_t zero_point, lo, hi;
};

static inline struct nn_output nn_output(const struct nn_params *p)
{
    int32_t lo = fixed_clamp(p->act_lo, INT8_MIN, INT8_MAX), hi = fixed_clamp(p->act_hi, INT8_MIN, INT8_MAX);
    return (struct nn_output){p->out_zero_point, lo < hi ? lo : hi, hi};
}

static inline int8_t nn_emit(struct nn_output o, int32_t x)
{
    return (int8_t)fixed_clamp(fixed_add(x, o.zero_point), o.lo, o.hi);
}

/* Clamps a value that has its zero point already. */
static inline int8_t nn_clamp(struct nn_output o, int32_t x)
{
    return (int8_t)fixed_clamp(x, o.lo, o.hi);
}

/* Scales by mantissa * 2^(shift - 31), rounding twice; quick for the shifts that layers have. */
static inline int32_t nn_scale(int32_t x, int32_t mantissa, int32_t shift)
{
    if (shift >= 0 || shift < -31)
        return fixed_scale(x, mantissa, shift);
    int64_t high = ((int64_t)x * mantissa + ((int64_t)1 << 30)) >> 31;
    return (int32_t)((high + ((int64_t)1 << (-shift - 1)) + (high >> 63)) >> -shift);
}

/* n channels from `first` (an index into the weights' multipliers) on: bias, two roundings, zero point,
 * clamp. */
static inline void nn_requantise(struct nn_output o, const struct nn_weights *w, int32_t first,
                                 const int32_t *sums, int32_t n, int8_t *y)
{
    const int32_t *bias = w->bias + first, *mantissa = w->mantissa + first, *shift = w->shift + first;
    for (int32_t i = 0; i < n; i++)
        y[i] = nn_emit(o, nn_scale(fixed_add(sums[i], bias[i]), mantissa[i], shift[i]));
}

#endif
