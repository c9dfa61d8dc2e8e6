/*
 * TLS of the links: configuration, the socket under mbedTLS, and the judgement of a peer.
 *
 * Verification is optional for mbedTLS, so that a peer with a bad certificate or none gets through the
 * handshake and can be told why it is refused; link_tls_judge() then decides, and nothing else may. Keys that
 * several threads use are used once at the start: mbedTLS 2.28 fills a key's table of multiples at its first
 * use, without a lock.
 */
#include "server/link/link_internal.h"

#include "server/base/clock.h"

#include "mbedtls/error.h"
#include "mbedtls/platform_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICKET_S = 86400, SERVER_DAYS = 3650 };

static const int suites[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};
static const int hashes[] = {MBEDTLS_MD_SHA256, MBEDTLS_MD_NONE};
static const mbedtls_ecp_group_id curves[] = {MBEDTLS_ECP_DP_SECP256R1, MBEDTLS_ECP_DP_NONE};
static const mbedtls_x509_crt_profile profile = {
    MBEDTLS_X509_ID_FLAG(MBEDTLS_MD_SHA256),
    MBEDTLS_X509_ID_FLAG(MBEDTLS_PK_ECKEY) | MBEDTLS_X509_ID_FLAG(MBEDTLS_PK_ECDSA),
    MBEDTLS_X509_ID_FLAG(MBEDTLS_ECP_DP_SECP256R1),
    0,
};

void link_tls_init(struct link_tls *tls)
{
    mbedtls_entropy_init(&tls->entropy);
    mbedtls_ctr_drbg_init(&tls->drbg);
    mbedtls_ssl_config_init(&tls->config);
    mbedtls_ssl_ticket_init(&tls->tickets);
    mbedtls_x509_crt_init(&tls->chain);
    mbedtls_x509_crt_init(&tls->authority);
    mbedtls_pk_init(&tls->key);
}

void link_tls_close(struct link_tls *tls)
{
    mbedtls_ssl_config_free(&tls->config);
    mbedtls_ssl_ticket_free(&tls->tickets);
    mbedtls_x509_crt_free(&tls->chain);
    mbedtls_x509_crt_free(&tls->authority);
    mbedtls_pk_free(&tls->key);
    mbedtls_ctr_drbg_free(&tls->drbg);
    mbedtls_entropy_free(&tls->entropy);
}

static int tls_certificates(struct links *links, struct error *error)
{
    struct link_tls *tls = &links->tls;
    struct ca_der key, certificate;
    const struct ca_der *authority = ca_certificate(links->ca);
    int days = links->options.server_days == 0 ? SERVER_DAYS : (int)links->options.server_days;
    int rc = ca_issue_server(links->ca, clock_wall_ms() / 1000, days, &key, &certificate, error);
    if (rc != 0) {
        return rc;
    }
    rc = mbedtls_x509_crt_parse_der(&tls->chain, certificate.bytes, certificate.size);
    if (rc == 0) {
        rc = mbedtls_x509_crt_parse_der(&tls->chain, authority->bytes, authority->size);
    }
    if (rc == 0) {
        rc = mbedtls_x509_crt_parse_der(&tls->authority, authority->bytes, authority->size);
    }
    if (rc == 0) {
        rc = mbedtls_pk_parse_key(&tls->key, key.bytes, key.size, NULL, 0);
    }
    mbedtls_platform_zeroize(&key, sizeof key);
    return rc == 0 ? 0
                   : error_set(error, STATUS_INTERNAL, "the server's certificate: -0x%04x", (unsigned)-rc);
}

/* First use of the shared keys, while there is one thread. */
static int tls_prime(struct link_tls *tls)
{
    uint8_t hash[32] = {1}, signature[MBEDTLS_PK_SIGNATURE_MAX_SIZE];
    size_t n = 0;
    uint32_t flags;
    int rc = mbedtls_pk_sign(&tls->key, MBEDTLS_MD_SHA256, hash, sizeof hash, signature, &n,
                             mbedtls_ctr_drbg_random, &tls->drbg);
    if (rc == 0) {
        rc = mbedtls_pk_verify(&tls->chain.pk, MBEDTLS_MD_SHA256, hash, sizeof hash, signature, n);
    }
    return rc != 0 ? rc
                   : mbedtls_x509_crt_verify(&tls->chain, &tls->authority, NULL, NULL, &flags, NULL, NULL);
}

