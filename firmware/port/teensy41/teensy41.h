/* What the files of the Teensy's port share; private. */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_TEENSY41_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_TEENSY41_H

#include "firmware/port/teensy41/enet.h"

/* teensy41_net.c */
extern struct enet teensy41_enet;
/* Sleeps until a frame is there or an interrupt comes (the tick, at the latest). */
void teensy41_net_wait(void);

#endif
