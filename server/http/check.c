/*
 * The checks that make a server on loopback safe from web pages and confused proxies: framing, Host against
 * an allow-list (DNS rebinding), Origin on writes (cross-site requests), content types.
 */
#include "server/http/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct framing {
    int lengths, encodings, hosts;
    const char *length;
    bool differ;
};

static enum MHD_Result count_framing(void *context, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    (void)kind;
    struct framing *framing = context;
    if (strcasecmp(name, "Content-Length") == 0) {
        framing->differ |= framing->length && value && strcmp(framing->length, value) != 0;
        framing->lengths++;
        framing->length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->encodings++;
    } else if (strcasecmp(name, "Host") == 0) {
        framing->hosts++;
    }
    return MHD_YES;
}

int http_check_framing(struct http_exchange *exchange)
{
    struct framing framing = {0};
    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, count_framing, &framing);
    int status = 0;
    if (framing.lengths > 1 || framing.differ || (framing.lengths && framing.encodings))
        status = http_fail_status(exchange, STATUS_INVALID_ARGUMENT,
                                  "the request's length is stated more than once");
    else if (framing.hosts != 1)
        status =
            http_fail_status(exchange, STATUS_INVALID_ARGUMENT, "a request needs exactly one Host header");
    else
        return 0;
    (void)status;
    http_set_header(exchange, "Connection", "close");
    return STATUS_INVALID_ARGUMENT;
}

/* The host name of "name", "name:port", "[v6]:port", lower case. */
static bool host_name(const char *host, char *out, size_t out_bytes)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (n == 0 || n >= out_bytes)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 : host[i]);
    out[n] = 0;
    return true;
}

static bool host_allowed(const struct http_server *server, const char *host)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]", NULL};
    char name[256];
    if (!host || !host_name(host, name, sizeof name))
        return false;
    for (int i = 0; loopback[i]; i++)
        if (strcmp(name, loopback[i]) == 0)
            return true;
    for (int i = 0; server->config.allowed_hosts && server->config.allowed_hosts[i]; i++)
        if (strcmp(name, server->config.allowed_hosts[i]) == 0)
            return true;
    return false;
}

/* An Origin is allowed when it is this very server as the client sees it: scheme and the Host header. */
static bool origin_allowed(const char *origin, const char *host)
{
    const char *rest = strncasecmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncasecmp(origin, "https://", 8) == 0 ? origin + 8
                                                                 : NULL;
    return rest && strcasecmp(rest, host) == 0;
}

int http_check_origin(struct http_exchange *exchange)
{
    const char *host = http_header(exchange, "Host");
    if (!host_allowed(exchange->server, host)) {
        http_fail_status(exchange, STATUS_FORBIDDEN,
                         "the Host header names another server; this one is localhost, 127.0.0.1 or [::1]");
        return STATUS_FORBIDDEN;
    }
    if (strcmp(exchange->request.method, "GET") == 0 || strcmp(exchange->request.method, "HEAD") == 0)
        return 0;
    const char *origin = http_header(exchange, "Origin");
    const char *site = http_header(exchange, "Sec-Fetch-Site");
    if ((origin && !origin_allowed(origin, host)) || (site && !origin && strcmp(site, "cross-site") == 0)) {
        http_fail_status(exchange, STATUS_FORBIDDEN, "writes from other origins are refused");
        return STATUS_FORBIDDEN;
    }
    return 0;
}

static void copy_content_type(struct http_exchange *exchange)
{
    const char *type = http_header(exchange, "Content-Type");
    size_t n = type ? strcspn(type, "; \t") : 0;
    if (n >= sizeof exchange->content_type)
        n = sizeof exchange->content_type - 1;
    for (size_t i = 0; i < n; i++)
        exchange->content_type[i] = (char)(type[i] >= 'A' && type[i] <= 'Z' ? type[i] + 32 : type[i]);
    exchange->content_type[n] = 0;
    exchange->request.content_type = exchange->content_type;
}

static bool type_is(const struct http_exchange *exchange, const char *type)
{
    return strcmp(exchange->content_type, type) == 0;
}

/* What the route takes, and a line of curl that sends it. */
static bool type_allowed(const struct http_exchange *exchange, const char **wanted, const char **curl)
{
    bool octets = type_is(exchange, "application/octet-stream"), json = type_is(exchange, "application/json");
    bool none = exchange->content_type[0] == 0;
    switch (exchange->request.route->body) {
    case HTTP_BODY_JSON:
        *wanted = "application/json";
        *curl = "-H 'Content-Type: application/json' -d '{...}'";
        return json || (none && exchange->body_limit == 0);
    case HTTP_BODY_TENSOR:
        *wanted = "application/json or application/octet-stream";
        *curl = "-H 'Content-Type: application/octet-stream' --data-binary @FILE";
        return json || octets || none;
    case HTTP_BODY_IMAGE:
        *wanted = "image/png or image/jpeg";
        *curl = "-H 'Content-Type: image/png' --data-binary @FILE.png";
        return type_is(exchange, "image/png") || type_is(exchange, "image/jpeg") || octets || none;
    case HTTP_BODY_BINARY:
    case HTTP_BODY_SPOOL:
        *wanted = "application/octet-stream";
        *curl = "-T FILE";
        return octets || none;
    case HTTP_BODY_NONE:
        break;
    }
    return true;
}

int http_check_content_type(struct http_exchange *exchange)
{
    copy_content_type(exchange);
    const char *length = http_header(exchange, "Content-Length");
    bool empty = !http_header(exchange, "Transfer-Encoding") && (!length || strcmp(length, "0") == 0);
    const char *wanted = NULL, *curl = NULL;
    if (empty || type_allowed(exchange, &wanted, &curl))
        return 0;
    http_fail_status(exchange, STATUS_UNSUPPORTED_MEDIA_TYPE,
                     "this needs %s, for example: curl -X %s %s http://%s%s", wanted,
                     exchange->request.method, curl, http_header(exchange, "Host"), exchange->request.path);
    return STATUS_UNSUPPORTED_MEDIA_TYPE;
}
