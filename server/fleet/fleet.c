/*
 * The fleet's life and the link layer's callbacks. All callbacks run on the coordinator thread and never
 * touch the database: what must last is posted to the store's writer, what people should see is published
 * from there.
 */
#include "server/fleet/members.h"

#include "server/base/clock.h"
#include "server/base/id.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FORGOTTEN_MS = 10000 };

struct member *member_find(struct fleet *fleet, const char *id)
{
    for (int i = 0; i < fleet->n_members; i++)
        if (strcmp(fleet->members[i]->id, id) == 0)
            return fleet->members[i];
    return NULL;
}

struct member *member_get(struct fleet *fleet, const char *id)
{
    pthread_mutex_lock(&fleet->mutex);
    struct member *member = member_find(fleet, id);
    pthread_mutex_unlock(&fleet->mutex);
    return member;
}

/* A slot that nobody needs: of a forgotten board, long enough after its link was lost for the coordinator to
 * be done with it. */
static bool is_free(const struct member *member)
{
    return member->state == MEMBER_FORGOTTEN && member->link_state == FLEET_OFFLINE &&
           clock_wall_ms() > member->since_ms + FORGOTTEN_MS;
}

struct member *member_add(struct fleet *fleet, const char *id)
{
    struct member *member = NULL;
    for (int i = 0; i < fleet->n_members && !member; i++)
        if (is_free(fleet->members[i]))
            member = fleet->members[i];
    if (!member) {
        if (fleet->n_members == FLEET_BOARDS_MAX || !(member = calloc(1, sizeof *member)))
            return NULL;
        fleet->members[fleet->n_members++] = member;
    }
    readings_free(member->readings);
    memset(member, 0, sizeof *member);
    (void)snprintf(member->id, sizeof member->id, "%s", id);
    return member;
}

const char *member_state_name(enum member_state state)
{
    static const char *const names[] = {"pending", "accepted", "revoked", "forgotten"};
    return names[state];
}

static const char *const link_names[] = {"offline", "stale", "online"};

/* ---- what is posted to the writer thread ---- */

/* A note of the coordinator for the store; the board is published when it is written. */
struct note {
    struct fleet *fleet;
    char id[FLEET_ID_BYTES];
    char *hello; /* JSON or NULL */
    int64_t seen_ms;
};

static int note_write(sqlite3 *db, void *context, struct error *error)
{
    const struct note *note = context;
    return (int)db_exec(
        db, error, "UPDATE board SET last_seen_at = ?, hello_json = coalesce(?, hello_json) WHERE id = ?",
        "iss", note->seen_ms, note->hello, note->id);
}

static void note_done(int status, const struct error *error, void *context)
{
    struct note *note = context;
    if (status < 0)
        LOG_WARN("fleet", "board %s: %s", note->id, error->message);
    fleet_publish_board(note->fleet, note->id);
    free(note->hello);
    free(note);
}

static json_t *hello_json(const struct wire_hello *hello)
{
    static const char *const kinds[] = {"host", "mps2", "teensy41"};
    json_t *regions = json_array();
    for (int i = 0; i < hello->n_regions; i++)
        json_array_append_new(regions, json_pack("{s:s, s:I, s:I}", "name", hello->regions[i].name, "bytes",
                                                 (json_int_t)hello->regions[i].bytes, "high_water_bytes",
                                                 (json_int_t)hello->regions[i].high_water));
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "kind",
                     hello->kind < 3 ? kinds[hello->kind] : "unknown", "firmware", hello->firmware,
                     "reset_reason", hello->reset_reason, "clock_hz", (json_int_t)hello->clock_hz,
                     "flash_bytes", (json_int_t)hello->flash_bytes, "flash_erase_bytes",
                     (json_int_t)hello->flash_erase_bytes, "regions", regions);
}

