/*
 * The fleet's members in memory; private to server/fleet. One mutex guards the table. The coordinator thread
 * writes what is live; workers write what is durable after the store has it. Pointers to members stay valid
 * while the fleet lives (a forgotten member's slot is used again, not freed).
 */
#ifndef SHOAL_SERVER_FLEET_MEMBERS_H
#define SHOAL_SERVER_FLEET_MEMBERS_H

#include "server/fleet/fleet.h"
#include "server/fleet/probe.h"
#include "server/fleet/readings.h"
#include "server/link/link.h"

#include <pthread.h>

enum {
    FLEET_NAME_BYTES = 64,
    FLEET_WATCHES_MAX = 4,
    FLEET_HELD_MAX = sizeof((struct wire_hello *)0)->held / sizeof((struct wire_hello *)0)->held[0],
    FLEET_DROPS_MAX = 8 /* asked for at once: a board keeps 16 requests, and an offer must find a place */
};

/* FORGOTTEN stands in memory only: the row is gone, the slot waits for its link to end or for the board to
 * enrol anew. */
enum member_state { MEMBER_PENDING = WIRE_STATE_PENDING, MEMBER_ACCEPTED, MEMBER_REVOKED, MEMBER_FORGOTTEN };

/* What was measured of a board. Zero: not yet. */
struct fleet_rating {
    double clock_hz, k1;       /* k1: KB of output per million cycles */
    double delay_s_per_kb;     /* equation 5's d */
    double bandwidth_kb_per_s; /* equation 5's B */
    double latency_s;          /* of a message without payload */
    int64_t measured_ms;
};

enum measure_state { MEASURE_NONE, MEASURE_WANTED, MEASURE_CALIBRATING, MEASURE_PROBING };

/* Fragment bytes shared by the pushes of one hash. */
struct push_bytes {
    struct push_bytes *next;
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size, references;
    uint8_t data[];
};

/* One fragment on its way to one board. */
struct push {
    struct push *next;
    char board[FLEET_ID_BYTES];
    struct push_bytes *bytes;
    fleet_push_fn *done;
    void *context;
    bool offered;
    uint32_t want_at, want_end; /* bytes asked for and not sent yet */
    uint64_t sent, position;    /* bytes sent in all; how far the image is */
    struct fleet *fleet;
};

struct member {
    char id[FLEET_ID_BYTES]; /* "" : a free slot */
    char name[FLEET_NAME_BYTES];
    enum member_state state;
    bool drained;
    struct fleet_rating rating;
    /* live */
    enum fleet_link_state link_state;
    int64_t since_ms; /* wall clock of the last change of link_state; 0: never seen since the start */
    char address[LINK_ADDRESS_BYTES];
    char reason[200]; /* why it went offline */
    bool has_hello, has_beat;
    struct wire_hello hello;
    struct wire_beat beat;
    struct readings *readings;
    uint64_t push_bytes, push_of;
    uint8_t push_hash[WIRE_HASH_BYTES];
    bool pushing;
    /* coordinator thread only */
    struct link *link;   /* NULL: offline */
    int64_t renew_s;     /* Unix seconds: ask for a renewal of its certificate; 0: asked */
    struct push *pushes; /* the first is under way */
    uint8_t doomed[FLEET_HELD_MAX][WIRE_HASH_BYTES]; /* to be dropped; it was told of the first n_dropping */
    int n_doomed, n_dropping;
    enum measure_state measure;
    uint32_t calibrations_seen;
    uint64_t measure_deadline_us;
    struct probe probe;
};

struct fleet {
    struct store *store;
    struct fleet_config config;
    struct ca *ca;
    struct links *links;
    struct fleet_hooks hooks;
    struct {
        fleet_watch_fn *call;
        void *context;
    } watches[FLEET_WATCHES_MAX];
    int n_watches;
    pthread_mutex_t mutex;
    struct member *members[FLEET_BOARDS_MAX];
    int n_members;
    struct push_bytes *push_bytes;
    bool ready; /* hooks are set: links may come up */
};

/* The mutex is held, or the caller is on the coordinator thread and reads what only that writes. */
struct member *member_find(struct fleet *fleet, const char *id);
struct member *member_add(struct fleet *fleet, const char *id); /* NULL: the table is full */
/* As member_find, taking the mutex: for calls on the coordinator thread. */
struct member *member_get(struct fleet *fleet, const char *id);
const char *member_state_name(enum member_state state);

/* Publishes a board as the API shows it (reads the store; any thread but the coordinator: that posts through
 * here). */
void fleet_publish_board(struct fleet *fleet, const char *id);

/* inventory.c: tells a board its state and name (WELCOME goes out again); a newly accepted board is measured.
 */
int fleet_tell(struct fleet *fleet, const char *id, bool measure);
/* candidates.c: a member that has said HELLO in a profile's fields. What was not measured stays the
 * profile's; link and latency come from the probes. The mutex is held. */
void fleet_fill_board(const struct member *member, struct plan_board *board);

/* enrol.c: link's callbacks for ENROL and failures. */
void fleet_on_enrol(void *context, uint64_t request, const struct link_enrolment *enrolment);
void fleet_on_failure(void *context, const struct link_failure *failure);

/* push.c, on the coordinator thread. */
int push_next_frame(struct member *member, struct wire_header *header, uint8_t *payload); /* -1: nothing */
int push_on_want(struct fleet *fleet, struct member *member, const struct wire_want *want);
int push_on_have(struct fleet *fleet, struct member *member, const struct wire_have *have);
void push_begin(struct fleet *fleet, struct member *member); /* offers the first, if a link is up */
void push_link_lost(struct fleet *fleet, struct member *member);
int fleet_send(struct member *member, uint8_t type, int payload_bytes, const uint8_t *payload);

/* measure.c, on the coordinator thread: calibration, then echo probes, then the rating into the store. */
void measure_start(struct fleet *fleet, struct member *member, uint64_t now_us);
void measure_on_beat(struct fleet *fleet, struct member *member, uint64_t now_us);
void measure_on_echo(struct fleet *fleet, struct member *member, const struct wire_header *header,
                     uint64_t now_us);
int measure_next_frame(struct fleet *fleet, struct member *member, struct wire_header *header,
                       uint8_t *payload);
uint64_t measure_tick(struct fleet *fleet, struct member *member, uint64_t now_us);
void measure_link_lost(struct member *member);
/* KB/s by equation 5 for communication coefficient kc. */
json_t *fleet_rating_json(const struct fleet_rating *rating);
bool fleet_rating_from_json(const json_t *json, struct fleet_rating *rating);

#endif
