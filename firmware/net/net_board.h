/*
 * The board on the network: enrols when it has no certificate, connects, lets firmware/core work, and on a
 * lost link backs off and connects again, for ever. Each change of state is one line on the console. Between
 * two looks at the network lies at most one kernel call.
 */
#ifndef SHOAL_FIRMWARE_NET_BOARD_H
#define SHOAL_FIRMWARE_NET_BOARD_H

#include "firmware/core/board.h"
#include "firmware/core/flash.h"
#include "firmware/core/provision.h"

/* What the port has; pointers stay valid. */
struct net_board_config {
    const struct provision *provision; /* decoded */
    const struct board_flash *flash;   /* open; its poll should be net_board_flash_poll */
    uint8_t *arena, *resident;
    uint32_t arena_bytes, resident_bytes, network_bytes, stack_bytes;
    const char *reset_reason;
    uint32_t (*stack_high_water)(void);
    bool (*stop)(void); /* NULL: never */
};

/* After net_start() and net_tls_start(). Returns when it is to stop, or a negative status when flash or
 * randomness do not work (said on the console). */
int net_board_run(const struct net_board_config *config);
/* For a flash that takes its time: keeps the network alive and the watchdog fed. */
void net_board_flash_poll(void *context);

#endif