static void post_note(struct fleet *fleet, const struct member *member, bool hello)
{
    struct note *note = calloc(1, sizeof *note);
    if (!note)
        return;
    note->fleet = fleet;
    note->seen_ms = clock_wall_ms();
    memcpy(note->id, member->id, sizeof note->id);
    if (hello) {
        json_t *json = hello_json(&member->hello);
        note->hello = json ? json_dumps(json, JSON_COMPACT) : NULL;
        json_decref(json);
    }
    if (store_post(fleet->store, note_write, note, note_done) < 0) {
        free(note->hello);
        free(note);
    }
}

/* ---- link's callbacks ---- */

static void set_link_state(struct fleet *fleet, struct member *member, enum fleet_link_state state,
                           const char *reason)
{
    pthread_mutex_lock(&fleet->mutex);
    member->link_state = state;
    member->since_ms = clock_wall_ms();
    (void)snprintf(member->reason, sizeof member->reason, "%s", reason);
    pthread_mutex_unlock(&fleet->mutex);
    (void)store_telemetry(fleet->store,
                          "INSERT INTO board_state (board, at, state, reason) VALUES (?, ?, ?, ?)", "siss",
                          member->id, member->since_ms, link_names[state], reason);
    LOG_INFO("fleet", "board %s (%s) is %s%s%s", member->name, member->id, link_names[state],
             *reason ? ": " : "", reason);
}

static int on_admit(void *context, const char *board)
{
    struct fleet *fleet = context;
    pthread_mutex_lock(&fleet->mutex);
    const struct member *member = member_find(fleet, board);
    int status = 0;
    if (!fleet->ready)
        status = STATUS_BUSY;
    else if (!member || member->state == MEMBER_FORGOTTEN)
        status = STATUS_CERTIFICATE_WRONG;
    else if (member->state == MEMBER_REVOKED)
        status = STATUS_CERTIFICATE_REVOKED;
    pthread_mutex_unlock(&fleet->mutex);
    return status;
}

int fleet_send(struct member *member, uint8_t type, int payload_bytes, const uint8_t *payload)
{
    if (payload_bytes < 0 || !member->link)
        return payload_bytes < 0 ? payload_bytes : STATUS_OFFLINE;
    struct wire_header header = {.type = type, .length = (uint32_t)payload_bytes};
    int status = link_send(member->link, &header, payload);
    if (status < 0)
        link_drop(member->link, (enum status)status, "the board does not take its control frames");
    return status;
}

static int send_welcome(struct member *member)
{
    struct wire_welcome welcome = {
        .version = WIRE_VERSION, .state = (uint8_t)member->state, .time_ms = (uint64_t)clock_wall_ms()};
    memcpy(welcome.name, member->name, sizeof welcome.name);
    uint8_t payload[WIRE_PAYLOAD_MAX];
    return fleet_send(member, WIRE_WELCOME, wire_encode_welcome(&welcome, payload), payload);
}

static int on_up(void *context, struct link *link, const struct link_peer *peer,
                 const struct wire_header *header, const uint8_t *payload)
{
    struct fleet *fleet = context;
    if (header->type != WIRE_HELLO)
        return STATUS_WIRE_ORDER;
    struct wire_hello hello;
    int status = wire_decode_hello(payload, header->length, &hello);
    if (status < 0)
        return status;
    if (hello.version_min > WIRE_VERSION || hello.version_max < WIRE_VERSION)
        return STATUS_WIRE_VERSION;
    pthread_mutex_lock(&fleet->mutex);
    struct member *member = member_find(fleet, link_board(link));
    pthread_mutex_unlock(&fleet->mutex);
    if (!member)
        return STATUS_CERTIFICATE_WRONG;
    pthread_mutex_lock(&fleet->mutex);
    member->hello = hello;
    member->has_hello = true;
    member->has_beat = false;
    (void)snprintf(member->address, sizeof member->address, "%s", peer->address);
    pthread_mutex_unlock(&fleet->mutex);
    member->link = link;
    member->renew_s = peer->certificate.not_after_s - (int64_t)CA_BOARD_DAYS * 86400 / 2;
    link_set_user(link, member);
    status = send_welcome(member);
    if (status < 0)
        return status;
    set_link_state(fleet, member, FLEET_ONLINE, "");
    post_note(fleet, member, true);
    measure_start(fleet, member, clock_monotonic_us());
    push_begin(fleet, member);
    fleet->hooks.up(fleet->hooks.context, link_number(link), member->id);
    for (int i = 0; i < fleet->n_watches; i++)
        fleet->watches[i].call(fleet->watches[i].context, member->id, true);
    return 0;
}

