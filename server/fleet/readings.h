/*
 * What a board said of itself over the last hour: one reading each 10 s, in memory, since the server's start.
 * The caller holds the fleet's mutex, or is alone.
 */
#ifndef SHOAL_SERVER_FLEET_READINGS_H
#define SHOAL_SERVER_FLEET_READINGS_H

#include "shared/wire/wire.h"

#include <jansson.h>

enum { READINGS_EVERY_MS = 10000, READINGS_KEPT = 360 };

struct readings; /* NULL: none yet */

/* Takes a beat when it is time for the next reading; makes *readings for the first. Without memory: nothing.
 */
void readings_take(struct readings **readings, const struct wire_beat *beat, int64_t wall_ms);
/* Oldest first: {"at","arena_high_water_bytes","stack_high_water_bytes","flash_used_bytes","free_bytes",
 * "temperature_celsius"}; the last is null where the board does not know it. */
json_t *readings_json(const struct readings *readings);
void readings_free(struct readings *readings);

#endif
