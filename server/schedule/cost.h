/*
 * What a step takes on one board, by the definitions of the cost model: MACs at the speed of their kind,
 * elements of the other operators and of sums, a microsecond an execution, weights from flash once an
 * execution unless they are resident or the loop around it has few enough for the cache. Not for other
 * modules.
 */
#ifndef SHOAL_SERVER_SCHEDULE_COST_H
#define SHOAL_SERVER_SCHEDULE_COST_H

#include "server/schedule/internal.h"

struct cost {
    double seconds;                  /* without the reading of `reads` */
    int64_t reads[NET_LOOP_OPS_MAX]; /* of each operator's weights, whole; they may be resident */
};

/* Sets what the operators of a net cost on the board. */
void cost_prepare(struct net *net, const struct schedule_board *board);
/* `limit`: bytes up to which channels an iteration are raised. */
void cost_move(const struct net *net, const struct move *move, int64_t limit, struct cost *cost);
/* The same as one figure: a resident byte costs `byte_s` instead of being read. */
double cost_priced(const struct net *net, const struct move *move, int64_t limit, double byte_s);

/* What moves take in all when the weights that are read most lie in `room` bytes; resident: of each operator
 * of the net, may be NULL. Negative without memory. */
double cost_moves(const struct net *net, const struct move *moves, int32_t n, int64_t limit, int64_t room,
                  bool *resident);

/* Channels an iteration of a loop that stays within `limit` bytes: as many as fit, a multiple of 4 from 4 on,
 * no more than the same number of turns takes; 0 of a move that is no loop over channels. */
int64_t cost_channels(const struct move *move, int64_t limit);

#endif
