/* /api/v1/boards. What a board is comes from the fleet; whether it may be unplugged, from the deployments. */
#include "server/api/api.h"
#include "server/api/routes.h"

#include <string.h>

void api_complete_board(struct deploy *deploy, json_t *board)
{
    const char *id = json_string_value(json_object_get(board, "id"));
    if (!id)
        return;
    bool used = deploy_uses_board(deploy, id);
    json_object_set_new(board, "in_use", json_boolean(used));
    json_object_set_new(board, "safe_to_unplug",
                        json_boolean(!used && json_is_true(json_object_get(board, "drained"))));
}

int api_boards(struct http_exchange *x)
{
    struct app *app = api_app(x);
    struct error error;
    error_clear(&error);
    int64_t limit;
    const char *after;
    if (!api_page(x, &limit, &after))
        return 0;
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = fleet_boards_json(app->fleet, db, after, limit, &error), *board;
    api_done(x, db);
    size_t i;
    json_array_foreach(json_object_get(json, "items"), i, board) api_complete_board(app->deploy, board);
    return api_answer(x, json, &error);
}

static int show(struct http_exchange *x, const char *id)
{
    struct app *app = api_app(x);
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *board = fleet_board_json(app->fleet, db, id, &error);
    api_done(x, db);
    if (board)
        api_complete_board(app->deploy, board);
    return api_answer(x, board, &error);
}

int api_board(struct http_exchange *x)
{
    return show(x, api_param(x, 0));
}

/* The id of the board in the path; false with the answer set. */
static bool resolve(struct http_exchange *x, char id[FLEET_ID_BYTES])
{
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return false;
    int status = fleet_resolve(api_app(x)->fleet, db, api_param(x, 0), id, &error);
    api_done(x, db);
    if (status < 0)
        http_fail(x, &error);
    return status >= 0;
}

int api_board_patch(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    char id[FLEET_ID_BYTES];
    if (api_check_keys(x, request->json, "name|location|tags") < 0 || !resolve(x, id))
        return 0;
    if (request->json && fleet_edit(api_app(x)->fleet, id, request->json, request->actor, &error) < 0)
        return http_fail(x, &error);
    return show(x, id);
}

/* A board's parts in deployments that are over, or in generations that are: they go with it. */
static int drop_old_parts(sqlite3 *db, void *context, struct error *error)
{
    return (int)db_exec(db, error,
                        "DELETE FROM part WHERE board = ? AND (deployment, generation) NOT IN (SELECT id, "
                        "generation FROM deployment WHERE ended_at IS NULL)",
                        "s", (const char *)context);
}

int api_board_delete(struct http_exchange *x)
{
    struct app *app = api_app(x);
    struct error error;
    error_clear(&error);
    char id[FLEET_ID_BYTES];
    if (!resolve(x, id))
        return 0;
    int status = 0;
    if (deploy_uses_board(app->deploy, id))
        status = error_set(&error, STATUS_CONFLICT, "a deployment uses the board; drain it first");
    if (status >= 0)
        status = store_write(app->store, drop_old_parts, id, &error);
    if (status >= 0)
        status = fleet_forget(app->fleet, id, http_request(x)->actor, &error);
    if (status < 0)
        error_set(&error, (enum status)status, "%s", status_text(status));
    return status < 0 ? http_fail(x, &error) : http_json(x, 200, json_pack("{s:s}", "removed", id));
}

static int drain(struct app *app, const char *id, const char *actor, struct error *error)
{
    int status = fleet_drain(app->fleet, id, true, actor, error);
    if (status < 0)
        return status;
    status = deploy_leave_board(app->deploy, id);
    return status < 0 ? error_set(error, (enum status)status, "deployments were not planned anew: %s",
                                  status_text(status))
                      : 0;
}

static int act(struct app *app, const char *id, const char *name, const char *actor, struct error *error)
{
    if (strcmp(name, "accept") == 0)
        return fleet_accept(app->fleet, id, actor, error);
    if (strcmp(name, "revoke") == 0)
        return fleet_revoke(app->fleet, id, actor, error);
    if (strcmp(name, "probe") == 0)
        return fleet_probe(app->fleet, id, error);
    if (strcmp(name, "drain") == 0)
        return drain(app, id, actor, error);
    if (strcmp(name, "undrain") == 0)
        return fleet_drain(app->fleet, id, false, actor, error);
    if (strcmp(name, "identify") == 0 || strcmp(name, "reboot") == 0)
        return fleet_do(app->fleet, id, name, error);
    return error_set(
        error, STATUS_NOT_FOUND,
        "a board knows accept, revoke, probe, drain, undrain, replace, identify and reboot, not '%.40s'",
        name);
}

int api_board_act(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    char id[FLEET_ID_BYTES];
    if (!resolve(x, id))
        return 0;
    int status = act(api_app(x), id, api_param(x, 1), http_request(x)->actor, &error);
    if (status < 0) {
        error_set(&error, (enum status)status, "%s", status_text(status));
        return http_fail(x, &error);
    }
    return show(x, id);
}

/* Another board takes the place of this one; the answer is that board, by its new name. */
int api_board_replace(struct http_exchange *x)
{
    struct app *app = api_app(x);
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    char old[FLEET_ID_BYTES], by[FLEET_ID_BYTES];
    const char *named = NULL;
    if (api_check_keys(x, request->json, "by") < 0 || !api_text(x, request->json, "by", &named) ||
        !resolve(x, old))
        return 0;
    if (!named)
        return http_fail_status(x, STATUS_INVALID_ARGUMENT,
                                "'by' is missing: the board that takes the place");
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    int status = fleet_resolve(app->fleet, db, named, by, &error);
    api_done(x, db);
    if (status >= 0)
        status = deploy_replace_board(app->deploy, old, by, request->actor, &error);
    return status < 0 ? http_fail(x, &error) : show(x, by);
}

int api_board_log(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    char id[FLEET_ID_BYTES];
    int64_t limit;
    const char *after;
    if (!api_page(x, &limit, &after) || !resolve(x, id))
        return 0;
    sqlite3 *db = store_telemetry_reader(api_app(x)->store);
    json_t *rows = db ? db_rows(db, &error,
                                "SELECT id, at, level, text FROM board_log WHERE board = ?1 AND (?2 IS NULL "
                                "OR id < ?2) ORDER BY id DESC LIMIT ?3",
                                "ssi", id, after, limit + 1)
                      : NULL;
    store_telemetry_reader_done(api_app(x)->store, db);
    return api_answer(x, api_list(rows, limit, "id"), &error);
}

int api_board_readings(struct http_exchange *x)
{
    char id[FLEET_ID_BYTES];
    if (!resolve(x, id))
        return 0;
    return http_json(x, 200,
                     json_pack("{s:o, s:n}", "items", fleet_readings_json(api_app(x)->fleet, id), "next"));
}

int api_board_states(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    char id[FLEET_ID_BYTES];
    int64_t limit;
    const char *after;
    if (!api_page(x, &limit, &after) || !resolve(x, id))
        return 0;
    sqlite3 *db = store_telemetry_reader(api_app(x)->store);
    json_t *rows = db ? db_rows(db, &error,
                                "SELECT CAST(rowid AS TEXT) AS id, at, state, reason FROM board_state WHERE "
                                "board = ?1 AND (?2 IS NULL OR rowid < CAST(?2 AS INTEGER)) ORDER BY rowid "
                                "DESC LIMIT ?3",
                                "ssi", id, after, limit + 1)
                      : NULL;
    store_telemetry_reader_done(api_app(x)->store, db);
    return api_answer(x, api_list(rows, limit, "id"), &error);
}
