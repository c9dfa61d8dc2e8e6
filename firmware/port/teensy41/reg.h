/*
 * Access to hardware registers, and waiting for them without ever waiting for ever.
 *
 * On a board the accessors are plain volatile reads and writes, inlined, so that code in the ITCM calls
 * nothing in flash. In a host program they are functions that a test defines: a file of fake registers
 * (tests/unit has one). The clock of every wait is the cycle counter. A counter that stands still ends the
 * wait as well: a look at a register crosses the peripheral bus, which takes REG_LOOK_CYCLES at
 * least, so looks are counted too.
 */
#ifndef SHOAL_FIRMWARE_PORT_TEENSY41_REG_H
#define SHOAL_FIRMWARE_PORT_TEENSY41_REG_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__arm__)

static inline __attribute__((always_inline)) uint32_t reg_read(uint32_t address)
{
    return *(volatile uint32_t *)address;
}

static inline __attribute__((always_inline)) void reg_write(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)address = value;
}

static inline __attribute__((always_inline)) void reg_write16(uint32_t address, uint32_t value)
{
    *(volatile uint16_t *)address = (uint16_t)value;
}

/* All writes before it are done before any access after it begins. */
static inline __attribute__((always_inline)) void reg_barrier(void)
{
    __asm volatile("dsb\n\tisb" ::: "memory");
}

#else

uint32_t reg_read(uint32_t address);
void reg_write(uint32_t address, uint32_t value);
void reg_write16(uint32_t address, uint32_t value);
void reg_barrier(void);

#endif

/* Cycles, 32 bits, wrapping. Defined by what drives the counter: on the RT1062 the core's own (chip.c). */
#if defined(__ARM_ARCH_7EM__)
static inline __attribute__((always_inline)) uint32_t reg_cycles(void)
{
    return reg_read(0xE0001004u);
}
#else
uint32_t reg_cycles(void);
#endif

/* Cycles of a microsecond. While the core runs slower (396 MHz, 24 MHz at boot) a wait is longer by that
 * much. */
#define REG_CYCLES_PER_US 600u
#define REG_LOOK_CYCLES 8u

static inline __attribute__((always_inline)) void reg_set(uint32_t address, uint32_t bits)
{
    reg_write(address, reg_read(address) | bits);
}

/* Replaces the bits of `mask` by `bits`. */
static inline __attribute__((always_inline)) void reg_change(uint32_t address, uint32_t mask, uint32_t bits)
{
    reg_write(address, (reg_read(address) & ~mask) | bits);
}

/* Waits until the bits of `mask` are as in `want`; false after `us` (at most 7 seconds) without it. */
static inline __attribute__((always_inline)) bool reg_wait(uint32_t address, uint32_t mask, uint32_t want,
                                                           uint32_t us)
{
    uint32_t limit = us * REG_CYCLES_PER_US, start = reg_cycles();
    for (uint32_t looks = 0; looks < limit / REG_LOOK_CYCLES && reg_cycles() - start < limit; looks++)
        if ((reg_read(address) & mask) == want)
            return true;
    return (reg_read(address) & mask) == want;
}

/* Waits `us` microseconds, at most 7 seconds. */
static inline __attribute__((always_inline)) void reg_delay(uint32_t us)
{
    uint32_t limit = us * REG_CYCLES_PER_US, start = reg_cycles();
    for (uint32_t looks = 0; looks < limit && reg_cycles() - start < limit; looks++)
        ;
}

#endif
