/* What the files of firmware/port/mps2 share; private. QEMU's mps2-an500: registers, and the Ethernet chip.
 */
#ifndef SHOAL_FIRMWARE_PORT_MPS2_MPS2_H
#define SHOAL_FIRMWARE_PORT_MPS2_MPS2_H

#include <stdint.h>

#define MPS2_REGISTER(address) (*(volatile uint32_t *)(address))

enum { MPS2_HZ = 25000000 };

/* lan9118.c: sleeps until a frame is there or another interrupt comes; the interrupt's handler. */
void lan9118_wait(void);

#endif
