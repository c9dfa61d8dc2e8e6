/*
 * Records and what they say. A record that cannot be read is as if it had not been written, so the worst a
 * ruined record does is to lose an image or to bring back one, whose hash the board checks before it runs it.
 * What an interrupted or failed program left is stepped over.
 */
#include "firmware/core/flash_log.h"

#include "shared/base/le.h"

#include <string.h>

enum { NO_HALF = 2 };
#define MAGIC 0x52465300u /* "\0SFR", the kind in the low byte */

/* ---- the state, as records change it ---- */

struct flash_store_image *flash_log_image(struct flash_store *store, const uint8_t *hash)
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

void flash_log_drop_part(struct flash_store *store)
{
    store->part.size = 0;
    store->part_open = false;
    store->part_valid = store->part_erased = store->part_kept = 0;
}

/* The image that a record tells of; false: it cannot be. */
static bool image_in(const struct flash_store *store, const struct flash_log_record *record,
                     struct flash_store_image *image)
{
    uint32_t total = flash_log_total(store), sectors = flash_log_sectors(store, record->size);
    if (record->size == 0 || sectors > total || record->first > total - sectors)
        return false;
    *image = (struct flash_store_image){
        .size = record->size, .first = (uint16_t)record->first, .sectors = (uint16_t)sectors};
    memcpy(image->hash, record->hash, WIRE_HASH_BYTES);
    return true;
}

static void apply_place(struct flash_store *store, const struct flash_log_record *record)
{
    struct flash_store_image image;
    if (!image_in(store, record, &image))
        return;
    forget_overlapping(store, &image);
    if (record->kind == FLASH_LOG_PART) {
        flash_log_drop_part(store);
        store->part = image;
        store->turn++;
        return;
    }
    if (overlap(&store->part, &image) || memcmp(store->part.hash, image.hash, WIRE_HASH_BYTES) == 0)
        flash_log_drop_part(store);
    struct flash_store_image *former = flash_log_image(store, image.hash);
    if (former != NULL)
        forget(store, former);
    if (store->n_images < BOARD_FRAGMENTS_MAX)
        store->images[store->n_images++] = image;
}

static void apply_removed(struct flash_store *store, const uint8_t *hash)
{
    struct flash_store_image *image = flash_log_image(store, hash);
    if (image != NULL)
        forget(store, image);
    if (memcmp(store->part.hash, hash, WIRE_HASH_BYTES) == 0)
        flash_log_drop_part(store);
}

