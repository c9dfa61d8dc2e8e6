/*
 * What a board's one LED shows: a state and the time give on or off. Pure; a port switches its pin, a test
 * and docs/hardware.md read the same table. What a person can tell apart at a glance: dark, lit, slow, fast,
 * groups of flashes (their number is the state's).
 */
#ifndef SHOAL_FIRMWARE_CORE_LED_H
#define SHOAL_FIRMWARE_CORE_LED_H

#include <stdbool.h>
#include <stdint.h>

enum led {
    LED_STARTING,     /* lit */
    LED_NO_NETWORK,   /* 1 flash, pause: no cable, or no address */
    LED_NO_SERVER,    /* 2 flashes, pause: has an address, no session */
    LED_NOT_ENROLLED, /* 3 flashes, pause: no certificate, or the code was refused */
    LED_FAULT,        /* 4 flashes, pause: stopped; the console says why */
    LED_ONLINE,       /* a short blink every 2 s: all is well */
    LED_RUNNING,      /* 5 Hz: an inference */
    LED_IDENTIFY,     /* 10 Hz in bursts of half a second: somebody asks "which one is it?" */
    LED_STATES
};

/* Whether it is lit at `ms` (any clock that runs on, as the board's uptime; may wrap). */
bool led_lit(enum led state, uint32_t ms);
/* Milliseconds from `ms` until led_lit may change; UINT32_MAX: never. */
uint32_t led_next_ms(enum led state, uint32_t ms);
const char *led_text(enum led state); /* "2 flashes, pause" */

#endif