static void on_down(void *context, struct link *link, int status, const char *reason)
{
    (void)status;
    struct fleet *fleet = context;
    struct member *member = link_user(link);
    if (!member)
        return;
    uint16_t number = link_number(link);
    member->link = NULL;
    set_link_state(fleet, member, FLEET_OFFLINE, reason);
    post_note(fleet, member, false);
    measure_link_lost(member);
    push_link_lost(fleet, member);
    fleet->hooks.down(fleet->hooks.context, number, member->id);
    for (int i = 0; i < fleet->n_watches; i++)
        fleet->watches[i].call(fleet->watches[i].context, member->id, false);
}

static void on_stale(void *context, struct link *link, bool stale)
{
    struct member *member = link_user(link);
    if (!member)
        return;
    set_link_state(context, member, stale ? FLEET_STALE : FLEET_ONLINE,
                   stale ? "no sign of life for 5 s" : "");
    post_note(context, member, false);
}

static int on_beat(struct fleet *fleet, struct member *member, const struct wire_header *header,
                   const uint8_t *payload)
{
    struct wire_beat beat;
    int status = wire_decode_beat(payload, header->length, &beat);
    if (status < 0)
        return status;
    pthread_mutex_lock(&fleet->mutex);
    member->beat = beat;
    member->has_beat = true;
    readings_take(&member->readings, &beat, clock_wall_ms());
    pthread_mutex_unlock(&fleet->mutex);
    measure_on_beat(fleet, member, clock_monotonic_us());
    return 0;
}

static int on_log(struct fleet *fleet, struct member *member, const struct wire_header *header,
                  const uint8_t *payload)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    struct wire_log log;
    int status = wire_decode_log(payload, header->length, &log);
    if (status < 0)
        return status;
    const char *level = log.level < 4 ? levels[log.level] : "info";
    char id[ID_ULID_BYTES];
    id_ulid(id);
    (void)store_telemetry(fleet->store,
                          "INSERT INTO board_log (id, board, at, level, text) VALUES (?, ?, ?, ?, ?)",
                          "ssiss", id, member->id, clock_wall_ms(), level, log.text);
    return 0;
}

static int on_frame(void *context, struct link *link, const struct wire_header *header,
                    const uint8_t *payload)
{
    struct fleet *fleet = context;
    struct member *member = link_user(link);
    int status;
    switch (header->type) {
    case WIRE_BEAT:
        return on_beat(fleet, member, header, payload);
    case WIRE_LOG:
        return on_log(fleet, member, header, payload);
    case WIRE_WANT: {
        struct wire_want want;
        status = wire_decode_want(payload, header->length, &want);
        return status < 0 ? status : push_on_want(fleet, member, &want);
    }
    case WIRE_HAVE: {
        struct wire_have have;
        status = wire_decode_have(payload, header->length, &have);
        return status < 0 ? status : push_on_have(fleet, member, &have);
    }
    case WIRE_ECHO:
        measure_on_echo(fleet, member, header, clock_monotonic_us());
        return 0;
    case WIRE_DATA:
    case WIRE_DONE:
    case WIRE_FAILED:
    case WIRE_ABORTED:
        return fleet->hooks.frame(fleet->hooks.context, link_number(link), header, payload);
    default:
        return 0;
    }
}

