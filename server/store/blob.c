/*
 * Content by hash in rows of 64 KiB. A blob's row is written first and its chunks with it in the caller's
 * transaction, so a blob that can be found is whole.
 */
#include "server/store/store.h"

#include "server/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char insert_chunk[] = "INSERT INTO chunk (sha, n, data) VALUES (?, ?, ?)";

/* 1: the row is new and chunks are wanted, 0: it is there already. */
static int begin(sqlite3 *db, const char *sha, int64_t size, struct error *error)
{
    return (int)db_exec(db, error, "INSERT INTO blob (sha, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING", "si",
                        sha, size);
}

int store_blob_put(sqlite3 *db, const char *sha, const void *bytes, size_t size, struct error *error)
{
    int status = begin(db, sha, (int64_t)size, error);
    const unsigned char *at = bytes;
    for (size_t done = 0; status > 0 && done < size; done += STORE_CHUNK_BYTES) {
        size_t n = size - done < STORE_CHUNK_BYTES ? size - done : STORE_CHUNK_BYTES;
        status = (int)db_exec(db, error, insert_chunk, "sib", sha, (int64_t)(done / STORE_CHUNK_BYTES),
                              (const void *)(at + done), n);
    }
    return status < 0 ? status : 0;
}

static ssize_t read_full(int fd, unsigned char *bytes, size_t n, int64_t at)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, bytes + done, n - done, (off_t)(at + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int store_blob_put_fd(sqlite3 *db, const char *sha, int fd, int64_t size, struct error *error)
{
    int status = begin(db, sha, size, error);
    if (status <= 0)
        return status;
    unsigned char *chunk = malloc(STORE_CHUNK_BYTES);
    if (!chunk)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    for (int64_t done = 0; status > 0 && done < size; done += STORE_CHUNK_BYTES) {
        size_t n = size - done < STORE_CHUNK_BYTES ? (size_t)(size - done) : STORE_CHUNK_BYTES;
        if (read_full(fd, chunk, n, done) < 0)
            status = error_set(error, STATUS_IO_FAILED, "the spooled upload cannot be read");
        else
            status = (int)db_exec(db, error, insert_chunk, "sib", sha, done / STORE_CHUNK_BYTES,
                                  (const void *)chunk, n);
    }
    free(chunk);
    return status < 0 ? status : 0;
}

static int read_chunks(sqlite3 *db, const char *sha, unsigned char *bytes, size_t size, struct error *error)
{
    sqlite3_stmt *statement =
        db_prepare(db, error, "SELECT data FROM chunk WHERE sha = ? ORDER BY n", "s", sha);
    if (!statement)
        return error && error->status ? (int)error->status : STATUS_STORE_FAILED;
    size_t done = 0;
    int status = 0, rc;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && status == 0) {
        const void *data = sqlite3_column_blob(statement, 0);
        size_t n = (size_t)sqlite3_column_bytes(statement, 0);
        if (n > size - done)
            status = error_set(error, STATUS_STORE_FAILED, "blob %.12s is longer than its row says", sha);
        else if (n)
            memcpy(bytes + done, data, n);
        done += n;
    }
    if (status == 0 && rc != SQLITE_DONE)
        status = db_error(db, error, "chunks");
    if (status == 0 && done != size)
        status = error_set(error, STATUS_STORE_FAILED, "blob %.12s is shorter than its row says", sha);
    sqlite3_finalize(statement);
    return status;
}

int store_blob_get(sqlite3 *db, const char *sha, unsigned char **bytes, size_t *size, struct error *error)
{
    *bytes = NULL;
    *size = 0;
    int64_t length;
    int status = db_int(db, error, &length, "SELECT bytes FROM blob WHERE sha = ?", "s", sha);
    if (status < 0)
        return status;
    if (status == 0)
        return error_set(error, STATUS_NOT_FOUND, "no content with hash %.12s", sha);
    unsigned char *memory = aligned_alloc(16, ((size_t)length + 31) / 16 * 16);
    if (!memory)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    status = read_chunks(db, sha, memory, (size_t)length, error);
    unsigned char digest[32];
    char hex[65];
    if (status == 0) {
        hash_sha256(memory, (size_t)length, digest);
        hash_hex(digest, hex);
        if (strcmp(hex, sha) != 0)
            status = error_set(error, STATUS_STORE_FAILED, "the stored content %.12s does not match its hash",
                               sha);
    }
    if (status < 0) {
        free(memory);
        return status;
    }
    *bytes = memory;
    *size = (size_t)length;
    return 0;
}

int store_setting_get(sqlite3 *db, const char *name, unsigned char **bytes, size_t *size, struct error *error)
{
    return db_blob(db, error, bytes, size, "SELECT value FROM setting WHERE name = ?", "s", name);
}

int store_setting_put(sqlite3 *db, const char *name, const void *bytes, size_t size, struct error *error)
{
    return (int)db_exec(db, error, "INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", "sb", name,
                        bytes, size);
}
