/*
 * The board: everything a worker does, on any hardware. Session over a transport, fragment store over a flash,
 * walker, life signs. No malloc, no OS, no I/O of its own: hardware stands behind structs of functions.
 *
 * A port owns `struct board`, gives it memory, and calls board_poll() in a loop; board_poll does a bounded piece of
 * work (at most one kernel call) and returns how long the port may sleep.
 */
#ifndef SHOAL_FIRMWARE_CORE_BOARD_H
#define SHOAL_FIRMWARE_CORE_BOARD_H

#include "shared/vm/vm.h"
#include "shared/wire/wire.h"

/* An established, authenticated byte stream (TLS under it). recv and send return bytes moved, 0 for "not now", or
 * a negative status when the link is gone. `send` takes whole frames: all of it or 0. */
struct board_transport {
    void *context;
    int32_t (*send)(void *context, const uint8_t *bytes, uint32_t n);
    int32_t (*recv)(void *context, uint8_t *bytes, uint32_t n);
};

struct board_clock {
    void *context;
    uint64_t (*now_us)(void *context);
};

/* Where fragments last. An image that `commit` accepted is readable at the pointer `find` gives until it is removed.
 * All return 0 or a negative status. */
struct board_store {
    void *context;
    int (*find)(void *context, const uint8_t hash[WIRE_HASH_BYTES], const uint8_t **bytes, uint32_t *size);
    /* Opens (or reopens after a broken push) an image of `size` bytes; *valid is how many leading bytes are there. */
    int (*begin)(void *context, const uint8_t hash[WIRE_HASH_BYTES], uint32_t size, uint32_t *valid);
    int (*write)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t n);
    int (*read)(void *context, uint32_t offset, uint8_t *bytes, uint32_t n); /* of the image being written */
    int (*commit)(void *context); /* checks the hash of the whole image: STATUS_HASH_MISMATCH drops it */
    int (*remove)(void *context, const uint8_t hash[WIRE_HASH_BYTES]);
    /* The i-th image held, 0.. ; STATUS_NOT_FOUND past the last. */
    int (*list)(void *context, uint32_t i, uint8_t hash[WIRE_HASH_BYTES], uint32_t *size);
    uint32_t (*capacity)(void *context);
    uint32_t (*used)(void *context);
};

struct board_region {
    const char *name;      /* "arena", "weights", "network", "stack" */
    uint32_t bytes;
    uint32_t high_water;
};

#endif
