/*
 * Small parts of the RT1062: watchdog, LED, cycle counter, timer, temperature, fuses, what reset the board.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_CHIP_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_CHIP_H

#include <stdbool.h>
#include <stdint.h>

enum { CHIP_NO_TEMPERATURE = INT16_MIN, CHIP_WATCHDOG_INTERRUPT = 92 };

/* The counter that every wait uses. Comes first. */
void chip_cycles_start(void);

/* From now on chip_watchdog_feed() must come every `ms` (500 to 128,000, in steps of 500); it cannot be
 * turned off again. Half a second before it bites it raises interrupt CHIP_WATCHDOG_INTERRUPT. */
void chip_watchdog_start(uint32_t ms);
void chip_watchdog_feed(void);

/* The orange LED at pin 13; start lights it: the first sign of life. */
void chip_led_start(void);
void chip_led(bool on);

void chip_temperature_start(void);
/* Tenths of a degree Celsius at the die; CHIP_NO_TEMPERATURE while there is no measurement. Does not wait. */
int16_t chip_temperature(void);

/* From the fuses. False, and an address made of the chip's number (locally administered), when they are
 * blank. */
bool chip_mac(uint8_t mac[6]);

enum chip_reset {
    CHIP_RESET_POWER,
    CHIP_RESET_BUTTON,
    CHIP_RESET_SOFTWARE,
    CHIP_RESET_WATCHDOG,
    CHIP_RESET_TEMPERATURE,
    CHIP_RESET_DEBUGGER,
    CHIP_RESET_SECURITY,
    CHIP_RESET_UNKNOWN
};
/* What reset the chip. Clears the register, so only the first call tells. */
enum chip_reset chip_reset(void);

/* Microseconds since the start from a timer that runs on the crystal, whatever the core does: 32 bits,
 * wrapping after 71 minutes. */
/* NULL, or static text: it does not count. */
const char *chip_timer_start(void);
uint32_t chip_timer(void);

/* Whether the loader can be entered from a program (not on a board locked to signed images). */
bool chip_loader_possible(void);

#endif
