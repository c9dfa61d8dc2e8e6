/*
 * One TLS connection of the host board to its server: connect, handshake, frames, as a `struct
 * board_transport`. Blocks only in host_link_open(), which ends at its deadline or when *stop becomes true.
 * One thread.
 *
 * --delay-ms stands here: every frame is held for that long after it arrived, so a message of any size is
 * late once.
 */
#ifndef SHOAL_FIRMWARE_PORT_HOST_LINK_H
#define SHOAL_FIRMWARE_PORT_HOST_LINK_H

#include "firmware/core/board.h"
#include "firmware/port/host/host_identity.h"

#include "mbedtls/ssl.h"

#include <signal.h>
#include <stdbool.h>

enum { HOST_LINK_HELD = 256, HOST_LINK_HANDSHAKE_MS = 10000 };

/* A frame that arrived. */
struct host_link_frame {
    uint64_t release_us;
    uint32_t bytes, taken;
    uint8_t frame[WIRE_FRAME_MAX];
};

/* Where to, and what stays over connections. */
struct host_link_peer {
    const char *host, *port;
    uint32_t delay_ms;
    const volatile sig_atomic_t *stop; /* NULL: never */
    mbedtls_ssl_session session;       /* for resumption */
    bool has_session;
};

struct host_link {
    int fd;
    bool established, resumed_possible;
    int status;   /* first failure: the link is gone */
    bool refused; /* a CERT frame with a status came: `refusal` */
    struct wire_cert refusal;
    uint32_t delay_ms;
    mbedtls_ssl_context ssl;
    mbedtls_ssl_config config;
    struct host_link_frame *held; /* ring of `held_max` */
    uint32_t held_first, held_count, held_max;
};

void host_link_peer_init(struct host_link_peer *peer, const char *host, const char *port, uint32_t delay_ms,
                         const volatile sig_atomic_t *stop);
void host_link_peer_free(struct host_link_peer *peer);
void host_link_forget_session(struct host_link_peer *peer);

/* Connects. With an enrolled identity the server must have a certificate of the identity's authority, and we
 * show ours. With `trust` (16 bytes, the second part of an enrolment code) we show none, and the server's
 * authority must have that key. Errors: STATUS_OFFLINE (no connection, no answer), STATUS_CERTIFICATE_WRONG
 * (another authority), STATUS_TLS_FAILED, STATUS_NO_MEMORY. host_link_close() in any case. */
int host_link_open(struct host_link *link, struct host_link_peer *peer, struct host_identity *identity,
                   const uint8_t *trust, struct error *error);
/* Says goodbye if it can. */
void host_link_close(struct host_link *link);

/* Takes in what has arrived, as far as there is room. Call often. */
void host_link_pump(struct host_link *link);
/* Microseconds until a held frame may be read (0: now), UINT64_MAX: none is held. */
uint64_t host_link_next_us(const struct host_link *link);
bool host_link_full(const struct host_link *link); /* pump takes no more */
struct board_transport host_link_transport(struct host_link *link);

#endif
