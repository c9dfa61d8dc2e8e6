/* The writer threads of a store and their bounded queues; private to server/store. */
#ifndef SHOAL_SERVER_STORE_QUEUE_H
#define SHOAL_SERVER_STORE_QUEUE_H

#include "server/store/store.h"

#include <pthread.h>

/* One queued write. Its memory belongs to the writer from the moment it is queued. */
struct store_job {
    struct store_job *next;
    store_write_fn *write;
    void *context;
    store_done_fn *done;
    void *done_context;
};

struct store_queue {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct store_job *head, **tail;
    uint32_t length;
    bool closing, started;
    bool batch;  /* many jobs may share a transaction (telemetry) */
    sqlite3 *db; /* the writer's own */
};

int store_queue_start(struct store_queue *queue, sqlite3 *db, bool batch, struct error *error);
/* Lets the writer finish what is queued, then joins it and closes the connection. */
void store_queue_stop(struct store_queue *queue);
/* Takes ownership of `job` (malloc'ed) on success; STATUS_BUSY when the queue is full or closing. */
int store_queue_add(struct store_queue *queue, struct store_job *job);

#endif