/* Probes first, then live inferences, then fragment bytes: these never stand before live DATA. */
static int on_next_frame(void *context, struct link *link, struct wire_header *header,
                         uint8_t payload[WIRE_PAYLOAD_MAX])
{
    struct fleet *fleet = context;
    struct member *member = link_user(link);
    if (!member)
        return -1;
    int n = measure_next_frame(fleet, member, header, payload);
    if (n < 0)
        n = fleet->hooks.next_frame(fleet->hooks.context, link_number(link), header, payload);
    if (n < 0)
        n = push_next_frame(member, header, payload);
    return n;
}

/* Certificates are renewed over the link at half-life. */
static void renew_when_due(struct member *member)
{
    if (!member->renew_s || clock_wall_ms() / 1000 < member->renew_s)
        return;
    member->renew_s = 0;
    struct wire_do order = {.what = WIRE_DO_RENEW};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    (void)fleet_send(member, WIRE_DO, wire_encode_do(&order, payload), payload);
}

static uint64_t on_timer(void *context, uint64_t now_us)
{
    struct fleet *fleet = context;
    pthread_mutex_lock(&fleet->mutex);
    bool ready = fleet->ready;        /* the hooks are set before it, by another thread */
    int n_members = fleet->n_members; /* more may come, none goes */
    pthread_mutex_unlock(&fleet->mutex);
    uint64_t next = ready ? fleet->hooks.tick(fleet->hooks.context, now_us) : 100000;
    for (int i = 0; i < n_members; i++) {
        struct member *member = fleet->members[i];
        if (member->link)
            renew_when_due(member);
        uint64_t wish = member->link ? measure_tick(fleet, member, now_us) : UINT64_MAX;
        next = wish < next ? wish : next;
    }
    return next;
}

/* ---- life ---- */

static int put_authority(sqlite3 *db, void *context, struct error *error)
{
    const struct ca_der *pair = context;
    int status = store_setting_put(db, "ca_key", pair[0].bytes, pair[0].size, error);
    return status < 0 ? status : store_setting_put(db, "ca_certificate", pair[1].bytes, pair[1].size, error);
}

static int load_authority(struct fleet *fleet, sqlite3 *db, struct error *error)
{
    unsigned char *key = NULL, *certificate = NULL;
    size_t key_size, certificate_size;
    int status = store_setting_get(db, "ca_key", &key, &key_size, error);
    if (status == 1)
        status = store_setting_get(db, "ca_certificate", &certificate, &certificate_size, error);
    if (status == 1) {
        status = ca_open(key, key_size, certificate, certificate_size, &fleet->ca, error);
    } else if (status == 0) {
        struct ca_der pair[2];
        status = ca_create(clock_wall_ms() / 1000, &pair[0], &pair[1], error);
        if (status >= 0)
            status = store_write(fleet->store, put_authority, pair, error);
        if (status >= 0)
            status = ca_open(pair[0].bytes, pair[0].size, pair[1].bytes, pair[1].size, &fleet->ca, error);
        memset(pair, 0, sizeof pair);
    }
    free(key);
    free(certificate);
    return status;
}

static enum member_state state_from_name(const char *name)
{
    for (int i = MEMBER_PENDING; i <= MEMBER_REVOKED; i++)
        if (strcmp(name, member_state_name((enum member_state)i)) == 0)
            return (enum member_state)i;
    return MEMBER_PENDING;
}

static int load_members(struct fleet *fleet, sqlite3 *db, struct error *error)
{
    json_t *rows = db_rows(db, error, "SELECT id, name, state, drained, rating_json FROM board", "");
    if (!rows)
        return error->status;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        struct member *member = member_add(fleet, json_string_value(json_object_get(row, "id")));
        if (!member)
            break;
        (void)snprintf(member->name, sizeof member->name, "%s",
                       json_string_value(json_object_get(row, "name")));
        member->state = state_from_name(json_string_value(json_object_get(row, "state")));
        member->drained = json_integer_value(json_object_get(row, "drained")) != 0;
        (void)fleet_rating_from_json(json_object_get(row, "rating"), &member->rating);
    }
    json_decref(rows);
    return 0;
}

