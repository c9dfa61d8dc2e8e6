/* A stretch of memory of exactly `bytes`, between two pages that may not be touched. */
#ifndef SHOAL_FIRMWARE_PORT_HOST_ARENA_H
#define SHOAL_FIRMWARE_PORT_HOST_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct host_arena {
    uint8_t *bytes; /* aligned to 16; ends at the guard page */
    size_t size;
    void *map;
    size_t map_size;
};

/* `size` is a multiple of 16. 0 or -1 with errno. */
int host_arena_open(struct host_arena *arena, size_t size);
void host_arena_close(struct host_arena *arena);

#endif
