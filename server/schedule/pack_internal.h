/* What the packer's files share; see pack.c and pack_exact.c. Not for other modules. */
#ifndef SHOAL_SERVER_SCHEDULE_PACK_INTERNAL_H
#define SHOAL_SERVER_SCHEDULE_PACK_INTERNAL_H

#include "server/schedule/pack.h"

#include <stdbool.h>

/* Item i, whose conflict it is, may not lie between `lo` and `hi` bytes above the other (both not included),
 * but `level` with it. */
struct pack_conflict {
    int32_t other;
    bool level;
    int64_t lo, hi;
};

/* Units of items: item i lies `above[i]` bytes above the origin of unit `unit_of[i]`, a multiple of
 * `align[unit]`. */
struct pack_units {
    const struct pack_item *items;
    int32_t n_items, n_units;
    const int32_t *unit_of, *align;
    const int64_t *above;
    const struct pack_conflict *conflicts; /* of item i: from start[i] to start[i + 1] */
    const int32_t *start;
    const struct pack_pair *pairs;
    int32_t n_pairs;
};

/* What two items that may overlap take less than apart. */
int64_t pack_gain(const struct pack_item *items, const struct pack_pair *pair);

/* Looks for origins with which nothing ends above `target`, spending at most *work, which it takes off. From
 * below, or `upside_down`: from `target` downwards. False: not found, or no memory; then, with *work above 0,
 * no pairs and no unit of several items, there are none. */
bool pack_exact(const struct pack_units *units, int64_t target, bool upside_down, int64_t *work,
                int64_t *origins);

#endif
