/*
 * A server that a board trusts and that means harm, for tests/firmware/hostile_server.sh: its own authority,
 * one enrolment done well, then one connection a role, and at last one that is served well. Prints its port
 * and code as JSON, then a line when a role begins and when the board has gone from it. Ends with 0 when the
 * last connection has had two signs of life; 1 when the board stayed where it should have gone, or the time
 * was over.
 *
 *     hostile_server ROLE ...
 *
 * Roles: see roles[].
 */
#include "server/base/clock.h"
#include "server/ca/ca.h"
#include "server/ca/enrol_code.h"
#include "shared/base/le.h"
#include "shared/wire/wire.h"

#include "mbedtls/ctr_drbg.h"
#include "mbedtls/entropy.h"
#include "mbedtls/ssl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 45000, MORE_THAN_A_RECORD = 8192 };

static struct {
    struct ca *ca;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context drbg;
    mbedtls_x509_crt chain;
    mbedtls_pk_context key;
    mbedtls_ssl_config config;
} server;

/* One connection. */
struct peer {
    int fd;
    mbedtls_ssl_context ssl;
    uint8_t frame[WIRE_FRAME_MAX];
};

static void need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "hostile_server: %s\n", what);
        exit(1);
    }
}

/* ---- sockets and TLS ---- */

static int bio_send(void *context, const unsigned char *bytes, size_t n)
{
    ssize_t sent = send(((struct peer *)context)->fd, bytes, n, MSG_NOSIGNAL);
    return sent >= 0 ? (int)sent : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int bio_recv(void *context, unsigned char *bytes, size_t n)
{
    struct pollfd fd = {.fd = ((struct peer *)context)->fd, .events = POLLIN};
    if (poll(&fd, 1, PATIENCE_MS) <= 0)
        return MBEDTLS_ERR_SSL_TIMEOUT;
    ssize_t got = recv(fd.fd, bytes, n, 0);
    return got > 0 ? (int)got : MBEDTLS_ERR_SSL_CONN_EOF;
}

static bool handshake(struct peer *peer)
{
    mbedtls_ssl_init(&peer->ssl);
    need(mbedtls_ssl_setup(&peer->ssl, &server.config) == 0, "ssl_setup");
    mbedtls_ssl_set_bio(&peer->ssl, peer, bio_send, bio_recv, NULL);
    return mbedtls_ssl_handshake(&peer->ssl) == 0;
}

static void send_record(struct peer *peer, const uint8_t *bytes, size_t n)
{
    (void)mbedtls_ssl_write(&peer->ssl, bytes, n);
}

static void send_frame(struct peer *peer, struct wire_header header, const uint8_t *payload, int n)
{
    uint8_t frame[WIRE_FRAME_MAX] = {0};
    need(n >= 0, "encoding");
    header.length = (uint32_t)n;
    wire_header_put(&header, frame);
    if (n > 0)
        memcpy(frame + WIRE_HEADER_BYTES, payload, (size_t)n);
    send_record(peer, frame, WIRE_HEADER_BYTES + (size_t)n);
}

/* The next frame; false when the board has gone. */
static bool receive(struct peer *peer, struct wire_header *header)
{
    int n = mbedtls_ssl_read(&peer->ssl, peer->frame, sizeof peer->frame);
    return n >= WIRE_HEADER_BYTES && wire_header_get(peer->frame, header) == 0;
}

static bool receive_type(struct peer *peer, uint8_t type)
{
    struct wire_header header;
    while (receive(peer, &header))
        if (header.type == type)
            return true;
    return false;
}

static void welcome(struct peer *peer)
{
    struct wire_welcome welcome = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED, .name = "victim"};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    need(receive_type(peer, WIRE_HELLO), "the board said no HELLO");
    send_frame(peer, (struct wire_header){.type = WIRE_WELCOME}, payload,
               wire_encode_welcome(&welcome, payload));
}

