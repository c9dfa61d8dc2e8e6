/*
 * TLS 1.2 over lwIP's raw API. A record is one frame; what is not breaks the link. What has arrived stays in
 * lwIP's buffers until TLS reads it, and only then does the window open again, so a slow board slows its
 * server and nothing grows. Every callback of lwIP only notes what happened.
 *
 * Without a certificate nothing is trusted until tls_client_trusts() has found the authority's key in the
 * provisioning page and the server's certificate under that authority; only then does the caller send the
 * code.
 */
#include "firmware/net/net_link.h"

#include "firmware/net/net.h"
#include "firmware/net/net_tls.h"
#include "firmware/net/say.h"
#include "firmware/net/tls_client.h"
#include "firmware/port/port.h"

#include "lwip/dns.h"
#include "lwip/tcp.h"

#include <string.h>

enum { GOODBYE_MS = 500, WAIT_US = 1000 };

static int __attribute__((format(printf, 3, 4)))
fail(struct net_link *link, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_vformat(link->why, sizeof link->why, format, arguments);
    va_end(arguments);
    return status;
}

static bool is_over(uint64_t deadline_us)
{
    return port_now_us() >= deadline_us;
}

/* ---- TCP ---- */

static err_t on_received(void *context, struct tcp_pcb *pcb, struct pbuf *data, err_t error)
{
    struct net_link *link = context;
    (void)pcb;
    (void)error;
    if (data == NULL)
        link->closed = true;
    else if (link->in == NULL)
        link->in = data;
    else
        pbuf_cat(link->in, data);
    return ERR_OK;
}

/* lwIP has freed the connection. */
static void on_error(void *context, err_t error)
{
    struct net_link *link = context;
    link->pcb = NULL;
    link->closed = true;
    link->tcp_error = error;
}

static err_t on_connected(void *context, struct tcp_pcb *pcb, err_t error)
{
    struct net_link *link = context;
    (void)pcb;
    (void)error;
    link->connected = true;
    return ERR_OK;
}

static int bio_send(void *context, const unsigned char *bytes, size_t n)
{
    struct net_link *link = context;
    if (link->pcb == NULL || link->closed)
        return MBEDTLS_ERR_SSL_CONN_EOF;
    size_t room = tcp_sndbuf(link->pcb);
    if (n > room)
        n = room;
    err_t error = n > 0 ? tcp_write(link->pcb, bytes, (u16_t)n, TCP_WRITE_FLAG_COPY) : ERR_MEM;
    if (error != ERR_OK && error != ERR_MEM)
        return MBEDTLS_ERR_SSL_CONN_EOF;
    tcp_output(link->pcb);
    return error == ERR_MEM ? MBEDTLS_ERR_SSL_WANT_WRITE : (int)n;
}

static int bio_recv(void *context, unsigned char *bytes, size_t n)
{
    struct net_link *link = context;
    if (link->in == NULL)
        return link->closed ? MBEDTLS_ERR_SSL_CONN_EOF : MBEDTLS_ERR_SSL_WANT_READ;
    struct pbuf *head = link->in;
    size_t left = head->len - link->in_at;
    if (n > left)
        n = left;
    memcpy(bytes, (const uint8_t *)head->payload + link->in_at, n);
    link->in_at += (uint32_t)n;
    if (link->in_at == head->len) {
        link->in = head->next;
        link->in_at = 0;
        if (link->in != NULL)
            pbuf_ref(link->in);
        pbuf_free(head);
    }
    if (link->pcb != NULL)
        tcp_recved(link->pcb, (u16_t)n);
    return (int)n;
}

/* ---- connecting ---- */

struct lookup {
    bool done, found;
    ip_addr_t address;
};

static void on_found(const char *name, const ip_addr_t *address, void *context)
{
    struct lookup *lookup = context;
    (void)name;
    lookup->done = true;
    lookup->found = address != NULL;
    if (address != NULL)
        lookup->address = *address;
}

/* Static: an answer may come when nobody waits any more. */
static struct lookup lookup;

static int resolve(struct net_link *link, const char *host, uint64_t deadline_us, ip_addr_t *address)
{
    uint8_t number[4];
    if (provision_address(host, number)) {
        IP_ADDR4(address, number[0], number[1], number[2], number[3]);
        return STATUS_OK;
    }
    memset(&lookup, 0, sizeof lookup);
    err_t error = dns_gethostbyname(host, &lookup.address, on_found, &lookup);
    lookup.done = error != ERR_INPROGRESS;
    lookup.found = error == ERR_OK;
    while (!lookup.done && !is_over(deadline_us))
        net_wait(WAIT_US);
    *address = lookup.address;
    return lookup.found ? STATUS_OK
                        : fail(link, STATUS_OFFLINE, "the name %s is not known to the DNS server", host);
}

