/*
 * Images in the flash and the log that says which lie where. A record has 64 bytes, a CRC and the number of
 * its half; a half counts when it has a HEAD, which is programmed last when the half is made, and of two the
 * one with the higher number. What happened later wins: an image whose place a later record gives to another
 * is gone. A record that cannot be read is as if it had not been written, so the worst a ruined record does
 * is to lose an image or to bring back one, whose hash the board checks before it runs it.
 *
 * Invariants. No two images and no image and the part overlap; nothing lies on a bad block. A WHOLE record is
 * written only after the hash of what the flash holds was right. `part_valid` is within what was erased;
 * after a reset it is the last border of which a record tells.
 */
#include "firmware/core/flash_store.h"

#include "firmware/core/sha256.h"
#include "shared/base/le.h"

#include <string.h>

enum {
    RECORD = 64,
    PIECE = 65536,
    TRIES = 2,          /* of one erase or program before its block is bad */
    WEAR_SHARE = 64,    /* small images wander within this share of the flash */
    BORDER_BLOCKS = 16, /* progress is kept each so many erase blocks when there is no larger erase */
    NO_HALF = 2
};
#define MAGIC 0x52465300u /* "\0SFR", the kind in the low byte */

enum kind { HEAD = 1, PART, PROGRESS, WHOLE, REMOVED, BAD, KINDS };

struct record {
    enum kind kind;
    uint32_t first;                /* PART, WHOLE: block; BAD: which 256 blocks */
    uint32_t size;                 /* PART, WHOLE: of the image */
    uint32_t valid;                /* PROGRESS: bytes; HEAD: turn */
    uint8_t hash[WIRE_HASH_BYTES]; /* BAD: bit map */
};

static uint32_t erase_bytes(const struct flash_store *store)
{
    return store->flash->erase_bytes;
}

static uint32_t sectors_of(const struct flash_store *store, uint32_t bytes)
{
    return bytes / erase_bytes(store) + (bytes % erase_bytes(store) != 0);
}

static uint32_t total_sectors(const struct flash_store *store)
{
    return store->place.fragments_bytes / erase_bytes(store);
}

/* Where a sector lies in the flash. */
static uint32_t at_sector(const struct flash_store *store, uint32_t sector)
{
    return store->place.fragments + sector * erase_bytes(store);
}

/* Progress is kept at multiples of this; larger erases begin there. */
static uint32_t border(const struct flash_store *store)
{
    return store->flash->block_bytes > 0 ? store->flash->block_bytes : BORDER_BLOCKS * erase_bytes(store);
}

static bool is_bad(const struct flash_store *store, uint32_t sector)
{
    return (store->bad[sector / 8] >> sector % 8 & 1) != 0;
}

/* ---- the state, as records change it ---- */

static struct flash_store_image *image_of(struct flash_store *store, const uint8_t *hash)
{
    for (uint32_t i = 0; i < store->n_images; i++)
        if (memcmp(store->images[i].hash, hash, WIRE_HASH_BYTES) == 0)
            return &store->images[i];
    return NULL;
}

static void forget(struct flash_store *store, struct flash_store_image *image)
{
    *image = store->images[--store->n_images];
}

static bool overlap(const struct flash_store_image *a, const struct flash_store_image *b)
{
    return a->size > 0 && b->size > 0 && a->first < b->first + b->sectors && b->first < a->first + a->sectors;
}

static void forget_overlapping(struct flash_store *store, const struct flash_store_image *place)
{
    for (uint32_t i = store->n_images; i-- > 0;)
        if (overlap(&store->images[i], place))
            forget(store, &store->images[i]);
}

static void drop_part(struct flash_store *store)
{
    store->part.size = 0;
    store->part_open = false;
    store->part_valid = store->part_erased = store->part_kept = 0;
}

/* The image that a record tells of; false: it cannot be. */
static bool image_in(const struct flash_store *store, const struct record *record,
                     struct flash_store_image *image)
{
    uint32_t total = total_sectors(store), sectors = sectors_of(store, record->size);
    if (record->size == 0 || sectors > total || record->first > total - sectors)
        return false;
    *image = (struct flash_store_image){
        .size = record->size, .first = (uint16_t)record->first, .sectors = (uint16_t)sectors};
    memcpy(image->hash, record->hash, WIRE_HASH_BYTES);
    return true;
}

static void apply_place(struct flash_store *store, const struct record *record)
{
    struct flash_store_image image;
    if (!image_in(store, record, &image))
        return;
    forget_overlapping(store, &image);
    if (record->kind == PART) {
        drop_part(store);
        store->part = image;
        store->turn++;
        return;
    }
    if (overlap(&store->part, &image) || memcmp(store->part.hash, image.hash, WIRE_HASH_BYTES) == 0)
        drop_part(store);
    struct flash_store_image *former = image_of(store, image.hash);
    if (former != NULL)
        forget(store, former);
    if (store->n_images < BOARD_FRAGMENTS_MAX)
        store->images[store->n_images++] = image;
}

