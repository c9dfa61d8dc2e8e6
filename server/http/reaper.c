/*
 * Slow clients. libmicrohttpd's time-out counts inactivity only, so a client that drips a byte a second would
 * stay for ever. This remembers every socket; one whose headers are not complete by a deadline, or whose body
 * falls below a minimum rate, is shut down (not closed: MHD owns it and sees the end). The mutex also covers
 * MHD's CLOSED callback, so a descriptor is never shut down after it was closed.
 */
#include "server/http/internal.h"

#include "server/base/clock.h"

#include <stdlib.h>
#include <sys/socket.h>

enum watch_phase { WATCH_HEADERS, WATCH_BODY, WATCH_QUIET };

struct connection_watch {
    struct connection_watch *next, **link;
    int fd;
    enum watch_phase phase;
    int64_t since_ms, bytes;
};

static int64_t now_ms(void)
{
    return (int64_t)(clock_monotonic_us() / 1000);
}

static struct connection_watch *watch_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void http_reaper_connection(struct http_reaper *reaper, struct MHD_Connection *connection,
                            void **socket_context, bool open)
{
    if (open) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct connection_watch *watch = calloc(1, sizeof *watch);
        if (!watch || !info) {
            free(watch);
            return;
        }
        watch->fd = info->connect_fd;
        watch->since_ms = now_ms();
        pthread_mutex_lock(&reaper->mutex);
        watch->next = reaper->connections;
        watch->link = &reaper->connections;
        if (watch->next)
            watch->next->link = &watch->next;
        reaper->connections = watch;
        pthread_mutex_unlock(&reaper->mutex);
        *socket_context = watch;
        return;
    }
    struct connection_watch *watch = *socket_context;
    if (!watch)
        return;
    pthread_mutex_lock(&reaper->mutex);
    *watch->link = watch->next;
    if (watch->next)
        watch->next->link = watch->link;
    pthread_mutex_unlock(&reaper->mutex);
    *socket_context = NULL;
    free(watch);
}

static void set_phase(struct http_reaper *reaper, struct MHD_Connection *connection, enum watch_phase phase)
{
    struct connection_watch *watch = watch_of(connection);
    if (!watch)
        return;
    pthread_mutex_lock(&reaper->mutex);
    watch->phase = phase;
    watch->since_ms = now_ms();
    watch->bytes = 0;
    pthread_mutex_unlock(&reaper->mutex);
}

void http_reaper_headers_done(struct http_reaper *reaper, struct MHD_Connection *connection)
{
    set_phase(reaper, connection, WATCH_BODY);
}

void http_reaper_request_done(struct http_reaper *reaper, struct MHD_Connection *connection)
{
    set_phase(reaper, connection, WATCH_QUIET);
}

void http_reaper_body(struct http_reaper *reaper, struct MHD_Connection *connection, int64_t bytes)
{
    struct connection_watch *watch = watch_of(connection);
    if (!watch)
        return;
    pthread_mutex_lock(&reaper->mutex);
    watch->bytes += bytes;
    pthread_mutex_unlock(&reaper->mutex);
}

static bool too_slow(const struct connection_watch *watch, int64_t now)
{
    int64_t age = now - watch->since_ms;
    if (watch->phase == WATCH_HEADERS)
        return age > HTTP_HEADER_DEADLINE_MS;
    if (watch->phase == WATCH_BODY && age > HTTP_BODY_GRACE_MS)
        return watch->bytes < (age - HTTP_BODY_GRACE_MS) / 1000 * HTTP_BODY_RATE;
    return false;
}

static void *reap(void *context)
{
    struct http_reaper *reaper = context;
    pthread_mutex_lock(&reaper->mutex);
    while (!reaper->closing) {
        int64_t now = now_ms();
        for (struct connection_watch *watch = reaper->connections; watch; watch = watch->next)
            if (too_slow(watch, now)) {
                (void)shutdown(watch->fd, SHUT_RDWR);
                watch->phase = WATCH_QUIET;
            }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&reaper->wake, &reaper->mutex, &until);
    }
    pthread_mutex_unlock(&reaper->mutex);
    return NULL;
}

int http_reaper_start(struct http_reaper *reaper, struct error *error)
{
    pthread_mutex_init(&reaper->mutex, NULL);
    pthread_cond_init(&reaper->wake, NULL);
    if (pthread_create(&reaper->thread, NULL, reap, reaper) != 0)
        return error_set(error, STATUS_NO_MEMORY, "the reaper thread cannot be started");
    reaper->started = true;
    return 0;
}

void http_reaper_stop(struct http_reaper *reaper)
{
    if (!reaper->started)
        return;
    pthread_mutex_lock(&reaper->mutex);
    reaper->closing = true;
    pthread_cond_signal(&reaper->wake);
    pthread_mutex_unlock(&reaper->mutex);
    pthread_join(reaper->thread, NULL);
    reaper->started = false;
}
