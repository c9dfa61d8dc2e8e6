/* Regions as a list of blocks; each block at least BLOCK_BYTES, larger for a large request. */
#include "server/base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

struct block {
    struct block *next;
    size_t size, used;
    _Alignas(ALIGN) unsigned char bytes[];
};

struct arena {
    struct block *blocks;
    size_t limit, used;
};

struct arena *arena_new(size_t limit_bytes)
{
    struct arena *arena = calloc(1, sizeof *arena);
    if (arena)
        arena->limit = limit_bytes;
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (struct block *b = arena->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(arena);
}

static struct block *block_for(struct arena *arena, size_t size)
{
    struct block *b = arena->blocks;
    if (b && b->size - b->used >= size)
        return b;
    size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    b = calloc(1, sizeof *b + room);
    if (!b)
        return NULL;
    b->size = room;
    b->next = arena->blocks;
    arena->blocks = b;
    return b;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX - ALIGN) / size)
        return NULL;
    size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes == 0)
        bytes = ALIGN;
    if (bytes > arena->limit - arena->used)
        return NULL;
    struct block *b = block_for(arena, bytes);
    if (!b)
        return NULL;
    void *p = b->bytes + b->used;
    b->used += bytes;
    arena->used += bytes;
    return p;
}

void *arena_copy(struct arena *arena, const void *bytes, size_t size)
{
    void *p = arena_alloc(arena, size, 1);
    if (p && size)
        memcpy(p, bytes, size);
    return p;
}

/* n, or less by a character of UTF-8 whose end lies behind n. */
static size_t whole_characters(const char *text, size_t n)
{
    size_t first = n;
    while (first > 0 && n - first < 3 && ((unsigned char)text[first - 1] & 0xC0) == 0x80)
        first--;
    if (first == 0)
        return n;
    unsigned char lead = (unsigned char)text[first - 1];
    size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return n - (first - 1) < bytes ? first - 1 : n;
}

char *arena_string(struct arena *arena, const char *text, size_t max)
{
    size_t n = strnlen(text, max);
    if (n == max)
        n = whole_characters(text, n);
    char *p = arena_alloc(arena, n + 1, 1);
    if (p)
        memcpy(p, text, n);
    return p;
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}
