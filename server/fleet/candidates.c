/* Which boards a plan may use, as the planner wants them: measured figures over the default profile's. */
#include "server/fleet/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t region_bytes(const struct wire_hello *hello, const char *name)
{
    for (int i = 0; i < hello->n_regions; i++)
        if (strcmp(hello->regions[i].name, name) == 0)
            return hello->regions[i].bytes;
    return 0;
}

int64_t fleet_arena_bytes(struct fleet *fleet, const char *board)
{
    pthread_mutex_lock(&fleet->mutex);
    const struct member *member = member_find(fleet, board);
    int64_t bytes = member && member->has_hello ? region_bytes(&member->hello, "arena") : 0;
    pthread_mutex_unlock(&fleet->mutex);
    return bytes;
}

/* Images begin on erase blocks, so one may take almost a block more than its size. */
static int64_t usable_flash(const struct wire_hello *hello)
{
    return hello->flash_bytes > hello->flash_erase_bytes ? hello->flash_bytes - hello->flash_erase_bytes : 0;
}

int64_t fleet_flash_bytes(struct fleet *fleet, const char *board)
{
    pthread_mutex_lock(&fleet->mutex);
    const struct member *member = member_find(fleet, board);
    int64_t bytes = member && member->has_hello ? usable_flash(&member->hello) : 0;
    pthread_mutex_unlock(&fleet->mutex);
    return bytes;
}

void fleet_fill_board(const struct member *member, struct plan_board *board)
{
    *board = *plan_profile("teensy41-good");
    (void)snprintf(board->id, sizeof board->id, "%s", member->id);
    (void)snprintf(board->name, sizeof board->name, "%s", member->name);
    board->arena_bytes = region_bytes(&member->hello, "arena");
    board->weight_ram_bytes = region_bytes(&member->hello, "weights");
    board->flash_bytes = usable_flash(&member->hello);
    board->layouts = member->hello.layouts;
    if (member->hello.clock_hz)
        board->clock_hz = (double)member->hello.clock_hz;
    const struct fleet_rating *rating = &member->rating;
    if (!rating->measured_ms)
        return;
    board->bandwidth_kb_per_s = rating->bandwidth_kb_per_s;
    board->delay_s_per_kb = rating->delay_s_per_kb;
    if (rating->k1 > 0)
        board->k1 = rating->k1;
    board->link_bytes_per_s = rating->bandwidth_kb_per_s * 1024;
    board->crypto_bytes_per_s = rating->bandwidth_kb_per_s * 1024;
    board->message_latency_s = rating->latency_s;
}

/* Why a board may not be used; NULL: it may. */
static const char *why_not(const struct member *member)
{
    if (!member)
        return "is not known";
    if (member->state == MEMBER_PENDING)
        return "is not accepted";
    if (member->state == MEMBER_REVOKED)
        return "is revoked";
    if (member->link_state == FLEET_OFFLINE || !member->has_hello)
        return "is offline";
    if (member->drained)
        return "is drained";
    return NULL;
}

static int collect_named(struct fleet *fleet, sqlite3 *db, const json_t *only, struct plan_board *boards,
                         int32_t *n, struct error *error)
{
    for (size_t i = 0; i < json_array_size(only); i++) {
        const char *name = json_string_value(json_array_get(only, i));
        char id[FLEET_ID_BYTES];
        if (!name)
            return error_set(error, STATUS_INVALID_ARGUMENT, "boards is a list of ids or names");
        int status = fleet_resolve(fleet, db, name, id, error);
        if (status < 0)
            return status;
        for (int32_t j = 0; j < *n; j++)
            if (strcmp(boards[j].id, id) == 0)
                return error_set(error, STATUS_INVALID_ARGUMENT, "board '%s' is named twice", name);
        pthread_mutex_lock(&fleet->mutex);
        const struct member *member = member_find(fleet, id);
        const char *reason = why_not(member);
        if (!reason)
            fleet_fill_board(member, &boards[(*n)++]);
        pthread_mutex_unlock(&fleet->mutex);
        if (reason)
            return error_set(error, STATUS_TOO_FEW_BOARDS, "board '%s' %s", name, reason);
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct plan_board *)a)->name, ((const struct plan_board *)b)->name);
}

int fleet_plan_boards(struct fleet *fleet, sqlite3 *db, const json_t *only, struct plan_board **boards,
                      int32_t *n, struct error *error)
{
    *n = 0;
    *boards = NULL;
    if (only && (!json_is_array(only) || json_array_size(only) > CONDUCT_PARTIES_MAX))
        return error_set(error, STATUS_INVALID_ARGUMENT, "boards is a list of at most %d ids or names",
                         CONDUCT_PARTIES_MAX);
    struct plan_board *list = calloc(FLEET_BOARDS_MAX, sizeof *list);
    if (!list)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    int status = 0;
    if (only) {
        status = collect_named(fleet, db, only, list, n, error);
    } else {
        pthread_mutex_lock(&fleet->mutex);
        for (int i = 0; i < fleet->n_members; i++)
            if (fleet->members[i]->id[0] && !why_not(fleet->members[i]))
                fleet_fill_board(fleet->members[i], &list[(*n)++]);
        pthread_mutex_unlock(&fleet->mutex);
        qsort(list, (size_t)*n, sizeof *list, by_name);
        *n = *n > CONDUCT_PARTIES_MAX ? CONDUCT_PARTIES_MAX : *n;
    }
    if (status == 0 && *n == 0)
        status = error_set(error, STATUS_TOO_FEW_BOARDS,
                           "no board is accepted, online and not drained (`shoal board` lists them, "
                           "`shoal enrol` gives a code for a new one)");
    if (status < 0) {
        free(list);
        return status;
    }
    *boards = list;
    return 0;
}
