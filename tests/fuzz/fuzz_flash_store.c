/*
 * Any bytes as the log of a fragment store: it opens, and what it then says is consistent (images within the
 * flash, none overlapping, none twice); pushes and removals go on from there, and a restart agrees. The first
 * byte of the input says whether the CRCs of records are made right, so that what lies behind them is
 * reached; the rest is the log.
 */
#include "firmware/core/flash_store.h"
#include "firmware/core/sha256.h"
#include "shared/base/le.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/nor_flash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ERASE = 4096, LOG = 16384, SECTORS = 24, FLASH = SECTORS * ERASE, RECORD = 64 };
static const struct flash_store_place place = {0, LOG, LOG, FLASH};

static void repair(uint8_t *log)
{
    for (uint32_t at = 0; at < LOG; at += RECORD)
        le_put32(log + at + 60, flash_crc32(0, log + at, 60));
}

/* Images held, or 65 and more: something is wrong. */
static uint32_t check(struct flash_store *store, const struct board_store *fs, const uint8_t *base)
{
    uint8_t taken[SECTORS] = {0}, hash[WIRE_HASH_BYTES];
    uint32_t size, found, n = 0, used = 0;
    const uint8_t *bytes;
    for (; fs->list(fs->context, n, hash, &size) == 0; n++) {
        assert(fs->find(fs->context, hash, &bytes, &found) == 0 && found == size && size > 0);
        uint32_t first = (uint32_t)(bytes - base) - LOG;
        assert(bytes >= base + LOG && first % ERASE == 0 && first <= FLASH && size <= FLASH - first);
        for (uint32_t at = first / ERASE; at * ERASE < first + size; at++) {
            assert(taken[at] == 0);
            taken[at] = 1;
            used++;
        }
    }
    assert(n <= BOARD_FRAGMENTS_MAX && store->n_images == n);
    if (!store->part_open)
        assert(fs->used(fs->context) == used * ERASE);
    assert(fs->capacity(fs->context) <= FLASH);
    return n;
}

/* Pushes an image of `size` bytes; true when there was room. */
static bool push(const struct board_store *fs, uint32_t size, uint8_t fill)
{
    static uint8_t bytes[FLASH];
    uint8_t hash[WIRE_HASH_BYTES];
    struct board_sha256 sha;
    uint32_t valid;
    memset(bytes, fill, size);
    board_sha256_begin(&sha);
    board_sha256_add(&sha, bytes, size);
    board_sha256_end(&sha, hash);
    int status = fs->begin(fs->context, hash, size, &valid);
    assert(status == 0 || status == STATUS_FLASH_FULL);
    if (status != 0)
        return false;
    assert(valid <= size);
    status = fs->write(fs->context, valid, bytes + valid, size - valid);
    assert(status == 0);
    status = fs->commit(fs->context); /* a part that "was there" may be of another content: then not */
    assert(status == 0 || (status == STATUS_HASH_MISMATCH && valid > 0));
    return status == 0;
}

static void use(struct flash_store *store, const struct board_store *fs, const uint8_t *base)
{
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size, before = check(store, fs, base);
    bool pushed = push(fs, 3 * ERASE + 5, 7);
    assert(check(store, fs, base) <= before + pushed);
    if (fs->list(fs->context, 0, hash, &size) == 0) {
        before = check(store, fs, base);
        assert(fs->remove(fs->context, hash) == 0);
        assert(check(store, fs, base) == before - 1);
    }
    (void)push(fs, 100, 9);
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct nor_flash nor;
    struct flash_store store, again;
    if (size == 0)
        return;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 4 * ERASE);
    memcpy(nor.bytes, bytes + 1, size - 1 < LOG ? size - 1 : LOG);
    if (bytes[0] % 4 != 0)
        repair(nor.bytes);
    assert(flash_store_open(&store, &nor.flash, &place) == 0);
    struct board_store fs = flash_store_functions(&store);
    use(&store, &fs, nor.bytes);
    assert(flash_store_open(&again, &nor.flash, &place) == 0);
    struct board_store fs_again = flash_store_functions(&again);
    assert(check(&again, &fs_again, nor.bytes) == check(&store, &fs, nor.bytes));
    assert(fs_again.capacity(&again) == fs.capacity(&store));
    for (uint32_t i = 0; i < store.n_images; i++) {
        const uint8_t *found;
        uint32_t n;
        assert(fs_again.find(&again, store.images[i].hash, &found, &n) == 0 && n == store.images[i].size);
    }
    nor_flash_free(&nor);
}

/* Logs that stores have written: pushes, removals, a broken push, a bad block, a log that was turned over. */
size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    struct nor_flash nor;
    struct flash_store store;
    if (i >= 6 || room < LOG + 1)
        return 0;
    nor_flash_new(&nor, LOG + FLASH, ERASE, 4 * ERASE);
    if (i % 3 == 1)
        nor_flash_bad(&nor, LOG / ERASE + 2);
    assert(flash_store_open(&store, &nor.flash, &place) == 0);
    struct board_store fs = flash_store_functions(&store);
    uint8_t hash[WIRE_HASH_BYTES] = {1};
    uint32_t valid, size;
    for (uint32_t round = 0; round < (i % 3 == 2 ? 80 : 2); round++) {
        for (uint32_t image = 0; image < 4; image++)
            if (fs.begin(fs.context, hash, 4000 * image + 900, &valid) == 0) {
                static const uint8_t some[20000];
                (void)fs.write(fs.context, valid, some, image == 3 ? 12000 : 100);
            }
        if (i % 3 != 1)
            (void)push(&fs, 9000, (uint8_t)round);
        if (round % 2 == 1 && fs.list(fs.context, 0, hash, &size) == 0)
            (void)fs.remove(fs.context, hash);
    }
    out[0] = i / 3 == 0 ? 1 : 0;
    memcpy(out + 1, nor.bytes, LOG);
    nor_flash_free(&nor);
    return LOG + 1;
}