/* Waits for ENROL and answers with the certificate that it asks for. */
static void answer_enrol(struct peer *peer)
{
    static struct wire_enrol enrol;
    static struct wire_cert cert;
    struct ca_der certificate;
    struct ca_info info;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    const struct ca_der *authority = ca_certificate(server.ca);
    need(receive_type(peer, WIRE_ENROL), "no ENROL");
    need(wire_decode_enrol(peer->frame + WIRE_HEADER_BYTES, le_get32(peer->frame + 12), &enrol) == 0,
         "a bad ENROL");
    need(ca_issue_board(server.ca, enrol.request, enrol.n_request, clock_wall_ms() / 1000, CA_BOARD_DAYS,
                        &certificate, &info, NULL) == 0,
         "a bad request");
    cert.state = WIRE_STATE_ACCEPTED;
    cert.n_certificate = (uint16_t)certificate.size;
    memcpy(cert.certificate, certificate.bytes, certificate.size);
    cert.n_authority = (uint16_t)authority->size;
    memcpy(cert.authority, authority->bytes, authority->size);
    send_frame(peer, (struct wire_header){.type = WIRE_CERT}, payload, wire_encode_cert(&cert, payload));
}

/* ---- roles ---- */

static void silent(struct peer *peer)
{
    (void)peer;
}

static void garbage(struct peer *peer)
{
    static const char text[] =
        "HTTP/1.0 400 Bad Request\r\n\r\nthis is not TLS at all, and it goes on for a while";
    (void)bio_send(peer, (const uint8_t *)text, sizeof text);
}

static void closes(struct peer *peer)
{
    shutdown(peer->fd, SHUT_RDWR);
}

/* A TCP reset in the middle of everything. */
static void resets(struct peer *peer)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    welcome(peer);
    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(peer->fd);
    peer->fd = -1;
}

static void long_length(struct peer *peer)
{
    uint8_t frame[64] = {0};
    welcome(peer);
    wire_header_put(&(struct wire_header){.type = WIRE_NOP, .length = 4000}, frame);
    send_record(peer, frame, sizeof frame);
}

static void short_length(struct peer *peer)
{
    uint8_t frame[64] = {0};
    welcome(peer);
    wire_header_put(&(struct wire_header){.type = WIRE_NOP, .length = 3}, frame);
    send_record(peer, frame, sizeof frame);
}

static void huge_length(struct peer *peer)
{
    uint8_t frame[64] = {0};
    welcome(peer);
    wire_header_put(&(struct wire_header){.type = WIRE_DATA}, frame);
    memset(frame + 12, 0xFF, 4);
    send_record(peer, frame, sizeof frame);
}

static void half_a_header(struct peer *peer)
{
    static const uint8_t bytes[7] = {WIRE_NOP};
    welcome(peer);
    send_record(peer, bytes, sizeof bytes);
}

/* More than the board's buffer holds, whatever was agreed. */
static void long_record(struct peer *peer)
{
    static const uint8_t zero[MORE_THAN_A_RECORD];
    welcome(peer);
    peer->ssl.session->mfl_code = MBEDTLS_SSL_MAX_FRAG_LEN_NONE;
    send_record(peer, zero, sizeof zero);
}

/* A record whose check sum is wrong. */
static void forged_record(struct peer *peer)
{
    uint8_t record[5 + 64] = {23, 3, 3, 0, 64};
    welcome(peer);
    (void)bio_send(peer, record, sizeof record);
}

/* The front of a record, and no more. */
static void half_a_record(struct peer *peer)
{
    static const uint8_t record[20] = {23, 3, 3, 4, 0};
    welcome(peer);
    (void)bio_send(peer, record, sizeof record);
}

static void bad_welcome(struct peer *peer)
{
    static const uint8_t payload[9] = {1, 0, 77};
    need(receive_type(peer, WIRE_HELLO), "the board said no HELLO");
    send_frame(peer, (struct wire_header){.type = WIRE_WELCOME}, payload, sizeof payload);
}

static void early_run(struct peer *peer)
{
    struct wire_run run = {.generation = 1};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    need(receive_type(peer, WIRE_HELLO), "the board said no HELLO");
    send_frame(peer, (struct wire_header){.type = WIRE_RUN, .inference = 1}, payload,
               wire_encode_run(&run, payload));
}

