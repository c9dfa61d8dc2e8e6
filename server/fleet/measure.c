/*
 * Measuring a board when it joins and on request: the calibration fragment gives K_1, echo probes give delay
 * and bandwidth, equation 5 the rating. Runs on the coordinator thread; the result goes into the store and is
 * published. A board in use is measured all the same: the probes queue behind nothing but each other.
 */
#include "server/fleet/members.h"

#include "server/base/clock.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATION_DEADLINE_US = 10000000, PROBING_DEADLINE_US = 120000000 };

json_t *fleet_rating_json(const struct fleet_rating *rating)
{
    char text[32];
    clock_rfc3339(rating->measured_ms, text);
    double rate = plan_rating(rating->clock_hz / 1e6, rating->k1, rating->delay_s_per_kb,
                              rating->bandwidth_kb_per_s, 1.0);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:I}", "rating_kb_per_s", rate, "clock_hz",
                     rating->clock_hz, "k1", rating->k1, "delay_s_per_kb", rating->delay_s_per_kb,
                     "bandwidth_kb_per_s", rating->bandwidth_kb_per_s, "message_latency_ms",
                     rating->latency_s * 1000, "measured_at", text, "measured_ms",
                     (json_int_t)rating->measured_ms);
}

bool fleet_rating_from_json(const json_t *json, struct fleet_rating *rating)
{
    memset(rating, 0, sizeof *rating);
    if (!json_is_object(json))
        return false;
    rating->clock_hz = json_number_value(json_object_get(json, "clock_hz"));
    rating->k1 = json_number_value(json_object_get(json, "k1"));
    rating->delay_s_per_kb = json_number_value(json_object_get(json, "delay_s_per_kb"));
    rating->bandwidth_kb_per_s = json_number_value(json_object_get(json, "bandwidth_kb_per_s"));
    rating->latency_s = json_number_value(json_object_get(json, "message_latency_ms")) / 1000;
    rating->measured_ms = json_integer_value(json_object_get(json, "measured_ms"));
    return rating->clock_hz > 0 && rating->k1 > 0 && rating->bandwidth_kb_per_s > 0;
}

/* ---- into the store ---- */

struct result {
    struct fleet *fleet;
    char id[FLEET_ID_BYTES];
    char *json;
};

static int result_write(sqlite3 *db, void *context, struct error *error)
{
    const struct result *result = context;
    return (int)db_exec(db, error, "UPDATE board SET rating_json = ? WHERE id = ?", "ss", result->json,
                        result->id);
}

static void result_done(int status, const struct error *error, void *context)
{
    struct result *result = context;
    if (status < 0)
        LOG_WARN("fleet", "the rating of board %s was not stored: %s", result->id, error->message);
    fleet_publish_board(result->fleet, result->id);
    free(result->json);
    free(result);
}

static void store_rating(struct fleet *fleet, const struct member *member)
{
    struct result *result = calloc(1, sizeof *result);
    json_t *json = fleet_rating_json(&member->rating);
    if (result && json) {
        result->fleet = fleet;
        memcpy(result->id, member->id, sizeof result->id);
        result->json = json_dumps(json, JSON_COMPACT);
        if (store_post(fleet->store, result_write, result, result_done) >= 0)
            result = NULL;
    }
    json_decref(json);
    if (result)
        free(result->json);
    free(result);
}

/* ---- the steps ---- */

void measure_start(struct fleet *fleet, struct member *member, uint64_t now_us)
{
    (void)fleet;
    if (member->state != MEMBER_ACCEPTED || !member->link || member->measure != MEASURE_NONE)
        return;
    struct wire_do order = {.what = WIRE_DO_CALIBRATE};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    member->calibrations_seen = member->has_beat ? member->beat.calibrations : 0;
    member->measure = MEASURE_CALIBRATING;
    member->measure_deadline_us = now_us + CALIBRATION_DEADLINE_US;
    (void)fleet_send(member, WIRE_DO, wire_encode_do(&order, payload), payload);
}

static double k1_of(uint32_t bytes, uint32_t us, double clock_hz)
{
    double cycles = us * 1e-6 * clock_hz;
    return cycles > 0 ? bytes / 1024.0 / (cycles / 1e6) : 0;
}

static void begin_probing(struct fleet *fleet, struct member *member, uint64_t now_us, uint32_t bytes,
                          uint32_t us)
{
    pthread_mutex_lock(&fleet->mutex);
    member->rating.clock_hz = (double)member->hello.clock_hz;
    if (bytes && us)
        member->rating.k1 = k1_of(bytes, us, member->rating.clock_hz);
    pthread_mutex_unlock(&fleet->mutex);
    member->measure = MEASURE_PROBING;
    member->measure_deadline_us = now_us + PROBING_DEADLINE_US;
    probe_start(&member->probe);
    link_kick(member->link);
}

void measure_on_beat(struct fleet *fleet, struct member *member, uint64_t now_us)
{
    const struct wire_beat *beat = &member->beat;
    if (member->measure == MEASURE_CALIBRATING && beat->calibrations != member->calibrations_seen)
        begin_probing(fleet, member, now_us, beat->calibration_bytes, beat->calibration_us);
}

void measure_on_echo(struct fleet *fleet, struct member *member, const struct wire_header *header,
                     uint64_t now_us)
{
    if (member->measure != MEASURE_PROBING)
        return;
    bool last = probe_on_echo(&member->probe, header, now_us);
    link_kick(member->link);
    if (!last)
        return;
    struct probe_result result = probe_result(&member->probe);
    pthread_mutex_lock(&fleet->mutex);
    member->rating.delay_s_per_kb = result.delay_s_per_kb;
    member->rating.bandwidth_kb_per_s = result.bandwidth_kb_per_s;
    member->rating.latency_s = result.latency_s;
    member->rating.measured_ms = clock_wall_ms();
    pthread_mutex_unlock(&fleet->mutex);
    member->measure = MEASURE_NONE;
    LOG_INFO("fleet",
             "board %s measured: %.0f MHz, K1 %.4f KB per million cycles, delay %.3f ms/KB, %.0f KB/s",
             member->name, member->rating.clock_hz / 1e6, member->rating.k1, result.delay_s_per_kb * 1000,
             result.bandwidth_kb_per_s);
    store_rating(fleet, member);
}

int measure_next_frame(struct fleet *fleet, struct member *member, struct wire_header *header,
                       uint8_t *payload)
{
    (void)fleet;
    if (member->measure != MEASURE_PROBING)
        return -1;
    return probe_next_frame(&member->probe, clock_monotonic_us(), header, payload);
}

uint64_t measure_tick(struct fleet *fleet, struct member *member, uint64_t now_us)
{
    if (member->measure == MEASURE_NONE)
        return UINT64_MAX;
    if (now_us < member->measure_deadline_us)
        return member->measure_deadline_us - now_us;
    LOG_WARN("fleet", "board %s: %s did not end in time", member->name,
             member->measure == MEASURE_PROBING ? "probing" : "calibration");
    if (member->measure == MEASURE_CALIBRATING)
        begin_probing(fleet, member, now_us, 0, 0);
    else
        member->measure = MEASURE_NONE;
    return 0;
}

void measure_link_lost(struct member *member)
{
    member->measure = MEASURE_NONE;
    member->probe.running = false;
}
