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

enum { BOARDS_MAX = 16, BUDGET_US = 4000000 /* no plan is begun after it: somebody waits for the answer */ };

struct attempt {
    const struct graph *graph;
    const char *version;
    json_t *list;
    uint64_t until_us;
};

/* Takes `value`. True when it fits. */
static bool add_if_fits(struct attempt *attempt, const struct plan_board *boards, int32_t n,
                        const struct plan_options *options, const char *text, const char *key, json_t *value)
{
    struct plan *plan = NULL;
    if (n > 0 && clock_monotonic_us() < attempt->until_us)
        plan = stop_asked()
                   ? NULL
                   : plan_make(attempt->graph, attempt->version, boards, n, options, NULL, NULL, NULL);
    bool fits = plan != NULL;
    if (fits)
        json_array_append_new(attempt->list, json_pack("{s:s, s:O, s:f}", "text", text, key, value,
                                                       "latency_ms", plan->latency_ms));
    plan_free(plan);
    json_decref(value);
    return fits;
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
        (void)add_if_fits(attempt, rest, n_rest, options, text, "without", json_incref(without));
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
        const char *name = plan_shares_name(other.shares);
        (void)snprintf(text, sizeof text, "shares %s", name);
        if (other.shares != options->shares && options->strategy != PLAN_STRATEGY_SINGLE)
            (void)add_if_fits(attempt, boards, n, &other, text, "shares", json_string(name));
    }
    struct plan_options other = *options;
    other.strategy = options->strategy == PLAN_STRATEGY_SINGLE ? PLAN_STRATEGY_AUTO : PLAN_STRATEGY_SINGLE;
    const char *name = plan_strategy_name(other.strategy);
    (void)snprintf(text, sizeof text, "strategy %s", name);
    (void)add_if_fits(attempt, boards, n, &other, text, "strategy", json_string(name));
}

/* More boards, the further ones like the first that does not fall short. */
static void try_more(struct attempt *attempt, const struct plan_board *boards, int32_t n,
                     const struct plan_options *options, const struct error_shortfall *shortfalls,
                     int32_t n_shortfalls)
{
    static const int32_t counts[] = {2, 3, 4, 6, 8, 12, BOARDS_MAX};
    struct plan_board more[BOARDS_MAX];
    int32_t model = 0;
    for (int32_t i = n - 1; i >= 0; i--)
        model = falls_short(boards[i].name, shortfalls, n_shortfalls) ? model : i;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int32_t count = counts[i];
        if (count <= n)
            continue;
        for (int32_t b = 0; b < count; b++)
            more[b] = boards[b < n ? b : model];
        char text[32];
        (void)snprintf(text, sizeof text, "%d boards", count);
        if (add_if_fits(attempt, more, count, options, text, "boards", json_integer(count)))
            return;
    }
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
