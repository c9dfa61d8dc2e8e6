/*
 * The inventory as the API shows and changes it: the database's row with what is live laid over it. Changes
 * go to the store first, then into memory, then to the board's link.
 */
#include "server/fleet/members.h"

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char columns[] =
    "SELECT id, name, state, kind, location, tags_json, drained AS drained_bool, hello_json, rating_json, "
    "certificate_until AS certificate_until_at, last_seen_at, owner, created_at, actor FROM board ";

static json_t *held_json(const struct wire_hello *hello)
{
    json_t *list = json_array();
    for (int i = 0; i < hello->n_held; i++) {
        char hex[HASH_HEX_BYTES];
        hash_hex(hello->held[i].hash, hex);
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "fragment", hex, "bytes", (json_int_t)hello->held[i].bytes));
    }
    return list;
}

static void set_time(json_t *board, const char *key, int64_t wall_ms)
{
    char text[32];
    clock_rfc3339(wall_ms, text);
    json_object_set_new(board, key, json_string(text));
}

static void overlay_beat(json_t *board, const struct wire_beat *beat)
{
    static const char *const activities[] = {"idle", "running", "storing", "loading"};
    json_object_set_new(board, "uptime_ms", json_integer((json_int_t)beat->uptime_ms));
    json_object_set_new(board, "activity",
                        json_string(beat->state < 4 ? activities[beat->state] : "unknown"));
    json_object_set_new(board, "arena_high_water_bytes", json_integer(beat->arena_high_water));
    json_object_set_new(board, "stack_high_water_bytes", json_integer(beat->stack_high_water));
    json_object_set_new(board, "flash_used_bytes", json_integer(beat->flash_used_bytes));
    if (beat->temperature != WIRE_NO_TEMPERATURE)
        json_object_set_new(board, "temperature_celsius", json_real(beat->temperature / 10.0));
}

/* Lays the live state over a row. The mutex is held. */
static void overlay(json_t *board, const struct member *member)
{
    static const char *const names[] = {"offline", "stale", "online"};
    enum fleet_link_state state = member ? member->link_state : FLEET_OFFLINE;
    json_object_set_new(board, "link", json_string(names[state]));
    if (member && member->since_ms)
        set_time(board, "since_at", member->since_ms);
    else
        json_object_set(board, "since_at", json_object_get(board, "last_seen_at"));
    json_object_set_new(board, "reason", json_string(member ? member->reason : ""));
    if (!member || !member->has_hello)
        return;
    json_object_set_new(board, "address", json_string(member->address));
    json_object_set_new(board, "fragments", held_json(&member->hello));
    json_object_set_new(board, "flash_used_bytes", json_integer(member->hello.flash_used_bytes));
    if (member->has_beat)
        overlay_beat(board, &member->beat);
}

int fleet_resolve(struct fleet *fleet, sqlite3 *db, const char *id_or_name, char id[FLEET_ID_BYTES],
                  struct error *error)
{
    (void)fleet;
    char *found;
    int status = db_text(db, error, &found,
                         "SELECT id FROM board WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC LIMIT 1", "s",
                         id_or_name);
    if (status < 0)
        return status;
    if (status == 0)
        return error_set(error, STATUS_NOT_FOUND, "no board has the id or name '%s'", id_or_name);
    (void)snprintf(id, FLEET_ID_BYTES, "%s", found);
    free(found);
    return 0;
}

json_t *fleet_board_json(struct fleet *fleet, sqlite3 *db, const char *id_or_name, struct error *error)
{
    char id[FLEET_ID_BYTES], sql[512];
    json_t *board;
    if (fleet_resolve(fleet, db, id_or_name, id, error) < 0)
        return NULL;
    (void)snprintf(sql, sizeof sql, "%sWHERE id = ?", columns);
    if (db_row(db, error, &board, sql, "s", id) != 1)
        return NULL;
    pthread_mutex_lock(&fleet->mutex);
    overlay(board, member_find(fleet, id));
    pthread_mutex_unlock(&fleet->mutex);
    return board;
}

json_t *fleet_boards_json(struct fleet *fleet, sqlite3 *db, const char *after, int64_t limit,
                          struct error *error)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql, "%sWHERE name > ? ORDER BY name LIMIT ?", columns);
    json_t *boards = db_rows(db, error, sql, "si", after ? after : "", limit + 1);
    if (!boards)
        return NULL;
    json_t *next = json_null();
    if ((int64_t)json_array_size(boards) > limit) {
        json_array_remove(boards, (size_t)limit);
        next = json_incref(json_object_get(json_array_get(boards, (size_t)limit - 1), "name"));
    }
    size_t i;
    json_t *board;
    pthread_mutex_lock(&fleet->mutex);
    json_array_foreach(boards, i, board)
        overlay(board, member_find(fleet, json_string_value(json_object_get(board, "id"))));
    pthread_mutex_unlock(&fleet->mutex);
    return json_pack("{s:o, s:o}", "items", boards, "next", next);
}

