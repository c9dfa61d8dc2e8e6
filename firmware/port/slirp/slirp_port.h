/* What the two files of firmware/port/slirp share; private. */
#ifndef SHOAL_FIRMWARE_PORT_SLIRP_PORT_H
#define SHOAL_FIRMWARE_PORT_SLIRP_PORT_H

#include <stdint.h>

/* Lets libslirp work; waits at most so long for something to do. */
void slirp_port_pump(uint32_t ms);
void slirp_port_end(void);

#endif
