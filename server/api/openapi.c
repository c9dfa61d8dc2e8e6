/* /openapi.json, made from the route table: paths, methods, parameters, bodies, roles. */
#include "server/api/api.h"
#include "server/api/routes.h"
#include "server/base/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *body_type(enum http_body body)
{
    switch (body) {
    case HTTP_BODY_JSON:
        return "application/json";
    case HTTP_BODY_IMAGE:
        return "image/*";
    case HTTP_BODY_BINARY:
    case HTTP_BODY_SPOOL:
    case HTTP_BODY_TENSOR:
        return "application/octet-stream";
    case HTTP_BODY_NONE:
        break;
    }
    return NULL;
}

static json_t *parameters(const char *path)
{
    json_t *list = json_array();
    for (const char *at = path; (at = strchr(at, '{')) != NULL;) {
        size_t n = strcspn(++at, "}");
        json_array_append_new(list, json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", at, n, "in", "path",
                                              "required", 1, "schema", "type", "string"));
    }
    return list;
}

static json_t *operation(const struct http_route *route)
{
    static const char *const roles[] = {"viewer", "operator", "admin"};
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:{s:{s:s}, s:{s:s}}}", "summary", route->summary, "x-role",
                  roles[route->role], "parameters", parameters(route->path), "responses", "200",
                  "description", route->response_schema ? route->response_schema : "done", "default",
                  "description", "an error: {\"error\":{\"code\",\"message\",\"detail\"}}");
    const char *type = body_type(route->body);
    json_t *content = json_object();
    if (type)
        json_object_set_new(content, type, json_object());
    if (route->body == HTTP_BODY_TENSOR)
        json_object_set_new(content, "application/json", json_object());
    if (type)
        json_object_set_new(
            json, "requestBody",
            json_pack("{s:s?, s:O}", "description", route->request_schema, "content", content));
    json_decref(content);
    if (route->body_limit)
        json_object_set_new(json, "x-body-limit-bytes", json_integer(route->body_limit));
    return json;
}

int api_openapi(struct http_exchange *x)
{
    size_t n;
    const struct http_route *routes = api_routes(&n);
    json_t *paths = json_object();
    for (size_t i = 0; i < n; i++) {
        char method[8] = "";
        for (size_t c = 0; routes[i].method[c] && c < sizeof method - 1; c++)
            method[c] = (char)tolower((unsigned char)routes[i].method[c]);
        if (!json_object_get(paths, routes[i].path))
            json_object_set_new(paths, routes[i].path, json_object());
        json_object_set_new(json_object_get(paths, routes[i].path), method, operation(&routes[i]));
    }
    return http_json(x, 200,
                     json_pack("{s:s, s:{s:s, s:s}, s:o}", "openapi", "3.0.3", "info", "title", "Shoal",
                               "version", SHOAL_VERSION, "paths", paths));
}
