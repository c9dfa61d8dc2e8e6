/*
 * One request and its answer. The answer is set once (the first wins) and queued by the pool; an exchange is
 * finished from any thread through http_finish(), which must not touch it afterwards.
 */
#include "server/http/internal.h"

#include "server/base/error_json.h"
#include "server/base/json_text.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct http_request *http_request(const struct http_exchange *exchange)
{
    return &exchange->request;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *http_query(const struct http_exchange *exchange, const char *name)
{
    const char *raw = MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
    if (!raw)
        return NULL;
    size_t n = strlen(raw);
    char *decoded = malloc(n + 1);
    if (!decoded)
        return NULL;
    if (!http_decode(raw, n, decoded, n + 1))
        decoded[0] = 0;
    struct http_exchange *owner = (struct http_exchange *)(uintptr_t)exchange;
    if (owner->n_owned == HTTP_OWNED_MAX) {
        free(decoded);
        return NULL;
    }
    http_own(owner, decoded, free);
    return decoded;
}

int http_query_int(struct http_exchange *exchange, const char *name, int64_t lo, int64_t hi, int64_t fallback,
                   int64_t *value)
{
    *value = fallback;
    const char *text = MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end || number < lo || number > hi) {
        http_fail_status(exchange, STATUS_INVALID_ARGUMENT, "?%s is a whole number from %lld to %lld", name,
                         (long long)lo, (long long)hi);
        return STATUS_INVALID_ARGUMENT;
    }
    *value = number;
    return 0;
}

void http_own(struct http_exchange *exchange, void *memory, void (*free_fn)(void *))
{
    if (exchange->n_owned == HTTP_OWNED_MAX)
        abort();
    exchange->owned[exchange->n_owned].memory = memory;
    exchange->owned[exchange->n_owned++].free_fn = free_fn;
}

int http_set_header(struct http_exchange *exchange, const char *name, const char *value)
{
    if (exchange->n_headers == HTTP_HEADERS_MAX)
        return STATUS_INTERNAL;
    int n = exchange->n_headers++;
    (void)snprintf(exchange->headers[n].name, sizeof exchange->headers[n].name, "%s", name);
    (void)snprintf(exchange->headers[n].value, sizeof exchange->headers[n].value, "%s", value);
    return 0;
}

void http_answer(struct http_exchange *exchange, int status, struct MHD_Response *response,
                 const char *content_type)
{
    if (exchange->response || !response) {
        if (response)
            MHD_destroy_response(response);
        return;
    }
    exchange->status = status;
    exchange->response = response;
    MHD_add_response_header(response, "Content-Type", content_type);
}

int http_json(struct http_exchange *exchange, int status, json_t *json)
{
    char *text = json_text(json);
    json_decref(json);
    if (!text)
        return http_fail_status(exchange, STATUS_NO_MEMORY, "out of memory");
    size_t n = strlen(text);
    text[n] = '\n'; /* in the place of the NUL, so that a terminal's prompt starts a line */
    return http_bytes(exchange, status, "application/json", (unsigned char *)text, n + 1);
}

int http_bytes(struct http_exchange *exchange, int status, const char *content_type, unsigned char *bytes,
               size_t n)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(n, bytes, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(bytes);
    http_answer(exchange, status, response, content_type);
    return 0;
}

int http_static(struct http_exchange *exchange, int status, const char *content_type, const void *bytes,
                size_t n)
{
    void *borrowed = (void *)(uintptr_t)bytes;
    http_answer(exchange, status, MHD_create_response_from_buffer(n, borrowed, MHD_RESPMEM_PERSISTENT),
                content_type);
    return 0;
}

/* "/v2" and all below it, but not "/v2x". */
static bool wants_text_errors(const struct http_exchange *exchange)
{
    const char *under = exchange->server->config.text_errors_under;
    size_t n = under ? strlen(under) : 0;
    return n && strncmp(exchange->path, under, n) == 0 && (exchange->path[n] == '/' || !exchange->path[n]);
}

int http_fail(struct http_exchange *exchange, const struct error *error)
{
    int status = status_http(error->status);
    if (status == 503)
        http_set_header(exchange, "Retry-After", "1");
    if (wants_text_errors(exchange)) {
        json_t *text = json_string(error->message[0] ? error->message : status_text(error->status));
        if (!text)
            text = json_string(status_text(error->status));
        return http_json(exchange, status, json_pack("{s:o}", "error", text));
    }
    return http_json(exchange, status, error_json(error));
}

int http_fail_status(struct http_exchange *exchange, enum status status, const char *format, ...)
{
    struct error error;
    error_clear(&error);
    char message[ERROR_MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof message, format, list);
    va_end(list);
    error_set(&error, status, "%s", message);
    return http_fail(exchange, &error);
}

bool http_client_gone(const struct http_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd poller = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};
    return poll(&poller, 1, 0) == 1 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void http_finish(struct http_exchange *exchange)
{
    struct MHD_Connection *connection = exchange->connection;
    int old = atomic_exchange(&exchange->state, EXCHANGE_DONE);
    if (old == EXCHANGE_WAITING)
        MHD_resume_connection(connection);
}
