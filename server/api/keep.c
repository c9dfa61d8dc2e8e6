/* Dropping what is too old: telemetry through its own batched writer, state in one short write. */
#include "server/api/keep.h"

#include "server/base/clock.h"
#include "server/base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { ROUND_S = 600 };
static const int64_t day_ms = 86400000;

struct keep {
    struct store *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool closing;
};

static int drop_state(sqlite3 *db, void *context, struct error *error)
{
    int64_t now = *(const int64_t *)context;
    int64_t status =
        db_exec(db, error, "DELETE FROM attempt WHERE at < ?", "i", now - KEEP_ATTEMPT_DAYS * day_ms);
    if (status >= 0)
        status = db_exec(db, error, "DELETE FROM enrolment WHERE expires_at < ?", "i",
                         now - KEEP_CODE_DAYS * day_ms);
    if (status >= 0)
        status = db_exec(db, error, "DELETE FROM job WHERE ended_at < ?", "i", now - KEEP_JOB_DAYS * day_ms);
    return status < 0 ? (int)status : 0;
}

int keep_round(struct store *store, struct error *error)
{
    int64_t now = clock_wall_ms();
    (void)store_telemetry(store, "DELETE FROM inference WHERE begun_at < ?", "i",
                          now - KEEP_INFERENCE_DAYS * day_ms);
    (void)store_telemetry(store,
                          "DELETE FROM inference WHERE id < (SELECT id FROM inference ORDER BY id DESC LIMIT "
                          "1 OFFSET ?)",
                          "i", (int64_t)KEEP_INFERENCES - 1);
    (void)store_telemetry(store, "DELETE FROM board_log WHERE at < ?", "i", now - KEEP_LOG_DAYS * day_ms);
    (void)store_telemetry(store,
                          "DELETE FROM board_log WHERE id < (SELECT id FROM board_log ORDER BY id DESC LIMIT "
                          "1 OFFSET ?)",
                          "i", (int64_t)KEEP_LOG_LINES - 1);
    (void)store_telemetry(store, "DELETE FROM board_state WHERE at < ?", "i", now - KEEP_LOG_DAYS * day_ms);
    return store_write(store, drop_state, &now, error);
}

static void *keep_loop(void *context)
{
    struct keep *keep = context;
    pthread_mutex_lock(&keep->mutex);
    while (!keep->closing) {
        pthread_mutex_unlock(&keep->mutex);
        struct error error;
        error_clear(&error);
        if (keep_round(keep->store, &error) < 0)
            LOG_WARN("api", "what is old was not dropped: %s", error.message);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += ROUND_S;
        pthread_mutex_lock(&keep->mutex);
        if (!keep->closing)
            pthread_cond_timedwait(&keep->wake, &keep->mutex, &until);
    }
    pthread_mutex_unlock(&keep->mutex);
    return NULL;
}

int keep_start(struct keep **out, struct store *store, struct error *error)
{
    *out = NULL;
    struct keep *keep = calloc(1, sizeof *keep);
    if (!keep)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    keep->store = store;
    pthread_mutex_init(&keep->mutex, NULL);
    pthread_cond_init(&keep->wake, NULL);
    if (pthread_create(&keep->thread, NULL, keep_loop, keep) != 0) {
        free(keep);
        return error_set(error, STATUS_NO_MEMORY, "a thread cannot be started");
    }
    *out = keep;
    return 0;
}

void keep_stop(struct keep *keep)
{
    if (!keep)
        return;
    pthread_mutex_lock(&keep->mutex);
    keep->closing = true;
    pthread_cond_signal(&keep->wake);
    pthread_mutex_unlock(&keep->mutex);
    pthread_join(keep->thread, NULL);
    pthread_mutex_destroy(&keep->mutex);
    pthread_cond_destroy(&keep->wake);
    free(keep);
}