static void apply(struct flash_store *store, const struct flash_log_record *record)
{
    switch (record->kind) {
    case FLASH_LOG_HEAD:
        store->turn = record->valid;
        break;
    case FLASH_LOG_PART:
    case FLASH_LOG_WHOLE:
        apply_place(store, record);
        break;
    case FLASH_LOG_PROGRESS:
        if (record->valid < store->part.size && record->valid % flash_log_erase_bytes(store) == 0 &&
            memcmp(store->part.hash, record->hash, WIRE_HASH_BYTES) == 0)
            store->part_kept = record->valid;
        break;
    case FLASH_LOG_REMOVED:
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
    return store->place.log_bytes / 2 / FLASH_LOG_RECORD_BYTES;
}

static uint32_t at_record(const struct flash_store *store, uint32_t half, uint32_t index)
{
    return store->place.log + half * (store->place.log_bytes / 2) + index * FLASH_LOG_RECORD_BYTES;
}

/* False: not a record. */
static bool get(const struct flash_store *store, uint32_t half, uint32_t index,
                struct flash_log_record *record, uint32_t *sequence)
{
    const uint8_t *bytes = store->flash->base + at_record(store, half, index);
    uint32_t kind = le_get32(bytes) ^ MAGIC;
    if (kind == 0 || kind >= FLASH_LOG_KINDS || le_get32(bytes + 60) != flash_crc32(0, bytes, 60))
        return false;
    record->kind = (enum flash_log_kind)kind;
    record->first = le_get32(bytes + 4);
    record->size = le_get32(bytes + 8);
    record->valid = le_get32(bytes + 12);
    memcpy(record->hash, bytes + 16, WIRE_HASH_BYTES);
    *sequence = le_get32(bytes + 48);
    return true;
}

static int program(const struct flash_store *store, uint32_t half, uint32_t index, uint32_t sequence,
                   const struct flash_log_record *record)
{
    uint8_t bytes[FLASH_LOG_RECORD_BYTES] = {0};
    le_put32(bytes, MAGIC ^ (uint32_t)record->kind);
    le_put32(bytes + 4, record->first);
    le_put32(bytes + 8, record->size);
    le_put32(bytes + 12, record->valid);
    memcpy(bytes + 16, record->hash, WIRE_HASH_BYTES);
    le_put32(bytes + 48, sequence);
    le_put32(bytes + 60, flash_crc32(0, bytes, 60));
    return flash_program(store->flash, at_record(store, half, index), bytes, FLASH_LOG_RECORD_BYTES);
}

/* Into the first record from *next on that takes it; *next is then behind it. STATUS_FLASH_FULL: none. */
static int append_from(const struct flash_store *store, uint32_t half, uint32_t sequence, uint32_t *next,
                       const struct flash_log_record *record)
{
    while (*next < records_of(store)) {
        uint32_t index = (*next)++;
        if (flash_blank(store->flash, at_record(store, half, index), FLASH_LOG_RECORD_BYTES) &&
            program(store, half, index, sequence, record) == STATUS_OK)
            return STATUS_OK;
    }
    return STATUS_FLASH_FULL;
}

struct flash_log_record flash_log_record_of(enum flash_log_kind kind, const struct flash_store_image *image)
{
    struct flash_log_record record = {.kind = kind, .first = image->first, .size = image->size};
    memcpy(record.hash, image->hash, WIRE_HASH_BYTES);
    return record;
}

/* All that is known, as records from `next` on in the new half. */
static int write_state(const struct flash_store *store, uint32_t half, uint32_t sequence, uint32_t *next)
{
    struct flash_log_record record;
    int status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < sizeof store->bad / WIRE_HASH_BYTES; i++) {
        static const uint8_t none[WIRE_HASH_BYTES];
        record = (struct flash_log_record){.kind = FLASH_LOG_BAD, .first = i};
        memcpy(record.hash, store->bad + i * WIRE_HASH_BYTES, WIRE_HASH_BYTES);
        if (memcmp(record.hash, none, sizeof none) != 0)
            status = append_from(store, half, sequence, next, &record);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < store->n_images; i++) {
        record = flash_log_record_of(FLASH_LOG_WHOLE, &store->images[i]);
        status = append_from(store, half, sequence, next, &record);
    }
    if (status != STATUS_OK || store->part.size == 0)
        return status;
    record = flash_log_record_of(FLASH_LOG_PART, &store->part);
    status = append_from(store, half, sequence, next, &record);
    record = flash_log_record_of(FLASH_LOG_PROGRESS, &store->part);
    record.valid = store->part_kept;
    return status == STATUS_OK && store->part_kept > 0 ? append_from(store, half, sequence, next, &record)
                                                       : status;
}

/* The other half anew: what is known, the new record, and last the HEAD. What an erase left behind
 * is of another number, and is stepped over. */
static int turn_over(struct flash_store *store, const struct flash_log_record *record)
{
    uint32_t half = store->half == 0 ? 1 : 0, bytes = store->place.log_bytes / 2, next = 1, head_at = 0;
    uint32_t sequence = store->sequence + 1;
    struct flash_log_record head = {.kind = FLASH_LOG_HEAD, .valid = store->turn};
    for (uint32_t at = 0; at < bytes; at += flash_log_erase_bytes(store))
        (void)flash_erase(store->flash, at_record(store, half, 0) + at, flash_log_erase_bytes(store));
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

int flash_log_append(struct flash_store *store, const struct flash_log_record *record)
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

/* ---- reading ---- */

/* The number of a half, from its newest HEAD; false: it has none. */
static bool half_number(const struct flash_store *store, uint32_t half, uint32_t *sequence)
{
    struct flash_log_record record;
    uint32_t number;
    bool there = false;
    for (uint32_t i = 0; i < records_of(store); i++)
        if (get(store, half, i, &record, &number) && record.kind == FLASH_LOG_HEAD &&
            (!there || (int32_t)(number - *sequence) > 0)) {
            *sequence = number;
            there = true;
        }
    return there;
}

static void replay(struct flash_store *store)
{
    struct flash_log_record record;
    uint32_t sequence;
    store->next = 1;
    for (uint32_t i = 0; i < records_of(store); i++) {
        if (!get(store, store->half, i, &record, &sequence) || sequence != store->sequence)
            continue;
        apply(store, &record);
        store->next = i + 1;
    }
}

void flash_log_read(struct flash_store *store)
{
    uint32_t number[2] = {0, 0};
    store->half = NO_HALF;
    bool there[2] = {half_number(store, 0, &number[0]), half_number(store, 1, &number[1])};
    if (!there[0] && !there[1])
        return;
    store->half = !there[0] || (there[1] && (int32_t)(number[1] - number[0]) > 0);
    store->sequence = number[store->half];
    replay(store);
}
