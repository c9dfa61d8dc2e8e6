/*
 * Layouts: how a weight slice's values lie, and with that which kernel takes them. Each has as many bytes as
 * plain OHWI. A board's HELLO says which it takes (bit n: layout n); the emitter asks nn_layout_choose() and
 * packs. Kernels for other layouts than plain need scratch from their caller: nn_scratch_*() say how much.
 * Their results equal the plain kernels' bit for bit.
 */
#ifndef SHOAL_SHARED_NN_LAYOUT_H
#define SHOAL_SHARED_NN_LAYOUT_H

#include "shared/nn/nn.h"

#include <stdbool.h>

/*
 * PLAIN: see struct nn_weights.
 *
 * PAIRS, for Cortex-M7. CONV: every block of input channels [k in block] lies as plain OHWI would, but output
 * channels go in pairs, four weights of the one, four of the other in turn; a rest of 1 to 3 weights at the
 * channels' ends likewise. A last channel without a partner is plain. DW: [c - c0][kernel_h][kernel_w].
 *
 * FOURS, for Cortex-M7, a CONV that makes one pixel (fully connected): output channels in groups of four (a
 * last group may have fewer), four weights of each in turn. Weights k0, k1 that follow each other are stored
 * as the int16 256 * k1 + k0, which needs nn_layout_fours_fit(). With raw inputs a0, a1 the kernel sums
 * (256 * k1 + k0) * a1 + k0 * (256 * a0 - a1 + 127) = 256 * (k0 * a0 + k1 * a1) + 127 * k0, so the bias that
 * is stored is bias - zero point * sum of weights + floor(-127 * sum of even weights / 256), and the sum's
 * 256th part is rounded up. Never for sums (ACC, FINISH) or some of the input channels.
 */
enum nn_layout { NN_LAYOUT_PLAIN, NN_LAYOUT_PAIRS, NN_LAYOUT_FOURS, NN_LAYOUTS };
enum { NN_LAYOUT_MASK_PLAIN = 1, NN_LAYOUT_MASK_ALL = 7 };

/* What the choice depends on. `depth` is the input channels of a block (k_block); `pixels` the outputs that
 * one call may make, `width` those of a row. */
struct nn_work {
    const struct nn_params *p;
    bool depthwise;
    bool sums; /* form ACC, or a slice that FINISH uses too */
    int32_t depth, channels;
    int32_t width, pixels;
};

/* Whether kernels of a layout can do it at all (FOURS: but for nn_layout_fours_fit). */
bool nn_layout_can(enum nn_layout layout, const struct nn_work *work);
/* The best layout of those in `mask` that can. */
enum nn_layout nn_layout_choose(uint32_t mask, const struct nn_work *work);
/* Whether these weights, whole channels, can be stored as FOURS: no -128 behind a negative one. */
bool nn_layout_fours_fit(const int8_t *weights, int64_t n);

/* From plain OHWI, [channels][k values] (CONV, one block) or [taps][channels] (DW, k = taps). `bias` is
 * rewritten where the layout says so. */
void nn_layout_pack(enum nn_layout layout, const struct nn_work *work, const int8_t *plain, int32_t k,
                    int8_t *packed, int32_t *bias);

/* Bytes of scratch, aligned to 8, without which the kernel cannot run, and with which it is fastest; 0 for
 * PLAIN. More than `least` up to `most` is quicker. */
uint32_t nn_scratch_least(enum nn_layout layout, const struct nn_work *work);
uint32_t nn_scratch_most(enum nn_layout layout, const struct nn_work *work);

struct nn_scratch {
    void *bytes; /* aligned to 8 */
    uint32_t size;
};

/* As nn_conv_s8, nn_conv_acc_s32, nn_depthwise_s8. Zero points of activations are int8. At once [ka, kb) lie
 * in one block. */
void nn_conv_pairs_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                      int32_t ka, int32_t kb, const struct nn_out *out, struct nn_scratch scratch);
void nn_conv_pairs_acc_s32(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                           int32_t ka, int32_t kb, const struct nn_out *out, struct nn_scratch scratch);
void nn_depthwise_pairs_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                           const struct nn_out *out, struct nn_scratch scratch);
void nn_conv_fours_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                      const struct nn_out *out, struct nn_scratch scratch);

/* As nn_add_s8 without broadcasting; false: not for these parameters, nothing is done. Where NN_ADD_QUICK is
 * set this is quicker than the plain kernel. */
bool nn_add_quick_s8(const struct nn_params *p, const struct nn_in *a, const struct nn_in *b,
                     const struct nn_out *out);
#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP
#define NN_ADD_QUICK 1
#else
#define NN_ADD_QUICK 0
#endif

#endif
