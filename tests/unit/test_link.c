/*
 * server/link and the host board's TLS client against each other over loopback: certificates good and bad,
 * enrolment, frames, life signs, hostile peers. The server's threads are real; the owner below keeps what
 * happened under a lock.
 */
#include "firmware/port/host/host_enrol.h"
#include "firmware/port/host/host_link.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/log.h"
#include "server/ca/enrol_code.h"
#include "server/link/link.h"
#include "tests/support/fake_fleet.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* ---- a board ---- */

struct peer {
    struct host_identity identity;
    struct host_link_peer at;
    struct host_link link;
    char port[8], folder[128];
};

static void peer_start(struct peer *p, const struct server *s, const char *name)
{
    struct error error = {0};
    memset(p, 0, sizeof *p);
    snprintf(p->port, sizeof p->port, "%u", links_port(s->links));
    snprintf(p->folder, sizeof p->folder, "%s/%s", root, name);
    if (host_identity_open(&p->identity, p->folder, &error) != 0) {
        fail_msg("%s", error.message);
    }
    host_link_peer_init(&p->at, "127.0.0.1", p->port, 0, NULL);
    p->link.fd = -1;
}

static void peer_stop(struct peer *p)
{
    host_link_peer_free(&p->at);
    host_identity_close(&p->identity);
}

static int peer_enrol(struct peer *p, const char *code, struct error *error)
{
    uint8_t state;
    error_clear(error);
    return host_enrol(&p->identity, &p->at, code, "a name", &state, error);
}

static void peer_enrolled(struct peer *p, const struct server *s, const char *name)
{
    struct error error;
    peer_start(p, s, name);
    if (peer_enrol(p, s->text, &error) != 0) {
        fail_msg("%s", error.message);
    }
}

static bool peer_send(struct peer *p, uint8_t type, uint32_t offset, const void *payload, uint32_t n)
{
    uint8_t frame[WIRE_FRAME_MAX];
    struct board_transport t = host_link_transport(&p->link);
    struct wire_header header = {.type = type, .offset = offset, .length = n};
    wire_header_put(&header, frame);
    if (n != 0) {
        memcpy(frame + WIRE_HEADER_BYTES, payload, n);
    }
    for (int i = 0; i < 200; i++) {
        int32_t rc = t.send(t.context, frame, WIRE_HEADER_BYTES + n);
        if (rc != 0) {
            return rc > 0;
        }
        poll(NULL, 0, 10);
    }
    return false;
}

static bool peer_read(struct peer *p, uint8_t *bytes, uint32_t n, int ms)
{
    struct board_transport t = host_link_transport(&p->link);
    uint64_t end = clock_monotonic_us() + (uint64_t)ms * 1000;
    while (n != 0) {
        int32_t got = t.recv(t.context, bytes, n);
        if (got < 0 || (got == 0 && clock_monotonic_us() > end)) {
            return false;
        }
        if (got == 0) {
            struct pollfd fd = {.fd = p->link.fd, .events = POLLIN};
            poll(&fd, 1, 5);
        }
        bytes += got;
        n -= (uint32_t)got;
    }
    return true;
}

/* The next frame within `ms`; false: the link is gone or nothing came. */
static bool peer_frame(struct peer *p, struct wire_header *header, uint8_t payload[WIRE_PAYLOAD_MAX], int ms)
{
    uint8_t head[WIRE_HEADER_BYTES];
    return peer_read(p, head, sizeof head, ms) && wire_header_get(head, header) == 0 &&
           peer_read(p, payload, header->length, ms);
}

static int peer_open(struct peer *p, struct error *error)
{
    error_clear(error);
    return host_link_open(&p->link, &p->at, &p->identity, NULL, error);
}

/* Connects and says HELLO. */
static void peer_up(struct peer *p)
{
    struct error error;
    if (peer_open(p, &error) != 0) {
        fail_msg("%s", error.message);
    }
    assert_true(peer_send(p, WIRE_HELLO, 0, "hello", 5));
}

