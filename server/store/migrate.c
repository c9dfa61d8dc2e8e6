/*
 * Migrations run in the order of their names; the number of the last one is the database's user_version. Each
 * file and its number are one transaction, so a crash leaves the old schema or the new one.
 */
#include "server/store/migrate.h"

#include "server/base/embed.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of "PREFIXNNNN_name.sql"; 0 when the file is of another kind. */
static int64_t number_of(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || strchr(name + n, '/'))
        return 0;
    return strtoll(name + n, NULL, 10);
}

static int apply(sqlite3 *db, const struct embed_file *file, int64_t number, struct error *error)
{
    char version[64];
    (void)snprintf(version, sizeof version, "PRAGMA user_version = %lld", (long long)number);
    int status = db_script(db, "BEGIN IMMEDIATE", error);
    if (status >= 0)
        status = db_script(db, (const char *)file->bytes, error);
    if (status >= 0)
        status = db_script(db, version, error);
    if (status >= 0)
        status = db_script(db, "COMMIT", error);
    if (status < 0 && !sqlite3_get_autocommit(db))
        (void)db_script(db, "ROLLBACK", NULL);
    if (status >= 0)
        LOG_INFO("store", "applied migration %s", file->name);
    return status;
}

int migrate(sqlite3 *db, const char *prefix, struct error *error)
{
    int64_t at = 0, newest = 0;
    int status = db_int(db, error, &at, "PRAGMA user_version", "");
    size_t count;
    const struct embed_file *files = embed_migrations(&count);
    for (size_t i = 0; i < count && status >= 0; i++) {
        int64_t number = number_of(files[i].name, prefix);
        newest = number > newest ? number : newest;
        if (number > at)
            status = apply(db, &files[i], number, error);
    }
    if (status >= 0 && at > newest)
        return error_set(error, STATUS_CONFLICT,
                         "the database is of a newer version of this program (%lld, known: %lld)",
                         (long long)at, (long long)newest);
    return status < 0 ? status : 0;
}
