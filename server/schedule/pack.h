/*
 * Arena packing: offsets for buffers of known sizes and times of use, so that buffers in use at the same time
 * do not overlap, but for pairs that may. Items of one group lie at fixed distances and may overlap each
 * other. Best fit over several orders, random insertion moves from a fixed seed, then branch and bound: the
 * same input always gives the same offsets.
 */
#ifndef SHOAL_SERVER_SCHEDULE_PACK_H
#define SHOAL_SERVER_SCHEDULE_PACK_H

#include <stdbool.h>
#include <stdint.h>

struct pack_item {
    int64_t bytes;
    int32_t first, last; /* steps of use, both included */
    int32_t align;       /* a power of two */
    int64_t offset;      /* set by schedule_pack */
    int32_t group;       /* 0: alone */
    int64_t distance;    /* in a group: from an origin common to its items, a multiple of align */
};

/* Item `above` may lie over item `below`, where it begins at least `distance` bytes above it, or (`level`) at
 * the same byte. */
struct pack_pair {
    int32_t below, above;
    int64_t distance; /* 0 or more */
    bool level;
};

struct pack_problem {
    struct pack_item *items;
    int32_t n_items;
    const struct pack_pair *pairs; /* each two items at most once */
    int32_t n_pairs;
    int64_t wish;   /* a total that is as good as the bound; 0: none */
    int64_t enough; /* one that is not worth much work; 0: none */
    int32_t moves;  /* random ones that are tried when the first orders miss the wish */
    int64_t work;   /* of the exact search, in comparisons, before them and after them */
};

/* Sets the offsets and *total (end of the highest item). Returns 0 or STATUS_NO_MEMORY. */
int schedule_pack(const struct pack_problem *problem, int64_t *total);

/* Largest sum of bytes in use at one step, what overlaps counted once: no packing can be lower. */
int64_t schedule_pack_bound(const struct pack_problem *problem);

#endif