/* Reads until the link is gone; the refusal that came, if any. */
static void peer_drain(struct peer *p)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    while (p->link.status == 0 && peer_frame(p, &header, payload, 3000)) {
    }
}

/* ---- tests ---- */

static void code_gives_a_certificate_and_frames_go_both_ways(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct wire_header header;
    uint8_t sent[WIRE_PAYLOAD_MAX], got[WIRE_PAYLOAD_MAX];
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "both");
    assert_string_equal(p.identity.board, s.enrol_board);
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    assert_string_equal(p.identity.board, s.up_board);
    for (uint32_t n = 0; n <= WIRE_PAYLOAD_MAX; n += n == WIRE_PAYLOAD_MAX - 1 ? 1 : n < 3 ? 1 : 1019) {
        memset(sent, (int)n + 7, sizeof sent);
        assert_true(peer_send(&p, WIRE_DATA, n, sent, n));
        assert_true(peer_frame(&p, &header, got, 3000));
        assert_int_equal(WIRE_DATA, header.type);
        assert_int_equal(n, header.offset);
        assert_int_equal(n, header.length);
        assert_memory_equal(sent, got, n);
    }
    host_link_close(&p.link);
    server_await(&s, &s.downs, 1);
    assert_string_equal("closed by the board", s.down_reason);
    assert_int_equal(0, s.n_failures);
    peer_stop(&p);
    server_stop(&s);
}

static void pulled_frames_arrive_in_order_and_whole(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct wire_header header;
    uint8_t got[WIRE_PAYLOAD_MAX];
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "pulled");
    peer_up(&p);
    assert_true(peer_send(&p, WIRE_BEAT, 0, NULL, 0));
    poll(NULL, 0, 200); /* the socket fills up meanwhile */
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(peer_frame(&p, &header, got, 3000));
        assert_int_equal(i, header.offset);
        assert_int_equal(WIRE_PAYLOAD_MAX, header.length);
        assert_int_equal((uint8_t)i, got[0]);
        assert_int_equal((uint8_t)i, got[WIRE_PAYLOAD_MAX - 1]);
    }
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void key_file_is_for_its_owner_only_and_is_never_sent(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct stat st;
    char path[256];
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "private");
    snprintf(path, sizeof path, "%s/key.der", p.folder);
    assert_int_equal(0, stat(path, &st));
    assert_int_equal(0600, st.st_mode & 0777);
    peer_stop(&p);
    server_stop(&s);
}

