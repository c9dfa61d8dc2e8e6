/*
 * Reference pools and MEAN. AVERAGE_POOL divides by the taps inside the image, half away from zero, or, for a
 * legacy uint8 network, half up on the unsigned sum. MEAN folds 1/N into its one multiplier, truncating.
 */
#include "server/model/reference_kernels.h"

#include <math.h>

/* Rows [*lo, *hi) of a window that lie inside the image. */
static void clip(int32_t o, int32_t stride, int32_t pad, int32_t kernel, int32_t in, int32_t *lo, int32_t *hi)
{
    int32_t first = o * stride - pad;
    *lo = first < 0 ? 0 : first;
    *hi = first + kernel > in ? in : first + kernel;
}

static int32_t average(int32_t sum, int32_t taps, bool legacy_uint8)
{
    if (legacy_uint8) {
        int32_t unsigned_sum = sum + 128 * taps;
        return (unsigned_sum + taps / 2) / taps - 128;
    }
    return sum > 0 ? (sum + taps / 2) / taps : (sum - taps / 2) / taps;
}

/* The average or maximum of channel c over the box. */
static int32_t pool_window(struct reference_call call, struct box box, int32_t c)
{
    struct shape shape = reference_input(call, 0)->shape;
    const int8_t *in = reference_in(call, 0);
    int32_t sum = 0, most = -128, taps = 0;
    for (int32_t h = box.h0; h < box.h1; h++)
        for (int32_t w = box.w0; w < box.w1; w++) {
            int32_t x = in[((int64_t)h * shape.w + w) * shape.c + c];
            sum += x;
            most = x > most ? x : most;
            taps++;
        }
    return call.op->kind == OP_MAX_POOL ? most : average(sum, taps, call.op->legacy_uint8);
}

static void pool(struct reference_call call)
{
    const struct op *op = call.op;
    struct shape in = reference_input(call, 0)->shape, out = reference_output(call)->shape;
    struct reference_range range = reference_activation(op->activation, reference_output(call)->quant);
    int8_t *to = reference_out(call);
    for (int32_t h = 0; h < out.h; h++)
        for (int32_t w = 0; w < out.w; w++)
            for (int32_t c = 0; c < out.c; c++) {
                struct box box = {.c0 = c, .c1 = c + 1};
                clip(h, op->stride_h, op->pad_top, op->kernel_h, in.h, &box.h0, &box.h1);
                clip(w, op->stride_w, op->pad_left, op->kernel_w, in.w, &box.w0, &box.w1);
                *to++ = (int8_t)reference_clamp(pool_window(call, box, c), range.lo, range.hi);
            }
}

void reference_average_pool(struct reference_call call)
{
    pool(call);
}

void reference_max_pool(struct reference_call call)
{
    pool(call);
}

/* The multiplier with 1/count folded in: mantissa * 2^s / count, truncated, where 2^s is the largest power of
 * two up to count, but neither over 2^32 nor so large that the shift falls below -31. */
static struct reference_multiplier mean_multiplier(double real, int64_t count)
{
    struct reference_multiplier m = reference_multiplier(real);
    int32_t s = 0;
    while (((int64_t)2 << s) <= count)
        s++;
    if (s > 32)
        s = 32;
    if (s > 31 + m.shift)
        s = 31 + m.shift;
    m.mantissa = (int32_t)(((int64_t)m.mantissa << s) / count);
    m.shift -= s;
    return m;
}

static int32_t sum_box(const int8_t *in, struct shape shape, struct box box)
{
    int32_t sum = 0;
    for (int32_t h = box.h0; h < box.h1; h++)
        for (int32_t w = box.w0; w < box.w1; w++)
            for (int32_t c = box.c0; c < box.c1; c++)
                sum += in[((int64_t)h * shape.w + w) * shape.c + c];
    return sum;
}

void reference_mean(struct reference_call call)
{
    const struct tensor *from = reference_input(call, 0), *to = reference_output(call);
    int64_t count = shape_elements(from->shape) / shape_elements(to->shape);
    struct reference_multiplier m =
        mean_multiplier((double)from->quant.scale / (double)to->quant.scale, count);
    int8_t *out = reference_out(call);
    uint32_t reduce = call.op->reduce;
    for (int32_t h = 0; h < to->shape.h; h++)
        for (int32_t w = 0; w < to->shape.w; w++)
            for (int32_t c = 0; c < to->shape.c; c++) {
                struct box box = {h, reduce & 1 ? from->shape.h : h + 1,
                                  w, reduce & 2 ? from->shape.w : w + 1,
                                  c, reduce & 4 ? from->shape.c : c + 1};
                int32_t sum = sum_box(reference_in(call, 0), from->shape, box);
                sum -= (int32_t)(count * from->quant.zero_point);
                *out++ = reference_int8(reference_scale(sum, m), to->quant.zero_point, -128, 127);
            }
}