/* Fragment bytes that nobody asked for. */
static void chunk_unasked(struct peer *peer)
{
    static const uint8_t payload[512];
    welcome(peer);
    send_frame(peer, (struct wire_header){.type = WIRE_CHUNK, .offset = 4096, .flags = WIRE_FLAG_LAST},
               payload, sizeof payload);
}

/* Elements of a transfer that nobody posted, and then the server goes. */
static void data_unasked(struct peer *peer)
{
    static const uint8_t payload[512];
    welcome(peer);
    send_frame(peer, (struct wire_header){.type = WIRE_DATA, .transfer = 3, .inference = 9}, payload,
               sizeof payload);
    poll(NULL, 0, 300);
    closes(peer);
}

static void refuses(struct peer *peer)
{
    struct wire_cert cert = {.status = STATUS_BUSY, .reason = "come again"};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    send_frame(peer, (struct wire_header){.type = WIRE_CERT}, payload, wire_encode_cert(&cert, payload));
}

static void order_renewal(struct peer *peer)
{
    struct wire_do order = {.what = WIRE_DO_RENEW};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    welcome(peer);
    send_frame(peer, (struct wire_header){.type = WIRE_DO}, payload, wire_encode_do(&order, payload));
}

/* Not harmful: the certificate is renewed over the link. */
static void renews(struct peer *peer)
{
    order_renewal(peer);
    answer_enrol(peer);
    need(receive_type(peer, WIRE_BEAT), "no sign of life after the renewal");
    closes(peer);
}

/* A certificate that is not for the board: the authority's own. */
static void renews_wrong(struct peer *peer)
{
    static struct wire_cert cert;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    const struct ca_der *authority = ca_certificate(server.ca);
    order_renewal(peer);
    need(receive_type(peer, WIRE_ENROL), "no ENROL");
    cert.n_certificate = cert.n_authority = (uint16_t)authority->size;
    memcpy(cert.certificate, authority->bytes, authority->size);
    memcpy(cert.authority, authority->bytes, authority->size);
    send_frame(peer, (struct wire_header){.type = WIRE_CERT}, payload, wire_encode_cert(&cert, payload));
    need(receive_type(peer, WIRE_BEAT), "no sign of life after a wrong certificate");
    closes(peer);
}

static const struct role {
    const char *name;
    bool handshake; /* before it */
    void (*act)(struct peer *peer);
} roles[] = {
    {"stalls", false, silent},
    {"garbage", false, garbage},
    {"closes", false, closes},
    {"closes_after_handshake", true, closes},
    {"resets", true, resets},
    {"long_length", true, long_length},
    {"short_length", true, short_length},
    {"huge_length", true, huge_length},
    {"half_a_header", true, half_a_header},
    {"long_record", true, long_record},
    {"forged_record", true, forged_record},
    {"half_a_record", true, half_a_record},
    {"bad_welcome", true, bad_welcome},
    {"early_run", true, early_run},
    {"chunk_unasked", true, chunk_unasked},
    {"data_unasked", true, data_unasked},
    {"refuses", true, refuses},
    {"falls_silent", true, welcome},
    {"renews", true, renews},
    {"renews_wrong", true, renews_wrong},
};

static const struct role *role_of(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i].name, name) == 0)
            return &roles[i];
    need(false, name);
    return NULL;
}

/* ---- connections ---- */

static void accept_peer(int listener, struct peer *peer)
{
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    int one = 1;
    need(poll(&fd, 1, PATIENCE_MS) > 0, "no board came");
    peer->fd = accept(listener, NULL, NULL);
    need(peer->fd >= 0, "accept");
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    mbedtls_ssl_init(&peer->ssl);
}

static void close_peer(struct peer *peer)
{
    mbedtls_ssl_free(&peer->ssl);
    if (peer->fd >= 0)
        close(peer->fd);
}

/* Until the board has closed. */
static void wait_gone(struct peer *peer, const char *role)
{
    uint8_t waste[4096];
    uint64_t end = clock_monotonic_us() + PATIENCE_MS * 1000ull;
    while (peer->fd >= 0) {
        struct pollfd fd = {.fd = peer->fd, .events = POLLIN};
        need(clock_monotonic_us() < end, role);
        if (poll(&fd, 1, 1000) > 0 && recv(peer->fd, waste, sizeof waste, 0) <= 0)
            break;
    }
}

