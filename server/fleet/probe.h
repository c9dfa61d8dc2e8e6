/*
 * Echo probes: how long bytes take to a board. Logic only, no I/O and no clock: frames are pulled, echoes and
 * times are given. 20 probes each of 1, 4, 16 and 64 KB, one after another; per size the median; through
 * these a line t = a + b x (least squares). Equation 5 takes bandwidth B = 1 / b and delay d = a / 4 KB
 * (facts of the published system, whose messages were 4 KB).
 */
#ifndef SHOAL_SERVER_FLEET_PROBE_H
#define SHOAL_SERVER_FLEET_PROBE_H

#include "shared/wire/wire.h"

enum { PROBE_SIZES = 4, PROBE_REPEATS = 20, PROBE_TOTAL = PROBE_SIZES * PROBE_REPEATS };

struct probe {
    bool running;
    uint16_t number;   /* of the probe under way, 0.. */
    uint32_t sent;     /* its bytes that were pulled */
    uint64_t begun_us; /* when its first frame was pulled */
    uint32_t took_us[PROBE_SIZES][PROBE_REPEATS];
};

struct probe_result {
    double latency_s;          /* a: of a message without payload */
    double bandwidth_kb_per_s; /* B */
    double delay_s_per_kb;     /* d */
};

void probe_start(struct probe *probe);
/* Payload bytes, or -1: nothing now (waiting for an echo, or not running). */
int probe_next_frame(struct probe *probe, uint64_t now_us, struct wire_header *header,
                     uint8_t payload[WIRE_PAYLOAD_MAX]);
/* An ECHO came. True when the last one is in: then probe_result() may be asked. Echoes of older probes are
 * ignored. */
bool probe_on_echo(struct probe *probe, const struct wire_header *header, uint64_t now_us);
struct probe_result probe_result(const struct probe *probe);
uint32_t probe_bytes(uint16_t number); /* payload of the number-th probe */

#endif
