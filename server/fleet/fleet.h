/*
 * The fleet: every board that was ever enrolled, which of them are there now, and what they hold. Owns the
 * link layer (server/link) and its coordinator thread.
 *
 * Threads. What is durable lies in the store (table board, enrolment, attempt). What is live (link, state,
 * hello, beat, push in progress) belongs to the coordinator thread; a copy for readers is kept under a mutex.
 * Functions marked [any] take that mutex only; [worker] may block on the database and are not for the HTTP
 * pool or the coordinator thread; [coordinator] are for callbacks on the coordinator thread.
 */
#ifndef SHOAL_SERVER_FLEET_FLEET_H
#define SHOAL_SERVER_FLEET_FLEET_H

#include "server/plan/plan.h"
#include "server/store/store.h"
#include "shared/wire/wire.h"

#include <jansson.h>

enum { FLEET_ID_BYTES = 33, FLEET_BOARDS_MAX = CONDUCT_LINKS_MAX };

enum fleet_link_state { FLEET_OFFLINE, FLEET_STALE, FLEET_ONLINE };

struct fleet;

/* Something changed for people: called on any thread; publishes an event. `kind` "board"; json is borrowed.
 */
typedef void fleet_publish_fn(void *context, const char *kind, const json_t *json);

struct fleet_config {
    const char *board_listen; /* "127.0.0.1:8443" */
    fleet_publish_fn *publish;
    void *publish_context;
};

/* Loads or creates the certificate authority, the boards' table, and listens. */
int fleet_start(struct fleet **fleet, struct store *store, const struct fleet_config *config,
                struct error *error);
void fleet_stop(struct fleet *fleet);
uint16_t fleet_port(const struct fleet *fleet);       /* [any] */
const char *fleet_address(const struct fleet *fleet); /* [any] "127.0.0.1:8443" as boards should use it */
bool fleet_address_is_loopback(const struct fleet *fleet); /* [any] */

/* ---- for the API ---- */
/* A board as GET gives it: row, live state, since_at, hello, memory, rating. NULL: STATUS_NOT_FOUND. [any,
 * reads the store through `db`]. `id` may be a unique name. */
json_t *fleet_board_json(struct fleet *fleet, sqlite3 *db, const char *id, struct error *error);
json_t *fleet_boards_json(struct fleet *fleet, sqlite3 *db, const char *after, int64_t limit,
                          struct error *error);
/* What a board said of itself each 10 s, for at most an hour since the server's start:
 * server/fleet/readings.h. [any] */
json_t *fleet_readings_json(struct fleet *fleet, const char *id);
/* Resolves id or unique name to an id; STATUS_NOT_FOUND. [any] */
int fleet_resolve(struct fleet *fleet, sqlite3 *db, const char *id_or_name, char id[FLEET_ID_BYTES],
                  struct error *error);
int fleet_accept(struct fleet *fleet, const char *id, const char *actor, struct error *error); /* [worker] */
int fleet_revoke(struct fleet *fleet, const char *id, const char *actor,
                 struct error *error); /* [worker] drops the link */
int fleet_forget(struct fleet *fleet, const char *id, const char *actor,
                 struct error *error); /* [worker] DELETE; 409 while used */
int fleet_edit(struct fleet *fleet, const char *id, const json_t *patch, const char *actor,
               struct error *error);                               /* [worker] name, location, tags */
int64_t fleet_arena_bytes(struct fleet *fleet, const char *board); /* as HELLO said it; 0: not known. [any] */
/* For fragments: what HELLO said less an erase block, since images begin on one; 0: not known. [any] */
int64_t fleet_flash_bytes(struct fleet *fleet, const char *board);
int fleet_drain(struct fleet *fleet, const char *id, bool drained, const char *actor,
                struct error *error); /* [worker] */
int fleet_probe(struct fleet *fleet, const char *id,
                struct error *error); /* [worker] measures now; 503 offline */
