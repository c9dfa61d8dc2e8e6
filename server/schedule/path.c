/*
 * Paths through what a search has met. A move leads to a larger set, so states in the order of what is done
 * are in the order in which paths pass them, and the best path under a threshold of memory is one sweep. Two
 * prices turn other wishes into seconds: one a resident byte (which weights are kept is a question to the
 * whole schedule) and one a MAC that is computed again (the budget). What a path takes is then worked out
 * exactly.
 *
 * How a patch is made is searched for where a path needs it: a guess counts the least that it can take, and
 * when the best path has none left, no other can be better.
 */
#include "server/base/stop.h"
#include "server/schedule/cost.h"
#include "server/schedule/memo.h"

#include <stdlib.h>
#include <string.h>

enum { SWEPT_MAX = 4000000, LIMITS = 12, BYTE_PRICES = 5, MAC_PRICES = 12, NO_WAY = -1 };

struct prices {
    int64_t limit;
    int32_t number; /* of byte_s */
    double byte_s, mac_s;
};

/* What most sweeps read of an edge. */
struct lean {
    int64_t peak, extra;
    int32_t to, way; /* way: of a guess, else NO_WAY */
    bool steady;     /* what it costs does not depend on the limit */
};

struct sweep {
    const struct paths *paths;
    struct lean *lean;
    int32_t *order;              /* states by what is done */
    double *cost;                /* of the best path to a state; negative: none */
    int64_t *extra;              /* its extra MACs */
    int32_t *via;                /* its last edge, or -1 */
    double *priced[BYTE_PRICES]; /* what an edge costs at that price and limit[price]; negative: not known */
    int64_t limit[BYTE_PRICES];
    int64_t left; /* edges that may still be looked at for a faster path */
    bool vary;    /* some move reads weights more than once */
    struct move *moves, *best;
    int32_t n_moves, n_best;
    double best_s;
    int64_t best_limit;
};

static void set_order(const struct paths *paths, int32_t *order, int32_t *place)
{
    int32_t n_ops = paths->net->n_ops;
    for (int32_t s = 0; s < paths->n_states; s++)
        place[paths->states[s].done_ops + 1]++;
    for (int32_t n = 0; n < n_ops; n++)
        place[n + 1] += place[n];
    for (int32_t s = 0; s < paths->n_states; s++)
        order[place[paths->states[s].done_ops]++] = s;
}

static void set_lean(struct sweep *sweep, int32_t e)
{
    const struct edge *edge = &sweep->paths->edges[e];
    sweep->lean[e] =
        (struct lean){.peak = move_peak(&edge->move),
                      .extra = edge->move.extra_macs,
                      .to = edge->to,
                      .steady = edge->move.mode == SCHEDULE_ROWS || edge->move.mode == SCHEDULE_FULL,
                      .way = move_is_guess(&edge->move) ? edge->move.way : NO_WAY};
}

static bool sweep_init(struct sweep *sweep, const struct paths *paths)
{
    size_t n = (size_t)paths->n_states + 1, n_ops = (size_t)paths->net->n_ops,
           n_edges = (size_t)paths->n_edges + 1;
    int32_t *place = calloc(n_ops + 2, sizeof *place);
    *sweep = (struct sweep){.paths = paths, .left = SWEPT_MAX, .best_s = -1};
    sweep->lean = malloc(n_edges * sizeof *sweep->lean);
    bool priced = true;
    for (int32_t i = 0; i < BYTE_PRICES; i++) {
        sweep->priced[i] = malloc(n_edges * sizeof *sweep->priced[i]);
        priced &= sweep->priced[i] != NULL;
        for (size_t e = 0; e < n_edges && sweep->priced[i]; e++)
            sweep->priced[i][e] = -1;
    }
    sweep->order = calloc(n, sizeof *sweep->order);
    sweep->cost = calloc(n, sizeof *sweep->cost);
    sweep->extra = calloc(n, sizeof *sweep->extra);
    sweep->via = calloc(n, sizeof *sweep->via);
    sweep->moves = calloc(n_ops + 1, sizeof *sweep->moves);
    sweep->best = calloc(n_ops + 1, sizeof *sweep->best);
    bool good = place && sweep->lean && priced && sweep->order && sweep->cost && sweep->extra && sweep->via &&
                sweep->moves && sweep->best;
    if (good)
        set_order(paths, sweep->order, place);
    for (int32_t e = 0; e < paths->n_edges && good; e++) {
        set_lean(sweep, e);
        sweep->vary |=
            paths->edges[e].move.mode == SCHEDULE_ROWS || paths->edges[e].move.mode == SCHEDULE_PATCHES;
    }
    free(place);
    return good;
}

