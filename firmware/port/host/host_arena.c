/*
 * One mapping: a guard page, the pages of the arena, a guard page. The arena's end touches the second guard,
 * so that the first byte beyond it faults; what its first page holds before the arena is at most 4,080 bytes.
 */
#include "firmware/port/host/host_arena.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int host_arena_open(struct host_arena *arena, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (size + page - 1) / page * page;
    memset(arena, 0, sizeof *arena);
    uint8_t *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return -1;
    }
    if (mprotect(map + page, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, inner + 2 * page);
        return -1;
    }
    arena->map = map;
    arena->map_size = inner + 2 * page;
    arena->bytes = map + page + inner - size;
    arena->size = size;
    return 0;
}

void host_arena_close(struct host_arena *arena)
{
    if (arena->map != NULL) {
        munmap(arena->map, arena->map_size);
    }
    memset(arena, 0, sizeof *arena);
}
