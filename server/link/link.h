/*
 * Links to boards: TLS, handshakes, frames, and the queue of each board's link. One coordinator thread owns
 * all links and makes every callback; two helper threads do nothing but handshakes.
 *
 * TLS 1.2, ECDHE-ECDSA with ChaCha20-Poly1305 on P-256 only, records of at most 4,096 bytes, certificates on
 * both sides. A peer without a certificate may send one ENROL frame, which the owner answers, and is then
 * closed. Every certificate is judged on the coordinator thread, also that of a resumed session: authority,
 * date, and `admit`. What was refused is reported with time, address and reason, and the peer is told in a
 * CERT frame where it can read one.
 *
 * A link is up when its first frame (HELLO) is in; it is down when it closes, breaks the protocol, is silent
 * for offline_ms, is dropped, or when the same board comes again on a new connection. One frame is one TLS
 * record.
 *
 * Sending is pulled: the owner says link_kick(), and next_frame is asked whenever the socket takes one more.
 * Control frames of link_send() go first, in order; their queue is bounded. Receiving never stops.
 *
 * Functions are marked [coordinator] (callbacks and posted calls only) or [any].
 */
#ifndef SHOAL_SERVER_LINK_LINK_H
#define SHOAL_SERVER_LINK_LINK_H

#include "server/base/error.h"
#include "server/ca/ca.h"
#include "shared/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    LINK_MAX = 1024,         /* links that are up; their numbers are 0..LINK_MAX-1 */
    LINK_ADDRESS_BYTES = 64, /* "127.0.0.1:51234", "[::1]:51234" */
    LINK_CONTROL_MAX = 64,   /* control frames waiting on one link */
    LINK_POSTS_MAX = 4096    /* posted calls waiting */
};

struct links;
struct link;

/* Who is at the other end. */
struct link_peer {
    char address[LINK_ADDRESS_BYTES];
    bool certified; /* false: an enrolling peer; then `certificate` is all zero */
    bool resumed;   /* by a session ticket */
    struct ca_info certificate;
};

/* A peer that was turned away. */
struct link_failure {
    int64_t at_ms; /* wall clock, since 1970 */
    char address[LINK_ADDRESS_BYTES];
    char board[CA_ID_BYTES]; /* "" where no certificate was read */
    enum status
        status; /* certificate_missing, _wrong, _expired, _revoked, tls_failed, wire_malformed, busy, ... */
    char reason[200];   /* for people: what happened */
    const char *action; /* for people: what to do */
};

/* A request for a certificate. Pointers are valid during the callback. */
struct link_enrolment {
    const struct link_peer *peer; /* certified: a renewal; its board id is that of `certificate` */
    const char *code, *name, *firmware;
    uint8_t kind;           /* enum wire_kind */
    const uint8_t *request; /* PKCS#10, DER */
    uint32_t request_bytes;
};

/* What the peer is told. status 0: the certificate; state is the enum wire_state. */
struct link_answer {
    int status;
    uint8_t state;
    char name[64];
    char reason[200];
    struct ca_der certificate;
};

/* All called on the coordinator thread; none may block. NULL where not wanted, but for admit, on_up and
 * on_down. */
struct link_owner {
    void *context;
    /* Whether a board with a good certificate may connect: 0, STATUS_CERTIFICATE_REVOKED, or
     * STATUS_CERTIFICATE_WRONG for a board that the fleet does not know. Asked after each handshake, full or
     * resumed. */
    int (*admit)(void *context, const char *board);
    /* `hello` is the first frame. A negative status drops the link again (on_down follows). */
    int (*on_up)(void *context, struct link *link, const struct link_peer *peer,
                 const struct wire_header *header, const uint8_t *payload);
    /* Every later frame but NOP. A negative status drops the link with that reason. */
    int (*on_frame)(void *context, struct link *link, const struct wire_header *header,
                    const uint8_t *payload);
    /* The link is gone; `link` is invalid after. Once for each on_up. */
    void (*on_down)(void *context, struct link *link, int status, const char *reason);
    /* No byte for stale_ms (true), or one again (false). */
    void (*on_stale)(void *context, struct link *link, bool stale);
    /* The next frame to send: header and payload filled, payload bytes returned; -1: nothing now. */
    int (*next_frame)(void *context, struct link *link, struct wire_header *header,
                      uint8_t payload[WIRE_PAYLOAD_MAX]);
    /* A peer asks for a certificate. Must be answered with link_answer(request), soon, from any thread; else
     * the peer is closed after enrol_ms. */
    void (*on_enrol)(void *context, uint64_t request, const struct link_enrolment *enrolment);
    void (*on_failure)(void *context, const struct link_failure *failure);
    /* Called at least as often as it asks: returns microseconds until it wants the next call. */
    uint64_t (*on_timer)(void *context, uint64_t now_us);
};