json_t *fleet_readings_json(struct fleet *fleet, const char *id)
{
    pthread_mutex_lock(&fleet->mutex);
    const struct member *member = member_find(fleet, id);
    json_t *list = readings_json(member ? member->readings : NULL);
    pthread_mutex_unlock(&fleet->mutex);
    return list;
}

void fleet_publish_board(struct fleet *fleet, const char *id)
{
    sqlite3 *db = store_reader(fleet->store);
    json_t *board = db ? fleet_board_json(fleet, db, id, NULL) : NULL;
    store_reader_done(fleet->store, db);
    if (board && fleet->config.publish)
        fleet->config.publish(fleet->config.publish_context, "board", board);
    json_decref(board);
}

/* ---- changes ---- */

/* One UPDATE or DELETE of a board's row, as a write. */
struct change {
    const char *sql, *format, *id;
    const char *text;
    int64_t number;
};

static int change_write(sqlite3 *db, void *context, struct error *error)
{
    const struct change *change = context;
    int64_t n;
    if (strcmp(change->format, "ss") == 0)
        n = db_exec(db, error, change->sql, "ss", change->text, change->id);
    else if (strcmp(change->format, "is") == 0)
        n = db_exec(db, error, change->sql, "is", change->number, change->id);
    else
        n = db_exec(db, error, change->sql, "s", change->id);
    if (n == 0)
        return error_set(error, STATUS_NOT_FOUND, "no board %s", change->id);
    return (int)n;
}

static int apply(struct fleet *fleet, const struct change *change, struct error *error)
{
    struct change copy = *change;
    return store_write(fleet->store, change_write, &copy, error);
}

static int set_state(struct fleet *fleet, const char *id, enum member_state state, struct error *error)
{
    struct change change = {.sql = "UPDATE board SET state = ? WHERE id = ?",
                            .format = "ss",
                            .id = id,
                            .text = member_state_name(state)};
    int status = apply(fleet, &change, error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&fleet->mutex);
    struct member *member = member_find(fleet, id);
    if (member)
        member->state = state;
    pthread_mutex_unlock(&fleet->mutex);
    fleet_publish_board(fleet, id);
    return 0;
}

struct tell {
    struct fleet *fleet;
    char id[FLEET_ID_BYTES];
    bool measure;
};

static void tell_call(void *context)
{
    struct tell *tell = context;
    struct member *member = member_get(tell->fleet, tell->id);
    if (member && member->link) {
        struct wire_welcome welcome = {
            .version = WIRE_VERSION, .state = (uint8_t)member->state, .time_ms = (uint64_t)clock_wall_ms()};
        uint8_t payload[WIRE_PAYLOAD_MAX];
        memcpy(welcome.name, member->name, sizeof welcome.name);
        (void)fleet_send(member, WIRE_WELCOME, wire_encode_welcome(&welcome, payload), payload);
        if (tell->measure)
            measure_start(tell->fleet, member, clock_monotonic_us());
    }
    free(tell);
}

int fleet_tell(struct fleet *fleet, const char *id, bool measure)
{
    struct tell *job = calloc(1, sizeof *job);
    if (!job)
        return STATUS_NO_MEMORY;
    job->fleet = fleet;
    job->measure = measure;
    (void)snprintf(job->id, sizeof job->id, "%s", id);
    int status = fleet_post(fleet, tell_call, job);
    if (status < 0)
        free(job);
    return status;
}

int fleet_accept(struct fleet *fleet, const char *id, const char *actor, struct error *error)
{
    (void)actor;
    int status = set_state(fleet, id, MEMBER_ACCEPTED, error);
    return status < 0 ? status : fleet_tell(fleet, id, true);
}

int fleet_revoke(struct fleet *fleet, const char *id, const char *actor, struct error *error)
{
    (void)actor;
    int status = set_state(fleet, id, MEMBER_REVOKED, error);
    if (status < 0)
        return status;
    return links_drop_board(fleet->links, id, STATUS_CERTIFICATE_REVOKED, "revoked");
}

int fleet_forget(struct fleet *fleet, const char *id, const char *actor, struct error *error)
{
    (void)actor;
    struct change change = {.sql = "DELETE FROM board WHERE id = ?", .format = "s", .id = id};
    int status = apply(fleet, &change, error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&fleet->mutex);
    struct member *member = member_find(fleet, id);
    if (member)
        member->state = MEMBER_FORGOTTEN;
    pthread_mutex_unlock(&fleet->mutex);
    status = links_drop_board(fleet->links, id, STATUS_CERTIFICATE_REVOKED, "forgotten");
    return status == STATUS_NOT_FOUND ? 0 : status;
}