static int reach(struct net_link *link, const struct provision_server *server, uint64_t deadline_us)
{
    ip_addr_t address;
    int status = resolve(link, server->host, deadline_us, &address);
    if (status != STATUS_OK)
        return status;
    link->pcb = tcp_new();
    if (link->pcb == NULL)
        return fail(link, STATUS_NO_MEMORY, "no memory for a connection");
    tcp_arg(link->pcb, link);
    tcp_err(link->pcb, on_error);
    tcp_recv(link->pcb, on_received);
    tcp_nagle_disable(link->pcb);
    if (tcp_connect(link->pcb, &address, server->port, on_connected) != ERR_OK)
        return fail(link, STATUS_OFFLINE, "no way there");
    while (!link->connected && link->pcb != NULL && !is_over(deadline_us))
        net_wait(WAIT_US);
    if (link->connected && link->pcb != NULL)
        return STATUS_OK;
    return fail(link, STATUS_OFFLINE, "%s", link->pcb == NULL ? "the connection was refused" : "no answer");
}

static void drop_connection(struct net_link *link)
{
    if (link->in != NULL)
        pbuf_free(link->in);
    link->in = NULL;
    link->in_at = 0;
    if (link->pcb == NULL)
        return;
    tcp_arg(link->pcb, NULL);
    tcp_err(link->pcb, NULL);
    tcp_recv(link->pcb, NULL);
    if (tcp_close(link->pcb) != ERR_OK)
        tcp_abort(link->pcb);
    link->pcb = NULL;
}

/* ---- TLS ---- */

static int configure(struct net_link *link, struct net_identity *identity, bool certified)
{
    struct tls_client_identity mine = {.random = net_tls_random};
    if (certified) {
        mine.certificate = &identity->certificate;
        mine.authority = &identity->authority;
        mine.key = &identity->key;
    }
    int rc = tls_client_configure(&link->config, &mine);
    if (rc == 0)
        rc = mbedtls_ssl_setup(&link->ssl, &link->config);
    if (rc == 0 && certified && link->has_session)
        mbedtls_ssl_set_session(&link->ssl, &link->session);
    if (rc == 0)
        mbedtls_ssl_set_bio(&link->ssl, link, bio_send, bio_recv, NULL);
    return rc;
}

