/*
 * The image that counts kernels. For every shape it prints "row KERNEL;SHAPE;LAYOUT;MACS;SCRATCH;TARGET" and
 * makes one call between two marks, which the counting plugin answers with "count N". Requantisation,
 * widening and packing are inside. Weights, inputs and multipliers are such as layers have; random values do
 * not change counts but for rounding in the plain kernels.
 */
#include "shared/nn/layout.h"
#include "tests/firmware/kernels/image.h"
#include "tests/support/prng.h"

#include <string.h>

enum { CHANNELS_MAX = 1280, MAP_MAX = 512 * 1024, VALUES_MAX = 1300 * 1024, SCRATCH_MAX = 32 * 1024 };

struct shape {
    const char *kernel, *name, *target; /* instructions per MAC */
    int32_t h, w, c, out_c, side, stride;
    bool depthwise, full;
};

static const struct shape shapes[] = {
    {"1x1", "14x14x64->384", "1.10", 14, 14, 64, 384, 1, 1, false, false},
    {"1x1", "7x7x960->160", "1.10", 7, 7, 960, 160, 1, 1, false, false},
    {"1x1", "56x56x24->144", "1.35", 56, 56, 24, 144, 1, 1, false, false},
    {"1x1", "28x28x144->32", "", 28, 28, 144, 32, 1, 1, false, false},
    {"1x1", "4x4x960->320", "", 4, 4, 960, 320, 1, 1, false, false},
    {"1x1", "28x28x16->96", "", 28, 28, 16, 96, 1, 1, false, false},
    {"depthwise 3x3", "28x28x192", "2.40", 28, 28, 192, 192, 3, 1, true, false},
    {"depthwise 3x3", "56x56x144 stride 2", "3.00", 56, 56, 144, 144, 3, 2, true, false},
    {"depthwise 3x3", "7x7x960", "", 7, 7, 960, 960, 3, 1, true, false},
    {"depthwise 3x3", "14x14x384", "", 14, 14, 384, 384, 3, 1, true, false},
    {"depthwise 5x5", "14x14x64", "", 14, 14, 64, 64, 5, 1, true, false},
    {"conv 3x3", "112x112x3->32 stride 2", "1.50", 112, 112, 3, 32, 3, 2, false, false},
    {"conv 3x3", "16x16x16->16", "", 16, 16, 16, 16, 3, 1, false, false},
    {"fully connected", "1280->1000", "1.00", 1, 1, 1280, 1000, 1, 1, false, true},
};

static int8_t input[MAP_MAX], output[2][MAP_MAX];
__attribute__((section(".big"))) static _Alignas(16) int8_t plain[VALUES_MAX], packed[VALUES_MAX];
static _Alignas(16) uint8_t scratch[SCRATCH_MAX];
static int32_t mantissa[CHANNELS_MAX], shift[CHANNELS_MAX], bias[2][CHANNELS_MAX];

static void print_row(const struct shape *s, const char *layout, int64_t macs, uint32_t scratch_bytes)
{
    print("row ");
    print(s->kernel);
    print(";");
    print(s->name);
    print(";");
    print(layout);
    print(";");
    print_number(macs);
    print(";");
    print_number(scratch_bytes);
    print(";");
    print(s->target);
    print("\n");
}

struct job {
    const struct shape *shape;
    struct nn_params p;
    struct nn_weights w[2];
    struct nn_in in;
    struct nn_out out[2];
    const void *in_rows[NN_ROWS_MAX];
    void *out_rows[2][NN_ROWS_MAX];
    struct nn_work work;
    enum nn_layout layout;
    struct nn_scratch scratch;
    int64_t macs;
};

static void set_maps(struct job *job)
{
    const struct shape *s = job->shape;
    int32_t pad = job->p.pad_top, out_h = s->h / s->stride, out_w = s->w / s->stride;
    for (int32_t h = -pad; h < s->h + s->side; h++)
        job->in_rows[h + pad] = h >= 0 && h < s->h ? input + h * s->w * s->c : 0;
    job->in = (struct nn_in){job->in_rows, -pad, 0, 0, s->c, s->w};
    for (int i = 0; i < 2; i++) {
        for (int32_t h = 0; h < out_h; h++)
            job->out_rows[i][h] = output[i] + h * out_w * s->out_c;
        job->out[i] = (struct nn_out){job->out_rows[i], 0, out_h, 0, out_w, 0, s->out_c, s->out_c};
    }
}

