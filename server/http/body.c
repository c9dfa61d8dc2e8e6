/*
 * Request bodies: in memory up to a limit, or spooled into an unnamed file and hashed on the way. A body over
 * its limit is refused by its stated length before a byte is kept. Up to HTTP_SWALLOW further bytes are
 * swallowed, since many clients read no answer before they have sent all; what is larger, or waits for "100
 * Continue", is refused at once and the connection closed.
 */
#include "server/http/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t default_limit(enum http_body body)
{
    switch (body) {
    case HTTP_BODY_NONE:
        return 0;
    case HTTP_BODY_JSON:
        return HTTP_JSON_LIMIT;
    default:
        return HTTP_BODY_LIMIT;
    }
}

static int too_large(struct http_exchange *exchange, int64_t actual)
{
    struct error error;
    error_clear(&error);
    if (exchange->request.route->body == HTTP_BODY_NONE)
        error_set(&error, STATUS_INVALID_ARGUMENT, "this takes no body");
    else
        error_set(&error, STATUS_TOO_LARGE, "the body is larger than the limit of %lld bytes",
                  (long long)exchange->body_limit);
    error_limit(&error, exchange->body_limit, actual);
    http_fail(exchange, &error);
    return error.status;
}

int http_body_begin(struct http_exchange *exchange)
{
    const struct http_route *route = exchange->request.route;
    exchange->body_limit = route->body_limit ? route->body_limit : default_limit(route->body);
    const char *length = http_header(exchange, "Content-Length");
    if (length) {
        char *end;
        errno = 0;
        long long stated = strtoll(length, &end, 10);
        if (errno || *end || stated < 0) {
            http_fail_status(exchange, STATUS_INVALID_ARGUMENT, "the Content-Length is no number");
            return STATUS_INVALID_ARGUMENT;
        }
        if (stated > exchange->body_limit) {
            int status = too_large(exchange, stated);
            exchange->refused =
                stated <= exchange->body_limit + HTTP_SWALLOW && !http_header(exchange, "Expect");
            return exchange->refused ? 0 : status;
        }
    }
    if (route->body != HTTP_BODY_SPOOL)
        return 0;
    hash_begin(&exchange->hash);
    exchange->request.body_fd =
        open(exchange->server->config.spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (exchange->request.body_fd < 0) {
        http_fail_status(exchange, errno == ENOSPC ? STATUS_DISK_FULL : STATUS_IO_FAILED,
                         "the upload cannot be spooled: %s", strerror(errno));
        return STATUS_IO_FAILED;
    }
    return 0;
}

static int spool(struct http_exchange *exchange, const char *bytes, size_t n)
{
    hash_add(&exchange->hash, bytes, n);
    while (n) {
        ssize_t done = write(exchange->request.body_fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            http_fail_status(exchange, errno == ENOSPC ? STATUS_DISK_FULL : STATUS_IO_FAILED,
                             "the upload cannot be spooled: %s", strerror(errno));
            return STATUS_IO_FAILED;
        }
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

static int keep(struct http_exchange *exchange, const char *bytes, size_t n)
{
    size_t used = exchange->request.body_bytes;
    if (used + n + 1 > exchange->body_capacity) {
        size_t capacity = exchange->body_capacity ? exchange->body_capacity : 4096;
        while (capacity < used + n + 1)
            capacity *= 2;
        unsigned char *more = realloc(exchange->body, capacity);
        if (!more) {
            http_fail_status(exchange, STATUS_NO_MEMORY, "out of memory");
            return STATUS_NO_MEMORY;
        }
        exchange->body = more;
        exchange->body_capacity = capacity;
    }
    memcpy(exchange->body + used, bytes, n);
    exchange->body[used + n] = 0;
    exchange->request.body_bytes = used + n;
    return 0;
}

int http_body_add(struct http_exchange *exchange, const char *bytes, size_t n)
{
    exchange->body_seen += (int64_t)n;
    if (exchange->refused)
        return exchange->body_seen > exchange->body_limit + HTTP_SWALLOW ? STATUS_TOO_LARGE : 0;
    int status;
    if (exchange->body_seen > exchange->body_limit)
        status = too_large(exchange, exchange->body_seen);
    else if (exchange->request.body_fd >= 0)
        status = spool(exchange, bytes, n);
    else
        status = keep(exchange, bytes, n);
    exchange->refused = status < 0;
    return 0;
}

/* JSON bodies are parsed strictly: no duplicate keys, nothing behind the value. */
static int parse_json(struct http_exchange *exchange)
{
    if (exchange->request.body_bytes == 0)
        return 0;
    if (exchange->request.body_bytes > HTTP_JSON_LIMIT) {
        http_fail_status(exchange, STATUS_TOO_LARGE,
                         "JSON is taken up to %d bytes; send tensors as application/octet-stream",
                         HTTP_JSON_LIMIT);
        return STATUS_TOO_LARGE;
    }
    json_error_t where;
    exchange->request.json = json_loadb((const char *)exchange->body, exchange->request.body_bytes,
                                        JSON_REJECT_DUPLICATES, &where);
    if (exchange->request.json)
        return 0;
    struct error error;
    error_clear(&error);
    error_set(&error, STATUS_BAD_JSON, "line %d, column %d: %s", where.line, where.column, where.text);
    error_at_offset(&error, where.position);
    http_fail(exchange, &error);
    return STATUS_BAD_JSON;
}

int http_body_end(struct http_exchange *exchange)
{
    struct http_request *request = &exchange->request;
    request->body = exchange->body ? exchange->body : (const unsigned char *)"";
    if (request->route->body == HTTP_BODY_SPOOL) {
        uint8_t digest[HASH_BYTES];
        hash_end(&exchange->hash, digest);
        hash_hex(digest, request->body_sha);
        request->body_fd_bytes = exchange->body_seen;
        return 0;
    }
    bool tensor_json = request->route->body == HTTP_BODY_TENSOR &&
                       strcmp(exchange->content_type, "application/json") == 0 &&
                       !http_header(exchange, "Inference-Header-Content-Length");
    if (request->route->body == HTTP_BODY_JSON || tensor_json)
        return parse_json(exchange);
    return 0;
}

void http_body_free(struct http_exchange *exchange)
{
    free(exchange->body);
    json_decref(exchange->request.json);
    if (exchange->request.body_fd >= 0)
        close(exchange->request.body_fd);
}