static void apply_removed(struct flash_store *store, const uint8_t *hash)
{
    struct flash_store_image *image = image_of(store, hash);
    if (image != NULL)
        forget(store, image);
    if (memcmp(store->part.hash, hash, WIRE_HASH_BYTES) == 0)
        drop_part(store);
}

static void apply(struct flash_store *store, const struct record *record)
{
    switch (record->kind) {
    case HEAD:
        store->turn = record->valid;
        break;
    case PART:
    case WHOLE:
        apply_place(store, record);
        break;
    case PROGRESS:
        if (record->valid < store->part.size && record->valid % erase_bytes(store) == 0 &&
            memcmp(store->part.hash, record->hash, WIRE_HASH_BYTES) == 0)
            store->part_kept = record->valid;
        break;
    case REMOVED:
        apply_removed(store, record->hash);
        break;
    default:
        for (uint32_t i = 0; i < WIRE_HASH_BYTES && record->first < sizeof store->bad / WIRE_HASH_BYTES; i++)
            store->bad[record->first * WIRE_HASH_BYTES + i] |= record->hash[i];
    }
}

/* ---- records ---- */

static uint32_t records_of(const struct flash_store *store)
{
    return store->place.log_bytes / 2 / RECORD;
}

static uint32_t at_record(const struct flash_store *store, uint32_t half, uint32_t index)
{
    return store->place.log + half * (store->place.log_bytes / 2) + index * RECORD;
}

/* False: not a record. */
static bool get(const struct flash_store *store, uint32_t half, uint32_t index, struct record *record,
                uint32_t *sequence)
{
    const uint8_t *bytes = store->flash->base + at_record(store, half, index);
    uint32_t kind = le_get32(bytes) ^ MAGIC;
    if (kind == 0 || kind >= KINDS || le_get32(bytes + 60) != flash_crc32(0, bytes, 60))
        return false;
    record->kind = (enum kind)kind;
    record->first = le_get32(bytes + 4);
    record->size = le_get32(bytes + 8);
    record->valid = le_get32(bytes + 12);
    memcpy(record->hash, bytes + 16, WIRE_HASH_BYTES);
    *sequence = le_get32(bytes + 48);
    return true;
}

static int program(const struct flash_store *store, uint32_t half, uint32_t index, uint32_t sequence,
                   const struct record *record)
{
    uint8_t bytes[RECORD] = {0};
    le_put32(bytes, MAGIC ^ (uint32_t)record->kind);
    le_put32(bytes + 4, record->first);
    le_put32(bytes + 8, record->size);
    le_put32(bytes + 12, record->valid);
    memcpy(bytes + 16, record->hash, WIRE_HASH_BYTES);
    le_put32(bytes + 48, sequence);
    le_put32(bytes + 60, flash_crc32(0, bytes, 60));
    return flash_program(store->flash, at_record(store, half, index), bytes, RECORD);
}

/* Into the first record from *next on that takes it; *next is then behind it. STATUS_FLASH_FULL: none. */
static int append_from(const struct flash_store *store, uint32_t half, uint32_t sequence, uint32_t *next,
                       const struct record *record)
{
    while (*next < records_of(store)) {
        uint32_t index = (*next)++;
        if (flash_blank(store->flash, at_record(store, half, index), RECORD) &&
            program(store, half, index, sequence, record) == STATUS_OK)
            return STATUS_OK;
    }
    return STATUS_FLASH_FULL;
}

static struct record record_of(enum kind kind, const struct flash_store_image *image)
{
    struct record record = {.kind = kind, .first = image->first, .size = image->size};
    memcpy(record.hash, image->hash, WIRE_HASH_BYTES);
    return record;
}

/* All that is known, as records from `next` on in the new half. */
static int write_state(const struct flash_store *store, uint32_t half, uint32_t sequence, uint32_t *next)
{
    struct record record;
    int status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < sizeof store->bad / WIRE_HASH_BYTES; i++) {
        static const uint8_t none[WIRE_HASH_BYTES];
        record = (struct record){.kind = BAD, .first = i};
        memcpy(record.hash, store->bad + i * WIRE_HASH_BYTES, WIRE_HASH_BYTES);
        if (memcmp(record.hash, none, sizeof none) != 0)
            status = append_from(store, half, sequence, next, &record);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < store->n_images; i++) {
        record = record_of(WHOLE, &store->images[i]);
        status = append_from(store, half, sequence, next, &record);
    }
    if (status != STATUS_OK || store->part.size == 0)
        return status;
    record = record_of(PART, &store->part);
    status = append_from(store, half, sequence, next, &record);
    record = record_of(PROGRESS, &store->part);
    record.valid = store->part_kept;
    return status == STATUS_OK && store->part_kept > 0 ? append_from(store, half, sequence, next, &record)
                                                       : status;
}

