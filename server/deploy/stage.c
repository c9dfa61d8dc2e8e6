/*
 * Fragments for a board that is to take a place, before it has it: pushed while the former board still does
 * the work, so that a board that cannot take them, or goes meanwhile, changes nothing.
 *
 * The push reports on the coordinator thread, perhaps after nobody waits any more: what both touch is
 * counted.
 */
#include "server/deploy/internal.h"

#include "server/base/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 100 }; /* how often a stopping server is noticed */

struct pushes {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    size_t under_way, references;
    int status; /* of the first that failed */
    char reason[200];
};

/* The mutex is held, and given up. */
static void leave(struct pushes *pushes)
{
    bool last = --pushes->references == 0;
    pthread_mutex_unlock(&pushes->mutex);
    if (!last)
        return;
    pthread_mutex_destroy(&pushes->mutex);
    pthread_cond_destroy(&pushes->wake);
    free(pushes);
}

/* Coordinator thread. */
static void push_done(void *context, const char *board, const uint8_t hash[WIRE_HASH_BYTES], int status,
                      const char *reason, uint64_t bytes)
{
    (void)board;
    (void)hash;
    (void)bytes;
    struct pushes *pushes = context;
    pthread_mutex_lock(&pushes->mutex);
    pushes->under_way--;
    if (status < 0 && pushes->status == 0) {
        pushes->status = status;
        (void)snprintf(pushes->reason, sizeof pushes->reason, "%s", reason);
    }
    pthread_cond_signal(&pushes->wake);
    leave(pushes);
}

static int push(struct deploy *deploy, struct pushes *pushes, const char *board,
                const struct staged_fragment *fragment, struct error *error)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    sqlite3 *db = store_reader(deploy->store);
    int status =
        db ? store_blob_get(db, fragment->sha, &bytes, &size, error) : error_set(error, STATUS_BUSY, "busy");
    store_reader_done(deploy->store, db);
    if (status < 0)
        return status;
    pthread_mutex_lock(&pushes->mutex);
    pushes->under_way++;
    pushes->references++;
    pthread_mutex_unlock(&pushes->mutex);
    status = fleet_push(deploy->fleet, board, fragment->hash, bytes, (uint32_t)size, push_done, pushes);
    free(bytes);
    if (status < 0) {
        pthread_mutex_lock(&pushes->mutex);
        pushes->under_way--;
        leave(pushes);
    }
    return status;
}

static int wait_for_all(struct pushes *pushes, int64_t until_ms)
{
    int status = 0;
    pthread_mutex_lock(&pushes->mutex);
    while (pushes->under_way > 0 && pushes->status == 0 && status == 0) {
        struct timespec look;
        clock_gettime(CLOCK_REALTIME, &look);
        look.tv_nsec += LOOK_MS * 1000000;
        look.tv_sec += look.tv_nsec / 1000000000;
        look.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&pushes->wake, &pushes->mutex, &look);
        status = stop_asked() ? STATUS_BUSY : deploy_now_ms() > until_ms ? STATUS_DEADLINE : 0;
    }
    status = pushes->status != 0 ? pushes->status : pushes->under_way > 0 ? status : 0;
    pthread_mutex_unlock(&pushes->mutex);
    return status;
}

int deploy_stage_push(struct deploy *deploy, const struct staged *staged, struct error *error)
{
    struct pushes *pushes = calloc(1, sizeof *pushes);
    int64_t bytes = 0;
    int status = 0;
    if (!pushes)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    pthread_mutex_init(&pushes->mutex, NULL);
    pthread_cond_init(&pushes->wake, NULL);
    pushes->references = 1;
    for (size_t i = 0; i < staged->n && status >= 0; i++) {
        bytes += staged->fragments[i].bytes;
        status = push(deploy, pushes, staged->board, &staged->fragments[i], error);
    }
    if (status >= 0)
        status = wait_for_all(pushes, deploy_now_ms() + deploy_push_ms(bytes));
    pthread_mutex_lock(&pushes->mutex);
    if (status < 0)
        error_set(error, (enum status)status,
                  "board '%.64s' did not take its fragment, and nothing was changed: %s", staged->name,
                  pushes->reason[0] ? pushes->reason : status_text(status));
    leave(pushes);
    return status;
}

void deploy_staged_free(struct staged *staged)
{
    if (staged)
        free(staged->fragments);
    free(staged);
}

size_t deploy_staged_for(const struct deploy *deploy, const char *board, uint8_t (*hashes)[WIRE_HASH_BYTES],
                         size_t max, int64_t *bytes)
{
    size_t n = 0;
    *bytes = 0;
    for (const struct staged *staged = deploy->staged; staged; staged = staged->next)
        for (size_t i = 0; strcmp(staged->board, board) == 0 && i < staged->n && n < max; i++) {
            memcpy(hashes[n++], staged->fragments[i].hash, WIRE_HASH_BYTES);
            *bytes += deploy_on_flash(staged->fragments[i].bytes);
        }
    return n;
}
