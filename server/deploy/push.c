/*
 * From a planned generation to boards that hold their parts, and what happens when boards come and go. Runs
 * on the manager thread; the fleet's callbacks only post here.
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PUSH_BASE_MS = 60000,
    PUSH_BYTES_PER_S = 50000,
    VERIFY_BASE_MS = 60000,
    PUSH_RETRY_MS = 30000,
    KEPT_MAX = 64
};

/* A board's answer to a push, on its way from the coordinator thread. */
struct pushed {
    struct deploy *deploy;
    char deployment[ID_ULID_BYTES], board[FLEET_ID_BYTES], reason[200];
    uint32_t generation;
    int status;
    uint64_t bytes;
};

static int write_verified(sqlite3 *db, void *context, struct error *error)
{
    const struct pushed *pushed = context;
    return (int)db_exec(
        db, error, "UPDATE part SET verified_at = ? WHERE deployment = ? AND generation = ? AND board = ?",
        "isis", clock_wall_ms(), pushed->deployment, (int64_t)pushed->generation, pushed->board);
}

static void push_failed(struct deploy *deploy, struct deployment *deployment, const struct pushed *pushed)
{
    struct error error;
    error_clear(&error);
    error_set(&error, (enum status)pushed->status, "board %s refused its fragment: %s", pushed->board,
              pushed->reason);
    if (deployment->state == DEPLOY_PUSHING || deployment->state == DEPLOY_VERIFYING) {
        (void)deploy_set_state(deploy, deployment, DEPLOY_FAILED, error.message, &error);
        deploy_remove(deploy, deployment);
    } else {
        LOG_ERROR("deploy", "%s: %s", deployment->id, error.message);
    }
}

static void on_pushed(struct deploy *deploy, void *context)
{
    struct pushed *pushed = context;
    struct deployment *deployment = deploy_find(deploy, pushed->deployment);
    struct part *part = NULL;
    for (int32_t i = 0; deployment && deployment->generation == pushed->generation && i < deployment->n_parts;
         i++)
        if (strcmp(deployment->parts[i].board, pushed->board) == 0)
            part = &deployment->parts[i];
    if (part) {
        part->pushing = false;
        part->pushed_bytes += pushed->bytes;
        if (pushed->status == 0) {
            part->verified = true;
            (void)store_write(deploy->store, write_verified, pushed, NULL);
            deploy_publish(deploy, deployment->id);
            deploy_check(deploy, deployment);
        } else if (pushed->status != STATUS_OFFLINE) {
            part->retry_ms = deploy_now_ms() + PUSH_RETRY_MS;
            push_failed(deploy, deployment, pushed);
        }
    }
    free(pushed);
}

/* Coordinator thread. */
static void push_done(void *context, const char *board, const uint8_t hash[WIRE_HASH_BYTES], int status,
                      const char *reason, uint64_t bytes)
{
    (void)hash;
    (void)board;
    struct pushed *pushed = context;
    pushed->status = status;
    pushed->bytes = bytes;
    (void)snprintf(pushed->reason, sizeof pushed->reason, "%s", reason);
    if (queue_add(&pushed->deploy->calls, on_pushed, pushed) < 0)
        free(pushed);
}

static void push_part(struct deploy *deploy, struct deployment *deployment, struct part *part)
{
    if (part->pushing || part->verified || !part->used || !fleet_online(deploy->fleet, part->board))
        return;
    struct pushed *pushed = calloc(1, sizeof *pushed);
    unsigned char *bytes = NULL;
    size_t size = 0;
    struct error error;
    error_clear(&error);
    sqlite3 *db = store_reader(deploy->store);
    int status = db && pushed ? store_blob_get(db, part->sha, &bytes, &size, &error) : STATUS_NO_MEMORY;
    store_reader_done(deploy->store, db);
    if (status >= 0) {
        pushed->deploy = deploy;
        memcpy(pushed->deployment, deployment->id, sizeof pushed->deployment);
        memcpy(pushed->board, part->board, sizeof pushed->board);
        pushed->generation = deployment->generation;
        status =
            fleet_push(deploy->fleet, part->board, part->fragment, bytes, (uint32_t)size, push_done, pushed);
    }
    free(bytes);
    if (status < 0) {
        LOG_WARN("deploy", "%s: board %s gets no fragment: %s", deployment->id, part->board,
                 error.status ? error.message : status_text(status));
        free(pushed);
        return;
    }
    part->pushing = true;
}