static void second_connection_resumes_and_revocation_is_still_looked_up(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "resume");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    assert_int_equal(0, s.resumed);
    host_link_close(&p.link);
    peer_up(&p);
    server_await(&s, &s.ups, 2);
    assert_int_equal(1, s.resumed);
    host_link_close(&p.link);
    pthread_mutex_lock(&s.lock);
    s.admit = STATUS_CERTIFICATE_REVOKED;
    pthread_mutex_unlock(&s.lock);
    assert_true(p.at.has_session);
    peer_up(&p);
    peer_drain(&p);
    assert_true(p.link.refused);
    assert_int_equal(STATUS_CERTIFICATE_REVOKED, p.link.refusal.status);
    assert_non_null(strstr(p.link.refusal.reason, "is revoked"));
    struct link_failure failure = server_await_failure(&s, STATUS_CERTIFICATE_REVOKED, p.identity.board);
    assert_string_equal(p.identity.board, failure.board);
    assert_int_equal(2, s.ups);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void revoked_board_that_is_up_is_dropped_within_a_second(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "revoked");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    uint64_t from = clock_monotonic_us();
    assert_int_equal(0, links_drop_board(s.links, p.identity.board, STATUS_CERTIFICATE_REVOKED, "revoked"));
    peer_drain(&p);
    assert_true(p.link.status != 0);
    assert_true(clock_monotonic_us() - from < 1000000);
    server_await(&s, &s.downs, 1);
    assert_int_equal(STATUS_CERTIFICATE_REVOKED, s.down_status);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void expired_certificate_is_refused_with_its_date(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    server_start(&s, NULL);
    s.days = -1;
    peer_enrolled(&p, &s, "expired");
    peer_up(&p);
    peer_drain(&p);
    assert_true(p.link.refused);
    assert_int_equal(STATUS_CERTIFICATE_EXPIRED, p.link.refusal.status);
    assert_non_null(strstr(p.link.refusal.reason, "expired at 20"));
    server_await_failure(&s, STATUS_CERTIFICATE_EXPIRED, "expired at 20");
    assert_int_equal(0, s.ups);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

/* Shows the server a certificate of another authority while trusting the server's: a board that was enrolled
 * elsewhere and skips its own check. */
static void certificate_of_another_authority_is_refused(void **state)
{
    (void)state;
    struct server ours, other;
    struct peer p;
    struct error error;
    server_start(&ours, NULL);
    server_start(&other, NULL);
    peer_enrolled(&p, &other, "other");
    snprintf(p.port, sizeof p.port, "%u", links_port(ours.links));
    /* As it is, the board itself refuses the server. */
    assert_int_equal(STATUS_CERTIFICATE_WRONG, peer_open(&p, &error));
    assert_non_null(strstr(error.message, "not of the authority that this board was enrolled with"));
    host_link_close(&p.link);
    server_await_failure(&ours, STATUS_CERTIFICATE_WRONG, "trusts another authority");
    /* A board that trusts the server and yet shows the foreign certificate. */
    mbedtls_x509_crt_free(&p.identity.authority);
    mbedtls_x509_crt_init(&p.identity.authority);
    assert_int_equal(0, mbedtls_x509_crt_parse_der(&p.identity.authority, ca_certificate(ours.ca)->bytes,
                                                   ca_certificate(ours.ca)->size));
    peer_up(&p);
    peer_drain(&p);
    assert_true(p.link.refused);
    assert_int_equal(STATUS_CERTIFICATE_WRONG, p.link.refusal.status);
    server_await_failure(&ours, STATUS_CERTIFICATE_WRONG, "not issued by this fleet's authority");
    assert_int_equal(0, ours.ups);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&other);
    server_stop(&ours);
}

