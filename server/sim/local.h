/*
 * A plan run in this process: virtual boards made of the firmware's core, and the conductor, on one thread.
 * What it runs are the emitted fragments over the same frames as a real fleet; only TLS and the network are
 * missing.
 *
 * Each board's arena and resident RAM are exactly as large as its fragment states, between painted guards.
 */
#ifndef SHOAL_SERVER_SIM_LOCAL_H
#define SHOAL_SERVER_SIM_LOCAL_H

#include "server/emit/emit.h"

/* What one inference took. Times are of this machine: all boards share one thread, so only their shares say
 * something about boards. */
struct sim_local_result {
    double latency_ms;    /* from RUN to the last answer, without the graph's ends */
    uint64_t bytes_moved; /* DATA payload, sent and received, summed over boards */
    int32_t n_parties;
    struct sim_local_party {
        bool used;
        uint64_t computing_us, waiting_us, moving_us;
        uint64_t bytes_sent, bytes_received; /* by the board */
        uint32_t arena_bytes, arena_high_water;
        struct conduct_times times[216]; /* per layer */
        uint32_t n_times;
    } party[CONDUCT_PARTIES_MAX]; /* of party p at [p - 1] */
};

struct sim_local;

/* Boards with their fragments stored and checked. `plan` and `fragments` outlive it. NULL on error:
 * STATUS_NO_MEMORY, STATUS_INVALID_ARGUMENT (the table cannot be conducted), or what a board answered. */
struct sim_local *sim_local_open(const struct plan *plan, const struct emit_fragment *fragments,
                                 struct error *error);
/* One inference: raw graph inputs to raw graph outputs. `result` may be NULL. STATUS_INPUT_SIZE; what a board
 * answered; STATUS_DEADLINE when nothing can move any more; STATUS_INTERNAL when a guard was painted over. */
int sim_local_infer(struct sim_local *sim, const void *input, size_t input_bytes, void *output,
                    size_t output_bytes, struct sim_local_result *result, struct error *error);
void sim_local_close(struct sim_local *sim); /* NULL is allowed */

/* All three at once. */
int sim_local_run(const struct plan *plan, const struct emit_fragment *fragments, const void *input,
                  size_t input_bytes, void *output, size_t output_bytes, struct sim_local_result *result,
                  struct error *error);

#endif
