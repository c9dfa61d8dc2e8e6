/*
 * Plans: how a fleet runs a model. Made by plan_make() from a graph, boards and options; immutable; named by
 * the SHA-256 of its canonical JSON. A plan can be written as JSON and read back over the same graph, so that
 * the server after a restart conducts exactly what it pushed.
 */
#ifndef SHOAL_SERVER_PLAN_PLAN_H
#define SHOAL_SERVER_PLAN_PLAN_H

#include "server/conduct/conduct.h"
#include "server/model/graph.h"
#include "shared/nn/layout.h"
#include "server/schedule/form.h"
#include "server/schedule/lower.h"

#include <jansson.h>

enum plan_strategy {
    PLAN_STRATEGY_AUTO,
    PLAN_STRATEGY_NEURON,
    PLAN_STRATEGY_CHANNELS,
    PLAN_STRATEGY_STRIPS,
    PLAN_STRATEGY_SINGLE
};
enum plan_shares { PLAN_SHARES_RATING, PLAN_SHARES_EVEN, PLAN_SHARES_FREQUENCY };
enum plan_form { PLAN_FORM_I8, PLAN_FORM_SUM };
enum plan_objective { PLAN_OBJECTIVE_LATENCY, PLAN_OBJECTIVE_THROUGHPUT };

/* One board as the planner sees it; the fields of the profiles and of FLEET.json. */
struct plan_board {
    char id[40]; /* board id in hex, or "" for a virtual one */
    char name[64];
    double clock_hz;
    double mac_per_cycle[4]; /* conv1x1, depthwise, conv, fully_connected */
    double element_per_cycle;
    double link_bytes_per_s, crypto_bytes_per_s;
    double message_latency_s, extra_message_cpu_s;
    double flash_bytes_per_s, coordinator_link_bytes_per_s;
    int64_t arena_bytes, weight_ram_bytes, flash_bytes;
    int64_t layouts; /* of weights that its kernels take (shared/nn/layout.h): bit n for layout n */
    /* equation 5 (facts/split): bandwidth in KB/s, delay in s/KB, KB of output per million cycles
     * (0: from mac_per_cycle and the graph) */
    double bandwidth_kb_per_s, delay_s_per_kb, k1;
};

struct plan_options {
    enum plan_strategy strategy;
    enum plan_shares shares;
    enum plan_objective objective;
};

/* Part of a tensor that a party holds (have) or is sent (want). */
struct plan_piece {
    uint16_t party;
    enum plan_form form;
    uint32_t rank; /* of its transfer; pieces that do not travel are not listed */
    struct box box;
};

/* What becomes of one tensor between the boards that make it and those that need it. One exchange a tensor:
 * every piece that somebody needs goes up once, at `rank`; what is wanted comes down at the ranks of its
 * readers, all above. A tensor given by the coordinator (a graph input) has no `have`; a graph output is had
 * and need not be wanted. RESHAPEs of a tensor share its exchange: `tensor` is the one that an instruction
 * (or the coordinator) made. */
struct plan_exchange {
    int32_t tensor;
    uint32_t rank; /* of the hop up */
    struct plan_piece *have, *want;
    int32_t n_have, n_want;
};

/* A buffer of a board: a tensor's box, packed h, w, c at a fixed place in the arena, in use from step `first`
 * to step `last` (indices into steps; while a queued send or a posted receive is under way too). Buffers of
 * overlapping use overlap in memory only where an operator works in place: then they are equal boxes at the
 * same offset. */
struct plan_buffer {
    int32_t tensor; /* n_tensors + op: the int32 sums of that operator */
    struct box box;
    uint8_t elem;
    uint32_t offset, bytes;
    int32_t first, last;
};

enum plan_step_kind {
    PLAN_STEP_TASK, /* makes `box` of the operator's output */
    PLAN_STEP_COPY, /* moves `box` from in[0] to out */
    PLAN_STEP_SEND,
    PLAN_STEP_POST,
    PLAN_STEP_WAIT
};