static void peer_without_certificate_may_only_enrol(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct error error;
    server_start(&s, NULL);
    peer_start(&p, &s, "missing");
    error_clear(&error);
    assert_int_equal(0, host_link_open(&p.link, &p.at, &p.identity, s.code.trust, &error));
    assert_true(peer_send(&p, WIRE_HELLO, 0, "hello", 5));
    peer_drain(&p);
    assert_true(p.link.refused);
    assert_int_equal(STATUS_CERTIFICATE_MISSING, p.link.refusal.status);
    assert_non_null(strstr(p.link.refusal.reason, "no certificate"));
    server_await_failure(&s, STATUS_CERTIFICATE_MISSING, "no certificate");
    assert_int_equal(0, s.ups);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void wrong_code_is_refused_and_reported(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct error error;
    struct enrol_code code;
    char text[ENROL_CODE_BYTES];
    server_start(&s, NULL);
    peer_start(&p, &s, "code");
    enrol_code_make(ca_key_hash(s.ca), &code);
    enrol_code_format(&code, text);
    assert_int_equal(STATUS_CODE_WRONG, peer_enrol(&p, text, &error));
    assert_string_equal("the code is not known", error.message);
    server_await_failure(&s, STATUS_CODE_WRONG, "the code is not known");
    assert_false(p.identity.enrolled);
    peer_stop(&p);
    server_stop(&s);
}

static void code_of_another_server_is_never_sent(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct error error;
    struct enrol_code code;
    char text[ENROL_CODE_BYTES];
    uint8_t hash[32] = {1, 2, 3};
    server_start(&s, NULL);
    peer_start(&p, &s, "phish");
    enrol_code_make(hash, &code);
    enrol_code_format(&code, text);
    assert_int_equal(STATUS_CERTIFICATE_WRONG, peer_enrol(&p, text, &error));
    assert_non_null(strstr(error.message, "not made by this server"));
    assert_int_equal(0, s.enrolments);
    peer_stop(&p);
    server_stop(&s);
}

static void unanswered_enrolment_ends(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct error error;
    struct link_options options = {.enrol_ms = 200};
    server_start(&s, &options);
    s.silent_enrol = true;
    peer_start(&p, &s, "unanswered");
    assert_int_equal(STATUS_DEADLINE, peer_enrol(&p, s.text, &error));
    server_await_failure(&s, STATUS_DEADLINE, "no answer to ENROL");
    peer_stop(&p);
    server_stop(&s);
}

static void renewal_keeps_the_board_and_changes_the_certificate(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct error error;
    char board[CA_ID_BYTES], fingerprint[CA_HEX_BYTES];
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "renew");
    strcpy(board, p.identity.board);
    strcpy(fingerprint, p.identity.info.fingerprint);
    assert_false(host_identity_half_life(&p.identity, clock_wall_ms() / 1000 + 44 * 86400));
    assert_true(host_identity_half_life(&p.identity, clock_wall_ms() / 1000 + 46 * 86400));
    assert_int_equal(0, peer_enrol(&p, NULL, &error));
    assert_string_equal(board, s.enrol_board);
    assert_string_equal(board, p.identity.info.board);
    assert_string_not_equal(fingerprint, p.identity.info.fingerprint);
    peer_stop(&p);
    peer_start(&p, &s, "renew"); /* as after a restart */
    assert_true(p.identity.enrolled);
    assert_string_equal(board, p.identity.board);
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void renewal_goes_over_the_link_that_is_up(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    struct wire_enrol enrol;
    struct wire_cert cert;
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "inline");
    peer_up(&p);
    assert_int_equal(0, host_enrol_request(&p.identity, "", "", &enrol));
    int n = wire_encode_enrol(&enrol, payload);
    assert_true(n > 0 && peer_send(&p, WIRE_ENROL, 0, payload, (uint32_t)n));
    assert_true(peer_frame(&p, &header, payload, 3000));
    assert_int_equal(WIRE_CERT, header.type);
    assert_int_equal(0, wire_decode_cert(payload, header.length, &cert));
    assert_int_equal(0, cert.status);
    assert_int_equal(0, host_identity_keep(&p.identity, cert.certificate, cert.n_certificate, cert.authority,
                                           cert.n_authority, NULL));
    assert_true(peer_send(&p, WIRE_DATA, 3, "x", 1)); /* the link goes on */
    assert_true(peer_frame(&p, &header, payload, 3000));
    assert_int_equal(3, header.offset);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void new_connection_of_a_board_replaces_the_old_one(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "twice");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    struct host_link old = p.link; /* stays open, as a host that lost its power would leave it */
    mbedtls_ssl_init(&p.link.ssl);
    peer_up(&p);
    server_await(&s, &s.ups, 2);
    assert_int_equal(1, s.downs);
    assert_string_equal("the board connected anew", s.down_reason);
    host_link_close(&p.link);
    server_await(&s, &s.downs, 2);
    close(old.fd);
    free(old.held);
    mbedtls_ssl_config_free(&old.config);
    mbedtls_ssl_free(&old.ssl);
    peer_stop(&p);
    server_stop(&s);
}

