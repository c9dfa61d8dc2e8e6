/* What is in memory at a schedule's peak. */
#ifndef SHOAL_SERVER_SCHEDULE_BOTTLENECK_H
#define SHOAL_SERVER_SCHEDULE_BOTTLENECK_H

#include "server/schedule/schedule.h"

#include <jansson.h>

/* {"op","bytes","tensors":[{"name","bytes","role","along","rows":[held,of]}]}: the step that reaches the peak
 * by its last operator; the tensors' bytes add up to `bytes`. Roles: "input" is read by the step, "live"
 * waits for a later one; what the step itself holds is "output" (whole), "sums" (an output as sums, before it
 * shrinks), "part" (the channels of one turn), "ring" (the rows, along w columns, still needed), "patch" (all
 * that making one patch takes), or "step", what is not told apart: where its output grows, rows that pass, or
 * all of it. null without steps. */
json_t *bottleneck_json(const struct graph *graph, const struct schedule *schedule, int32_t accumulator);

#endif