int fleet_do(struct fleet *fleet, const char *id, const char *what,
             struct error *error); /* [worker] identify, reboot */
/* A new code: {"id","code","expires_at","command","warning"}. [worker] */
struct fleet_enrolment {
    bool accept;
    int64_t ttl_s, uses;
    const char *name_prefix;
};
json_t *fleet_enrol(struct fleet *fleet, const struct fleet_enrolment *options, const char *actor,
                    struct error *error);

/* ---- for planning ---- */
/* The boards that a plan may use: accepted, online, not drained; measured figures in a profile's fields.
 * `only` (NULL: all) is a JSON array of ids or names, refused when one is not usable. *boards is malloc'ed.
 * [any] */
int fleet_plan_boards(struct fleet *fleet, sqlite3 *db, const json_t *only, struct plan_board **boards,
                      int32_t *n, struct error *error);
bool fleet_online(struct fleet *fleet, const char *id); /* [any] */

/* ---- for deployments ---- */
/* Gives a board a fragment and waits for nothing: offers it, serves WANT, and reports by the callback on the
 * coordinator thread when the board has echoed the hash (0), refused, or the link broke (STATUS_OFFLINE; push
 * again when it is back: it resumes). A board that holds it answers at once and no bytes move. `bytes` is
 * copied once and shared by hash. [any] */
typedef void fleet_push_fn(void *context, const char *board, const uint8_t hash[WIRE_HASH_BYTES], int status,
                           const char *reason, uint64_t bytes_pushed);
int fleet_push(struct fleet *fleet, const char *board, const uint8_t hash[WIRE_HASH_BYTES], const void *bytes,
               uint32_t size, fleet_push_fn *done, void *context);
/* Progress of a push: bytes the board has taken, of how many; false when there is none. [any] */
bool fleet_push_progress(struct fleet *fleet, const char *board, const uint8_t hash[WIRE_HASH_BYTES],
                         uint64_t *bytes, uint64_t *of);
/* Tells a board which fragments it is to keep; it removes the others. [any] */
int fleet_keep(struct fleet *fleet, const char *board, const uint8_t (*hashes)[WIRE_HASH_BYTES], uint32_t n);

/* ---- for inferences: the hooks of server/infer, all called on the coordinator thread ---- */
struct fleet_hooks {
    void *context;
    int (*frame)(void *context, uint16_t link, const struct wire_header *header, const uint8_t *payload);
    int (*next_frame)(void *context, uint16_t link, struct wire_header *header,
                      uint8_t payload[WIRE_PAYLOAD_MAX]);
    void (*up)(void *context, uint16_t link, const char *board);
    void (*down)(void *context, uint16_t link, const char *board);
    uint64_t (*tick)(void *context, uint64_t now_us); /* returns microseconds until it wants the next one */
};
/* Must be called once after fleet_start: boards are let in from then on. */
void fleet_set_hooks(struct fleet *fleet, const struct fleet_hooks *hooks);
/* Further parties that want to know when a board's link is up (after its HELLO) or down; at most 4, before
 * fleet_set_hooks. Called on the coordinator thread; must not block. */
typedef void fleet_watch_fn(void *context, const char *board, bool up);
void fleet_watch(struct fleet *fleet, fleet_watch_fn *call, void *context);
/* Runs `call` on the coordinator thread soon; STATUS_BUSY when its queue is full. [any] */
int fleet_post(struct fleet *fleet, void (*call)(void *context), void *context);
/* The link number of a board that is up, -1 otherwise. [coordinator] */
int32_t fleet_link_of(struct fleet *fleet, const char *board);
/* Something may be sent on a link: ask next_frame again. [coordinator] */
void fleet_kick(struct fleet *fleet, uint16_t link);
void fleet_drop(struct fleet *fleet, uint16_t link, enum status status,
                const char *reason); /* [coordinator] */

#endif
