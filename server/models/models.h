/*
 * Models: what users uploaded, and what is worked out from it before anyone asks.
 *
 * A version is immutable and named by the SHA-256 of its file; labels and input settings belong to it but may
 * be changed. An upload is imported in the limited child, then file, graph, version and schedule job are
 * stored in one transaction: what was answered is whole on the disk. The schedule job (one thread of this
 * module) takes up unfinished jobs at the start.
 *
 * [any] quick reads; [worker] may block, not for the HTTP pool.
 */
#ifndef SHOAL_SERVER_MODELS_MODELS_H
#define SHOAL_SERVER_MODELS_MODELS_H

#include "server/deploy/deploy.h"

enum { MODELS_NAME_BYTES = 64, MODELS_LABELS_BYTES_MAX = 1 << 20, MODELS_LABELS_MAX = 65536 };

struct models;

int models_start(struct models **models, struct store *store, struct deploy *deploy,
                 fleet_publish_fn *publish, void *publish_context, struct error *error);
/* Joins the threads and calls all waiters. Afterwards reads and uploads still work (a job waits for the next
 * start), models_wait refuses. Before deploy_stop. */
void models_stop(struct models *models);
void models_free(struct models *models);

/* [a-z0-9][a-z0-9._-]{0,62}; STATUS_INVALID_ARGUMENT otherwise. */
int models_check_name(const char *name, struct error *error);

struct models_upload {
    const char *name, *actor;
    int fd; /* the file; borrowed, its offset is not moved */
    int64_t bytes;
    const char *sha; /* of its content, hex */
};
struct models_uploaded {
    bool known; /* this model had this version before */
    char job[27];
};
/* Errors of import_file, with layer, operator and offset; of the store. [worker] */
int models_upload(struct models *models, const struct models_upload *upload, struct models_uploaded *uploaded,
                  struct error *error);

/* Resources as GET gives them; new references; NULL with `error` set. [any] */
json_t *models_list_json(sqlite3 *db, const char *after, int64_t limit, struct error *error);
json_t *models_json(sqlite3 *db, const char *name, struct error *error);
/* `version` as deploy_resolve_version takes it. */
json_t *models_version_json(sqlite3 *db, const char *name, const char *version, struct error *error);
json_t *models_layers_json(sqlite3 *db, const char *name, const char *version, struct error *error);
json_t *models_labels_json(sqlite3 *db, const char *name, const char *version, struct error *error);
json_t *models_job_json(sqlite3 *db, const char *id, struct error *error);
json_t *models_jobs_json(sqlite3 *db, const char *after, int64_t limit, struct error *error);

/* A line each, UTF-8; empty clears. More lines than the first output has elements are refused. [worker] */
int models_set_labels(struct models *models, const char *name, const char *version, const void *text,
                      size_t bytes, struct error *error);
/* {"fit","channels","scale","offset"}, each may be missing: then it is guessed. [worker] */
int models_set_input(struct models *models, const char *name, const char *version, const json_t *settings,
                     struct error *error);

/* DELETE; STATUS_CONFLICT while a deployment that has not ended uses it. `version` NULL: the whole model.
 * Ended deployments go with it. [worker] */
int models_remove(struct models *models, const char *name, const char *version, struct error *error);

/* Calls `call` once, on a thread of this module, when the job is done or failed, or after wait_ms.
 * STATUS_BUSY when this module is stopping: then it is not called. [any] */
typedef void models_wait_fn(void *context, bool timed_out);
int models_wait(struct models *models, const char *job, int64_t wait_ms, models_wait_fn *call, void *context);

#endif
