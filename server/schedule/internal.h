/*
 * What the scheduler's files share. net: the part of the graph that boards run, reduced to what the search
 * asks; memory of a set of operators done: net_live; one candidate step: struct move. Not for other modules.
 */
#ifndef SHOAL_SERVER_SCHEDULE_INTERNAL_H
#define SHOAL_SERVER_SCHEDULE_INTERNAL_H

#include "server/schedule/schedule.h"

#include "server/model/optable.h"

enum { NET_LOOP_OPS_MAX = 32 };

struct net_tensor {
    int64_t bytes;
    struct shape shape;
    int32_t storage;  /* the tensor whose memory it is: itself, or through views the first one */
    bool alone;       /* no other tensor lies in its storage */
    bool joined;      /* it is made within the output of a concatenation, its storage */
    int32_t at;       /* joined: element of the storage at which it begins */
    bool outside;     /* in a patch: its output, which is written where it stays; only its sums count */
    int32_t producer; /* op of the net; -1: there from the start */
    int32_t *readers; /* ops of the net, each once */
    int32_t n_readers;
    bool input, output, used;
};

/* What lines (rows or columns) of an input a line of the output needs; see areas.h. */
struct area_step {
    bool known; /* false: no such function */
    bool window;
    int32_t stride, before, reach; /* window */
    int32_t factor, shift;         /* else: line r needs line floor(r / factor) + shift, or nothing */
};

struct net_op {
    int32_t graph_op;
    int32_t in[GRAPH_OP_INPUTS_MAX];  /* tensors, each once, no constants */
    bool sliced[GRAPH_OP_INPUTS_MAX]; /* a part of the output's channels needs only that part of this input's
                                       */
    int32_t n_in, out;
    enum op_class class;
    bool apart[GRAPH_OP_INPUTS_MAX]; /* in a patch: the input has another area than the output */
    bool channels;                   /* channel-wise and may be cut over channels */
    bool inplace, view;
    bool tall, stays; /* tall_turns, tall_stays; only in a tall net */
    bool rows;        /* may be cut over rows */
    bool row_sums;    /* reads the input row by row into sums that are its whole output: a global pool */
    int64_t macs;
    struct area_step *steps[2]; /* along rows and along columns, of each input of the graph's operator; NULL
                                   where it is not cut over both */
    /* cost_prepare: */
    double seconds;     /* of the whole output, once, without executions and reading */
    int64_t read_bytes; /* weights with multipliers and biases, or a table */
    int32_t calls;      /* instructions of one execution */
    bool table;
    int32_t *need0[GRAPH_OP_INPUTS_MAX],
        *need1[GRAPH_OP_INPUTS_MAX]; /* rows: of output row r, input rows [need0, need1) */
    int32_t *corners[GRAPH_OP_INPUTS_MAX], n_corners[GRAPH_OP_INPUTS_MAX]; /* rows between which need0 and
                                                             need1 rise evenly and need1 is above need0 */
};

typedef uint64_t done_word;

/* The last answer of net_live: a state's moves all ask for the same. */
struct net_memory {
    bool known, streamed;
    done_word done[SCHEDULE_OPS_MAX / 64 + 1];
    int64_t bytes;
};

/* Tensors are numbered as in the graph, operators in the order of the graph without those of the coordinator.
 */
struct net {
    const struct graph *graph; /* in a tall net that of tall_graph */
    struct net_op *ops;
    int32_t n_ops;
    struct net_tensor *tensors;
    int32_t n_tensors;
    int32_t *used; /* tensors that the net reads or writes */
    int32_t n_used;
    struct arena *arena; /* also of what moves point at */
    struct net_memory *memory;
    struct memo *memo; /* of the question, shared by its nets; outlives what moves point at */
    const struct schedule_board *board;
    double element_s; /* seconds an element */
    bool patch;       /* shapes are of the areas that a patch has, rows are counted from an area's first */
};

/* Sets corners[i] from need0[i] and need1[i] over `h` rows; false without memory. */
bool net_corners(struct net *net, struct net_op *op, int32_t i, int32_t h);
/* `tall`: of the graph as tall_graph has it. NULL without memory. */
struct net *schedule_net(const struct graph *graph, bool tall);
void schedule_net_free(struct net *net);

static inline bool done_has(const done_word *done, int32_t op)
{
    return done[op / 64] >> (op % 64) & 1;
}
static inline void done_add(done_word *done, int32_t op)
{
    done[op / 64] |= (done_word)1 << (op % 64);
}
static inline int32_t done_words(const struct net *net)
{
    return net->n_ops / 64 + 1;
}

/* The tensor is there and somebody still needs it. `streamed`: an input that nobody has read has not arrived.
 */
bool net_is_live(const struct net *net, const done_word *done, int32_t tensor, bool streamed);
/* It is an input that is streamed and has not arrived. */
bool net_awaited(const struct net *net, const done_word *done, int32_t tensor, bool streamed);
bool net_available(const struct net *net, const done_word *done, int32_t tensor);
bool net_ready(const struct net *net, const done_word *done, int32_t op);
/* Whether the concatenation may be free: its inputs are made where it would copy them to. */
bool net_may_join(const struct net *net, int32_t op);
void net_join(struct net *net, int32_t op);
/* What the tensor takes beside what is live when it comes into being. */
int64_t net_new_bytes(const struct net *net, const done_word *done, int32_t tensor);
/* Bytes of all live tensors, each storage once. */
int64_t net_live(const struct net *net, const done_word *done, bool streamed);
/* After `after` is done nobody needs the memory of the tensor any more. */
bool net_dies(const struct net *net, const done_word *after, int32_t tensor);

