/* The owner of real links that tests use instead of server/fleet. */
#include "tests/support/fake_fleet.h"

#include "server/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void server_changed(struct server *s)
{
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static int on_admit(void *context, const char *board)
{
    struct server *s = context;
    (void)board;
    pthread_mutex_lock(&s->lock);
    int answer = s->admit;
    pthread_mutex_unlock(&s->lock);
    return answer;
}

static int welcome(struct server *s, struct link *link)
{
    struct wire_welcome message = {
        .version = WIRE_VERSION, .state = s->state, .time_ms = (uint64_t)clock_wall_ms()};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    struct wire_header header = {.type = WIRE_WELCOME};
    snprintf(message.name, sizeof message.name, "%s", s->hello.name);
    int n = wire_encode_welcome(&message, payload);
    header.length = (uint32_t)n;
    return n < 0 ? n : link_send(link, &header, payload);
}

static int on_up(void *context, struct link *link, const struct link_peer *peer,
                 const struct wire_header *header, const uint8_t *payload)
{
    struct server *s = context;
    struct wire_hello hello;
    bool real = wire_decode_hello(payload, header->length, &hello) == 0;
    pthread_mutex_lock(&s->lock);
    s->ups++;
    s->resumed += peer->resumed;
    s->coordinator = pthread_self();
    s->up = link;
    snprintf(s->up_board, sizeof s->up_board, "%s", link_board(link));
    int status = header->type == WIRE_HELLO && peer->certified ? 0 : STATUS_INTERNAL;
    if (real) {
        s->hello = hello;
        s->hellos++;
    }
    server_changed(s);
    return real && status == 0 ? welcome(s, link) : status;
}

static void got_echo(struct server *s, struct link *link, const struct wire_header *header)
{
    pthread_mutex_lock(&s->lock);
    if (probe_on_echo(&s->probe, header, clock_monotonic_us())) {
        s->probed++;
    }
    server_changed(s);
    link_kick(link);
}

/* Echoes DATA as a control frame; a BEAT without payload asks for a flood of pulled frames. */
static int on_frame(void *context, struct link *link, const struct wire_header *header,
                    const uint8_t *payload)
{
    struct server *s = context;
    pthread_mutex_lock(&s->lock);
    s->frames++;
    s->beats += header->type == WIRE_BEAT &&
                (header->length == 0 || wire_decode_beat(payload, header->length, &s->beat) == 0);
    int status = s->frame_status;
    if (header->type == WIRE_BEAT && header->length == 0) {
        s->flood = 1000;
        link_kick(link);
    }
    server_changed(s);
    if (status != 0) {
        return status;
    }
    if (header->type == WIRE_ECHO) {
        got_echo(s, link, header);
    }
    return header->type == WIRE_DATA ? link_send(link, header, payload) : 0;
}

static void on_down(void *context, struct link *link, int status, const char *reason)
{
    struct server *s = context;
    pthread_mutex_lock(&s->lock);
    s->downs++;
    if (s->up == link) {
        s->up = NULL;
    }
    s->down_status = status;
    snprintf(s->down_reason, sizeof s->down_reason, "%s", reason);
    server_changed(s);
}

static void on_stale(void *context, struct link *link, bool stale)
{
    struct server *s = context;
    (void)link;
    pthread_mutex_lock(&s->lock);
    *(stale ? &s->stales : &s->fresh) += 1;
    server_changed(s);
}

static int next_frame(void *context, struct link *link, struct wire_header *header,
                      uint8_t payload[WIRE_PAYLOAD_MAX])
{
    struct server *s = context;
    (void)link;
    pthread_mutex_lock(&s->lock);
    if (s->probe.running) {
        int n = probe_next_frame(&s->probe, clock_monotonic_us(), header, payload);
        pthread_mutex_unlock(&s->lock);
        return n;
    }
    uint32_t left = s->flood;
    s->flood -= left != 0;
    pthread_mutex_unlock(&s->lock);
    if (left == 0) {
        return -1;
    }
    *header = (struct wire_header){.type = WIRE_DATA, .offset = 1000 - left};
    memset(payload, (int)(1000 - left), WIRE_PAYLOAD_MAX);
    return WIRE_PAYLOAD_MAX;
}

static void on_enrol(void *context, uint64_t request, const struct link_enrolment *e)
{
    struct server *s = context;
    struct link_answer answer = {.state = s->state};
    struct enrol_code code;
    struct ca_info info;
    pthread_mutex_lock(&s->lock);
    s->enrolments++;
    bool silent = s->silent_enrol;
    int days = s->days;
    server_changed(s);
    if (silent) {
        return;
    }
    if (!e->peer->certified &&
        (enrol_code_parse(e->code, &code) != 0 || !enrol_code_equal(code.secret, s->code.secret))) {
        answer.status = STATUS_CODE_WRONG;
        snprintf(answer.reason, sizeof answer.reason, "the code is not known");
    } else if (ca_issue_board(s->ca, e->request, e->request_bytes, clock_wall_ms() / 1000, days,
                              &answer.certificate, &info, NULL) != 0) {
        answer.status = STATUS_INVALID_ARGUMENT;
    } else {
        snprintf(answer.name, sizeof answer.name, "%s", e->name);
        pthread_mutex_lock(&s->lock);
        snprintf(s->enrol_board, sizeof s->enrol_board, "%s", info.board);
        pthread_mutex_unlock(&s->lock);
    }
    links_answer(s->links, request, &answer);
}

static void on_failure(void *context, const struct link_failure *failure)
{
    struct server *s = context;
    pthread_mutex_lock(&s->lock);
    if (s->n_failures < LOGGED_MAX) {
        s->failures[s->n_failures++] = *failure;
    }
    server_changed(s);
}

static void links_begin(struct server *s)
{
    struct link_owner owner = {.context = s,
                               .admit = on_admit,
                               .on_up = on_up,
                               .on_frame = on_frame,
                               .on_down = on_down,
                               .on_stale = on_stale,
                               .next_frame = next_frame,
                               .on_enrol = on_enrol,
                               .on_failure = on_failure};
    struct error error = {0};
    if (links_start(&s->links, s->ca, &s->options, &owner, &error) != 0) {
        fail_msg("%s", error.message);
    }
}

void server_start(struct server *s, const struct link_options *options)
{
    struct ca_der key, certificate;
    memset(s, 0, sizeof *s);
    if (options != NULL) {
        s->options = *options;
    }
    s->days = CA_BOARD_DAYS;
    s->state = WIRE_STATE_ACCEPTED;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    assert_int_equal(0, ca_create(clock_wall_ms() / 1000, &key, &certificate, NULL));
    assert_int_equal(0, ca_open(key.bytes, key.size, certificate.bytes, certificate.size, &s->ca, NULL));
    enrol_code_make(ca_key_hash(s->ca), &s->code);
    enrol_code_format(&s->code, s->text);
    s->options.listen = s->options.listen != NULL ? s->options.listen : "127.0.0.1:0";
    links_begin(s);
}

void server_restart(struct server *s)
{
    char address[LINK_ADDRESS_BYTES];
    snprintf(address, sizeof address, "%s", links_address(s->links));
    links_stop(s->links);
    s->options.listen = address;
    links_begin(s);
    s->options.listen = "127.0.0.1:0";
}

static void kick(void *context)
{
    struct server *s = context;
    if (s->up != NULL) {
        link_kick(s->up);
    }
}

struct probe_result server_probe(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    int before = s->probed;
    probe_start(&s->probe);
    pthread_mutex_unlock(&s->lock);
    assert_int_equal(0, links_post(s->links, kick, s));
    server_await(s, &s->probed, before + 1);
    return probe_result(&s->probe);
}

void server_stop(struct server *s)
{
    links_stop(s->links);
    assert_int_equal(s->ups, s->downs);
    ca_free(s->ca);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

/* Waits until *counter is at least `least`. */
void server_await(struct server *s, const int *counter, int least)
{
    uint64_t end = clock_monotonic_us() + WAIT_MS * 1000;
    pthread_mutex_lock(&s->lock);
    while (*counter < least) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->changed, &s->lock, &until);
        if (clock_monotonic_us() > end) {
            pthread_mutex_unlock(&s->lock);
            fail_msg("waited too long");
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* Waits for a failure with this status, in whose reason `text` stands. */
struct link_failure server_await_failure(struct server *s, int status, const char *text)
{
    uint64_t end = clock_monotonic_us() + WAIT_MS * 1000;
    while (clock_monotonic_us() < end) {
        pthread_mutex_lock(&s->lock);
        for (uint32_t i = 0; i < s->n_failures; i++) {
            struct link_failure found = s->failures[i];
            if ((int)found.status == status && strstr(found.reason, text) != NULL) {
                pthread_mutex_unlock(&s->lock);
                assert_true(found.at_ms > 0 && found.action[0] != 0 &&
                            strncmp(found.address, "127.0.0.1:", 10) == 0);
                return found;
            }
        }
        pthread_mutex_unlock(&s->lock);
        poll(NULL, 0, 10);
    }
    for (uint32_t i = 0; i < s->n_failures; i++) {
        print_message("seen: %s: %s\n", status_name(s->failures[i].status), s->failures[i].reason);
    }
    fail_msg("no failure %s with \"%s\"", status_name(status), text);
    abort();
}
