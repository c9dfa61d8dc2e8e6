/*
 * The serial console: LPUART6, pins 1 (out) and 0 (in) of the Teensy, 115,200 baud, 8N1, 3.3 V.
 *
 * What is written goes into a ring and leaves it in console_poll(), so that a log line does not hold the
 * board up for the milliseconds that its bytes take. What does not fit is dropped and counted. USB is not
 * used.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_CONSOLE_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

enum { CONSOLE_RING = 2048 };

/* Pins, clock gate, rate. Does not wait. clock_peripherals() comes before it. */
void console_start(void);
void console_write(const char *bytes, uint32_t n);
/* Moves at most 4 bytes from the ring to the transmitter, while it takes them. */
void console_poll(void);
/* Until the ring is empty and the line is quiet, at most 250 ms. Not while the tick may come. */
void console_flush(void);
/* Bytes dropped since reset. */
uint32_t console_dropped(void);
/* A byte that came in, or -1. */
int console_read(void);

#endif
