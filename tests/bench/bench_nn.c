/*
 * MAC/s (elements/s) of each kernel on this machine, over shapes of MobileNetV2. Prints one table; judges
 * nothing, so it is no test. Built and run by hand: make build/bench/bench_nn && build/bench/bench_nn
 */
#include "shared/nn/nn.h"
#include "tests/support/nn_map.h"
#include "tests/support/prng.h"

#include <stdio.h>
#include <time.h>

enum { CHANNELS_MAX = 2048 };

static int32_t mantissa[CHANNELS_MAX], shift[CHANNELS_MAX], bias[CHANNELS_MAX];

/* Of this process: other work on the machine does not count. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct shape {
    const char *name;
    int32_t h, w, c, out_c, kernel, stride, k_block;
};

/* Runs until 0.2 s have passed; GMAC/s. */
static double measure(const struct shape *s, bool depthwise)
{
    struct prng prng = prng_seed(1);
    struct nn_params p = {.stride_h = (uint16_t)s->stride,
                          .stride_w = (uint16_t)s->stride,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .multiplier = 1,
                          .act_lo = -128,
                          .act_hi = 127};
    p.kernel_h = p.kernel_w = (uint16_t)s->kernel;
    p.pad_top = p.pad_left = (int16_t)(s->kernel / 2);
    p.in_zero_point[0] = 5;
    struct map x = map_new(s->h, s->w, s->c, 1, 0);
    struct map y = map_new(s->h / s->stride, s->w / s->stride, s->out_c, 1, 0);
    struct map_rows rows;
    map_random(&x, &prng);
    int32_t depth = depthwise ? 1 : s->c;
    size_t bytes = (size_t)s->out_c * (size_t)(s->kernel * s->kernel) * (size_t)depth;
    int8_t *values = malloc(bytes);
    prng_fill(&prng, values, bytes);
    struct nn_weights w = {
        values, mantissa, shift, bias, 0, s->out_c, 0, depth, s->k_block ? s->k_block : depth};
    struct nn_in in = map_in(&x, &rows, -s->kernel / 2, s->h + s->kernel / 2, 0, 0);
    struct nn_out out = map_out_all(&y, &rows);
    double start = now_s(), took;
    int32_t runs = 0;
    do {
        if (depthwise)
            nn_depthwise_s8(&p, &w, &in, &out);
        else
            nn_conv_s8(&p, &w, &in, 0, depth, &out);
        runs++;
        took = now_s() - start;
    } while (took < 0.2);
    free(values);
    double macs = (double)y.h * y.w * (double)bytes;
    map_free(&x);
    map_free(&y);
    return macs * runs / took * 1e-9;
}

int main(void)
{
    static const struct shape convs[] = {
        {"1x1 56x56x24->144", 56, 56, 24, 144, 1, 1, 0},
        {"1x1 28x28x144->32", 28, 28, 144, 32, 1, 1, 0},
        {"1x1 14x14x64->384", 14, 14, 64, 384, 1, 1, 0},
        {"1x1 14x14x64->384 blocks of 24", 14, 14, 64, 384, 1, 1, 24},
        {"1x1 7x7x960->160", 7, 7, 960, 160, 1, 1, 0},
        {"3x3 112x112x3->32 stride 2", 112, 112, 3, 32, 3, 2, 0},
        {"3x3 16x16x16->16", 16, 16, 16, 16, 3, 1, 0},
        {"fc 1280->1000", 1, 1, 1280, 1000, 1, 1, 0},
    };
    static const struct shape depthwise[] = {
        {"dw 28x28x192", 28, 28, 192, 192, 3, 1, 0},
        {"dw 56x56x144 stride 2", 56, 56, 144, 144, 3, 2, 0},
        {"dw 7x7x960", 7, 7, 960, 960, 3, 1, 0},
        {"dw 56x56x16", 56, 56, 16, 16, 3, 1, 0},
    };
    for (int32_t i = 0; i < CHANNELS_MAX; i++) {
        mantissa[i] = 1 << 30;
        shift[i] = -8;
    }
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        printf("%-32s %7.2f GMAC/s\n", convs[i].name, measure(&convs[i], false));
    for (size_t i = 0; i < sizeof depthwise / sizeof *depthwise; i++)
        printf("%-32s %7.2f GMAC/s\n", depthwise[i].name, measure(&depthwise[i], true));
    return 0;
}