void deploy_push_missing(struct deploy *deploy, struct deployment *deployment)
{
    for (int32_t i = 0; i < deployment->n_parts; i++)
        if (deploy_now_ms() >= deployment->parts[i].retry_ms)
            push_part(deploy, deployment, &deployment->parts[i]);
}

int64_t deploy_push_ms(int64_t bytes)
{
    return PUSH_BASE_MS + bytes * 1000 / PUSH_BYTES_PER_S;
}

void deploy_push(struct deploy *deploy, struct deployment *deployment)
{
    uint32_t most = 0;
    for (int32_t i = 0; i < deployment->n_parts; i++) {
        struct part *part = &deployment->parts[i];
        most = part->bytes > most ? part->bytes : most;
        part->retry_ms = 0;
        push_part(deploy, deployment, part);
    }
    if (deploy_in_progress(deployment->state))
        deployment->deadline_ms = deploy_now_ms() + deploy_push_ms(most);
    deploy_check(deploy, deployment);
}

/* A board may come back with less RAM than it had when the plan was made. */
static bool has_room(struct deploy *deploy, const struct deployment *deployment, int32_t i)
{
    return fleet_arena_bytes(deploy->fleet, deployment->parts[i].board) >=
           deployment->placed->plan->parties[i].arena_bytes;
}

static bool all_there(struct deploy *deploy, const struct deployment *deployment)
{
    for (int32_t i = 0; i < deployment->n_parts; i++) {
        const struct part *part = &deployment->parts[i];
        if (part->used && (!part->verified || !fleet_online(deploy->fleet, part->board) ||
                           !has_room(deploy, deployment, i)))
            return false;
    }
    return true;
}

/* Says why a deployment stays degraded though all its boards are online. */
static void note_small_board(struct deploy *deploy, struct deployment *deployment, const struct part *part)
{
    int32_t i = (int32_t)(part - deployment->parts);
    char reason[200];
    if (!deployment->placed || has_room(deploy, deployment, i) ||
        (deployment->state != DEPLOY_ACTIVE && deployment->state != DEPLOY_DEGRADED))
        return;
    (void)snprintf(reason, sizeof reason,
                   "board %.40s came back with %lld bytes of arena, its part needs %lld; replan", part->board,
                   (long long)fleet_arena_bytes(deploy->fleet, part->board),
                   (long long)deployment->placed->plan->parties[i].arena_bytes);
    (void)deploy_set_state(deploy, deployment, DEPLOY_DEGRADED, reason, NULL);
}

void deploy_check(struct deploy *deploy, struct deployment *deployment)
{
    if (!deployment->placed || !all_there(deploy, deployment))
        return;
    if (deployment->state == DEPLOY_PUSHING) {
        deployment->deadline_ms =
            deploy_now_ms() + VERIFY_BASE_MS + (int64_t)(10 * deployment->placed->plan->table.predicted_ms);
        if (deploy_set_state(deploy, deployment, DEPLOY_VERIFYING, "every board has its fragment", NULL) >= 0)
            deploy_golden_run(deploy, deployment);
    } else if (deployment->state == DEPLOY_VERIFYING) {
        deploy_golden_run(deploy, deployment);
    } else if (deployment->state == DEPLOY_DEGRADED) {
        (void)deploy_set_state(deploy, deployment, DEPLOY_ACTIVE, "every board is back", NULL);
    }
}

static struct part *part_of(struct deployment *deployment, const char *board)
{
    for (int32_t i = 0; i < deployment->n_parts; i++)
        if (deployment->parts[i].used && strcmp(deployment->parts[i].board, board) == 0)
            return &deployment->parts[i];
    return NULL;
}

/* A board that comes back is asked whether it still holds its part: the offer is answered at once when it
 * does. First it is told what to drop, which may be what has the room. */
