/*
 * From a raw URL to a row of the route table. The path is cut at '/' before anything is decoded, each segment
 * is decoded strictly, and names are compared whole: no URL is ever joined to a folder.
 */
#include "server/http/internal.h"

#include "server/base/utf8.h"

#include <stdio.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool http_decode(const char *from, size_t n, char *out, size_t out_bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)from[i];
        if (c == '%') {
            int high = n - i > 2 ? hex_digit(from[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(from[i + 2]) : -1;
            if (low < 0)
                return false;
            c = high * 16 + low;
            i += 2;
            if (c == '/' || c == '\\')
                return false;
        }
        if (c < 0x20 || c == 0x7f || used + 1 >= out_bytes)
            return false;
        out[used++] = (char)c;
    }
    out[used] = 0;
    return utf8_valid(out, used);
}

/* Matches one pattern against a raw path; fills parameters. -1: a segment that may not be decoded. */
static int match(const char *pattern, const char *path, struct http_request *request)
{
    int n = 0;
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        size_t pattern_n = strcspn(pattern, "/"), path_n = strcspn(path, "/");
        char segment[HTTP_PARAM_BYTES];
        if (!http_decode(path, path_n, segment, sizeof segment))
            return -1;
        if (pattern[0] == '{') {
            if (path_n == 0 || n == HTTP_PARAMS_MAX)
                return 0;
            memcpy(request->param[n++], segment, strlen(segment) + 1);
        } else if (strlen(segment) != pattern_n || memcmp(segment, pattern, pattern_n) != 0) {
            return 0;
        }
        pattern += pattern_n;
        path += path_n;
    }
    return *pattern == 0 && *path == 0;
}

const struct http_route *http_route_find(const struct http_config *config, struct http_exchange *exchange,
                                         const char *method, const char *raw_path, enum status *status,
                                         char allow[64])
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *status = STATUS_NOT_FOUND;
    allow[0] = 0;
    for (size_t i = 0; i < config->n_routes; i++) {
        const struct http_route *route = &config->routes[i];
        int matched = match(route->path, raw_path, &exchange->request);
        if (matched < 0)
            *status = STATUS_INVALID_ARGUMENT;
        if (matched <= 0)
            continue;
        if (strcmp(route->method, wanted) == 0)
            return route;
        *status = STATUS_METHOD_NOT_ALLOWED;
        size_t used = strlen(allow);
        (void)snprintf(allow + used, 64 - used, "%s%s", used ? ", " : "", route->method);
    }
    return NULL;
}
