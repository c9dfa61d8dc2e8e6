/*
 * A board that was let in and means harm, for tests/chaos/hostile.sh: it enrols, says HELLO, pretends to
 * store what it is offered, and when it is asked to RUN it does what its role says. It ends with 0 when the
 * server has dropped the link; 3 when the server let it be until the time was over.
 *
 *     hostile_board HOST PORT FOLDER CODE NAME ROLE [SECONDS]
 *
 * Roles: garbage, lying_length, bad_hello, wrong_order, foreign (DATA of an inference nobody asked for),
 * early_done, too_much (DATA beyond its box), wrong_want, failed_long, answered_twice, huge_beat, log_flood
 * (not dropped), mute (never answers; dropped after the abort), answer_garbage (right frames, wrong numbers;
 * not dropped).
 */
#include "firmware/port/host/host_enrol.h"
#include "firmware/port/host/host_link.h"
#include "server/base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hostile {
    struct host_identity identity;
    struct host_link_peer at;
    struct host_link link;
    const char *name, *role;
    bool pretends; /* stores all it is offered without a look */
};

static bool is(const struct hostile *h, const char *role)
{
    return strcmp(h->role, role) == 0;
}

static bool send_frame(struct hostile *h, struct wire_header header, const uint8_t *payload)
{
    uint8_t frame[WIRE_FRAME_MAX];
    struct board_transport t = host_link_transport(&h->link);
    wire_header_put(&header, frame);
    if (header.length)
        memcpy(frame + WIRE_HEADER_BYTES, payload, header.length);
    for (int i = 0; i < 500; i++) {
        int32_t rc = t.send(t.context, frame, WIRE_HEADER_BYTES + header.length);
        if (rc != 0)
            return rc > 0;
        poll(NULL, 0, 10);
    }
    return false;
}

/* A TLS record that need not be a frame. */
static void send_raw(struct hostile *h, const uint8_t *bytes, uint32_t n)
{
    struct board_transport t = host_link_transport(&h->link);
    (void)t.send(t.context, bytes, n);
}

static void say_hello(struct hostile *h)
{
    struct wire_hello hello = {.version_min = 1,
                               .version_max = 1,
                               .clock_hz = 600000000,
                               .flash_bytes = 7340032,
                               .flash_erase_bytes = 4096,
                               .layouts = 1,
                               .calibration_bytes = 1000,
                               .calibration_us = 100,
                               .n_regions = 1};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    (void)snprintf(hello.name, sizeof hello.name, "%s", h->name);
    (void)snprintf(hello.regions[0].name, sizeof hello.regions[0].name, "arena");
    hello.regions[0].bytes = 458752;
    int n = wire_encode_hello(&hello, payload);
    if (is(h, "bad_hello"))
        memset(payload + 40, 0xff, (size_t)n - 40);
    send_frame(h, (struct wire_header){.type = WIRE_HELLO, .length = (uint32_t)n}, payload);
}

static void say_have(struct hostile *h, const uint8_t *hash, uint8_t what, uint32_t bytes)
{
    struct wire_have have = {.what = what, .valid_bytes = bytes, .section = WIRE_NO_SECTION};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    memcpy(have.hash, hash, sizeof have.hash);
    int n = wire_encode_have(&have, payload);
    send_frame(h, (struct wire_header){.type = WIRE_HAVE, .length = (uint32_t)n}, payload);
}

static void on_offer(struct hostile *h, const uint8_t *payload, uint32_t n)
{
    struct wire_offer offer;
    struct wire_want want = {.offset = 0xfffffff0u, .length = 65536};
    uint8_t out[WIRE_PAYLOAD_MAX];
    if (wire_decode_offer(payload, n, &offer) < 0)
        return;
    if (is(h, "wrong_want")) {
        memcpy(want.hash, offer.hash, sizeof want.hash);
        int size = wire_encode_want(&want, out);
        send_frame(h, (struct wire_header){.type = WIRE_WANT, .length = (uint32_t)size}, out);
    } else {
        say_have(h, offer.hash, WIRE_HAVE_STORED, offer.bytes);
    }
}

static void say_done(struct hostile *h, uint32_t inference)
{
    struct wire_done done = {.total_us = 1};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    int n = wire_encode_done(&done, payload);
    send_frame(h, (struct wire_header){.type = WIRE_DONE, .inference = inference, .length = (uint32_t)n},
               payload);
}

static void say_failed(struct hostile *h, uint32_t inference)
{
    struct wire_failed failed = {.status = INT32_MIN, .section = 200, .layer = 65000};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    memset(failed.reason, 'x', sizeof failed.reason - 1);
    int n = wire_encode_failed(&failed, payload);
    send_frame(h, (struct wire_header){.type = WIRE_FAILED, .inference = inference, .length = (uint32_t)n},
               payload);
}

