/*
 * lwIP's one interface over the port's Ethernet driver. Frames are taken in only by net_poll(), so no code of
 * lwIP ever runs in an interrupt. The watchdog is fed here: whoever waits for anything polls the network.
 */
#include "firmware/net/net.h"

#include "firmware/net/say.h"
#include "firmware/port/port.h"
#include "shared/base/status.h"

#include "lwip/dhcp.h"
#include "lwip/dns.h"
#include "lwip/etharp.h"
#include "lwip/init.h"
#include "lwip/netif.h"
#include "lwip/priv/memp_priv.h"
#include "lwip/stats.h"
#include "lwip/timeouts.h"
#include "netif/ethernet.h"

#include <string.h>

enum { FRAMES_A_POLL = 16, LINK_LOOK_MS = 100, NETIF_MTU = 1500 };

static struct netif netif;
static const struct net_driver *driver;
static bool static_address, had_address;
static uint32_t link_looked_ms, random_state;

u32_t sys_now(void)
{
    return (u32_t)(port_now_us() / 1000);
}

uint32_t net_random(void)
{
    while (random_state == 0)
        if (port_entropy((uint8_t *)&random_state, sizeof random_state) != STATUS_OK)
            random_state = (uint32_t)port_now_us() | 1u;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

_Noreturn void net_lwip_assert(const char *text, int line)
{
    char why[96];
    text_format(why, sizeof why, "lwIP, line %d: %s", line, text);
    port_die(why);
}

static err_t output(struct netif *interface, struct pbuf *frame)
{
    (void)interface;
    return driver->send(driver->context, frame) == STATUS_OK ? ERR_OK : ERR_MEM;
}

static err_t interface_start(struct netif *interface)
{
    interface->hwaddr_len = NET_MAC_BYTES;
    interface->mtu = NETIF_MTU;
    interface->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    interface->name[0] = 'e';
    interface->name[1] = 'n';
    interface->output = etharp_output;
    interface->linkoutput = output;
    return driver->start(driver->context, interface->hwaddr) == STATUS_OK ? ERR_OK : ERR_IF;
}

int net_start(const struct net_driver *ethernet, const struct net_settings *settings)
{
    ip4_addr_t address = {lwip_htonl(settings->address)}, mask = {lwip_htonl(settings->netmask)},
               gateway = {lwip_htonl(settings->gateway)};
    driver = ethernet;
    static_address = settings->address != 0;
    lwip_init();
    if (netif_add(&netif, &address, &mask, &gateway, NULL, interface_start, ethernet_input) == NULL)
        return STATUS_IO_FAILED;
    netif_set_hostname(&netif, settings->hostname);
    netif_set_default(&netif);
    netif_set_up(&netif);
    if (settings->dns != 0) {
        ip_addr_t dns = {lwip_htonl(settings->dns)};
        dns_setserver(0, &dns);
    }
    const uint8_t *mac = netif.hwaddr;
    say("network: %02x:%02x:%02x:%02x:%02x:%02x, %s", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5],
        static_address ? "static address" : "DHCP");
    if (!static_address && dhcp_start(&netif) != ERR_OK)
        return STATUS_NO_MEMORY;
    return STATUS_OK;
}

static void look_at_link(void)
{
    uint32_t now = sys_now();
    if (now - link_looked_ms < LINK_LOOK_MS)
        return;
    link_looked_ms = now;
    bool up = driver->link_up(driver->context), was = netif_is_link_up(&netif) != 0;
    if (up && !was) {
        say("network: the cable is in");
        netif_set_link_up(&netif);
    } else if (!up && was) {
        say("network: the cable is out");
        netif_set_link_down(&netif);
    }
}

static void tell_address(void)
{
    bool ready = net_ready();
    if (ready && !had_address) {
        uint32_t address = lwip_ntohl(ip4_addr_get_u32(netif_ip4_addr(&netif)));
        say("network: address %u.%u.%u.%u", (unsigned)(address >> 24), (unsigned)(address >> 16 & 255),
            (unsigned)(address >> 8 & 255), (unsigned)(address & 255));
    }
    had_address = ready;
}

bool net_poll(void)
{
    uint32_t frames = 0;
    port_watchdog_feed();
    look_at_link();
    for (; frames < FRAMES_A_POLL; frames++) {
        struct pbuf *frame = driver->receive(driver->context);
        if (frame == NULL)
            break;
        if (netif.input(frame, &netif) != ERR_OK)
            pbuf_free(frame);
    }
    sys_check_timeouts();
    tell_address();
    return frames > 0;
}

void net_wait(uint32_t us)
{
    if (!net_poll())
        port_wait(us);
}

bool net_ready(void)
{
    return netif_is_link_up(&netif) && !ip4_addr_isany(netif_ip4_addr(&netif));
}

void net_memory(uint32_t *bytes, uint32_t *high_water)
{
    *bytes = MEM_SIZE;
    *high_water = lwip_stats.mem.max;
    for (int i = 0; i < MEMP_MAX; i++) {
        *bytes += (uint32_t)memp_pools[i]->num * memp_pools[i]->size;
        *high_water += (uint32_t)memp_pools[i]->stats->max * memp_pools[i]->size;
    }
}
