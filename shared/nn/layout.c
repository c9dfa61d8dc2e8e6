/*
 * Which layout a slice gets, and its packing; the kernels that read them are in conv_pairs.c,
 * depthwise_pairs.c and conv_fours.c. What cannot be packed here is never chosen, and nn_layout_can() is also
 * what a board's check asks before it lets such a slice run.
 */
#include "shared/nn/layout.h"
#include "shared/nn/scratch.h"

#include <stddef.h>
#include <string.h>

enum { WINDOW_MAX = 7, SCRATCH_MAX = 32 * 1024 };

static bool small_window(const struct nn_params *p)
{
    return p->multiplier == 1 && p->dilation_h == 1 && p->dilation_w == 1 && p->kernel_h <= WINDOW_MAX &&
           p->kernel_w <= WINDOW_MAX && p->stride_h <= WINDOW_MAX && p->stride_w <= WINDOW_MAX;
}

bool nn_layout_can(enum nn_layout layout, const struct nn_work *work)
{
    const struct nn_params *p = work->p;
    int64_t k = (int64_t)p->kernel_h * p->kernel_w * work->depth;
    switch (layout) {
    case NN_LAYOUT_PLAIN:
        return true;
    case NN_LAYOUT_PAIRS:
        return work->depthwise ? small_window(p)
                               : k > 0 && k <= SCRATCH_MAX && nn_scratch_least(layout, work) <= SCRATCH_MAX;
    case NN_LAYOUT_FOURS:
        return !work->depthwise && !work->sums && work->pixels == 1 && k > 0 && k % 4 == 0 &&
               nn_scratch_least(layout, work) <= SCRATCH_MAX && p->weight_zero_point == 0;
    default:
        return false;
    }
}

enum nn_layout nn_layout_choose(uint32_t mask, const struct nn_work *work)
{
    for (int layout = NN_LAYOUTS - 1; layout > 0; layout--)
        if (mask >> layout & 1 && nn_layout_can((enum nn_layout)layout, work))
            return (enum nn_layout)layout;
    return NN_LAYOUT_PLAIN;
}

bool nn_layout_fours_fit(const int8_t *weights, int64_t n)
{
    for (int64_t i = 1; i < n; i += 2)
        if (weights[i] == INT8_MIN && weights[i - 1] < 0)
            return false;
    return true;
}

/* `n` channels of `k` weights, `each` at a time in turn. */
static void interleave(const int8_t *plain, int32_t n, int32_t k, int8_t *packed)
{
    enum { EACH = 4 };
    for (int32_t e = 0; e < k; e += EACH)
        for (int32_t c = 0; c < n; c++)
            for (int32_t i = e; i < k && i < e + EACH; i++)
                *packed++ = plain[(ptrdiff_t)c * k + i];
}

static void pack_fours(const struct nn_params *p, int32_t channels, const int8_t *plain, int32_t k,
                       int8_t *packed, int32_t *bias)
{
    for (int32_t c = 0; c < channels; c++) {
        const int8_t *w = plain + (ptrdiff_t)c * k;
        int64_t all = 0, even = 0;
        for (int32_t e = 0; e < k; e++) {
            all += w[e];
            even += e % 2 == 0 ? w[e] : 0;
        }
        bias[c] = (int32_t)(uint32_t)(uint64_t)(bias[c] - p->in_zero_point[0] * all + ((-127 * even) >> 8));
    }
    for (int32_t c = 0; c < channels; c += 4)
        interleave(plain + (ptrdiff_t)c * k, channels - c < 4 ? channels - c : 4, k,
                   packed + (ptrdiff_t)c * k);
    for (int64_t e = 0; e < (int64_t)channels * k; e += 2) /* 256 * k1 + k0 as two bytes */
        packed[e + 1] = (int8_t)(packed[e + 1] - (packed[e] < 0));
}

void nn_layout_pack(enum nn_layout layout, const struct nn_work *work, const int8_t *plain, int32_t k,
                    int8_t *packed, int32_t *bias)
{
    int32_t n = work->channels;
    if (layout == NN_LAYOUT_FOURS) {
        pack_fours(work->p, n, plain, k, packed, bias);
    } else if (layout == NN_LAYOUT_PAIRS && work->depthwise) {
        for (int32_t c = 0; c < n; c++)
            for (int32_t t = 0; t < k; t++)
                packed[(ptrdiff_t)c * k + t] = plain[(ptrdiff_t)t * n + c];
    } else if (layout == NN_LAYOUT_PAIRS) {
        for (int32_t c = 0; c < n; c += 2)
            interleave(plain + (ptrdiff_t)c * k, n - c < 2 ? 1 : 2, k, packed + (ptrdiff_t)c * k);
    } else {
        memcpy(packed, plain, (size_t)n * (size_t)k);
    }
}

uint32_t nn_scratch_least(enum nn_layout layout, const struct nn_work *work)
{
    if (layout == NN_LAYOUT_FOURS)
        return nn_conv_fours_scratch(work);
    if (layout != NN_LAYOUT_PAIRS)
        return 0;
    return work->depthwise ? nn_depthwise_pairs_scratch_least(work) : nn_conv_pairs_scratch_least(work);
}

uint32_t nn_scratch_most(enum nn_layout layout, const struct nn_work *work)
{
    if (layout == NN_LAYOUT_FOURS)
        return nn_conv_fours_scratch(work);
    if (layout != NN_LAYOUT_PAIRS)
        return 0;
    return work->depthwise ? nn_depthwise_pairs_scratch_most(work) : nn_conv_pairs_scratch_most(work);
}
