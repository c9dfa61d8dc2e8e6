/*
 * The pins between the RT1062 and the PHY of a Teensy 4.1, and the PHY's reset. clock_ethernet() comes
 * before.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_RMII_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_RMII_H

/* Sets the pads (the PHY reads its address and modes off them when its reset ends), gives it the 50 MHz,
 * resets it. Takes 55 ms. */
void rmii_start(void);

#endif
