/*
 * Opening, reading connections, and the two ways to write. Who owns what: the queues own the writing
 * connections; the pools own idle readers; a borrowed reader belongs to its borrower until it is given back.
 */
#include "server/store/store.h"

#include "server/store/migrate.h"
#include "server/store/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READERS_MAX = 16, PATH_BYTES = 4096, ARGUMENTS_MAX = 16 };

struct pool {
    pthread_mutex_t mutex;
    sqlite3 *idle[READERS_MAX];
    int n_idle;
    char path[PATH_BYTES];
};

struct store {
    int lock_fd;
    struct store_queue state, telemetry;
    struct pool readers, telemetry_readers;
    uint64_t dropped;
};

static int lock_dir(struct store *store, const char *dir, struct error *error)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO_FAILED, "%s: %s", dir, strerror(errno));
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/lock", dir) >= (int)sizeof path - 32)
        return error_set(error, STATUS_INVALID_ARGUMENT, "the data folder's name is too long");
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock_fd < 0)
        return error_set(error, STATUS_IO_FAILED, "%s: %s", path, strerror(errno));
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return error_set(error, STATUS_CONFLICT, "another process is using %s", dir);
    return 0;
}

static int open_one(struct store_queue *queue, struct pool *pool, const char *dir, const char *name,
                    bool telemetry, struct error *error)
{
    pthread_mutex_init(&pool->mutex, NULL);
    if (snprintf(pool->path, sizeof pool->path, "%s/%s", dir, name) >= (int)sizeof pool->path)
        return error_set(error, STATUS_INVALID_ARGUMENT, "the data folder's name is too long");
    sqlite3 *db = NULL;
    int status = db_open(&db, pool->path, !telemetry, false, error);
    if (status >= 0)
        status = migrate(db, telemetry ? "telemetry/" : "", error);
    if (status < 0) {
        sqlite3_close(db);
        return status;
    }
    return store_queue_start(queue, db, telemetry, error);
}

int store_open(struct store **out, const char *dir, struct error *error)
{
    *out = NULL;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    store->lock_fd = -1;
    int status = lock_dir(store, dir, error);
    if (status >= 0)
        status = open_one(&store->state, &store->readers, dir, "shoal.db", false, error);
    if (status >= 0)
        status = open_one(&store->telemetry, &store->telemetry_readers, dir, "telemetry.db", true, error);
    if (status < 0) {
        store_close(store);
        return status;
    }
    *out = store;
    return 0;
}

static void close_pool(struct pool *pool)
{
    for (int i = 0; i < pool->n_idle; i++)
        sqlite3_close(pool->idle[i]);
    pool->n_idle = 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    close_pool(&store->readers);
    close_pool(&store->telemetry_readers);
    store_queue_stop(&store->telemetry);
    store_queue_stop(&store->state);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    free(store);
}

/* A caller that waits for its write. */
struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool done;
    int status;
    struct error *error;
};

static void wake(int status, const struct error *error, void *context)
{
    struct waiter *waiter = context;
    pthread_mutex_lock(&waiter->mutex);
    waiter->status = status;
    if (waiter->error && status < 0 && waiter->error->status == STATUS_OK)
        *waiter->error = *error;
    waiter->done = true;
    pthread_cond_signal(&waiter->wake);
    pthread_mutex_unlock(&waiter->mutex);
}

static int add(struct store_queue *queue, store_write_fn *write, void *context, store_done_fn *done,
               void *done_context)
{
    struct store_job *job = calloc(1, sizeof *job);
    if (!job)
        return STATUS_NO_MEMORY;
    *job = (struct store_job){.write = write, .context = context, .done = done, .done_context = done_context};
    int status = store_queue_add(queue, job);
    if (status < 0)
        free(job);
    return status;
}

int store_write(struct store *store, store_write_fn *write, void *context, struct error *error)
{
    struct waiter waiter = {.error = error};
    pthread_mutex_init(&waiter.mutex, NULL);
    pthread_cond_init(&waiter.wake, NULL);
    int status = add(&store->state, write, context, wake, &waiter);
    if (status < 0) {
        error_set(error, (enum status)status, "the database's queue is full");
    } else {
        pthread_mutex_lock(&waiter.mutex);
        while (!waiter.done)
            pthread_cond_wait(&waiter.wake, &waiter.mutex);
        pthread_mutex_unlock(&waiter.mutex);
        status = waiter.status;
    }
    pthread_mutex_destroy(&waiter.mutex);
    pthread_cond_destroy(&waiter.wake);
    return status;
}

