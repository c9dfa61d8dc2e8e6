/*
 * The module's life and its waiters. Two threads: one runs jobs one after another, one calls waiters whose
 * job has ended or whose time is over, so that a long job delays nobody's answer.
 */
#include "server/models/internal.h"

#include "server/base/clock.h"

#include <stdlib.h>
#include <string.h>

int models_check_name(const char *name, struct error *error)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789",
                      rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);
    if (n == 0 || n >= MODELS_NAME_BYTES || !strchr(first, name[0]) || strspn(name, rest) != n)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a model's name is 1 to 63 of a-z 0-9 . _ - and begins with a letter or digit");
    return 0;
}

int models_start(struct models **out, struct store *store, struct deploy *deploy, fleet_publish_fn *publish,
                 void *publish_context, struct error *error)
{
    *out = NULL;
    struct models *models = calloc(1, sizeof *models);
    if (!models)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    models->store = store;
    models->deploy = deploy;
    models->publish = publish;
    models->publish_context = publish_context;
    pthread_mutex_init(&models->mutex, NULL);
    pthread_cond_init(&models->jobs_wake, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&models->waker_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    models->jobs_waiting = true;
    models->runner_started = pthread_create(&models->runner, NULL, models_run_jobs, models) == 0;
    models->waker_started = pthread_create(&models->waker, NULL, models_wake_waiters, models) == 0;
    if (!models->runner_started || !models->waker_started) {
        models_stop(models);
        models_free(models);
        return error_set(error, STATUS_NO_MEMORY, "a thread cannot be started");
    }
    *out = models;
    return 0;
}

void models_stop(struct models *models)
{
    if (!models)
        return;
    pthread_mutex_lock(&models->mutex);
    models->closing = true;
    pthread_cond_broadcast(&models->jobs_wake);
    pthread_cond_broadcast(&models->waker_wake);
    pthread_mutex_unlock(&models->mutex);
    if (models->runner_started)
        pthread_join(models->runner, NULL);
    if (models->waker_started)
        pthread_join(models->waker, NULL);
    models->runner_started = models->waker_started = false;
}

void models_free(struct models *models)
{
    if (!models)
        return;
    pthread_cond_destroy(&models->jobs_wake);
    pthread_cond_destroy(&models->waker_wake);
    pthread_mutex_destroy(&models->mutex);
    free(models);
}

/* ---- waiters ---- */

int models_wait(struct models *models, const char *job, int64_t wait_ms, models_wait_fn *call, void *context)
{
    struct models_waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return STATUS_NO_MEMORY;
    strncpy(waiter->job, job, sizeof waiter->job - 1);
    waiter->deadline_us = clock_monotonic_us() + (uint64_t)wait_ms * 1000;
    waiter->call = call;
    waiter->context = context;
    /* The state is read after the waiter is in the list, else an end in between would be missed. */
    pthread_mutex_lock(&models->mutex);
    bool closing = models->closing;
    if (!closing) {
        waiter->next = models->waiters;
        models->waiters = waiter;
        pthread_cond_signal(&models->waker_wake);
    }
    pthread_mutex_unlock(&models->mutex);
    if (closing) {
        free(waiter);
        return STATUS_BUSY;
    }
    sqlite3 *db = store_reader(models->store);
    int64_t running = 1;
    if (db &&
        db_int(db, NULL, &running,
               "SELECT count(*) FROM job WHERE id = ? AND state IN ('waiting', 'running')", "s", job) == 1 &&
        running == 0)
        models_job_settled(models, job);
    store_reader_done(models->store, db);
    return 0;
}

void models_job_settled(struct models *models, const char *job)
{
    pthread_mutex_lock(&models->mutex);
    for (struct models_waiter *waiter = models->waiters; waiter; waiter = waiter->next)
        if (strcmp(waiter->job, job) == 0)
            waiter->settled = true;
    pthread_cond_signal(&models->waker_wake);
    pthread_mutex_unlock(&models->mutex);
}

/* Takes the waiters out that are due; *next_us is when the next one will be. The mutex is held. */
static struct models_waiter *take_due(struct models *models, uint64_t now_us, uint64_t *next_us)
{
    struct models_waiter *due = NULL;
    *next_us = now_us + 3600 * (uint64_t)1000000;
    for (struct models_waiter **link = &models->waiters; *link;) {
        struct models_waiter *waiter = *link;
        if (!waiter->settled && now_us < waiter->deadline_us && !models->closing) {
            *next_us = waiter->deadline_us < *next_us ? waiter->deadline_us : *next_us;
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        waiter->next = due;
        due = waiter;
    }
    return due;
}

void *models_wake_waiters(void *context)
{
    struct models *models = context;
    pthread_mutex_lock(&models->mutex);
    for (;;) {
        uint64_t next_us;
        struct models_waiter *due = take_due(models, clock_monotonic_us(), &next_us);
        if (!due && models->closing)
            break;
        if (!due) {
            struct timespec until = {.tv_sec = (time_t)(next_us / 1000000),
                                     .tv_nsec = (long)(next_us % 1000000) * 1000};
            pthread_cond_timedwait(&models->waker_wake, &models->mutex, &until);
            continue;
        }
        pthread_mutex_unlock(&models->mutex);
        while (due) {
            struct models_waiter *waiter = due;
            due = waiter->next;
            waiter->call(waiter->context, !waiter->settled);
            free(waiter);
        }
        pthread_mutex_lock(&models->mutex);
    }
    pthread_mutex_unlock(&models->mutex);
    return NULL;
}