void deploy_board_up(struct deploy *deploy, const char *board)
{
    deploy_clean_boards(deploy);
    for (struct deployment *d = deploy->deployments, *next; d; d = next) {
        next = d->next;
        struct part *part = part_of(d, board);
        if (!part || d->state == DEPLOY_PLANNING)
            continue;
        part->verified = false;
        part->pushing = false;
        part->retry_ms = 0;
        note_small_board(deploy, d, part);
        push_part(deploy, d, part);
    }
}

/* A board's name for people, as it was when the plan was made. */
static const char *name_of(const struct deployment *d, const struct part *part)
{
    const struct plan *plan = d->placed ? d->placed->plan : NULL;
    int32_t i = (int32_t)(part - d->parts);
    return plan && i < plan->n_boards && plan->boards[i].name[0] ? plan->boards[i].name : part->board;
}

void deploy_board_down(struct deploy *deploy, const char *board)
{
    for (struct deployment *d = deploy->deployments; d; d = d->next) {
        struct part *part = part_of(d, board);
        if (!part)
            continue;
        part->verified = false;
        if (d->state == DEPLOY_ACTIVE) {
            char reason[128];
            (void)snprintf(reason, sizeof reason, "board %.64s is offline", name_of(d, part));
            (void)deploy_set_state(deploy, d, DEPLOY_DEGRADED, reason, NULL);
        }
    }
}

/* ---- what boards keep ---- */

int64_t deploy_on_flash(int64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* The fragments that a board is to keep: those staged for it and of living deployments, then, while there is
 * room, those of each model's last retired one, so that a rollback need not push. Returns how many. */
static size_t kept_by(const struct deploy *deploy, sqlite3 *db, const char *board, int64_t flash,
                      uint8_t (*hashes)[WIRE_HASH_BYTES], size_t max)
{
    int64_t staged_bytes;
    json_t *rows = db_rows(
        db, NULL,
        "SELECT part.fragment AS sha, max(part.fragment_bytes) AS bytes, min(deployment.ended_at IS NOT "
        "NULL) AS over "
        "FROM part JOIN deployment ON deployment.id = part.deployment AND deployment.generation = "
        "part.generation WHERE part.board = ?1 AND part.fragment <> '' AND (deployment.ended_at IS NULL OR "
        "deployment.id IN (SELECT id FROM deployment AS d WHERE d.model = deployment.model AND d.state = "
        "'retired' ORDER BY d.ended_at DESC LIMIT 1)) GROUP BY part.fragment ORDER BY over",
        "s", board);
    size_t i, n = deploy_staged_for(deploy, board, hashes, max, &staged_bytes);
    json_t *row;
    flash -= staged_bytes;
    json_array_foreach(rows, i, row)
    {
        int64_t bytes = deploy_on_flash(json_integer_value(json_object_get(row, "bytes")));
        bool over = json_integer_value(json_object_get(row, "over")) != 0;
        if ((over && bytes > flash) || n == max ||
            !hash_from_hex(json_string_value(json_object_get(row, "sha")), hashes[n]))
            continue;
        flash -= bytes;
        n++;
    }
    json_decref(rows);
    return n;
}

void deploy_clean_boards(struct deploy *deploy)
{
    sqlite3 *db = store_reader(deploy->store);
    json_t *boards =
        db ? db_rows(db, NULL,
                     "SELECT id, coalesce(json_extract(hello_json, '$.flash_bytes'), 0) AS flash "
                     "FROM board WHERE state = 'accepted'",
                     "")
           : NULL;
    size_t i;
    json_t *row;
    json_array_foreach(boards, i, row)
    {
        const char *board = json_string_value(json_object_get(row, "id"));
        int64_t flash = json_integer_value(json_object_get(row, "flash"));
        uint8_t hashes[KEPT_MAX][WIRE_HASH_BYTES];
        if (!fleet_online(deploy->fleet, board) || strcmp(board, deploy->spared) == 0)
            continue;
        size_t n = kept_by(deploy, db, board, flash, hashes, KEPT_MAX);
        (void)fleet_keep(deploy->fleet, board, (const uint8_t(*)[WIRE_HASH_BYTES])hashes, (uint32_t)n);
    }
    json_decref(boards);
    store_reader_done(deploy->store, db);
}
