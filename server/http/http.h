/*
 * HTTP over libmicrohttpd: routing from a table, limits, strict decoding, the checks that make loopback safe,
 * and server-sent events. It knows nothing of models or boards: handlers come with the routes.
 *
 * Threads. MHD's pool only parses, spools bodies and writes answers. A route says where its handler runs:
 * INLINE in the pool (a quick read, never blocking), or WORKER in a small pool with a bounded queue (may
 * block; full means 503 with Retry-After). Either may return HTTP_PENDING after it has handed the exchange
 * on; then whoever finishes it calls http_finish() once, from any thread.
 */
#ifndef SHOAL_SERVER_HTTP_HTTP_H
#define SHOAL_SERVER_HTTP_HTTP_H

#include "server/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_PARAMS_MAX = 3, HTTP_PARAM_BYTES = 256, HTTP_PENDING = 1, HTTP_HEADERS_MAX = 8 };

enum http_where { HTTP_INLINE, HTTP_WORKER };

/* What a body may be. JSON: parsed, at most 1 MiB. BINARY: application/octet-stream, or no type. TENSOR: JSON
 * or octet-stream (the inference protocol). IMAGE: PNG or JPEG, or no type. SPOOL: as BINARY, into an unnamed
 * file. */
enum http_body {
    HTTP_BODY_NONE,
    HTTP_BODY_JSON,
    HTTP_BODY_BINARY,
    HTTP_BODY_TENSOR,
    HTTP_BODY_IMAGE,
    HTTP_BODY_SPOOL
};

enum http_role { HTTP_ROLE_VIEWER, HTTP_ROLE_OPERATOR, HTTP_ROLE_ADMIN };

struct http_exchange;
typedef int http_handler(struct http_exchange *exchange);

/* One row of the route table. openapi.json is made from it. */
struct http_route {
    const char *method;
    const char *path; /* "/api/v1/models/{name}"; {x} matches one segment */
    enum http_role role;
    enum http_where where;
    enum http_body body;
    int64_t body_limit; /* bytes; 0: the body kind's default */
    http_handler *handler;
    const char *summary;                          /* one line */
    const char *request_schema, *response_schema; /* names in the schema table, or NULL */
};

/* A request as a handler sees it; valid until the exchange is finished. */
struct http_request {
    const struct http_route *route;
    const char *method, *path;                     /* path decoded */
    char param[HTTP_PARAMS_MAX][HTTP_PARAM_BYTES]; /* decoded, in the pattern's order */
    const char *actor;                             /* who asks: "local" until there are tokens */
    const char *content_type;                      /* without parameters, lower case; "" when missing */
    json_t *json; /* HTTP_BODY_JSON, and TENSOR without a binary part: the parsed body or NULL when empty */
    const unsigned char *body; /* in memory; NUL follows */
    size_t body_bytes;
    int body_fd; /* HTTP_BODY_SPOOL: an unnamed file, positioned anywhere; -1 otherwise */
    int64_t body_fd_bytes;
    char body_sha[65]; /* HTTP_BODY_SPOOL: SHA-256 of the body in hex */
    void *app;         /* http_config.app */
};

const struct http_request *http_request(const struct http_exchange *exchange);
/* A query value, decoded; NULL when it is not given. A header, NULL when it is not there. */
const char *http_query(const struct http_exchange *exchange, const char *name);
const char *http_header(const struct http_exchange *exchange, const char *name);
/* A query value as an integer in [lo, hi]; `fallback` when it is not given. Sets 400 and returns a negative
 * status otherwise. */
int http_query_int(struct http_exchange *exchange, const char *name, int64_t lo, int64_t hi, int64_t fallback,
                   int64_t *value);

/* The answer. Each takes ownership of json (malloc'ed bytes). They return 0, so a handler may `return
 * http_json(...)`. */
int http_json(struct http_exchange *exchange, int status, json_t *json);
int http_bytes(struct http_exchange *exchange, int status, const char *content_type, unsigned char *bytes,
               size_t n);
/* Static memory that outlives the server. */
int http_static(struct http_exchange *exchange, int status, const char *content_type, const void *bytes,
                size_t n);
int http_fail(struct http_exchange *exchange, const struct error *error);
int http_fail_status(struct http_exchange *exchange, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int http_set_header(struct http_exchange *exchange, const char *name,
                    const char *value); /* both are copied */

/* The client has closed its side, or the connection broke: nobody reads the answer. While a handler runs in a
 * worker. */
bool http_client_gone(const struct http_exchange *exchange);

/* Finishes an exchange whose handler returned HTTP_PENDING; the answer has been set. */
void http_finish(struct http_exchange *exchange);
/* The handler's own memory, freed with `free_fn` when the exchange ends (also when the client has gone). */
void http_own(struct http_exchange *exchange, void *memory, void (*free_fn)(void *));

/* ---- server-sent events: one ring for all clients ---- */
struct http_events;
struct http_events *http_events_new(uint32_t ring); /* e.g. 1000 */
/* Ends all streams and lets no new one begin; before http_stop. */
void http_events_close(struct http_events *events);
void http_events_free(struct http_events *events); /* after http_stop */
/* Publishes an event to all clients. `json` is borrowed. Any thread. */
void http_events_publish(struct http_events *events, const char *name, const json_t *json);
/* A handler's answer: streams events from Last-Event-ID (or ?last_event_id) on; an unknown id begins with an
 * event `reset`. A comment every 15 s. */
int http_events_stream(struct http_exchange *exchange, struct http_events *events);

/* ---- the server ---- */
struct http_config {
    const char *listen; /* "127.0.0.1:8080", port 0 picks one; loopback addresses only */
    const struct http_route *routes;
    size_t n_routes;
    const char *spool_dir; /* where unnamed files are made */
    unsigned workers;      /* worker threads */
    unsigned worker_queue; /* bounded queue before them */
    unsigned connections;  /* at most */
    const char *const
        *allowed_hosts; /* NULL-terminated further Host values besides loopback names; may be NULL */
    /* Below this path errors take the form {"error":"text"}, as the inference protocol wants; NULL: nowhere.
     */
    const char *text_errors_under;
    void *app;
};
struct http_server;
int http_start(struct http_server **server, const struct http_config *config, struct error *error);
uint16_t http_port(const struct http_server *server);
/* From now on new requests get 503; those that run go on. Then stop what handlers depend on, finish what is
 * pending, and call http_stop, which waits for running exchanges (all pending ones must be finished) and ends
 * the server. */
void http_refuse(struct http_server *server);
void http_stop(struct http_server *server);

#endif
