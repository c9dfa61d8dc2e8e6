/*
 * What would make a refused dry run fit. Every change is planned before it is named, so none is a guess; each
 * comes as {"text", "latency_ms"} and the key of a request that it changes: "replace" (in the place of the
 * model's running deployment), "without" (boards to leave out), "shares", "strategy", "boards" (how many like
 * the first one); or "retire", the id of another model's deployment, which is for people to decide.
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"

#include "server/base/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BOARDS_MAX = 16,
    RETIRE_MAX = 8,
    BUDGET_US = 1500000 /* no plan is begun after it: somebody waits for the answer */
};

struct attempt {
    struct deploy *deploy;
    const struct trial *trial;
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

static bool lacks_flash(const struct error_shortfall *shortfalls, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(shortfalls[i].resource, "flash") == 0)
            return true;
    return false;
}

/* The boards of a request as they would be without the deployment `gone`. NULL: not to be had, or none of
 * them gains flash. */
static struct plan_board *boards_without(const struct attempt *attempt, const json_t *request,
                                         const char *gone)
{
    const struct trial *trial = attempt->trial;
    struct plan_board *boards = NULL;
    int32_t n = 0;
    bool gains = false;
    sqlite3 *db = store_reader(attempt->deploy->store);
    if (db && deploy_boards(attempt->deploy, db, request, gone, &boards, &n, NULL) >= 0)
        for (int32_t i = 0; i < n && n == trial->n; i++)
            gains = gains || (strcmp(boards[i].id, trial->boards[i].id) == 0 &&
                              boards[i].flash_bytes > trial->boards[i].flash_bytes);
    store_reader_done(attempt->deploy->store, db);
    if (!gains) {
        free(boards);
        boards = NULL;
    }
    return boards;
}

static void try_replace(struct attempt *attempt, const json_t *request)
{
    json_t *other = json_copy((json_t *)(uintptr_t)request);
    json_object_set_new(other, "replace", json_true());
    struct plan_board *boards = boards_without(attempt, other, "");
    if (boards)
        add_if_fits(attempt, boards, attempt->trial->n, &attempt->trial->options,
                    "replace: in the place of the version that runs now", "replace", json_true());
    json_decref(other);
    free(boards);
}

/* The deployments of other models, the newest first. */
static void try_retire(struct attempt *attempt, const json_t *request)
{
    sqlite3 *db = store_reader(attempt->deploy->store);
    json_t *rows =
        db ? db_rows(db, NULL,
                     "SELECT id, model FROM deployment WHERE ended_at IS NULL AND model <> ? "
                     "ORDER BY id DESC LIMIT ?",
                     "si", json_string_value(json_object_get(request, "model")), (int64_t)RETIRE_MAX)
           : NULL;
    store_reader_done(attempt->deploy->store, db);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        char text[128];
        json_t *id = json_object_get(row, "id");
        struct plan_board *boards = boards_without(attempt, request, json_string_value(id));
        (void)snprintf(text, sizeof text, "the deployment of '%.64s' retired",
                       json_string_value(json_object_get(row, "model")));
        if (boards)
            add_if_fits(attempt, boards, attempt->trial->n, &attempt->trial->options, text, "retire",
                        json_incref(id));
        free(boards);
    }
    json_decref(rows);
}

json_t *deploy_try(struct deploy *deploy, const json_t *request, const struct trial *trial,
                   const struct error_shortfall *shortfalls, int32_t n_shortfalls)
{
    const struct plan_board *boards = trial->boards;
    const struct plan_options *options = &trial->options;
    struct attempt attempt = {.deploy = deploy,
                              .trial = trial,
                              .graph = trial->graph,
                              .version = json_string_value(json_object_get(request, "version")),
                              .list = json_array(),
                              .until_us = clock_monotonic_us() + BUDGET_US};
    if (lacks_flash(shortfalls, n_shortfalls)) {
        if (!json_is_true(json_object_get(request, "replace")))
            try_replace(&attempt, request);
        if (json_array_size(attempt.list) == 0)
            try_retire(&attempt, request);
    }
    try_without(&attempt, boards, trial->n, options, shortfalls, n_shortfalls);
    if (options->strategy != PLAN_STRATEGY_SINGLE)
        try_more(&attempt, boards, trial->n, options, shortfalls, n_shortfalls);
    try_options(&attempt, boards, trial->n, options);
    return attempt.list;
}
