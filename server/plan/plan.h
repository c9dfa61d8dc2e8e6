/*
 * Plans: how a fleet runs a model. Made by plan_make() from a graph, boards and options; immutable; named by the
 * SHA-256 of its canonical JSON. A plan can be written as JSON and read back over the same graph, so that the server
 * after a restart conducts exactly what it pushed.
 */
#ifndef SHOAL_SERVER_PLAN_PLAN_H
#define SHOAL_SERVER_PLAN_PLAN_H

#include "server/conduct/conduct.h"
#include "server/model/graph.h"

#include <jansson.h>

enum plan_strategy { PLAN_STRATEGY_AUTO, PLAN_STRATEGY_NEURON, PLAN_STRATEGY_CHANNELS, PLAN_STRATEGY_STRIPS, PLAN_STRATEGY_SINGLE };
enum plan_shares { PLAN_SHARES_RATING, PLAN_SHARES_EVEN, PLAN_SHARES_FREQUENCY };
enum plan_form { PLAN_FORM_I8, PLAN_FORM_SUM };
enum plan_objective { PLAN_OBJECTIVE_LATENCY, PLAN_OBJECTIVE_THROUGHPUT };

/* One board as the planner sees it; the fields of the profiles and of FLEET.json. */
struct plan_board {
    char id[40];              /* board id in hex, or "" for a virtual one */
    char name[64];
    double clock_hz;
    double mac_per_cycle[4];  /* conv1x1, depthwise, conv, fully_connected */
    double element_per_cycle;
    double link_bytes_per_s, crypto_bytes_per_s;
    double message_latency_s, extra_message_cpu_s;
    double flash_bytes_per_s, coordinator_link_bytes_per_s;
    int64_t arena_bytes, weight_ram_bytes, flash_bytes;
    /* equation 5 (facts/split): bandwidth in KB/s, delay in s/KB, KB of output per million cycles */
    double bandwidth_kb_per_s, delay_s_per_kb, k1;
};

struct plan_options {
    enum plan_strategy strategy;
    enum plan_shares shares;
    enum plan_objective objective;
};

/* One instruction-to-be: party makes `box` of the operator's output. */
struct plan_task {
    int32_t op;
    uint16_t party;
    struct box box;
};

/* Part of a tensor that a party holds or wants. */
struct plan_piece {
    uint16_t party;
    enum plan_form form;
    struct box box;
};

struct plan_exchange {
    int32_t tensor;
    uint32_t rank;            /* of the hop up; the hop down is rank + 1 */
    struct plan_piece *have, *want;
    int32_t n_have, n_want;
};

/* A buffer of a board: a tensor's box at a fixed place in the arena while steps [first, last] of the board run. */
struct plan_buffer {
    int32_t tensor;
    struct box box;
    uint8_t elem;
    uint32_t offset, bytes;
    int32_t first, last;
};

/* One board's part. */
struct plan_party {
    int64_t share;            /* of the whole, in parts of PLAN_SHARE_WHOLE */
    double rating_kb_per_s;
    struct plan_buffer *buffers;
    int32_t n_buffers;
    int64_t peak_bytes, arena_bytes, scratch_bytes, weight_bytes, fragment_bytes;
    double computing_ms, moving_ms, waiting_ms, flash_ms;
    int64_t bytes_sent, bytes_received;
    bool used;
};
enum { PLAN_SHARE_WHOLE = 1000000 };

/* A segment: operators between two exchanges; the unit of times and of shortfalls. */
struct plan_segment {
    int32_t first_task, n_tasks; /* tasks are sorted by segment, then party, then operator order */
    int32_t exchange;            /* that precedes it, -1: none */
    double computing_ms, moving_ms;
};

struct plan {
    struct arena *arena;          /* owner of everything but the graph */
    const struct graph *graph;    /* borrowed: outlives the plan */
    char version[65];             /* hex SHA-256 of the model file, "" unknown */
    char hash[65];                /* of the canonical JSON */
    struct plan_options options;
    struct plan_board *boards;    /* of party p at [p - 1] */
    struct plan_party *parties;
    int32_t n_boards;
    struct plan_task *tasks;
    int32_t n_tasks;
    struct plan_segment *segments;
    int32_t n_segments;
    struct plan_exchange *exchanges;
    int32_t n_exchanges;
    struct conduct_table table;   /* fragments' hashes are set by emit_plan() */
    double latency_ms, computing_ms, moving_ms, waiting_ms, flash_ms, throughput_per_s;
    int64_t coordinator_bytes, bytes_moved;
    int32_t rounds;
};

/* Plans. `shortfalls` (may be NULL) gets up to *n_shortfalls of what does not fit, one a board, when the answer is
 * STATUS_DOES_NOT_FIT; *n_shortfalls is set to how many. NULL on error. */
struct plan *plan_make(const struct graph *graph, const char *version, const struct plan_board *boards, int32_t n_boards,
                       const struct plan_options *options, struct error_shortfall *shortfalls, int32_t *n_shortfalls,
                       struct error *error);
void plan_free(struct plan *plan);

/* JSON of a plan (whole: enough for plan_from_json), and a short form for people and the API (`shoal plan --json`). */
json_t *plan_to_json(const struct plan *plan);
json_t *plan_summary_json(const struct plan *plan);
struct plan *plan_from_json(const struct graph *graph, json_t *json, struct error *error);

/* Boards: the built-in profiles, N copies of one, FLEET.json (array or one object). Unknown keys are refused. */
const struct plan_board *plan_profile(const char *name); /* "teensy41-good", "teensy41-cautious"; NULL unknown */
int plan_boards_from_json(json_t *json, struct plan_board **boards, int32_t *n, struct error *error); /* malloc */
json_t *plan_board_json(const struct plan_board *board);

/* Equation 5: KB/s from clock (MHz), K_1, delay (s/KB), bandwidth (KB/s), K_c. */
double plan_rating(double clock_mhz, double k1, double delay_s_per_kb, double bandwidth_kb_per_s, double kc);
/* Exact integer water-filling (facts/split 4): shares of `total` in proportion to rating, capped. Returns 0, or
 * STATUS_DOES_NOT_FIT when the caps' sum is below total. n <= 64. */
int plan_waterfill(int64_t total, const double *rating, const int64_t *cap, int32_t n, int64_t *share);

const char *plan_strategy_name(enum plan_strategy strategy);
const char *plan_shares_name(enum plan_shares shares);
int plan_strategy_from_name(const char *name, enum plan_strategy *strategy); /* STATUS_INVALID_ARGUMENT */
int plan_shares_from_name(const char *name, enum plan_shares *shares);

#endif
