/* The embedded web page: names looked up exactly, with ETag. */
#include "server/api/api.h"

#include "server/base/embed.h"

#include <stdio.h>
#include <string.h>

static int serve(struct http_exchange *x, const char *name)
{
    const struct embed_file *file = embed_web_find(name);
    if (!file)
        return http_fail_status(x, STATUS_NOT_FOUND, "no such resource");
    http_set_header(x, "ETag", file->etag);
    http_set_header(x, "Cache-Control", "no-cache");
    const char *known = http_header(x, "If-None-Match");
    if (known && (strcmp(known, "*") == 0 || strstr(known, file->etag)))
        return http_static(x, 304, file->type, "", 0);
    return http_static(x, 200, file->type, file->bytes, file->size);
}

int api_index(struct http_exchange *x)
{
    return serve(x, "index.html");
}

int api_asset(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    char name[2 * HTTP_PARAM_BYTES + 2];
    (void)snprintf(name, sizeof name, "%s%s%s", request->param[0], request->param[1][0] ? "/" : "",
                   request->param[1]);
    return serve(x, name);
}