static void sweep_free(struct sweep *sweep)
{
    free(sweep->lean);
    for (int32_t i = 0; i < BYTE_PRICES; i++)
        free(sweep->priced[i]);
    free(sweep->order);
    free(sweep->cost);
    free(sweep->extra);
    free(sweep->via);
    free(sweep->moves);
    free(sweep->best);
}

static void restart(struct sweep *sweep)
{
    const struct paths *paths = sweep->paths;
    for (int32_t s = 0; s < paths->n_states; s++) {
        sweep->cost[s] = paths->states[s].done_ops == 0 ? 0 : -1;
        sweep->extra[s] = 0;
        sweep->via[s] = -1;
    }
}

static void relax(struct sweep *sweep, int32_t from, int32_t e, double cost)
{
    int32_t to = sweep->lean[e].to;
    cost += sweep->cost[from];
    if (sweep->cost[to] >= 0 && sweep->cost[to] <= cost)
        return;
    sweep->cost[to] = cost;
    sweep->extra[to] = sweep->extra[from] + sweep->lean[e].extra;
    sweep->via[to] = e;
}

/* Whether a path under the limit keeps to the budget: that with the fewest extra MACs. Guesses count. */
static bool run_macs(struct sweep *sweep, int64_t limit)
{
    const struct paths *paths = sweep->paths;
    restart(sweep);
    for (int32_t i = 0; i < paths->n_states; i++) {
        int32_t s = sweep->order[i];
        const struct state *state = &paths->states[s];
        for (int32_t part = 0; part < PARTS && sweep->cost[s] >= 0; part++)
            for (int32_t e = state->first_edge[part]; e < state->first_edge[part] + state->n_edges[part]; e++)
                if (sweep->lean[e].peak <= limit)
                    relax(sweep, s, e, (double)sweep->lean[e].extra);
    }
    return sweep->cost[paths->goal] >= 0 && sweep->extra[paths->goal] <= paths->budget;
}

static double price(struct sweep *sweep, int32_t e, const struct prices *prices)
{
    double *priced = sweep->priced[prices->number];
    if (sweep->limit[prices->number] != prices->limit) {
        for (int32_t i = 0; i < sweep->paths->n_edges; i++)
            priced[i] = sweep->lean[i].steady ? priced[i] : -1;
        sweep->limit[prices->number] = prices->limit;
    }
    if (priced[e] < 0)
        priced[e] =
            cost_priced(sweep->paths->net, &sweep->paths->edges[e].move, prices->limit, prices->byte_s);
    return priced[e];
}

/* The best path to the goal at these prices, without guesses; false: none under the limit. */
static bool run(struct sweep *sweep, const struct prices *prices)
{
    const struct paths *paths = sweep->paths;
    restart(sweep);
    for (int32_t i = 0; i < paths->n_states; i++) {
        int32_t s = sweep->order[i];
        const struct state *state = &paths->states[s];
        for (int32_t part = 0; part < PARTS && sweep->cost[s] >= 0; part++) {
            for (int32_t e = state->first_edge[part]; e < state->first_edge[part] + state->n_edges[part]; e++)
                if (sweep->lean[e].peak <= prices->limit && sweep->lean[e].way == NO_WAY)
                    relax(sweep, s, e,
                          price(sweep, e, prices) + (double)sweep->lean[e].extra * prices->mac_s);
            sweep->left -= state->n_edges[part];
        }
    }
    return sweep->cost[paths->goal] >= 0;
}

static bool within(const struct sweep *sweep)
{
    return sweep->extra[sweep->paths->goal] <= sweep->paths->budget;
}

/* ---- guesses ---- */

static void forget(struct sweep *sweep, int32_t e)
{
    sweep->paths->edges[e].move.fixed_bytes = INT64_MAX / 2;
    sweep->lean[e].peak = INT64_MAX / 2;
    sweep->lean[e].way = NO_WAY;
}

static bool is_known(const struct memo *memo, const struct move *move)
{
    return memo->ways[move->way].known && memo->ways[move->way_whole].known;
}

/* Resolves a guess and all that are made in the same way; without anything left to search with it is none. */
static void resolve(struct sweep *sweep, int32_t guess)
{
    const struct paths *paths = sweep->paths;
    struct memo *memo = paths->net->memo;
    int32_t way = sweep->lean[guess].way;
    bool may = memo->left > 0 || is_known(memo, &paths->edges[guess].move);
    memo->short_of |= !may;
    for (int32_t e = 0; e < paths->n_edges; e++) {
        if (sweep->lean[e].way != way)
            continue;
        struct move move = paths->edges[e].move;
        if (may && patches_resolve(paths->net, paths->options, &move)) {
            paths->edges[e].move = move;
            set_lean(sweep, e);
            for (int32_t i = 0; i < BYTE_PRICES; i++)
                sweep->priced[i][e] = -1;
        } else {
            forget(sweep, e);
        }
    }
}

