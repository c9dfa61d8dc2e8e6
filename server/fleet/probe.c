/* Echo probes: pulled frames in, echoes in, a fitted line out. */
#include "server/fleet/probe.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t sizes_kb[PROBE_SIZES] = {1, 4, 16, 64};

uint32_t probe_bytes(uint16_t number)
{
    return sizes_kb[number / PROBE_REPEATS % PROBE_SIZES] * 1024;
}

void probe_start(struct probe *probe)
{
    memset(probe, 0, sizeof *probe);
    probe->running = true;
}

int probe_next_frame(struct probe *probe, uint64_t now_us, struct wire_header *header,
                     uint8_t payload[WIRE_PAYLOAD_MAX])
{
    uint32_t total = probe->running ? probe_bytes(probe->number) : 0;
    if (probe->sent >= total)
        return -1;
    if (probe->sent == 0)
        probe->begun_us = now_us;
    uint32_t left = total - probe->sent, n = left < WIRE_PAYLOAD_MAX ? left : WIRE_PAYLOAD_MAX;
    *header = (struct wire_header){.type = WIRE_PROBE,
                                   .flags = n == left ? WIRE_FLAG_LAST : 0,
                                   .transfer = probe->number,
                                   .offset = probe->sent,
                                   .length = n};
    memset(payload, 0x5a, n);
    probe->sent += n;
    return (int)n;
}

bool probe_on_echo(struct probe *probe, const struct wire_header *header, uint64_t now_us)
{
    if (!probe->running || header->transfer != probe->number || probe->sent < probe_bytes(probe->number))
        return false;
    uint64_t took = now_us - probe->begun_us;
    probe->took_us[probe->number / PROBE_REPEATS][probe->number % PROBE_REPEATS] =
        took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    probe->number++;
    probe->sent = 0;
    probe->running = probe->number < PROBE_TOTAL;
    return !probe->running;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double median_s(const uint32_t took_us[PROBE_REPEATS])
{
    uint32_t sorted[PROBE_REPEATS];
    memcpy(sorted, took_us, sizeof sorted);
    qsort(sorted, PROBE_REPEATS, sizeof *sorted, by_value);
    return (sorted[PROBE_REPEATS / 2 - 1] / 2.0 + sorted[PROBE_REPEATS / 2] / 2.0) * 1e-6;
}

struct probe_result probe_result(const struct probe *probe)
{
    double n = PROBE_SIZES, sx = 0, st = 0, sxx = 0, sxt = 0;
    for (int i = 0; i < PROBE_SIZES; i++) {
        double x = sizes_kb[i], t = median_s(probe->took_us[i]);
        sx += x;
        st += t;
        sxx += x * x;
        sxt += x * t;
    }
    double b = (n * sxt - sx * st) / (n * sxx - sx * sx);
    double a = (st - b * sx) / n;
    if (b < 1e-6) /* noise, or faster than can be told: 1 GB/s */
        b = 1e-6;
    if (a < 0)
        a = 0;
    return (struct probe_result){.latency_s = a, .bandwidth_kb_per_s = 1 / b, .delay_s_per_kb = a / 4};
}
