/*
 * An emulated NOR flash with faults, for tests: erase sets a block to ones, program only clears bits, and at
 * any step the power may go: an erase then leaves garbage, or a part, or all of its block, a program the
 * first bytes and a torn one. After that nothing changes any more until nor_flash_power(). One thread.
 */
#ifndef SHOAL_TESTS_SUPPORT_NOR_FLASH_H
#define SHOAL_TESTS_SUPPORT_NOR_FLASH_H

#include "firmware/core/flash.h"
#include "tests/support/prng.h"

enum { NOR_FLASH_BAD_MAX = 16 };

struct nor_flash {
    struct board_flash flash; /* what the code under test gets */
    uint8_t *bytes;
    uint64_t steps;                         /* erases and programs since nor_flash_new */
    uint64_t cut_at;                        /* the step at which the power goes, counted from 1; 0: never */
    bool off;                               /* it has gone */
    struct prng prng;                       /* what an interrupted step leaves */
    uint32_t bad[NOR_FLASH_BAD_MAX], n_bad; /* erase blocks that do not take what they are given */
    bool bad_erases;                        /* they erase well and only program wrongly, when false */
    bool bad_says_so;                       /* they report a failure; else they only hold something else */
    uint64_t polls, erased_blocks;
    uint32_t *wear; /* erases of each erase block */
};

/* Filled with ones. Ends the test when there is no memory. */
void nor_flash_new(struct nor_flash *nor, uint32_t bytes, uint32_t erase_bytes, uint32_t block_bytes);
void nor_flash_free(struct nor_flash *nor);
/* Power on, from a cut at the step `in` from now (0: no more cuts). */
void nor_flash_power(struct nor_flash *nor, uint64_t in);
void nor_flash_bad(struct nor_flash *nor, uint32_t erase_block);

#endif
