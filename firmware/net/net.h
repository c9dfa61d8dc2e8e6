/*
 * The network of a Cortex-M board: lwIP (raw API, no operating system) over one Ethernet driver. One thread:
 * nothing here may be called from an interrupt.
 *
 * Whoever waits calls net_poll() in a loop; it takes in what the driver has, runs lwIP's timers and feeds the
 * watchdog.
 */
#ifndef SHOAL_FIRMWARE_NET_NET_H
#define SHOAL_FIRMWARE_NET_NET_H

#include <stdbool.h>
#include <stdint.h>

struct pbuf;

enum { NET_MAC_BYTES = 6, NET_FRAME_MAX = 1514 /* without check sequence */ };

/* One Ethernet port. Frames begin at the destination's address and end before the check sequence, which the
 * driver adds and removes. Polled; a driver may use interrupts to end port_wait(). */
struct net_driver {
    void *context;
    /* Once: makes the hardware ready and fills in its address. 0 or a negative status. Does not wait for the
     * cable. */
    int (*start)(void *context, uint8_t mac[NET_MAC_BYTES]);
    /* Sends (or copies) the chain before it returns; the caller keeps the frame. 0, or STATUS_BUSY when there
     * is no room now (lwIP sends it again later). */
    int (*send)(void *context, const struct pbuf *frame);
    /* The next frame in a new pbuf (pbuf_alloc(PBUF_RAW, n, PBUF_POOL); one buffer holds NET_FRAME_MAX),
     * which the caller owns; NULL: none. Damaged frames and those without a pbuf are dropped inside. */
    struct pbuf *(*receive)(void *context);
    /* Whether the cable is plugged in and the speed agreed. May ask the PHY: called some 10 times a second.
     */
    bool (*link_up)(void *context);
};

/* IPv4 settings in host byte order (10.0.2.15 is 0x0a00020f); address 0: DHCP. */
struct net_settings {
    uint32_t address, netmask, gateway, dns;
    const char *hostname; /* for DHCP; stays valid */
};

/* Starts driver and lwIP. 0 or a negative status. Prints the address when there is one. */
int net_start(const struct net_driver *driver, const struct net_settings *settings);
/* What arrived, timers, watchdog. True when a frame came. */
bool net_poll(void);
/* Polls, and sleeps at most `us` (at most some milliseconds) unless a frame came. */
void net_wait(uint32_t us);
bool net_ready(void); /* cable and address */

/* Memory of lwIP: the size it has and the most that was used (heap and pools), bytes. */
void net_memory(uint32_t *bytes, uint32_t *high_water);

#endif