/* The other half anew: what is known, the new record, and last the HEAD. What an erase left behind is of
 * another number, and is stepped over. */
static int turn_over(struct flash_store *store, const struct record *record)
{
    uint32_t half = store->half == 0 ? 1 : 0, bytes = store->place.log_bytes / 2, next = 1, head_at = 0;
    uint32_t sequence = store->sequence + 1;
    struct record head = {.kind = HEAD, .valid = store->turn};
    for (uint32_t at = 0; at < bytes; at += erase_bytes(store))
        (void)flash_erase(store->flash, at_record(store, half, 0) + at, erase_bytes(store));
    int status = write_state(store, half, sequence, &next);
    if (status == STATUS_OK)
        status = append_from(store, half, sequence, &next, record);
    if (status == STATUS_OK && append_from(store, half, sequence, &head_at, &head) != STATUS_OK)
        status = STATUS_FLASH_FULL;
    if (status != STATUS_OK)
        return STATUS_IO_FAILED;
    store->half = half;
    store->sequence = sequence;
    store->next = next > head_at ? next : head_at;
    return STATUS_OK;
}

/* Writes a record and does what it says. STATUS_IO_FAILED: nothing has changed. */
static int append(struct flash_store *store, const struct record *record)
{
    int status = STATUS_FLASH_FULL;
    if (store->half != NO_HALF)
        status = append_from(store, store->half, store->sequence, &store->next, record);
    if (status != STATUS_OK)
        status = turn_over(store, record);
    if (status == STATUS_OK)
        apply(store, record);
    return status;
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
    for (uint32_t i = at; i < at + need && i < total_sectors(store); i++)
        if (is_bad(store, i))
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
    uint32_t end = total_sectors(store);
    for (uint32_t i = 0; i < store->n_images; i++)
        if (store->images[i].first >= at && store->images[i].first < end)
            end = store->images[i].first;
    for (uint32_t i = at; i < end; i++)
        if (is_bad(store, i))
            return i;
    return end;
}

/* Where in a free stretch a large image lies best, so that large erases serve most of it and what stays free
 * stays in one piece: two that take turns in being replaced lie at the two ends of the flash, and the next
 * one may be larger than either. False: it begins nowhere so that it fits. */
static bool place_large(const struct flash_store *store, uint32_t at, uint32_t need, uint32_t *first)
{
    uint32_t step = border(store) / erase_bytes(store), end = gap_end(store, at);
    *first = at > 0 && end == total_sectors(store) ? end - need : (at + step - 1) / step * step;
    return *first + need <= end;
}

/* First fit. A small image wanders a little, so that one fragment pushed again and again does not wear out
 * one block. False: no room in one piece. */
