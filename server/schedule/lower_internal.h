/*
 * What the files of the lowering share. Not for other modules.
 *
 * lower.c            the steps in turn, what arrives and what is sent
 * lower_build.c      records: ranges, views, buffers, instructions
 * lower_task.c       one operator as instructions
 * lower_channels.c   loops over channels
 * lower_rows.c       loops over ticks, with rings
 * lower_patches.c    loops over tiles
 * lower_move.c       tensors that are moved
 * lower_place.c      lifetimes, overlaps, offsets
 */
#ifndef SHOAL_SERVER_SCHEDULE_LOWER_INTERNAL_H
#define SHOAL_SERVER_SCHEDULE_LOWER_INTERNAL_H

#include "server/schedule/internal.h"
#include "server/schedule/lower.h"
#include "server/schedule/pack.h"

enum { LOWER_NONE = -1, LOWER_MOVES_MAX = 32, LOWER_MOVE_BITS = 2, LOWER_ALIGN = 4 };
/* Stays; is moved upwards, or downwards, as far as the packer likes. */
enum lower_move { LOWER_STAY, LOWER_UP, LOWER_DOWN, LOWER_MOVES };

/* The part of a tensor that one iteration of the open loops has: ranges of rows and columns, and the most
 * that these ever hold. */
struct lower_area {
    int32_t h, w; /* ranges */
    int32_t cap_h, cap_w;
    int32_t rows; /* of a tile: what `h` holds before it is clamped */
    bool tile;    /* false: the whole tensor */
};

struct lower {
    struct lowered *out;
    const struct graph *graph; /* in a step that is tall, that of tall_graph */
    const struct net *net;     /* within a patch: of the patch */
    bool tall;
    const struct schedule_options *options;
    const struct lower_kernels *kernels; /* NULL: none */
    const done_word *done, *after;       /* of the net, before and after the present step */
    int32_t *home;                       /* of each tensor: the buffer that holds it whole, -1 */
    int32_t *now;                        /* of each tensor: its view in the present step, -1: whole */
    struct lower_area *area;             /* of each tensor while in a patch; else not used */
    bool tiles;                          /* in a patch */
    bool thorough;                       /* pack with much work */
    struct pack_pair *pairs;             /* buffers that may overlap */
    int32_t n_pairs, cap_pairs;
    uint64_t moves;  /* what is done with each tensor that might be moved: enum lower_move */
    int32_t n_moves; /* how many might be, so far */
    int32_t depth, loops[FRAGMENT_LOOPS_MAX]; /* open LOOPs */
    bool failed;                              /* no memory */
    const char *refused;                      /* why no program can say it; NULL */
};

/* ---- lower_build.c; numbers of records; anything after a failure ---- */

int32_t lower_range(struct lower *l, struct fragment_range range);
int32_t lower_const(struct lower *l, int32_t lo, int32_t hi);
/* [a*n + b0, a*n + b1) / div of the innermost loop, within [lo, hi). */
int32_t lower_affine(struct lower *l, int32_t a, int32_t b0, int32_t b1, int32_t div, int32_t lo, int32_t hi);
/* The same from the start of range `parent` on, within that range. */
int32_t lower_inside(struct lower *l, int32_t parent, int32_t a, int32_t b0, int32_t b1, int32_t div);
/* The range shifted by `by`, within [lo, hi) too. */
int32_t lower_narrow(struct lower *l, int32_t range, int32_t by, int32_t lo, int32_t hi);
bool lower_is_const(const struct lower *l, int32_t range);

/* A buffer of the innermost open loop's iteration (`inner`) or of the whole program. */
int32_t lower_buffer(struct lower *l, int32_t tensor, int64_t bytes, bool inner, bool scratch);
/* Puts buffer `a` `distance` bytes above buffer `b`, which it may overlap. */
void lower_tie(struct lower *l, int32_t a, int32_t b, int64_t distance);
/* Lets two buffers overlap, where that helps. */
void lower_allow(struct lower *l, struct pack_pair pair);

