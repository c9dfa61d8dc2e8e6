/* The record of an inference: one row of history with its time line, and the event that shows it live. */
#include "server/infer/internal.h"

#include "server/base/clock.h"
#include "server/base/error_json.h"

#include <stdlib.h>

static json_t *segments_json(const struct graph *graph, const struct conduct_times *times, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        const struct conduct_times *t = &times[i];
        const char *layer = t->layer < graph->n_ops ? graph->ops[t->layer].name : "";
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:f, s:f, s:f, s:f}", "op", (int)t->layer, "layer", layer,
                                        "start_ms", t->start_us / 1e3, "computing_ms", t->computing_us / 1e3,
                                        "waiting_ms", t->waiting_us / 1e3, "moving_ms", t->moving_us / 1e3));
    }
    return list;
}

static json_t *timeline_json(const struct infer_job *job)
{
    const struct plan *plan = job->route->plan;
    json_t *boards = json_array();
    /* The conductor counts what it sends to a board; here it is what the board received. */
    for (int32_t p = 0; job->result && p < plan->n_boards; p++) {
        if (!plan->parties[p].used)
            continue;
        const uint32_t n = job->result->party_times[p + 1].n_times;
        json_array_append_new(
            boards,
            json_pack("{s:i, s:s, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:o}", "party", p + 1, "board",
                      job->route->boards[p], "name", plan->boards[p].name, "computing_ms",
                      job->result->party_times[p + 1].computing_us / 1e3, "waiting_ms",
                      job->result->party_times[p + 1].waiting_us / 1e3, "moving_ms",
                      job->result->party_times[p + 1].moving_us / 1e3, "sent_bytes",
                      (json_int_t)job->result->party_times[p + 1].bytes_received, "received_bytes",
                      (json_int_t)job->result->party_times[p + 1].bytes_sent, "arena_high_water_bytes",
                      (json_int_t)job->result->party_times[p + 1].arena_high_water, "stack_high_water_bytes",
                      (json_int_t)job->result->party_times[p + 1].stack_high_water, "segments",
                      segments_json(job->route->graph, job->result->party_times[p + 1].times, n)));
    }
    return boards;
}

void infer_record(struct infer *infer, const struct infer_job *job, double latency_ms)
{
    const struct infer_route *route = job->route;
    bool failed = job->error.status != STATUS_OK;
    char begun[32];
    clock_rfc3339(job->begun_wall_ms, begun);
    json_t *timeline = timeline_json(job);
    json_t *error = failed ? error_json(&job->error) : NULL;
    json_t *error_body = error ? json_object_get(error, "error") : NULL;
    int64_t moved = job->result ? (int64_t)(job->result->bytes_sent + job->result->bytes_received) : 0;
    char *timeline_text = json_dumps(timeline, JSON_COMPACT | JSON_REAL_PRECISION(9));
    char *error_text = error_body ? json_dumps(error_body, JSON_COMPACT) : NULL;
    (void)store_telemetry(
        infer->store,
        "INSERT INTO inference (id, model, version, deployment, generation, state, error_json, begun_at, "
        "latency_us, bytes_moved, timeline_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "ssssissiiis", job->id, route->model, route->version, route->deployment, (int64_t)route->generation,
        failed ? "failed" : "done", error_text, job->begun_wall_ms, (int64_t)(latency_ms * 1000), moved,
        timeline_text);
    /* The event is as the list of inferences has them: a ring of a thousand does not hold every segment. */
    size_t i;
    json_t *board;
    json_array_foreach(timeline, i, board) json_object_del(board, "segments");
    json_t *event = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:s, s:O?, s:s, s:f, s:I, s:O}", "id", job->id, "model", route->model,
        "version", route->version, "deployment", route->deployment, "generation",
        (json_int_t)route->generation, "state", failed ? "failed" : "done", "error", error_body, "begun_at",
        begun, "latency_ms", latency_ms, "bytes_moved", (json_int_t)moved, "timeline", timeline);
    if (event && infer->config.publish)
        infer->config.publish(infer->config.publish_context, "inference", event);
    json_decref(event);
    json_decref(error);
    json_decref(timeline);
    free(timeline_text);
    free(error_text);
}
