/* What the files of server/models share. */
#ifndef SHOAL_SERVER_MODELS_INTERNAL_H
#define SHOAL_SERVER_MODELS_INTERNAL_H

#include "server/base/id.h"
#include "server/models/models.h"

#include <pthread.h>

struct models_waiter {
    struct models_waiter *next;
    char job[ID_ULID_BYTES];
    uint64_t deadline_us; /* monotonic */
    bool settled;
    models_wait_fn *call;
    void *context;
};

struct models {
    struct store *store;
    struct deploy *deploy;
    fleet_publish_fn *publish;
    void *publish_context;
    pthread_t runner, waker;
    bool runner_started, waker_started;
    pthread_mutex_t mutex;
    pthread_cond_t jobs_wake;  /* a job was stored */
    pthread_cond_t waker_wake; /* a job ended or a waiter came; monotonic clock */
    bool jobs_waiting, closing;
    struct models_waiter *waiters;
};

/* summary.c: the JSON that is stored with a version. */
json_t *models_summary(const struct graph *graph, const json_t *layers);

/* jobs.c */
void models_job_added(struct models *models);
void *models_run_jobs(void *context);
void *models_wake_waiters(void *context);
/* A job has ended: whoever waits for it is called soon. */
void models_job_settled(struct models *models, const char *job);

/* view.c: publishes event `model` or `job` with the resource as GET gives it. */
void models_publish(struct models *models, const char *kind, const char *id);

#endif
