/*
 * What the files of this folder share. A connection (`struct link`) belongs to one helper thread while it
 * shakes hands, then to the coordinator thread for good; it is handed over under `lock`.
 */
#ifndef SHOAL_SERVER_LINK_INTERNAL_H
#define SHOAL_SERVER_LINK_INTERNAL_H

#include "server/link/link.h"

#include "mbedtls/ctr_drbg.h"
#include "mbedtls/entropy.h"
#include "mbedtls/ssl.h"
#include "mbedtls/ssl_ticket.h"
#include "mbedtls/x509_crt.h"

#include <pthread.h>

enum {
    LINK_HELPERS = 2,
    LINK_WAITING_MAX = 256, /* connections that are neither up nor shaking hands */
    LINK_LINGER_MS = 1000,  /* a refused peer has so long to read why */
    LINK_FRAMES_A_TURN = 32 /* read or written on one link before the next one has its turn */
};

enum link_state {
    LINK_HANDSHAKE, /* on a helper */
    LINK_FIRST,     /* waits for HELLO or ENROL */
    LINK_ENROLLING, /* waits for the owner's answer */
    LINK_UP,
    LINK_LINGER, /* told why not; its bytes are thrown away until it closes */
    LINK_DEAD    /* freed at the end of the turn */
};

/* A control frame that waits. */
struct link_control {
    uint32_t bytes;
    uint8_t frame[]; /* header and payload */
};

struct link {
    struct links *links;
    struct link *next, *previous; /* of its helper's or the coordinator's list */
    struct link *next_writer;     /* of the list of links that may have something to send */
    bool is_writer, blocked;      /* blocked: the socket takes nothing now */
    bool doomed;                  /* is dropped at the end of the turn, with status and reason */
    bool judged_now;              /* a certificate was verified in this handshake: not resumed */
    bool stale;
    bool closing; /* LINGER: everything is sent, the sending side is shut */
    enum link_state state;
    int status;
    int fd;
    uint16_t number;
    uint64_t request;     /* ENROL that waits for its answer, 0: none */
    uint64_t deadline_us; /* of HANDSHAKE (the helper's own time), FIRST, ENROLLING, LINGER */
    uint64_t last_byte_us, last_sent_us;
    uint64_t received, sent;
    void *user;
    struct link_peer peer;
    char reason[200];
    mbedtls_ssl_context ssl;
    struct link_control *control[LINK_CONTROL_MAX];
    uint32_t control_first, control_count;
    uint32_t out_bytes; /* frame in `out` that the socket has not taken yet */
    uint8_t out[WIRE_FRAME_MAX];
    uint8_t in[WIRE_FRAME_MAX];
};

/* What both ends of all TLS sessions use; read only once the threads run (mbedTLS locks its generator and
 * tickets). */
struct link_tls {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context drbg;
    mbedtls_ssl_config config;
    mbedtls_ssl_ticket_context tickets;
    mbedtls_x509_crt chain; /* the server's certificate, then the authority's */
    mbedtls_x509_crt authority;
    mbedtls_pk_context key;
};

struct link_helper {
    struct links *links;
    pthread_t thread;
    bool started;
    int epoll, wake;
    bool accepting;        /* the listener is in its epoll set */
    uint32_t count, limit; /* handshakes in progress */
    uint64_t resume_us;    /* accept again then (out of descriptors) */
    uint64_t turn_us;      /* when the turn before began */
    uint64_t own_us;       /* time in which it could run: deadlines of handshakes are of this */
    struct link *first;
};

struct link_post {
    void (*call)(void *context);
    void *context;
};

struct links {
    struct ca *ca;
    struct link_options options;
    struct link_owner owner;
    struct link_tls tls;
    int listener;
    bool loopback;
    uint16_t port;
    char address[LINK_ADDRESS_BYTES];
    struct link_helper helper[LINK_HELPERS];

    pthread_t thread;
    bool started;
    int epoll, wake;
    struct link *first, *writers, *dead; /* coordinator's */
    struct link *up[LINK_MAX];
    uint32_t n_waiting, n_up;
    bool any_doomed;
    uint64_t next_request, next_timer_us, next_sweep_us, sweep_us;

    pthread_mutex_t lock; /* of what follows */
    bool stopping;
    struct link *shaken; /* handshakes done, for the coordinator */
    struct link_failure *failures;
    uint32_t n_failures;
    struct link_post *posts;
    uint32_t posts_first, posts_count;
};

/* link_tls.c */
void link_tls_init(struct link_tls *tls);
int link_tls_open(struct links *links, struct error *error);
void link_tls_close(struct link_tls *tls);
struct link *link_new(struct links *links, int fd, const char *address); /* NULL: no memory */
void link_free(struct link *link);                                       /* closes the socket */
/* Why a handshake failed. */
void link_tls_failure(struct link *link, int code, struct link_failure *failure);
/* Who the peer is and whether its certificate is good; fills link->peer. 0, or a status with `reason`. */
int link_tls_judge(struct link *link, char reason[200]);
const char *link_action(int status); /* what a person should do about a failure */

/* link_handshake.c */
int link_helper_start(struct link_helper *helper, struct links *links);
void link_helper_join(struct link_helper *helper);

/* link_listen.c */
int link_listen(struct links *links, struct error *error);
void link_address_text(const void *address, char out[LINK_ADDRESS_BYTES]); /* struct sockaddr_storage */

/* link_io.c: coordinator */
void link_read(struct link *link);     /* until the socket is empty or the turn is over */
void link_write(struct link *link);    /* until blocked, nothing to send, or the turn is over */
void link_writer(struct link *link);   /* puts it on the list of writers */
void link_interest(struct link *link); /* what epoll waits for */
int link_send_cert(struct link *link, const struct link_answer *answer);

/* link_peer.c: coordinator */
void link_adopt(struct links *links, struct link *link, uint64_t now_us); /* shaken: judge it */
void link_first_frame(struct link *link, const struct wire_header *header, const uint8_t *payload);
void link_enrol(struct link *link, const struct wire_header *header, const uint8_t *payload);
void link_refuse(struct link *link, int status, const char *reason); /* tells the peer, reports, lingers */
void link_end(struct link *link, int status, const char *reason); /* on_down; freed at the end of the turn */

/* link.c */
void link_report(struct links *links, const struct link_failure *failure); /* [any] */
/* Hands a shaken link over. [helper] */
void link_hand_over(struct link *link);

#endif
