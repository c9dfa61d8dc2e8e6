/*
 * Fragments as files. A part grows by writes in order, so its length is what is valid of it. Commit syncs it,
 * checks its hash, renames it and syncs the folder: an image under its final name is whole, on the disk, and
 * what it claims.
 */
#include "firmware/port/host/host_store.h"

#include "server/base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = HASH_HEX_BYTES + 8 };

static void image_name(const uint8_t hash[WIRE_HASH_BYTES], const char *end, char out[NAME_BYTES])
{
    char hex[HASH_HEX_BYTES];
    hash_hex(hash, hex);
    snprintf(out, NAME_BYTES, "%s%s", hex, end);
}

static uint32_t blocks(uint32_t size)
{
    return (size + HOST_STORE_BLOCK - 1) / HOST_STORE_BLOCK * HOST_STORE_BLOCK;
}

/* What errno says about a write. */
static int failed(void)
{
    return errno == ENOSPC || errno == EDQUOT ? STATUS_FLASH_FULL : STATUS_IO_FAILED;
}

static struct host_store_image *image_at(struct host_store *store, const uint8_t hash[WIRE_HASH_BYTES])
{
    for (uint32_t i = 0; i < store->n_images; i++) {
        if (memcmp(store->images[i].hash, hash, WIRE_HASH_BYTES) == 0) {
            return &store->images[i];
        }
    }
    return NULL;
}

/* Maps the file of a whole image and adds it. */
static int image_add(struct host_store *store, const uint8_t hash[WIRE_HASH_BYTES])
{
    char name[NAME_BYTES];
    struct stat st;
    image_name(hash, "", name);
    if (store->n_images == HOST_STORE_MAX) {
        return STATUS_FLASH_FULL;
    }
    int fd = openat(store->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return STATUS_IO_FAILED;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > (off_t)UINT32_MAX / 2) {
        close(fd);
        return STATUS_IO_FAILED;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        return STATUS_IO_FAILED;
    }
    struct host_store_image *image = &store->images[store->n_images++];
    memcpy(image->hash, hash, WIRE_HASH_BYTES);
    image->size = (uint32_t)st.st_size;
    image->bytes = map;
    return 0;
}

/* Forgets the part that is being written; `keep` leaves its file for later. */
static void part_close(struct host_store *store, bool keep)
{
    char name[NAME_BYTES];
    if (store->part < 0) {
        return;
    }
    close(store->part);
    store->part = -1;
    if (!keep) {
        image_name(store->part_hash, ".part", name);
        unlinkat(store->folder, name, 0);
    }
}

/* Removes the files of parts, but for that of `hash` (NULL: of all). */
static void parts_remove(struct host_store *store, const char *except)
{
    int fd = openat(store->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t n = strlen(entry->d_name);
        if (n > 5 && strcmp(entry->d_name + n - 5, ".part") == 0 && strcmp(entry->d_name, except) != 0) {
            unlinkat(store->folder, entry->d_name, 0);
        }
    }
    closedir(folder);
}

/* ---- the board's functions ---- */

static int store_find(void *context, const uint8_t hash[WIRE_HASH_BYTES], const uint8_t **bytes,
                      uint32_t *size)
{
    const struct host_store_image *image = image_at(context, hash);
    if (image == NULL) {
        return STATUS_NOT_FOUND;
    }
    *bytes = image->bytes;
    *size = image->size;
    return 0;
}

static uint32_t store_used(void *context)
{
    const struct host_store *store = context;
    uint32_t used = store->part >= 0 ? blocks(store->part_size) : 0;
    for (uint32_t i = 0; i < store->n_images; i++) {
        used += blocks(store->images[i].size);
    }
    return used;
}

static uint32_t store_capacity(void *context)
{
    const struct host_store *store = context;
    return store->capacity;
}

static int store_begin(void *context, const uint8_t hash[WIRE_HASH_BYTES], uint32_t size, uint32_t *valid)
{
    struct host_store *store = context;
    char name[NAME_BYTES];
    struct stat st;
    image_name(hash, ".part", name);
    if (store->part >= 0) {
        part_close(store, memcmp(store->part_hash, hash, WIRE_HASH_BYTES) == 0);
    }
    parts_remove(store, name);
    if (size == 0 || size > store->capacity || blocks(size) > store->capacity - store_used(store) ||
        store->n_images == HOST_STORE_MAX) {
        return STATUS_FLASH_FULL;
    }
    int fd = openat(store->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return failed();
    }
    if (fstat(fd, &st) != 0 || (st.st_size > (off_t)size && ftruncate(fd, 0) != 0)) {
        close(fd);
        return STATUS_IO_FAILED;
    }
    store->part = fd;
    store->part_size = size;
    store->part_valid = st.st_size > (off_t)size ? 0 : (uint32_t)st.st_size;
    memcpy(store->part_hash, hash, WIRE_HASH_BYTES);
    *valid = store->part_valid;
    return 0;
}

