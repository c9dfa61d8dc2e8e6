/*
 * Reference element-wise operators. How each real multiplier is computed, in float or in double, decides
 * single bits; the rules are TensorFlow Lite's: ADD           double throughout; SUB: each quotient rounded
 * to float first MUL           double; REQUANTIZE, QUANTIZE of integers, CONCAT: double RELU, RELU6   the
 * quotient of the scales rounded to float
 */
#include "server/model/reference_kernels.h"

#include <math.h>
#include <string.h>

/* The second input's element that belongs to element `i` of the output. */
static int8_t second(struct reference_call call, int64_t i)
{
    struct shape a = reference_output(call)->shape, b = reference_input(call, 1)->shape;
    const int8_t *in = reference_in(call, 1);
    if (shape_equal(a, b))
        return in[i];
    return b.c == 1 ? in[0] : in[i % a.c];
}

struct sum_parameters {
    struct reference_multiplier a, b, out;
};

enum { SUM_LEFT_SHIFT = 20 };

static void sum(struct reference_call call, struct sum_parameters p, int32_t sign)
{
    struct quant qa = reference_input(call, 0)->quant, qb = reference_input(call, 1)->quant;
    struct quant qo = reference_output(call)->quant;
    struct reference_range range = reference_activation(call.op->activation, qo);
    const int8_t *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    int64_t n = shape_elements(reference_output(call)->shape);
    for (int64_t i = 0; i < n; i++) {
        int32_t a = (in[i] - qa.zero_point) * (1 << SUM_LEFT_SHIFT);
        int32_t b = (second(call, i) - qb.zero_point) * (1 << SUM_LEFT_SHIFT);
        int32_t total = reference_scale(a, p.a) + sign * reference_scale(b, p.b);
        out[i] = reference_int8(reference_scale(total, p.out), qo.zero_point, range.lo, range.hi);
    }
}

void reference_add(struct reference_call call)
{
    double a = (double)reference_input(call, 0)->quant.scale;
    double b = (double)reference_input(call, 1)->quant.scale;
    double out = (double)reference_output(call)->quant.scale, twice = 2 * fmax(a, b);
    struct sum_parameters p = {reference_multiplier(a / twice), reference_multiplier(b / twice),
                               reference_multiplier(twice / ((1 << SUM_LEFT_SHIFT) * out))};
    sum(call, p, 1);
}

void reference_sub(struct reference_call call)
{
    float a = reference_input(call, 0)->quant.scale, b = reference_input(call, 1)->quant.scale;
    float out = reference_output(call)->quant.scale, twice = 2 * fmaxf(a, b);
    float by_a = a / twice, by_b = b / twice, by_out = twice / ((float)(1 << SUM_LEFT_SHIFT) * out);
    struct sum_parameters p = {reference_multiplier((double)by_a), reference_multiplier((double)by_b),
                               reference_multiplier((double)by_out)};
    sum(call, p, -1);
}

void reference_mul(struct reference_call call)
{
    struct quant qa = reference_input(call, 0)->quant, qb = reference_input(call, 1)->quant;
    struct quant qo = reference_output(call)->quant;
    struct reference_multiplier m =
        reference_multiplier((double)qa.scale * (double)qb.scale / (double)qo.scale);
    struct reference_range range = reference_activation(call.op->activation, qo);
    const int8_t *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    int64_t n = shape_elements(reference_output(call)->shape);
    for (int64_t i = 0; i < n; i++) {
        int32_t product = (in[i] - qa.zero_point) * (second(call, i) - qb.zero_point);
        out[i] = reference_int8(reference_scale(product, m), qo.zero_point, range.lo, range.hi);
    }
}

/* One rescaling of n elements. */
static void rescale(struct reference_multiplier m, struct quant from, struct quant to,
                    struct reference_range range, const int8_t *in, int8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] =
            reference_int8(reference_scale(in[i] - from.zero_point, m), to.zero_point, range.lo, range.hi);
}

static void look_up(struct reference_call call, double multiplier, enum activation activation)
{
    struct quant from = reference_input(call, 0)->quant, to = reference_output(call)->quant;
    rescale(reference_multiplier(multiplier), from, to, reference_activation(activation, to),
            reference_in(call, 0), reference_out(call), shape_elements(reference_output(call)->shape));
}

static float float_ratio(struct reference_call call)
{
    return reference_input(call, 0)->quant.scale / reference_output(call)->quant.scale;
}

void reference_relu(struct reference_call call)
{
    look_up(call, (double)float_ratio(call), ACTIVATION_RELU);
}

void reference_relu6(struct reference_call call)
{
    look_up(call, (double)float_ratio(call), ACTIVATION_RELU6);
}

static double ratio(struct quant from, struct quant to)
{
    return (double)from.scale / (double)to.scale;
}

void reference_requantize(struct reference_call call)
{
    look_up(call, ratio(reference_input(call, 0)->quant, reference_output(call)->quant), ACTIVATION_NONE);
}

static int8_t quantize_float(float real, struct quant to)
{
    float steps = roundf(real / to.scale); /* half away from zero */
    if (isnan(steps))
        return (int8_t)to.zero_point;
    if (fabsf(steps) > 1e6f)
        return steps > 0 ? 127 : -128;
    return (int8_t)reference_clamp((int32_t)steps + to.zero_point, -128, 127);
}

/* Between int8 and uint8, each clamped to its own range. */
static void quantize_integers(struct reference_call call)
{
    const struct tensor *from = reference_input(call, 0), *to = reference_output(call);
    int32_t least = to->dtype == DTYPE_UINT8 ? 0 : -128, most = least + 255;
    struct reference_multiplier m = reference_multiplier(ratio(from->quant, to->quant));
    const uint8_t *in = reference_in(call, 0);
    uint8_t *out = reference_out(call);
    for (int64_t i = 0; i < shape_elements(to->shape); i++) {
        int32_t x = from->dtype == DTYPE_UINT8 ? in[i] : (int8_t)in[i];
        int64_t value = (int64_t)reference_scale(x - from->quant.zero_point, m) + to->quant.zero_point;
        out[i] = (uint8_t)(value < least ? least : value > most ? most : value);
    }
}

void reference_quantize(struct reference_call call)
{
    const struct tensor *from = reference_input(call, 0), *to = reference_output(call);
    if (from->dtype != DTYPE_FLOAT32) {
        quantize_integers(call);
        return;
    }
    const float *in = reference_in(call, 0);
    int8_t *out = reference_out(call);
    for (int64_t i = 0; i < shape_elements(to->shape); i++)
        out[i] = quantize_float(in[i], to->quant);
}

void reference_dequantize(struct reference_call call)
{
    const struct tensor *from = reference_input(call, 0);
    const uint8_t *in = reference_in(call, 0);
    float *out = reference_out(call);
    for (int64_t i = 0; i < shape_elements(from->shape); i++) {
        int32_t x = from->dtype == DTYPE_UINT8 ? in[i] : (int8_t)in[i];
        out[i] = (float)((double)from->quant.scale * (x - from->quant.zero_point));
    }
}
