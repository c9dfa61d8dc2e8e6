/*
 * Erasing and programming the flash that the program runs from (Winbond W25Q64JV behind FlexSPI). While that
 * lasts, no byte of the flash can be read: both functions lie in the ITCM with all that they call, and mask
 * interrupts for the whole time. They feed the watchdog, drop the caches before they return, and reset a
 * flash that does not come ready, so that the program can go on.
 *
 * Both return NULL, or static text that names the step. Nothing is read back here (firmware/core/flash.c does
 * that).
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_FLEXSPI_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_FLEXSPI_H

#include <stdint.h>

enum { FLEXSPI_PAGE = 256, FLEXSPI_SECTOR = 4096, FLEXSPI_BLOCK = 65536, FLEXSPI_LINE = 32 };

/* Erases the sector (45 ms, at most 0.4 s) or block (0.15 s, at most 2 s) of `n` bytes at `offset` in the
 * flash. */
const char *flexspi_erase(uint32_t offset, uint32_t n);
/* 1 to 256 bytes from RAM, all in one page (0.4 ms, at most 3 ms). */
const char *flexspi_program(uint32_t offset, const uint8_t *bytes, uint32_t n);

#endif