/* What a packed view holds and where its origin is; an origin of -1 or of a constant that begins at 0 is
 * none. */
struct lower_box {
    int32_t cap_h, cap_w, cap_c;
    int32_t h0, w0, c0; /* ranges */
};
int32_t lower_view(struct lower *l, int32_t buffer, int32_t tensor, struct shape shape, int32_t elem,
                   struct lower_box box);
/* The view in which the present step has the tensor, made if it is whole. Constants have one too. */
int32_t lower_view_of(struct lower *l, int32_t tensor);
int32_t lower_whole(struct lower *l, int32_t buffer, int32_t tensor, int32_t elem);
/* Sums of an operator's output, seen as int32. */
int32_t lower_whole_sums(struct lower *l, int32_t buffer, int32_t op);

struct lower_code *lower_code(struct lower *l, enum fragment_op op, int32_t graph_op);
void lower_loop(struct lower *l, int64_t count);
void lower_end(struct lower *l);
struct lower_area lower_area_of(struct lower *l, int32_t tensor);

/* ---- lower_task.c ---- */

/* An operator over ranges of its output. */
struct lower_task {
    int32_t op;                  /* of the graph */
    int32_t out;                 /* view */
    int32_t h, w, c;             /* ranges */
    int32_t k;                   /* adds these input channels to `sums`; -1: finishes at once */
    int32_t sums;                /* view, or -1 */
    int32_t cap_h, cap_w, cap_c; /* the most that the ranges hold */
};
void lower_task(struct lower *l, const struct lower_task *task);
void lower_zero(struct lower *l, int32_t op, int32_t sums, int32_t h, int32_t w, int32_t c);
void lower_finish(struct lower *l, int32_t op, int32_t sums, int32_t out, int32_t h, int32_t w, int32_t c);

/* ---- steps: operators of the net ---- */

void lower_step_full(struct lower *l, int32_t op);
/* `plan` with n_plan entries: an iteration goes row by row; NULL: it does not. */
void lower_step_channels(struct lower *l, const int32_t *ops, int32_t n, int32_t k,
                         const struct row_plan *plan, int32_t n_plan);
void lower_step_rows(struct lower *l, const int32_t *ops, int32_t n, const struct row_plan *plan,
                     int32_t n_plan);
void lower_step_patches(struct lower *l, const int32_t *ops, const struct schedule_step *step);

/* Row r of a tensor (of its area, in a patch) at tick per * r + phase of the innermost loop. */
int32_t lower_turn(struct lower *l, int64_t per, int64_t phase, int32_t tensor);
/* How many rows a loop of ticks makes of the tensor. */
int32_t lower_rows(const struct lower *l, int32_t tensor);
/* The view that a step writes a tensor through which it keeps, over memory of its own or that of `over`. */
int32_t lower_output(struct lower *l, int32_t tensor, int32_t over);
/* A view for `tensor` in the memory that `over` has in the present step. */
int32_t lower_same_place(struct lower *l, int32_t tensor, int32_t over);

/* A whole tensor's buffer for an output of this step. `over`: the tensor that it overwrites, -1. */
int32_t lower_new_home(struct lower *l, int32_t tensor, int32_t over);
/* Of the operator's inputs one that it may overwrite: of the same shape, not needed afterwards; -1: none. */
int32_t lower_overwritten(const struct lower *l, const struct net_op *op);

/* ---- lower_move.c ---- */

/* Before a step of these operators. */
void lower_move(struct lower *l, const int32_t *ops, int32_t n);

/* ---- lower_place.c ---- */

/* The tensor is the only name of its memory: rows seen through a RESHAPE are other rows. */
bool lower_alone(const struct net *net, int32_t tensor);

/* Overlaps what the code from `from` on writes with what it reads for the last time. */
void lower_overlap(struct lower *l, int32_t from);
/* The arena that so many bytes want. */
int64_t lower_arena(int64_t bytes);
/* Lifetimes and offsets; false without memory. */
bool lower_place(struct lower *l);

#endif
