/*
 * Fixed-point requantisation as TensorFlow Lite's reference kernels do it (gemmlowp's double rounding), and
 * the fixed-point steps of softmax and of the 256-entry tables. Builds for host and Cortex-M7; no libm.
 * Source of the rules: arXiv 1712.05877 and the published 8-bit quantisation specification.
 */
#ifndef SHOAL_SHARED_QUANT_QUANT_H
#define SHOAL_SHARED_QUANT_QUANT_H

#include <stdint.h>

/* A real multiplier as mantissa * 2^(shift - 31); shift > 0 is a left shift. 0 is {0, 0}. */
struct quant_multiplier {
    int32_t mantissa;
    int32_t shift;
};

/* From a real number 0 <= x < 2^30: round(frexp mantissa * 2^31), carried; shifts below -31 give zero. */
struct quant_multiplier quant_multiplier(double x);

/* MEAN: the multiplier `scale` (input scale / output scale) with 1 / count folded in as TensorFlow Lite folds
 * it. */
struct quant_multiplier quant_mean_multiplier(double scale, int32_t count);

/* Saturating rounding doubling high multiply; rounding divide by 2^exponent, half away from zero. */
int32_t quant_doubling_high(int32_t a, int32_t b);
int32_t quant_rounding_shift(int32_t x, int32_t exponent);
/* x * multiplier with double rounding. */
int32_t quant_scale(int32_t x, struct quant_multiplier m);
int32_t quant_clamp(int32_t x, int32_t lo, int32_t hi);

/* int8 softmax over n values: output scale 1/256, zero point -128. `diff_min` and the multiplier come from
 * quant_softmax_parameters (beta * input scale). in and out may be the same memory. */
struct quant_softmax {
    struct quant_multiplier m;
    int32_t diff_min;
};
struct quant_softmax quant_softmax_parameters(double beta, double input_scale);
void quant_softmax_s8(struct quant_softmax p, const int8_t *in, int32_t n, int8_t *out);

/* Tables for element-wise int8 -> int8 functions: table[(uint8_t)(q + 128)] is the output for input q. Each
 * equals TensorFlow Lite's reference kernel for that operator. */
struct quant_io {
    double in_scale;
    int32_t in_zero_point;
    double out_scale;
    int32_t out_zero_point;
};
void quant_table_requantize(struct quant_io io, int32_t lo, int32_t hi,
                            int8_t table[256]); /* also RELU, RELU6 */
/* Output scale 1/256 and zero point -128, whatever `io` says of the output. */
void quant_table_logistic(struct quant_io io, int8_t table[256]);

#endif
