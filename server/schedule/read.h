/*
 * A network without weights, from JSON, for `shoal schedule GRAPH.json` and POST /api/v1/schedules, so that a
 * training, pruning or architecture-search loop in any language can ask for a peak:
 *
 *   {"name", "tensors": {NAME: {"shape": [h, w, c], "bits": 8}}, "inputs": [NAME], "outputs": [NAME],
 *    "ops": [{"name", "type", "inputs": [NAME], "output": NAME, "k": [h, w], "s": [h, w],
 *             "pad": "same" | "valid" | [top, left, bottom, right], "dil": N | [h, w], "groups": N, "axis":
 * 0..2}]}
 *
 * Types are the operator table's names, and conv, dw, fc, gap, maxpool, avgpool, sigmoid. Operators may stand
 * in any order. Everything but name, type, inputs and output may be left out: 1x1 windows, stride 1, "same".
 */
#ifndef SHOAL_SERVER_SCHEDULE_READ_H
#define SHOAL_SERVER_SCHEDULE_READ_H

#include "server/model/graph.h"

#include <jansson.h>

/* A finished graph whose weights and biases are zeros that all operators share: to schedule, not to run. NULL
 * with `error` set: STATUS_MODEL_MALFORMED, _UNSUPPORTED or _LIMIT with the operator's or tensor's name (a
 * cycle, a shape that does not fit, a tensor without producer, more than SCHEDULE_OPS_MAX operators). */
struct graph *schedule_read(const json_t *json, struct error *error);

#endif
