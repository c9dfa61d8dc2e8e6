/*
 * The kernels of the reference executor, private to server/model. Each runs one operator of a finished graph:
 * `tensors[t]` is the memory of tensor t (constants are in the graph). Inputs are not written; the output's
 * memory overlaps none. Kernels cannot fail: graph_finish has refused what they could not compute.
 */
#ifndef SHOAL_SERVER_MODEL_REFERENCE_KERNELS_H
#define SHOAL_SERVER_MODEL_REFERENCE_KERNELS_H

#include "server/model/graph.h"

struct reference_call {
    const struct graph *graph;
    const struct op *op;
    void *const *tensors;
};

const struct tensor *reference_input(struct reference_call call, int32_t i);
const struct tensor *reference_output(struct reference_call call);
const void *reference_in(struct reference_call call, int32_t i);
void *reference_out(struct reference_call call);

/* Fixed point. A real multiplier is mantissa * 2^(shift - 31). */
struct reference_multiplier {
    int32_t mantissa;
    int32_t shift;
};
struct reference_multiplier reference_multiplier(double x);
/* round(a * b / 2^31), half away from zero as gemmlowp does it, saturated. */
int32_t reference_doubling_high(int32_t a, int32_t b);
/* x / 2^exponent, half away from zero. */
int32_t reference_divide_power(int32_t x, int32_t exponent);
/* x * m with both roundings. A left shift wraps around, as it does in TensorFlow Lite. */
int32_t reference_scale(int32_t x, struct reference_multiplier m);
/* x plus a zero point, wrapping around likewise, clamped to [lo, hi]. */
int8_t reference_int8(int32_t x, int32_t zero_point, int32_t lo, int32_t hi);
int32_t reference_clamp(int32_t x, int32_t lo, int32_t hi);

/* The range of a fused activation, and of RELU and RELU6, in the output's int8. */
struct reference_range {
    int32_t lo, hi;
};
struct reference_range reference_activation(enum activation activation, struct quant out);

typedef void reference_kernel(struct reference_call call);
reference_kernel reference_conv, reference_depthwise;
reference_kernel reference_average_pool, reference_max_pool, reference_mean;
reference_kernel reference_add, reference_sub, reference_mul;
reference_kernel reference_relu, reference_relu6, reference_requantize, reference_logistic, reference_softmax;
reference_kernel reference_quantize, reference_dequantize;
reference_kernel reference_pad, reference_reshape, reference_concat, reference_resize, reference_transpose;

#endif
