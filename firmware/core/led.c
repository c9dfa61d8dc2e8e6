/* Each state is a period cut into equal slots, a bit a slot. */
#include "firmware/core/led.h"

struct pattern {
    uint32_t bits; /* slot 0 is bit 0 */
    uint16_t slot_ms;
    uint8_t slots; /* 0: no change, bit 0 says which */
    const char *text;
};

static const struct pattern patterns[LED_STATES] = {
    [LED_STARTING] = {1, 0, 0, "lit"},
    [LED_NO_NETWORK] = {0x001, 200, 10, "1 flash, pause"},
    [LED_NO_SERVER] = {0x005, 200, 10, "2 flashes, pause"},
    [LED_NOT_ENROLLED] = {0x015, 200, 12, "3 flashes, pause"},
    [LED_FAULT] = {0x055, 200, 14, "4 flashes, pause"},
    [LED_ONLINE] = {0x00001, 100, 20, "a short blink every 2 s"},
    [LED_RUNNING] = {1, 100, 2, "5 Hz"},
    [LED_IDENTIFY] = {0x155, 50, 20, "10 Hz in bursts"},
};

static const struct pattern *pattern_of(enum led state)
{
    return &patterns[(uint32_t)state < LED_STATES ? state : LED_FAULT];
}

bool led_lit(enum led state, uint32_t ms)
{
    const struct pattern *p = pattern_of(state);
    return p->slots == 0 ? (p->bits & 1) != 0 : (p->bits >> ms / p->slot_ms % p->slots & 1) != 0;
}

uint32_t led_next_ms(enum led state, uint32_t ms)
{
    const struct pattern *p = pattern_of(state);
    return p->slots == 0 ? UINT32_MAX : p->slot_ms - ms % p->slot_ms;
}

const char *led_text(enum led state)
{
    return pattern_of(state)->text;
}
