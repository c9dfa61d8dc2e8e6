/*
 * Boxes: half-open ranges of a tensor, [h0,h1) x [w0,w1) x [c0,c1), in coordinates of the whole tensor. All
 * splitting and routing is done on boxes. A box is empty when any of its ranges is.
 */
#ifndef SHOAL_SERVER_MODEL_BOX_H
#define SHOAL_SERVER_MODEL_BOX_H

#include <stdbool.h>
#include <stdint.h>

/* Rows, columns, channels of a tensor; each 1..65535. */
struct shape {
    int32_t h, w, c;
};

struct box {
    int32_t h0, h1, w0, w1, c0, c1;
};

enum { BOX_RUN_MAX = 5, BOX_DIFFERENCE_MAX = 6 };

int64_t shape_elements(struct shape shape);
bool shape_equal(struct shape a, struct shape b);
struct box box_whole(struct shape shape);
bool box_empty(struct box box);
bool box_equal(struct box a, struct box b);
int64_t box_elements(struct box box); /* 0 for an empty one */
struct box box_intersect(struct box a, struct box b);
bool box_contains(struct box outer, struct box inner); /* an empty inner is contained in everything */
/* Smallest box around both; an empty one adds nothing. */
struct box box_hull(struct box a, struct box b);
/* a without b as at most BOX_DIFFERENCE_MAX disjoint boxes in `out`; returns how many. */
int box_difference(struct box a, struct box b, struct box out[BOX_DIFFERENCE_MAX]);
/* The channel-major run [p, q) of positions c*H*W + h*W + w as at most BOX_RUN_MAX disjoint boxes, in the
 * order of the run: rest of a row, rest of a channel, whole channels, rows, part of a row. Returns how many;
 * 0 for an empty run. Needs 0 <= p <= q <= elements. */
int box_run(struct shape shape, int64_t p, int64_t q, struct box out[BOX_RUN_MAX]);

#endif