/* A path without guesses under the limit and within the budget, and its peak; -1: none. */
static int64_t real_path(struct sweep *sweep, int64_t limit)
{
    const struct paths *paths = sweep->paths;
    while (!stop_asked() && run_macs(sweep, limit)) {
        bool real = true;
        int64_t peak = 0;
        for (int32_t s = paths->goal; sweep->via[s] >= 0; s = paths->edges[sweep->via[s]].from) {
            int32_t e = sweep->via[s];
            if (sweep->lean[e].way != NO_WAY) {
                real = false;
                resolve(sweep, e);
            }
            peak = sweep->lean[e].peak > peak ? sweep->lean[e].peak : peak;
        }
        if (real)
            return peak;
    }
    return -1;
}

int64_t paths_least(const struct paths *paths, bool *out_of_memory)
{
    struct sweep sweep;
    int64_t low = -1, high = -1; /* no path, a path */
    bool good = sweep_init(&sweep, paths);
    *out_of_memory |= !good;
    if (good)
        high = real_path(&sweep, INT64_MAX / 4);
    while (good && low + 1 < high) {
        int64_t middle = low + (high - low) / 2, peak = real_path(&sweep, middle);
        low = peak < 0 ? middle : low;
        high = peak < 0 ? high : peak;
    }
    sweep_free(&sweep);
    return high;
}

/* Extra MACs from each state to the goal under the limit, INT64_MAX: none. */
static void run_back(struct sweep *sweep, int64_t limit, int64_t *rest)
{
    const struct paths *paths = sweep->paths;
    for (int32_t i = paths->n_states - 1; i >= 0; i--) {
        int32_t s = sweep->order[i];
        rest[s] = s == paths->goal ? 0 : INT64_MAX;
        const struct state *state = &paths->states[s];
        for (int32_t part = 0; part < PARTS; part++)
            for (int32_t e = state->first_edge[part]; e < state->first_edge[part] + state->n_edges[part];
                 e++) {
                const struct lean *lean = &sweep->lean[e];
                if (lean->peak <= limit && rest[lean->to] < INT64_MAX &&
                    lean->extra + rest[lean->to] < rest[s])
                    rest[s] = lean->extra + rest[lean->to];
            }
    }
}

