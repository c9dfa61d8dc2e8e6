/* Models, versions and jobs as GET shows them. Reads only; any thread. */
#include "server/models/internal.h"
#include "server/models/pixels.h"

#include <stdlib.h>
#include <string.h>

/* Cuts a list of limit + 1 rows to a page; `key` of its last row is where the next one begins. */
static json_t *page(json_t *items, int64_t limit, const char *key)
{
    json_t *next = json_null();
    if (!items)
        return NULL;
    if ((int64_t)json_array_size(items) > limit) {
        json_array_remove(items, (size_t)limit);
        next = json_incref(json_object_get(json_array_get(items, (size_t)limit - 1), key));
    }
    return json_pack("{s:o, s:o}", "items", items, "next", next);
}

#define MODEL_COLUMNS                                                                                       \
    "SELECT name, created_at, actor, (SELECT count(*) FROM version WHERE model = name) AS versions_count, " \
    "(SELECT version FROM deployment WHERE model = name AND state IN ('active', 'degraded') AND promoted "  \
    "ORDER BY active_at DESC LIMIT 1) AS active FROM model "

/* A version in short: figures without the schedule's steps. */
static int set_latest(sqlite3 *db, json_t *model, struct error *error)
{
    json_t *latest;
    int status = db_row(
        db, error, &latest,
        "SELECT sha AS version, serial, format, blob.bytes AS bytes, summary_json, schedule_json, created_at "
        "FROM version JOIN blob USING (sha) WHERE model = ? ORDER BY serial DESC LIMIT 1",
        "s", json_string_value(json_object_get(model, "name")));
    if (status < 0)
        return status;
    json_object_del(json_object_get(json_object_get(latest, "schedule"), "partial"), "steps");
    json_object_set_new(model, "latest", latest ? latest : json_null());
    return 0;
}

json_t *models_list_json(sqlite3 *db, const char *after, int64_t limit, struct error *error)
{
    json_t *rows = db_rows(db, error, MODEL_COLUMNS "WHERE name > ? ORDER BY name LIMIT ?", "si",
                           after ? after : "", limit + 1);
    json_t *list = page(rows, limit, "name"), *row;
    size_t i;
    json_array_foreach(json_object_get(list, "items"), i, row)
    {
        if (set_latest(db, row, error) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *models_json(sqlite3 *db, const char *name, struct error *error)
{
    json_t *model;
    int status = db_row(db, error, &model, MODEL_COLUMNS "WHERE name = ?", "s", name);
    if (status == 0)
        error_set(error, STATUS_NOT_FOUND, "no model is named '%.80s'", name);
    if (status != 1)
        return NULL;
    json_t *versions = db_rows(
        db, error,
        "SELECT sha AS version, serial, format, blob.bytes AS bytes, created_at, actor, (SELECT state FROM "
        "job WHERE job.model = version.model AND job.version = version.sha ORDER BY id DESC LIMIT 1) AS "
        "job_state FROM version JOIN blob USING (sha) WHERE model = ? ORDER BY serial DESC LIMIT 100",
        "s", name);
    if (!versions || set_latest(db, model, error) < 0) {
        json_decref(model);
        json_decref(versions);
        return NULL;
    }
    json_object_set_new(model, "versions", versions);
    return model;
}

static int resolve(sqlite3 *db, const char *name, const char *version, char sha[65], struct error *error)
{
    return deploy_resolve_version(db, name, version, sha, error);
}

json_t *models_version_json(sqlite3 *db, const char *name, const char *version, struct error *error)
{
    char sha[65];
    json_t *row;
    if (resolve(db, name, version, sha, error) < 0)
        return NULL;
    int status = db_row(
        db, error, &row,
        "SELECT model, sha AS version, serial, format, blob.bytes AS bytes, summary_json, "
        "json_array_length(labels_json) AS labels, input_json, schedule_json, dry_run_json, created_at, "
        "actor FROM version JOIN blob USING (sha) WHERE model = ? AND sha = ?",
        "ss", name, sha);
    if (status != 1)
        return NULL;
    json_t *image = json_object_get(json_object_get(row, "summary"), "image");
    json_object_set_new(row, "input", pixels_effective(image, json_object_get(row, "input")));
    json_t *job = NULL;
    (void)db_row(db, NULL, &job,
                 "SELECT id, kind, state, error_json, created_at, ended_at FROM job WHERE model = ? AND "
                 "version = ? ORDER BY id DESC LIMIT 1",
                 "ss", name, sha);
    json_object_set_new(row, "job", job ? job : json_null());
    return row;
}

json_t *models_layers_json(sqlite3 *db, const char *name, const char *version, struct error *error)
{
    char sha[65];
    json_t *row;
    if (resolve(db, name, version, sha, error) < 0 ||
        db_row(db, error, &row, "SELECT layers_json FROM version WHERE model = ? AND sha = ?", "ss", name,
               sha) != 1)
        return NULL;
    json_t *items = json_incref(json_object_get(row, "layers"));
    json_decref(row);
    return json_pack("{s:o, s:n}", "items", items, "next");
}

json_t *models_labels_json(sqlite3 *db, const char *name, const char *version, struct error *error)
{
    char sha[65];
    json_t *row;
    if (resolve(db, name, version, sha, error) < 0 ||
        db_row(db, error, &row, "SELECT labels_json FROM version WHERE model = ? AND sha = ?", "ss", name,
               sha) != 1)
        return NULL;
    json_t *labels = json_incref(json_object_get(row, "labels"));
    json_decref(row);
    return labels;
}

#define JOB_COLUMNS \
    "SELECT id, kind, state, model, version, error_json, created_at, ended_at, actor FROM job "

json_t *models_job_json(sqlite3 *db, const char *id, struct error *error)
{
    json_t *job;
    if (db_row(db, error, &job, JOB_COLUMNS "WHERE id = ?", "s", id) == 0)
        error_set(error, STATUS_NOT_FOUND, "no job %.40s", id);
    return job;
}

json_t *models_jobs_json(sqlite3 *db, const char *after, int64_t limit, struct error *error)
{
    return page(db_rows(db, error, JOB_COLUMNS "WHERE (?1 IS NULL OR id < ?1) ORDER BY id DESC LIMIT ?2",
                        "si", after, limit + 1),
                limit, "id");
}

void models_publish(struct models *models, const char *kind, const char *id)
{
    if (!models->publish)
        return;
    sqlite3 *db = store_reader(models->store);
    json_t *json = NULL;
    if (db)
        json = strcmp(kind, "job") == 0 ? models_job_json(db, id, NULL) : models_json(db, id, NULL);
    store_reader_done(models->store, db);
    if (json)
        models->publish(models->publish_context, kind, json);
    json_decref(json);
}
