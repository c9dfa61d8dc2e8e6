/*
 * SQLite in few words. Every path from SQL to a value goes through prepare(), so binding, errors and their
 * texts are in one place. Statements are prepared anew each time: none of these queries is hot enough to
 * cache.
 */
#include "server/store/db.h"

#include "server/base/clock.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int db_error(sqlite3 *db, struct error *error, const char *what)
{
    int code = sqlite3_errcode(db);
    enum status status = STATUS_STORE_FAILED;
    if (code == SQLITE_FULL)
        status = STATUS_DISK_FULL;
    else if (code == SQLITE_CONSTRAINT)
        status = STATUS_CONFLICT;
    else if (code == SQLITE_BUSY)
        status = STATUS_BUSY;
    return error_set(error, status, "%s: %s", what, sqlite3_errmsg(db));
}

int db_open(sqlite3 **db, const char *path, bool full, bool readonly, struct error *error)
{
    int flags = (readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    mode_t old = umask(0077);
    int rc = sqlite3_open_v2(path, db, flags, NULL);
    umask(old);
    if (rc != SQLITE_OK) {
        int status = error_set(error, STATUS_STORE_FAILED, "%s: %s", path,
                               *db ? sqlite3_errmsg(*db) : "out of memory");
        sqlite3_close(*db);
        *db = NULL;
        return status;
    }
    sqlite3_extended_result_codes(*db, 0);
    sqlite3_busy_timeout(*db, 5000);
    sqlite3_db_config(*db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    const char *settings =
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;";
    int status = db_script(*db, settings, error);
    if (status >= 0 && !readonly)
        status = db_script(*db, "PRAGMA journal_mode = WAL;", error);
    if (status >= 0)
        status = db_script(*db, full ? "PRAGMA synchronous = FULL;" : "PRAGMA synchronous = NORMAL;", error);
    if (status < 0) {
        sqlite3_close(*db);
        *db = NULL;
    }
    return status;
}

int db_script(sqlite3 *db, const char *sql, struct error *error)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    const char *path = sqlite3_db_filename(db, "main"), *slash = path ? strrchr(path, '/') : NULL;
    return db_error(db, error, slash ? slash + 1 : "the database");
}

static int bind_one(sqlite3_stmt *statement, int at, char letter, va_list list)
{
    switch (letter) {
    case 's': {
        const char *text = va_arg(list, const char *);
        return text ? sqlite3_bind_text(statement, at, text, -1, SQLITE_TRANSIENT)
                    : sqlite3_bind_null(statement, at);
    }
    case 'i':
        return sqlite3_bind_int64(statement, at, va_arg(list, int64_t));
    case 'd':
        return sqlite3_bind_double(statement, at, va_arg(list, double));
    case 'b': {
        const void *bytes = va_arg(list, const void *);
        size_t size = va_arg(list, size_t);
        return sqlite3_bind_blob64(statement, at, size ? bytes : "", size, SQLITE_TRANSIENT);
    }
    default:
        return SQLITE_MISUSE;
    }
}

static sqlite3_stmt *prepare(sqlite3 *db, struct error *error, const char *sql, const char *format,
                             va_list list)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) {
        db_error(db, error, sql);
        return NULL;
    }
    va_list arguments;
    va_copy(arguments, list);
    int at = 1, rc = SQLITE_OK;
    for (const char *f = format ? format : ""; *f && rc == SQLITE_OK; f++, at++)
        rc = bind_one(statement, at, *f, arguments);
    va_end(arguments);
    if (rc != SQLITE_OK || sqlite3_bind_parameter_count(statement) != at - 1) {
        error_set(error, STATUS_INTERNAL, "binding '%s' to: %s", format ? format : "", sql);
        sqlite3_finalize(statement);
        return NULL;
    }
    return statement;
}

/* The status to return when prepare() gave NULL. */
static int prepare_status(const struct error *error)
{
    return error && error->status < 0 ? (int)error->status : STATUS_STORE_FAILED;
}

sqlite3_stmt *db_prepare(sqlite3 *db, struct error *error, const char *sql, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    return statement;
}

int64_t db_exec(sqlite3 *db, struct error *error, const char *sql, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    if (!statement)
        return prepare_status(error);
    int rc;
    do
        rc = sqlite3_step(statement);
    while (rc == SQLITE_ROW);
    int64_t result = rc == SQLITE_DONE ? sqlite3_changes64(db) : db_error(db, error, sql);
    sqlite3_finalize(statement);
    return result;
}

