/*
 * A board takes the place of another: names, location and tags in the store, then in memory, then on the
 * boards. The former board stays in the fleet under another name, drained, so that no plan takes it again.
 */
#include "server/fleet/swap.h"

#include "server/base/utf8.h"
#include "server/fleet/members.h"

#include <stdio.h>
#include <string.h>

/* Why `by` may not take a place now. Drained it may be: that is how one keeps a spare. */
static int check_spare(const struct member *member, const char *name, struct error *error)
{
    if (!member || member->state == MEMBER_FORGOTTEN)
        return error_set(error, STATUS_NOT_FOUND, "board '%s' is not known", name);
    if (member->state != MEMBER_ACCEPTED)
        return error_set(error, STATUS_CONFLICT, "board '%s' is %s: only an accepted board can take a place",
                         name, member_state_name(member->state));
    if (member->link_state == FLEET_OFFLINE || !member->has_hello)
        return error_set(error, STATUS_OFFLINE, "board '%s' is offline: it could not be given the fragments",
                         name);
    return 0;
}

/* NAME-old, or NAME-old-2 and so on when that is taken; a long name is cut at a whole character. */
static int free_name(sqlite3 *db, const char *name, char out[64], struct error *error)
{
    int64_t taken = 1;
    int status = 0;
    for (int i = 1; taken && status >= 0; i++) {
        char tail[24] = "-old";
        if (i > 1)
            (void)snprintf(tail, sizeof tail, "-old-%d", i);
        size_t n = strlen(name), room = 63 - strlen(tail);
        n = n > room ? room : n;
        while (n && !utf8_valid(name, n))
            n--;
        (void)snprintf(out, 64, "%.*s%s", (int)n, name, tail);
        status = db_int(db, error, &taken, "SELECT count(*) FROM board WHERE name = ?", "s", out);
    }
    return status;
}

int fleet_swap_prepare(struct fleet *fleet, sqlite3 *db, const char *old, const char *by,
                       struct fleet_swap *swap, struct error *error)
{
    memset(swap, 0, sizeof *swap);
    (void)snprintf(swap->old, sizeof swap->old, "%s", old);
    (void)snprintf(swap->by, sizeof swap->by, "%s", by);
    pthread_mutex_lock(&fleet->mutex);
    const struct member *from = member_find(fleet, old), *to = member_find(fleet, by);
    int status = 0;
    if (from)
        memcpy(swap->name, from->name, sizeof swap->name);
    if (from && from == to)
        status =
            error_set(error, STATUS_INVALID_ARGUMENT, "board '%s' cannot take its own place", from->name);
    else if (!from || from->state == MEMBER_PENDING || from->state == MEMBER_FORGOTTEN)
        status = error_set(error, STATUS_CONFLICT,
                           "a board that was never accepted has no place that another could take");
    else
        status = check_spare(to, to ? to->name : by, error);
    if (status >= 0)
        fleet_fill_board(to, &swap->board);
    pthread_mutex_unlock(&fleet->mutex);
    if (status < 0)
        return status;
    memcpy(swap->board.name, swap->name, sizeof swap->name);
    return free_name(db, swap->name, swap->old_name, error);
}

int fleet_swap_write(sqlite3 *db, const struct fleet_swap *swap, struct error *error)
{
    int64_t n = db_exec(db, error, "UPDATE board SET name = ?, drained = 1 WHERE id = ? AND name = ?", "sss",
                        swap->old_name, swap->old, swap->name);
    if (n == 1)
        n = db_exec(
            db, error,
            "UPDATE board SET name = ?1, drained = 0, location = (SELECT location FROM board WHERE id "
            "= ?2), tags_json = (SELECT tags_json FROM board WHERE id = ?2) WHERE id = ?3 AND state = "
            "'accepted'",
            "sss", swap->name, swap->old, swap->by);
    if (n == 0)
        return error_set(error, STATUS_CONFLICT, "one of the boards was changed meanwhile; try again");
    return n < 0 ? (int)n : 0;
}

static void take_names(struct fleet *fleet, const struct fleet_swap *swap)
{
    pthread_mutex_lock(&fleet->mutex);
    struct member *from = member_find(fleet, swap->old), *to = member_find(fleet, swap->by);
    if (from) {
        memcpy(from->name, swap->old_name, sizeof from->name);
        from->drained = true;
    }
    if (to) {
        memcpy(to->name, swap->name, sizeof to->name);
        to->drained = false;
    }
    pthread_mutex_unlock(&fleet->mutex);
}

void fleet_swap_done(struct fleet *fleet, const struct fleet_swap *swap)
{
    take_names(fleet, swap);
    (void)fleet_tell(fleet, swap->old, false);
    (void)fleet_tell(fleet, swap->by, false);
    fleet_publish_board(fleet, swap->old);
    fleet_publish_board(fleet, swap->by);
}
