/*
 * A board's NOR flash as the store, the identity and the log see it: mapped into memory for reading, erased
 * in blocks to all ones, programmed from ones to zeroes. A port (or the tests' emulated flash) gives the
 * functions; flash.c adds what every user needs: cutting into pages, reading back, never programming from the
 * flash itself. Offsets count from `base`. One thread.
 */
#ifndef SHOAL_FIRMWARE_CORE_FLASH_H
#define SHOAL_FIRMWARE_CORE_FLASH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What a port gives. erase and program return 0, or a negative status when the device reports a failure; when
 * they return, `base` reads what the flash holds (the port drops its caches). Power may go at any instant: an
 * interrupted erase leaves anything in its block, an interrupted program a part of its bytes, and nothing
 * else is touched.
 */
struct board_flash {
    void *context;
    const uint8_t *base;    /* mapped, aligned to 16 */
    uint32_t bytes;         /* multiple of erase_bytes */
    uint32_t erase_bytes;   /* smallest erase: 4096 */
    uint32_t block_bytes;   /* larger, faster erase: 65536, a multiple of erase_bytes; 0: there is none */
    uint32_t program_bytes; /* page: 256. A call of `program` stays within one */
    /* Erases `n` bytes at `offset`: n is erase_bytes or block_bytes, offset a multiple of it. May take 2 s.
     */
    int (*erase)(void *context, uint32_t offset, uint32_t n);
    /* 1 to program_bytes bytes from RAM; they clear bits and set none. Any offset within the page. */
    int (*program)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n);
    /* Called between the steps of anything that lasts: feed the watchdog, keep the link alive. Must not call
     * what called it. NULL: nothing to do. */
    void (*poll)(void *context);
};

/* True when sizes and functions are as stated above. */
bool flash_valid(const struct board_flash *flash);
/* Erases [offset, offset + n), both multiples of erase_bytes, with the largest erases that fit. Reads back:
 * STATUS_IO_FAILED when a bit stayed zero; or the port's status. */
int flash_erase(const struct board_flash *flash, uint32_t offset, uint32_t n);
/* Programs any number of bytes at any offset, page by page, and reads them back: STATUS_IO_FAILED when they
 * differ; or the port's status. `bytes` may lie in the flash. */
int flash_program(const struct board_flash *flash, uint32_t offset, const uint8_t *bytes, uint32_t n);
/* Whether all of it is ones. */
bool flash_blank(const struct board_flash *flash, uint32_t offset, uint32_t n);
void flash_poll(const struct board_flash *flash);

/* CRC-32 (IEEE 802.3) of records; start with 0. */
uint32_t flash_crc32(uint32_t crc, const uint8_t *bytes, uint32_t n);

#endif
