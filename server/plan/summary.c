/* A plan for people and the API: what each board gets, what it costs, where the time goes. */
#include "server/model/optable.h"
#include "server/plan/plan.h"

static json_t *steps_json(const struct plan *plan, const struct plan_partial *steps, int32_t n)
{
    json_t *array = json_array();
    for (int32_t s = 0; s < n; s++)
        json_array_append_new(array,
                              schedule_form_json(plan->graph, &steps[s].form, steps[s].ops, steps[s].n_ops,
                                                 steps_json(plan, steps[s].inner, steps[s].n_inner)));
    return array;
}

/* What the board runs where that is not operator by operator; null where it is. */
static json_t *schedule_json(const struct plan *plan, const struct plan_party *party)
{
    return party->program ? steps_json(plan, party->partial, party->n_partial) : json_null();
}

static json_t *party_json(const struct plan *plan, int32_t b)
{
    const struct plan_party *party = &plan->parties[b];
    const struct plan_board *board = &plan->boards[b];
    return json_pack(
        "{s:s, s:s, s:b, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:o}", "board",
        board->id, "name", board->name, "used", party->used, "share", (double)party->share / PLAN_SHARE_WHOLE,
        "rating_kb_per_s", party->rating_kb_per_s, "peak_bytes", (json_int_t)party->peak_bytes, "arena_bytes",
        (json_int_t)party->arena_bytes, "scratch_bytes", (json_int_t)party->scratch_bytes, "weight_bytes",
        (json_int_t)party->weight_bytes, "resident_bytes", (json_int_t)party->resident_bytes,
        "fragment_bytes", (json_int_t)party->fragment_bytes, "computing_ms", party->times.computing_ms,
        "moving_ms", party->times.moving_ms, "waiting_ms", party->times.waiting_ms, "flash_ms",
        party->times.flash_ms, "bytes_sent", (json_int_t)party->bytes_sent, "bytes_received",
        (json_int_t)party->bytes_received, "schedule", schedule_json(plan, party));
}

static json_t *segment_json(const struct plan *plan, int32_t s)
{
    const struct plan_segment *segment = &plan->segments[s];
    json_t *times = json_array();
    for (int32_t b = 0; b < plan->n_boards; b++)
        json_array_append_new(
            times,
            json_pack("{s:f, s:f, s:f, s:f, s:f}", "start_ms", segment->times[b].start_ms, "computing_ms",
                      segment->times[b].computing_ms, "moving_ms", segment->times[b].moving_ms, "waiting_ms",
                      segment->times[b].waiting_ms, "flash_ms", segment->times[b].flash_ms));
    return json_pack("{s:i, s:s?, s:s?, s:o}", "segment", (int)s, "first",
                     plan->graph->ops[segment->first_op].name, "last",
                     plan->graph->ops[segment->last_op].name, "times", times);
}

json_t *plan_summary_json(const struct plan *plan)
{
    json_t *parties = json_array(), *segments = json_array();
    int64_t peak = 0, arena = 0, fragment = 0;
    int32_t used = 0;
    for (int32_t b = 0; b < plan->n_boards; b++) {
        const struct plan_party *party = &plan->parties[b];
        json_array_append_new(parties, party_json(plan, b));
        used += party->used;
        peak = party->peak_bytes > peak ? party->peak_bytes : peak;
        arena = party->arena_bytes > arena ? party->arena_bytes : arena;
        fragment = party->fragment_bytes > fragment ? party->fragment_bytes : fragment;
    }
    for (int32_t s = 0; s < plan->n_segments; s++)
        json_array_append_new(segments, segment_json(plan, s));
    return json_pack("{s:s, s:s, s:s?, s:i, s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, "
                     "s:I, s:I, s:i, "
                     "s:o, s:o}",
                     "hash", plan->hash, "version", plan->version, "model", plan->graph->name, "boards",
                     (int)plan->n_boards, "boards_used", (int)used, "strategy",
                     plan_strategy_name(plan->options.strategy), "shares",
                     plan_shares_name(plan->options.shares), "link", "star", "latency_ms", plan->latency_ms,
                     "computing_ms", plan->computing_ms, "moving_ms", plan->moving_ms, "waiting_ms",
                     plan->waiting_ms, "flash_ms", plan->flash_ms, "throughput_per_s", plan->throughput_per_s,
                     "peak_bytes_max", (json_int_t)peak, "arena_bytes_max", (json_int_t)arena,
                     "fragment_bytes_max", (json_int_t)fragment, "bytes_moved", (json_int_t)plan->bytes_moved,
                     "coordinator_bytes", (json_int_t)plan->coordinator_bytes, "rounds", (int)plan->rounds,
                     "parties", parties, "segments", segments);
}
