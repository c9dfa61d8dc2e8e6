/*
 * What would make a refused dry run fit. Every change is planned before it is named, so none is a guess; each
 * comes as {"text", "latency_ms"} and the key of a request that it changes: "without" (boards to leave out),
 * "shares", "strategy", "boards" (how many like the first one).
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"

#include "server/base/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOARDS_MAX = 16, BUDGET_US = 1500000 /* no plan is begun after it: somebody waits for the answer */ };

struct attempt {
    const struct graph *graph;
    const char *version;
    json_t *list;
    uint64_t until_us;
};

/* The predicted latency, or negative when it does not fit, or there is no time to find out. */
static double latency_of(const struct attempt *attempt, const struct plan_board *boards, int32_t n,
                         const struct plan_options *options)
{
    if (n <= 0 || clock_monotonic_us() >= attempt->until_us || stop_asked() ||
        !plan_has_flash(attempt->graph, boards, n, options))
        return -1;
    struct plan *plan = plan_make(attempt->graph, attempt->version, boards, n, options, NULL, NULL, NULL);
    double ms = plan ? plan->latency_ms : -1;
    plan_free(plan);
    return ms;
}

/* Takes `value`. */
static void name(struct attempt *attempt, const char *text, const char *key, json_t *value, double ms)
{
    json_array_append_new(attempt->list,
                          json_pack("{s:s, s:O, s:f}", "text", text, key, value, "latency_ms", ms));
    json_decref(value);
}

/* Takes `value`. */
static void add_if_fits(struct attempt *attempt, const struct plan_board *boards, int32_t n,
                        const struct plan_options *options, const char *text, const char *key, json_t *value)
{
    double ms = latency_of(attempt, boards, n, options);
    if (ms >= 0)
        name(attempt, text, key, value, ms);
    else
        json_decref(value);
}

static bool falls_short(const char *board, const struct error_shortfall *shortfalls, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(shortfalls[i].board, board) == 0)
            return true;
    return false;
}

/* The boards that fall short left out, if any remain. */
static void try_without(struct attempt *attempt, const struct plan_board *boards, int32_t n,
                        const struct plan_options *options, const struct error_shortfall *shortfalls,
                        int32_t n_shortfalls)
{
    struct plan_board *rest = calloc((size_t)n + 1, sizeof *rest);
    json_t *without = json_array();
    int32_t n_rest = 0;
    for (int32_t i = 0; rest && i < n; i++) {
        if (falls_short(boards[i].name, shortfalls, n_shortfalls))
            json_array_append_new(without, json_string(boards[i].name));
        else
            rest[n_rest++] = boards[i];
    }
    size_t count = json_array_size(without);
    char text[128];
    if (count == 1)
        (void)snprintf(text, sizeof text, "without %.64s", json_string_value(json_array_get(without, 0)));
    else
        (void)snprintf(text, sizeof text, "without %zu boards", count);
    if (count && n_rest)
        add_if_fits(attempt, rest, n_rest, options, text, "without", json_incref(without));
    json_decref(without);
    free(rest);
}

static void try_options(struct attempt *attempt, const struct plan_board *boards, int32_t n,
                        const struct plan_options *options)
{
    char text[64];
    for (int i = PLAN_SHARES_RATING; i <= PLAN_SHARES_FREQUENCY && n > 1; i++) {
        struct plan_options other = *options;
        other.shares = (enum plan_shares)i;
        const char *shares = plan_shares_name(other.shares);
        (void)snprintf(text, sizeof text, "shares %s", shares);
        if (other.shares != options->shares && options->strategy != PLAN_STRATEGY_SINGLE)
            add_if_fits(attempt, boards, n, &other, text, "shares", json_string(shares));
    }
    struct plan_options other = *options;
    other.strategy = options->strategy == PLAN_STRATEGY_SINGLE ? PLAN_STRATEGY_AUTO : PLAN_STRATEGY_SINGLE;
    const char *strategy = plan_strategy_name(other.strategy);
    (void)snprintf(text, sizeof text, "strategy %s", strategy);
    add_if_fits(attempt, boards, n, &other, text, "strategy", json_string(strategy));
}

/* More boards, the further ones like the first that does not fall short. Where some number of boards does not
 * fit fewer are taken not to fit either, so few numbers need a plan. */
static void try_more(struct attempt *attempt, const struct plan_board *boards, int32_t n,
                     const struct plan_options *options, const struct error_shortfall *shortfalls,
                     int32_t n_shortfalls)
{
    static const int32_t counts[] = {2, 3, 4, 6, 8, 12, BOARDS_MAX};
    struct plan_board more[BOARDS_MAX];
    int32_t model = 0, lo = 0, hi = sizeof counts / sizeof *counts;
    double best = -1;
    if (n >= BOARDS_MAX)
        return;
    for (int32_t i = n - 1; i >= 0; i--)
        model = falls_short(boards[i].name, shortfalls, n_shortfalls) ? model : i;
    for (int32_t b = 0; b < BOARDS_MAX; b++)
        more[b] = boards[b < n ? b : model];
    while (counts[lo] <= n)
        lo++;
    while (lo < hi) {
        int32_t middle = (lo + hi) / 2;
        double ms = latency_of(attempt, more, counts[middle], options);
        if (ms >= 0) {
            best = ms;
            hi = middle;
        } else {
            lo = middle + 1;
        }
    }
    if (best < 0)
        return;
    char text[32];
    (void)snprintf(text, sizeof text, "%d boards", counts[hi]);
    name(attempt, text, "boards", json_integer(counts[hi]), best);
}

json_t *deploy_try(const struct graph *graph, const char *version, const struct plan_board *boards, int32_t n,
                   const struct plan_options *options, const struct error_shortfall *shortfalls,
                   int32_t n_shortfalls)
{
    struct attempt attempt = {graph, version, json_array(), clock_monotonic_us() + BUDGET_US};
    try_without(&attempt, boards, n, options, shortfalls, n_shortfalls);
    if (options->strategy != PLAN_STRATEGY_SINGLE)
        try_more(&attempt, boards, n, options, shortfalls, n_shortfalls);
    try_options(&attempt, boards, n, options);
    return attempt.list;
}
