/*
 * What the conductor's own files share; private to server/conduct.
 *
 * An inference has one buffer per exchange, one record per transfer and per party. A presence is an
 * inference's place in the queue of one link: it lives from conduct_begin until the board has answered the
 * RUN (DONE, FAILED, ABORTED), the link is lost, or the inference ends before its RUN was sent. It outlives a
 * failed inference.
 */
#ifndef SHOAL_SERVER_CONDUCT_STATE_H
#define SHOAL_SERVER_CONDUCT_STATE_H

#include "server/conduct/conduct.h"

enum {
    CONDUCT_RUNS_MAX = 2, /* unanswered RUNs on a link: a board keeps one waiting */
    CONDUCT_BUDGET_US = 1000000,
    CONDUCT_ANSWER_US =
        WIRE_STALE_MS * 1000, /* at least so long for the answer to an ABORT: slow is not lost */
    CONDUCT_REASON_BYTES = 320
};

/* A table's transfers by party and by exchange; indices into table->transfers. */
struct conduct_index {
    uint32_t *down, *down_first; /* of party p: [down_first[p], down_first[p + 1]), in order of (rank, id) */
    uint32_t *up, *up_first;     /* of party p, in order of id */
    uint32_t *into, *into_first; /* that come up into exchange e */
    uint32_t *readers;           /* of exchange e: transfers down */
};

struct inference;

struct presence {
    struct presence *next;
    struct inference *inference; /* NULL: it ended, the board's answer is still due */
    uint32_t id;
    uint16_t party;
    bool sent; /* RUN */
    bool abort_due;
    uint64_t answer_by_us; /* to the ABORT */
    uint64_t budget_us;
};

struct party_state {
    struct presence *presence; /* NULL: unused, or answered */
    uint16_t link;
    uint32_t down_at; /* next of index.down */
    uint32_t ups_missing;
};

struct exchange_state {
    int8_t *data; /* NULL: nothing arrived yet, or given back */
    uint32_t ups_missing;
    uint32_t readers_left;
    uint32_t version; /* counts transfers that came up whole */
};

struct transfer_state {
    uint32_t at, bytes; /* payload bytes that are done, of all */
    uint32_t checked;   /* down: the exchange's version + 1 when last found not ready */
    bool ready;
};

struct inference {
    struct inference *next;
    uint32_t id;
    const struct conduct_table *table;
    struct conduct_index index;
    uint64_t deployment;
    uint32_t generation;
    uint64_t progress_us; /* last frame, or when it became first on all its links; 0: it is not yet */
    uint64_t budget_us;
    uint32_t answers_missing;
    struct party_state *parties; /* [1..table->parties] */
    struct exchange_state *exchanges;
    struct transfer_state *transfers;
    const int8_t **outputs;
    struct conduct_times *times[CONDUCT_PARTIES_MAX + 1];
    struct conduct_result result;
    char reason[CONDUCT_REASON_BYTES];
};

struct link_state {
    struct presence *first, *last;
    uint32_t n;
    uint32_t runs; /* presences with `sent` */
    bool drop_due, drop_told;
};

struct conductor {
    struct link_state links[CONDUCT_LINKS_MAX];
    struct inference *active, *active_last;
    struct inference *ended, *ended_last; /* not yet given out */
    uint32_t last_id;
    uint64_t now_us;       /* of the last event */
    bool drop_due;         /* some link has */
    struct wire_done done; /* room for decoding */
};

/* index.c */
int conduct_index_make(struct conduct_index *index, const struct conduct_table *table);
void conduct_index_free(struct conduct_index *index);
bool conduct_party_used(const struct conduct_table *table, uint16_t party);
/* Moves n bytes at position `at` of a box's packed stream (h, w, c) to or from a packed tensor. */
void conduct_box_put(int8_t *tensor, struct shape shape, struct box box, uint32_t at, const uint8_t *in,
                     uint32_t n);
void conduct_box_get(const int8_t *tensor, struct shape shape, struct box box, uint32_t at, uint8_t *out,
                     uint32_t n);

/* inference.c */
struct inference *inference_new(const struct conduct_table *table);
void inference_free(struct inference *inference);
/* The tensor of an exchange, made when it is needed; NULL without memory. */
int8_t *inference_tensor(struct inference *inference, uint32_t exchange);
void inference_drop_reader(struct inference *inference, uint32_t exchange);

#endif