/* One step of a board's program, in order. A step becomes one instruction, or a few (ZERO, SUM, FINISH). */
struct plan_step {
    enum plan_step_kind kind;
    int32_t segment;
    int32_t op;    /* TASK: the operator; else the one that it is for, -1: the graph's end */
    int32_t input; /* TASK of a concatenation: the input that this step copies; else 0 */
    struct box box;
    int32_t in[2];        /* buffers; -1: none, or a constant */
    int32_t out, scratch; /* buffers; -1: none */
    uint32_t transfer;    /* SEND, POST: index in table.transfers */
    uint32_t rank;        /* WAIT */
};

/* Predicted. `waiting` is for other parties, `moving` for one's own transfers. */
struct plan_times {
    double start_ms; /* when computing begins */
    double computing_ms, moving_ms, waiting_ms, flash_ms;
};

/* A step of a schedule of partial execution, for people. */
struct plan_partial {
    struct schedule_form form;
    int32_t *ops, n_ops;        /* of the graph */
    struct plan_partial *inner; /* PATCHES: how a patch is made; these have none */
    int32_t n_inner;
};

/* One board's part. Where it has a program it runs that instead of `steps`: then these tell only what is
 * received, computed and sent, in order, without buffers. */
struct plan_party {
    int64_t share; /* of the whole, in parts of PLAN_SHARE_WHOLE */
    double rating_kb_per_s;
    struct plan_buffer *buffers;
    int32_t n_buffers;
    struct plan_step *steps;
    int32_t n_steps;
    int64_t peak_bytes, arena_bytes, scratch_bytes;
    int32_t peak_step;       /* at which peak_bytes are in use */
    uint8_t *resident;       /* of each operator: its weights are kept in RAM */
    int64_t weight_bytes;    /* of its weight slices, each kernel counted once */
    int64_t fragment_bytes;  /* an upper bound; the size of the image once emitted */
    int64_t resident_bytes;  /* of the weights that are kept in weight_ram_bytes */
    struct plan_times times; /* sums over segments */
    int64_t bytes_sent, bytes_received;
    bool used;               /* has work, and thus a fragment */
    struct lowered *program; /* NULL: none */
    struct plan_partial *partial;
    int32_t n_partial;
};
enum { PLAN_SHARE_WHOLE = 1000000 };

/* A segment: operators between two exchanges; the unit of times and of shortfalls. */
struct plan_segment {
    int32_t first_op, last_op; /* in the graph; operators that cost nothing may lie between */
    struct plan_times *times;  /* of party p at [p - 1] */
};

struct plan {
    struct arena *arena;       /* owner of everything but the graph */
    const struct graph *graph; /* borrowed: outlives the plan */
    char version[65];          /* hex SHA-256 of the model file, "" unknown */
    char hash[65];             /* of the canonical JSON */
    struct plan_options options;
    struct plan_board *boards; /* of party p at [p - 1] */
    struct plan_party *parties;
    int32_t n_boards;
    struct plan_segment *segments;
    int32_t n_segments;
    struct plan_exchange *exchanges;
    int32_t n_exchanges;
    struct conduct_table table; /* fragments' hashes are set by emit_plan() */
    double latency_ms, computing_ms, moving_ms, waiting_ms, flash_ms, throughput_per_s;
    int64_t coordinator_bytes, bytes_moved; /* sent and received, summed over boards */
    int32_t rounds;                         /* exchanges with at least one transfer */
};

/* Plans. `shortfalls` (may be NULL) gets up to *n_shortfalls of what does not fit, one a board, when the
 * answer is STATUS_DOES_NOT_FIT; *n_shortfalls is set to how many. NULL on error. */
struct plan *plan_make(const struct graph *graph, const char *version, const struct plan_board *boards,
                       int32_t n_boards, const struct plan_options *options,
                       struct error_shortfall *shortfalls, int32_t *n_shortfalls, struct error *error);
/* One board runs a schedule of partial execution, whether it fits the board or not. `schedule` and `options`
 * are those of schedule_make over the same graph. NULL on error, also STATUS_MODEL_UNSUPPORTED. */
struct plan *plan_scheduled(const struct graph *graph, const char *version, const struct plan_board *board,
                            const struct schedule *schedule, const struct schedule_options *options,
                            struct error *error);
