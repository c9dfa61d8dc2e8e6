/*
 * Descriptions of graphs and plans as JSON, for the command line and the API: layers, one board's schedule, a
 * plan's summary (plan_summary_json in plan.h). New references; NULL without memory.
 */
#ifndef SHOAL_SERVER_PLAN_DESCRIBE_H
#define SHOAL_SERVER_PLAN_DESCRIBE_H

#include "server/plan/plan.h"

/* {"name","macs","params","weight_bytes","inputs":[TENSOR],"outputs":[TENSOR],"layers":[{"index","name","op",
 * "file_op","place","window":{"kernel":[h,w],"stride":[h,w],"groups"} or null,"activation","inputs":[TENSOR],
 * "output":TENSOR,"macs","params","weight_bytes","output_bytes"}]}; TENSOR is
 * {"tensor","name","dtype","dims", "constant"}, and equal numbers `tensor` join the layer that makes it to
 * those that read it. */
json_t *describe_layers(const struct graph *graph);

/* One board runs operator by operator, each whole:
 * {"name","macs","params","ordinary":{"peak_bytes"},"partial":
 * {"peak_bytes","arena_bytes","scratch_bytes","extra_macs","steps":[{"mode":"full","ops":[],"layers":[],"k","tile","peak_bytes"}]},
 * "bottleneck":{"op","bytes","tensors":[{"name","bytes","role":"input|output|live"}]}}. NULL with `error`
 * set. */
json_t *describe_schedule(const struct graph *graph, struct error *error);

/* For a refusal's detail: [{"board","segment","op","resource","need_bytes","have_bytes","missing_bytes"}]. */
json_t *describe_shortfalls(const struct error_shortfall *shortfalls, int32_t n);
/* Changes with which the planner has made a plan that fits, as texts ("4 boards", "shares even"): more boards
 * like the last one, other shares, the other strategy. Empty when none of those helps. Takes as long as the
 * plans it tries. */
json_t *describe_try(const struct graph *graph, const struct plan_board *boards, int32_t n,
                     const struct plan_options *options);

int64_t describe_macs(const struct graph *graph);
int64_t describe_params(const struct graph *graph); /* weights and biases, elements */

#endif
