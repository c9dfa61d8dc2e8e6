/*
 * SQLite in few words: statements with bound values in one call, rows as values or as JSON.
 *
 * Formats bind one argument a letter: s const char * (NULL binds NULL), i int64_t, d double, b const void *,
 * size_t (two arguments). Every function returns a negative status with the reason in `error`; a statement
 * that SQLite refuses is STATUS_STORE_FAILED (STATUS_DISK_FULL when the disk is, STATUS_CONFLICT for a
 * constraint).
 */
#ifndef SHOAL_SERVER_STORE_DB_H
#define SHOAL_SERVER_STORE_DB_H

#include "server/base/error.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a connection with all of Shoal's settings (WAL, foreign keys, defensive, busy time-out). `full` is
 * synchronous FULL, else NORMAL. The file gets mode 0600. */
int db_open(sqlite3 **db, const char *path, bool full, bool readonly, struct error *error);

/* Runs statements; returns the number of rows changed by the last one. db_exec is for one statement. */
int db_script(sqlite3 *db, const char *sql, struct error *error);
int64_t db_exec(sqlite3 *db, struct error *error, const char *sql, const char *format, ...);

/* One integer or text of the first row. Returns 1, or 0 when there is no row (or it is NULL). Text is
 * malloc'ed. */
int db_int(sqlite3 *db, struct error *error, int64_t *value, const char *sql, const char *format, ...);
int db_text(sqlite3 *db, struct error *error, char **value, const char *sql, const char *format, ...);
/* A blob of the first row, malloc'ed; returns 1, or 0 when there is no row. */
int db_blob(sqlite3 *db, struct error *error, unsigned char **value, size_t *size, const char *sql,
            const char *format, ...);

/* Rows as an array of objects, columns by their names. The name's end gives the type: _json is parsed and the
 * suffix dropped, _at becomes RFC 3339, _bool becomes true or false and the suffix is dropped; others are
 * number, text or null. NULL on error. db_row gives the first row; *row is NULL when there is none. */
json_t *db_rows(sqlite3 *db, struct error *error, const char *sql, const char *format, ...);
int db_row(sqlite3 *db, struct error *error, json_t **row, const char *sql, const char *format, ...);

/* A prepared and bound statement for loops of the caller's; finish with sqlite3_finalize. NULL on error. */
sqlite3_stmt *db_prepare(sqlite3 *db, struct error *error, const char *sql, const char *format, ...);

/* The status of SQLite's last error, with its text. */
int db_error(sqlite3 *db, struct error *error, const char *what);

#endif
