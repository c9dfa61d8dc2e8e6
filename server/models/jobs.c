/*
 * The schedule job: one board's schedule and memory profile of a version and, where there is a fleet, a dry
 * run, so that both are there before anyone asks. A job is a row; `waiting` and `running` are taken up at the
 * start, so a job survives whatever ends the process.
 */
#include "server/models/internal.h"

#include "server/base/clock.h"
#include "server/base/error_json.h"
#include "server/base/log.h"
#include "server/base/stop.h"
#include "server/plan/describe.h"

#include <stdlib.h>
#include <string.h>

struct job {
    char *id, *model, *version;
    char *schedule, *dry_run; /* JSON texts; NULL: none */
    struct error error;
};

static void job_free(struct job *job)
{
    free(job->id);
    free(job->model);
    free(job->version);
    free(job->schedule);
    free(job->dry_run);
    memset(job, 0, sizeof *job);
}

/* The oldest job that waits: 1, or 0 when there is none. */
static int next_job(struct models *models, struct job *job)
{
    sqlite3 *db = store_reader(models->store);
    json_t *row = NULL;
    int status =
        db ? db_row(db, &job->error, &row,
                    "SELECT id, model, version FROM job WHERE state = 'waiting' ORDER BY id LIMIT 1", "")
           : STATUS_BUSY;
    store_reader_done(models->store, db);
    if (status == 1) {
        job->id = strdup(json_string_value(json_object_get(row, "id")));
        job->model = strdup(json_string_value(json_object_get(row, "model")));
        job->version = strdup(json_string_value(json_object_get(row, "version")));
        status = job->id && job->model && job->version ? 1 : STATUS_NO_MEMORY;
    }
    json_decref(row);
    return status;
}

static int write_running(sqlite3 *db, void *context, struct error *error)
{
    const struct job *job = context;
    return (int)db_exec(db, error, "UPDATE job SET state = 'running' WHERE id = ?", "s", job->id);
}

static int write_waiting(sqlite3 *db, void *context, struct error *error)
{
    (void)context;
    return (int)db_exec(db, error, "UPDATE job SET state = 'waiting' WHERE state = 'running'", "");
}

static int write_end(sqlite3 *db, void *context, struct error *error)
{
    const struct job *job = context;
    bool failed = job->error.status != STATUS_OK;
    json_t *json = failed ? error_json(&job->error) : NULL;
    char *text = failed ? json_dumps(json_object_get(json, "error"), JSON_COMPACT) : NULL;
    int64_t status = db_exec(db, error, "UPDATE job SET state = ?, error_json = ?, ended_at = ? WHERE id = ?",
                             "ssis", failed ? "failed" : "done", text, clock_wall_ms(), job->id);
    if (status >= 0 && job->schedule)
        status = db_exec(db, error,
                         "UPDATE version SET schedule_json = ?, dry_run_json = ? WHERE model = ? AND sha = ?",
                         "ssss", job->schedule, job->dry_run, job->model, job->version);
    free(text);
    json_decref(json);
    return (int)status;
}

/* What the fleet of this moment would make of it; a refusal is an answer too. No fleet: none. */
static void dry_run(struct models *models, struct job *job)
{
    json_t *request = json_pack("{s:s, s:s}", "model", job->model, "version", job->version);
    json_t *json = NULL;
    struct error error;
    error_clear(&error);
    int status = request ? deploy_dry_run(models->deploy, request, &json, &error) : STATUS_NO_MEMORY;
    if (status < 0 && status != STATUS_TOO_FEW_BOARDS) {
        json_t *refusal = error_json(&error);
        if (json)
            json_object_set(json_object_get(refusal, "error"), "detail", json);
        json_decref(json);
        json = refusal;
    } else if (status < 0) {
        json_decref(json);
        json = NULL;
    }
    job->dry_run = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    json_decref(request);
}

static void schedule(struct models *models, struct job *job)
{
    sqlite3 *db = store_reader(models->store);
    struct graph *graph = db ? deploy_load_graph(db, job->version, &job->error) : NULL;
    if (!db)
        error_set(&job->error, STATUS_BUSY, "no connection to the database");
    store_reader_done(models->store, db);
    json_t *json = graph ? describe_schedule(graph, &job->error) : NULL;
    graph_free(graph);
    job->schedule = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!job->schedule)
        error_set(&job->error, STATUS_NO_MEMORY, "out of memory");
    else
        dry_run(models, job);
}

/* Negative when its end could not be stored: it still waits, and is run again later. */
static int run(struct models *models, struct job *job)
{
    struct error error;
    error_clear(&error);
    error_clear(&job->error);
    if (store_write(models->store, write_running, job, &error) >= 0)
        models_publish(models, "job", job->id);
    schedule(models, job);
    if (stop_asked()) /* it may have been cut short: it runs again after the start */
        return STATUS_BUSY;
    int status = store_write(models->store, write_end, job, &error);
    if (status < 0)
        LOG_ERROR("models", "job %s was not stored: %s", job->id, error.message);
    else if (job->error.status)
        LOG_WARN("models", "job %s of %s failed: %s", job->id, job->model, job->error.message);
    models_publish(models, "job", job->id);
    models_publish(models, "model", job->model);
    models_job_settled(models, job->id);
    return status;
}

void models_job_added(struct models *models)
{
    pthread_mutex_lock(&models->mutex);
    models->jobs_waiting = true;
    pthread_cond_signal(&models->jobs_wake);
    pthread_mutex_unlock(&models->mutex);
}

void *models_run_jobs(void *context)
{
    struct models *models = context;
    struct error error;
    error_clear(&error);
    if (store_write(models->store, write_waiting, NULL, &error) < 0)
        LOG_ERROR("models", "unfinished jobs were not taken up: %s", error.message);
    for (;;) {
        pthread_mutex_lock(&models->mutex);
        while (!models->jobs_waiting && !models->closing)
            pthread_cond_wait(&models->jobs_wake, &models->mutex);
        bool closing = models->closing;
        models->jobs_waiting = false;
        pthread_mutex_unlock(&models->mutex);
        if (closing)
            return NULL;
        struct job job = {0};
        while (next_job(models, &job) == 1) {
            int status = run(models, &job);
            job_free(&job);
            pthread_mutex_lock(&models->mutex);
            closing = models->closing;
            pthread_mutex_unlock(&models->mutex);
            if (closing)
                return NULL;
            if (status < 0)
                break; /* a full disk: the next upload or start takes it up */
        }
        job_free(&job);
    }
}