static int tls_configure(struct link_tls *tls)
{
    mbedtls_ssl_config *config = &tls->config;
    int rc = mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                         MBEDTLS_SSL_PRESET_DEFAULT);
    if (rc != 0) {
        return rc;
    }
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_ciphersuites(config, suites);
    mbedtls_ssl_conf_curves(config, curves);
    mbedtls_ssl_conf_sig_hashes(config, hashes);
    mbedtls_ssl_conf_cert_profile(config, &profile);
    mbedtls_ssl_conf_rng(config, mbedtls_ctr_drbg_random, &tls->drbg);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_OPTIONAL);
    mbedtls_ssl_conf_ca_chain(config, &tls->authority, NULL);
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    rc = mbedtls_ssl_conf_max_frag_len(config, MBEDTLS_SSL_MAX_FRAG_LEN_4096);
    if (rc == 0) {
        rc = mbedtls_ssl_conf_own_cert(config, &tls->chain, &tls->key);
    }
    if (rc == 0) {
        rc = mbedtls_ssl_ticket_setup(&tls->tickets, mbedtls_ctr_drbg_random, &tls->drbg,
                                      MBEDTLS_CIPHER_AES_256_GCM, TICKET_S);
    }
    mbedtls_ssl_conf_session_tickets_cb(config, mbedtls_ssl_ticket_write, mbedtls_ssl_ticket_parse,
                                        &tls->tickets);
    return rc;
}

int link_tls_open(struct links *links, struct error *error)
{
    struct link_tls *tls = &links->tls;
    int rc = mbedtls_ctr_drbg_seed(&tls->drbg, mbedtls_entropy_func, &tls->entropy,
                                   (const unsigned char *)"shoal link", 10);
    if (rc != 0) {
        return error_set(error, STATUS_INTERNAL, "no randomness: -0x%04x", (unsigned)-rc);
    }
    int status = tls_certificates(links, error);
    if (status != 0) {
        return status;
    }
    rc = tls_configure(tls);
    if (rc == 0) {
        rc = tls_prime(tls);
    }
    return rc == 0 ? 0 : error_set(error, STATUS_INTERNAL, "TLS configuration: -0x%04x", (unsigned)-rc);
}

static int bio_send(void *context, const unsigned char *bytes, size_t n)
{
    struct link *link = context;
    ssize_t sent = send(link->fd, bytes, n, MSG_NOSIGNAL);
    if (sent >= 0) {
        return (int)sent;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE
                                                                     : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int bio_recv(void *context, unsigned char *bytes, size_t n)
{
    struct link *link = context;
    ssize_t got = recv(link->fd, bytes, n, 0);
    if (got > 0) {
        link->last_byte_us = clock_monotonic_us();
        return (int)got;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return MBEDTLS_ERR_SSL_WANT_READ;
    }
    return MBEDTLS_ERR_SSL_CONN_EOF;
}

/* Notes that this handshake showed a certificate; what mbedTLS found stays as it is. */
static int note_verified(void *context, mbedtls_x509_crt *certificate, int depth, uint32_t *flags)
{
    struct link *link = context;
    (void)certificate;
    (void)flags;
    if (depth == 0) {
        link->judged_now = true;
    }
    return 0;
}

struct link *link_new(struct links *links, int fd, const char *address)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return NULL;
    }
    link->links = links;
    link->fd = fd;
    link->last_byte_us = link->last_sent_us = clock_monotonic_us();
    snprintf(link->peer.address, sizeof link->peer.address, "%s", address);
    mbedtls_ssl_init(&link->ssl);
    if (mbedtls_ssl_setup(&link->ssl, &links->tls.config) != 0) {
        mbedtls_ssl_free(&link->ssl);
        free(link);
        return NULL;
    }
    mbedtls_ssl_set_verify(&link->ssl, note_verified, link);
    mbedtls_ssl_set_bio(&link->ssl, link, bio_send, bio_recv, NULL);
    return link;
}

void link_free(struct link *link)
{
    for (uint32_t i = 0; i < link->control_count; i++) {
        free(link->control[(link->control_first + i) % LINK_CONTROL_MAX]);
    }
    mbedtls_ssl_free(&link->ssl);
    close(link->fd);
    free(link);
}

/* What the peer's alert says about us. */
static enum status alert_status(int alert, const char **text)
{
    switch (alert) {
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        *text = "the board trusts another authority than this server's";
        return STATUS_CERTIFICATE_WRONG;
    case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
    case MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT:
    case MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN:
        *text = "the board refused the server's certificate";
        return STATUS_CERTIFICATE_WRONG;
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        *text = "the board says that the server's certificate has expired: one of the clocks is wrong";
        return STATUS_CERTIFICATE_EXPIRED;
    default:
        *text = "the peer ended the handshake with an alert";
        return STATUS_TLS_FAILED;
    }
}

