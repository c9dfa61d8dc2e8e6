/*
 * A model of the parts of an i.MX RT1062 that the Teensy's port speaks to: clocks, watchdog, random numbers,
 * FlexSPI with a NOR flash behind it, MDIO with a PHY, console; all other registers just keep what is
 * written. It defines the functions of firmware/port/teensy41/reg.h for host programs. As far as the public
 * register descriptions say; what it cannot show is whether it is right. One model a program, one thread.
 */
#ifndef SHOAL_TESTS_SUPPORT_RT1062_MODEL_H
#define SHOAL_TESTS_SUPPORT_RT1062_MODEL_H

#include "firmware/port/teensy41/flexspi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHIP_MODEL_REGISTERS = 1024, CHIP_MODEL_NOR = 0x800000, CHIP_MODEL_SENT = 65536 };

/* A bit that never comes (or never goes): what the hardware would do when it is broken. */
struct chip_stuck {
    uint32_t address, mask, value;
};

struct chip_model {
    struct {
        uint32_t address, value;
    } regs[CHIP_MODEL_REGISTERS];
    uint32_t n;
    const char *wrong; /* the first thing that no driver may do */
    uint64_t cycles;
    uint32_t look_cycles; /* how far a look at a register moves the clock */
    bool clock_stands;
    uint64_t looks; /* every access */
    struct chip_stuck stuck;
    /* clocks */
    uint32_t busy_looks;
    uint32_t fastest_without_volts; /* Hz */
    bool pll_moved_under_core, bus_too_fast;
    /* watchdog */
    uint64_t fed_at, longest_unfed; /* cycles */
    /* random numbers */
    uint32_t word, failing_sets, sets;
    bool same_word;
    uint64_t set_at;
    /* flash */
    uint8_t *nor; /* CHIP_MODEL_NOR bytes, all zeroes after a reset; may be set to others */
    bool enabled, refuses_enable, never_ready;
    uint64_t nor_busy_until;
    uint8_t fifo[FLEXSPI_PAGE + 8];
    uint32_t n_fifo, resets, erases, programs;
    uint8_t page_hit[CHIP_MODEL_NOR / FLEXSPI_LINE]; /* lines dropped from the data cache */
    /* PHYs */
    uint32_t phy_at, phy_id;
    uint16_t phy[32];
    bool no_mdio, phy_gone;
    uint32_t phy_reset_low;
    /* console */
    char sent[CHIP_MODEL_SENT];
    uint32_t n_sent;
    uint64_t sent_at;
};

extern struct chip_model chip_model;

/* As the ROM leaves it: 396 MHz from the core's PLL (792 / 2), 1.15 V, buses by 4. */
void chip_model_reset(void);
/* What is kept at an address. */
uint32_t *chip_model_reg(uint32_t address);
uint32_t chip_model_core_hz(void);
/* Whether the flash is at work: then nothing can be read from it. */
bool chip_model_nor_busy(void);

#endif