/* Zero means the default that is named. */
struct link_options {
    const char *listen; /* "HOST:PORT" or "[V6]:PORT"; port 0 picks a free one; numeric hosts or localhost */
    uint32_t half_open_max;  /* handshakes at once, 64; beyond it new peers wait in the kernel's queue */
    uint32_t handshake_ms;   /* from accept to the end of the handshake, 5000 */
    uint32_t first_frame_ms; /* from there to HELLO or ENROL, 5000 */
    uint32_t enrol_ms;       /* for the owner to answer an ENROL, 10000 */
    uint32_t nop_ms;         /* WIRE_NOP_MS */
    uint32_t stale_ms;       /* WIRE_STALE_MS */
    uint32_t offline_ms;     /* WIRE_OFFLINE_MS */
    uint32_t server_days;    /* validity of the server's own certificate, made anew at each start: 3650 */
};

/* Listens and starts the three threads. `ca` and what `owner` points to outlive the links; `owner` is copied.
 * Errors: STATUS_INVALID_ARGUMENT (address), STATUS_CONFLICT (address in use), STATUS_IO_FAILED,
 * STATUS_NO_MEMORY. */
int links_start(struct links **links, struct ca *ca, const struct link_options *options,
                const struct link_owner *owner, struct error *error);
/* Drops every link (with on_down), joins the threads, frees. Posted calls that wait run
 * once more, when no link is up any more. */
void links_stop(struct links *links);
/* Where it listens: "127.0.0.1:8443", with the port that was picked. [any] */
const char *links_address(const struct links *links);
uint16_t links_port(const struct links *links); /* [any] */
bool links_loopback(const struct links *links); /* only peers on this machine can reach it. [any] */

/* Runs call(context) on the coordinator thread. STATUS_BUSY when LINK_POSTS_MAX wait. [any] */
int links_post(struct links *links, void (*call)(void *context), void *context);
/* Wakes the coordinator so that on_timer is asked at once. [any] */
void links_wake(struct links *links);
/* Answers an ENROL; nothing happens when the peer is gone. [any] */
int links_answer(struct links *links, uint64_t request, const struct link_answer *answer);
/* Drops the link of a board, if it has one, within a second whatever it sends. [any] */
int links_drop_board(struct links *links, const char *board, enum status status, const char *reason);

/* [coordinator] */
struct link *links_find(struct links *links, const char *board); /* NULL: not up */
struct link *links_at(struct links *links, uint16_t number);     /* NULL: not up */
uint16_t link_number(const struct link *link);                   /* unique among links that are up */
const char *link_board(const struct link *link);
const struct link_peer *link_peer(const struct link *link);
void link_set_user(struct link *link, void *user);
void *link_user(const struct link *link);
uint64_t link_last_byte_us(const struct link *link);   /* clock_monotonic_us() of the last byte received */
uint64_t link_bytes_received(const struct link *link); /* of frames with headers, without TLS */
uint64_t link_bytes_sent(const struct link *link);
bool link_stale(const struct link *link);
/* Queues a control frame (copied). STATUS_BUSY when LINK_CONTROL_MAX wait: the owner drops the link or tries
 * later. */
int link_send(struct link *link, const struct wire_header *header, const uint8_t *payload);
/* Something may be sent: next_frame is asked again soon. */
void link_kick(struct link *link);
/* Closes the link soon, after this callback returns; on_down follows. The first reason stays. */
void link_drop(struct link *link, enum status status, const char *reason);

#endif
