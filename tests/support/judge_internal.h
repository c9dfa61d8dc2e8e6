/*
 * What the files of the judge share. Not for tests.
 *
 * judge.c          what every step keeps to, whole operators, the schedule
 * judge_loops.c    loops over channels
 * judge_rows.c     steps row by row
 * judge_patches.c  steps tile by tile
 */
#ifndef SHOAL_TESTS_SUPPORT_JUDGE_INTERNAL_H
#define SHOAL_TESTS_SUPPORT_JUDGE_INTERNAL_H

#include "server/model/optable.h"
#include "tests/support/judge.h"

struct judge {
    const struct graph *graph;  /* in a step that is tall, `turned` */
    const struct graph *turned; /* rows and columns exchanged */
    const struct schedule_options *options;
    const struct schedule *schedule;
    const struct schedule_step *step;
    bool *done, *after; /* of each operator */
    bool *out;          /* of each tensor: needed at the end */
    bool *live, *lives; /* of each root: before the step, and after it */
    bool *within;       /* of each tensor: made within the output of a concatenation */
    bool *part;         /* of each tensor: boards have it */
    int32_t *root;      /* of each tensor: whose memory it has */
    int32_t number, cautious;
    int64_t extra;
    char *reason;
    size_t size;
    bool legal;
};

static inline const struct op *op_at(const struct judge *j, int32_t k)
{
    return &j->graph->ops[j->step->ops[k]];
}

static inline const struct op_row *row_of(const struct op *op)
{
    return op_row(op->kind);
}

static inline int64_t size_of(const struct judge *j, int32_t tensor)
{
    return shape_elements(j->graph->tensors[tensor].shape);
}

static inline bool in_body(const struct judge *j, int32_t op)
{
    return op >= 0 && j->graph->ops[op].place == OP_PLACE_BODY;
}

static inline bool reads(const struct op *op, int32_t tensor)
{
    for (int32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] == tensor)
            return true;
    return false;
}

static inline int32_t height(const struct judge *j, int32_t tensor)
{
    return j->graph->tensors[tensor].shape.h;
}

/* ---- judge.c ---- */

/* The first one counts: the schedule is not legal. */
void judge_fault(struct judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool judge_is_there(const struct judge *j, const bool *done, int32_t tensor);
/* What a tensor takes beside what is live when it comes into being. */
int64_t judge_new_size(const struct judge *j, int32_t tensor);
/* The operator may write element by element over this input. */
bool judge_overwrites(const struct judge *j, const struct op *op, int32_t input);
/* Somebody who is not done, or the end, needs the tensor. */
bool judge_is_needed(const struct judge *j, const bool *done, int32_t tensor);
/* Of the step, before it. */
int64_t judge_live_bytes(const struct judge *j);
/* Bytes of inputs that arrive because this step reads them first. */
int64_t judge_arriving(const struct judge *j);
/* Place in the step of the operator that makes the tensor, or -1. */
int32_t judge_maker(const struct judge *j, int32_t tensor);
/* The step must state at least so much. */
void judge_peak(struct judge *j, int64_t least);

/* ---- judge_loops.c ---- */

struct block {
    int64_t bytes;
    int32_t first, last;
};

struct loop {
    struct judge *j;
    const struct schedule_step *step; /* its operators are of the graph */
    const int64_t *size;              /* of each tensor, in a patch less than the whole; NULL: whole */
    struct block *blocks;             /* of each tensor */
    int32_t *place;                   /* of each tensor: the block that it lies in */
    int64_t best;
    int32_t tries;
};

/* Operator k adds up its whole output. */
bool judge_loop_sums(const struct loop *l, int32_t k);
/* Every operator may run a part of its channels at a time, as many times as stated. */
void judge_forms(struct loop *l);
/* Within patches: what they leave, which lies outside them. */
bool judge_patch_end(const struct judge *j, int32_t tensor);
/* Bytes of the loop beside what is live around it. `size`, `patch`: within a patch, of each tensor its bytes
 * there and whether it is kept; else NULL. */
int64_t judge_loop_bytes(struct judge *j, const struct schedule_step *step, const int64_t *size,
                         const bool *patch);

/* ---- judge_rows.c, judge_patches.c ---- */

void judge_rows(struct judge *j);
/* A loop over channels whose iterations go row by row. */
void judge_ringed(struct judge *j);
/* Returns the MACs of all tiles. */
int64_t judge_patches(struct judge *j);

#endif
