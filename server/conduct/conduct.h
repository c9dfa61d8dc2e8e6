/*
 * The conductor: the coordinator's logic without sockets, threads or clock. Events in, actions out. The live
 * server, `shoal run`, the simulator and the property tests drive this same code.
 *
 * Links are boards, numbered by the owner 0..CONDUCT_LINKS_MAX-1. An inference maps the parties 1..n of its
 * table to links. Inference numbers rise; on every link DATA goes by (inference, rank, transfer). Frames to
 * boards are pulled: the owner asks conduct_next_frame() whenever a link can take one, so nothing is copied
 * or queued twice.
 *
 * Coordinator memory: conduct_table_bytes() per inference, reserved at conduct_begin(); the owner admits.
 */
#ifndef SHOAL_SERVER_CONDUCT_CONDUCT_H
#define SHOAL_SERVER_CONDUCT_CONDUCT_H

#include "server/base/error.h"
#include "server/model/box.h"
#include "shared/fragment/fragment.h"
#include "shared/wire/wire.h"

enum { CONDUCT_LINKS_MAX = 1024, CONDUCT_PARTIES_MAX = 64 };

/* One transfer of the plan, the same row as in the fragments; one end is party 0 on a star. */
struct conduct_transfer {
    uint16_t id, exchange; /* id counts per link */
    uint32_t rank;
    uint16_t from, to;
    uint8_t wire; /* enum fragment_wire */
    struct box box;
};

/* One exchange: the tensor that party 0 assembles. */
struct conduct_exchange {
    int32_t tensor; /* in the graph */
    struct shape shape;
    bool is_input;  /* given at the start: one of `inputs` */
    bool is_output; /* complete: one of `outputs` */
};

/* The table that fragment, conductor and simulator share; owned by the plan, immutable, may be shared by
 * threads. A party whose fragment hash is all zero is not used: it gets no RUN and has no transfers. */
struct conduct_table {
    uint16_t parties;                   /* boards: parties 1..parties */
    struct conduct_transfer *transfers; /* sorted by rank, then from, to, id */
    uint32_t n_transfers;
    struct conduct_exchange *exchanges;
    uint32_t n_exchanges;
    uint8_t (
        *fragments)[WIRE_HASH_BYTES]; /* of party p at [p - 1]; all zero: it has no work and gets no RUN */
    double predicted_ms;              /* deadlines are 4 times this, at least 1 s */
};

/* Times of one board for one segment, from DONE. Microseconds. */
struct conduct_times {
    uint16_t layer;    /* first operator of the segment in the graph */
    uint32_t start_us; /* since the board's RUN began */
    uint32_t computing_us, waiting_us, moving_us;
};

/* What became of an inference; pointers are valid until conduct_release(). */
struct conduct_result {
    uint32_t inference;
    int status;         /* 0, or why it failed */
    uint16_t party;     /* the board that failed or was lost, 0: none */
    const char *reason; /* for people */
    const int8_t *const
        *outputs; /* per exchange: the assembled tensor, packed h, w, c; NULL where not an output */
    uint64_t begun_us, ended_us;
    uint64_t bytes_sent, bytes_received;
    struct {
        const struct conduct_times *times;
        uint32_t n_times;
        uint32_t arena_high_water, stack_high_water;
        uint32_t computing_us, waiting_us, moving_us;
        uint64_t bytes_sent, bytes_received;
    } party_times[CONDUCT_PARTIES_MAX + 1]; /* [1..parties] */
};

struct conductor;

/* NULL without memory. */
struct conductor *conductor_new(void);
void conductor_free(struct conductor *conductor);

/* Coordinator memory that one inference over the table may take. */
size_t conduct_table_bytes(const struct conduct_table *table);
/* Whether a table can be conducted: indices, order, ids unique per link and direction, boxes inside their
 * tensors, only int8 (sums, with the finish they need at party 0, are reserved and refused), and what is sent
 * down or is an output is covered by what comes up. STATUS_INVALID_ARGUMENT with the transfer in the message.
 * Call it once per plan. */
int conduct_table_check(const struct conduct_table *table, struct error *error);

/* Begins an inference. `links[p - 1]` is party p's link, all of them up (ignored for unused parties).
 * inputs[e] is the tensor of exchange e where is_input (packed int8, copied). `table` has passed
 * conduct_table_check and outlives the inference. Ids rise and are not 0. Returns 0, STATUS_INVALID_ARGUMENT
 * (ids, a link used twice or out of range, an input missing), STATUS_NO_MEMORY. */
int conduct_begin(struct conductor *conductor, uint32_t inference, const struct conduct_table *table,
                  const uint16_t *links, const int8_t *const *inputs, uint64_t deployment,
                  uint32_t generation, uint64_t now_us);

/* Events. A frame from a board: DATA, DONE, FAILED, ABORTED (others are not for the conductor). A negative
 * status means that the peer broke the protocol and its link must be dropped (the owner then reports it as
 * lost). */
int conduct_frame(struct conductor *conductor, uint16_t link, const struct wire_header *header,
                  const uint8_t *payload, uint64_t now_us);
void conduct_link_lost(struct conductor *conductor, uint16_t link, uint64_t now_us);
void conduct_time(struct conductor *conductor, uint64_t now_us); /* deadlines */
void conduct_abort(struct conductor *conductor, uint32_t inference, int status, const char *reason,
                   uint64_t now_us);

/* Actions. The next frame for a link: fills header and payload, returns payload bytes >= 0, or -1: nothing
 * now. Each returned frame counts as sent. */
int conduct_next_frame(struct conductor *conductor, uint16_t link, struct wire_header *header,
                       uint8_t payload[WIRE_PAYLOAD_MAX]);
bool conduct_has_frame(const struct conductor *conductor, uint16_t link);
/* Finished or failed inferences, each once, oldest first; NULL: none. Call conduct_release when done with it.
 * An inference that failed is reported at once; its late frames are swallowed and its boards told to ABORT.
 */
const struct conduct_result *conduct_finished(struct conductor *conductor);
void conduct_release(struct conductor *conductor, const struct conduct_result *result);
/* Links to be dropped since their board did not answer an ABORT in time: each once, with true; false: none.
 * The owner drops the link and then reports it as lost. */
bool conduct_next_drop(struct conductor *conductor, uint16_t *link);
/* Microseconds until the next deadline, UINT64_MAX: none. Every wait of an inference (from when it is first
 * on all its links, and from its last frame) may take 4 times the predicted latency, at least 1 s. */
uint64_t conduct_next_deadline(const struct conductor *conductor, uint64_t now_us);
/* Inferences that use the link, aborted ones that it has not answered yet included. */
uint32_t conduct_active(const struct conductor *conductor, uint16_t link);

#endif
