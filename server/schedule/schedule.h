/*
 * One board's partial execution: from a graph to the schedule with the least memory (facts of the Pex paper,
 * arXiv 2211.17246, and beyond it rows, patches and operators that run twice). It reads what the operator
 * table says (class, axes, needed boxes, kernel) and nothing else about an operator.
 *
 * Counting: a tensor takes h*w*c bytes; weights, biases and kernel scratch nothing; the input image counts
 * until its last reader; outputs stay; an accumulator takes elements * bits / 8 during its loop; element-wise
 * operators overwrite an input at its last use; views are free.
 *
 * A schedule says what runs in which order and in which windows; lower.h makes a program of it.
 */
#ifndef SHOAL_SERVER_SCHEDULE_SCHEDULE_H
#define SHOAL_SERVER_SCHEDULE_SCHEDULE_H

#include "server/model/graph.h"

enum { SCHEDULE_OPS_MAX = 1024 };

/* ALL: channels, rows and patches. */
enum schedule_axes { SCHEDULE_AXES_FULL, SCHEDULE_AXES_CHANNELS, SCHEDULE_AXES_ROWS, SCHEDULE_AXES_ALL };
enum schedule_mode { SCHEDULE_FULL, SCHEDULE_CHANNELS, SCHEDULE_ROWS, SCHEDULE_PATCHES };

/* What a board takes for what; the fields of the profiles (server/plan). */
struct schedule_board {
    double clock_hz;
    double mac_per_cycle[4]; /* conv1x1, depthwise, conv, fully_connected */
    double element_per_cycle, flash_bytes_per_s;
    int64_t arena_bytes, weight_ram_bytes;
};
/* teensy41-good. */
const struct schedule_board *schedule_board_default(void);

struct schedule_options {
    enum schedule_axes axes;
    int32_t accumulator; /* bits of a sum during its loop: 32 (exact), 16 or 8 */
    double extra_macs;   /* percent of the network's MACs that may be computed again */
    bool streamed;       /* the input arrives by rows and counts only while it is held */
    int64_t ram;         /* 0: the least memory; else the fastest schedule of at most so many bytes */
    const struct schedule_board
        *board; /* for the time that a schedule takes; NULL: schedule_board_default() */
};

/* ROWS: when a tensor gets its rows, and how many are held. Row r comes at tick phase + per * r; within a
 * tick the step's operators run in their order. */
struct row_plan {
    int32_t tensor; /* of the graph */
    int32_t ring;   /* rows held; 0 of a tensor that is kept whole, of sums (4 bytes an element), and of one
                       whose   row lies where its only reader writes its own */
    int64_t per, phase;
    bool kept, sums, arrives; /* arrives: an input that comes row by row */
    bool passing; /* ring 1: the row lives only within its tick, from its operator to the last that reads it;
                     rows that pass at different operators may share memory, and are counted so */
    int32_t first_op, last_op; /* passing: places in the step's ops between which the memory is taken */
};

struct schedule_step {
    enum schedule_mode mode;
    int32_t *ops; /* indices in the graph, in the order of one iteration */
    int32_t n_ops;
    int32_t k;          /* CHANNELS: channels an iteration; else 0 */
    int32_t iterations; /* CHANNELS: with k = 1. A tensor that is partial in the loop has channels /
                           iterations * k of its channels in each; the last iteration has fewer where k does
                           not divide. Else 1 */
    int32_t tile_h,
        tile_w;    /* PATCHES: rows and columns of the last operator's output a patch makes; else 0 */
    bool tall;     /* ROWS, PATCHES, loops by rows: tensors of one row are seen as of one column
                      (server/model/tall.h); `rows`, tiles and patches are of what is seen so */
    int32_t again; /* of the ops, the first so many only feed the last one and run a second time later */
    int64_t peak_bytes, extra_macs;
    double seconds; /* with the weights that are not resident; of an inner step 0 */
    int32_t *live;  /* tensors of the graph that count whole at this step */
    int32_t n_live;
    int64_t inner_bytes;   /* what the step holds besides: rings, accumulators beyond their tensor, parts */
    struct row_plan *rows; /* ROWS: of every tensor that comes into being. CHANNELS: the same where an
                              iteration goes row by row, of the outputs; else NULL. In a patch row 0 is
                              the first of what the patch needs, which may lie above the tensor */
    int32_t n_rows;
    /* PATCHES: how a patch is made: FULL, CHANNELS or ROWS over tensors of patch_h x patch_w; else NULL.
     * Their ops are of the graph, their live is empty, and peak_bytes is what a patch takes beside what lies
     * outside. */
    struct schedule_step *inner;
    int32_t n_inner;
    int32_t *patch_h,
        *patch_w; /* PATCHES: the most rows and columns that a patch needs of each op's output */
};

struct schedule {
    struct schedule_step *steps;
    int32_t n_steps;
    int64_t peak_bytes, extra_macs;
    int32_t peak_step; /* the first step that reaches the peak; -1 without steps */
    double seconds;    /* predicted for one board, without moving inputs and outputs */
    bool *joined;      /* of each operator of the graph: a concatenation that is free, since its inputs are
                          made within its output; a step of its own that does nothing */
    bool *resident;    /* of each operator of the graph: its weights lie in spare RAM */
    bool streamed; /* inputs arrive by rows; false also where that takes more than having them from the start
                    */
    bool exhaustive; /* false: the graph was too wide to try every order of its operators */
};

/* NULL with `error` set: STATUS_MODEL_LIMIT for more than SCHEDULE_OPS_MAX operators, STATUS_DOES_NOT_FIT
 * when options.ram cannot be met (its shortfall filled), STATUS_INVALID_ARGUMENT, STATUS_NO_MEMORY. */
struct schedule *schedule_make(const struct graph *graph, const struct schedule_options *options,
                               struct error *error);
void schedule_free(struct schedule *schedule); /* NULL is allowed */

#endif
