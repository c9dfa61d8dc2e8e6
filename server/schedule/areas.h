/*
 * Areas: rows, or columns, that a tile needs of a tensor. Not for other modules.
 */
#ifndef SHOAL_SERVER_SCHEDULE_AREAS_H
#define SHOAL_SERVER_SCHEDULE_AREAS_H

#include "server/schedule/internal.h"

/* Lines [a*n + b0, a*n + b1) at tile number n, to be clamped to the tensor. */
struct area {
    int32_t a, b0, b1;
};

/* Areas of the outputs of `n` operators of the net for tiles of `tile` lines (axis 0: rows, 1: columns) of
 * the last one. False: no such function says what a tile needs, or an output is read by none of them. */
bool areas_find(const struct net *net, const int32_t *ops, int32_t n, int axis, int32_t tile,
                struct area *areas);

/* Areas of which input `i` of an operator is read for an area of its output, not clamped. area_step says it
 * for all; false: no affine function does. */
bool area_step(const struct graph *graph, const struct op *op, int32_t i, int axis, struct area_step *step);
/* The same of input `i` of the graph's operator, as the net has it. */
bool area_step_of(const struct net_op *op, int32_t i, int axis, struct area_step *step);
bool area_back(const struct area_step *step, struct area out, struct area *in);

#endif
