/*
 * A schedule as JSON, and its options from JSON, for the command line and the API.
 */
#ifndef SHOAL_SERVER_SCHEDULE_JSON_H
#define SHOAL_SERVER_SCHEDULE_JSON_H

#include "server/schedule/schedule.h"

#include <jansson.h>

/* Makes the schedule and describes it:
 * {"name","macs","params","ordinary":{"peak_bytes"},"partial":{"peak_bytes","arena_bytes","scratch_bytes",
 * "extra_macs","steps":[{"mode":"full|channels|rows|patches","ops":[],"layers":[],"k","tile":[h,w] or null,
 * "again","peak_bytes"}]},"bottleneck":{"op","bytes","tensors":[{"name","bytes","role":"input|live|step"}]},
 * "options":{"accumulator","axes","extra_macs","image","ram"},"exhaustive","executable","why_not_executable","searched":[]}.
 * `again`: the first so many of ops only feed the last one and are computed once more in a later step. Role
 * "step" is what the step holds beside whole tensors: its output, rings, parts, sums. arena_bytes and
 * scratch_bytes are null: such a schedule is not packed yet. New reference; NULL with `error` set. */
json_t *schedule_describe(const struct graph *graph, const struct schedule_options *options,
                          struct error *error);

/* "accumulator", "axes", "extra_macs", "image" and "ram" of `json` over the defaults (32, all, 0, counted,
 * least memory); other keys are not looked at. STATUS_INVALID_ARGUMENT naming the key. */
int schedule_options_read(const json_t *json, struct schedule_options *options, struct error *error);
struct schedule_options schedule_defaults(void);

#endif