static void silence_makes_stale_then_offline(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct link_options options = {.stale_ms = 200, .offline_ms = 2000};
    server_start(&s, &options);
    peer_enrolled(&p, &s, "silent");
    peer_up(&p);
    server_await(&s, &s.stales, 1);
    assert_int_equal(0, s.downs);
    assert_true(peer_send(&p, WIRE_NOP, 0, NULL, 0));
    server_await(&s, &s.fresh, 1);
    assert_int_equal(0, s.downs);
    server_await(&s, &s.stales, 2);
    server_await(&s, &s.downs, 1);
    assert_int_equal(STATUS_OFFLINE, s.down_status);
    assert_string_equal("no byte for 2000 ms", s.down_reason);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void idle_server_sends_nop(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    struct link_options options = {.nop_ms = 100};
    server_start(&s, &options);
    peer_enrolled(&p, &s, "nop");
    peer_up(&p);
    uint64_t from = clock_monotonic_us();
    for (int i = 0; i < 3; i++) {
        assert_true(peer_frame(&p, &header, payload, 3000));
        assert_int_equal(WIRE_NOP, header.type);
    }
    assert_true(clock_monotonic_us() - from >= 200000);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

/* Writes one record of `n` bytes on the peer's session. */
static void write_record(struct peer *p, const uint8_t *bytes, size_t n)
{
    assert_int_equal((int)n, mbedtls_ssl_write(&p->link.ssl, bytes, n));
}

static void record_that_is_not_one_frame_drops_the_link(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    uint8_t frame[WIRE_FRAME_MAX] = {0};
    struct wire_header header = {.type = WIRE_DATA, .length = 10};
    static const size_t sizes[] = {1, WIRE_HEADER_BYTES - 1, WIRE_HEADER_BYTES + 9, WIRE_HEADER_BYTES + 11,
                                   4096};
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "record");
    wire_header_put(&header, frame);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        peer_up(&p);
        server_await(&s, &s.ups, (int)i + 1);
        write_record(&p, frame, sizes[i]);
        server_await(&s, &s.downs, (int)i + 1);
        assert_int_equal(STATUS_WIRE_MALFORMED, s.down_status);
        assert_string_equal("a record that is not one frame", s.down_reason);
        host_link_close(&p.link);
    }
    peer_stop(&p);
    server_stop(&s);
}

