/* What the files of server/http share; nobody else includes this. */
#ifndef SHOAL_SERVER_HTTP_INTERNAL_H
#define SHOAL_SERVER_HTTP_INTERNAL_H

#include "server/base/hash.h"
#include "server/http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_PATH_BYTES = 1024,
    HTTP_JSON_LIMIT = 1 << 20,
    HTTP_BODY_LIMIT = 8 << 20,
    HTTP_SWALLOW = 8 << 20, /* bytes read beyond a limit, so that the 413 reaches the client */
    HTTP_HEADER_DEADLINE_MS = 5000,
    HTTP_BODY_GRACE_MS = 10000, /* after which a body must keep up HTTP_BODY_RATE */
    HTTP_BODY_RATE = 1024,      /* bytes a second */
    HTTP_OWNED_MAX = 8
};

/* Where an exchange stands. RUNNING: its handler runs in the pool. WAITING: the connection is suspended, and
 * whoever finishes the exchange resumes it. */
enum exchange_state { EXCHANGE_NEW, EXCHANGE_BODY, EXCHANGE_RUNNING, EXCHANGE_WAITING, EXCHANGE_DONE };

struct http_exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct http_request request;
    char path[HTTP_PATH_BYTES];
    char content_type[128];
    atomic_int state;
    bool has_body, refused; /* refused: an answer is set before the body was read */
    int64_t body_limit, body_seen;
    size_t body_capacity;
    unsigned char *body;
    struct hash hash;
    int64_t started_ms;
    /* the answer */
    int status;
    struct MHD_Response *response;
    struct {
        char name[64], value[256];
    } headers[HTTP_HEADERS_MAX];
    int n_headers;
    struct {
        void *memory;
        void (*free_fn)(void *);
    } owned[HTTP_OWNED_MAX];
    int n_owned;
    struct http_exchange *next; /* in the workers' queue */
};

struct http_workers {
    pthread_mutex_t mutex;
    pthread_cond_t wake, idle;
    struct http_exchange *head, **tail;
    unsigned length, limit, running, n_threads;
    bool closing;
    pthread_t threads[64];
};

struct connection_watch;
struct http_reaper {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t thread;
    bool started, closing;
    struct connection_watch *connections;
};

struct http_server {
    struct http_config config;
    struct MHD_Daemon *daemon;
    uint16_t port;
    struct http_workers workers;
    struct http_reaper reaper;
    atomic_bool stopping;
    atomic_int exchanges;
};

/* route.c: decodes strictly (no %00, %2f, %5c, control bytes, bad UTF-8); false when it may not be decoded.
 */
bool http_decode(const char *from, size_t n, char *out, size_t out_bytes);
/* The row for a method and decoded path segments, filling request.param. NULL: *status is NOT_FOUND or
 * METHOD_NOT_ALLOWED with the allowed methods in `allow`. */
const struct http_route *http_route_find(const struct http_config *config, struct http_exchange *exchange,
                                         const char *method, const char *raw_path, enum status *status,
                                         char allow[64]);

/* check.c: refuses a request by setting the exchange's answer; returns 0 or a negative status. */
int http_check_framing(struct http_exchange *exchange);
int http_check_origin(struct http_exchange *exchange);
int http_check_content_type(struct http_exchange *exchange);

/* body.c */
int http_body_begin(struct http_exchange *exchange);
int http_body_add(struct http_exchange *exchange, const char *bytes, size_t n);
int http_body_end(struct http_exchange *exchange);
void http_body_free(struct http_exchange *exchange);

/* workers.c */
int http_workers_start(struct http_workers *workers, unsigned threads, unsigned limit, struct error *error);
int http_workers_add(struct http_workers *workers, struct http_exchange *exchange);
void http_workers_stop(struct http_workers *workers);
/* Runs the route's handler and finishes the exchange unless it is pending. */
void http_run(struct http_exchange *exchange);

/* reaper.c: connections whose headers or bodies come too slowly are shut down. */
int http_reaper_start(struct http_reaper *reaper, struct error *error);
void http_reaper_stop(struct http_reaper *reaper);
void http_reaper_connection(struct http_reaper *reaper, struct MHD_Connection *connection,
                            void **socket_context, bool open);
/* Headers are complete (deadline 0), or a body is being read since `since_ms`. */
void http_reaper_headers_done(struct http_reaper *reaper, struct MHD_Connection *connection);
void http_reaper_request_done(struct http_reaper *reaper, struct MHD_Connection *connection);
void http_reaper_body(struct http_reaper *reaper, struct MHD_Connection *connection, int64_t bytes);

/* exchange.c */
void http_answer(struct http_exchange *exchange, int status, struct MHD_Response *response,
                 const char *content_type);

#endif