static void set_weights(struct job *job, struct prng *prng)
{
    const struct shape *s = job->shape;
    int32_t depth = s->depthwise ? 1 : s->c, k = s->side * s->side * depth;
    for (int32_t i = 0; i < s->out_c * k; i++)
        plain[i] = (int8_t)(s->full ? prng_range(prng, -30, 30) : prng_range(prng, -127, 127));
    for (int32_t c = 0; c < s->out_c; c++) {
        mantissa[c] = prng_range(prng, 1 << 30, INT32_MAX);
        shift[c] = prng_range(prng, -9, -8);
        bias[0][c] = bias[1][c] = prng_range(prng, -1000, 1000);
    }
    job->work = (struct nn_work){.p = &job->p,
                                 .depthwise = s->depthwise,
                                 .depth = depth,
                                 .channels = s->out_c,
                                 .width = job->out[0].w1,
                                 .pixels = job->out[0].w1 * job->out[0].h1};
    job->layout = nn_layout_choose(NN_LAYOUT_MASK_ALL, &job->work);
    nn_layout_pack(job->layout, &job->work, plain, k, packed, bias[1]);
    for (int i = 0; i < 2; i++)
        job->w[i] =
            (struct nn_weights){i ? packed : plain, mantissa, shift, bias[i], 0, s->out_c, 0, depth, depth};
    uint32_t most = nn_scratch_most(job->layout, &job->work);
    job->scratch = (struct nn_scratch){scratch, most < SCRATCH_MAX ? most : SCRATCH_MAX};
    job->macs = (int64_t)s->out_c * k * job->work.pixels;
}

static void run_plain(const struct job *job)
{
    mark();
    if (job->shape->depthwise)
        nn_depthwise_s8(&job->p, &job->w[0], &job->in, &job->out[0]);
    else
        nn_conv_s8(&job->p, &job->w[0], &job->in, 0, job->shape->c, &job->out[0]);
    mark();
}

static void run_packed(const struct job *job)
{
    mark();
    if (job->shape->depthwise)
        nn_depthwise_pairs_s8(&job->p, &job->w[1], &job->in, &job->out[1], job->scratch);
    else if (job->layout == NN_LAYOUT_FOURS)
        nn_conv_fours_s8(&job->p, &job->w[1], &job->in, &job->out[1], job->scratch);
    else
        nn_conv_pairs_s8(&job->p, &job->w[1], &job->in, 0, job->shape->c, &job->out[1], job->scratch);
    mark();
}

static int run_shape(const struct shape *shape, uint64_t seed)
{
    static const char *const layouts[] = {"plain", "pairs", "fours"};
    static struct job job;
    struct prng prng = prng_seed(seed);
    job = (struct job){.shape = shape};
    int32_t pad =
        (shape->h / shape->stride - 1) * shape->stride + shape->side - shape->h; /* as SAME has it */
    job.p = (struct nn_params){.kernel_h = (uint16_t)shape->side,
                               .kernel_w = (uint16_t)shape->side,
                               .stride_h = (uint16_t)shape->stride,
                               .stride_w = (uint16_t)shape->stride,
                               .dilation_h = 1,
                               .dilation_w = 1,
                               .pad_top = (int16_t)(pad / 2),
                               .pad_left = (int16_t)(pad / 2),
                               .in_zero_point = {-5, 0},
                               .out_zero_point = -3,
                               .act_lo = -128,
                               .act_hi = 127,
                               .multiplier = 1};
    prng_fill(&prng, input, sizeof input);
    set_maps(&job);
    set_weights(&job, &prng);
    print_row(shape, layouts[0], job.macs, 0);
    run_plain(&job);
    print_row(shape, layouts[job.layout], job.macs, job.scratch.size);
    run_packed(&job);
    size_t bytes = (size_t)job.work.pixels * (size_t)shape->out_c;
    if (memcmp(output[0], output[1], bytes) == 0)
        return 0;
    print("differs\n");
    return 1;
}

int image_main(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (run_shape(&shapes[i], i))
            return 1;
    print("ok\n");
    return 0;
}