static void record_over_4096_bytes_drops_the_link(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    uint8_t frame[5000] = {0};
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "large");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    /* A client that does not keep to the length it asked for. */
    p.link.config.mfl_code = MBEDTLS_SSL_MAX_FRAG_LEN_NONE;
    p.link.ssl.session->mfl_code = MBEDTLS_SSL_MAX_FRAG_LEN_NONE;
    write_record(&p, frame, sizeof frame);
    server_await(&s, &s.downs, 1);
    assert_int_equal(STATUS_WIRE_MALFORMED, s.down_status);
    assert_string_equal("a record of more than 4096 bytes", s.down_reason);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void owner_that_refuses_a_frame_drops_the_link(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    server_start(&s, NULL);
    s.frame_status = STATUS_WIRE_ORDER;
    peer_enrolled(&p, &s, "order");
    peer_up(&p);
    assert_true(peer_send(&p, WIRE_DONE, 0, NULL, 0));
    server_await(&s, &s.downs, 1);
    assert_int_equal(STATUS_WIRE_ORDER, s.down_status);
    assert_string_equal("DONE frame: a frame out of order", s.down_reason);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void connection_cut_in_the_middle_of_a_frame_is_a_lost_link(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    uint8_t half[] = {0x17, 0x03, 0x03, 0x0f, 0xff, 1, 2, 3};
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "cut");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    assert_int_equal(sizeof half,
                     send(p.link.fd, half, sizeof half, 0)); /* a record's beginning, below TLS */
    shutdown(p.link.fd, SHUT_RDWR);
    server_await(&s, &s.downs, 1);
    assert_int_equal(STATUS_OFFLINE, s.down_status);
    assert_string_equal("the connection was lost", s.down_reason);
    host_link_close(&p.link);
    peer_up(&p); /* and again */
    server_await(&s, &s.ups, 2);
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static int raw_connect(const struct server *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(links_port(s->links))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

static void garbage_instead_of_a_handshake_is_reported(void **state)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct server s;
    struct peer p;
    server_start(&s, NULL);
    int fd = raw_connect(&s);
    assert_int_equal(sizeof http - 1, send(fd, http, sizeof http - 1, MSG_NOSIGNAL));
    server_await_failure(&s, STATUS_TLS_FAILED, "not a TLS 1.2 handshake");
    close(fd);
    fd = raw_connect(&s);
    close(fd);
    server_await_failure(&s, STATUS_TLS_FAILED, "closed before the handshake was done");
    srand(1);
    for (int i = 0; i < 200; i++) { /* records of noise, some with a true header */
        uint8_t noise[64];
        for (size_t k = 0; k < sizeof noise; k++) {
            noise[k] = (uint8_t)rand();
        }
        if (i % 2 == 0) {
            memcpy(noise, "\x16\x03\x01\x00\x3b\x01\x00\x00\x37\x03\x03", 11);
        }
        fd = raw_connect(&s);
        send(fd, noise, sizeof noise, MSG_NOSIGNAL);
        close(fd);
    }
    peer_enrolled(&p, &s, "after"); /* still in order */
    peer_stop(&p);
    server_stop(&s);
}

static void slow_handshakes_hold_their_places_no_longer_than_the_deadline(void **state)
{
    (void)state;
    enum { SLOW = 12 };
    struct server s;
    struct peer p;
    struct link_options options = {.half_open_max = 4, .handshake_ms = 1500};
    int fds[SLOW];
    server_start(&s, &options);
    for (int i = 0; i < SLOW; i++) {
        fds[i] = raw_connect(&s);
        assert_int_equal(1, send(fds[i], "\x16", 1, MSG_NOSIGNAL));
    }
    poll(NULL, 0, 250); /* no more than four are taken at once, and none is over yet */
    pthread_mutex_lock(&s.lock);
    assert_int_equal(0, s.n_failures);
    pthread_mutex_unlock(&s.lock);
    uint64_t from = clock_monotonic_us();
    peer_enrolled(&p, &s, "patient"); /* behind all of them: three rounds */
    uint64_t took = clock_monotonic_us() - from;
    assert_true(took > 1800000 && took < 20000000);
    server_await_failure(&s, STATUS_DEADLINE, "not done in time");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    for (int i = 0; i < SLOW; i++) {
        close(fds[i]);
    }
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void certified_peer_that_says_nothing_is_closed(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct error error;
    struct link_options options = {.first_frame_ms = 1000};
    server_start(&s, &options);
    peer_enrolled(&p, &s, "mute");
    assert_int_equal(0, peer_open(&p, &error));
    peer_drain(&p);
    assert_true(p.link.refused);
    assert_int_equal(STATUS_DEADLINE, p.link.refusal.status);
    server_await_failure(&s, STATUS_DEADLINE, "no HELLO in time");
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

/* Never reads: the link must not grow without bound nor stop the others. */
static void peer_that_does_not_read_is_dropped_at_the_bound(void **state)
{
    (void)state;
    struct server s;
    struct peer deaf, p;
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX] = {0};
    server_start(&s, NULL);
    peer_enrolled(&deaf, &s, "deaf");
    peer_enrolled(&p, &s, "hearing");
    peer_up(&deaf);
    peer_up(&p);
    server_await(&s, &s.ups, 2);
    int sent = 0;
    while (sent < 20000 && peer_send(&deaf, WIRE_DATA, 0, payload, sizeof payload)) {
        sent++;
        pthread_mutex_lock(&s.lock);
        int downs = s.downs;
        pthread_mutex_unlock(&s.lock);
        if (downs != 0) {
            break;
        }
    }
    server_await(&s, &s.downs, 1);
    assert_int_equal(STATUS_BUSY, s.down_status);
    assert_true(peer_send(&p, WIRE_DATA, 1, "x", 1));
    assert_true(peer_frame(&p, &header, payload, 3000));
    host_link_close(&deaf.link);
    host_link_close(&p.link);
    peer_stop(&deaf);
    peer_stop(&p);
    server_stop(&s);
}

struct posting {
    struct server *server;
    int runs;
    pthread_t thread;
};

static void posted(void *context)
{
    struct posting *posting = context;
    pthread_mutex_lock(&posting->server->lock);
    posting->runs++;
    posting->thread = pthread_self();
    server_changed(posting->server);
}

static void posted_calls_run_on_the_coordinator_thread(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct posting posting = {.server = &s};
    server_start(&s, NULL);
    peer_enrolled(&p, &s, "post");
    peer_up(&p);
    server_await(&s, &s.ups, 1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(0, links_post(s.links, posted, &posting));
    }
    server_await(&s, &posting.runs, 100);
    assert_true(pthread_equal(posting.thread, s.coordinator));
    assert_false(pthread_equal(posting.thread, pthread_self()));
    host_link_close(&p.link);
    peer_stop(&p);
    server_stop(&s);
}

static void listening_address_is_checked(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "8443",
                                        ":8443",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "127.0.0.1:66000",
                                        "127.0.0.1:1x",
                                        "example.invalid:1",
                                        "[::1:1"};
    struct server s;
    struct error error;
    struct links *links;
    struct link_owner owner = {.context = &s}; /* never called */
    server_start(&s, NULL);
    assert_true(links_loopback(s.links));
    assert_int_equal(0, strncmp(links_address(s.links), "127.0.0.1:", 10));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct link_options options = {.listen = wrong[i]};
        error_clear(&error);
        assert_int_equal(STATUS_INVALID_ARGUMENT, links_start(&links, s.ca, &options, &owner, &error));
        assert_null(links);
    }
    struct link_options taken = {.listen = links_address(s.links)};
    error_clear(&error);
    assert_int_equal(STATUS_CONFLICT, links_start(&links, s.ca, &taken, &owner, &error));
    assert_non_null(strstr(error.message, links_address(s.links)));
    server_stop(&s);
}