int fleet_drain(struct fleet *fleet, const char *id, bool drained, const char *actor, struct error *error)
{
    (void)actor;
    struct change change = {
        .sql = "UPDATE board SET drained = ? WHERE id = ?", .format = "is", .id = id, .number = drained};
    int status = apply(fleet, &change, error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&fleet->mutex);
    struct member *member = member_find(fleet, id);
    if (member)
        member->drained = drained;
    pthread_mutex_unlock(&fleet->mutex);
    fleet_publish_board(fleet, id);
    return 0;
}

static int edit_name(struct fleet *fleet, const char *id, const char *name, struct error *error)
{
    size_t n = name ? strlen(name) : 0;
    bool plain = n > 0 && n < FLEET_NAME_BYTES && utf8_valid(name, n);
    for (size_t i = 0; plain && i < n; i++)
        plain = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
    if (!plain)
        return error_set(error, STATUS_INVALID_ARGUMENT, "a name is 1 to %d bytes of text",
                         FLEET_NAME_BYTES - 1);
    struct change change = {
        .sql = "UPDATE board SET name = ? WHERE id = ?", .format = "ss", .id = id, .text = name};
    struct error why;
    error_clear(&why);
    int status = apply(fleet, &change, &why);
    if (status == STATUS_CONFLICT)
        return error_set(error, STATUS_CONFLICT, "another board is named '%s'", name);
    if (status < 0)
        return error_set(error, why.status, "%s", why.message);
    pthread_mutex_lock(&fleet->mutex);
    struct member *member = member_find(fleet, id);
    if (member)
        (void)snprintf(member->name, sizeof member->name, "%s", name);
    pthread_mutex_unlock(&fleet->mutex);
    return fleet_tell(fleet, id, false);
}

static bool all_strings(const json_t *list)
{
    bool ok = json_is_array(list) && json_array_size(list) <= 32;
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = json_is_string(json_array_get(list, i)) && json_string_length(json_array_get(list, i)) <= 64;
    return ok;
}

int fleet_edit(struct fleet *fleet, const char *id, const json_t *patch, const char *actor,
               struct error *error)
{
    (void)actor;
    const char *key;
    json_t *value;
    int status = 0;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        if (strcmp(key, "name") == 0) {
            status = edit_name(fleet, id, json_string_value(value), error);
        } else if (strcmp(key, "location") == 0 && json_is_string(value) &&
                   json_string_length(value) <= 200) {
            struct change change = {.sql = "UPDATE board SET location = ? WHERE id = ?",
                                    .format = "ss",
                                    .id = id,
                                    .text = json_string_value(value)};
            status = apply(fleet, &change, error);
        } else if (strcmp(key, "tags") == 0 && all_strings(value)) {
            char *text = json_dumps(value, JSON_COMPACT);
            struct change change = {
                .sql = "UPDATE board SET tags_json = ? WHERE id = ?", .format = "ss", .id = id, .text = text};
            status = text ? apply(fleet, &change, error) : STATUS_NO_MEMORY;
            free(text);
        } else {
            status = error_set(
                error, STATUS_INVALID_ARGUMENT,
                "'%s': a board takes name, location (text of at most 200 bytes) and tags (at most 32 texts)",
                key);
        }
        if (status < 0)
            return status;
    }
    fleet_publish_board(fleet, id);
    return 0;
}

/* ---- requests to a board ---- */

struct order {
    struct fleet *fleet;
    char id[FLEET_ID_BYTES];
    struct wire_do what;
};

static void order_call(void *context)
{
    struct order *order = context;
    struct member *member = member_get(order->fleet, order->id);
    uint8_t payload[WIRE_PAYLOAD_MAX];
    if (member && member->link)
        (void)fleet_send(member, WIRE_DO, wire_encode_do(&order->what, payload), payload);
    free(order);
}

static int require_online(struct fleet *fleet, const char *id, struct error *error)
{
    return fleet_online(fleet, id) ? 0 : error_set(error, STATUS_OFFLINE, "the board is offline");
}

int fleet_do(struct fleet *fleet, const char *id, const char *what, struct error *error)
{
    int status = require_online(fleet, id, error);
    if (status < 0)
        return status;
    struct order *order = calloc(1, sizeof *order);
    if (!order)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    order->fleet = fleet;
    (void)snprintf(order->id, sizeof order->id, "%s", id);
    order->what.what = strcmp(what, "reboot") == 0 ? WIRE_DO_REBOOT : WIRE_DO_IDENTIFY;
    order->what.number = 10;
    status = fleet_post(fleet, order_call, order);
    if (status < 0)
        free(order);
    return status;
}

int fleet_probe(struct fleet *fleet, const char *id, struct error *error)
{
    int status = require_online(fleet, id, error);
    return status < 0 ? status : fleet_tell(fleet, id, true);
}
