/*
 * From the search's moves to a schedule in terms of the graph: channels an iteration, what is live at each
 * step.
 */
#include "server/schedule/schedule.h"

#include "server/schedule/search.h"

#include <stdlib.h>
#include <string.h>

static bool fill_step(const struct net *net, const struct schedule_options *options, const done_word *done,
                      const struct move *move, int64_t limit, struct schedule_step *step)
{
    step->ops = calloc((size_t)move->n_ops, sizeof *step->ops);
    step->live = calloc((size_t)net->n_used + 1, sizeof *step->live);
    if (!step->ops || !step->live)
        return false;
    int64_t k = search_channels(move, limit), live = net_live(net, done, options->streamed);
    step->mode = move->mode;
    step->n_ops = move->n_ops;
    for (int32_t i = 0; i < move->n_ops; i++)
        step->ops[i] = net->ops[move->ops[i]].graph_op;
    step->k = (int32_t)k;
    step->tile_h = move->tile_h;
    step->tile_w = move->tile_w;
    step->again = move->again;
    step->extra_macs = move->extra_macs;
    step->peak_bytes = move->fixed_bytes + move->part_bytes * (k > 0 ? k : 1);
    for (int32_t i = 0; i < net->n_used; i++)
        if (net->tensors[net->used[i]].storage == net->used[i] &&
            net_is_live(net, done, net->used[i], options->streamed))
            step->live[step->n_live++] = net->used[i];
    step->inner_bytes = step->peak_bytes - live;
    return true;
}

static bool fill(struct schedule *schedule, const struct net *net, const struct schedule_options *options,
                 const struct search_result *result)
{
    done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    schedule->steps = calloc((size_t)result->n_moves + 1, sizeof *schedule->steps);
    schedule->peak_step = -1;
    schedule->exhaustive = result->exhaustive;
    if (!schedule->steps)
        return false;
    for (int32_t i = 0; i < result->n_moves; i++) {
        const struct move *move = &result->moves[i];
        struct schedule_step *step = &schedule->steps[schedule->n_steps++];
        if (!fill_step(net, options, done, move, result->limit_bytes, step))
            return false;
        for (int32_t o = move->again; o < move->n_ops; o++)
            done_add(done, move->ops[o]);
        schedule->extra_macs += step->extra_macs;
        if (schedule->peak_step < 0 || step->peak_bytes > schedule->peak_bytes) {
            schedule->peak_bytes = step->peak_bytes;
            schedule->peak_step = i;
        }
    }
    return true;
}

static int check_options(const struct schedule_options *options, struct error *error)
{
    if (options->accumulator != 32 && options->accumulator != 16 && options->accumulator != 8)
        return error_set(error, STATUS_INVALID_ARGUMENT, "an accumulator has 32, 16 or 8 bits, not %d",
                         options->accumulator);
    if (!(options->extra_macs >= 0 && options->extra_macs <= 1000))
        return error_set(error, STATUS_INVALID_ARGUMENT, "extra MACs are 0 to 1000 percent");
    return 0;
}

static void refuse_ram(int64_t need, int64_t ram, struct error *error)
{
    if (error_set(error, STATUS_DOES_NOT_FIT, "no schedule was found below %lld bytes; there are %lld",
                  (long long)need, (long long)ram) &&
        error)
        error->shortfall = (struct error_shortfall){
            .segment = -1, .resource = "arena", .need_bytes = need, .have_bytes = ram};
}

static struct schedule *make(const struct net *net, const struct schedule_options *options,
                             struct error *error)
{
    struct search_result result;
    struct schedule *schedule = NULL;
    if (search_run(net, options, &result) && (options->ram == 0 || result.peak_bytes <= options->ram)) {
        schedule = calloc(1, sizeof *schedule);
        if (schedule && !fill(schedule, net, options, &result)) {
            schedule_free(schedule);
            schedule = NULL;
        }
    }
    free(result.moves);
    if (!schedule && result.peak_bytes > options->ram && options->ram > 0)
        refuse_ram(result.peak_bytes, options->ram, error);
    if (!schedule)
        error_set(error, STATUS_NO_MEMORY, "no memory for the schedule");
    return schedule;
}

struct schedule *schedule_make(const struct graph *graph, const struct schedule_options *options,
                               struct error *error)
{
    if (check_options(options, error) < 0)
        return NULL;
    if (graph->n_ops > SCHEDULE_OPS_MAX) {
        error_set(error, STATUS_MODEL_LIMIT, "%d operators, the limit is %d", graph->n_ops, SCHEDULE_OPS_MAX);
        error_limit(error, SCHEDULE_OPS_MAX, graph->n_ops);
        return NULL;
    }
    struct net *net = schedule_net(graph);
    if (!net) {
        error_set(error, STATUS_NO_MEMORY, "no memory for the schedule");
        return NULL;
    }
    struct schedule *schedule = make(net, options, error);
    schedule_net_free(net);
    return schedule;
}

void schedule_free(struct schedule *schedule)
{
    for (int32_t i = 0; schedule && i < schedule->n_steps; i++) {
        free(schedule->steps[i].ops);
        free(schedule->steps[i].live);
    }
    if (schedule)
        free(schedule->steps);
    free(schedule);
}
