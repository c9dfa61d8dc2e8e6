/*
 * /api/v1/attention: what needs a person, worked out from what is there now: nothing is stored, and nothing
 * is told that is not so any more.
 */
#include "server/api/api.h"

#include "server/base/clock.h"

#include <stdio.h>
#include <string.h>

enum { CERTIFICATE_DAYS = 14, DRIFT_INFERENCES = 20, DRIFT_TIMES = 3, DRIFT_LEAST_MS = 20 };
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

/* Certificates are renewed over the link at half-life (45 days): one that is about to end was not. */
static void add_certificate(json_t *items, const json_t *board)
{
    char until[32], text[128];
    if (strcmp(text_of(board, "state"), "accepted") != 0)
        return;
    clock_rfc3339(clock_wall_ms() + CERTIFICATE_DAYS * day_ms, until);
    const char *ends = text_of(board, "certificate_until_at");
    if (!*ends || strcmp(ends, until) > 0) /* RFC 3339 in UTC sorts as text */
        return;
    clock_rfc3339(clock_wall_ms(), until);
    bool ended = strcmp(ends, until) <= 0;
    (void)snprintf(text, sizeof text, "has a certificate that %s on %.10s", ended ? "ended" : "ends", ends);
    add(items, ended ? "error" : "warning", &(struct subject){"board", board, "name", "last_seen_at"}, text,
        ended ? "enrol it again with a new code"
              : "let it connect before then, it renews by itself; else enrol it again with a new code");
}

static void add_board(struct app *app, json_t *items, const json_t *board)
{
    const char *state = text_of(board, "state"), *link = text_of(board, "link");
    char text[256];
    add_certificate(items, board);
    if (strcmp(state, "pending") == 0)
        add(items, "warning", &(struct subject){"board", board, "name", "created_at"},
            "asks to join the fleet", "accept it, or revoke it when you do not know it");
    if (strcmp(state, "accepted") != 0 || strcmp(link, "online") == 0 ||
        !deploy_uses_board(app->deploy, text_of(board, "id")))
        return;
    (void)snprintf(text, sizeof text, "is %s and a deployment needs it%s%.150s",
                   strcmp(link, "stale") == 0 ? "silent" : link, *text_of(board, "reason") ? ": " : "",
                   text_of(board, "reason"));
    add(items, "error", &(struct subject){"board", board, "name", "since_at"}, text,
        "check its power and network, replace it by another board, or replan the deployment without it");
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

/* The median latency of a deployment's last inferences within the hour, or 0 when there are too few. */
static double median_ms(sqlite3 *telemetry, const char *deployment, const char *generation)
{
    json_t *row = NULL;
    (void)db_row(telemetry, NULL, &row,
                 "WITH last AS (SELECT latency_us, state FROM inference WHERE deployment = ?1 AND generation "
                 "= CAST(?2 AS INTEGER) AND begun_at > ?3 ORDER BY id DESC LIMIT 50), done AS (SELECT "
                 "latency_us, row_number() OVER (ORDER BY latency_us) AS k, count(*) OVER () AS n FROM last "
                 "WHERE state = 'done') SELECT min(latency_us) / 1000.0 AS ms FROM done WHERE k * 2 >= n AND "
                 "n >= ?4",
                 "ssii", deployment, generation, clock_wall_ms() - hour_ms, (int64_t)DRIFT_INFERENCES);
    double ms = json_number_value(json_object_get(row, "ms"));
    json_decref(row);
    return ms;
}

/* Drift: a deployment is far slower than its plan predicted from what was measured of the boards. */
static void add_drift(struct app *app, sqlite3 *db, json_t *items)
{
    json_t *row,
        *rows = db_rows(db, NULL,
                        "SELECT deployment.id, model, active_at, CAST(deployment.generation AS TEXT) AS "
                        "generation, json_extract(plan_json, '$.latency_ms') AS predicted FROM deployment "
                        "JOIN generation ON generation.deployment = deployment.id AND generation.generation "
                        "= deployment.generation JOIN plan ON plan.hash = generation.plan WHERE state = "
                        "'active' ORDER BY deployment.id DESC LIMIT 100",
                        "");
    sqlite3 *telemetry = store_telemetry_reader(app->store);
    size_t i;
    char text[200];
    json_array_foreach(rows, i, row)
    {
        double predicted = json_number_value(json_object_get(row, "predicted"));
        double measured =
            telemetry ? median_ms(telemetry, text_of(row, "id"), text_of(row, "generation")) : 0;
        if (measured < DRIFT_TIMES * predicted || measured - predicted < DRIFT_LEAST_MS)
            continue;
        (void)snprintf(text, sizeof text,
                       "takes %.1f ms an inference (median of the last), predicted were %.1f ms", measured,
                       predicted);
        add(items, "warning", &(struct subject){"deployment", row, "model", "active_at"}, text,
            "measure the boards again, then replan; see at its page which board is slow");
    }
    store_telemetry_reader_done(app->store, telemetry);
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
    add_drift(api_app(x), db, items);
    add_attempts(db, items);
    add_jobs(db, items);
    api_done(x, db);
    return http_json(x, 200, json_pack("{s:o, s:n}", "items", items, "next"));
}
