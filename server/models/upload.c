/*
 * An upload: import in the limited child, then file, graph, version and schedule job in one transaction. The
 * same file twice, also at the same moment, is one version. A new version inherits labels and input settings
 * from the latest one.
 */
#include "server/models/internal.h"

#include "server/base/clock.h"
#include "server/models/pixels.h"
#include "server/plan/describe.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>

struct storing {
    const struct models_upload *upload;
    struct models_uploaded *uploaded;
    json_t *image; /* of the new version, for checking what it inherits */
    unsigned char *graph;
    size_t graph_bytes;
    char *summary, *layers;
    const char *format;
    int64_t now_ms;
};

/* 1 with the version's last job when this model has it, 0 when not. */
static int find_known(sqlite3 *db, const struct models_upload *upload, struct models_uploaded *uploaded,
                      struct error *error)
{
    int64_t n = 0;
    int status = db_int(db, error, &n, "SELECT count(*) FROM version WHERE model = ? AND sha = ?", "ss",
                        upload->name, upload->sha);
    if (status < 0 || n == 0)
        return status < 0 ? status : 0;
    char *job = NULL;
    status = db_text(db, error, &job,
                     "SELECT id FROM job WHERE model = ? AND version = ? ORDER BY id DESC LIMIT 1", "ss",
                     upload->name, upload->sha);
    if (status < 0)
        return status;
    uploaded->known = true;
    uploaded->job[0] = 0;
    if (job)
        strncpy(uploaded->job, job, sizeof uploaded->job - 1);
    free(job);
    return 1;
}

/* What the latest version has and the new one can use. *labels and *input are malloc'ed. */
static int inherit(sqlite3 *db, const struct storing *storing, char **labels, char **input,
                   struct error *error)
{
    static const char latest[] = "FROM version WHERE model = ? ORDER BY serial DESC LIMIT 1";
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT labels_json %s", latest);
    int status = db_text(db, error, labels, sql, "s", storing->upload->name);
    if (status < 0)
        return status;
    snprintf(sql, sizeof sql, "SELECT input_json %s", latest);
    status = db_text(db, error, input, sql, "s", storing->upload->name);
    if (status < 0)
        return status;
    json_t *settings = *input ? json_loads(*input, 0, NULL) : NULL;
    if (settings && pixels_check(storing->image, settings, NULL) < 0) {
        free(*input);
        *input = NULL;
    }
    json_decref(settings);
    if (!*labels)
        *labels = strdup("[]");
    if (!*input)
        *input = strdup("{}");
    return *labels && *input ? 0 : error_set(error, STATUS_NO_MEMORY, "out of memory");
}

static int insert_version(sqlite3 *db, const struct storing *storing, const char *labels, const char *input,
                          struct error *error)
{
    const struct models_upload *upload = storing->upload;
    int status = (int)db_exec(
        db, error, "INSERT INTO model (name, created_at, actor) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        "sis", upload->name, storing->now_ms, upload->actor);
    if (status >= 0)
        status = store_blob_put_fd(db, upload->sha, upload->fd, upload->bytes, error);
    if (status < 0)
        return status;
    return (int)db_exec(
        db, error,
        "INSERT INTO version (model, sha, serial, format, graph, summary_json, layers_json, labels_json, "
        "input_json, created_at, actor) VALUES (?1, ?2, (SELECT coalesce(max(serial), 0) + 1 FROM version "
        "WHERE model = ?1), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        "sssbssssis", upload->name, upload->sha, storing->format, storing->graph, storing->graph_bytes,
        storing->summary, storing->layers, labels, input, storing->now_ms, upload->actor);
}

static int write_upload(sqlite3 *db, void *context, struct error *error)
{
    const struct storing *storing = context;
    const struct models_upload *upload = storing->upload;
    int status = find_known(db, upload, storing->uploaded, error);
    if (status != 0)
        return status;
    char *labels = NULL, *input = NULL;
    status = inherit(db, storing, &labels, &input, error);
    if (status >= 0)
        status = insert_version(db, storing, labels, input, error);
    free(labels);
    free(input);
    if (status < 0)
        return status;
    id_ulid(storing->uploaded->job);
    return (int)db_exec(db, error,
                        "INSERT INTO job (id, kind, state, model, version, created_at, actor) VALUES (?, "
                        "'schedule', 'waiting', ?, ?, ?, ?)",
                        "sssis", storing->uploaded->job, upload->name, upload->sha, storing->now_ms,
                        upload->actor);
}

static int describe(struct storing *storing, const struct graph *graph, struct error *error)
{
    json_t *layers = describe_layers(graph), *summary = layers ? models_summary(graph, layers) : NULL;
    if (summary) {
        storing->image = json_incref(json_object_get(summary, "image"));
        storing->summary = json_dumps(summary, JSON_COMPACT | JSON_REAL_PRECISION(9));
        storing->layers =
            json_dumps(json_object_get(layers, "layers"), JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    json_decref(layers);
    json_decref(summary);
    if (!storing->summary || !storing->layers)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    return graph_write(graph, &storing->graph, &storing->graph_bytes, error);
}

int models_upload(struct models *models, const struct models_upload *upload, struct models_uploaded *uploaded,
                  struct error *error)
{
    memset(uploaded, 0, sizeof *uploaded);
    int status = models_check_name(upload->name, error);
    if (status < 0)
        return status;
    sqlite3 *db = store_reader(models->store);
    status = db ? find_known(db, upload, uploaded, error) : error_set(error, STATUS_BUSY, "busy");
    store_reader_done(models->store, db);
    if (status != 0)
        return status < 0 ? status : 0;
    struct graph *graph = import_file(upload->fd, (size_t)upload->bytes, upload->name, error);
    if (!graph)
        return error->status;
    struct storing storing = {
        .upload = upload, .uploaded = uploaded, .format = "tflite", .now_ms = clock_wall_ms()};
    status = describe(&storing, graph, error);
    graph_free(graph);
    if (status >= 0)
        status = store_write(models->store, write_upload, &storing, error);
    free(storing.graph);
    free(storing.summary);
    free(storing.layers);
    json_decref(storing.image);
    if (status < 0)
        return status;
    if (!uploaded->known) {
        models_publish(models, "model", upload->name);
        models_job_added(models);
    }
    return 0;
}
