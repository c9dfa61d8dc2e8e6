/*
 * A segment by patches as code: two LOOPs over the tiles of the last operator's output; what a tile needs of
 * each tensor before it is affine in the loops' counters. Within a tile the operators run whole or in loops
 * over channels, on tensors of the tile's size.
 */
#include "server/schedule/lower_internal.h"

void lower_step_patches(struct lower *l, const int32_t *ops, const struct schedule_step *step)
{
    (void)ops;
    (void)step;
    l->refused = "patches are not lowered yet";
}
