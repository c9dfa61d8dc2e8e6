/* The search for the schedule with the least peak; see search.c. Not for other modules. */
#ifndef SHOAL_SERVER_SCHEDULE_SEARCH_H
#define SHOAL_SERVER_SCHEDULE_SEARCH_H

#include "server/schedule/internal.h"

struct search_result {
    struct move *moves; /* malloc'ed, the caller's */
    int32_t n_moves;
    int64_t peak_bytes;  /* the least that was found */
    int64_t limit_bytes; /* what the moves keep to: options.ram if it is larger */
    bool exhaustive, out_of_memory;
};

/* False: nothing was found; out_of_memory says why. */
bool search_run(const struct net *net, const struct schedule_options *options, struct search_result *result);

/* Channels an iteration of a loop that stays within `limit` bytes: as many as fit, a multiple of 4 from 4 on;
 * 0 of a move that is no loop over channels. */
int64_t search_channels(const struct move *move, int64_t limit);

/* patches.c: how a patch of the move is made; moves' ops are places in move->ops. h, w: the most rows and
 * columns of each op's output within a patch. result->moves is the caller's, also after false. */
bool patches_inner(const struct net *net, const done_word *done, const struct schedule_options *options,
                   const struct move *move, struct search_result *result, int32_t *h, int32_t *w);

#endif
