/*
 * Ending inferences: the graph's tail, the record, the caller's callback. A small pool, so that the
 * coordinator thread never computes. The conductor's result is borrowed until it is posted back for release.
 */
#include "server/infer/internal.h"

#include "server/base/clock.h"

#include <stdlib.h>
#include <unistd.h>

void infer_tail_add(struct infer *infer, struct infer_job *job)
{
    pthread_mutex_lock(&infer->mutex);
    job->queued = NULL;
    *infer->tail_tail = job;
    infer->tail_tail = &job->queued;
    pthread_cond_signal(&infer->wake);
    pthread_mutex_unlock(&infer->mutex);
}

static void release_call(void *context)
{
    infer_release_result(context);
}

/* Gives the result back on the coordinator thread; its queue is short of full only for moments. */
static void give_back(struct infer *infer, struct infer_job *job)
{
    if (!job->result) {
        infer_route_release(job->route);
        free(job);
        return;
    }
    while (fleet_post(infer->fleet, release_call, job) < 0)
        usleep(1000);
}

static void end(struct infer *infer, struct infer_job *job)
{
    const struct graph *graph = job->route->graph;
    size_t size = graph_output_bytes(graph);
    void *output = NULL;
    if (job->error.status == STATUS_OK) {
        output = malloc(size ? size : 1);
        if (!output)
            error_set(&job->error, STATUS_NO_MEMORY, "out of memory");
        else
            (void)plan_io_end(job->io, job->result->outputs, output, size, &job->error);
    }
    double latency_ms = (double)(clock_monotonic_us() - job->submitted_us) / 1000;
    infer_record(infer, job, latency_ms);
    struct infer_answer answer = {.status = job->error.status,
                                  .error = job->error,
                                  .output = output,
                                  .output_bytes = size,
                                  .latency_ms = latency_ms};
    for (size_t i = 0; i < sizeof answer.inference; i++)
        answer.inference[i] = job->id[i];
    job->done(job->context, &answer);
    free(output);
    plan_io_free(job->io);
    give_back(infer, job);
    pthread_mutex_lock(&infer->mutex);
    infer->in_flight--;
    pthread_cond_broadcast(&infer->drained);
    pthread_mutex_unlock(&infer->mutex);
}

static void *tail(void *context)
{
    struct infer *infer = context;
    for (;;) {
        pthread_mutex_lock(&infer->mutex);
        while (!infer->tail_head && !infer->tails_closing)
            pthread_cond_wait(&infer->wake, &infer->mutex);
        struct infer_job *job = infer->tail_head;
        if (job) {
            infer->tail_head = job->queued;
            if (!infer->tail_head)
                infer->tail_tail = &infer->tail_head;
        }
        pthread_mutex_unlock(&infer->mutex);
        if (!job)
            return NULL;
        end(infer, job);
    }
}

int infer_tails_start(struct infer *infer, struct error *error)
{
    infer->tail_tail = &infer->tail_head;
    for (; infer->n_tails < TAIL_THREADS; infer->n_tails++)
        if (pthread_create(&infer->tails[infer->n_tails], NULL, tail, infer) != 0)
            return error_set(error, STATUS_NO_MEMORY, "a thread cannot be started");
    return 0;
}

void infer_tails_stop(struct infer *infer)
{
    pthread_mutex_lock(&infer->mutex);
    infer->tails_closing = true;
    pthread_cond_broadcast(&infer->wake);
    pthread_mutex_unlock(&infer->mutex);
    while (infer->n_tails)
        pthread_join(infer->tails[--infer->n_tails], NULL);
}
