/*
 * Paths through what a search has met. A move leads to a larger set, so states in the order of what is done
 * are in the order in which paths pass them, and the best path under a threshold of memory is one sweep. Two
 * prices turn other wishes into seconds: one a resident byte (which weights are kept is a question to the
 * whole schedule) and one a MAC that is computed again (the budget). What a path takes is then worked out
 * exactly.
 */
#include "server/base/stop.h"
#include "server/schedule/cost.h"
#include "server/schedule/search.h"

#include <stdlib.h>
#include <string.h>

enum { SWEPT_MAX = 4000000, LIMITS = 12, BYTE_PRICES = 5, MAC_PRICES = 12 };

struct prices {
    int64_t limit;
    double byte_s, mac_s;
    bool macs_only;
};

struct sweep {
    const struct paths *paths;
    int32_t *order; /* states by what is done */
    double *cost;   /* of the best path to a state; negative: none */
    int64_t *extra; /* its extra MACs */
    int32_t *via;   /* its last edge, or -1 */
    int64_t left;   /* edges that may still be looked at for a faster path */
    bool vary;      /* some move reads weights more than once */
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

static bool sweep_init(struct sweep *sweep, const struct paths *paths)
{
    size_t n = (size_t)paths->n_states + 1, n_ops = (size_t)paths->net->n_ops;
    int32_t *place = calloc(n_ops + 2, sizeof *place);
    *sweep = (struct sweep){.paths = paths, .left = SWEPT_MAX, .best_s = -1};
    sweep->order = calloc(n, sizeof *sweep->order);
    sweep->cost = calloc(n, sizeof *sweep->cost);
    sweep->extra = calloc(n, sizeof *sweep->extra);
    sweep->via = calloc(n, sizeof *sweep->via);
    sweep->moves = calloc(n_ops + 1, sizeof *sweep->moves);
    sweep->best = calloc(n_ops + 1, sizeof *sweep->best);
    bool good =
        place && sweep->order && sweep->cost && sweep->extra && sweep->via && sweep->moves && sweep->best;
    if (good)
        set_order(paths, sweep->order, place);
    for (int32_t e = 0; e < paths->n_edges; e++)
        sweep->vary |=
            paths->edges[e].move.mode == SCHEDULE_ROWS || paths->edges[e].move.mode == SCHEDULE_PATCHES;
    free(place);
    return good;
}

static void sweep_free(struct sweep *sweep)
{
    free(sweep->order);
    free(sweep->cost);
    free(sweep->extra);
    free(sweep->via);
    free(sweep->moves);
    free(sweep->best);
}

static void relax(struct sweep *sweep, int32_t number, const struct prices *prices)
{
    const struct edge *edge = &sweep->paths->edges[number];
    if (move_peak(&edge->move) > prices->limit)
        return;
    double extra = (double)edge->move.extra_macs;
    double cost = prices->macs_only
                      ? extra
                      : cost_priced(sweep->paths->net, &edge->move, prices->limit, prices->byte_s) +
                            extra * prices->mac_s;
    cost += sweep->cost[edge->from];
    if (sweep->cost[edge->to] >= 0 && sweep->cost[edge->to] <= cost)
        return;
    sweep->cost[edge->to] = cost;
    sweep->extra[edge->to] = sweep->extra[edge->from] + edge->move.extra_macs;
    sweep->via[edge->to] = number;
}

/* The best path to the goal; false: none under the limit. */
static bool run(struct sweep *sweep, const struct prices *prices)
{
    const struct paths *paths = sweep->paths;
    for (int32_t s = 0; s < paths->n_states; s++) {
        sweep->cost[s] = paths->states[s].done_ops == 0 ? 0 : -1;
        sweep->via[s] = -1;
    }
    for (int32_t i = 0; i < paths->n_states; i++) {
        const struct state *state = &paths->states[sweep->order[i]];
        for (int32_t part = 0; part < PARTS && sweep->cost[sweep->order[i]] >= 0; part++) {
            for (int32_t e = 0; e < state->n_edges[part]; e++)
                relax(sweep, state->first_edge[part] + e, prices);
            sweep->left -= prices->macs_only ? 0 : state->n_edges[part];
        }
    }
    return sweep->cost[paths->goal] >= 0;
}

static bool within(const struct sweep *sweep)
{
    return sweep->extra[sweep->paths->goal] <= sweep->paths->budget;
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
        if (peak >= from && peak <= to)
            peaks[all++] = peak;
    }
    if (peaks && all > 0)
        qsort(peaks, (size_t)all, sizeof *peaks, by_value);
    for (int32_t i = 0; i < all; i++)
        if (*n == 0 || peaks[*n - 1] != peaks[i])
            peaks[(*n)++] = peaks[i];
    return peaks;
}

int64_t paths_least(const struct paths *paths, bool *out_of_memory)
{
    struct sweep sweep;
    int32_t low = 0, high = 0;
    int64_t found = -1, *peaks = thresholds(paths, 0, INT64_MAX, &high);
    bool good = sweep_init(&sweep, paths) && peaks;
    *out_of_memory |= !good;
    while (good && low < high) {
        int32_t middle = low + (high - low) / 2;
        struct prices prices = {.limit = peaks[middle], .macs_only = true};
        if (run(&sweep, &prices) && within(&sweep)) {
            found = peaks[middle];
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    sweep_free(&sweep);
    free(peaks);
    return found;
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
    prices.macs_only = true;
    if (sweep->best_s < 0 && run(sweep, &prices) && within(sweep))
        judge(sweep, prices.limit);
}

static void try_limit(struct sweep *sweep, int64_t limit)
{
    double read_s = 1 / sweep->paths->net->board->flash_bytes_per_s, price = 64 * read_s;
    int32_t prices = sweep->vary ? BYTE_PRICES : 1;
    for (int32_t i = 0; i < prices && !stop_asked() && (sweep->best_s < 0 || sweep->left > 0);
         i++, price /= 8)
        try_prices(sweep, (struct prices){.limit = limit, .byte_s = price});
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

bool paths_fastest(const struct paths *paths, int64_t least, int64_t limit, struct search_result *result)
{
    struct sweep sweep;
    int32_t n = 0;
    bool good = sweep_init(&sweep, paths);
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
