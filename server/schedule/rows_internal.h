/*
 * What the files about steps by rows share. Not for others.
 *
 * rows.c         which segments are tried, and what one is made of
 * rows_time.c    when each row is made and read for the last time
 * rows_memory.c  what rings, dying inputs and outputs take
 */
#ifndef SHOAL_SERVER_SCHEDULE_ROWS_INTERNAL_H
#define SHOAL_SERVER_SCHEDULE_ROWS_INTERNAL_H

#include "server/schedule/internal.h"

enum { VALUES_MAX = ROW_PLAN_MAX - 1 };

/* A tensor that comes into being during the segment: an operator's output, or an input that arrives by rows.
 */
struct value {
    int32_t tensor, op; /* op: place in the segment, -1: arrives */
    int64_t num, den;   /* ticks a row, before scaling; 0: not known */
    int64_t per, phase;
    int32_t readers; /* in the segment */
    bool kept, read, sums;
    bool overwritten;          /* its one row lies where its only reader's row comes to lie */
    bool passing;              /* its one row is read only in the tick in which it is made */
    int32_t first, last, ring; /* passing: operators between which its memory is taken */
};

struct segment {
    const struct net *net;
    const done_word *done;
    done_word after[SCHEDULE_OPS_MAX / 64 + 1];
    const int32_t *ops;
    int32_t n, again;
    struct value values[VALUES_MAX];
    int32_t n_values;
    bool streamed;
    int32_t arrives; /* the input that comes row by row, -1 */
    int8_t in[NET_LOOP_OPS_MAX][GRAPH_OP_INPUTS_MAX], out[NET_LOOP_OPS_MAX]; /* values, or -1 */
    bool overwrites[NET_LOOP_OPS_MAX]; /* the operator has an input that it writes over */
};

/* NULL: it is there before. */
static inline struct value *in_of(struct segment *s, int32_t k, int32_t i)
{
    return s->in[k][i] < 0 ? NULL : &s->values[s->in[k][i]];
}

static inline struct value *out_of(struct segment *s, int32_t k)
{
    return &s->values[s->out[k]];
}

static inline int64_t made_at(const struct value *value, int32_t row)
{
    return value->phase + value->per * row;
}

/* When row `row` is made among all that operators do: in a tick they run in their order, behind what arrives.
 */
static inline int64_t moment(const struct segment *s, const struct value *value, int32_t row)
{
    return made_at(value, row) * (s->n + 1) + value->op + 1;
}

static inline int64_t row_bytes(const struct net_tensor *tensor)
{
    return (int64_t)tensor->shape.w * tensor->shape.c;
}

/* ---- rows_time.c ---- */

struct held {
    int32_t rows; /* the most at once */
    bool in_tick; /* each is read in the tick in which it is made, or never */
};

/* Ticks a row of every value. False: strides do not agree. */
bool rows_set_rates(struct segment *s);
/* When the first row of every value is made. */
void rows_set_phases(struct segment *s);
/* The last moment at which each row of a tensor is read that is there before, never falling; INT64_MIN where
 * nobody reads. */
void rows_last_moments(struct segment *s, int32_t tensor, int64_t *last);
/* Rows that the ring holds at most, and whether each is read in its own tick or never. */
struct held rows_ring_of(struct segment *s, int32_t v);

/* ---- rows_memory.c ---- */

/* An input of the segment that nobody needs afterwards. */
struct dying {
    int64_t *last; /* of each row: the moment after which it is read no more */
    int64_t row_bytes;
    int32_t h;
    int32_t over; /* the output that is written over it, -1 */
    bool paired;
};

/* Inputs that die in the segment: their whole bytes leave the base, their rows are followed over time in
 * *memory, malloc'ed. Negative without memory. */
int32_t rows_find_dying(struct segment *s, struct dying *dying, int64_t **memory, int64_t *base);
/* Inputs that arrive whole before the first tick. */
int64_t rows_awaited(const struct segment *s);
/* What outputs and dying inputs take: each output grows into the place of one input, the pair that gains most
 * first, since offsets can hold no more. */
int64_t rows_overlap_peak(const struct segment *s, struct dying *dying, int32_t n_dying);
/* Rings, rows that pass, and sums. */
int64_t rows_ring_bytes(struct segment *s);

#endif
