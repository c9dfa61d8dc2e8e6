/*
 * The worker pool: handlers that may block. The queue before it is bounded; full means 503 with Retry-After,
 * said at once. Whoever runs a handler owns the exchange until it is finished.
 */
#include "server/http/internal.h"

void http_run(struct http_exchange *exchange)
{
    int result = exchange->request.route->handler(exchange);
    if (result == HTTP_PENDING)
        return;
    if (!exchange->response)
        http_fail_status(exchange, STATUS_INTERNAL, "the handler gave no answer");
    http_finish(exchange);
}

static void *worker(void *context)
{
    struct http_workers *workers = context;
    pthread_mutex_lock(&workers->mutex);
    for (;;) {
        while (!workers->head && !workers->closing)
            pthread_cond_wait(&workers->wake, &workers->mutex);
        struct http_exchange *exchange = workers->head;
        if (!exchange)
            break;
        workers->head = exchange->next;
        if (!workers->head)
            workers->tail = &workers->head;
        workers->length--;
        bool closing = workers->closing;
        pthread_mutex_unlock(&workers->mutex);
        if (closing) { /* what still waits when the server stops is not begun */
            http_fail_status(exchange, STATUS_BUSY, "the server is stopping");
            http_finish(exchange);
        } else {
            http_run(exchange);
        }
        pthread_mutex_lock(&workers->mutex);
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

int http_workers_start(struct http_workers *workers, unsigned threads, unsigned limit, struct error *error)
{
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->wake, NULL);
    workers->tail = &workers->head;
    workers->limit = limit;
    for (unsigned i = 0; i < threads && i < sizeof workers->threads / sizeof *workers->threads; i++) {
        if (pthread_create(&workers->threads[i], NULL, worker, workers) != 0)
            return error_set(error, STATUS_NO_MEMORY, "a worker thread cannot be started");
        workers->n_threads++;
    }
    return 0;
}

int http_workers_add(struct http_workers *workers, struct http_exchange *exchange)
{
    pthread_mutex_lock(&workers->mutex);
    bool full = workers->closing || workers->length >= workers->limit;
    if (!full) {
        exchange->next = NULL;
        *workers->tail = exchange;
        workers->tail = &exchange->next;
        workers->length++;
        pthread_cond_signal(&workers->wake);
    }
    pthread_mutex_unlock(&workers->mutex);
    return full ? STATUS_BUSY : 0;
}

void http_workers_stop(struct http_workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    workers->closing = true;
    pthread_cond_broadcast(&workers->wake);
    pthread_mutex_unlock(&workers->mutex);
    for (unsigned i = 0; i < workers->n_threads; i++)
        pthread_join(workers->threads[i], NULL);
    workers->n_threads = 0;
}
