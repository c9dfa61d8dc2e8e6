/*
 * The fragment store of a board with NOR flash: `struct board_store` over `struct board_flash`. Images lie
 * contiguous on erase borders and are read in place; which lie where stands in a log of records with a CRC,
 * append-only in two halves. Power may go at any erase or program: the next start has every image that was
 * committed and not removed, whole, and at most one that goes on where it was.
 *
 * The owner gives the memory (about 4 KB) and keeps the flash open. One thread.
 */
#ifndef SHOAL_FIRMWARE_CORE_FLASH_STORE_H
#define SHOAL_FIRMWARE_CORE_FLASH_STORE_H

#include "firmware/core/board.h"
#include "firmware/core/flash.h"

enum { FLASH_STORE_SECTORS_MAX = 2048 };

/* Where the store lies; all multiples of erase_bytes, `fragments` of block_bytes. */
struct flash_store_place {
    uint32_t log, log_bytes;             /* two halves of at least 16 KiB */
    uint32_t fragments, fragments_bytes; /* at most FLASH_STORE_SECTORS_MAX erase blocks */
};

/* ---- private ---- */

struct flash_store_image {
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size;
    uint16_t first, sectors; /* in erase blocks from the start of the fragments */
};

struct flash_store {
    const struct board_flash *flash;
    struct flash_store_place place;
    struct flash_store_image images[BOARD_FRAGMENTS_MAX];
    uint32_t n_images;
    struct flash_store_image part;               /* size 0: none */
    bool part_open;                              /* begun since the start */
    uint32_t part_valid, part_erased, part_kept; /* bytes: written, erased ahead of that, as the log has it */
    uint32_t half, sequence, next; /* of the log: half in use (2: none), its number, next free record */
    uint32_t turn;                 /* rises with each image: spreads the wear */
    uint8_t bad[FLASH_STORE_SECTORS_MAX / 8];
};

/* ---- */

/* Reads the log. 0, STATUS_INVALID_ARGUMENT (flash or place not as stated). A ruined log is an empty store.
 * Programs nothing. */
int flash_store_open(struct flash_store *store, const struct board_flash *flash,
                     const struct flash_store_place *place);
/* The functions that the board wants; valid as long as the store is. Beyond what board.h says:
 * begin is short: blocks are erased one at a time, when `write` comes to them, so a call takes one erase and
 * a page or two; now and then, when half the log is full, that half's blocks too; and commit hashes the
 * image. The flash's `poll` is called in between. begin of an image that is held drops it first. An image
 * whose flash fails is dropped with STATUS_IO_FAILED, and the block is not used again. After a reset a broken
 * push goes on at the last 64 KiB border. STATUS_FLASH_FULL also when there is room, but in pieces. */
struct board_store flash_store_functions(struct flash_store *store);

#endif
