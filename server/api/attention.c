/*
 * /api/v1/attention: what needs a person, worked out from what is there now: nothing is stored, and nothing
 * is told that is not so any more.
 */
#include "server/api/api.h"

#include "server/base/clock.h"

#include <stdio.h>
#include <string.h>

static const int64_t hour_ms = 3600 * 1000, day_ms = 24 * 3600 * 1000;

/* Where an item comes from: a row with its name and since when. */
struct subject {
    const char *kind;
    const json_t *row;
    const char *name_key, *since_key;
};

static void add(json_t *items, const char *severity, const struct subject *subject, const char *text,
                const char *action)
{
    const char *name = json_string_value(json_object_get(subject->row, subject->name_key));
    json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:O?, s:O?, s:s, s:s}", "severity", severity,
                                           "subject", name ? name : "", "kind", subject->kind, "id",
                                           json_object_get(subject->row, "id"), "since_at",
                                           json_object_get(subject->row, subject->since_key), "text", text,
                                           "action", action));
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void add_board(struct app *app, json_t *items, const json_t *board)
{
    const char *state = text_of(board, "state"), *link = text_of(board, "link");
    char text[256];
    if (strcmp(state, "pending") == 0)
        add(items, "warning", &(struct subject){"board", board, "name", "created_at"},
            "asks to join the fleet", "accept it, or revoke it when you do not know it");
    if (strcmp(state, "accepted") != 0 || strcmp(link, "online") == 0 ||
        !deploy_uses_board(app->deploy, text_of(board, "id")))
        return;
    (void)snprintf(text, sizeof text, "is %s and a deployment needs it%s%.150s", link,
                   *text_of(board, "reason") ? ": " : "", text_of(board, "reason"));
    add(items, "error", &(struct subject){"board", board, "name", "since_at"}, text,
        "check its power and network, or replan the deployment without it");
}

static void add_boards(struct app *app, sqlite3 *db, json_t *items)
{
    json_t *boards = fleet_boards_json(app->fleet, db, NULL, FLEET_BOARDS_MAX, NULL), *board;
    size_t i;
    json_array_foreach(json_object_get(boards, "items"), i, board) add_board(app, items, board);
    json_decref(boards);
}

static void add_deployments(sqlite3 *db, json_t *items)
{
    json_t *row,
        *rows = db_rows(db, NULL,
                        "SELECT id, model, state, error_json, (SELECT at FROM deployment_event WHERE "
                        "deployment = d.id ORDER BY at DESC, rowid DESC LIMIT 1) AS since_at, (SELECT "
                        "reason FROM deployment_event WHERE deployment = d.id ORDER BY at DESC, "
                        "rowid DESC LIMIT 1) AS reason FROM deployment AS d "
                        "WHERE state = 'degraded' OR (state = 'failed' AND ended_at > ? AND NOT "
                        "EXISTS (SELECT 1 FROM deployment WHERE model = d.model AND id > d.id)) "
                        "ORDER BY id DESC LIMIT 100",
                        "i", clock_wall_ms() - day_ms);
    size_t i;
    char text[400];
    json_array_foreach(rows, i, row)
    {
        bool failed = strcmp(text_of(row, "state"), "failed") == 0;
        const char *why = failed ? text_of(json_object_get(row, "error"), "message") : text_of(row, "reason");
        (void)snprintf(text, sizeof text, "%s%s%.300s", failed ? "its deployment failed" : "does not answer",
                       *why ? ": " : "", why);
        add(items, "error", &(struct subject){"deployment", row, "model", "since_at"}, text,
            failed ? "see the reason, change what it names, deploy again"
                   : "bring the board back, or replan from the boards that are online");
    }
    json_decref(rows);
}

static void add_attempts(sqlite3 *db, json_t *items)
{
    json_t *row,
        *rows =
            db_rows(db, NULL,
                    "SELECT max(id) AS id, max(at) AS since_at, rtrim(rtrim(address, '0123456789'), ':') AS "
                    "host, code, reason, action, count(*) AS n FROM attempt WHERE at > ? GROUP BY host, code "
                    "ORDER BY 1 DESC LIMIT 20",
                    "i", clock_wall_ms() - hour_ms);
    size_t i;
    char text[400];
    json_array_foreach(rows, i, row)
    {
        (void)snprintf(text, sizeof text, "was turned away in the last hour (%lld): %.300s",
                       (long long)json_integer_value(json_object_get(row, "n")), text_of(row, "reason"));
        add(items, "warning", &(struct subject){"attempt", row, "host", "since_at"}, text,
            text_of(row, "action"));
    }
    json_decref(rows);
}

static void add_jobs(sqlite3 *db, json_t *items)
{
    json_t *row, *rows = db_rows(db, NULL,
                                 "SELECT id, model, ended_at, error_json FROM job WHERE state = 'failed' AND "
                                 "ended_at > ? ORDER BY id DESC LIMIT 20",
                                 "i", clock_wall_ms() - day_ms);
    size_t i;
    char text[400];
    json_array_foreach(rows, i, row)
    {
        (void)snprintf(text, sizeof text, "could not be scheduled: %.300s",
                       text_of(json_object_get(row, "error"), "message"));
        add(items, "warning", &(struct subject){"job", row, "model", "ended_at"}, text, "upload it again");
    }
    json_decref(rows);
}

int api_attention(struct http_exchange *x)
{
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *items = json_array();
    add_deployments(db, items);
    add_boards(api_app(x), db, items);
    add_attempts(db, items);
    add_jobs(db, items);
    api_done(x, db);
    return http_json(x, 200, json_pack("{s:o, s:n}", "items", items, "next"));
}
