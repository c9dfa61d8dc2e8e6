/*
 * Where images go, how they are written, and the functions that the board wants. What is where stands in the
 * log (flash_log.h).
 *
 * Invariants. No two images and no image and the part overlap; nothing lies on a bad block. A WHOLE record is
 * written only after the hash of what the flash holds was right. `part_valid` is within what was erased;
 * after a reset it is the last border of which a record tells.
 */
#include "firmware/core/flash_store.h"

#include "firmware/core/flash_log.h"
#include "firmware/core/sha256.h"

#include <string.h>

enum {
    PIECE = 65536,
    TRIES = 2,         /* of one erase or program before its block is bad */
    WEAR_SHARE = 64,   /* small images wander within this share of the flash */
    BORDER_BLOCKS = 16 /* progress is kept each so many erase blocks when there is no larger erase */
};

/* Where a sector lies in the flash. */
static uint32_t at_sector(const struct flash_store *store, uint32_t sector)
{
    return store->place.fragments + sector * flash_log_erase_bytes(store);
}

/* Progress is kept at multiples of this; larger erases begin there. */
static uint32_t border(const struct flash_store *store)
{
    return store->flash->block_bytes > 0 ? store->flash->block_bytes
                                         : BORDER_BLOCKS * flash_log_erase_bytes(store);
}

/* ---- places ---- */

/* The end of what stands in the way of `need` sectors from `at` on; `at` itself: nothing. */
static uint32_t behind_obstacle(const struct flash_store *store, uint32_t at, uint32_t need)
{
    for (uint32_t i = 0; i < store->n_images; i++) {
        const struct flash_store_image *image = &store->images[i];
        if (image->first < at + need && at < (uint32_t)image->first + image->sectors)
            return (uint32_t)image->first + image->sectors;
    }
    for (uint32_t i = at; i < at + need && i < flash_log_total(store); i++)
        if (flash_log_is_bad(store, i))
            return i + 1;
    return at;
}

/* The first sector from `at` on where `need` are free, or one too near the end. */
static uint32_t free_from(const struct flash_store *store, uint32_t at, uint32_t need)
{
    for (;;) {
        uint32_t next = behind_obstacle(store, at, need);
        if (next == at)
            return at;
        at = next;
    }
}

/* Where the free stretch that begins at `at` ends. */
static uint32_t gap_end(const struct flash_store *store, uint32_t at)
{
    uint32_t end = flash_log_total(store);
    for (uint32_t i = 0; i < store->n_images; i++)
        if (store->images[i].first >= at && store->images[i].first < end)
            end = store->images[i].first;
    for (uint32_t i = at; i < end; i++)
        if (flash_log_is_bad(store, i))
            return i;
    return end;
}

/* Where in a free stretch a large image lies best, so that large erases serve most of it and what stays free
 * stays in one piece: two that take turns in being replaced lie at the two ends of the flash, and the next
 * one may be larger than either. False: it begins nowhere so that it fits. */
static bool place_large(const struct flash_store *store, uint32_t at, uint32_t need, uint32_t *first)
{
    uint32_t step = border(store) / flash_log_erase_bytes(store), end = gap_end(store, at);
    *first = at > 0 && end == flash_log_total(store) ? end - need : (at + step - 1) / step * step;
    return *first + need <= end;
}

/* First fit. A small image wanders a little, so that one fragment pushed again and again does not wear out
 * one block. False: no room in one piece. */
static bool find_place(const struct flash_store *store, uint32_t size, uint32_t *first)
{
    uint32_t need = flash_log_sectors(store, size), total = flash_log_total(store);
    bool large = need >= border(store) / flash_log_erase_bytes(store);
    if (need > total)
        return false;
    for (uint32_t at = 0; large && (at = free_from(store, at, need)) <= total - need; at = gap_end(store, at))
        if (place_large(store, at, need, first))
            return true;
    uint32_t at = free_from(store, 0, need);
    if (at > total - need)
        return false;
    uint32_t slack = gap_end(store, at) - at - need, most = large ? 0 : total / WEAR_SHARE;
    *first = at + store->turn % ((slack < most ? slack : most) + 1);
    return true;
}

/* ---- faults ---- */

/* A block that does not hold what it is given is not used again; the image on it is lost. */
static int lost(struct flash_store *store, uint32_t sector)
{
    struct flash_log_record record = {.kind = FLASH_LOG_BAD, .first = sector / (8 * WIRE_HASH_BYTES)};
    record.hash[sector / 8 % WIRE_HASH_BYTES] = (uint8_t)(1 << sector % 8);
    struct flash_log_record removed = flash_log_record_of(FLASH_LOG_REMOVED, &store->part);
    (void)flash_log_append(store, &record);
    (void)flash_log_append(store, &removed);
    flash_log_drop_part(store);
    return STATUS_IO_FAILED;
}

