/* From plan to fragments: one verified binary image per board. */
#ifndef SHOAL_SERVER_EMIT_EMIT_H
#define SHOAL_SERVER_EMIT_EMIT_H

#include "server/plan/plan.h"

/* One board's image; `bytes` is malloc'ed and aligned to 16. */
struct emit_fragment {
    uint8_t *bytes;
    uint32_t size;
    uint8_t hash[WIRE_HASH_BYTES];
};

/* Emits all parties' fragments (an unused board gets none: size 0), checks each with vm_check_bounds and
 * vm_check_data, and sets plan->table.fragments and parties[].fragment_bytes. *fragments is an array of
 * plan->n_boards, to be freed with emit_free. STATUS_DOES_NOT_FIT when an image is larger than the board's
 * flash. */
int emit_plan(struct plan *plan, struct emit_fragment **fragments, struct error *error);
/* Whether one board can run a schedule: plans it without limits of memory, emits and checks it (a
 * schedule_check of server/schedule/json.h). */
int emit_schedule(const struct graph *graph, const struct schedule *schedule,
                  const struct schedule_options *options, struct error *error);
void emit_free(struct emit_fragment *fragments, int32_t n);

#endif
