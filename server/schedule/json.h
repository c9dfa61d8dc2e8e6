/*
 * A schedule as JSON, and its options from JSON, for the command line and the API.
 */
#ifndef SHOAL_SERVER_SCHEDULE_JSON_H
#define SHOAL_SERVER_SCHEDULE_JSON_H

#include "server/schedule/schedule.h"

#include <jansson.h>

/* Whether boards can run the schedule: 0, or a negative status with the reason in `error`. emit_schedule of
 * server/emit is one. */
typedef int schedule_check(const struct graph *graph, const struct schedule *schedule,
                           const struct schedule_options *options, struct error *error);

/* Makes the schedule, lowers it and describes it:
 * {"name","macs","params","ordinary":{"peak_bytes","predicted_ms","arena_bytes","scratch_bytes"},
 * "partial":{"peak_bytes","predicted_ms","arena_bytes","scratch_bytes","extra_macs",
 * "program":{"instructions","executions","ranges","views","buffers"} or null,
 * "steps":[{as in form.h,"predicted_ms","inner":[steps]}]},
 * "bottleneck":{as in bottleneck.h},
 * "options":{"accumulator","axes","extra_macs","image","ram"},"exhaustive","executable","why_not_executable","searched":[]}.
 * arena_bytes is what the
 * packer needs for all, scratch_bytes the most that kernels need beside what peak_bytes counts; null where no
 * program says the schedule. executable: `check` has accepted it; NULL: a network without weights. New
 * reference; NULL with `error` set. */
json_t *schedule_describe(const struct graph *graph, const struct schedule_options *options,
                          schedule_check *check, struct error *error);

/* "accumulator", "axes", "extra_macs", "image" and "ram" of `json` over the defaults (32, all, 0, counted,
 * least memory); other keys are not looked at. STATUS_INVALID_ARGUMENT naming the key. */
int schedule_options_read(const json_t *json, struct schedule_options *options, struct error *error);
struct schedule_options schedule_defaults(void);

#endif
