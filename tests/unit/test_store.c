/* The store: what was acknowledged is there after reopening; what failed left nothing; blobs prove their
 * hash. */
#include "server/base/hash.h"
#include "server/store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/shoal-store-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"shoal.db",     "shoal.db-wal",     "shoal.db-shm",
                                        "telemetry.db", "telemetry.db-wal", "telemetry.db-shm",
                                        "lock",         "copy.db"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    return rmdir(dir);
}

static struct store *open_store(void)
{
    struct store *store;
    struct error error;
    error_clear(&error);
    if (store_open(&store, dir, &error) < 0)
        fail_msg("%s", error.message);
    return store;
}

static int put_setting(sqlite3 *db, void *context, struct error *error)
{
    return store_setting_put(db, "key", context, strlen(context), error);
}

static int put_and_fail(sqlite3 *db, void *context, struct error *error)
{
    (void)put_setting(db, context, error);
    return error_set(error, STATUS_CONFLICT, "on purpose");
}

static char *setting(struct store *store)
{
    unsigned char *value;
    size_t size;
    sqlite3 *db = store_reader(store);
    assert_non_null(db);
    assert_true(store_setting_get(db, "key", &value, &size, NULL) >= 0);
    store_reader_done(store, db);
    return (char *)value;
}

static void acknowledged_write_is_there_after_reopening(void **state)
{
    (void)state;
    struct store *store = open_store();
    assert_int_equal(store_write(store, put_setting, "one", NULL), 1);
    store_close(store);
    store = open_store();
    char *value = setting(store);
    assert_string_equal(value, "one");
    free(value);
    store_close(store);
}

static void failed_write_leaves_nothing_and_says_why(void **state)
{
    (void)state;
    struct store *store = open_store();
    struct error error;
    error_clear(&error);
    assert_int_equal(store_write(store, put_and_fail, "two", &error), STATUS_CONFLICT);
    assert_string_equal(error.message, "on purpose");
    assert_null(setting(store));
    store_close(store);
}

static void folder_is_used_by_one_process_and_private(void **state)
{
    (void)state;
    struct store *store = open_store(), *second;
    struct error error;
    error_clear(&error);
    assert_int_equal(store_open(&second, dir, &error), STATUS_CONFLICT);
    assert_non_null(strstr(error.message, "another process"));
    char path[128];
    struct stat stat_of;
    (void)snprintf(path, sizeof path, "%s/shoal.db", dir);
    assert_int_equal(stat(path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0600);
    store_close(store);
}

struct blob {
    char sha[65];
    unsigned char *bytes;
    size_t size;
    bool corrupt;
};

static int put_blob(sqlite3 *db, void *context, struct error *error)
{
    struct blob *blob = context;
    int status = store_blob_put(db, blob->sha, blob->bytes, blob->size, error);
    if (status == 0 && blob->corrupt)
        status = (int)db_exec(db, error, "UPDATE chunk SET data = zeroblob(65536) WHERE n = 1", "");
    return status;
}

static void blob_is_chunked_and_proves_its_hash(void **state)
{
    (void)state;
    struct store *store = open_store();
    struct blob blob = {.size = 3 * STORE_CHUNK_BYTES + 17};
    blob.bytes = malloc(blob.size);
    for (size_t i = 0; i < blob.size; i++)
        blob.bytes[i] = (unsigned char)(i * 7 + i / 251);
    unsigned char digest[32];
    hash_sha256(blob.bytes, blob.size, digest);
    hash_hex(digest, blob.sha);
    assert_int_equal(store_write(store, put_blob, &blob, NULL), 0);
    assert_int_equal(store_write(store, put_blob, &blob, NULL), 0);
    sqlite3 *db = store_reader(store);
    int64_t chunks;
    assert_int_equal(db_int(db, NULL, &chunks, "SELECT count(*) FROM chunk", ""), 1);
    assert_int_equal(chunks, 4);
    unsigned char *back;
    size_t size;
    assert_int_equal(store_blob_get(db, blob.sha, &back, &size, NULL), 0);
    assert_int_equal(size, blob.size);
    assert_memory_equal(back, blob.bytes, size);
    free(back);
    blob.corrupt = true;
    store_reader_done(store, db);
    assert_true(store_write(store, put_blob, &blob, NULL) >= 0);
    struct error error;
    error_clear(&error);
    db = store_reader(store);
    assert_int_equal(store_blob_get(db, blob.sha, &back, &size, &error), STATUS_STORE_FAILED);
    assert_non_null(strstr(error.message, "does not match its hash"));
    store_reader_done(store, db);
    free(blob.bytes);
    store_close(store);
}

static void rows_become_json_by_the_ends_of_names(void **state)
{
    (void)state;
    struct store *store = open_store();
    sqlite3 *db = store_reader(store);
    json_t *rows = db_rows(
        db, NULL,
        "SELECT 1 AS n, 'a' AS t, NULL AS gone, '[1,2]' AS list_json, 0 AS seen_at, 1 AS drained_bool "
        "WHERE ? = 5",
        "i", (int64_t)5);
    char *text = json_dumps(rows, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "[{\"drained\":true,\"gone\":null,\"list\":[1,2],\"n\":1,\"seen_at\":"
                              "\"1970-01-01T00:00:00.000Z\",\"t\":\"a\"}]");
    free(text);
    json_decref(rows);
    store_reader_done(store, db);
    store_close(store);
}

static void telemetry_arrives_and_backup_is_whole(void **state)
{
    (void)state;
    struct store *store = open_store();
    for (int i = 0; i < 100; i++)
        assert_int_equal(
            store_telemetry(store, "INSERT INTO board_state (board, at, state, reason) VALUES (?, ?, ?, ?)",
                            "siss", "b", (int64_t)i, "online", ""),
            0);
    assert_int_equal(store_write(store, put_setting, "kept", NULL), 1);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/copy.db", dir);
    assert_int_equal(store_backup(store, path, NULL), 0);
    store_close(store);
    sqlite3 *copy;
    assert_int_equal(db_open(&copy, path, false, true, NULL), 0);
    char *value;
    assert_int_equal(
        db_text(copy, NULL, &value, "SELECT CAST(value AS TEXT) FROM setting WHERE name = 'key'", ""), 1);
    assert_string_equal(value, "kept");
    free(value);
    sqlite3_close(copy);
    store = open_store();
    sqlite3 *db = store_telemetry_reader(store);
    int64_t n;
    assert_int_equal(db_int(db, NULL, &n, "SELECT count(*) FROM board_state", ""), 1);
    assert_int_equal(n, 100);
    store_telemetry_reader_done(store, db);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(acknowledged_write_is_there_after_reopening, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_write_leaves_nothing_and_says_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folder_is_used_by_one_process_and_private, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blob_is_chunked_and_proves_its_hash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_become_json_by_the_ends_of_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(telemetry_arrives_and_backup_is_whole, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
