/*
 * Lowering: from a schedule to one board's program, with a place in the arena for everything. A program is a
 * fragment's ranges, views and instructions before they meet weights and transfers: server/emit adds those.
 *
 * Every coordinate is the whole tensor's. A buffer is memory for one tensor, a ring of its rows, some of its
 * channels, a tile, sums, or scratch; buffers that share memory on purpose (an operator in place, sums that
 * shrink) are of one group at fixed distances; a segment's output may also lie over the input behind which it
 * grows.
 */
#ifndef SHOAL_SERVER_SCHEDULE_LOWER_H
#define SHOAL_SERVER_SCHEDULE_LOWER_H

#include "server/schedule/schedule.h"

#include "shared/fragment/fragment.h"

struct lower_buffer {
    int64_t bytes, offset; /* offset in the arena */
    int32_t tensor;        /* of the graph; n_tensors + operator: its sums or its scratch */
    int32_t first, last;   /* instructions between which it is in use, both included */
    int32_t align;
    int32_t scope; /* index of the LOOP of which one iteration makes and uses it up; -1: none */
    int32_t group; /* 0: alone; else of those with the same number, `distance` counts from one origin */
    int64_t distance;
    bool scratch; /* not counted in peak_bytes */
};

/* `view.offset` is counted within the buffer; -1: the constant `view.tensor`. */
struct lower_view {
    struct fragment_view view;
    int32_t buffer;
};

/* An instruction; numbers of views and ranges are -1 where there is none. */
struct lower_code {
    uint8_t op, form, loop; /* enum fragment_op, enum fragment_form, counter of a LOOP */
    bool whole_scales;      /* FINISH: of all channels of an operator with several groups */
    bool tall;              /* boxes, parameters, what travels: as tall_graph has them (server/model) */
    int32_t graph_op;       /* -1: none */
    int32_t input;          /* of the operator: the one that a COPY or its LUT reads */
    int32_t tensor;         /* SEND, POST, RECV: what travels; else -1 */
    int32_t in[2], out, scratch;
    int32_t h, w, c, k;
    uint32_t count; /* LOOP */
};

struct lowered {
    struct fragment_range *ranges;
    struct lower_view *views;
    struct lower_code *code;
    struct lower_buffer *buffers;
    int32_t n_ranges, n_views, n_code, n_buffers;
    int32_t cap_ranges, cap_views, cap_code, cap_buffers;
    int64_t peak_bytes;    /* the schedule's */
    int64_t arena_bytes;   /* a multiple of 16 */
    int64_t scratch_bytes; /* the most scratch in use at once */
    int64_t executions;    /* of one run, WAITs not counted */
};

/* One execution. */
struct lower_act {
    const struct lower_code *code;
    struct box box; /* of the output */
    int32_t k0, k1; /* empty where there is no k */
    int64_t time;   /* its number */
};
typedef void lower_act_sink(void *context, const struct lower_act *act);
/* Calls `sink` for every execution (a WAIT is none) of the code from instruction `from` on, which lies
 * outside all loops. */
void lowered_walk(const struct lowered *lowered, int32_t from, lower_act_sink *sink, void *context);

/* What the kernels of a board want beside: bytes for making `part` of an operator's output in one execution
 * (0: none), a multiple of 8. `tall`: the operator is that of tall_graph. */
struct lower_kernels {
    const void *context;
    int32_t (*scratch)(const void *context, int32_t op, bool tall, struct shape part);
};

/* `graph`, `schedule` and `options` are those of schedule_make. NULL with `error` set: STATUS_NO_MEMORY;
 * STATUS_MODEL_UNSUPPORTED for what no program can say (the reason names it). With an accumulator of fewer
 * than 32 bits sizes are right, but the program must not run. `kernels`: NULL for kernels that want nothing.
 */
struct lowered *schedule_lower(const struct graph *graph, const struct schedule *schedule,
                               const struct schedule_options *options, const struct lower_kernels *kernels,
                               struct error *error);
void schedule_lowered_free(struct lowered *lowered); /* NULL is allowed */

#endif
