/*
 * What was found about patches: how one is made depends on its operators and its tile alone, and many states
 * of many searches ask for the same. Lives as long as one question to the scheduler. Not for other modules.
 */
#ifndef SHOAL_SERVER_SCHEDULE_MEMO_H
#define SHOAL_SERVER_SCHEDULE_MEMO_H

#include "server/schedule/search.h"

enum { PATCH_OPS_MAX = 12 };

struct patch_key {
    int32_t ops[PATCH_OPS_MAX];   /* of the graph, then 0 */
    int32_t rules[PATCH_OPS_MAX]; /* what a free concatenation, or being tall, changes about them */
    int32_t n, tile_h, tile_w;
    int32_t rows; /* 1: operators may go row by row */
};

struct patch_way {
    bool known;
    const struct move *moves; /* the memo's */
    int32_t n_moves;          /* 0: none */
    int64_t peak_bytes;
};

struct memo {
    struct patch_way *ways;
    struct patch_key *keys;
    int32_t n, room;
    int32_t *slots; /* of a table: places in `ways`, or -1 */
    int64_t left;   /* moves that searches for ways may still look at */
    bool short_of;  /* there were not enough */
};

struct memo *memo_new(void); /* NULL without memory */
void memo_free(struct memo *memo);
/* The place of what is or will be known about a patch of these operators of the net; -1 without memory. */
int32_t memo_way(struct memo *memo, const struct net *net, const int32_t *ops, int32_t n, int32_t tile_h,
                 int32_t tile_w, bool rows);

#endif
