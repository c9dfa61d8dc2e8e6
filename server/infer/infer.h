/*
 * Live inferences: admission, the conductor over the fleet's links, the graph's ends, the record of each
 * inference.
 *
 * The conductor runs on the coordinator thread. The graph's head runs on the caller's thread (infer_submit),
 * its tail and the callback on a small pool of this module, so that the coordinator only moves bytes.
 */
#ifndef SHOAL_SERVER_INFER_INFER_H
#define SHOAL_SERVER_INFER_INFER_H

#include "server/fleet/fleet.h"

struct infer;

struct infer_config {
    int64_t memory_bytes;      /* coordinator memory for inferences in flight; e.g. 256 MiB */
    uint32_t queue;            /* inferences waiting for admission; beyond it 503 */
    fleet_publish_fn *publish; /* event "inference" */
    void *publish_context;
};
int infer_start(struct infer **infer, struct store *store, struct fleet *fleet,
                const struct infer_config *config, struct error *error);
/* Lets boards in: sets the fleet's hooks. After every module that watches the fleet has said so. */
void infer_attach(struct infer *infer);
/* Refuses new inferences, aborts what is in flight and returns when every callback has come. */
void infer_stop(struct infer *infer);
/* After fleet_stop, whose coordinator thread calls into this module until then. */
void infer_free(struct infer *infer);

/* A deployment's generation that can be asked. Reference counted: `route` keeps plan, graph and table alive
 * while inferences use them. */
struct infer_route {
    char deployment[27], model[64], version[65];
    uint32_t generation;
    const struct graph *graph;
    const struct plan *plan;
    char (*boards)[FLEET_ID_BYTES];             /* of party p at [p - 1] */
    void (*release)(struct infer_route *route); /* called when the last reference goes */
    int references;                             /* atomic */
    bool verifying;                             /* only the golden inference may use it */
};
struct infer_route *infer_route_retain(struct infer_route *route);
void infer_route_release(struct infer_route *route); /* NULL is allowed */

struct infer_answer {
    int status; /* 0, or why not */
    struct error error;
    char inference[27];
    const void *output; /* graph_output_bytes(); valid during the callback */
    size_t output_bytes;
    double latency_ms;
};
typedef void infer_done_fn(void *context, const struct infer_answer *answer);

/* Asks a deployment. Copies the input; the callback comes exactly once, on a thread of this module, unless a
 * negative status is returned at once (STATUS_INPUT_SIZE, STATUS_DEGRADED when a board is offline,
 * STATUS_BUSY). [any thread but the coordinator's] */
int infer_submit(struct infer *infer, struct infer_route *route, const void *input, size_t input_bytes,
                 infer_done_fn *done, void *context, struct error *error);

/* Aborts what is in flight on a route (pause, retire, cancel). [any] */
void infer_abort(struct infer *infer, const char *deployment, const char *reason);

#endif