static int store_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n)
{
    struct host_store *store = context;
    if (store->part < 0 || offset != store->part_valid || n > store->part_size - offset) {
        return STATUS_WIRE_ORDER;
    }
    while (n != 0) {
        ssize_t done = pwrite(store->part, bytes, n, (off_t)store->part_valid);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return failed();
        }
        store->part_valid += (uint32_t)done;
        bytes += done;
        n -= (uint32_t)done;
    }
    return 0;
}

static int store_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t n)
{
    struct host_store *store = context;
    if (store->part < 0 || offset > store->part_valid || n > store->part_valid - offset) {
        return STATUS_INVALID_ARGUMENT;
    }
    while (n != 0) {
        ssize_t done = pread(store->part, bytes, n, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return STATUS_IO_FAILED;
        }
        bytes += done;
        offset += (uint32_t)done;
        n -= (uint32_t)done;
    }
    return 0;
}

static int part_hash(struct host_store *store, uint8_t out[HASH_BYTES])
{
    uint8_t block[16384];
    struct hash hash;
    hash_begin(&hash);
    for (uint32_t at = 0; at < store->part_valid;) {
        uint32_t n = store->part_valid - at < sizeof block ? store->part_valid - at : (uint32_t)sizeof block;
        int status = store_read(store, at, block, n);
        if (status != 0) {
            hash_end(&hash, out);
            return status;
        }
        hash_add(&hash, block, n);
        at += n;
    }
    hash_end(&hash, out);
    return 0;
}

static int store_commit(void *context)
{
    struct host_store *store = context;
    uint8_t hash[HASH_BYTES];
    char part[NAME_BYTES], whole[NAME_BYTES];
    if (store->part < 0) {
        return STATUS_WIRE_ORDER;
    }
    if (fsync(store->part) != 0) {
        return STATUS_IO_FAILED;
    }
    int status = part_hash(store, hash);
    if (status != 0) {
        return status;
    }
    if (store->part_valid != store->part_size || memcmp(hash, store->part_hash, HASH_BYTES) != 0) {
        part_close(store, false);
        return STATUS_HASH_MISMATCH;
    }
    image_name(store->part_hash, ".part", part);
    image_name(store->part_hash, "", whole);
    part_close(store, true);
    if (renameat(store->folder, part, store->folder, whole) != 0 || fsync(store->folder) != 0) {
        return STATUS_IO_FAILED;
    }
    return image_add(store, hash);
}

static int store_remove(void *context, const uint8_t hash[WIRE_HASH_BYTES])
{
    struct host_store *store = context;
    char name[NAME_BYTES];
    if (store->part >= 0 && memcmp(store->part_hash, hash, WIRE_HASH_BYTES) == 0) {
        part_close(store, false);
        return 0;
    }
    struct host_store_image *image = image_at(store, hash);
    if (image == NULL) {
        return STATUS_NOT_FOUND;
    }
    image_name(hash, "", name);
    if (unlinkat(store->folder, name, 0) != 0 && errno != ENOENT) {
        return STATUS_IO_FAILED;
    }
    munmap((void *)(uintptr_t)image->bytes, image->size);
    *image = store->images[--store->n_images];
    return fsync(store->folder) == 0 ? 0 : STATUS_IO_FAILED;
}

static int store_list(void *context, uint32_t i, uint8_t hash[WIRE_HASH_BYTES], uint32_t *size)
{
    const struct host_store *store = context;
    if (i >= store->n_images) {
        return STATUS_NOT_FOUND;
    }
    memcpy(hash, store->images[i].hash, WIRE_HASH_BYTES);
    *size = store->images[i].size;
    return 0;
}

struct board_store host_store_functions(struct host_store *store)
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

/* ---- open and close ---- */

int host_store_open(struct host_store *store, const char *path, uint32_t capacity)
{
    memset(store, 0, sizeof *store);
    store->part = -1;
    store->capacity = capacity;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        store->folder = -1;
        return STATUS_IO_FAILED;
    }
    store->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = store->folder < 0 ? -1 : openat(store->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        host_store_close(store);
        return STATUS_IO_FAILED;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        uint8_t hash[HASH_BYTES];
        if (hash_from_hex(entry->d_name, hash)) {
            image_add(store, hash); /* a file that cannot be mapped is as if it were not there */
        }
    }
    closedir(folder);
    return 0;
}

void host_store_close(struct host_store *store)
{
    part_close(store, true);
    while (store->n_images != 0) {
        struct host_store_image *image = &store->images[--store->n_images];
        munmap((void *)(uintptr_t)image->bytes, image->size);
    }
    if (store->folder >= 0) {
        close(store->folder);
    }
    store->folder = -1;
}
