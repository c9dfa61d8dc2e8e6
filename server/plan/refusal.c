/* What a refusal tells: what is missing where, and which changes have been tried and help. */
#include "server/plan/describe.h"

#include "server/base/error_json.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRY_BOARDS_MAX = 16 };

json_t *describe_shortfalls(const struct error_shortfall *shortfalls, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++) {
        struct error error;
        error_clear(&error);
        error.status = STATUS_DOES_NOT_FIT;
        error.shortfall = shortfalls[i];
        json_array_append_new(array, error_json_detail(&error));
    }
    return array;
}

static bool fits(const struct graph *graph, const struct plan_board *boards, int32_t n,
                 struct plan_options options)
{
    struct plan *plan = plan_has_flash(graph, boards, n, &options)
                            ? plan_make(graph, "", boards, n, &options, NULL, NULL, NULL)
                            : NULL;
    bool made = plan != NULL;
    plan_free(plan);
    return made;
}

/* The least number that fits, by halving: where some number does not fit, fewer are taken not to fit either.
 */
static void try_boards(const struct graph *graph, const struct plan_board *boards, int32_t n,
                       const struct plan_options *options, json_t *out)
{
    struct plan_board *more = calloc(TRY_BOARDS_MAX, sizeof *more);
    int32_t lo = n + 1, hi = TRY_BOARDS_MAX + 1;
    for (int32_t i = 0; more && n > 0 && i < TRY_BOARDS_MAX; i++)
        more[i] = boards[i < n ? i : n - 1];
    while (more && n > 0 && lo < hi) {
        int32_t middle = (lo + hi) / 2;
        if (fits(graph, more, middle, *options))
            hi = middle;
        else
            lo = middle + 1;
    }
    if (more && n > 0 && hi <= TRY_BOARDS_MAX)
        json_array_append_new(out, json_sprintf("%d boards", hi));
    free(more);
}

json_t *describe_try(const struct graph *graph, const struct plan_board *boards, int32_t n,
                     const struct plan_options *options)
{
    json_t *out = json_array();
    struct plan_options other = *options;
    if (options->strategy != PLAN_STRATEGY_SINGLE)
        try_boards(graph, boards, n, options, out);
    for (int shares = PLAN_SHARES_RATING; shares <= PLAN_SHARES_FREQUENCY; shares++) {
        other.shares = (enum plan_shares)shares;
        if (other.shares != options->shares && other.strategy != PLAN_STRATEGY_SINGLE && n > 1 &&
            fits(graph, boards, n, other))
            json_array_append_new(out, json_sprintf("shares %s", plan_shares_name(other.shares)));
    }
    other = *options;
    other.strategy = options->strategy == PLAN_STRATEGY_SINGLE ? PLAN_STRATEGY_NEURON : PLAN_STRATEGY_SINGLE;
    if (fits(graph, boards, n, other))
        json_array_append_new(out, json_sprintf("strategy %s", plan_strategy_name(other.strategy)));
    return out;
}