static int tls_error(struct net_link *link, int rc)
{
    uint32_t flags = mbedtls_ssl_get_verify_result(&link->ssl);
    if (rc == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED)
        return fail(link, STATUS_CERTIFICATE_WRONG, "%s (flags %x)",
                    (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0
                        ? "the server is not of the authority that this board was enrolled with"
                        : "the server's certificate is not good",
                    (unsigned)flags);
    if (rc == MBEDTLS_ERR_SSL_CONN_EOF)
        return fail(link, STATUS_OFFLINE, "the server closed during the handshake");
    if (rc == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
        return fail(link, STATUS_TLS_FAILED, "the server ended the handshake (alert %u)",
                    link->ssl.in_msg[1]);
    if (rc == MBEDTLS_ERR_SSL_ALLOC_FAILED)
        return fail(link, STATUS_NO_MEMORY, "no memory for TLS");
    return fail(link, STATUS_TLS_FAILED, "TLS: -0x%04x", (unsigned)-rc);
}

static int handshake(struct net_link *link, uint64_t deadline_us)
{
    for (;;) {
        int rc = mbedtls_ssl_handshake(&link->ssl);
        if (rc == 0)
            return STATUS_OK;
        if (rc != MBEDTLS_ERR_SSL_WANT_READ && rc != MBEDTLS_ERR_SSL_WANT_WRITE)
            return tls_error(link, rc);
        if (is_over(deadline_us))
            return fail(link, STATUS_OFFLINE, "the server did not finish the handshake in time");
        net_wait(WAIT_US);
    }
}

/* Closing over unread bytes would take our alert, and so the reason, from the server: reads until it has
 * closed. */
static void let_read(struct net_link *link)
{
    uint8_t waste[64];
    uint64_t end = port_now_us() + (uint64_t)GOODBYE_MS * 1000;
    if (link->pcb != NULL)
        tcp_shutdown(link->pcb, 0, 1);
    while (!link->closed && !is_over(end)) {
        while (bio_recv(link, waste, sizeof waste) > 0) {
        }
        net_wait(WAIT_US);
    }
}

/* ---- open and close ---- */

void net_link_init(struct net_link *link)
{
    memset(link, 0, sizeof *link);
    mbedtls_ssl_session_init(&link->session);
    mbedtls_ssl_init(&link->ssl);
    mbedtls_ssl_config_init(&link->config);
}

void net_link_forget_session(struct net_link *link)
{
    mbedtls_ssl_session_free(&link->session);
    mbedtls_ssl_session_init(&link->session);
    link->has_session = false;
}

static void begin(struct net_link *link)
{
    link->pcb = NULL;
    link->in = NULL;
    link->in_at = link->frame_n = link->frame_taken = 0;
    link->connected = link->closed = link->established = link->refused = false;
    link->tcp_error = link->status = STATUS_OK;
    link->why[0] = 0;
}

int net_link_open(struct net_link *link, const struct provision_server *server, uint32_t number,
                  struct net_identity *identity, const uint8_t *trust)
{
    uint64_t deadline = port_now_us() + (uint64_t)NET_LINK_HANDSHAKE_MS * 1000;
    bool certified = trust == NULL;
    const char *why = "";
    begin(link);
    if (link->session_server != number)
        net_link_forget_session(link);
    link->session_server = number;
    int status = reach(link, server, deadline);
    if (status != STATUS_OK)
        return status;
    int rc = configure(link, identity, certified);
    if (rc != 0)
        return tls_error(link, rc);
    uint64_t began = port_now_us();
    status = handshake(link, deadline);
    link->handshake_us = (uint32_t)(port_now_us() - began);
    if (status != STATUS_OK)
        let_read(link);
    else if (!certified && (status = tls_client_trusts(&link->ssl, trust, &why)) != STATUS_OK)
        fail(link, status, "%s", why);
    if (certified) {
        net_link_forget_session(link);
        link->has_session = status == STATUS_OK && mbedtls_ssl_get_session(&link->ssl, &link->session) == 0;
    }
    link->established = status == STATUS_OK;
    return status;
}

void net_link_close(struct net_link *link)
{
    if (link->established && link->status == STATUS_OK)
        mbedtls_ssl_close_notify(&link->ssl);
    mbedtls_ssl_free(&link->ssl);
    mbedtls_ssl_config_free(&link->config);
    mbedtls_ssl_init(&link->ssl);
    mbedtls_ssl_config_init(&link->config);
    drop_connection(link);
    link->established = false;
}

/* ---- frames ---- */

void net_link_pump(struct net_link *link)
{
    struct wire_header header;
    if (link->status != STATUS_OK || link->frame_n != 0)
        return;
    int n = mbedtls_ssl_read(&link->ssl, link->frame, sizeof link->frame);
    if (n == MBEDTLS_ERR_SSL_WANT_READ || n == MBEDTLS_ERR_SSL_WANT_WRITE)
        return;
    if (n <= 0) {
        bool gone = n == 0 || n == MBEDTLS_ERR_SSL_CONN_EOF || n == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY;
        link->status = gone ? STATUS_OFFLINE : STATUS_TLS_FAILED;
        if (gone)
            fail(link, 0, "the server closed");
        else
            tls_error(link, n);
    } else if (mbedtls_ssl_get_bytes_avail(&link->ssl) != 0 ||
               !tls_client_is_frame(link->frame, (uint32_t)n, &header)) {
        link->status = fail(link, STATUS_WIRE_MALFORMED, "a record that is no frame");
    } else {
        link->frame_n = (uint32_t)n;
        link->frame_taken = 0;
        link->refused = tls_client_is_refusal(link->frame, &header, &link->refusal);
    }
}

static int32_t transport_recv(void *context, uint8_t *bytes, uint32_t n)
{
    struct net_link *link = context;
    net_link_pump(link);
    if (link->frame_n == 0)
        return link->status;
    uint32_t left = link->frame_n - link->frame_taken;
    n = n < left ? n : left;
    memcpy(bytes, link->frame + link->frame_taken, n);
    link->frame_taken += n;
    if (link->frame_taken == link->frame_n)
        link->frame_n = 0;
    return (int32_t)n;
}

static int32_t transport_send(void *context, const uint8_t *bytes, uint32_t n)
{
    struct net_link *link = context;
    if (link->status != STATUS_OK)
        return link->status;
    int sent = mbedtls_ssl_write(&link->ssl, bytes, n);
    if (sent == (int)n)
        return sent;
    if (sent == MBEDTLS_ERR_SSL_WANT_WRITE || sent == MBEDTLS_ERR_SSL_WANT_READ)
        return 0;
    link->status = fail(link, STATUS_OFFLINE, "sending failed (-0x%04x)", (unsigned)-sent);
    return link->status;
}

struct board_transport net_link_transport(struct net_link *link)
{
    return (struct board_transport){.context = link, .send = transport_send, .recv = transport_recv};
}
