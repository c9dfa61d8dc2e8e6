/* /api/v1/enrolments: one-time codes and failed attempts. A code itself is shown once, when it is made. */
#include "server/api/api.h"

#include <string.h>

static int list(struct http_exchange *x, const char *sql)
{
    struct error error;
    error_clear(&error);
    int64_t limit;
    const char *after;
    if (!api_page(x, &limit, &after))
        return 0;
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *rows = db_rows(db, &error, sql, "si", after, limit + 1);
    api_done(x, db);
    return api_answer(x, api_list(rows, limit, "id"), &error);
}

int api_enrolments(struct http_exchange *x)
{
    return list(x,
                "SELECT id, accept AS accept_bool, name_prefix, uses_left, tries_left, expires_at, "
                "created_at, actor FROM enrolment WHERE (?1 IS NULL OR id < ?1) ORDER BY id DESC LIMIT ?2");
}

int api_attempts(struct http_exchange *x)
{
    return list(x, "SELECT id, at, address, code, reason, action FROM attempt WHERE (?1 IS NULL OR id < ?1) "
                   "ORDER BY id DESC LIMIT ?2");
}

int api_enrolment_post(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    struct fleet_enrolment options = {.ttl_s = 900, .uses = 1, .name_prefix = ""};
    const json_t *body = request->json;
    if (api_check_keys(x, body, "accept|ttl_s|uses|name_prefix") < 0 ||
        !api_bool(x, body, "accept", &options.accept) ||
        !api_int(x, body, "ttl_s", 1, 7 * 86400, &options.ttl_s) ||
        !api_int(x, body, "uses", 1, 1000, &options.uses) ||
        !api_text(x, body, "name_prefix", &options.name_prefix))
        return 0;
    json_t *json = fleet_enrol(api_app(x)->fleet, &options, request->actor, &error);
    return json ? http_json(x, 201, json) : http_fail(x, &error);
}

static int write_delete(sqlite3 *db, void *context, struct error *error)
{
    int64_t n = db_exec(db, error, "DELETE FROM enrolment WHERE id = ?", "s", (const char *)context);
    return n == 0 ? error_set(error, STATUS_NOT_FOUND, "no such enrolment") : (int)n;
}

int api_enrolment_delete(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    char id[HTTP_PARAM_BYTES];
    memcpy(id, api_param(x, 0), sizeof id);
    if (store_write(api_app(x)->store, write_delete, id, &error) < 0)
        return http_fail(x, &error);
    return http_json(x, 200, json_pack("{s:s}", "removed", id));
}
