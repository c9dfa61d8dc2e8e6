/* A bounded queue of calls for one or more threads. */
#include "server/deploy/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

void queue_init(struct call_queue *queue)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    queue->tail = &queue->head;
}

int queue_add(struct call_queue *queue, void (*run)(struct deploy *, void *), void *context)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return STATUS_NO_MEMORY;
    call->run = run;
    call->context = context;
    pthread_mutex_lock(&queue->mutex);
    bool full = queue->closing || queue->length >= DEPLOY_QUEUE_MAX;
    if (!full) {
        *queue->tail = call;
        queue->tail = &call->next;
        queue->length++;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&queue->mutex);
    if (full)
        free(call);
    return full ? STATUS_BUSY : 0;
}

struct call *queue_take(struct call_queue *queue, int64_t ms, bool *idle)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&queue->mutex);
    int rc = 0;
    while (!queue->head && !queue->closing && rc != ETIMEDOUT)
        rc = ms < 0 ? pthread_cond_wait(&queue->wake, &queue->mutex)
                    : pthread_cond_timedwait(&queue->wake, &queue->mutex, &until);
    struct call *call = queue->head;
    if (call) {
        queue->head = call->next;
        if (!queue->head)
            queue->tail = &queue->head;
        queue->length--;
    }
    *idle = !call && !queue->closing;
    pthread_mutex_unlock(&queue->mutex);
    return call;
}

void queue_close(struct call_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->closing = true;
    pthread_cond_broadcast(&queue->wake);
    pthread_mutex_unlock(&queue->mutex);
}

bool queue_closing(struct call_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    bool closing = queue->closing;
    pthread_mutex_unlock(&queue->mutex);
    return closing;
}
