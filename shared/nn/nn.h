/*
 * int8 kernels over tables of row pointers. One file an operator: a plain kernel that is right for every
 * parameter, and later, where it pays, a SIMD twin chosen by the weights' layout number. Rings, strips,
 * patches and borders need no case in any kernel: the walker (shared/vm) makes the row tables through
 * view_rows().
 *
 * Coordinates are those of the whole tensor. Element (h, w, c) of an input lies at
 * rows[h - h0] + (w - w0) * pixel_stride + (c - c0) * element size; rows[i] == NULL means that row h0 + i
 * lies outside the image and adds nothing. Columns outside [0, width) add nothing either. Kernels never
 * allocate, never fail, and touch nothing but what they are given.
 */
#ifndef SHOAL_SHARED_NN_NN_H
#define SHOAL_SHARED_NN_NN_H

#include "shared/quant/quant.h"

#include <stdint.h>

enum { NN_ROWS_MAX = 256 }; /* entries of a row table; a window spans at most 255 rows */

enum nn_flag {
    NN_FLAG_MAX = 1,          /* POOL: maximum instead of average */
    NN_FLAG_LEGACY_UINT8 = 2, /* POOL, FINISH of an average: round half up on the unsigned sum */
    NN_FLAG_AVERAGE = 4,      /* FINISH: divide by count (AVERAGE_POOL) instead of requantise */
    NN_FLAG_MEAN = 8,         /* FINISH: subtract count * in zero point, then multiplier[0] (MEAN) */
    NN_FLAG_ALIGN_CORNERS = 16,
    NN_FLAG_HALF_PIXEL = 32
};

/* Parameters of one instruction, 96 bytes, as they lie in a fragment (little-endian). Unused fields are 0. */
struct nn_params {
    uint16_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w; /* windows; 1 where unused */
    int16_t pad_top,
        pad_left;        /* windows; COPY: out (h, w, c) reads in (h - pad_top, w - pad_left, c - pad_c) */
    int16_t pad_c, fill; /* COPY: value where that lies outside the input */
    int16_t in_zero_point[2], out_zero_point, weight_zero_point;
    int16_t act_lo, act_hi; /* clamp of the output */
    uint16_t multiplier;    /* DW: output channels an input channel */
    uint16_t flags;         /* enum nn_flag */
    uint16_t perm[3];       /* COPY: output axis i is input axis perm[i] (0 h, 1 w, 2 c); zeros: none moves */
    uint16_t reduce;        /* SUM: bit 0 h, bit 1 w, bit 2 c are summed over */
    struct quant_multiplier m[3];      /* ADD: in 0, in 1, out; MUL, MEAN: [0] is out; SOFTMAX: [0] */
    int32_t count;                     /* SUM/FINISH: elements summed; ADD: left shift; SOFTMAX: diff_min */
    uint16_t in_h, in_w, out_h, out_w; /* RESIZE: the whole maps */
    uint16_t reserved[8];
};
_Static_assert(sizeof(struct nn_params) == 96, "nn_params is part of the fragment format");

/* An input as seen by one call. */
struct nn_in {
    const void *const *rows;
    int32_t h0;           /* tensor row of rows[0]; may be negative */
    int32_t w0, c0;       /* what rows[i] points at */
    int32_t pixel_stride; /* bytes */
    int32_t width;        /* columns of the whole tensor */
};

/* An output box; rows[i] points at element (h0 + i, w0, c0). */
struct nn_out {
    void *const *rows;
    int32_t h0, h1, w0, w1, c0, c1;
    int32_t pixel_stride; /* bytes */
};

/* One weight slice, layout 0. CONV: [block][c - c0][kernel_h][kernel_w][k in block] where input channels
 * k0..k1 are cut into blocks of k_block (the last may be shorter); k_block == k1 - k0 is plain OHWI. DW:
 * [kernel_h] [kernel_w][c - c0]. mantissa, shift, bias are indexed by c - c0. */
struct nn_weights {
    const int8_t *values;
    const int32_t *mantissa, *shift, *bias;
    int32_t c0, c1, k0, k1, k_block;
};

/* CONV over input channels [ka, kb): finishes at once into int8. */
void nn_conv_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in, int32_t ka,
                int32_t kb, const struct nn_out *out);
/* Form ACC: adds the contribution of input channels [ka, kb) to an int32 output; no bias, no requantisation.
 */
void nn_conv_acc_s32(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                     int32_t ka, int32_t kb, const struct nn_out *out);
void nn_depthwise_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                     const struct nn_out *out);
/* `height` is the rows of the whole input tensor (taps outside the image do not count). */
void nn_pool_s8(const struct nn_params *p, const struct nn_in *in, int32_t height, const struct nn_out *out);
/* Adds raw input values of rows [ha, hb), all columns, and all channels if `reduce` says so, to an int32
 * output whose reduced axes have size 1. [ca, cb) are the input's channels when channels are summed over. */
void nn_sum_s32(const struct nn_params *p, const struct nn_in *in, int32_t ha, int32_t hb, int32_t ca,
                int32_t cb, const struct nn_out *out);
void nn_zero_s32(const struct nn_out *out);
/* Ends int32 sums: by weights' bias and multipliers (CONV; w != NULL), MEAN, or AVERAGE. in and out may be
 * the same memory under the rule of ENCODING A: goes h, w, c upward. */
void nn_finish_s8(const struct nn_params *p, const struct nn_weights *w, const struct nn_in *in,
                  const struct nn_out *out);
/* `bcast`: the second input is 1x1xc or 1x1x1 (bcast_c false): its one row is rows[0]. */
enum nn_bcast { NN_BCAST_NONE, NN_BCAST_PIXEL /* 1x1xc */, NN_BCAST_SCALAR /* 1x1x1 */ };
/* A negative mantissa of m[1] subtracts the second input, scaled by the magnitude (SUB; exact also for ties).
 */
void nn_add_s8(const struct nn_params *p, const struct nn_in *a, const struct nn_in *b, enum nn_bcast bcast,
               const struct nn_out *out);
void nn_mul_s8(const struct nn_params *p, const struct nn_in *a, const struct nn_in *b, enum nn_bcast bcast,
               const struct nn_out *out);
void nn_lut_s8(const int8_t table[256], const struct nn_in *in, const struct nn_out *out);
/* Moves, pads and permutes; element is 1 or 4 bytes (4: no fill). For a permutation `in` has rows for every
 * input row that the box needs. */
void nn_copy(const struct nn_params *p, const struct nn_in *in, int32_t in_h, int32_t in_c, int32_t element,
             const struct nn_out *out);
/* The input row (or column) that output position `o` reads; shared with the walker and the check. */
int32_t nn_resize_source(int32_t o, int32_t in, int32_t out, uint32_t flags);
void nn_resize_s8(const struct nn_params *p, const struct nn_in *in, const struct nn_out *out);
void nn_softmax_s8(const struct nn_params *p, const struct nn_in *in, const struct nn_out *out);

#endif
