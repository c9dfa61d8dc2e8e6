/*
 * Where a reset goes on mps2, with the stack pointer that QEMU took from address 0. In a file of its own: the
 * Teensy's image is also linked with the drivers of this folder and its own entry, to be booted in QEMU.
 */
#include "firmware/port/m7/m7.h"

void m7_entry(void);

void m7_entry(void)
{
    m7_start();
}
