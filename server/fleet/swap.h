/*
 * One board takes the place of another: the fleet's half of `replace` (server/deploy/replace.c has the other:
 * the parts of deployments). In three steps, so that both halves are one transaction: prepare [any], write
 * [writer thread, inside the transaction], done [worker, after the commit].
 */
#ifndef SHOAL_SERVER_FLEET_SWAP_H
#define SHOAL_SERVER_FLEET_SWAP_H

#include "server/fleet/fleet.h"

struct fleet_swap {
    char old[FLEET_ID_BYTES], by[FLEET_ID_BYTES]; /* ids */
    char name[64];                                /* what `by` will be called: the name of `old` */
    char old_name[64];                            /* what `old` will be called: NAME-old, NAME-old-2 ... */
    struct plan_board board;                      /* `by` as the planner sees it, with its new name */
};

/* Checks that `by` may take the place of `old` (ids) and finds the names. STATUS_INVALID_ARGUMENT: one board
 * twice; STATUS_CONFLICT: a board that is not accepted; STATUS_OFFLINE: `by` is. */
int fleet_swap_prepare(struct fleet *fleet, sqlite3 *db, const char *old, const char *by,
                       struct fleet_swap *swap, struct error *error);
/* Name, location and tags go over; `old` is drained, `by` is not. */
int fleet_swap_write(sqlite3 *db, const struct fleet_swap *swap, struct error *error);
/* Memory, the boards themselves (they learn their names) and the events. */
void fleet_swap_done(struct fleet *fleet, const struct fleet_swap *swap);

#endif