/* Guesses that may lie on a path. */
static void resolve_useful(struct sweep *sweep, int64_t limit, int64_t guesses)
{
    const struct paths *paths = sweep->paths;
    struct memo *memo = paths->net->memo;
    bool any = false;
    for (int32_t e = 0; e < paths->n_edges && !any; e++)
        any = sweep->lean[e].way != NO_WAY && sweep->lean[e].peak <= limit;
    int64_t *rest = any ? malloc(((size_t)paths->n_states + 1) * sizeof *rest) : NULL;
    if (!rest || !run_macs(sweep, limit)) {
        free(rest);
        return;
    }
    run_back(sweep, limit, rest);
    int64_t until = memo->left > guesses ? memo->left - guesses : 0;
    for (int32_t e = 0; e < paths->n_edges && !stop_asked(); e++) {
        const struct lean *lean = &sweep->lean[e];
        int32_t from = paths->edges[e].from;
        if (lean->way != NO_WAY && lean->peak <= limit && sweep->cost[from] >= 0 &&
            rest[lean->to] < INT64_MAX &&
            sweep->extra[from] + lean->extra + rest[lean->to] <= paths->budget &&
            (memo->left > until || is_known(memo, &paths->edges[e].move)))
            resolve(sweep, e);
    }
    free(rest);
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Peaks of all moves that are at least `from`, each once, rising; NULL without memory. */
static int64_t *thresholds(const struct paths *paths, int64_t from, int64_t to, int32_t *n)
{
    int64_t *peaks = malloc(((size_t)paths->n_edges + 1) * sizeof *peaks);
    int32_t all = 0;
    *n = 0;
    for (int32_t e = 0; e < paths->n_edges && peaks; e++) {
        int64_t peak = move_peak(&paths->edges[e].move);
        if (peak >= from && peak <= to && !move_is_guess(&paths->edges[e].move))
            peaks[all++] = peak;
    }
    if (peaks && all > 0)
        qsort(peaks, (size_t)all, sizeof *peaks, by_value);
    for (int32_t i = 0; i < all; i++)
        if (*n == 0 || peaks[*n - 1] != peaks[i])
            peaks[(*n)++] = peaks[i];
    return peaks;
}

/* ---- the fastest ---- */

static int64_t peak_at(const struct move *move, int64_t limit)
{
    int64_t k = cost_channels(move, limit);
    return move->fixed_bytes + move->part_bytes * (k > 0 ? k : 1);
}

/* Keeps the path that was just found if it takes less time than the best one. */
static void judge(struct sweep *sweep, int64_t limit)
{
    const struct paths *paths = sweep->paths;
    const struct schedule_board *board = paths->net->board;
    int64_t peak = 0, arena = paths->options->ram ? paths->options->ram : board->arena_bytes;
    int32_t n = 0;
    for (int32_t s = paths->goal; sweep->via[s] >= 0; s = paths->edges[sweep->via[s]].from)
        n++;
    sweep->n_moves = n;
    for (int32_t s = paths->goal; sweep->via[s] >= 0; s = paths->edges[sweep->via[s]].from)
        sweep->moves[--n] = paths->edges[sweep->via[s]].move;
    for (int32_t i = 0; i < sweep->n_moves; i++) {
        int64_t at = peak_at(&sweep->moves[i], limit);
        peak = at > peak ? at : peak;
    }
    int64_t room = board->weight_ram_bytes + (arena > peak ? arena - peak : 0);
    double seconds = cost_moves(paths->net, sweep->moves, sweep->n_moves, limit, room, NULL);
    if (seconds < 0 || (sweep->best_s >= 0 && sweep->best_s <= seconds))
        return;
    sweep->best_s = seconds;
    sweep->best_limit = limit;
    sweep->n_best = sweep->n_moves;
    memcpy(sweep->best, sweep->moves, (size_t)sweep->n_moves * sizeof *sweep->best);
}

/* The best path at these prices within the budget: the price of a MAC is raised until it keeps to it. */
static void try_prices(struct sweep *sweep, struct prices prices)
{
    if (!run(sweep, &prices))
        return;
    if (within(sweep)) {
        judge(sweep, prices.limit);
        return;
    }
    double low = 0, high = 1e-6;
    for (int32_t i = 0; i < MAC_PRICES; i++) {
        prices.mac_s = i == 0 ? high : (low + high) / 2;
        if (run(sweep, &prices) && within(sweep)) {
            judge(sweep, prices.limit);
            high = prices.mac_s;
        } else {
            low = prices.mac_s;
        }
        if (sweep->left < 0)
            break;
    }
    if (sweep->best_s < 0 && real_path(sweep, prices.limit) >= 0)
        judge(sweep, prices.limit);
}

static void try_limit(struct sweep *sweep, int64_t limit)
{
    double read_s = 1 / sweep->paths->net->board->flash_bytes_per_s, price = 64 * read_s;
    int32_t prices = sweep->vary ? BYTE_PRICES : 1;
    for (int32_t i = 0; i < prices && !stop_asked() && (sweep->best_s < 0 || sweep->left > 0);
         i++, price /= 8)
        try_prices(sweep, (struct prices){.limit = limit, .number = i, .byte_s = price});
}

/* Limits of memory between which the time changes little: LIMITS of them, then as many around the best. */
static void try_limits(struct sweep *sweep, const int64_t *limits, int32_t n)
{
    int32_t from = 0, to = n, best = n - 1;
    for (int32_t round = 0; round < 2 && to > from; round++) {
        int32_t step = (to - from + LIMITS - 1) / LIMITS;
        double before = sweep->best_s;
        for (int32_t i = from; i < to && sweep->left > 0; i += step) {
            try_limit(sweep, limits[i]);
            if (sweep->best_s < before)
                best = i;
            before = sweep->best_s;
        }
        from = best - step > 0 ? best - step : 0;
        to = best + step < n ? best + step : n;
    }
}

bool paths_fastest(const struct paths *paths, int64_t least, int64_t limit, int64_t guesses,
                   struct search_result *result)
{
    struct sweep sweep;
    int32_t n = 0;
    bool good = sweep_init(&sweep, paths);
    if (good)
        resolve_useful(&sweep, limit, guesses);
    int64_t *limits = limit > least ? thresholds(paths, least, limit, &n) : NULL;
    if (good)
        try_limit(&sweep, limit);
    if (good && limits)
        try_limits(&sweep, limits, n);
    good = good && sweep.best_s >= 0;
    if (good) {
        result->moves = sweep.best;
        result->n_moves = sweep.n_best;
        result->limit_bytes = sweep.best_limit;
        result->seconds = sweep.best_s;
        sweep.best = NULL;
    }
    free(limits);
    sweep_free(&sweep);
    return good;
}
