/*
 * Clocks: the core from the ROM's 396 MHz to 600 MHz, buses at 150 MHz, 50 MHz for the PHY.
 *
 * Every function returns NULL when done, or static text that names the step whose ready bit did not come.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_CLOCK_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_CLOCK_H

#define CLOCK_CORE_HZ 600000000u
#define CLOCK_IPG_HZ 150000000u

/* Console, watchdog and timers from the 24 MHz crystal: does not wait, comes before clock_start(). */
void clock_peripherals(void);
/* 1.25 V, then 600 MHz. When it fails the core runs from what it had, or from the crystal. */
const char *clock_start(void);
/* The PLL that gives the PHY its 50 MHz, and the gate of the Ethernet controller. */
const char *clock_ethernet(void);

#endif
