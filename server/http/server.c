/*
 * The daemon and the life of a request: first call: framing, route, Host and Origin, content type, body
 * limit; then the body; then the handler, in the pool or by a worker; then the answer. A refusal is queued at
 * once where no body was read yet, else after the body was swallowed.
 */
#include "server/http/internal.h"

#include "server/base/clock.h"
#include "server/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POOL_THREADS = 2, IDLE_TIMEOUT_S = 75 };

static const char security_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static void connection_changed(void *context, struct MHD_Connection *connection, void **socket_context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    http_reaper_connection(&server->reaper, connection, socket_context,
                           code == MHD_CONNECTION_NOTIFY_STARTED);
}

static enum MHD_Result queue_answer(struct http_exchange *exchange)
{
    struct MHD_Response *response = exchange->response;
    for (int i = 0; i < exchange->n_headers; i++)
        MHD_add_response_header(response, exchange->headers[i].name, exchange->headers[i].value);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy", security_policy);
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    return MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
}

/* First call of a request: everything that can be said before the body. */
static int admit(struct http_exchange *exchange, const char *method, const char *url)
{
    struct http_server *server = exchange->server;
    exchange->request.method = method;
    exchange->request.path = exchange->path;
    exchange->request.actor = "local";
    exchange->request.app = server->config.app;
    if (strlen(url) >= sizeof exchange->path) {
        http_fail_status(exchange, STATUS_INVALID_ARGUMENT, "the path is too long");
        return STATUS_INVALID_ARGUMENT;
    }
    memcpy(exchange->path, url, strlen(url) + 1);
    if (atomic_load(&server->stopping)) {
        http_fail_status(exchange, STATUS_BUSY, "the server is stopping");
        return STATUS_BUSY;
    }
    int status = http_check_framing(exchange);
    if (status == 0)
        status = http_check_origin(exchange);
    if (status < 0)
        return status;
    enum status why;
    char allow[64];
    exchange->request.route = http_route_find(&server->config, exchange, method, url, &why, allow);
    if (!exchange->request.route) {
        bool other = why == STATUS_METHOD_NOT_ALLOWED;
        if (other)
            http_set_header(exchange, "Allow", allow);
        http_fail_status(exchange, why, "%s %s: %s%s%s", method, url, status_text(why),
                         other ? "; it takes " : "", other ? allow : "");
        return why;
    }
    status = http_check_content_type(exchange);
    return status < 0 ? status : http_body_begin(exchange);
}

static struct http_exchange *exchange_new(struct http_server *server, struct MHD_Connection *connection)
{
    struct http_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->server = server;
    exchange->connection = connection;
    exchange->request.body_fd = -1;
    atomic_fetch_add(&server->exchanges, 1);
    return exchange;
}

/* Runs the handler where its route says. YES: call again later, or the answer is queued. */
static enum MHD_Result dispatch(struct http_exchange *exchange)
{
    if (exchange->request.route->where == HTTP_WORKER) {
        atomic_store(&exchange->state, EXCHANGE_WAITING);
        MHD_suspend_connection(exchange->connection);
        if (http_workers_add(&exchange->server->workers, exchange) < 0) {
            http_fail_status(exchange, STATUS_BUSY, "too many requests are waiting");
            http_finish(exchange);
        }
        return MHD_YES;
    }
    atomic_store(&exchange->state, EXCHANGE_RUNNING);
    http_run(exchange);
    if (atomic_load(&exchange->state) == EXCHANGE_DONE)
        return queue_answer(exchange);
    MHD_suspend_connection(exchange->connection);
    int running = EXCHANGE_RUNNING;
    if (!atomic_compare_exchange_strong(&exchange->state, &running, EXCHANGE_WAITING))
        MHD_resume_connection(exchange->connection);
    return MHD_YES;
}

