/*
 * `shoal run MODEL --input FILE --output FILE`: one inference in this process. Without --boards the reference
 * executor answers; with it, virtual boards that walk the emitted fragments, conducted as a real fleet is.
 */
#include "server/cli/commands.h"
#include "server/cli/fleet_options.h"

#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/emit/emit.h"
#include "server/model/reference.h"
#include "server/sim/local.h"

#include <stdio.h>
#include <stdlib.h>

struct run {
    struct fleet_options fleet;
    const char *input, *output;
    const struct graph *graph;
    const char *version;
    uint8_t *in, *out;
    size_t in_bytes, out_bytes;
    json_t *report; /* what the document says besides sizes */
    struct error error;
};

static int run_reference(struct run *run)
{
    uint64_t begun = clock_monotonic_us();
    int status = reference_run(run->graph, run->in, run->in_bytes, run->out, run->out_bytes, &run->error);
    if (status < 0)
        return status;
    run->report = json_pack("{s:s, s:f}", "executor", "reference", "latency_ms",
                            (double)(clock_monotonic_us() - begun) / 1e3);
    return 0;
}

static json_t *parties_json(const struct plan *plan, const struct sim_local_result *result)
{
    json_t *parties = json_array();
    for (int32_t b = 0; b < result->n_parties; b++) {
        if (!result->party[b].used)
            continue;
        json_array_append_new(
            parties, json_pack("{s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I}", "name", plan->boards[b].name,
                               "computing_ms", (double)result->party[b].computing_us / 1e3, "waiting_ms",
                               (double)result->party[b].waiting_us / 1e3, "moving_ms",
                               (double)result->party[b].moving_us / 1e3, "bytes_sent",
                               (json_int_t)result->party[b].bytes_sent, "bytes_received",
                               (json_int_t)result->party[b].bytes_received, "arena_bytes",
                               (json_int_t)result->party[b].arena_bytes, "arena_high_water_bytes",
                               (json_int_t)result->party[b].arena_high_water, "fragment_bytes",
                               (json_int_t)plan->parties[b].fragment_bytes));
    }
    return parties;
}

static int run_fragments(struct run *run, struct plan *plan)
{
    struct sim_local_result *result = calloc(1, sizeof *result);
    struct emit_fragment *fragments = NULL;
    int status = result ? emit_plan(plan, &fragments, &run->error)
                        : error_set(&run->error, STATUS_NO_MEMORY, "no memory for the run");
    if (status == 0)
        status = sim_local_run(plan, fragments, run->in, run->in_bytes, run->out, run->out_bytes, result,
                               &run->error);
    if (status == 0)
        run->report = json_pack(
            "{s:s, s:s, s:i, s:s, s:s, s:f, s:f, s:I, s:i, s:o}", "executor", "boards", "plan", plan->hash,
            "boards", (int)plan->n_boards, "strategy", plan_strategy_name(plan->options.strategy), "shares",
            plan_shares_name(plan->options.shares), "latency_ms", result->latency_ms, "predicted_ms",
            plan->latency_ms, "bytes_moved", (json_int_t)result->bytes_moved, "rounds", (int)plan->rounds,
            "parties", parties_json(plan, result));
    if (fragments)
        emit_free(fragments, plan->n_boards);
    free(result);
    return status;
}

static int run_boards(struct run *run)
{
    struct plan_options options = fleet_options_plan(&run->fleet);
    struct plan_board *boards;
    int32_t n;
    if (fleet_options_boards(&run->fleet, &boards, &n, &run->error) < 0)
        return run->error.status;
    struct plan *plan = plan_make(run->graph, run->version, boards, n, &options, NULL, NULL, &run->error);
    int status = plan ? run_fragments(run, plan) : (int)run->error.status;
    plan_free(plan);
    free(boards);
    return status;
}

static int check_input(struct run *run)
{
    size_t needed = graph_input_bytes(run->graph);
    int status = file_read(run->input, needed + 1, &run->in, &run->in_bytes, &run->error);
    if (status == 0 && run->in_bytes == needed)
        return 0;
    if (status < 0 && status != STATUS_TOO_LARGE)
        return status;
    error_clear(&run->error);
    if (status == 0)
        return error_set(&run->error, STATUS_INPUT_SIZE, "%s has %zu bytes, the model takes %zu", run->input,
                         run->in_bytes, needed);
    return error_set(&run->error, STATUS_INPUT_SIZE, "%s has more than the %zu bytes that the model takes",
                     run->input, needed);
}

static int run_once(struct run *run)
{
    int status = check_input(run);
    if (status < 0)
        return status;
    run->out_bytes = graph_output_bytes(run->graph);
    run->out = calloc(run->out_bytes + 1, 1);
    if (!run->out)
        return error_set(&run->error, STATUS_NO_MEMORY, "no memory for the output");
    status = run->fleet.boards ? run_boards(run) : run_reference(run);
    if (status == 0)
        status = file_write(run->output, run->out, run->out_bytes, 0644, &run->error);
    return status;
}

int cli_run(const struct cli_command *self, int argc, char **argv)
{
    struct run run = {0};
    struct cli_option options[FLEET_OPTIONS + 2];
    const char *path;
    char version[65];
    struct graph *graph;
    int code;
    fleet_options_rows(&run.fleet, options);
    options[FLEET_OPTIONS] = (struct cli_option){.name = "input", .kind = CLI_TEXT, .target = &run.input};
    options[FLEET_OPTIONS + 1] =
        (struct cli_option){.name = "output", .kind = CLI_TEXT, .target = &run.output};
    if (!cli_options(self, argc, argv, options, FLEET_OPTIONS + 2, &path, 1, 1, NULL, &code))
        return code;
    if (!run.input || !run.output)
        return cli_wrong_usage(self, "--input and --output are needed");
    if (run.fleet.json && run.output[0] == '-' && !run.output[1])
        return cli_wrong_usage(self, "--json and --output - would both write standard output");
    code = fleet_options_model(path, run.fleet.json, &graph, version);
    if (code != CLI_DONE)
        return code;
    run.graph = graph;
    run.version = version;
    error_clear(&run.error);
    if (run_once(&run) < 0)
        code = cli_fail(run.fleet.json, &run.error);
    else if (run.fleet.json)
        code = cli_print_json(json_incref(run.report));
    json_decref(run.report);
    free(run.in);
    free(run.out);
    graph_free(graph);
    return code;
}
