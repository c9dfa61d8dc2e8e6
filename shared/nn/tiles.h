/*
 * The innermost loops of the Cortex-M7 kernels, over operands that are already widened to int16. On a
 * Cortex-M7 they are written in assembly: single loads between multiplications, which is what issues in the
 * fewest cycles there (docs/architecture.md, "Kernels"); elsewhere in C with the same results. Private to
 * shared/nn.
 */
#ifndef SHOAL_SHARED_NN_TILES_H
#define SHOAL_SHARED_NN_TILES_H

#include "shared/nn/dsp.h"

enum {
    TILE_PIXELS = 4,   /* pixels that go together, for each of two channels */
    TILE_WORDS = 8,    /* of x for two steps of k: four pixels' (k0, k2), then their (k1, k3) */
    DW_ROWS = 32,      /* input rows in a plane */
    DW_PITCH = 128,    /* words from two columns of all planes to the next two */
    DW_QUAD = 4,       /* outputs of a depthwise row that go together */
    DW_GROUP = 4,      /* channels packed together */
    FOURS_CHANNELS = 4 /* channels of a group of NN_LAYOUT_FOURS */
};

/* Two output channels over tiles of four pixels. `w` holds for every two k a word of each channel, `x` for
 * every tile and every two k a word of each pixel. The number of k is a multiple of 4. */
struct tiles {
    const uint32_t *w;
    int32_t bias[2];      /* what the sums start with */
    const uint32_t *loop; /* end of w's blocks of 16 k */
    uint32_t rest;        /* groups of 4 k beyond them: 0..3 */
    const uint32_t *x, *x_end;
    void *const *y;  /* output pixels; tiles_raw: y[0] is where the sums go */
    intptr_t offset; /* bytes from there to the first channel */
    struct {
        int32_t mantissa, factor; /* 2^(32 + shift) */
    } scale[2];
    int32_t zero_point;
};

/* The sums are twice what they stand for. Rounds twice, adds the zero point, saturates to int8, stores two
 * bytes a pixel. */
void tiles_finish(const struct tiles *t);
/* Adds the sums to two int32 a pixel. */
void tiles_add(const struct tiles *t);
/* Stores eight sums a tile to y[0] on: the first channel's four pixels, then the second's. */
void tiles_raw(const struct tiles *t, int32_t *sums);

/* Widens `groups` groups of 4 k of a channel pair (NN_LAYOUT_PAIRS) into tiles.w. `from` is aligned to 4. */
void tiles_unpack(const int8_t *from, uint32_t groups, uint32_t *to);

/* Depthwise: planes of four channels, interleaved: element (channel c, row r, columns 2j and 2j + 1) lies in
 * word j * DW_PITCH + c * DW_ROWS + r. dw_pack fills rows r and r + 1 from `words` times two pixels of four
 * int8 at `a` and at `b`, adding the halves of `zero`. */
void dw_pack(const uint8_t *a, const uint8_t *b, int32_t stride, uint32_t words, uint32_t zero, uint32_t *to);

/* 3x3 of one channel over rows of its plane. */
struct dw3 {
    uint32_t w[6];     /* of each kernel row (k0, k1), (k1, k2); twice the weights */
    const uint32_t *x; /* row 0 of the first output row */
    uint32_t x_quads;  /* bytes that a row's whole quads advance */
    uint32_t x_row;    /* bytes to the next output row's x */
    int32_t mantissa, factor;
    int8_t *y;       /* set from `rows` */
    uint32_t stride; /* bytes between output pixels */
    void *const *rows, *const *rows_end;
    intptr_t offset;          /* bytes from a row pointer to the first output */
    int32_t zero_point, bias; /* twice the bias */
    uint32_t rest;            /* outputs beyond the whole quads: 0..3 */
};
void dw3_stride1(const struct dw3 *d);
void dw3_stride2(const struct dw3 *d);

/* Four channels of NN_LAYOUT_FOURS by one input: adds to sums[4] what 256 divides, rounded up. `x` holds two
 * words for every four k. */
void fours_dot(const int8_t *w, const uint32_t *x, const uint32_t *x_end, int32_t sums[FOURS_CHANNELS]);

/* Four k of one channel: a word of weights, two of x; 256 times the sum. */
static inline int64_t fours_step(uint32_t word, const uint32_t *x)
{
    int64_t sum = 0;
    for (int half = 0; half < 2; half++) {
        int32_t whole = (int16_t)(word >> 16 * half), even = (int8_t)(word >> 16 * half);
        sum += (int64_t)whole * (int16_t)(x[0] >> 16 * half) + (int64_t)even * (int16_t)(x[1] >> 16 * half);
    }
    return sum;
}

#endif