static enum MHD_Result access_handler(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_bytes, void **request_context)
{
    (void)version;
    struct http_server *server = context;
    struct http_exchange *exchange = *request_context;
    if (!exchange) {
        exchange = exchange_new(server, connection);
        if (!exchange)
            return MHD_NO;
        *request_context = exchange;
        http_reaper_headers_done(&server->reaper, connection);
        if (admit(exchange, method, url) < 0)
            return queue_answer(exchange);
        atomic_store(&exchange->state, EXCHANGE_BODY);
        return MHD_YES;
    }
    if (*data_bytes) {
        http_reaper_body(&server->reaper, connection, (int64_t)*data_bytes);
        int status = http_body_add(exchange, data, *data_bytes);
        *data_bytes = 0;
        return status < 0 ? MHD_NO : MHD_YES;
    }
    if (atomic_load(&exchange->state) == EXCHANGE_DONE)
        return queue_answer(exchange);
    http_reaper_request_done(&server->reaper, connection);
    if (exchange->refused || http_body_end(exchange) < 0)
        return queue_answer(exchange);
    return dispatch(exchange);
}

static void request_completed(void *context, struct MHD_Connection *connection, void **request_context,
                              enum MHD_RequestTerminationCode code)
{
    (void)connection;
    (void)code;
    struct http_server *server = context;
    struct http_exchange *exchange = *request_context;
    if (!exchange)
        return;
    http_reaper_request_done(&server->reaper, exchange->connection);
    for (int i = 0; i < exchange->n_owned; i++)
        exchange->owned[i].free_fn(exchange->owned[i].memory);
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    http_body_free(exchange);
    free(exchange);
    *request_context = NULL;
    atomic_fetch_sub(&server->exchanges, 1);
}

/* "127.0.0.1:8080" or "[::1]:8080". */
static int parse_listen(const char *text, struct sockaddr_storage *address, struct error *error)
{
    char host[128];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    if (!colon || n == 0 || n >= sizeof host || end == colon + 1 || *end || port < 0 || port > 65535)
        return error_set(error, STATUS_INVALID_ARGUMENT, "--listen needs ADDRESS:PORT, not '%s'", text);
    memcpy(host, text, n);
    host[n] = 0;
    memset(address, 0, sizeof *address);
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    if (host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1 || !IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "--listen takes a loopback address for now, not '%s'", text);
        return 0;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    if (strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", 10);
    if (inet_pton(AF_INET, host, &v4->sin_addr) != 1 || (ntohl(v4->sin_addr.s_addr) >> 24) != 127)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "--listen takes a loopback address for now, not '%s'", text);
    return 0;
}

static int listen_on(struct http_server *server, struct error *error)
{
    struct sockaddr_storage address;
    int status = parse_listen(server->config.listen, &address, error);
    if (status < 0)
        return status;
    socklen_t n = address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0)
        return error_set(error, STATUS_IO_FAILED, "socket: %s", strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, n) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &n) != 0) {
        status = error_set(error, STATUS_IO_FAILED, "cannot listen on %s: %s", server->config.listen,
                           strerror(errno));
        close(fd);
        return status;
    }
    server->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                       : ((struct sockaddr_in *)&address)->sin_port);
    return fd;
}

int http_start(struct http_server **out, const struct http_config *config, struct error *error)
{
    *out = NULL;
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    server->config = *config;
    int fd = listen_on(server, error);
    int status =
        fd < 0 ? fd : http_workers_start(&server->workers, config->workers, config->worker_queue, error);
    if (status >= 0)
        status = http_reaper_start(&server->reaper, error);
    if (status >= 0) {
        server->daemon = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, server->port, NULL, NULL,
            access_handler, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
            (unsigned)POOL_THREADS, MHD_OPTION_CONNECTION_LIMIT, config->connections,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_UNESCAPE_CALLBACK,
            keep_escapes, NULL, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, server,
            MHD_OPTION_NOTIFY_COMPLETED, request_completed, server, MHD_OPTION_END);
        if (!server->daemon)
            status = error_set(error, STATUS_INTERNAL, "the HTTP server cannot be started");
    }
    if (status < 0) {
        if (fd >= 0 && !server->daemon)
            close(fd);
        http_stop(server);
        return status;
    }
    *out = server;
    return 0;
}

uint16_t http_port(const struct http_server *server)
{
    return server->port;
}

void http_refuse(struct http_server *server)
{
    atomic_store(&server->stopping, true);
}

void http_stop(struct http_server *server)
{
    if (!server)
        return;
    http_refuse(server);
    http_workers_stop(&server->workers);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    http_reaper_stop(&server->reaper);
    free(server);
}
