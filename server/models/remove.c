/*
 * Removing a version or a whole model. Refused while a deployment that has not ended uses it; deployments
 * that have ended go with it, and content that nothing names any more.
 */
#include "server/models/internal.h"

#include <stdio.h>
#include <stdlib.h>

struct removal {
    const char *name;
    const char *version; /* NULL: all */
    char sha[65];
};

static const char uses[] = "model = ?1 AND (?2 = '' OR version = ?2)";

static int run(sqlite3 *db, struct error *error, const char *head, const char *tail,
               const struct removal *removal)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql, "%s%s%s", head, uses, tail);
    return (int)db_exec(db, error, sql, "ss", removal->name, removal->version ? removal->sha : "");
}

static int drop_unnamed(sqlite3 *db, struct error *error)
{
    int64_t status =
        db_exec(db, error, "DELETE FROM plan WHERE hash NOT IN (SELECT plan FROM generation)", "");
    if (status >= 0)
        status = db_exec(db, error,
                         "DELETE FROM blob WHERE sha NOT IN (SELECT sha FROM version) AND sha NOT IN (SELECT "
                         "fragment FROM part) AND sha NOT IN (SELECT version FROM plan)",
                         "");
    return (int)status;
}

static int write_removal(sqlite3 *db, void *context, struct error *error)
{
    const struct removal *removal = context;
    char sql[512];
    char *user = NULL;
    (void)snprintf(sql, sizeof sql, "SELECT id FROM deployment WHERE %s AND ended_at IS NULL LIMIT 1", uses);
    int status = db_text(db, error, &user, sql, "ss", removal->name, removal->version ? removal->sha : "");
    if (status == 1)
        status = error_set(error, STATUS_CONFLICT, "deployment %s uses it; retire it first", user);
    free(user);
    if (status >= 0)
        status = run(db, error, "DELETE FROM deployment WHERE ", "", removal);
    if (status >= 0)
        status = run(db, error, "DELETE FROM job WHERE ", "", removal);
    if (status >= 0)
        status = (int)db_exec(db, error, "DELETE FROM version WHERE model = ?1 AND (?2 = '' OR sha = ?2)",
                              "ss", removal->name, removal->version ? removal->sha : "");
    if (status == 0 && removal->version)
        status = error_set(error, STATUS_NOT_FOUND, "'%s' has no version %.12s", removal->name, removal->sha);
    if (status >= 0)
        status = (int)db_exec(db, error,
                              "DELETE FROM model WHERE name = ?1 AND name NOT IN (SELECT model FROM version)",
                              "s", removal->name);
    if (status == 0 && !removal->version)
        status = error_set(error, STATUS_NOT_FOUND, "no model is named '%.80s'", removal->name);
    return status < 0 ? status : drop_unnamed(db, error);
}

int models_remove(struct models *models, const char *name, const char *version, struct error *error)
{
    struct removal removal = {.name = name, .version = version};
    int status = 0;
    if (version) {
        sqlite3 *db = store_reader(models->store);
        status = db ? deploy_resolve_version(db, name, version, removal.sha, error)
                    : error_set(error, STATUS_BUSY, "busy");
        store_reader_done(models->store, db);
    }
    if (status >= 0)
        status = store_write(models->store, write_removal, &removal, error);
    if (status < 0)
        return status;
    json_t *gone =
        json_pack("{s:s, s:s?, s:b}", "name", name, "version", version ? removal.sha : NULL, "removed", 1);
    if (gone && models->publish)
        models->publish(models->publish_context, "model", gone);
    json_decref(gone);
    return 0;
}
