/*
 * The host board's TLS client on mbedTLS: TLS 1.2, ECDHE-ECDSA with ChaCha20-Poly1305 on P-256, records of
 * 4,096 bytes. A record is one frame; what is not breaks the link.
 *
 * Without a certificate nothing is trusted until tls_client_trusts() has found the authority's key in the
 * code and the server's certificate under that authority; only then does the caller send the code.
 */
#include "firmware/port/host/host_link.h"

#include "firmware/net/tls_client.h"
#include "server/base/clock.h"

#include "mbedtls/error.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE_MS = 100, GOODBYE_MS = 500 };

void host_link_peer_init(struct host_link_peer *peer, const char *host, const char *port, uint32_t delay_ms,
                         const volatile sig_atomic_t *stop)
{
    memset(peer, 0, sizeof *peer);
    peer->host = host;
    peer->port = port;
    peer->delay_ms = delay_ms;
    peer->stop = stop;
    mbedtls_ssl_session_init(&peer->session);
}

void host_link_forget_session(struct host_link_peer *peer)
{
    mbedtls_ssl_session_free(&peer->session);
    mbedtls_ssl_session_init(&peer->session);
    peer->has_session = false;
}

void host_link_peer_free(struct host_link_peer *peer)
{
    mbedtls_ssl_session_free(&peer->session);
}

static bool stopped(const struct host_link_peer *peer)
{
    return peer->stop != NULL && *peer->stop != 0;
}

/* ---- the socket ---- */

static int bio_send(void *context, const unsigned char *bytes, size_t n)
{
    struct host_link *link = context;
    ssize_t sent = send(link->fd, bytes, n, MSG_NOSIGNAL);
    if (sent >= 0) {
        return (int)sent;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE
                                                                     : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int bio_recv(void *context, unsigned char *bytes, size_t n)
{
    struct host_link *link = context;
    ssize_t got = recv(link->fd, bytes, n, 0);
    if (got > 0) {
        return (int)got;
    }
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? MBEDTLS_ERR_SSL_WANT_READ
                                                                                  : MBEDTLS_ERR_SSL_CONN_EOF;
}

/* Waits for `events` on the link until `deadline_us`. False: over, or told to stop. */
static bool wait_for(const struct host_link *link, const struct host_link_peer *peer, short events,
                     uint64_t deadline_us)
{
    while (!stopped(peer)) {
        uint64_t now = clock_monotonic_us();
        if (now >= deadline_us) {
            return false;
        }
        struct pollfd fd = {.fd = link->fd, .events = events};
        if (poll(&fd, 1, SLICE_MS) > 0) {
            return true;
        }
    }
    return false;
}

static int connect_to(struct host_link *link, const struct host_link_peer *peer,
                      const struct addrinfo *address, uint64_t deadline_us)
{
    int one = 1, code = 0;
    socklen_t size = sizeof code;
    link->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0) {
        return errno;
    }
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(link->fd, address->ai_addr, address->ai_addrlen) == 0) {
        return 0;
    }
    if (errno != EINPROGRESS) {
        return errno;
    }
    if (!wait_for(link, peer, POLLOUT, deadline_us)) {
        return ETIMEDOUT;
    }
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &code, &size);
    return code;
}

static int reach(struct host_link *link, const struct host_link_peer *peer, uint64_t deadline_us,
                 struct error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int code = getaddrinfo(peer->host, peer->port, &hints, &list);
    if (code != 0) {
        return error_set(error, STATUS_OFFLINE, "%s: %s", peer->host, gai_strerror(code));
    }
    code = ECONNREFUSED;
    for (const struct addrinfo *a = list; a != NULL && !stopped(peer); a = a->ai_next) {
        code = connect_to(link, peer, a, deadline_us);
        if (code == 0) {
            break;
        }
        if (link->fd >= 0) {
            close(link->fd);
            link->fd = -1;
        }
    }
    freeaddrinfo(list);
    return code == 0 ? 0
                     : error_set(error, STATUS_OFFLINE, "%s:%s: %s", peer->host, peer->port, strerror(code));
}

/* ---- TLS ---- */

