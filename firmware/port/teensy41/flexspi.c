/*
 * Commands go through sequence 15 of FlexSPI's look-up table, rewritten for each; the ROM's sequence 0 keeps
 * serving reads. Order: write enable, check that the flash took it, command, poll its busy bit, reset FlexSPI
 * (its read buffers hold old bytes), drop the caches' lines. A branch predictor may fetch from the flash
 * meanwhile and get rubbish, so the whole instruction cache is dropped.
 *
 * Nothing here may call or read what lies in flash: no memcpy, no switch tables, no constants but immediate
 * ones. scripts/check-image looks at the object for that.
 */
#include "firmware/port/teensy41/flexspi.h"

#include "firmware/port/teensy41/reg.h"
#include "firmware/port/teensy41/rt1062.h"

#include <stddef.h>

#if defined(__arm__)
#define IN_RAM \
    __attribute__((section(".itcm.flexspi"), noinline, optimize("Os", "no-tree-loop-distribute-patterns")))
#define INLINE static inline __attribute__((always_inline))
#else
#define IN_RAM
#define INLINE static inline
#endif

enum {
    COMMAND_US = 10000,
    ENABLE_US = 1000,
    PROGRAM_US = 50000,
    SECTOR_US = 1000000,
    BLOCK_US = 4000000,
    RESET_US = 100,
    SEQUENCE = 15,
    FLASH_BASE = 0x60000000
};
enum { CMD_PROGRAM = 0x02, CMD_STATUS = 0x05, CMD_ENABLE = 0x06, CMD_SECTOR = 0x20, CMD_BLOCK = 0xD8 };
enum { CMD_RESET_ENABLE = 0x66, CMD_RESET = 0x99 };
enum { STATUS_BUSY_BIT = 1, STATUS_ENABLED_BIT = 2 };

/* Words of a sequence: two steps each of operation, pads (0: one line) and operand. */
#define STEP(operation, operand) (((uint32_t)(operation) << 10) | (operand))
#define STEP_COMMAND(c) STEP(0x01, c)
#define STEP_ADDRESS (STEP(0x02, 24) << 16)
#define STEP_WRITE STEP(0x08, 4)
#define STEP_READ (STEP(0x09, 1) << 16)

INLINE uint32_t mask_interrupts(void)
{
#if defined(__arm__)
    uint32_t before;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(before)::"memory");
    return before;
#else
    return 0;
#endif
}

INLINE void restore_interrupts(uint32_t before)
{
#if defined(__arm__)
    __asm volatile("msr primask, %0" ::"r"(before) : "memory");
#else
    (void)before;
#endif
}

INLINE void feed(void)
{
    reg_write16(WDOG1_WSR, 0x5555);
    reg_write16(WDOG1_WSR, 0xAAAA);
}

/* One command with up to 256 bytes out of `bytes` (NULL: none) or `in` bytes in. False: it did not end, or
 * FlexSPI refused it. */
IN_RAM static bool command(uint32_t first, uint32_t second, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    reg_write(FLEXSPI_LUTKEY, FLEXSPI_LUTKEY_VALUE);
    reg_write(FLEXSPI_LUTCR, FLEXSPI_LUTCR_UNLOCK);
    reg_write(FLEXSPI_LUT(4 * SEQUENCE), first);
    reg_write(FLEXSPI_LUT(4 * SEQUENCE + 1), second);
    reg_write(FLEXSPI_LUT(4 * SEQUENCE + 2), 0);
    reg_write(FLEXSPI_LUT(4 * SEQUENCE + 3), 0);
    reg_write(FLEXSPI_IPTXFCR, FLEXSPI_CLEAR_FIFO);
    reg_write(FLEXSPI_IPRXFCR, FLEXSPI_CLEAR_FIFO);
    reg_write(FLEXSPI_INTR, FLEXSPI_INTR_IPCMDDONE | FLEXSPI_INTR_IPCMDERR | FLEXSPI_INTR_IPCMDGE |
                                FLEXSPI_INTR_IPTXWE | FLEXSPI_INTR_IPRXWA);
    reg_write(FLEXSPI_IPCR0, offset);
    reg_write(FLEXSPI_IPCR1, (SEQUENCE << 16) | n);
    reg_barrier();
    reg_write(FLEXSPI_IPCMD, 1);
    uint32_t start = reg_cycles(), at = 0;
    for (uint32_t looks = 0; looks < COMMAND_US * (REG_CYCLES_PER_US / REG_LOOK_CYCLES); looks++) {
        uint32_t state = reg_read(FLEXSPI_INTR);
        if (state & (FLEXSPI_INTR_IPCMDERR | FLEXSPI_INTR_IPCMDGE))
            return false;
        if (bytes && at < n && state & FLEXSPI_INTR_IPTXWE) {
            /* Room for 8 bytes; the flag, written, hands them over. */
            for (uint32_t word = 0; word < 2; word++) {
                uint32_t value = 0;
                for (uint32_t i = 0; i < 4; i++, at++)
                    value |= (at < n ? (uint32_t)bytes[at] : 0xFFu) << 8 * i;
                reg_write(FLEXSPI_TFDR0 + 4 * word, value);
            }
            reg_write(FLEXSPI_INTR, FLEXSPI_INTR_IPTXWE);
        } else if (state & FLEXSPI_INTR_IPCMDDONE) {
            return true;
        }
        if (reg_cycles() - start >= COMMAND_US * REG_CYCLES_PER_US)
            break;
    }
    return false;
}

