/*
 * What the files of server/plan share while one plan is made; not for other modules. Everything is allocated
 * in the plan's arena; vectors grow by doubling and leave their old memory to it.
 */
#ifndef SHOAL_SERVER_PLAN_INTERNAL_H
#define SHOAL_SERVER_PLAN_INTERNAL_H

#include "server/model/optable.h"
#include "server/plan/plan.h"

#include <string.h>

enum { PLAN_BOARDS_MAX = CONDUCT_PARTIES_MAX, PLAN_ARENA_LIMIT = 512 * 1024 * 1024 };

/* A party makes `box` of an operator's output (of a concatenation: of the part that is its input `input`).
 * Stores are indices into maker.stores; -1: none. */
struct task {
    int32_t op, input;
    uint16_t party;
    struct box box;
    int32_t in[2], out, scratch;
};

/* Memory of a party that holds part of a tensor; becomes a plan_buffer. Valid are only the boxes listed. */
struct store {
    uint16_t party;
    uint8_t elem;
    int32_t tensor; /* root, or n_tensors + op for sums */
    struct box box;
    struct box *valid;
    int32_t n_valid, cap_valid;
    int32_t shares_with; /* store in whose memory this one is made in place, -1 */
    int32_t first, last; /* steps of the party */
    int32_t made_for;    /* operator for which it was fetched, -1: the party made it */
    int32_t next;        /* of the same tensor, -1 */
    int32_t buffer;
};

/* A box that a party is sent before operator `op`, into a store. */
struct want {
    int32_t tensor, op, store;
    uint16_t party;
    struct box box;
    int32_t next; /* of the same tensor, -1; set when all are there */
};

/* A box that a party moves from one of its stores to another before operator `op`. */
struct move {
    int32_t tensor, op, from, to;
    uint16_t party;
    struct box box;
};

/* A box of a tensor that a party has made, and where. */
struct piece {
    uint16_t party;
    int32_t store;
    struct box box;
};

/* One tensor (a root: RESHAPEs are the tensor they reshape). */
struct holding {
    struct piece *pieces; /* disjoint; none for a tensor given by the coordinator */
    int32_t n, cap;
    bool given;          /* made by the coordinator: graph input or head */
    bool output;         /* needed by the coordinator */
    int32_t exchange;    /* -1 */
    int32_t first_store; /* -1 */
    int32_t first_want;  /* -1 */
};

/* How memory is traded for moving. */
enum maker_mode {
    MAKER_KEEP,   /* received boxes stay for later readers */
    MAKER_DROP,   /* they are received again */
    MAKER_FRUGAL, /* and what a board sends is gone before it posts: its own pieces come back with the rest */
    MAKER_MODES
};

struct maker {
    struct plan *plan;
    struct error *error;
    const struct graph *graph;
    int32_t *root;                    /* of each tensor */
    struct holding *holdings;         /* of each tensor, used for roots only */
    double fraction[PLAN_BOARDS_MAX]; /* upper end of board b's part of every cut operator, in [0, 1] */
    int32_t first_board;              /* the first with a share */
    enum maker_mode mode;
    int32_t scratch_limit;
    struct task *tasks;
    int32_t n_tasks, cap_tasks;
    int32_t *op_task; /* first task of each operator, n_ops + 1 entries */
    struct store *stores;
    int32_t n_stores, cap_stores;
    struct want *wants;
    int32_t n_wants, cap_wants;
    struct move *moves;
    int32_t n_moves, cap_moves;
    int32_t
        *rank_before; /* of each operator: rank of the hop up before it, -1: no exchange; n_ops: the end */
    uint32_t ranks;
    int32_t *segment_of;            /* of each operator, -1 */
    const struct schedule *partial; /* the first board runs this alone; NULL: none */
    const struct schedule_options *partial_options;
    bool apart;  /* inputs come one after another as the program takes them, each by ranks of its own */
    bool failed; /* out of memory */
};

/* Room for one more at (*vector)[*n], zeroed; NULL without memory (then maker->failed is set). Counts it. */
void *maker_push(struct maker *maker, void *vector, int32_t *n, int32_t *cap, size_t size);
void *maker_alloc(struct maker *maker, size_t count, size_t size);

/* True where boards run an instruction for this operator. */
bool maker_runs(const struct graph *graph, const struct op *op);
/* True for a constant. */
bool maker_constant(const struct graph *graph, int32_t tensor);
/* The box of root tensor root[inputs[i]] that a task needs; empty for a constant or when nothing is read. */
struct box maker_need(const struct maker *maker, const struct task *task, int32_t i);

/* cut.c: tasks of one operator, by the strategy; appended in order of parties. */
void cut_op(struct maker *maker, int32_t op);
/* route.c: stores, wants, moves and uploads of the tasks of one operator; then ranks, exchanges, transfers,
 * steps. */
void route_op(struct maker *maker, int32_t op);
/* program.c: ranks, exchanges, the table of transfers, each party's steps and the use of its stores. */
void program_write(struct maker *maker);
/* The last rank of hops up before an operator that has any; more than one pair only where inputs are apart.
 */
int32_t program_last_rank(const struct maker *maker, int32_t op);
/* memory.c: buffers from stores, packed; peak and arena of each party. */
void memory_place(struct maker *maker);
/* partial.c: in place of cut, route, program and memory where the first board runs a schedule. */
void partial_write(struct maker *maker);
/* What the program of the board at [b] takes. */
void partial_seconds(const struct plan *plan, int32_t b, double *computing, double *flash);
/* cost.c: weights' bytes, fragment sizes, times. */
void cost_predict(struct maker *maker);

/* size.c: bytes of the fragment that emit will write, given how many weight slices it has and their
 * weight_bytes: exact, or a little above. */
int64_t size_fragment(struct maker *maker, int32_t party, int32_t n_slices);

/* Bytes of one weight slice for output channels [c0, c1) and `k` input values each, as emit lays it out. */
int64_t cost_slice_bytes(int64_t values, int32_t channels);

/* boxes of a list that are joined while the hull wastes little: afterwards disjoint. Returns the new count.
 */
int32_t cut_join(struct box *boxes, int32_t n, int64_t waste);

#endif
