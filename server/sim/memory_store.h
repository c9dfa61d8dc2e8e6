/* A flash for virtual boards: images in memory, with a capacity, and one image that is being written. */
#ifndef SHOAL_SERVER_SIM_MEMORY_STORE_H
#define SHOAL_SERVER_SIM_MEMORY_STORE_H

#include "firmware/core/board.h"

enum { MEMORY_STORE_IMAGES = BOARD_FRAGMENTS_MAX };

struct memory_image {
    uint8_t hash[WIRE_HASH_BYTES];
    uint8_t *bytes; /* aligned to 16; NULL: free */
    uint32_t size;
};

struct memory_store {
    struct memory_image images[MEMORY_STORE_IMAGES];
    struct memory_image writing;
    uint32_t valid; /* of the image being written */
    uint32_t capacity;
    uint32_t fail_write_at; /* tests: the write that reaches this many bytes fails; 0: none */
};

struct board_store memory_store_open(struct memory_store *store, uint32_t capacity);
void memory_store_close(struct memory_store *store);
int memory_store_add(struct memory_store *store, const uint8_t *bytes, uint32_t size,
                     const uint8_t hash[WIRE_HASH_BYTES]);

#endif
