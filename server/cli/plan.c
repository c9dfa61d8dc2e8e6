/* `shoal plan MODEL --boards ...`: a dry run. Nothing is sent; what does not fit is refused with what would
 * help. */
#include "server/cli/commands.h"
#include "server/cli/fleet_options.h"
#include "server/cli/schedule_table.h"

#include "server/base/error_json.h"
#include "server/emit/emit.h"
#include "server/model/optable.h"
#include "server/plan/describe.h"

#include <stdio.h>
#include <stdlib.h>

static void print_table(const struct plan *plan)
{
    (void)printf("%-16s %7s %10s %10s %10s %10s %9s %9s %9s %9s %10s\n", "board", "share", "peak", "arena",
                 "fragment", "weights", "computing", "flash", "moving", "waiting", "moved");
    for (int32_t b = 0; b < plan->n_boards; b++) {
        const struct plan_party *party = &plan->parties[b];
        (void)printf("%-16.16s %6.2f%% %10lld %10lld %10lld %10lld %9.2f %9.2f %9.2f %9.2f %10lld\n",
                     plan->boards[b].name[0] ? plan->boards[b].name : plan->boards[b].id,
                     100.0 * (double)party->share / PLAN_SHARE_WHOLE, (long long)party->peak_bytes,
                     (long long)party->arena_bytes, (long long)party->fragment_bytes,
                     (long long)party->weight_bytes, party->times.computing_ms, party->times.flash_ms,
                     party->times.moving_ms, party->times.waiting_ms,
                     (long long)(party->bytes_sent + party->bytes_received));
    }
    (void)printf(
        "\nbytes and milliseconds; strategy %s, shares %s, %d segments, %d rounds, %lld bytes moved\n",
        plan_strategy_name(plan->options.strategy), plan_shares_name(plan->options.shares), plan->n_segments,
        plan->rounds, (long long)plan->bytes_moved);
    (void)printf("predicted latency %.2f ms, %.2f inferences a second; coordinator %lld bytes\nplan %.12s\n",
                 plan->latency_ms, plan->throughput_per_s, (long long)plan->coordinator_bytes, plan->hash);
}

/* What boards run that hold parts of tensors. */
static void print_schedules(const struct plan *plan)
{
    json_t *summary = plan_summary_json(plan), *party;
    long long macs = 0;
    size_t b;
    for (int32_t o = 0; o < plan->graph->n_ops; o++) {
        const struct op *op = &plan->graph->ops[o];
        macs += op_row(op->kind)->macs(plan->graph, op, box_whole(plan->graph->tensors[op->output].shape));
    }
    json_array_foreach(json_object_get(summary, "parties"), b, party)
    {
        json_t *steps = json_object_get(party, "schedule");
        if (!json_is_array(steps))
            continue;
        (void)printf("\n%s runs parts of tensors, in %zu steps:\n",
                     json_string_value(json_object_get(party, "name")), json_array_size(steps));
        schedule_table_steps(steps, macs);
    }
    json_decref(summary);
}

/* The error's document with shortfalls of all boards and changes that help. */
static int refuse(const struct fleet_options *fleet, const struct graph *graph,
                  const struct plan_board *boards, int32_t n, const struct error_shortfall *shortfalls,
                  int32_t n_shortfalls, const struct error *error)
{
    struct plan_options options = fleet_options_plan(fleet);
    if (error->status != STATUS_DOES_NOT_FIT)
        return cli_fail(fleet->json, error);
    int code = cli_fail(false, error);
    json_t *helps = describe_try(graph, boards, n, &options), *item;
    size_t i;
    for (int32_t k = 0; k < n_shortfalls; k++)
        (void)fprintf(stderr, "  %s: %s needs %lld bytes, has %lld%s%s\n", shortfalls[k].board,
                      shortfalls[k].resource, (long long)shortfalls[k].need_bytes,
                      (long long)shortfalls[k].have_bytes, shortfalls[k].op[0] ? ", layer " : "",
                      shortfalls[k].op);
    json_array_foreach(helps, i, item)(void) fprintf(stderr, "  it fits with: %s\n", json_string_value(item));
    if (json_array_size(helps) == 0)
        (void)fputs("  none of the changes that were tried makes it fit: more boards up to 16, other shares, "
                    "one board for all\n",
                    stderr);
    if (fleet->json) {
        json_t *document = error_json(error);
        json_t *detail = json_object_get(json_object_get(document, "error"), "detail");
        json_object_set_new(detail, "shortfalls", describe_shortfalls(shortfalls, n_shortfalls));
        json_object_set(detail, "try", helps);
        (void)cli_print_json(document);
    }
    json_decref(helps);
    return code;
}

/* Emitting tells the fragments' true sizes, and that they pass the checks. */
static int show(const struct fleet_options *fleet, struct plan *plan)
{
    struct emit_fragment *fragments;
    struct error error;
    error_clear(&error);
    if (emit_plan(plan, &fragments, &error) < 0)
        return cli_fail(fleet->json, &error);
    emit_free(fragments, plan->n_boards);
    if (fleet->json)
        return cli_print_json(plan_summary_json(plan));
    print_table(plan);
    print_schedules(plan);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

static int dry_run(const struct fleet_options *fleet, const struct graph *graph, const char *version)
{
    struct error_shortfall shortfalls[CONDUCT_PARTIES_MAX];
    struct plan_options options = fleet_options_plan(fleet);
    struct plan_board *boards;
    struct error error;
    int32_t n, n_shortfalls = CONDUCT_PARTIES_MAX;
    error_clear(&error);
    if (fleet_options_boards(fleet, &boards, &n, &error) < 0)
        return cli_fail(fleet->json, &error);
    struct plan *plan = plan_make(graph, version, boards, n, &options, shortfalls, &n_shortfalls, &error);
    int code = plan ? show(fleet, plan) : refuse(fleet, graph, boards, n, shortfalls, n_shortfalls, &error);
    plan_free(plan);
    free(boards);
    return code;
}

int cli_plan(const struct cli_command *self, int argc, char **argv)
{
    struct fleet_options fleet = {0};
    struct cli_option options[FLEET_OPTIONS];
    const char *path;
    char version[65];
    struct graph *graph;
    int code;
    fleet_options_rows(&fleet, options);
    if (!cli_options(self, argc, argv, options, FLEET_OPTIONS, &path, 1, 1, NULL, &code))
        return code;
    if (!fleet.boards)
        return cli_wrong_usage(self, "--boards is missing");
    code = fleet_options_model(path, fleet.json, &graph, version);
    if (code != CLI_DONE)
        return code;
    code = dry_run(&fleet, graph, version);
    graph_free(graph);
    return code;
}
