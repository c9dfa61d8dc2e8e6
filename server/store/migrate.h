/* Migrations: migrations/NNNN_name.sql, embedded in the binary, forward only; private to server/store. */
#ifndef SHOAL_SERVER_STORE_MIGRATE_H
#define SHOAL_SERVER_STORE_MIGRATE_H

#include "server/store/db.h"

/* Brings a database to the newest migration of one kind: `prefix` is "" or "telemetry/". Each file runs in
 * one transaction with its number. STATUS_CONFLICT when the database is newer than this program. */
int migrate(sqlite3 *db, const char *prefix, struct error *error);

#endif
