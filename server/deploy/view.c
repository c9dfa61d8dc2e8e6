/* Deployments as GET shows them: the store's rows with the progress of pushes laid over. Any thread. */
#include "server/deploy/internal.h"

#include "server/base/error_json.h"
#include "server/base/hash.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static const char columns[] = "SELECT id, model, version, state, generation, request_json, tags_json, "
                              "promoted AS promoted_bool, error_json, owner, "
                              "created_at, active_at, ended_at, actor FROM deployment ";

static void overlay_progress(struct deploy *deploy, json_t *part, bool over)
{
    const char *board = json_string_value(json_object_get(part, "board"));
    const char *fragment = json_string_value(json_object_get(part, "fragment"));
    uint64_t bytes = 0, of = 0;
    uint8_t hash[WIRE_HASH_BYTES];
    bool verified = !json_is_null(json_object_get(part, "verified_at"));
    const char *state = verified ? "verified" : "waiting";
    if (!*fragment)
        state = "unused";
    else if (!over && hash_from_hex(fragment, hash) &&
             fleet_push_progress(deploy->fleet, board, hash, &bytes, &of))
        state = "pushing";
    json_object_set_new(part, "state", json_string(state));
    json_object_set_new(part, "online", json_boolean(fleet_online(deploy->fleet, board)));
    json_int_t done =
        verified ? json_integer_value(json_object_get(part, "fragment_bytes")) : (json_int_t)bytes;
    json_object_set_new(part, "stored_bytes", json_integer(done));
}

/* What the plan says of each board, so that what is measured can stand beside it. Parsed once. */
static void add_plan(sqlite3 *db, json_t *json, const char *id, int64_t generation)
{
    json_t *plan = NULL, *row, *part;
    (void)db_row(
        db, NULL, &plan,
        "SELECT generation.plan AS hash, generation.created_at, json_extract(plan_json, "
        "'$.strategy') AS strategy, json_extract(plan_json, '$.shares') AS shares, "
        "json_extract(plan_json, '$.latency_ms') AS latency_ms, json_extract(plan_json, "
        "'$.bytes_moved') AS bytes_moved, json_extract(plan_json, '$.rounds') AS rounds FROM "
        "generation JOIN plan ON plan.hash = generation.plan WHERE deployment = ? AND generation = ?",
        "si", id, generation);
    json_object_set_new(json, "plan", plan ? plan : json_null());
    json_t *rows =
        db_rows(db, NULL,
                "SELECT key + 1 AS party, json_extract(value, '$.peak_bytes') AS peak_bytes, "
                "json_extract(value, '$.arena_bytes') AS arena_bytes, json_extract(value, "
                "'$.resident_bytes') AS resident_bytes, json_extract(value, '$.weight_bytes') AS "
                "weight_bytes FROM generation JOIN plan ON plan.hash = generation.plan, json_each(plan_json, "
                "'$.parties') WHERE deployment = ? AND generation = ?",
                "si", id, generation);
    size_t i, j;
    json_array_foreach(rows, i, row)
    {
        json_array_foreach(json_object_get(json, "boards"), j, part)
        {
            if (json_equal(json_object_get(part, "party"), json_object_get(row, "party")))
                json_object_update(part, row);
        }
    }
    json_decref(rows);
}

/* The deployment that a rollback would bring back; null: there is none. As act_rollback() looks for it. */
static void add_former(sqlite3 *db, json_t *json, const char *id)
{
    char *former = NULL;
    (void)db_text(
        db, NULL, &former,
        "SELECT id FROM deployment WHERE model = ? AND state = 'retired' AND generation > 0 AND id <> ? "
        "ORDER BY ended_at DESC LIMIT 1",
        "ss", json_string_value(json_object_get(json, "model")), id);
    json_object_set_new(json, "former", former ? json_string(former) : json_null());
    free(former);
}

json_t *deploy_json(struct deploy *deploy, sqlite3 *db, const char *id, struct error *error)
{
    char sql[512];
    json_t *json, *part;
    (void)snprintf(sql, sizeof sql, "%sWHERE id = ?", columns);
    int status = db_row(db, error, &json, sql, "s", id);
    if (status == 0)
        error_set(error, STATUS_NOT_FOUND, "no deployment %.40s", id);
    if (status != 1)
        return NULL;
    int64_t generation = json_integer_value(json_object_get(json, "generation"));
    json_t *parts = db_rows(
        db, error,
        "SELECT party, board, board.name AS name, fragment, fragment_bytes, verified_at FROM part JOIN "
        "board ON board.id = part.board WHERE deployment = ? AND generation = ? ORDER BY party",
        "si", id, generation);
    json_t *events = db_rows(
        db, error,
        "SELECT at, state, generation, reason, actor FROM deployment_event WHERE deployment = ? ORDER BY "
        "at, rowid",
        "s", id);
    bool over = !json_is_null(json_object_get(json, "ended_at"));
    size_t i;
    json_array_foreach(parts, i, part) overlay_progress(deploy, part, over);
    json_object_set_new(json, "boards", parts ? parts : json_array());
    json_object_set_new(json, "events", events ? events : json_array());
    add_plan(db, json, id, generation);
    add_former(db, json, id);
    return json;
}

json_t *deploy_list_json(struct deploy *deploy, sqlite3 *db, const char *model, const char *after,
                         int64_t limit, struct error *error)
{
    (void)deploy;
    char sql[640];
    (void)snprintf(sql, sizeof sql,
                   "%sWHERE (?1 IS NULL OR model = ?1) AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3",
                   columns);
    json_t *items = db_rows(db, error, sql, "ssi", model, after, limit + 1);
    if (!items)
        return NULL;
    json_t *next = json_null();
    if ((int64_t)json_array_size(items) > limit) {
        json_array_remove(items, (size_t)limit);
        next = json_incref(json_object_get(json_array_get(items, (size_t)limit - 1), "id"));
    }
    return json_pack("{s:o, s:o}", "items", items, "next", next);
}

json_t *deploy_plan_json(struct deploy *deploy, sqlite3 *db, const char *id, struct error *error)
{
    (void)deploy;
    json_t *row;
    int status = db_row(
        db, error, &row,
        "SELECT plan_json FROM plan JOIN generation ON generation.plan = plan.hash JOIN deployment ON "
        "deployment.id = generation.deployment AND deployment.generation = generation.generation WHERE "
        "deployment.id = ?",
        "s", id);
    if (status == 0)
        error_set(error, STATUS_NOT_FOUND, "deployment %.40s has no plan yet", id);
    if (status != 1)
        return NULL;
    json_t *plan = json_incref(json_object_get(row, "plan"));
    json_decref(row);
    return plan;
}
