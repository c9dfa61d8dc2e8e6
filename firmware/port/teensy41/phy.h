/*
 * The Ethernet PHY, over the MDIO pins of an i.MX Ethernet controller: found by looking at every address,
 * told apart by its id, made to negotiate, watched. Knows the DP83825I of the Teensy 4.1; any other is run
 * with the registers that all PHYs have (QEMU's is a LAN8720).
 *
 * Nothing waits longer than one MDIO transfer, 1 ms.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_PHY_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_PHY_H

#include <stdbool.h>
#include <stdint.h>

#define PHY_ID_DP83825I 0x2000A140u /* without the revision, the last four bits */

struct phy {
    uint32_t enet;    /* base address of the controller */
    uint32_t address; /* on the bus, 0..31 */
    uint32_t id;
    bool up, full, fast; /* the link: up; full duplex; 100 Mbit/s. Valid while up. */
};

/* Speed of MDIO (at most 2.5 MHz) from the controller's clock, then the search, then negotiation begins.
 * NULL, or static text that names the step. */
const char *phy_start(struct phy *phy, uint32_t enet, uint32_t clock_hz);
/* Looks once. True when up, full or fast changed. A PHY that does not answer is a link that is down. */
bool phy_poll(struct phy *phy);

/* One transfer: a register's 16 bits, or -1 after 1 ms. */
int phy_read(uint32_t enet, uint32_t address, uint32_t reg);
bool phy_write(uint32_t enet, uint32_t address, uint32_t reg, uint32_t value);

#endif