int store_post(struct store *store, store_write_fn *write, void *context, store_done_fn *done)
{
    return add(&store->state, write, context, done, context);
}

/* One telemetry statement with copies of its arguments. */
struct telemetry {
    const char *sql;
    char format[ARGUMENTS_MAX + 1];
    union {
        int64_t i;
        double d;
        char *s;
    } argument[ARGUMENTS_MAX];
};

static void telemetry_free(struct telemetry *telemetry)
{
    for (int i = 0; telemetry->format[i]; i++)
        if (telemetry->format[i] == 's')
            free(telemetry->argument[i].s);
    free(telemetry);
}

static int telemetry_write(sqlite3 *db, void *context, struct error *error)
{
    const struct telemetry *telemetry = context;
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, telemetry->sql, -1, &statement, NULL) != SQLITE_OK)
        return db_error(db, error, telemetry->sql);
    for (int i = 0; telemetry->format[i]; i++) {
        if (telemetry->format[i] == 'i')
            sqlite3_bind_int64(statement, i + 1, telemetry->argument[i].i);
        else if (telemetry->format[i] == 'd')
            sqlite3_bind_double(statement, i + 1, telemetry->argument[i].d);
        else if (telemetry->argument[i].s)
            sqlite3_bind_text(statement, i + 1, telemetry->argument[i].s, -1, SQLITE_STATIC);
    }
    int status = sqlite3_step(statement) == SQLITE_DONE ? 0 : db_error(db, error, telemetry->sql);
    sqlite3_finalize(statement);
    return status;
}

static void telemetry_done(int status, const struct error *error, void *context)
{
    (void)status;
    (void)error;
    telemetry_free(context);
}

int store_telemetry(struct store *store, const char *sql, const char *format, ...)
{
    struct telemetry *telemetry = calloc(1, sizeof *telemetry);
    if (!telemetry)
        return STATUS_NO_MEMORY;
    telemetry->sql = sql;
    va_list list;
    va_start(list, format);
    for (int i = 0; i < ARGUMENTS_MAX && format[i]; i++) {
        telemetry->format[i] = format[i];
        if (format[i] == 'i') {
            telemetry->argument[i].i = va_arg(list, int64_t);
        } else if (format[i] == 'd') {
            telemetry->argument[i].d = va_arg(list, double);
        } else {
            const char *text = va_arg(list, const char *);
            telemetry->argument[i].s = text ? strdup(text) : NULL;
        }
    }
    va_end(list);
    int status = add(&store->telemetry, telemetry_write, telemetry, telemetry_done, telemetry);
    if (status < 0) {
        __atomic_add_fetch(&store->dropped, 1, __ATOMIC_RELAXED);
        telemetry_free(telemetry);
    }
    return status;
}

static sqlite3 *borrow(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    sqlite3 *db = pool->n_idle ? pool->idle[--pool->n_idle] : NULL;
    pthread_mutex_unlock(&pool->mutex);
    if (!db)
        (void)db_open(&db, pool->path, false, true, NULL);
    return db;
}

static void give_back(struct pool *pool, sqlite3 *db)
{
    if (!db)
        return;
    pthread_mutex_lock(&pool->mutex);
    bool keep = pool->n_idle < READERS_MAX;
    if (keep)
        pool->idle[pool->n_idle++] = db;
    pthread_mutex_unlock(&pool->mutex);
    if (!keep)
        sqlite3_close(db);
}

sqlite3 *store_reader(struct store *store)
{
    return borrow(&store->readers);
}

void store_reader_done(struct store *store, sqlite3 *db)
{
    give_back(&store->readers, db);
}

sqlite3 *store_telemetry_reader(struct store *store)
{
    return borrow(&store->telemetry_readers);
}

void store_telemetry_reader_done(struct store *store, sqlite3 *db)
{
    give_back(&store->telemetry_readers, db);
}

int store_backup(struct store *store, const char *path, struct error *error)
{
    sqlite3 *db = store_reader(store);
    if (!db)
        return error_set(error, STATUS_BUSY, "no connection to the database");
    int status = (int)db_exec(db, error, "VACUUM INTO ?", "s", path);
    store_reader_done(store, db);
    return status < 0 ? status : 0;
}
