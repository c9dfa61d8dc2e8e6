/*
 * A bare image on QEMU's mps2-an500: text goes out by semihosting, the exit status is QEMU's, and marks tell
 * the counting plugin where a call begins and ends. No interrupt ever fires.
 */
#ifndef SHOAL_TESTS_FIRMWARE_KERNELS_IMAGE_H
#define SHOAL_TESTS_FIRMWARE_KERNELS_IMAGE_H

#include <stdint.h>

int image_main(void);

void print(const char *text);
void print_number(int64_t x); /* in decimal */
_Noreturn void image_exit(int status);

/* Before and after what is counted. */
static inline void mark(void)
{
    __asm__ volatile("mov r10, r10" ::: "memory");
}

#endif