static void enrol_board(int listener)
{
    struct peer peer;
    accept_peer(listener, &peer);
    need(handshake(&peer), "the handshake to enrol");
    answer_enrol(&peer);
    wait_gone(&peer, "the board stayed after CERT");
    close_peer(&peer);
}

static void play(int listener, const struct role *role)
{
    struct peer peer;
    accept_peer(listener, &peer);
    printf("%s begins\n", role->name);
    fflush(stdout);
    if (role->handshake)
        need(handshake(&peer), "handshake");
    role->act(&peer);
    wait_gone(&peer, role->name);
    close_peer(&peer);
    printf("%s: the board has gone\n", role->name);
    fflush(stdout);
}

static void serve_well(int listener)
{
    struct peer peer;
    accept_peer(listener, &peer);
    need(handshake(&peer), "the last handshake");
    welcome(&peer);
    send_frame(&peer, (struct wire_header){.type = 200}, NULL, 0); /* unknown: skipped */
    for (int i = 0; i < 2; i++)
        need(receive_type(&peer, WIRE_BEAT), "no sign of life");
    printf("served well\n");
    close_peer(&peer);
}

/* ---- start ---- */

static void start_tls(void)
{
    struct ca_der key, certificate;
    mbedtls_entropy_init(&server.entropy);
    mbedtls_ctr_drbg_init(&server.drbg);
    mbedtls_x509_crt_init(&server.chain);
    mbedtls_pk_init(&server.key);
    mbedtls_ssl_config_init(&server.config);
    need(mbedtls_ctr_drbg_seed(&server.drbg, mbedtls_entropy_func, &server.entropy, NULL, 0) == 0,
         "randomness");
    need(ca_create(clock_wall_ms() / 1000, &key, &certificate, NULL) == 0, "ca_create");
    need(ca_open(key.bytes, key.size, certificate.bytes, certificate.size, &server.ca, NULL) == 0, "ca_open");
    struct ca_der authority = certificate;
    need(ca_issue_server(server.ca, clock_wall_ms() / 1000, 30, &key, &certificate, NULL) == 0,
         "ca_issue_server");
    need(mbedtls_x509_crt_parse_der(&server.chain, certificate.bytes, certificate.size) == 0 &&
             mbedtls_x509_crt_parse_der(&server.chain, authority.bytes, authority.size) == 0 &&
             mbedtls_pk_parse_key(&server.key, key.bytes, key.size, NULL, 0) == 0,
         "certificates");
    static const int suites[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};
    need(mbedtls_ssl_config_defaults(&server.config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                     MBEDTLS_SSL_PRESET_DEFAULT) == 0,
         "config");
    mbedtls_ssl_conf_ciphersuites(&server.config, suites);
    mbedtls_ssl_conf_rng(&server.config, mbedtls_ctr_drbg_random, &server.drbg);
    mbedtls_ssl_conf_authmode(&server.config, MBEDTLS_SSL_VERIFY_NONE);
    need(mbedtls_ssl_conf_own_cert(&server.config, &server.chain, &server.key) == 0, "own_cert");
}

static int listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 4) == 0 &&
             getsockname(fd, (struct sockaddr *)&address, &size) == 0,
         "listening");
    struct enrol_code code;
    char text[ENROL_CODE_BYTES];
    enrol_code_make(ca_key_hash(server.ca), &code);
    enrol_code_format(&code, text);
    printf("{\"port\":%u,\"code\":\"%s\"}\n", ntohs(address.sin_port), text);
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    start_tls();
    for (int i = 1; i < argc; i++)
        (void)role_of(argv[i]);
    int listener = listen_on_loopback();
    enrol_board(listener);
    for (int i = 1; i < argc; i++)
        play(listener, role_of(argv[i]));
    serve_well(listener);
    close(listener);
    mbedtls_ssl_config_free(&server.config);
    mbedtls_x509_crt_free(&server.chain);
    mbedtls_pk_free(&server.key);
    mbedtls_ctr_drbg_free(&server.drbg);
    mbedtls_entropy_free(&server.entropy);
    ca_free(server.ca);
    return 0;
}