int fleet_start(struct fleet **out, struct store *store, const struct fleet_config *config,
                struct error *error)
{
    *out = NULL;
    struct fleet *fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    fleet->store = store;
    fleet->config = *config;
    pthread_mutex_init(&fleet->mutex, NULL);
    sqlite3 *db = store_reader(store);
    int status = db ? load_authority(fleet, db, error)
                    : error_set(error, STATUS_BUSY, "no connection to the database");
    if (status >= 0)
        status = load_members(fleet, db, error);
    store_reader_done(store, db);
    struct link_options options = {.listen = config->board_listen};
    struct link_owner owner = {.context = fleet,
                               .admit = on_admit,
                               .on_up = on_up,
                               .on_frame = on_frame,
                               .on_down = on_down,
                               .on_stale = on_stale,
                               .next_frame = on_next_frame,
                               .on_enrol = fleet_on_enrol,
                               .on_failure = fleet_on_failure,
                               .on_timer = on_timer};
    if (status >= 0)
        status = links_start(&fleet->links, fleet->ca, &options, &owner, error);
    if (status < 0) {
        fleet_stop(fleet);
        return status;
    }
    *out = fleet;
    return 0;
}

void fleet_set_hooks(struct fleet *fleet, const struct fleet_hooks *hooks)
{
    pthread_mutex_lock(&fleet->mutex);
    fleet->hooks = *hooks;
    fleet->ready = true;
    pthread_mutex_unlock(&fleet->mutex);
}

void fleet_watch(struct fleet *fleet, fleet_watch_fn *call, void *context)
{
    if (fleet->n_watches == FLEET_WATCHES_MAX)
        abort();
    fleet->watches[fleet->n_watches].call = call;
    fleet->watches[fleet->n_watches++].context = context;
}

/* Notes that the coordinator posted last are written, and published, before the fleet is freed. */
static int nothing(sqlite3 *db, void *context, struct error *error)
{
    (void)db;
    (void)context;
    (void)error;
    return 0;
}

void fleet_stop(struct fleet *fleet)
{
    if (!fleet)
        return;
    if (fleet->links) {
        links_stop(fleet->links);
        while (store_write(fleet->store, nothing, NULL, NULL) == STATUS_BUSY)
            usleep(1000);
    }
    for (int i = 0; i < fleet->n_members; i++) {
        readings_free(fleet->members[i]->readings);
        free(fleet->members[i]);
    }
    ca_free(fleet->ca);
    pthread_mutex_destroy(&fleet->mutex);
    free(fleet);
}

/* ---- small things for the modules above ---- */

uint16_t fleet_port(const struct fleet *fleet)
{
    return links_port(fleet->links);
}

const char *fleet_address(const struct fleet *fleet)
{
    return links_address(fleet->links);
}

bool fleet_address_is_loopback(const struct fleet *fleet)
{
    return links_loopback(fleet->links);
}

int fleet_post(struct fleet *fleet, void (*call)(void *context), void *context)
{
    return links_post(fleet->links, call, context);
}

int32_t fleet_link_of(struct fleet *fleet, const char *board)
{
    struct link *link = links_find(fleet->links, board);
    return link ? link_number(link) : -1;
}

void fleet_kick(struct fleet *fleet, uint16_t number)
{
    struct link *link = links_at(fleet->links, number);
    if (link)
        link_kick(link);
}

void fleet_drop(struct fleet *fleet, uint16_t number, enum status status, const char *reason)
{
    struct link *link = links_at(fleet->links, number);
    if (link)
        link_drop(link, status, reason);
}

bool fleet_online(struct fleet *fleet, const char *id)
{
    pthread_mutex_lock(&fleet->mutex);
    const struct member *member = member_find(fleet, id);
    bool online = member && member->link_state == FLEET_ONLINE;
    pthread_mutex_unlock(&fleet->mutex);
    return online;
}
