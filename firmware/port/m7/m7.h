/*
 * What the Cortex-M7 ports share: start, MPU, faults with a record that outlives the reset, the painted
 * stack, the main loop. The memory map is memory.ld; a port's linker script includes it and adds its headers.
 *
 *     reset -> the port's entry (stack pointer, FlexRAM) -> m7_start() -> port_start() -> m7_main()
 */
#ifndef SHOAL_FIRMWARE_PORT_M7_M7_H
#define SHOAL_FIRMWARE_PORT_M7_M7_H

#include <stdbool.h>
#include <stdint.h>

enum { M7_INTERRUPTS = 160 };

/* Attributes of an MPU region. Executable and writable at once is none of them. */
enum m7_access { M7_NONE, M7_CODE, M7_CONSTANT, M7_DATA, M7_DATA_UNCACHED, M7_DEVICE };

/* One region: `base` is a multiple of the size, 2^size_log2 bytes (32 at least). A later region wins over an
 * earlier one. */
struct m7_region {
    uint32_t base;
    uint8_t size_log2;
    uint8_t off; /* bits of eighths that do not belong to it */
    uint8_t access;
};

/* From a port's entry, with the stack pointer at __stack_top and the TCMs on; never returns. */
_Noreturn void m7_start(void);
_Noreturn void m7_main(void);

/* Sets the MPU: the regions that all ports have, then a port's own (8 regions in all on mps2, 16 on the
 * RT1062). A port that must write its flash calls m7_flash_writable() around it. */
void m7_mpu_start(const struct m7_region *own, uint32_t n_own);
void m7_flash_writable(bool writable);

/* Called by a port's watchdog interrupt, with the frame that the interrupt stacked: keeps the place, resets.
 */
_Noreturn void m7_watchdog_bites(const uint32_t *frame);
/* Why this start: "power on", "watchdog at 0x60012345", "fault ..."; static. */
const char *m7_reset_reason(void);
uint32_t m7_stack_high_water(void); /* bytes, by the paint */
uint32_t m7_stack_bytes(void);

/* A port's vector: handlers of its interrupts, by number; default is a fault. */
void m7_interrupt(uint32_t number, void (*handler)(void), uint8_t priority);

#endif