static void on_run(struct hostile *h, uint32_t inference)
{
    uint8_t bytes[WIRE_PAYLOAD_MAX];
    memset(bytes, 0x5a, sizeof bytes);
    struct wire_header data = {.type = WIRE_DATA, .inference = inference, .length = 16};
    if (is(h, "wrong_order")) {
        data.offset = 4080;
        send_frame(h, data, bytes);
    } else if (is(h, "foreign")) {
        data.inference = inference + 1000;
        send_frame(h, data, bytes);
    } else if (is(h, "too_much")) {
        data.length = WIRE_PAYLOAD_MAX;
        for (uint16_t i = 0; i < 2000; i++) {
            data.transfer = i % 8;
            data.offset = (uint32_t)i / 8 * WIRE_PAYLOAD_MAX;
            if (!send_frame(h, data, bytes))
                return;
        }
    } else if (is(h, "early_done")) {
        say_done(h, inference);
    } else if (is(h, "failed_long") || is(h, "log_flood")) {
        say_failed(h, inference);
    } else if (is(h, "answered_twice")) {
        say_failed(h, inference);
        say_failed(h, inference);
    }
}

static void at_once(struct hostile *h)
{
    uint8_t bytes[WIRE_FRAME_MAX];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 73 + 11);
    if (is(h, "garbage")) {
        send_raw(h, bytes, 1000);
    } else if (is(h, "lying_length")) {
        wire_header_put(&(struct wire_header){.type = WIRE_BEAT, .length = 4000}, bytes);
        send_raw(h, bytes, 40);
    } else if (is(h, "huge_beat")) {
        send_frame(h, (struct wire_header){.type = WIRE_BEAT, .length = WIRE_PAYLOAD_MAX}, bytes);
    } else if (is(h, "log_flood")) {
        struct wire_log log = {.level = 200};
        uint8_t payload[WIRE_PAYLOAD_MAX];
        memset(log.text, 'l', sizeof log.text - 1);
        int n = wire_encode_log(&log, payload);
        for (int i = 0; i < 5000; i++)
            if (!send_frame(h, (struct wire_header){.type = WIRE_LOG, .length = (uint32_t)n}, payload))
                return;
    }
}

static void say_beat(struct hostile *h)
{
    struct wire_beat beat = {.temperature = WIRE_NO_TEMPERATURE,
                             .calibrations = 1,
                             .calibration_bytes = 1000,
                             .calibration_us = 100};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    int n = wire_encode_beat(&beat, payload);
    send_frame(h, (struct wire_header){.type = WIRE_BEAT, .length = (uint32_t)n}, payload);
}

/* Reads n bytes; false when the link is gone or the time is over. */
static bool take(struct hostile *h, uint8_t *bytes, uint32_t n, uint64_t end_us)
{
    struct board_transport t = host_link_transport(&h->link);
    static uint64_t beat_us;
    while (n) {
        int32_t got = t.recv(t.context, bytes, n);
        uint64_t now = clock_monotonic_us();
        if (got < 0 || now > end_us)
            return false;
        if (got == 0)
            poll(&(struct pollfd){.fd = h->link.fd, .events = POLLIN}, 1, 20);
        if (now > beat_us + 1000000) {
            beat_us = now;
            say_beat(h);
        }
        bytes += got;
        n -= (uint32_t)got;
    }
    return true;
}

static void serve(struct hostile *h, uint64_t end_us)
{
    uint8_t head[WIRE_HEADER_BYTES], payload[WIRE_PAYLOAD_MAX];
    struct wire_header header;
    say_hello(h);
    at_once(h);
    while (take(h, head, sizeof head, end_us) && wire_header_get(head, &header) == 0 &&
           take(h, payload, header.length, end_us)) {
        if (header.type == WIRE_OFFER)
            on_offer(h, payload, header.length);
        else if (header.type == WIRE_RUN)
            on_run(h, header.inference);
        else if (header.type == WIRE_ACTIVATE)
            say_have(h, payload + 13, payload[0], 0);
        else if (header.type == WIRE_PROBE && header.flags & WIRE_FLAG_LAST)
            send_frame(h,
                       (struct wire_header){.type = WIRE_ECHO,
                                            .transfer = header.transfer,
                                            .offset = header.offset + header.length},
                       NULL);
    }
}

int main(int argc, char **argv)
{
    struct hostile h = {.link = {.fd = -1}};
    struct error error = {0};
    uint8_t state;
    if (argc < 7)
        return 2;
    h.name = argv[5];
    h.role = argv[6];
    uint64_t end_us = clock_monotonic_us() + (uint64_t)(argc > 7 ? atoi(argv[7]) : 20) * 1000000;
    error_clear(&error);
    host_link_peer_init(&h.at, argv[1], argv[2], 0, NULL);
    int status = host_identity_open(&h.identity, argv[3], &error);
    if (status == 0 && !h.identity.enrolled)
        status = host_enrol(&h.identity, &h.at, argv[4], h.name, &state, &error);
    if (status == 0)
        status = host_link_open(&h.link, &h.at, &h.identity, NULL, &error);
    if (status == 0)
        serve(&h, end_us);
    else
        (void)fprintf(stderr, "%s\n", error.message);
    host_link_close(&h.link);
    host_link_peer_free(&h.at);
    host_identity_close(&h.identity);
    return status != 0 ? 1 : clock_monotonic_us() > end_us ? 3 : 0;
}
