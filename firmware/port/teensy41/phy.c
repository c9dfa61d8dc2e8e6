/*
 * MDIO and the PHY. The link's bit in the status register is latched low, so it is read twice; what was
 * negotiated is what both sides offer, best first. Offered: 10 and 100 Mbit/s, half and full duplex.
 */
#include "firmware/port/teensy41/phy.h"

#include "firmware/port/teensy41/enet_regs.h"
#include "firmware/port/teensy41/reg.h"

#include <stddef.h>

enum { MDIO_US = 1000, MDIO_HZ = 2500000, PHY_ADDRESSES = 32 };
enum {
    BMCR = 0,
    BMSR = 1,
    ID1 = 2,
    ID2 = 3,
    ADVERTISE = 4,
    PARTNER = 5,
    DP83825I_RCSR = 0x17,
    DP83825I_LEDCR = 0x18
};
enum {
    BMCR_NEGOTIATE = 0x1200, /* on, and begin anew */
    BMSR_LINK = 1 << 2,
    BMSR_NEGOTIATED = 1 << 5,
    OFFER_100_FULL = 1 << 8,
    OFFER_100_HALF = 1 << 7,
    OFFER_10_FULL = 1 << 6,
    OFFER_10_HALF = 1 << 5,
    OFFER_ALL = OFFER_100_FULL | OFFER_100_HALF | OFFER_10_FULL | OFFER_10_HALF | 1,
    RCSR_CLOCK_50_MHZ_IN = 0x0081,
    LEDCR_LINK_ACTIVE_HIGH = 0x0280
};

static bool transfer(uint32_t enet, uint32_t frame)
{
    reg_write(enet + ENET_EIR, ENET_EIR_MII);
    reg_write(enet + ENET_MMFR, frame);
    bool done = reg_wait(enet + ENET_EIR, ENET_EIR_MII, ENET_EIR_MII, MDIO_US);
    reg_write(enet + ENET_EIR, ENET_EIR_MII);
    return done;
}

int phy_read(uint32_t enet, uint32_t address, uint32_t reg)
{
    if (!transfer(enet, ENET_MMFR_FRAME | ENET_MMFR_READ | address << 23 | reg << 18))
        return -1;
    return (int)(reg_read(enet + ENET_MMFR) & 0xFFFF);
}

bool phy_write(uint32_t enet, uint32_t address, uint32_t reg, uint32_t value)
{
    return transfer(enet, ENET_MMFR_FRAME | ENET_MMFR_WRITE | address << 23 | reg << 18 | (value & 0xFFFF));
}

static const char *find(struct phy *phy)
{
    for (uint32_t address = 0; address < PHY_ADDRESSES; address++) {
        int high = phy_read(phy->enet, address, ID1), low = phy_read(phy->enet, address, ID2);
        if (high < 0 || low < 0)
            return "MDIO does not end: no clock at the Ethernet controller";
        /* An empty address reads as ones (the line is pulled up), or as zeroes. */
        if ((high == 0xFFFF && low == 0xFFFF) || (high == 0 && low == 0))
            continue;
        phy->address = address;
        phy->id = (uint32_t)high << 16 | (uint32_t)low;
        return NULL;
    }
    return "no PHY answers at any of the 32 MDIO addresses";
}

const char *phy_start(struct phy *phy, uint32_t enet, uint32_t clock_hz)
{
    *phy = (struct phy){.enet = enet};
    uint32_t divider = (clock_hz + 2 * MDIO_HZ - 1) / (2 * MDIO_HZ) - 1;
    reg_write(enet + ENET_MSCR, ENET_MSCR_HOLD_2 | (divider > 0x3F ? 0x3F : divider) << 1);
    const char *failed = find(phy);
    if (failed)
        return failed;
    if ((phy->id & ~0xFu) == PHY_ID_DP83825I &&
        (!phy_write(enet, phy->address, DP83825I_RCSR, RCSR_CLOCK_50_MHZ_IN) ||
         !phy_write(enet, phy->address, DP83825I_LEDCR, LEDCR_LINK_ACTIVE_HIGH)))
        return "PHY does not take its clock setting";
    if (!phy_write(enet, phy->address, ADVERTISE, OFFER_ALL) ||
        !phy_write(enet, phy->address, BMCR, BMCR_NEGOTIATE))
        return "PHY does not begin to negotiate";
    return NULL;
}

bool phy_poll(struct phy *phy)
{
    struct phy before = *phy;
    (void)phy_read(phy->enet, phy->address, BMSR);
    int status = phy_read(phy->enet, phy->address, BMSR);
    phy->up = status >= 0 && status != 0xFFFF && status & BMSR_LINK && status & BMSR_NEGOTIATED;
    if (phy->up) {
        int mine = phy_read(phy->enet, phy->address, ADVERTISE),
            other = phy_read(phy->enet, phy->address, PARTNER);
        int both = mine < 0 || other < 0 ? 0 : mine & other;
        phy->fast = (both & (OFFER_100_FULL | OFFER_100_HALF)) != 0;
        phy->full = both & OFFER_100_FULL || (!phy->fast && both & OFFER_10_FULL);
        /* A partner that does not negotiate shows its speed only: half duplex, as the standard wants. */
        phy->up = (both & (OFFER_100_FULL | OFFER_100_HALF | OFFER_10_FULL | OFFER_10_HALF)) != 0;
    }
    if (!phy->up)
        phy->fast = phy->full = false;
    return phy->up != before.up || phy->fast != before.fast || phy->full != before.full;
}