void plan_free(struct plan *plan);
/* False when the boards' flash is less than the network's weights: then there is no plan, and this says so at
 * once. */
bool plan_has_flash(const struct graph *graph, const struct plan_board *boards, int32_t n_boards,
                    const struct plan_options *options);

/* JSON of a plan (whole: enough for plan_from_json), and a short form for people and the API (`shoal plan
 * --json`). */
json_t *plan_to_json(const struct plan *plan);
json_t *plan_summary_json(const struct plan *plan);
struct plan *plan_from_json(const struct graph *graph, json_t *json, struct error *error);
/* Gives party `party` (from 1) of a whole plan's JSON another board and names the plan anew; all else, so
 * also the fragments, stays. A board that is another party of the plan changes places with the former one.
 * What is predicted remains that of the former board. 0 or STATUS_NO_MEMORY. */
int plan_json_set_board(json_t *plan, int32_t party, const struct plan_board *board);

/* The coordinator's ends of one inference. begin runs the graph's head over the raw graph inputs and gives
 * inputs[e] for conduct_begin (pointers into the object; NULL where exchange e is no input). end takes the
 * assembled tensors by exchange (conduct_result.outputs), runs the graph's tail and writes the raw graph
 * outputs. */
struct plan_io {
    const struct plan *plan;
    void **tensors; /* as reference_run_place has them */
    const int8_t **inputs;
};
struct plan_io *plan_io_begin(const struct plan *plan, const void *input, size_t input_bytes,
                              struct error *error);
int plan_io_end(struct plan_io *io, const int8_t *const *outputs, void *output, size_t output_bytes,
                struct error *error);
void plan_io_free(struct plan_io *io); /* NULL is allowed */

/* Weight slices of a party: one for each operator and group of which it makes anything. Calls `visit` for
 * each with the hull of the output channels that it makes; k0, k1 are the input channels of the group. */
struct plan_slice {
    int32_t op, c0, c1, k0, k1;
    int64_t values;      /* bytes of the weights alone */
    int64_t total_bytes; /* with multipliers and biases */
};
int32_t plan_slices(const struct plan *plan, int32_t party, struct plan_slice *out,
                    int32_t max); /* how many */

/* The layout of an operator's weights on a board that takes `layouts`, and the bytes of scratch for making
 * `box`, at most `limit` but for what its kernel cannot do without; 0: none. */
enum nn_layout plan_layout(const struct graph *graph, const struct op *op, int64_t layouts);
int32_t plan_scratch(const struct graph *graph, const struct op *op, enum nn_layout layout, struct box box,
                     int32_t limit);

/* Boards: the built-in profiles, N copies of one, FLEET.json (array or one object). Unknown keys are refused.
 */
const struct plan_board *
plan_profile(const char *name); /* "teensy41-good", "teensy41-cautious"; NULL unknown */
int plan_boards_from_json(json_t *json, struct plan_board **boards, int32_t *n,
                          struct error *error); /* malloc */
json_t *plan_board_json(const struct plan_board *board);
/* For the scheduler: the name of a built-in profile, or one board's object. */
int plan_schedule_board(json_t *json, struct schedule_board *board, struct error *error);

/* Equation 5: KB/s from clock (MHz), K_1, delay (s/KB), bandwidth (KB/s), K_c. */
double plan_rating(double clock_mhz, double k1, double delay_s_per_kb, double bandwidth_kb_per_s, double kc);
/* Exact integer water-filling (facts/split 4): shares of `total` in proportion to rating, capped. Returns 0,
 * or STATUS_DOES_NOT_FIT when the caps' sum is below total. n <= 64. */
int plan_waterfill(int64_t total, const double *rating, const int64_t *cap, int32_t n, int64_t *share);

const char *plan_strategy_name(enum plan_strategy strategy);
const char *plan_shares_name(enum plan_shares shares);
int plan_strategy_from_name(const char *name, enum plan_strategy *strategy); /* STATUS_INVALID_ARGUMENT */
int plan_shares_from_name(const char *name, enum plan_shares *shares);

#endif
