/*
 * Fixed-point exponential, reciprocal and logistic as gemmlowp's rules have them. Raw values: an argument
 * with i integer bits is real * 2^(31 - i). Private to shared/quant.
 */
#ifndef SHOAL_SHARED_QUANT_EXPONENTIAL_H
#define SHOAL_SHARED_QUANT_EXPONENTIAL_H

#include <stdint.h>

/* exp(a) for a <= 0 with 1 to 5 integer bits; the result has none (INT32_MAX for exp(0)). */
int32_t quant_exp_negative(int32_t a, int32_t integer_bits);
/* 1 / (1 + a) for 0 <= a < 1; no integer bits in and out. */
int32_t quant_reciprocal_1_plus(int32_t a);
/* x * 2^exponent, saturated. 0 <= exponent <= 31. */
int32_t quant_saturating_left_shift(int32_t x, int32_t exponent);

#endif
