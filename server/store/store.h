/*
 * The store: all state of a server in one SQLite database (DIR/shoal.db), what was measured in another
 * (DIR/telemetry.db). One writer thread owns the writing connections; readers borrow connections of their
 * own.
 *
 * A write is a function that runs inside one transaction on the writer thread: it commits when the function
 * returns 0 or more and rolls back on a negative status. What store_write() acknowledged survives kill -9 and
 * power loss.
 */
#ifndef SHOAL_SERVER_STORE_STORE_H
#define SHOAL_SERVER_STORE_STORE_H

#include "server/store/db.h"

enum { STORE_QUEUE_MAX = 1024, STORE_CHUNK_BYTES = 65536 };

struct store;

/* Opens or creates DIR (mode 0700) and brings both databases to the newest migration. A database that is
 * newer than this program is refused. Only one process may have a DIR open: STATUS_CONFLICT. */
int store_open(struct store **store, const char *dir, struct error *error);
/* Finishes queued writes, then closes. */
void store_close(struct store *store);

/* `write` runs on the writer thread in a transaction. Blocks until it is durable; returns what `write`
 * returned, or STATUS_BUSY when the queue is full. Not to be called on the writer thread, the coordinator's,
 * or in the HTTP pool. */
typedef int store_write_fn(sqlite3 *db, void *context, struct error *error);
int store_write(struct store *store, store_write_fn *write, void *context, struct error *error);
/* As store_write, without waiting: `done` (may be NULL) is called on the writer thread after the commit; it
 * must be short. STATUS_BUSY when the queue is full: then neither is called. */
typedef void store_done_fn(int status, const struct error *error, void *context);
int store_post(struct store *store, store_write_fn *write, void *context, store_done_fn *done);
/* One statement into the telemetry database, in batches, without waiting; dropped (and counted) when the
 * queue is full. `sql` is static text; arguments are copied. */
int store_telemetry(struct store *store, const char *sql, const char *format, ...);

/* A reading connection of the state (telemetry) database; give it back soon. NULL: STATUS_BUSY. */
sqlite3 *store_reader(struct store *store);
void store_reader_done(struct store *store, sqlite3 *db);
sqlite3 *store_telemetry_reader(struct store *store);
void store_telemetry_reader_done(struct store *store, sqlite3 *db);

/* Blobs by SHA-256 (hex), in chunks. store_blob_put and _put_fd are for use inside a write; putting one that
 * is there does nothing. The fd is read from its start. */
int store_blob_put(sqlite3 *db, const char *sha, const void *bytes, size_t size, struct error *error);
int store_blob_put_fd(sqlite3 *db, const char *sha, int fd, int64_t size, struct error *error);
/* Whole, malloc'ed, aligned to 16; STATUS_NOT_FOUND when it is not there. */
int store_blob_get(sqlite3 *db, const char *sha, unsigned char **bytes, size_t *size, struct error *error);

/* Small values by name (keys, certificates). Get: malloc'ed; returns 1, or 0 when there is none. */
int store_setting_get(sqlite3 *db, const char *name, unsigned char **bytes, size_t *size,
                      struct error *error);
int store_setting_put(sqlite3 *db, const char *name, const void *bytes, size_t size, struct error *error);

/* Writes a consistent copy of the state database to `path` (VACUUM INTO). */
int store_backup(struct store *store, const char *path, struct error *error);

#endif
