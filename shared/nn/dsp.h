/*
 * The instructions of Cortex-M7's DSP extension that kernels use, as inline functions: the instruction itself
 * where there is one, else the same in portable C, so that the same kernel runs on a host under the
 * sanitizers. A word holds two int16, the lower half first. Private to shared/nn.
 */
#ifndef SHOAL_SHARED_NN_DSP_H
#define SHOAL_SHARED_NN_DSP_H

#include <stdint.h>
#include <string.h>

/* A loop that is fast only in a frame of its own. */
#define NN_NOINLINE __attribute__((noinline))

/* Code that runs from ITCM on a board. */
#if defined(__arm__)
#define NN_ITCM __attribute__((section(".itcm")))
#else
#define NN_ITCM
#endif

/* A word at any address: one unaligned load where the processor has it. */
static inline uint32_t dsp_load(const void *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint32_t dsp_pair(int32_t low, int32_t high)
{
    return ((uint32_t)low & 0xFFFF) | (uint32_t)high << 16;
}

#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP

#define NN_DSP 1
#include <arm_acle.h>

/* sum + the products of both halves; wraps */
static inline int32_t dsp_smlad(uint32_t x, uint32_t y, int32_t sum)
{
    return __smlad((int16x2_t)x, (int16x2_t)y, sum);
}

/* Adds bytes 0 and 2 (1 and 3), sign-extended, to the halves. */
static inline uint32_t dsp_add_even(uint32_t to, uint32_t bytes)
{
    return (uint32_t)__sxtab16((int16x2_t)to, (int8x4_t)bytes);
}
static inline uint32_t dsp_add_odd(uint32_t to, uint32_t bytes)
{
    uint32_t out;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(out) : "r"(to), "r"(bytes));
    return out;
}

/* (low half of x, low half of y), (high half of x, high half of y) */
static inline uint32_t dsp_lows(uint32_t x, uint32_t y)
{
    uint32_t out;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(out) : "r"(x), "r"(y));
    return out;
}
static inline uint32_t dsp_highs(uint32_t x, uint32_t y)
{
    uint32_t out;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(out) : "r"(y), "r"(x));
    return out;
}

/* (x * y + 2^31) >> 32, and the same added to a << 32 */
static inline int32_t dsp_smmulr(int32_t x, int32_t y)
{
    int32_t out;
    __asm__("smmulr %0, %1, %2" : "=r"(out) : "r"(x), "r"(y));
    return out;
}
static inline int32_t dsp_smmlar(int32_t x, int32_t y, int32_t a)
{
    int32_t out;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(out) : "r"(x), "r"(y), "r"(a));
    return out;
}

static inline int32_t dsp_ssat8(int32_t x)
{
    int32_t out;
    __asm__("ssat %0, #8, %1" : "=r"(out) : "r"(x));
    return out;
}

#else

#define NN_DSP 0

static inline int32_t dsp_half(uint32_t x, int high)
{
    return (int16_t)(high ? x >> 16 : x);
}

static inline int32_t dsp_smlad(uint32_t x, uint32_t y, int32_t sum)
{
    uint32_t low = (uint32_t)(dsp_half(x, 0) * dsp_half(y, 0)),
             high = (uint32_t)(dsp_half(x, 1) * dsp_half(y, 1));
    return (int32_t)((uint32_t)sum + low + high);
}

static inline uint32_t dsp_add_even(uint32_t to, uint32_t bytes)
{
    return dsp_pair(dsp_half(to, 0) + (int8_t)bytes, dsp_half(to, 1) + (int8_t)(bytes >> 16));
}
static inline uint32_t dsp_add_odd(uint32_t to, uint32_t bytes)
{
    return dsp_add_even(to, bytes >> 8);
}

static inline uint32_t dsp_lows(uint32_t x, uint32_t y)
{
    return (x & 0xFFFF) | y << 16;
}
static inline uint32_t dsp_highs(uint32_t x, uint32_t y)
{
    return x >> 16 | (y & 0xFFFF0000u);
}

static inline int32_t dsp_smmlar(int32_t x, int32_t y, int32_t a)
{
    uint64_t sum = ((uint64_t)(int64_t)a << 32) + (uint64_t)((int64_t)x * y) + 0x80000000u;
    return (int32_t)(uint32_t)(sum >> 32);
}
static inline int32_t dsp_smmulr(int32_t x, int32_t y)
{
    return dsp_smmlar(x, y, 0);
}

static inline int32_t dsp_ssat8(int32_t x)
{
    return x < INT8_MIN ? INT8_MIN : x > INT8_MAX ? INT8_MAX : x;
}

#endif

#endif