static bool find_place(const struct flash_store *store, uint32_t size, uint32_t *first)
{
    uint32_t need = sectors_of(store, size), total = total_sectors(store);
    bool large = need >= border(store) / erase_bytes(store);
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
    struct record record = {.kind = BAD, .first = sector / (8 * WIRE_HASH_BYTES)};
    record.hash[sector / 8 % WIRE_HASH_BYTES] = (uint8_t)(1 << sector % 8);
    struct record removed = record_of(REMOVED, &store->part);
    (void)append(store, &record);
    (void)append(store, &removed);
    drop_part(store);
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
    uint32_t sector = store->part.first + store->part_erased / erase_bytes(store),
             block = store->flash->block_bytes;
    uint32_t offset = at_sector(store, sector), n = erase_bytes(store);
    uint32_t left = at_sector(store, (uint32_t)store->part.first + store->part.sectors) - offset;
    if (block > 0 && offset % block == 0 && left >= block)
        n = block;
    if (n > erase_bytes(store) && flash_erase(store->flash, offset, n) != STATUS_OK)
        n = erase_bytes(store); /* which of them is bad? */
    else if (n > erase_bytes(store)) {
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
    return status == STATUS_OK ? status
                               : lost(store, store->part.first + store->part_valid / erase_bytes(store));
}

static int keep_progress(struct flash_store *store)
{
    struct record record = record_of(PROGRESS, &store->part);
    record.valid = store->part_valid;
    if (store->part_valid == store->part.size ||
        (at_sector(store, store->part.first) + store->part_valid) % border(store) != 0)
        return STATUS_OK;
    return append(store, &record);
}

/* ---- the board's functions ---- */

static int store_find(void *context, const uint8_t hash[WIRE_HASH_BYTES], const uint8_t **bytes,
                      uint32_t *size)
{
    struct flash_store *store = context;
    const struct flash_store_image *image = image_of(store, hash);
    if (image == NULL)
        return STATUS_NOT_FOUND;
    *bytes = store->flash->base + at_sector(store, image->first);
    *size = image->size;
    return STATUS_OK;
}

static int store_remove(void *context, const uint8_t hash[WIRE_HASH_BYTES])
{
    struct flash_store *store = context;
    struct record record = {.kind = REMOVED};
    bool is_part = store->part.size > 0 && memcmp(store->part.hash, hash, WIRE_HASH_BYTES) == 0;
    if (!is_part && image_of(store, hash) == NULL)
        return STATUS_NOT_FOUND;
    memcpy(record.hash, hash, WIRE_HASH_BYTES);
    return append(store, &record);
}

static int store_begin(void *context, const uint8_t hash[WIRE_HASH_BYTES], uint32_t size, uint32_t *valid)
{
    struct flash_store *store = context;
    struct record record = {.kind = PART, .size = size};
    memcpy(record.hash, hash, WIRE_HASH_BYTES);
    *valid = 0;
    if (store->part.size == size && size > 0 && memcmp(store->part.hash, hash, WIRE_HASH_BYTES) == 0) {
        if (!store->part_open)
            store->part_valid = store->part_erased = store->part_kept;
        store->part_open = true;
        *valid = store->part_valid;
        return STATUS_OK;
    }
    drop_part(store);
    if (image_of(store, hash) != NULL && store_remove(store, hash) != STATUS_OK)
        return STATUS_IO_FAILED;
    if (size == 0 || store->n_images == BOARD_FRAGMENTS_MAX || !find_place(store, size, &record.first))
        return STATUS_FLASH_FULL;
    int status = append(store, &record);
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
        uint32_t piece = erase_bytes(store) - store->part_valid % erase_bytes(store);
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
    struct record record = record_of(right ? WHOLE : REMOVED, &store->part);
    int status = append(store, &record);
    if (!right)
        drop_part(store);
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
    for (uint32_t i = 0; i < total_sectors(store); i++)
        n += !is_bad(store, i);
    return n * erase_bytes(store);
}

static uint32_t store_used(void *context)
{
    const struct flash_store *store = context;
    uint32_t n = store->part_open ? store->part.sectors : 0;
    for (uint32_t i = 0; i < store->n_images; i++)
        n += store->images[i].sectors;
    return n * erase_bytes(store);
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
           place->log_bytes / 2 / RECORD >= 2 * BOARD_FRAGMENTS_MAX && place->log <= flash->bytes &&
           place->log_bytes <= flash->bytes - place->log && place->fragments % erase == 0 &&
           (flash->block_bytes == 0 || place->fragments % flash->block_bytes == 0) &&
           place->fragments_bytes > 0 && place->fragments_bytes % erase == 0 &&
           place->fragments_bytes / erase <= FLASH_STORE_SECTORS_MAX && place->fragments <= flash->bytes &&
           place->fragments_bytes <= flash->bytes - place->fragments;
}

/* The number of a half, from its newest HEAD; false: it has none. */
static bool half_number(const struct flash_store *store, uint32_t half, uint32_t *sequence)
{
    struct record record;
    uint32_t number;
    bool there = false;
    for (uint32_t i = 0; i < records_of(store); i++)
        if (get(store, half, i, &record, &number) && record.kind == HEAD &&
            (!there || (int32_t)(number - *sequence) > 0)) {
            *sequence = number;
            there = true;
        }
    return there;
}

static void replay(struct flash_store *store)
{
    struct record record;
    uint32_t sequence;
    store->next = 1;
    for (uint32_t i = 0; i < records_of(store); i++) {
        if (!get(store, store->half, i, &record, &sequence) || sequence != store->sequence)
            continue;
        apply(store, &record);
        store->next = i + 1;
    }
}

int flash_store_open(struct flash_store *store, const struct board_flash *flash,
                     const struct flash_store_place *place)
{
    uint32_t number[2] = {0, 0};
    memset(store, 0, sizeof *store);
    if (!flash_valid(flash) || !place_valid(flash, place))
        return STATUS_INVALID_ARGUMENT;
    store->flash = flash;
    store->place = *place;
    store->half = NO_HALF;
    bool there[2] = {half_number(store, 0, &number[0]), half_number(store, 1, &number[1])};
    if (there[0] || there[1]) {
        store->half = !there[0] || (there[1] && (int32_t)(number[1] - number[0]) > 0);
        store->sequence = number[store->half];
        replay(store);
    }
    return STATUS_OK;
}