IN_RAM static bool plain_command(uint32_t code, uint32_t address_step, uint32_t offset)
{
    return command(STEP_COMMAND(code) | address_step, 0, offset, NULL, 0);
}

/* The status register's byte, or -1. */
IN_RAM static int read_status(void)
{
    if (!command(STEP_COMMAND(CMD_STATUS) | STEP_READ, 0, 0, NULL, 1))
        return -1;
    return (int)(reg_read(FLEXSPI_RFDR0) & 0xFF);
}

/* Polls the status register until (status & mask) == want. */
IN_RAM static bool wait_status(uint32_t mask, uint32_t want, uint32_t us)
{
    uint32_t start = reg_cycles();
    for (uint32_t looks = 0; looks < us; looks++) { /* each look takes more than a microsecond */
        int status = read_status();
        if (status < 0)
            return false;
        if (((uint32_t)status & mask) == want)
            return true;
        feed();
        if (reg_cycles() - start >= us * REG_CYCLES_PER_US)
            break;
    }
    return false;
}

/* After it the mapped flash reads what the flash holds. */
IN_RAM static const char *settle(uint32_t offset, uint32_t n)
{
    reg_set(FLEXSPI_MCR0, FLEXSPI_MCR0_SWRESET);
    bool reset = reg_wait(FLEXSPI_MCR0, FLEXSPI_MCR0_SWRESET, 0, COMMAND_US);
    reg_barrier();
    uint32_t end = offset + n;
    for (uint32_t at = offset & ~(uint32_t)(FLEXSPI_LINE - 1); at < end; at += FLEXSPI_LINE)
        reg_write(SCB_DCIMVAC, FLASH_BASE + at);
    reg_write(SCB_ICIALLU, 0);
    reg_barrier();
    return reset ? NULL : "FlexSPI does not come out of its reset";
}

/* The flash must answer reads again, whatever state it is in. */
IN_RAM static void rescue(void)
{
    (void)plain_command(CMD_RESET_ENABLE, 0, 0);
    (void)plain_command(CMD_RESET, 0, 0);
    reg_delay(RESET_US);
}

IN_RAM static const char *enable(void)
{
    if (!wait_status(STATUS_BUSY_BIT, 0, PROGRAM_US))
        return "flash is busy before the command";
    if (!plain_command(CMD_ENABLE, 0, 0))
        return "flash: FlexSPI refuses write enable";
    if (!wait_status(STATUS_ENABLED_BIT, STATUS_ENABLED_BIT, ENABLE_US))
        return "flash does not take write enable";
    return NULL;
}

IN_RAM const char *flexspi_erase(uint32_t offset, uint32_t n)
{
    uint32_t interrupts = mask_interrupts();
    bool block = n == FLEXSPI_BLOCK;
    feed();
    const char *failed = enable();
    if (!failed && !plain_command(block ? CMD_BLOCK : CMD_SECTOR, STEP_ADDRESS, offset))
        failed = "flash: FlexSPI refuses the erase";
    if (!failed && !wait_status(STATUS_BUSY_BIT, 0, block ? BLOCK_US : SECTOR_US))
        failed = "flash is still busy after the longest erase";
    if (failed)
        rescue();
    const char *unsettled = settle(offset, n);
    restore_interrupts(interrupts);
    return failed ? failed : unsettled;
}

IN_RAM const char *flexspi_program(uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    uint32_t interrupts = mask_interrupts();
    feed();
    const char *failed = enable();
    if (!failed && !command(STEP_COMMAND(CMD_PROGRAM) | STEP_ADDRESS, STEP_WRITE, offset, bytes, n))
        failed = "flash: FlexSPI refuses the page";
    if (!failed && !wait_status(STATUS_BUSY_BIT, 0, PROGRAM_US))
        failed = "flash is still busy after the longest program";
    if (failed)
        rescue();
    const char *unsettled = settle(offset, n);
    restore_interrupts(interrupts);
    return failed ? failed : unsettled;
}
