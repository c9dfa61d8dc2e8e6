/*
 * Programs of ENCODING A over small random networks (a first convolution, then inverted residual blocks),
 * written by hand-made schedulers that know nothing of the planner: whole layers, streamed rows, strips with
 * halo, channel loops with accumulators, partial sums of several boards, patches. Each function appends a
 * whole program, from receiving the input to sending the output; transfers are numbered as said there, party
 * 0 being the test.
 */
#ifndef SHOAL_TESTS_SUPPORT_NET_PROGRAM_H
#define SHOAL_TESTS_SUPPORT_NET_PROGRAM_H

#include "server/model/graph.h"
#include "tests/support/program.h"

enum { NET_OPS_MAX = 40, NET_TENSORS_MAX = 64 };

struct net_op {
    enum fragment_op kind; /* CONV, DW, ADD */
    int32_t in[2], out;    /* tensors; in[1] is -1 where there is none */
    int32_t kh, kw, s, ph, pw;
    const struct op *op;
};

struct net {
    struct graph *graph; /* owned */
    struct net_op ops[NET_OPS_MAX];
    int32_t n, in, out;
};

/* A network of 2 to 4 blocks; image about 9..20 rows and columns. */
struct net net_random(uint64_t seed);
/* One block with stride 1 and a residual: x, expand, depthwise, project, add. */
struct net net_block(uint64_t seed);
/* MobileNetV2 from the image (224x224x3) to the projection of its second block, with random weights. */
struct net net_front(uint64_t seed);
void net_free(struct net *net);
struct shape net_shape(const struct net *net, int32_t tensor);

/* Transfer 0 (rank 0) is the input, transfer 1 (rank 1) the output, both whole, for all of these. */
void net_full(struct program *p, const struct net *net);

struct net_rows {
    bool stream_in, stream_out; /* by rows within the loop; else whole */
    bool overlap;               /* output low, input offset (not with stream_in) */
    int32_t less_overlap;       /* break it: bytes taken from the distance */
    int32_t less_rows;          /* break it: rows taken from every ring that has more than that */
};
void net_rows(struct program *p, const struct net *net, struct net_rows options);

struct net_patches {
    int32_t h, w;   /* of the output */
    int32_t k;      /* channels a time in an inner loop; 0: none */
    bool rows;      /* rows inside patches (not with k) */
    bool elsewhere; /* FINISH into memory of its own, never in place */
};
void net_patches(struct program *p, const struct net *net, struct net_patches options);

/* Strips of rows: party index + 1 of n. Own rows of the input come as transfer (0 -> party, id 0), halo rows
 * as (a -> b, id 1), the party's output rows go as (party -> 0, id 2). Returns false: no rows, no program.
 * `wait` false leaves out the WAIT for the halo. */
bool net_strip(struct program *p, const struct net *net, int32_t n, int32_t index, bool wait);
/* Rows [lo, hi) of `tensor` that a strip owns. */
void net_strip_rows(const struct net *net, int32_t tensor, int32_t n, int32_t index, int32_t *lo,
                    int32_t *hi);

/* Index of the first operator of an expand, depthwise, project run at or after `from`; -1: none. */
int32_t net_triple(const struct net *net, int32_t from);
/* Channels of the triple at `at` over n parties, rows and channels looped inside, k channels a time: input
 * whole as (0 -> party, id 0); sums (party -> 1, id 1) as int24; party 1 finishes and sends (1 -> 0, id 2).
 */
void net_partial(struct program *p, const struct net *net, int32_t at, int32_t n, int32_t index, int32_t k);

#endif