static int configure(struct host_link *link, struct host_identity *identity, bool certified)
{
    struct tls_client_identity mine = {.random = mbedtls_ctr_drbg_random, .random_context = &identity->drbg};
    if (certified) {
        mine.certificate = &identity->certificate;
        mine.authority = &identity->authority;
        mine.key = &identity->key;
    }
    return tls_client_configure(&link->config, &mine);
}

static int tls_error(struct host_link *link, int rc, struct error *error)
{
    char text[128];
    uint32_t flags = mbedtls_ssl_get_verify_result(&link->ssl);
    if (rc == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED && flags != UINT32_MAX) {
        if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
            return error_set(
                error, STATUS_CERTIFICATE_WRONG,
                "the server's certificate is not of the authority that this board was enrolled with");
        }
        return error_set(error,
                         (flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0 ? STATUS_CERTIFICATE_EXPIRED
                                                                     : STATUS_CERTIFICATE_WRONG,
                         "the server's certificate is not good (flags 0x%x)", (unsigned)flags);
    }
    if (rc == MBEDTLS_ERR_SSL_CONN_EOF) {
        return error_set(error, STATUS_OFFLINE, "the server closed during the handshake");
    }
    if (rc == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        return error_set(error, STATUS_TLS_FAILED, "the server ended the handshake (alert %d)",
                         link->ssl.in_msg[1]);
    }
    mbedtls_strerror(rc, text, sizeof text);
    return error_set(error, STATUS_TLS_FAILED, "TLS: %s (-0x%04x)", text, (unsigned)-rc);
}

static int handshake(struct host_link *link, const struct host_link_peer *peer, uint64_t deadline_us,
                     struct error *error)
{
    for (;;) {
        int rc = mbedtls_ssl_handshake(&link->ssl);
        if (rc == 0) {
            return 0;
        }
        if (rc != MBEDTLS_ERR_SSL_WANT_READ && rc != MBEDTLS_ERR_SSL_WANT_WRITE) {
            return tls_error(link, rc, error);
        }
        if (!wait_for(link, peer, rc == MBEDTLS_ERR_SSL_WANT_READ ? POLLIN : POLLOUT, deadline_us)) {
            return error_set(error, STATUS_OFFLINE, "the server did not finish the handshake in time");
        }
    }
}

/* Closing over unread bytes would take our alert, and so the reason, from the server: reads until it has
 * closed. */
static void let_read(const struct host_link *link, const struct host_link_peer *peer)
{
    uint8_t waste[1024];
    uint64_t end = clock_monotonic_us() + GOODBYE_MS * 1000;
    shutdown(link->fd, SHUT_WR);
    while (wait_for(link, peer, POLLIN, end) && recv(link->fd, waste, sizeof waste, 0) > 0) {
    }
}

int host_link_open(struct host_link *link, struct host_link_peer *peer, struct host_identity *identity,
                   const uint8_t *trust, struct error *error)
{
    uint64_t deadline = clock_monotonic_us() + (uint64_t)HOST_LINK_HANDSHAKE_MS * 1000;
    bool certified = trust == NULL;
    const char *why = "";
    memset(link, 0, sizeof *link);
    link->fd = -1;
    link->delay_ms = peer->delay_ms;
    link->held_max = peer->delay_ms != 0 ? HOST_LINK_HELD : 1;
    link->held = calloc(link->held_max, sizeof *link->held);
    mbedtls_ssl_init(&link->ssl);
    mbedtls_ssl_config_init(&link->config);
    if (link->held == NULL) {
        return error_set(error, STATUS_NO_MEMORY, "no memory for the link");
    }
    int status = reach(link, peer, deadline, error);
    if (status != 0) {
        return status;
    }
    int rc = configure(link, identity, certified);
    if (rc == 0) {
        rc = mbedtls_ssl_setup(&link->ssl, &link->config);
    }
    if (rc == 0 && certified && peer->has_session) {
        mbedtls_ssl_set_session(&link->ssl, &peer->session);
    }
    if (rc != 0) {
        return tls_error(link, rc, error);
    }
    mbedtls_ssl_set_bio(&link->ssl, link, bio_send, bio_recv, NULL);
    status = handshake(link, peer, deadline, error);
    if (status != 0) {
        let_read(link, peer);
    } else if (!certified && (status = tls_client_trusts(&link->ssl, trust, &why)) != 0) {
        error_set(error, (enum status)status, "%s", why);
    }
    if (certified) {
        host_link_forget_session(peer);
        peer->has_session = status == 0 && mbedtls_ssl_get_session(&link->ssl, &peer->session) == 0;
    }
    link->established = status == 0;
    return status;
}

