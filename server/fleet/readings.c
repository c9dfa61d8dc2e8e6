/* A ring of readings a board: the oldest gives way. */
#include "server/fleet/readings.h"

#include "server/base/clock.h"

#include <stdlib.h>

struct reading {
    int64_t at_ms;
    uint32_t arena, stack, flash, spare; /* bytes */
    int16_t temperature;                 /* as the beat has it */
};

struct readings {
    struct reading kept[READINGS_KEPT];
    uint32_t next, n;
};

void readings_take(struct readings **readings, const struct wire_beat *beat, int64_t wall_ms)
{
    struct readings *all = *readings;
    if (!all && !(all = *readings = calloc(1, sizeof *all)))
        return;
    int64_t since = wall_ms - all->kept[(all->next + READINGS_KEPT - 1) % READINGS_KEPT].at_ms;
    if (all->n && since >= 0 && since < READINGS_EVERY_MS)
        return;
    all->kept[all->next] = (struct reading){
        wall_ms,          beat->arena_high_water, beat->stack_high_water, beat->flash_used_bytes,
        beat->free_bytes, beat->temperature};
    all->next = (all->next + 1) % READINGS_KEPT;
    all->n += all->n < READINGS_KEPT;
}

json_t *readings_json(const struct readings *readings)
{
    json_t *list = json_array();
    for (uint32_t i = 0; readings && i < readings->n; i++) {
        const struct reading *one =
            &readings->kept[(readings->next + READINGS_KEPT - readings->n + i) % READINGS_KEPT];
        char at[32];
        clock_rfc3339(one->at_ms, at);
        json_t *row = json_pack("{s:s, s:I, s:I, s:I, s:I, s:n}", "at", at, "arena_high_water_bytes",
                                (json_int_t)one->arena, "stack_high_water_bytes", (json_int_t)one->stack,
                                "flash_used_bytes", (json_int_t)one->flash, "free_bytes",
                                (json_int_t)one->spare, "temperature_celsius");
        if (one->temperature != WIRE_NO_TEMPERATURE)
            json_object_set_new(row, "temperature_celsius", json_real(one->temperature / 10.0));
        json_array_append_new(list, row);
    }
    return list;
}

void readings_free(struct readings *readings)
{
    free(readings);
}