static void second_process_is_kept_out_of_a_state_folder(void **state)
{
    (void)state;
    struct server s;
    struct peer p;
    struct host_identity second;
    struct error error = {0};
    server_start(&s, NULL);
    peer_start(&p, &s, "locked");
    assert_int_equal(STATUS_CONFLICT, host_identity_open(&second, p.folder, &error));
    assert_non_null(strstr(error.message, "another process uses the state folder"));
    host_identity_close(&second);
    peer_stop(&p);
    server_stop(&s);
}

int main(void)
{
    snprintf(root, sizeof root, "/tmp/shoal-link-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_gives_a_certificate_and_frames_go_both_ways),
        cmocka_unit_test(pulled_frames_arrive_in_order_and_whole),
        cmocka_unit_test(key_file_is_for_its_owner_only_and_is_never_sent),
        cmocka_unit_test(second_connection_resumes_and_revocation_is_still_looked_up),
        cmocka_unit_test(revoked_board_that_is_up_is_dropped_within_a_second),
        cmocka_unit_test(expired_certificate_is_refused_with_its_date),
        cmocka_unit_test(certificate_of_another_authority_is_refused),
        cmocka_unit_test(peer_without_certificate_may_only_enrol),
        cmocka_unit_test(wrong_code_is_refused_and_reported),
        cmocka_unit_test(code_of_another_server_is_never_sent),
        cmocka_unit_test(unanswered_enrolment_ends),
        cmocka_unit_test(renewal_keeps_the_board_and_changes_the_certificate),
        cmocka_unit_test(renewal_goes_over_the_link_that_is_up),
        cmocka_unit_test(new_connection_of_a_board_replaces_the_old_one),
        cmocka_unit_test(silence_makes_stale_then_offline),
        cmocka_unit_test(idle_server_sends_nop),
        cmocka_unit_test(record_that_is_not_one_frame_drops_the_link),
        cmocka_unit_test(record_over_4096_bytes_drops_the_link),
        cmocka_unit_test(owner_that_refuses_a_frame_drops_the_link),
        cmocka_unit_test(connection_cut_in_the_middle_of_a_frame_is_a_lost_link),
        cmocka_unit_test(garbage_instead_of_a_handshake_is_reported),
        cmocka_unit_test(slow_handshakes_hold_their_places_no_longer_than_the_deadline),
        cmocka_unit_test(certified_peer_that_says_nothing_is_closed),
        cmocka_unit_test(peer_that_does_not_read_is_dropped_at_the_bound),
        cmocka_unit_test(posted_calls_run_on_the_coordinator_thread),
        cmocka_unit_test(listening_address_is_checked),
        cmocka_unit_test(second_process_is_kept_out_of_a_state_folder),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) == 0 ? failed : 1;
}
