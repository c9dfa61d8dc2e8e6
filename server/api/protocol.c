/* Inference protocol: server, health and metadata. What a model takes and gives is read from the store, since
 * a model that is not deployed has metadata too. */
#include "server/api/protocol.h"

#include "server/base/version.h"

#include <string.h>

int v2_server(struct http_exchange *x)
{
    return http_json(x, 200,
                     json_pack("{s:s, s:s, s:[s]}", "name", "shoal", "version", SHOAL_VERSION, "extensions",
                               "binary_tensor_data"));
}

int v2_live(struct http_exchange *x)
{
    return http_json(x, 200, json_pack("{s:b}", "live", 1));
}

int v2_ready(struct http_exchange *x)
{
    return http_json(x, 200, json_pack("{s:b}", "ready", 1));
}

struct infer_route *v2_route(struct http_exchange *x, const char *name, const char *version)
{
    struct app *app = api_app(x);
    struct error error;
    error_clear(&error);
    char sha[65] = "";
    int status = 0;
    if (version && *version) {
        sqlite3 *db = api_reader(x);
        if (!db)
            return NULL;
        status = deploy_resolve_version(db, name, version, sha, &error);
        api_done(x, db);
    }
    struct infer_route *route = NULL;
    if (status >= 0)
        status = deploy_route(app->deploy, name, sha, &route, &error);
    if (status == STATUS_NOT_DEPLOYED) { /* or there is no such model */
        char any[65];
        struct error unknown;
        error_clear(&unknown);
        sqlite3 *db = store_reader(app->store);
        if (db && deploy_resolve_version(db, name, "latest", any, &unknown) == STATUS_NOT_FOUND)
            error = unknown;
        store_reader_done(app->store, db);
    }
    if (!route)
        http_fail(x, &error);
    return route;
}

static json_t *ends(const json_t *list)
{
    json_t *out = json_array(), *end;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)list, i, end) json_array_append_new(
        out, json_pack("{s:O, s:O, s:O}", "name", json_object_get(end, "name"), "datatype",
                       json_object_get(end, "datatype"), "shape", json_object_get(end, "shape")));
    return out;
}

static json_t *version_names(sqlite3 *db, const char *name)
{
    json_t *rows =
        db_rows(db, NULL,
                "SELECT substr(sha, 1, 12) AS name FROM version WHERE model = ? ORDER BY serial DESC "
                "LIMIT 100",
                "s", name);
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row) json_array_append(list, json_object_get(row, "name"));
    json_decref(rows);
    return list;
}

int v2_model(struct http_exchange *x)
{
    const char *name = api_param(x, 0), *version = api_param(x, 1);
    struct error error;
    error_clear(&error);
    char sha[65];
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    int status = deploy_resolve_version(db, name, *version ? version : "active", sha, &error);
    if (status == STATUS_NOT_FOUND && !*version) {
        error_clear(&error);
        status = deploy_resolve_version(db, name, "latest", sha, &error);
    }
    json_t *row = NULL, *json = NULL;
    if (status >= 0)
        (void)db_row(db, &error, &row, "SELECT summary_json FROM version WHERE model = ? AND sha = ?", "ss",
                     name, sha);
    if (row) {
        const json_t *summary = json_object_get(row, "summary");
        sha[12] = 0;
        json = json_pack("{s:s, s:s, s:o, s:s, s:o, s:o}", "name", name, "version", sha, "versions",
                         version_names(db, name), "platform", "shoal", "inputs",
                         ends(json_object_get(summary, "inputs")), "outputs",
                         ends(json_object_get(summary, "outputs")));
    }
    api_done(x, db);
    json_decref(row);
    return api_answer(x, json, &error);
}

int v2_model_ready(struct http_exchange *x)
{
    struct infer_route *route = v2_route(x, api_param(x, 0), api_param(x, 1));
    if (!route)
        return 0;
    infer_route_release(route);
    return http_json(x, 200, json_pack("{s:s, s:b}", "name", api_param(x, 0), "ready", 1));
}
