/*
 * Writer threads. The state's writer gives every job a transaction of its own, so that an error undoes
 * exactly that job and `done` means durable. The telemetry's writer puts what is waiting into one
 * transaction, up to BATCH_MAX.
 */
#include "server/store/queue.h"

#include "server/base/log.h"

#include <stdlib.h>

enum { BATCH_MAX = 512 };

int store_queue_add(struct store_queue *queue, struct store_job *job)
{
    pthread_mutex_lock(&queue->mutex);
    bool full = queue->closing || queue->length >= STORE_QUEUE_MAX;
    if (!full) {
        job->next = NULL;
        *queue->tail = job;
        queue->tail = &job->next;
        queue->length++;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&queue->mutex);
    return full ? STATUS_BUSY : 0;
}

/* Waits for work; up to `max` jobs as a list, NULL when the queue is closing and empty. */
static struct store_job *take(struct store_queue *queue, uint32_t max)
{
    pthread_mutex_lock(&queue->mutex);
    while (!queue->head && !queue->closing)
        pthread_cond_wait(&queue->wake, &queue->mutex);
    struct store_job *first = queue->head, *last = first;
    if (first) {
        for (queue->length--; last->next && --max > 0; queue->length--)
            last = last->next;
        queue->head = last->next;
        last->next = NULL;
        if (!queue->head)
            queue->tail = &queue->head;
    }
    pthread_mutex_unlock(&queue->mutex);
    return first;
}

static void finish(struct store_job *job, int status, const struct error *error)
{
    if (job->done)
        job->done(status, error, job->done_context);
    free(job);
}

static void run_alone(sqlite3 *db, struct store_job *job)
{
    struct error error;
    error_clear(&error);
    int status = db_script(db, "BEGIN IMMEDIATE", &error);
    if (status >= 0) {
        status = job->write(db, job->context, &error);
        struct error *commit_error = &error;
        if (status >= 0) {
            int committed = db_script(db, "COMMIT", commit_error);
            if (committed < 0)
                status = committed;
        }
        if (status < 0 && !sqlite3_get_autocommit(db))
            (void)db_script(db, "ROLLBACK", NULL);
    }
    finish(job, status, &error);
}

static void run_batch(sqlite3 *db, struct store_job *jobs)
{
    struct error error;
    error_clear(&error);
    int status = db_script(db, "BEGIN IMMEDIATE", &error);
    for (struct store_job *job = jobs, *next; job; job = next) {
        next = job->next;
        if (status >= 0 && job->write(db, job->context, &error) < 0)
            LOG_WARN("store", "telemetry: %s", error.message);
        error_clear(&error);
        finish(job, status, &error);
    }
    if (status >= 0 && db_script(db, "COMMIT", &error) < 0) {
        LOG_WARN("store", "telemetry: %s", error.message);
        (void)db_script(db, "ROLLBACK", NULL);
    }
}

static void *writer(void *context)
{
    struct store_queue *queue = context;
    struct store_job *jobs;
    while ((jobs = take(queue, queue->batch ? BATCH_MAX : 1)) != NULL) {
        if (queue->batch)
            run_batch(queue->db, jobs);
        else
            run_alone(queue->db, jobs);
    }
    return NULL;
}

int store_queue_start(struct store_queue *queue, sqlite3 *db, bool batch, struct error *error)
{
    queue->db = db;
    queue->batch = batch;
    queue->tail = &queue->head;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->wake, NULL);
    if (pthread_create(&queue->thread, NULL, writer, queue) != 0)
        return error_set(error, STATUS_NO_MEMORY, "a writer thread cannot be started");
    queue->started = true;
    return 0;
}

void store_queue_stop(struct store_queue *queue)
{
    if (queue->started) {
        pthread_mutex_lock(&queue->mutex);
        queue->closing = true;
        pthread_cond_signal(&queue->wake);
        pthread_mutex_unlock(&queue->mutex);
        pthread_join(queue->thread, NULL);
        queue->started = false;
    }
    sqlite3_close(queue->db);
    queue->db = NULL;
}
