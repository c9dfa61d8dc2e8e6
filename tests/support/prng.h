/*
 * A small deterministic generator for tests (splitmix64): the same seed gives the same sequence on every
 * machine and compiler. Not for keys.
 */
#ifndef SHOAL_TESTS_SUPPORT_PRNG_H
#define SHOAL_TESTS_SUPPORT_PRNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prng {
    uint64_t state;
};

static inline struct prng prng_seed(uint64_t seed)
{
    return (struct prng){seed * 0x9e3779b97f4a7c15u + 0x1234567u};
}

static inline uint64_t prng_next(struct prng *prng)
{
    uint64_t z = prng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [lo, hi], both included. */
static inline int32_t prng_range(struct prng *prng, int32_t lo, int32_t hi)
{
    uint64_t span = (uint64_t)((int64_t)hi - lo) + 1;
    return (int32_t)(lo + (int64_t)(prng_next(prng) % span));
}

/* True once in `n` times. */
static inline bool prng_one_in(struct prng *prng, int32_t n)
{
    return prng_range(prng, 1, n) == 1;
}

/* Uniform in [0, 1). */
static inline double prng_unit(struct prng *prng)
{
    return (double)(prng_next(prng) >> 11) * 0x1p-53;
}

static inline void prng_fill(struct prng *prng, void *bytes, size_t size)
{
    unsigned char *out = bytes;
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)prng_next(prng);
}

#endif
