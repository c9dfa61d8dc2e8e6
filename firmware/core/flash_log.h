/*
 * The log of the fragment store: which images lie where. Private to flash_log.c (records, and the state that
 * they change) and flash_store.c (places, writing, the board's functions).
 *
 * A record has 64 bytes, a CRC and the number of its half; a half counts when it has a HEAD, which is
 * programmed last when the half is made, and of two the one with the higher number. What happened later wins:
 * an image whose place a later record gives to another is gone.
 */
#ifndef SHOAL_FIRMWARE_CORE_FLASH_LOG_H
#define SHOAL_FIRMWARE_CORE_FLASH_LOG_H

#include "firmware/core/flash_store.h"

enum { FLASH_LOG_RECORD_BYTES = 64 };
enum flash_log_kind {
    FLASH_LOG_HEAD = 1,
    FLASH_LOG_PART,     /* an image is being written: the only one */
    FLASH_LOG_PROGRESS, /* so far */
    FLASH_LOG_WHOLE,    /* an image is there, and its hash was right */
    FLASH_LOG_REMOVED,
    FLASH_LOG_BAD, /* erase blocks that are not to be used */
    FLASH_LOG_KINDS
};

struct flash_log_record {
    enum flash_log_kind kind;
    uint32_t first;                /* PART, WHOLE: block; BAD: which 256 blocks */
    uint32_t size;                 /* PART, WHOLE: of the image */
    uint32_t valid;                /* PROGRESS: bytes; HEAD: turn */
    uint8_t hash[WIRE_HASH_BYTES]; /* BAD: bit map */
};

static inline uint32_t flash_log_erase_bytes(const struct flash_store *store)
{
    return store->flash->erase_bytes;
}

static inline uint32_t flash_log_sectors(const struct flash_store *store, uint32_t bytes)
{
    return bytes / flash_log_erase_bytes(store) + (bytes % flash_log_erase_bytes(store) != 0);
}

static inline uint32_t flash_log_total(const struct flash_store *store)
{
    return store->place.fragments_bytes / flash_log_erase_bytes(store);
}

static inline bool flash_log_is_bad(const struct flash_store *store, uint32_t sector)
{
    return (store->bad[sector / 8] >> sector % 8 & 1) != 0;
}

/* NULL: not held. */
struct flash_store_image *flash_log_image(struct flash_store *store, const uint8_t *hash);
void flash_log_drop_part(
    struct flash_store *store); /* of the state; the log keeps it until the next record */
struct flash_log_record flash_log_record_of(enum flash_log_kind kind, const struct flash_store_image *image);
/* Writes a record and does to the state what it says. STATUS_IO_FAILED: nothing has changed. */
int flash_log_append(struct flash_store *store, const struct flash_log_record *record);
/* Reads the log into an empty state; flash and place are set. */
void flash_log_read(struct flash_store *store);

#endif