static int erase_tries(const struct flash_store *store, uint32_t offset, uint32_t n)
{
    int status = STATUS_IO_FAILED;
    for (int i = 0; i < TRIES && status != STATUS_OK; i++)
        status = flash_erase(store->flash, offset, n);
    return status;
}

/* Erases the next block of the part, a large one where it can. */
static int erase_ahead(struct flash_store *store)
{
    uint32_t sector = store->part.first + store->part_erased / flash_log_erase_bytes(store),
             block = store->flash->block_bytes;
    uint32_t offset = at_sector(store, sector), n = flash_log_erase_bytes(store);
    uint32_t left = at_sector(store, (uint32_t)store->part.first + store->part.sectors) - offset;
    if (block > 0 && offset % block == 0 && left >= block)
        n = block;
    if (n > flash_log_erase_bytes(store) && flash_erase(store->flash, offset, n) != STATUS_OK)
        n = flash_log_erase_bytes(store); /* which of them is bad? */
    else if (n > flash_log_erase_bytes(store)) {
        store->part_erased += n;
        return STATUS_OK;
    }
    if (erase_tries(store, offset, n) != STATUS_OK)
        return lost(store, sector);
    store->part_erased += n;
    return STATUS_OK;
}

/* Programs what lies within one sector. */
static int program_piece(struct flash_store *store, const uint8_t *bytes, uint32_t n)
{
    uint32_t offset = at_sector(store, store->part.first) + store->part_valid;
    int status = STATUS_IO_FAILED;
    for (int i = 0; i < TRIES && status != STATUS_OK; i++)
        status = flash_program(store->flash, offset, bytes, n);
    return status == STATUS_OK
               ? status
               : lost(store, store->part.first + store->part_valid / flash_log_erase_bytes(store));
}

static int keep_progress(struct flash_store *store)
{
    struct flash_log_record record = flash_log_record_of(FLASH_LOG_PROGRESS, &store->part);
    record.valid = store->part_valid;
    if (store->part_valid == store->part.size ||
        (at_sector(store, store->part.first) + store->part_valid) % border(store) != 0)
        return STATUS_OK;
    return flash_log_append(store, &record);
}

/* ---- the board's functions ---- */

static int store_find(void *context, const uint8_t hash[WIRE_HASH_BYTES], const uint8_t **bytes,
                      uint32_t *size)
{
    struct flash_store *store = context;
    const struct flash_store_image *image = flash_log_image(store, hash);
    if (image == NULL)
        return STATUS_NOT_FOUND;
    *bytes = store->flash->base + at_sector(store, image->first);
    *size = image->size;
    return STATUS_OK;
}

static int store_remove(void *context, const uint8_t hash[WIRE_HASH_BYTES])
{
    struct flash_store *store = context;
    struct flash_log_record record = {.kind = FLASH_LOG_REMOVED};
    bool is_part = store->part.size > 0 && memcmp(store->part.hash, hash, WIRE_HASH_BYTES) == 0;
    if (!is_part && flash_log_image(store, hash) == NULL)
        return STATUS_NOT_FOUND;
    memcpy(record.hash, hash, WIRE_HASH_BYTES);
    return flash_log_append(store, &record);
}

static int store_begin(void *context, const uint8_t hash[WIRE_HASH_BYTES], uint32_t size, uint32_t *valid)
{
    struct flash_store *store = context;
    struct flash_log_record record = {.kind = FLASH_LOG_PART, .size = size};
    memcpy(record.hash, hash, WIRE_HASH_BYTES);
    *valid = 0;
    if (store->part.size == size && size > 0 && memcmp(store->part.hash, hash, WIRE_HASH_BYTES) == 0) {
        if (!store->part_open)
            store->part_valid = store->part_erased = store->part_kept;
        store->part_open = true;
        *valid = store->part_valid;
        return STATUS_OK;
    }
    flash_log_drop_part(store);
    if (flash_log_image(store, hash) != NULL && store_remove(store, hash) != STATUS_OK)
        return STATUS_IO_FAILED;
    if (size == 0 || store->n_images == BOARD_FRAGMENTS_MAX || !find_place(store, size, &record.first))
        return STATUS_FLASH_FULL;
    int status = flash_log_append(store, &record);
    store->part_open = status == STATUS_OK;
    return status;
}

