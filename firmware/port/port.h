/*
 * What a Cortex-M port gives to firmware/net and firmware/port/m7: one implementation a port, chosen by the
 * linker. Everything runs on one thread; interrupt handlers are the port's own business and touch nothing
 * outside it.
 */
#ifndef SHOAL_FIRMWARE_PORT_PORT_H
#define SHOAL_FIRMWARE_PORT_PORT_H

#include "firmware/core/led.h"

#include <stdbool.h>
#include <stdint.h>

struct board_flash; /* firmware/core/flash.h */
struct net_driver;  /* firmware/net/net.h */

/* Why the processor started this time. */
enum port_cause { PORT_CAUSE_POWER, PORT_CAUSE_SOFTWARE, PORT_CAUSE_WATCHDOG, PORT_CAUSE_OTHER };

extern const char port_firmware[]; /* "shoal-board mps2 0.1.0": for HELLO and the console */
extern const uint8_t port_kind;    /* enum wire_kind */

/* Clocks, pins, console, time: before main, with stack, data and MPU in place. Prints its steps. */
void port_start(void);
uint64_t port_now_us(void); /* monotonic, since reset */
uint64_t port_clock_hz(void);
/* Random bytes of the hardware. 0 or STATUS_IO_FAILED. */
int port_entropy(uint8_t *out, uint32_t n);
/* Sleeps until an interrupt (the network, a 1 ms tick) comes, at most `us`. */
void port_wait(uint32_t us);
/* To the serial console; returns when it is sent or buffered. Callable from a fault handler. */
void port_console(const char *text, uint32_t n);
enum port_cause port_cause(void);
_Noreturn void port_reset(void);
/* Ends this start, with `text` as the reason of the next one. */
_Noreturn void port_die(const char *text);
/* The watchdog resets the board unless it is fed for so long. Its last warning is m7_watchdog_bites(). */
void port_watchdog_start(uint32_t ms);
void port_watchdog_feed(void);
void port_led(enum led state);  /* a port without a LED does nothing; else led_lit() until the next call */
int16_t port_temperature(void); /* tenths of a degree, WIRE_NO_TEMPERATURE */

const struct net_driver *port_network(void);
const struct board_flash *port_flash(void);

#endif
