/*
 * Server-sent events. One ring of finished event texts; every stream keeps the id that it sent last. A stream
 * with nothing to send suspends its connection and costs nothing; publishing resumes all. A thread wakes
 * streams every 15 s to send a comment, which is also how a client that went away is noticed.
 */
#include "server/http/internal.h"

#include "server/base/json_text.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { HEARTBEAT_S = 15 };

struct stream {
    struct stream *next;
    struct http_events *events;
    struct MHD_Connection *connection;
    uint64_t last; /* id sent last */
    char *text;    /* being sent */
    size_t at, size;
    bool suspended, beat, reset;
};

struct http_events {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t thread;
    bool closing, started;
    uint32_t ring;
    char **texts;    /* of id at [id % ring] */
    uint64_t newest; /* id, 0: none yet */
    struct stream *streams;
};

static void wake_all(struct http_events *events, bool beat)
{
    for (struct stream *stream = events->streams; stream; stream = stream->next) {
        stream->beat |= beat;
        if (stream->suspended) {
            stream->suspended = false;
            MHD_resume_connection(stream->connection);
        }
    }
}

static void *heartbeat(void *context)
{
    struct http_events *events = context;
    pthread_mutex_lock(&events->mutex);
    while (!events->closing) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += HEARTBEAT_S;
        pthread_cond_timedwait(&events->wake, &events->mutex, &until);
        wake_all(events, true);
    }
    pthread_mutex_unlock(&events->mutex);
    return NULL;
}

struct http_events *http_events_new(uint32_t ring)
{
    struct http_events *events = calloc(1, sizeof *events);
    if (!events)
        return NULL;
    events->ring = ring;
    events->texts = calloc(ring, sizeof *events->texts);
    pthread_mutex_init(&events->mutex, NULL);
    pthread_cond_init(&events->wake, NULL);
    events->started = events->texts && pthread_create(&events->thread, NULL, heartbeat, events) == 0;
    if (!events->started) {
        http_events_free(events);
        return NULL;
    }
    return events;
}

void http_events_close(struct http_events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->closing = true;
    wake_all(events, false);
    pthread_cond_signal(&events->wake);
    pthread_mutex_unlock(&events->mutex);
}

void http_events_free(struct http_events *events)
{
    if (!events)
        return;
    if (events->started) {
        http_events_close(events);
        pthread_join(events->thread, NULL);
    }
    for (uint32_t i = 0; events->texts && i < events->ring; i++)
        free(events->texts[i]);
    free(events->texts);
    free(events);
}

void http_events_publish(struct http_events *events, const char *name, const json_t *json)
{
    json_t *own = json_deep_copy(json);
    char *data = json_text(own);
    json_decref(own);
    if (!data)
        return;
    pthread_mutex_lock(&events->mutex);
    uint64_t id = events->newest + 1;
    char *text = NULL;
    if (asprintf(&text, "id: %llu\nevent: %s\ndata: %s\n\n", (unsigned long long)id, name, data) > 0) {
        free(events->texts[id % events->ring]);
        events->texts[id % events->ring] = text;
        events->newest = id;
        wake_all(events, false);
    }
    pthread_mutex_unlock(&events->mutex);
    free(data);
}

/* The next text for a stream, malloc'ed; NULL: nothing now. The mutex is held. */
static char *next_text(struct http_events *events, struct stream *stream)
{
    char *text = NULL;
    uint64_t oldest = events->newest >= events->ring ? events->newest - events->ring + 1 : 1;
    if (stream->reset || (stream->last < events->newest && stream->last + 1 < oldest)) {
        stream->reset = false;
        stream->last = events->newest;
        if (asprintf(&text, "id: %llu\nevent: reset\ndata: {}\n\n", (unsigned long long)events->newest) < 0)
            text = NULL;
    } else if (stream->last < events->newest) {
        text = strdup(events->texts[++stream->last % events->ring]);
    } else if (stream->beat) {
        text = strdup(": \n\n");
    }
    stream->beat = false;
    return text;
}

static ssize_t read_stream(void *context, uint64_t position, char *out, size_t max)
{
    (void)position;
    struct stream *stream = context;
    struct http_events *events = stream->events;
    ssize_t n = 0;
    pthread_mutex_lock(&events->mutex);
    if (stream->at == stream->size) {
        free(stream->text);
        stream->text = events->closing ? NULL : next_text(events, stream);
        stream->at = 0;
        stream->size = stream->text ? strlen(stream->text) : 0;
    }
    if (events->closing) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (stream->at < stream->size) {
        size_t left = stream->size - stream->at;
        n = (ssize_t)(left < max ? left : max);
        memcpy(out, stream->text + stream->at, (size_t)n);
        stream->at += (size_t)n;
    } else {
        stream->suspended = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&events->mutex);
    return n;
}

static void end_stream(void *context)
{
    struct stream *stream = context;
    struct http_events *events = stream->events;
    pthread_mutex_lock(&events->mutex);
    for (struct stream **link = &events->streams; *link; link = &(*link)->next)
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    pthread_mutex_unlock(&events->mutex);
    free(stream->text);
    free(stream);
}

int http_events_stream(struct http_exchange *exchange, struct http_events *events)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return http_fail_status(exchange, STATUS_NO_MEMORY, "out of memory");
    const char *id = http_header(exchange, "Last-Event-ID");
    if (!id)
        id = http_query(exchange, "last_event_id");
    stream->events = events;
    stream->connection = exchange->connection;
    stream->beat = true;
    pthread_mutex_lock(&events->mutex);
    uint64_t last = id ? strtoull(id, NULL, 10) : events->newest;
    stream->reset = last > events->newest;
    stream->last = last > events->newest ? events->newest : last;
    stream->next = events->streams;
    events->streams = stream;
    pthread_mutex_unlock(&events->mutex);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 8192, read_stream, stream, end_stream);
    if (!response) {
        end_stream(stream);
        return http_fail_status(exchange, STATUS_NO_MEMORY, "out of memory");
    }
    http_set_header(exchange, "Cache-Control", "no-store");
    http_answer(exchange, 200, response, "text/event-stream");
    return 0;
}