void link_tls_failure(struct link *link, int code, struct link_failure *failure)
{
    char text[128];
    const char *alert;
    memset(failure, 0, sizeof *failure);
    failure->at_ms = clock_wall_ms();
    memcpy(failure->address, link->peer.address, sizeof failure->address);
    switch (code) {
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        failure->status = alert_status(link->ssl.in_msg[1], &alert);
        snprintf(failure->reason, sizeof failure->reason, "%s (alert %d)", alert, link->ssl.in_msg[1]);
        break;
    case MBEDTLS_ERR_SSL_CONN_EOF:
        failure->status = STATUS_TLS_FAILED;
        snprintf(failure->reason, sizeof failure->reason, "the peer closed before the handshake was done");
        break;
    case MBEDTLS_ERR_SSL_TIMEOUT:
        failure->status = STATUS_DEADLINE;
        snprintf(failure->reason, sizeof failure->reason, "the handshake was not done in time");
        break;
    case MBEDTLS_ERR_SSL_INVALID_RECORD:
    case MBEDTLS_ERR_SSL_BAD_HS_CLIENT_HELLO:
        failure->status = STATUS_TLS_FAILED;
        snprintf(failure->reason, sizeof failure->reason, "what came is not a TLS 1.2 handshake");
        break;
    default:
        mbedtls_strerror(code, text, sizeof text);
        failure->status = STATUS_TLS_FAILED;
        snprintf(failure->reason, sizeof failure->reason, "%s (-0x%04x)", text, (unsigned)-code);
    }
    failure->action = link_action(failure->status);
}

const char *link_action(int status)
{
    switch (status) {
    case STATUS_CERTIFICATE_MISSING:
        return "enrol the board: make a code with `shoal enrol` and start the board with --code";
    case STATUS_CERTIFICATE_WRONG:
        return "the board belongs to another fleet or was forgotten: enrol it here with a new code";
    case STATUS_CERTIFICATE_EXPIRED:
        return "check the clocks; if they are right, enrol the board anew with a new code";
    case STATUS_CERTIFICATE_REVOKED:
        return "accept the board again if that was a mistake, else unplug it";
    case STATUS_CODE_WRONG:
    case STATUS_CODE_EXPIRED:
    case STATUS_CODE_USED:
        return "make a new code with `shoal enrol`";
    case STATUS_BUSY:
        return "the board tries again by itself";
    default:
        return "if this address is a board of yours, check its network and its version";
    }
}

int link_tls_judge(struct link *link, char reason[200])
{
    const mbedtls_x509_crt *certificate = mbedtls_ssl_get_peer_cert(&link->ssl);
    uint32_t flags = mbedtls_ssl_get_verify_result(&link->ssl);
    char until[CLOCK_TEXT_BYTES];
    if (certificate == NULL) {
        return 0;
    }
    if (ca_read(certificate->raw.p, certificate->raw.len, &link->peer.certificate) != 0) {
        snprintf(reason, 200, "the certificate is malformed");
        return STATUS_CERTIFICATE_WRONG;
    }
    link->peer.certified = true;
    link->peer.resumed = !link->judged_now;
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        snprintf(reason, 200, "the certificate was not issued by this fleet's authority");
        return STATUS_CERTIFICATE_WRONG;
    }
    if ((flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0 || mbedtls_x509_time_is_past(&certificate->valid_to)) {
        clock_rfc3339(link->peer.certificate.not_after_s * 1000, until);
        snprintf(reason, 200, "the certificate of board %.32s expired at %s", link->peer.certificate.board,
                 until);
        return STATUS_CERTIFICATE_EXPIRED;
    }
    if (flags != 0) {
        snprintf(reason, 200, "the certificate is not good for a board (flags 0x%x)", (unsigned)flags);
        return STATUS_CERTIFICATE_WRONG;
    }
    int status = link->links->owner.admit(link->links->owner.context, link->peer.certificate.board);
    const char *text = status == STATUS_CERTIFICATE_REVOKED ? "board %.32s is revoked"
                       : status == STATUS_CERTIFICATE_WRONG ? "board %.32s is not in this fleet"
                                                            : "the server does not take board %.32s now";
    if (status != 0) {
        snprintf(reason, 200, text, link->peer.certificate.board);
    }
    return status;
}
