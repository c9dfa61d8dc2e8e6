/* What the files of server/infer share. */
#ifndef SHOAL_SERVER_INFER_INTERNAL_H
#define SHOAL_SERVER_INFER_INTERNAL_H

#include "server/infer/infer.h"

#include <pthread.h>

enum { TAIL_THREADS = 2 };

enum infer_job_state { INFER_JOB_POSTED, INFER_JOB_WAITING, INFER_JOB_RUNNING, INFER_JOB_ENDING };

/* One inference from submission to callback. Owned by the coordinator thread while posted, waiting or
 * running, then by the tail thread that ends it. */
struct infer_job {
    struct infer_job *next, **link; /* in `jobs` of the coordinator */
    struct infer_job *queued;       /* in the tail's queue */
    struct infer *infer;
    struct infer_route *route;
    struct plan_io *io;
    enum infer_job_state state;
    char id[27];
    uint32_t number; /* on the wire; 0: not begun */
    int64_t memory_bytes;
    uint64_t submitted_us;
    int64_t begun_wall_ms;
    infer_done_fn *done;
    void *context;
    const struct conduct_result *result; /* NULL when it failed before it began */
    struct error error;
};

struct infer {
    struct store *store;
    struct fleet *fleet;
    struct infer_config config;
    /* coordinator thread */
    struct conductor *conductor;
    struct infer_job *jobs;                    /* all that are posted, waiting or running, newest first */
    struct infer_job *waiting, **waiting_tail; /* for memory, oldest first, through `queued` */
    int64_t memory_used;
    uint32_t next_number;
    bool stopping; /* everything was aborted; what comes late is refused */
    bool up[CONDUCT_LINKS_MAX];
    /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t wake, drained;
    struct infer_job *tail_head, **tail_tail;
    uint32_t in_flight; /* submitted and not called back */
    bool closing, tails_closing;
    pthread_t tails[TAIL_THREADS];
    int n_tails;
};

/* record.c: the inference as history and events show it; writes telemetry and publishes. Tail thread. */
void infer_record(struct infer *infer, const struct infer_job *job, double latency_ms);

/* tail.c */
int infer_tails_start(struct infer *infer, struct error *error);
void infer_tails_stop(struct infer *infer);
void infer_tail_add(struct infer *infer, struct infer_job *job);

/* Coordinator thread: gives a result back to the conductor. */
void infer_release_result(struct infer_job *job);

#endif
