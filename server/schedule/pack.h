/*
 * Arena packing: offsets for buffers of known sizes and times of use, so that buffers in use at the same time
 * do not overlap. Items of one group lie at fixed distances and may overlap each other. Best fit over several
 * orders, then random insertion moves from a fixed seed: the same input always gives the same offsets.
 */
#ifndef SHOAL_SERVER_SCHEDULE_PACK_H
#define SHOAL_SERVER_SCHEDULE_PACK_H

#include <stdint.h>

struct pack_item {
    int64_t bytes;
    int32_t first, last; /* steps of use, both included */
    int32_t align;       /* a power of two */
    int64_t offset;      /* set by schedule_pack */
    int32_t group;       /* 0: alone */
    int64_t distance;    /* in a group: from an origin common to its items, a multiple of align */
};

/* Sets the offsets and *total (end of the highest item). `effort` bounds the moves that are tried when the
 * first orders miss the bound; 0: none. Returns 0 or STATUS_NO_MEMORY. */
int schedule_pack(struct pack_item *items, int32_t n, int32_t effort, int64_t *total);

/* Largest sum of bytes in use at one step, what overlaps in a group counted once: no packing can be lower. */
int64_t schedule_pack_bound(const struct pack_item *items, int32_t n);

#endif