static int store_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    struct flash_store *store = context;
    if (!store->part_open || offset != store->part_valid || n > store->part.size - store->part_valid)
        return STATUS_WIRE_ORDER;
    while (n > 0) {
        int status = store->part_valid == store->part_erased ? erase_ahead(store) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        uint32_t piece = flash_log_erase_bytes(store) - store->part_valid % flash_log_erase_bytes(store);
        piece = piece < n ? piece : n;
        status = program_piece(store, bytes, piece);
        if (status != STATUS_OK)
            return status;
        store->part_valid += piece;
        bytes += piece;
        n -= piece;
        status = keep_progress(store);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static int store_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t n)
{
    const struct flash_store *store = context;
    if (!store->part_open || offset > store->part_valid || n > store->part_valid - offset)
        return STATUS_INVALID_ARGUMENT;
    memcpy(bytes, store->flash->base + at_sector(store, store->part.first) + offset, n);
    return STATUS_OK;
}

static bool part_hash_right(const struct flash_store *store)
{
    const uint8_t *bytes = store->flash->base + at_sector(store, store->part.first);
    uint8_t found[WIRE_HASH_BYTES];
    struct board_sha256 sha;
    if (store->part_valid != store->part.size)
        return false;
    board_sha256_begin(&sha);
    for (uint32_t at = 0; at < store->part.size; at += PIECE) {
        board_sha256_add(&sha, bytes + at, store->part.size - at < PIECE ? store->part.size - at : PIECE);
        flash_poll(store->flash);
    }
    board_sha256_end(&sha, found);
    return memcmp(found, store->part.hash, WIRE_HASH_BYTES) == 0;
}

static int store_commit(void *context)
{
    struct flash_store *store = context;
    if (!store->part_open)
        return STATUS_WIRE_ORDER;
    bool right = part_hash_right(store);
    struct flash_log_record record =
        flash_log_record_of(right ? FLASH_LOG_WHOLE : FLASH_LOG_REMOVED, &store->part);
    int status = flash_log_append(store, &record);
    if (!right)
        flash_log_drop_part(store);
    return right ? status : STATUS_HASH_MISMATCH;
}

static int store_list(void *context, uint32_t i, uint8_t hash[WIRE_HASH_BYTES], uint32_t *size)
{
    const struct flash_store *store = context;
    if (i >= store->n_images)
        return STATUS_NOT_FOUND;
    memcpy(hash, store->images[i].hash, WIRE_HASH_BYTES);
    *size = store->images[i].size;
    return STATUS_OK;
}

static uint32_t store_capacity(void *context)
{
    const struct flash_store *store = context;
    uint32_t n = 0;
    for (uint32_t i = 0; i < flash_log_total(store); i++)
        n += !flash_log_is_bad(store, i);
    return n * flash_log_erase_bytes(store);
}

static uint32_t store_used(void *context)
{
    const struct flash_store *store = context;
    uint32_t n = store->part_open ? store->part.sectors : 0;
    for (uint32_t i = 0; i < store->n_images; i++)
        n += store->images[i].sectors;
    return n * flash_log_erase_bytes(store);
}

struct board_store flash_store_functions(struct flash_store *store)
{
    return (struct board_store){.context = store,
                                .find = store_find,
                                .begin = store_begin,
                                .write = store_write,
                                .read = store_read,
                                .commit = store_commit,
                                .remove = store_remove,
                                .list = store_list,
                                .capacity = store_capacity,
                                .used = store_used};
}

/* ---- open ---- */

static bool place_valid(const struct board_flash *flash, const struct flash_store_place *place)
{
    uint32_t erase = flash->erase_bytes;
    return place->log % erase == 0 && place->log_bytes % (2 * erase) == 0 &&
           place->log_bytes / 2 / FLASH_LOG_RECORD_BYTES >= 2 * BOARD_FRAGMENTS_MAX &&
           place->log <= flash->bytes && place->log_bytes <= flash->bytes - place->log &&
           place->fragments % erase == 0 &&
           (flash->block_bytes == 0 || place->fragments % flash->block_bytes == 0) &&
           place->fragments_bytes > 0 && place->fragments_bytes % erase == 0 &&
           place->fragments_bytes / erase <= FLASH_STORE_SECTORS_MAX && place->fragments <= flash->bytes &&
           place->fragments_bytes <= flash->bytes - place->fragments;
}

int flash_store_open(struct flash_store *store, const struct board_flash *flash,
                     const struct flash_store_place *place)
{
    memset(store, 0, sizeof *store);
    if (!flash_valid(flash) || !place_valid(flash, place))
        return STATUS_INVALID_ARGUMENT;
    store->flash = flash;
    store->place = *place;
    flash_log_read(store);
    return STATUS_OK;
}
