/*
 * After the port has started: says what this is and why it started, reads the provisioning page, brings up
 * network and TLS, and is the board from then on. What does not work is said each minute, and the watchdog
 * stays fed: a board that resets for ever cannot be asked why.
 */
#include "firmware/core/flash.h"
#include "firmware/core/flashmap.h"
#include "firmware/core/provision.h"
#include "firmware/net/net.h"
#include "firmware/net/net_board.h"
#include "firmware/net/net_tls.h"
#include "firmware/net/say.h"
#include "firmware/port/m7/m7.h"
#include "firmware/port/m7/m7_parts.h"
#include "firmware/port/port.h"
#include "shared/base/status.h"

enum { WATCHDOG_MS = 8000, AGAIN_US = 60000000 };

static struct provision provision;
static struct board_flash flash;

static _Noreturn void stay(const char *what, const char *why)
{
    for (;;) {
        say("%s: %s", what, why);
        for (uint64_t end = port_now_us() + AGAIN_US; port_now_us() < end;) {
            port_watchdog_feed();
            port_led(LED_NOT_ENROLLED);
            port_wait(1000);
        }
    }
}

static uint32_t address(const uint8_t bytes[4])
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void start_network(void)
{
    struct net_settings settings = {.address = address(provision.address),
                                    .netmask = address(provision.mask),
                                    .gateway = address(provision.gateway),
                                    .dns = address(provision.dns),
                                    .hostname = provision.name[0] != 0 ? provision.name : "shoal"};
    int status = net_start(port_network(), &settings);
    if (status != STATUS_OK)
        stay("network", status_text(status));
    status = net_tls_start();
    if (status != STATUS_OK)
        stay("random numbers", status_text(status));
}

_Noreturn void m7_main(void)
{
    const char *what = NULL;
    say("%s, reset: %s", port_firmware, m7_reset_reason());
    port_led(LED_STARTING);
    port_watchdog_start(WATCHDOG_MS);
    flash = *port_flash();
    flash.poll = net_board_flash_poll;
    if (provision_decode(flash.base + FLASHMAP_PROVISION, &provision, &what) != STATUS_OK)
        stay("provisioning", what);
    say("provisioned as %s, server %s:%u", provision.name[0] != 0 ? provision.name : "(no name)",
        provision.servers[0].host, provision.servers[0].port);
    start_network();
    struct net_board_config config = {.provision = &provision,
                                      .flash = &flash,
                                      .arena = __arena_start,
                                      .arena_bytes = (uint32_t)(__arena_end - __arena_start),
                                      .resident = __weights_start,
                                      .resident_bytes = (uint32_t)(__weights_end - __weights_start),
                                      .network_bytes = (uint32_t)((__net_end - __net_start) * 4),
                                      .stack_bytes = m7_stack_bytes(),
                                      .reset_reason = m7_reset_reason(),
                                      .stack_high_water = m7_stack_high_water};
    stay("the board", status_text(net_board_run(&config)));
}
