/* The canonical JSON of a plan and its hash. Not for other modules: plan.h offers what they need. */
#ifndef SHOAL_SERVER_PLAN_JSON_H
#define SHOAL_SERVER_PLAN_JSON_H

#include "server/plan/plan.h"

/* Of all that planning decides: neither the hash itself nor what emit adds. 0 or STATUS_NO_MEMORY. */
int json_plan_hash(const struct plan *plan, char hash[65]);

/* program_json.c: a party's program; NULL without memory. */
json_t *json_program(const struct plan_party *party);
/* Sets program (but for its sizes) and partial, in `arena`. False: malformed, or no memory. */
bool json_program_read(const struct graph *graph, struct arena *arena, const json_t *json,
                       struct plan_party *party);
/* How each step of a party's schedule runs, beside what the hash covers: [[numbers, inner steps], ...]; a
 * party without a schedule has []. Read over json_program_read's steps; NULL, as in plans of before, leaves
 * them as they are. */
json_t *json_forms(const struct plan_party *party);
bool json_forms_read(const struct graph *graph, struct arena *arena, const json_t *json,
                     struct plan_party *party);

#endif
