/*
 * How a step runs, for people: what the words of the command, of the page and of plans are made of. Whoever
 * shows a step takes it from here, so that all say the same of it.
 */
#ifndef SHOAL_SERVER_SCHEDULE_FORM_H
#define SHOAL_SERVER_SCHEDULE_FORM_H

#include "server/schedule/schedule.h"

#include <jansson.h>

struct schedule_form {
    enum schedule_mode mode;
    bool free;                    /* FULL: nothing is computed or copied: a view, a free concatenation */
    bool rings;                   /* CHANNELS: a turn goes row by row */
    bool columns;                 /* row by row: of tensors of one row, so rows below are columns */
    int32_t k, turns;             /* CHANNELS: channels a turn, and turns; else 0 */
    int32_t tile_h, tile_w;       /* PATCHES: of a patch, of the last operator's output; else 0 */
    int32_t patches_h, patches_w; /* PATCHES: how many down and across; else 0 */
    int32_t rows_in, rows_out;    /* row by row: rows of the first operator's input and of the last one's
                                     output; else and within patches 0 */
    int32_t ring_lo, ring_hi;     /* row by row: fewest and most rows that a tensor of which not all are held
                                     has in memory; 0: there is none */
    int32_t again;                /* as in struct schedule_step */
    int64_t peak_bytes;
    int64_t extra_macs; /* below 0 where patches leave out what nothing needs */
};

/* Of a step of `schedule`; of an inner one `outer` is the step around it, else NULL. */
struct schedule_form schedule_form(const struct graph *graph, const struct schedule *schedule,
                                   const struct schedule_step *step, const struct schedule_step *outer);

/* {"mode","ops":[names],"layers":[indices],"k","turns","along":"h|w","rings","rows":[in,out],"ring_rows":[lo,hi],
 * "tile":[h,w],"patches":[down,across],"free","again","extra_macs","peak_bytes","inner":inner}; null where
 * the mode has no such thing. Takes the reference of `inner`; a new one, or NULL without memory. */
json_t *schedule_form_json(const struct graph *graph, const struct schedule_form *form, const int32_t *ops,
                           int32_t n_ops, json_t *inner);

#endif
