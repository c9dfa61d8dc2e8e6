/*
 * The host board's flash: fragments as files in one folder. `<hash>` is a whole image, `<hash>.part` one that
 * is being written. Whatever instant the process is killed at, the next start finds whole images and at most
 * a part that goes on where it was. Sizes count in blocks of HOST_STORE_BLOCK against the capacity.
 */
#ifndef SHOAL_FIRMWARE_PORT_HOST_STORE_H
#define SHOAL_FIRMWARE_PORT_HOST_STORE_H

#include "firmware/core/board.h"

enum { HOST_STORE_BLOCK = 4096, HOST_STORE_MAX = 256 };

struct host_store_image {
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size;
    const uint8_t *bytes; /* mapped, read only */
};

struct host_store {
    int folder; /* descriptor */
    uint32_t capacity;
    struct host_store_image images[HOST_STORE_MAX];
    uint32_t n_images;
    int part; /* descriptor of the image being written, -1: none */
    uint8_t part_hash[WIRE_HASH_BYTES];
    uint32_t part_size, part_valid;
};

/* Opens (makes) the folder `path`. 0, STATUS_IO_FAILED with errno. */
int host_store_open(struct host_store *store, const char *path, uint32_t capacity);
void host_store_close(struct host_store *store);
/* The functions that the board wants; valid as long as the store is open. */
struct board_store host_store_functions(struct host_store *store);

#endif
