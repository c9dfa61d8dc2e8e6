/* The search for the schedule with the least peak; see search.c and path.c. Not for other modules. */
#ifndef SHOAL_SERVER_SCHEDULE_SEARCH_H
#define SHOAL_SERVER_SCHEDULE_SEARCH_H

#include "server/schedule/internal.h"

struct search_result {
    struct move *moves; /* malloc'ed, the caller's */
    int32_t n_moves;
    int64_t peak_bytes;  /* the least that was found */
    int64_t least_bytes; /* without extra MACs, when it was first found */
    int64_t limit_bytes; /* what the moves keep to: more than peak_bytes only if options.ram is */
    double seconds;
    int64_t n_tried; /* moves */
    bool exhaustive, out_of_memory;
};

/* False: out_of_memory, or the net is too wide to try all orders of its operators; `ordered` tries few of
 * them and finds something always, but for what is above `cap` bytes, which is no use. The net is prepared
 * (cost_prepare). */
bool search_run(const struct net *net, const struct schedule_options *options, bool ordered, int64_t cap,
                struct search_result *result);
/* Only the least peak without extra MACs, and a fast path to it among what was met on the way. */
bool search_least(const struct net *net, const struct schedule_options *options,
                  struct search_result *result);

/* ---- the states and moves that a search has met, and paths through them (path.c) ---- */

enum { NO_STATE = -1 };

/* Edges come in two parts: moves that compute nothing again, and the others. */
enum { PLAIN, AGAIN, PARTS };

struct state {
    int64_t peak;
    int32_t done_ops, first_edge[PARTS], n_edges[PARTS];
    bool expanded[PARTS], settled;
};

struct edge {
    int32_t from, to;
    struct move move;
};

struct paths {
    const struct net *net;
    const struct schedule_options *options;
    const struct state *states;
    struct edge *edges; /* guesses among them are resolved */
    int32_t n_states, n_edges, goal;
    int64_t budget; /* extra MACs */
};

/* The least threshold under which the goal is reached within the budget; -1: none. Guesses are resolved where
 * that may lower it. */
int64_t paths_least(const struct paths *paths, bool *out_of_memory);
/* The fastest path found under `limit`, which is at least paths_least: moves and limit_bytes of the result.
 * Guesses that lie on a path under it are resolved, as many as `guesses` moves to look at allow. */
bool paths_fastest(const struct paths *paths, int64_t least, int64_t limit, int64_t guesses,
                   struct search_result *result);

/* patches.c. The most rows and columns of each op's output that a patch of the move needs. */
/* The rows of inner move `m`, which goes row by row. */
bool patches_rows(const struct net *net, const struct move *move, int32_t m, struct row_plan *plan);
void patches_sizes(const struct net *net, const struct move *move, int32_t *h, int32_t *w);

#endif