/* First row: 1 with the statement standing on it, 0 none (finalised), negative (finalised). */
static int first_row(sqlite3 *db, sqlite3_stmt *statement, struct error *error, const char *sql)
{
    if (!statement)
        return prepare_status(error);
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        return 1;
    int status = rc == SQLITE_DONE ? 0 : db_error(db, error, sql);
    sqlite3_finalize(statement);
    return status;
}

int db_int(sqlite3 *db, struct error *error, int64_t *value, const char *sql, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    int status = first_row(db, statement, error, sql);
    if (status != 1)
        return status;
    status = sqlite3_column_type(statement, 0) != SQLITE_NULL;
    *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

int db_text(sqlite3 *db, struct error *error, char **value, const char *sql, const char *format, ...)
{
    *value = NULL;
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    int status = first_row(db, statement, error, sql);
    if (status != 1)
        return status;
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    status = text != NULL;
    if (text && !(*value = strdup(text)))
        status = error_set(error, STATUS_NO_MEMORY, "out of memory");
    sqlite3_finalize(statement);
    return status;
}

int db_blob(sqlite3 *db, struct error *error, unsigned char **value, size_t *size, const char *sql,
            const char *format, ...)
{
    *value = NULL;
    *size = 0;
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    int status = first_row(db, statement, error, sql);
    if (status != 1)
        return status;
    const void *bytes = sqlite3_column_blob(statement, 0);
    *size = (size_t)sqlite3_column_bytes(statement, 0);
    *value = malloc(*size + 1);
    if (!*value)
        status = error_set(error, STATUS_NO_MEMORY, "out of memory");
    else if (*size)
        memcpy(*value, bytes, *size);
    if (*value)
        (*value)[*size] = 0;
    sqlite3_finalize(statement);
    return status;
}

static bool ends_with(const char *name, const char *end, size_t *stem)
{
    size_t n = strlen(name), m = strlen(end);
    *stem = n > m ? n - m : 0;
    return n > m && strcmp(name + n - m, end) == 0;
}

/* One column as JSON under the key that its name's end gives (see db_rows). */
static int set_column(json_t *object, sqlite3_stmt *statement, int column)
{
    const char *name = sqlite3_column_name(statement, column);
    size_t n = strlen(name), stem;
    json_t *value = NULL;
    int type = sqlite3_column_type(statement, column);
    if (ends_with(name, "_json", &stem)) {
        n = stem;
        const char *text = (const char *)sqlite3_column_text(statement, column);
        value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
    } else if (type == SQLITE_NULL) {
        value = json_null();
    } else if (ends_with(name, "_at", &stem) || strcmp(name, "at") == 0) {
        char text[32];
        clock_rfc3339(sqlite3_column_int64(statement, column), text);
        value = json_string(text);
    } else if (ends_with(name, "_bool", &stem)) {
        n = stem;
        value = json_boolean(sqlite3_column_int64(statement, column) != 0);
    } else if (type == SQLITE_INTEGER) {
        value = json_integer(sqlite3_column_int64(statement, column));
    } else if (type == SQLITE_FLOAT) {
        value = json_real(sqlite3_column_double(statement, column));
    } else {
        value = json_string((const char *)sqlite3_column_text(statement, column));
    }
    char key[64];
    if (!value || n >= sizeof key)
        return -1;
    memcpy(key, name, n);
    key[n] = 0;
    return json_object_set_new(object, key, value);
}

static json_t *row_json(sqlite3_stmt *statement)
{
    json_t *object = json_object();
    for (int i = 0; object && i < sqlite3_column_count(statement); i++)
        if (set_column(object, statement, i) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

json_t *db_rows(sqlite3 *db, struct error *error, const char *sql, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    if (!statement)
        return NULL;
    json_t *rows = json_array();
    int rc = SQLITE_ROW;
    while (rows && (rc = sqlite3_step(statement)) == SQLITE_ROW)
        if (json_array_append_new(rows, row_json(statement)) != 0) {
            error_set(error, STATUS_STORE_FAILED, "a row cannot be shown as JSON: %s", sql);
            break;
        }
    if (rc != SQLITE_DONE) {
        db_error(db, error, sql);
        json_decref(rows);
        rows = NULL;
    }
    sqlite3_finalize(statement);
    return rows;
}

int db_row(sqlite3 *db, struct error *error, json_t **row, const char *sql, const char *format, ...)
{
    *row = NULL;
    va_list list;
    va_start(list, format);
    sqlite3_stmt *statement = prepare(db, error, sql, format, list);
    va_end(list);
    int status = first_row(db, statement, error, sql);
    if (status != 1)
        return status;
    *row = row_json(statement);
    if (!*row)
        status = error_set(error, STATUS_STORE_FAILED, "a row cannot be shown as JSON: %s", sql);
    sqlite3_finalize(statement);
    return status;
}