void host_link_close(struct host_link *link)
{
    if (link->established && link->status == 0) {
        mbedtls_ssl_close_notify(&link->ssl);
    }
    mbedtls_ssl_free(&link->ssl);
    mbedtls_ssl_config_free(&link->config);
    if (link->fd >= 0) {
        close(link->fd);
    }
    free(link->held);
    memset(link, 0, sizeof *link);
    link->fd = -1;
}

/* ---- frames ---- */

static void pump_one(struct host_link *link)
{
    struct host_link_frame *frame = &link->held[(link->held_first + link->held_count) % link->held_max];
    struct wire_header header;
    int n = mbedtls_ssl_read(&link->ssl, frame->frame, sizeof frame->frame);
    if (n == MBEDTLS_ERR_SSL_WANT_READ || n == MBEDTLS_ERR_SSL_WANT_WRITE) {
        return;
    }
    if (n <= 0) {
        link->status = STATUS_OFFLINE;
    } else if (mbedtls_ssl_get_bytes_avail(&link->ssl) != 0 ||
               !tls_client_is_frame(frame->frame, (uint32_t)n, &header)) {
        link->status = STATUS_WIRE_MALFORMED;
    } else {
        frame->bytes = (uint32_t)n;
        frame->taken = 0;
        frame->release_us = clock_monotonic_us() + (uint64_t)link->delay_ms * 1000;
        link->held_count++;
        link->refused = tls_client_is_refusal(frame->frame, &header, &link->refusal) || link->refused;
    }
}

void host_link_pump(struct host_link *link)
{
    uint32_t before;
    do {
        before = link->held_count;
        if (link->status == 0 && before < link->held_max) {
            pump_one(link);
        }
    } while (link->held_count != before);
}

bool host_link_full(const struct host_link *link)
{
    return link->held_count == link->held_max;
}

uint64_t host_link_next_us(const struct host_link *link)
{
    if (link->held_count == 0) {
        return UINT64_MAX;
    }
    uint64_t now = clock_monotonic_us(), at = link->held[link->held_first].release_us;
    return at > now ? at - now : 0;
}

static int32_t transport_recv(void *context, uint8_t *bytes, uint32_t n)
{
    struct host_link *link = context;
    host_link_pump(link);
    if (link->held_count == 0) {
        return link->status;
    }
    struct host_link_frame *frame = &link->held[link->held_first];
    if (link->delay_ms != 0 && frame->release_us > clock_monotonic_us()) {
        return 0;
    }
    uint32_t left = frame->bytes - frame->taken;
    n = n < left ? n : left;
    memcpy(bytes, frame->frame + frame->taken, n);
    frame->taken += n;
    if (frame->taken == frame->bytes) {
        link->held_first = (link->held_first + 1) % link->held_max;
        link->held_count--;
    }
    return (int32_t)n;
}

static int32_t transport_send(void *context, const uint8_t *bytes, uint32_t n)
{
    struct host_link *link = context;
    if (link->status != 0) {
        return link->status;
    }
    int sent = mbedtls_ssl_write(&link->ssl, bytes, n);
    if (sent == (int)n) {
        return sent;
    }
    if (sent == MBEDTLS_ERR_SSL_WANT_WRITE || sent == MBEDTLS_ERR_SSL_WANT_READ) {
        return 0;
    }
    link->status = STATUS_OFFLINE;
    return link->status;
}

struct board_transport host_link_transport(struct host_link *link)
{
    return (struct board_transport){.context = link, .send = transport_send, .recv = transport_recv};
}
