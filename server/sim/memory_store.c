/*
 * Keeps to the letter of struct board_store: writes only in order, commit only with the right hash, a broken
 * push can be taken up where it stood.
 */
#include "server/sim/memory_store.h"

#include "server/base/hash.h"

#include <stdlib.h>
#include <string.h>

static struct memory_image *image_of(struct memory_store *store, const uint8_t *hash)
{
    for (int i = 0; i < MEMORY_STORE_IMAGES; i++)
        if (store->images[i].bytes != NULL && memcmp(store->images[i].hash, hash, WIRE_HASH_BYTES) == 0)
            return &store->images[i];
    return NULL;
}

static struct memory_image *free_image(struct memory_store *store)
{
    for (int i = 0; i < MEMORY_STORE_IMAGES; i++)
        if (store->images[i].bytes == NULL)
            return &store->images[i];
    return NULL;
}

static uint32_t used(void *context)
{
    struct memory_store *store = context;
    uint32_t sum = store->writing.bytes != NULL ? store->writing.size : 0;
    for (int i = 0; i < MEMORY_STORE_IMAGES; i++)
        if (store->images[i].bytes != NULL)
            sum += store->images[i].size;
    return sum;
}

static uint32_t capacity(void *context)
{
    return ((struct memory_store *)context)->capacity;
}

static int find(void *context, const uint8_t hash[WIRE_HASH_BYTES], const uint8_t **bytes, uint32_t *size)
{
    const struct memory_image *image = image_of(context, hash);
    if (image == NULL)
        return STATUS_NOT_FOUND;
    *bytes = image->bytes;
    *size = image->size;
    return STATUS_OK;
}

static void drop_writing(struct memory_store *store)
{
    free(store->writing.bytes);
    store->writing.bytes = NULL;
    store->valid = 0;
}

static uint8_t *aligned(uint32_t size)
{
    return aligned_alloc(16, ((size_t)size + 15) / 16 * 16);
}

static int begin(void *context, const uint8_t hash[WIRE_HASH_BYTES], uint32_t size, uint32_t *valid)
{
    struct memory_store *store = context;
    bool same = store->writing.bytes != NULL && store->writing.size == size &&
                memcmp(store->writing.hash, hash, WIRE_HASH_BYTES) == 0;
    *valid = 0;
    if (!same) {
        drop_writing(store);
        if (size > store->capacity - used(store))
            return STATUS_FLASH_FULL;
        store->writing.bytes = aligned(size);
        if (store->writing.bytes == NULL)
            return STATUS_NO_MEMORY;
        store->writing.size = size;
        memcpy(store->writing.hash, hash, WIRE_HASH_BYTES);
    }
    *valid = store->valid;
    return STATUS_OK;
}

static int write_bytes(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    struct memory_store *store = context;
    if (store->writing.bytes == NULL || offset != store->valid || n > store->writing.size - offset)
        return STATUS_STORE_FAILED;
    if (store->fail_write_at > 0 && offset + n >= store->fail_write_at)
        return STATUS_IO_FAILED;
    memcpy(store->writing.bytes + offset, bytes, n);
    store->valid += n;
    return STATUS_OK;
}

static int read_bytes(void *context, uint32_t offset, uint8_t *bytes, uint32_t n)
{
    const struct memory_store *store = context;
    if (store->writing.bytes == NULL || offset > store->valid || n > store->valid - offset)
        return STATUS_STORE_FAILED;
    memcpy(bytes, store->writing.bytes + offset, n);
    return STATUS_OK;
}

static int commit(void *context)
{
    struct memory_store *store = context;
    struct memory_image *image = free_image(store);
    uint8_t hash[HASH_BYTES];
    if (store->writing.bytes == NULL || store->valid != store->writing.size || image == NULL)
        return STATUS_STORE_FAILED;
    hash_sha256(store->writing.bytes, store->writing.size, hash);
    if (memcmp(hash, store->writing.hash, HASH_BYTES) != 0) {
        drop_writing(store);
        return STATUS_HASH_MISMATCH;
    }
    *image = store->writing;
    store->writing.bytes = NULL;
    store->valid = 0;
    return STATUS_OK;
}

static int remove_image(void *context, const uint8_t hash[WIRE_HASH_BYTES])
{
    struct memory_store *store = context;
    struct memory_image *image = image_of(store, hash);
    if (image != NULL) {
        free(image->bytes);
        image->bytes = NULL;
        return STATUS_OK;
    }
    if (store->writing.bytes == NULL || memcmp(store->writing.hash, hash, WIRE_HASH_BYTES) != 0)
        return STATUS_NOT_FOUND;
    drop_writing(store);
    return STATUS_OK;
}

static int list(void *context, uint32_t i, uint8_t hash[WIRE_HASH_BYTES], uint32_t *size)
{
    const struct memory_store *store = context;
    for (int k = 0; k < MEMORY_STORE_IMAGES; k++)
        if (store->images[k].bytes != NULL && i-- == 0) {
            memcpy(hash, store->images[k].hash, WIRE_HASH_BYTES);
            *size = store->images[k].size;
            return STATUS_OK;
        }
    return STATUS_NOT_FOUND;
}

struct board_store memory_store_open(struct memory_store *store, uint32_t bytes)
{
    memset(store, 0, sizeof *store);
    store->capacity = bytes;
    return (struct board_store){store,  find,         begin, write_bytes, read_bytes,
                                commit, remove_image, list,  capacity,    used};
}

void memory_store_close(struct memory_store *store)
{
    for (int i = 0; i < MEMORY_STORE_IMAGES; i++)
        free(store->images[i].bytes);
    drop_writing(store);
}

int memory_store_add(struct memory_store *store, const uint8_t *bytes, uint32_t size,
                     const uint8_t hash[WIRE_HASH_BYTES])
{
    struct memory_image *image = free_image(store);
    if (image_of(store, hash) != NULL)
        return STATUS_OK;
    if (image == NULL || size > store->capacity - used(store))
        return STATUS_FLASH_FULL;
    image->bytes = aligned(size);
    if (image->bytes == NULL)
        return STATUS_NO_MEMORY;
    memcpy(image->bytes, bytes, size);
    memcpy(image->hash, hash, WIRE_HASH_BYTES);
    image->size = size;
    return STATUS_OK;
}
