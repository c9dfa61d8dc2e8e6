/*
 * One TLS connection of the board to its server over lwIP: connect, handshake, frames, as a `struct
 * board_transport`. Blocks only in net_link_open(), which polls the network and ends at its deadline. The
 * host port's host_link.h is the same over sockets.
 */
#ifndef SHOAL_FIRMWARE_NET_LINK_H
#define SHOAL_FIRMWARE_NET_LINK_H

#include "firmware/core/board.h"
#include "firmware/core/provision.h"
#include "firmware/net/net_identity.h"

#include "mbedtls/ssl.h"

struct tcp_pcb;
struct pbuf;

enum { NET_LINK_HANDSHAKE_MS = 15000 };

struct net_link {
    /* TCP */
    struct tcp_pcb *pcb; /* NULL: none, or lwIP has freed it */
    struct pbuf *in;     /* what has come and not been read, from `in_at` on */
    uint32_t in_at;
    bool connected, closed; /* closed: the peer will send no more */
    int tcp_error;          /* lwIP's, when it freed the connection */
    /* TLS */
    mbedtls_ssl_context ssl;
    mbedtls_ssl_config config;
    bool established;
    uint32_t handshake_us; /* that the last handshake took, waiting included */
    int status;            /* first failure: the link is gone */
    bool refused;          /* a CERT frame with a status came: `refusal` */
    struct wire_cert refusal;
    uint8_t frame[WIRE_FRAME_MAX];
    uint32_t frame_n, frame_taken;
    char why[128]; /* the reason of what failed, for people */
    /* over connections */
    mbedtls_ssl_session session;
    bool has_session;
    uint32_t session_server; /* it is of this one */
};

/* Once. */
void net_link_init(struct net_link *link);
/* Connects to a server. With an enrolled identity the server must have a certificate of the identity's
 * authority, and we show ours. With `trust` (16 bytes, from the provisioning page) we show none, and the
 * server's authority must have that key. 0, or with the reason in link->why: STATUS_OFFLINE (no connection,
 * no answer), STATUS_CERTIFICATE_WRONG (another authority), STATUS_TLS_FAILED. net_link_close() in any case.
 */
int net_link_open(struct net_link *link, const struct provision_server *server, uint32_t number,
                  struct net_identity *identity, const uint8_t *trust);
/* Says goodbye if it can. */
void net_link_close(struct net_link *link);
void net_link_forget_session(struct net_link *link);

/* Takes in a frame if there is one. */
void net_link_pump(struct net_link *link);
struct board_transport net_link_transport(struct net_link *link);

#endif
