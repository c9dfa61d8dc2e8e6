/*
 * The Teensy's Ethernet: clock, pins, PHY, controller, each a line on the console. The controller's memory is
 * not cached. Its interrupt only ends a sleep.
 */
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/port.h"
#include "firmware/port/teensy41/chip.h"
#include "firmware/port/teensy41/clock.h"
#include "firmware/port/teensy41/enet_net.h"
#include "firmware/port/teensy41/rmii.h"
#include "firmware/port/teensy41/rt1062.h"
#include "firmware/port/teensy41/teensy41.h"
#include "shared/base/status.h"

#include <string.h>

enum { ENET_INTERRUPT = 114, PRIORITY = 0x80 };

struct enet teensy41_enet;
static struct enet_memory memory __attribute__((section(".dma")));
static bool listening;

static void on_frame(void)
{
    enet_interrupt(&teensy41_enet, false);
}

static int start(void *context, uint8_t mac[NET_MAC_BYTES])
{
    if (!chip_mac(mac))
        say("the fuses hold no Ethernet address: one is made of the chip's number");
    const char *failed = clock_ethernet();
    if (failed == NULL) {
        say("Ethernet clock: 50 MHz");
        rmii_start();
        failed = enet_start(context, ENET_BASE, &memory, mac, CLOCK_IPG_HZ);
    }
    if (failed != NULL) {
        say("Ethernet failed: %s", failed);
        return STATUS_IO_FAILED;
    }
    const struct phy *phy = &teensy41_enet.phy;
    say("PHY %08x at address %u%s", (unsigned)phy->id, (unsigned)phy->address,
        (phy->id & ~0xFu) == PHY_ID_DP83825I ? "" : ": not the DP83825I of a Teensy 4.1");
    m7_interrupt(ENET_INTERRUPT, on_frame, PRIORITY);
    listening = true;
    return STATUS_OK;
}

/* A frame that comes after the look pends its interrupt, which ends the sleep though it is masked. */
void teensy41_net_wait(void)
{
    __asm volatile("cpsid i" ::: "memory");
    if (listening)
        enet_interrupt(&teensy41_enet, true);
    if (!enet_waiting(&teensy41_enet))
        __asm volatile("dsb\n wfi" ::: "memory");
    __asm volatile("cpsie i\n isb" ::: "memory");
}

const struct net_driver *port_network(void)
{
    static const struct net_driver driver = {&teensy41_enet, start, enet_net_send, enet_net_receive,
                                             enet_net_link_up};
    return &driver;
}