enum { NET_TOUCHED_MAX = NET_LOOP_OPS_MAX * (GRAPH_OP_INPUTS_MAX + 1) };
/* Tensors that the operators read or make by which `after` is more than `done`, at most NET_LOOP_OPS_MAX:
 * rising, each once, at most NET_TOUCHED_MAX. Returns how many. */
int32_t net_touched(const struct net *net, const done_word *done, const done_word *after, int32_t *tensors);
/* The net's operator that is `graph_op` of the graph, in a net in the graph's order; n_ops: none. */
int32_t net_op_of(const struct net *net, int32_t graph_op);

/* A candidate step from a state: the operators it does, and what it takes. */
struct move {
    enum schedule_mode mode;
    int32_t ops[NET_LOOP_OPS_MAX];
    int32_t n_ops, again; /* `again`: ops[0..again) are computed but stay to be done */
    int64_t fixed_bytes;  /* everything but `part_bytes` */
    int64_t part_bytes;   /* CHANNELS: for each channel an iteration */
    int32_t iterations;   /* CHANNELS: with one channel each */
    bool ringed; /* CHANNELS: parts are rings of rows: the operators run row by row in each iteration */
    int64_t extra_macs;
    /* PATCHES: */
    int32_t tile_h, tile_w;
    int64_t tiles, held_bytes; /* held_bytes: what lies outside the patch */
    int32_t way, way_whole;    /* of the memo; way_whole: without rows inside */
    const struct move *inner;  /* how a patch is made; ops are places in this move's ops; NULL: a guess,
                                  fixed_bytes is the least that it can take */
    int32_t n_inner;
    int32_t *heights; /* of each operator: the rows of its area */
    double *share;    /* of each operator: what all patches make of its output, to what is there */
};
static inline bool move_is_guess(const struct move *move)
{
    return move->mode == SCHEDULE_PATCHES && !move->inner;
}
static inline int64_t move_peak(const struct move *move)
{
    return move->fixed_bytes + move->part_bytes;
}

/* What a search may still try, so that its time is bounded by what it does and not by a clock. */
struct work {
    int64_t loops;    /* orders of loops over channels */
    int64_t rows;     /* rows of tensors of planned segments; below 0 fewer segments are planned */
    int64_t branches; /* the same of segments that are not the first that remain */
    int64_t patches;  /* grids */
};

typedef void move_sink(void *context, const struct move *move);

/* All loops over channels that may run next: sets of operators joined by partial tensors. Stops after `limit`
 * and then returns false. */
bool loops_each(const struct net *net, const done_word *done, const struct schedule_options *options,
                int32_t limit, struct work *work, move_sink *sink, void *context);
/* One operator, whole. */
void loops_full(const struct net *net, const done_word *done, const struct schedule_options *options,
                int32_t op, struct move *move);

/* ---- order.c ---- */

/* An order of the net's operators with little memory when they run whole; false without memory. */
bool order_find(const struct net *net, int32_t *order);
/* Depth first from the outputs, inputs as the operators name them: the same for a graph in any order of its
 * file, and branches follow one another. False without memory. */
bool order_depth_first(const struct net *net, int32_t *order);
/* What is farthest from the end comes first, so that branches go side by side. False without memory. */
bool order_side_by_side(const struct net *net, int32_t *order);
/* Numbers the operators anew: order[i] becomes i. */
bool order_apply(struct net *net, const int32_t *order);

/* ---- rows.c ---- */

enum { ROW_PLAN_MAX = 2 * NET_LOOP_OPS_MAX };

/* A segment of `n` operators (in an order in which they can run, at most NET_LOOP_OPS_MAX) row by row: each
 * intermediate holds a ring, rows of inputs that die are freed, outputs grow into that space. The first
 * `again` of them keep nothing. rows_plan also fills `plan`, ROW_PLAN_MAX entries, the first with tensor -1
 * behind the last. False: a rule forbids it. */
bool rows_plan(const struct net *net, const done_word *done, const struct schedule_options *options,
               const int32_t *ops, int32_t n, int32_t again, struct move *move, struct row_plan *plan);
bool rows_move(const struct net *net, const done_word *done, const struct schedule_options *options,
               const int32_t *ops, int32_t n, int32_t again, struct move *move);
/* A loop over channels whose iterations go row by row: when each output gets its rows, and how many are held
 * where a part of it is all there is. *bytes: what these take for all channels. plan: as of rows_plan, may be
 * NULL. False: a rule forbids it. */
bool rows_rings(const struct net *net, const done_word *done, const int32_t *ops, int32_t n, int64_t *bytes,
                struct row_plan *plan);
/* All segments of the first operators that remain. */
void rows_each(const struct net *net, const done_word *done, const struct schedule_options *options,
               struct work *work, move_sink *sink, void *context);
/* Segments that grow from each operator that may run (`ordered`: from the first that remains), by the reader
 * that lacks least; without those of rows_each. */
void rows_each_branch(const struct net *net, const done_word *done, const struct schedule_options *options,
                      bool ordered, struct work *work, move_sink *sink, void *context);
/* For each global sum that remains: what it needs, run only for it, and once more later. */
void rows_each_again(const struct net *net, const done_word *done, const struct schedule_options *options,
                     struct work *work, move_sink *sink, void *context);

/* ---- patches.c ---- */

/* Segments of the first operators that remain, patch by patch, of at most `bound` bytes and `budget` extra
 * MACs; guesses. */
void patches_each(const struct net *net, const done_word *done, const struct schedule_options *options,
                  int64_t bound, int64_t budget, struct work *work, move_sink *sink, void *context);
/* Finds how a guess's patches are made, and what that takes; false: not at all, or no memory. */
bool patches_resolve(const struct net *net, const struct schedule_options *options, struct move *move);

#endif
