/*
 * A region of memory that is given back as a whole: graphs and plans are built in one. Not for activations: a
 * board's arena is a different thing, at offsets fixed by the plan. One owner, no locks.
 */
#ifndef SHOAL_SERVER_BASE_ARENA_H
#define SHOAL_SERVER_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena;

/* `limit_bytes` caps the sum of all allocations. NULL: out of memory. */
struct arena *arena_new(size_t limit_bytes);
void arena_free(struct arena *arena); /* NULL is allowed */

/* Zeroed, aligned to 16; NULL when the limit or the memory is used up, or when count * size overflows. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
/* Copies of bytes and of a string (at most max bytes of it; no character of UTF-8 is cut in two). */
void *arena_copy(struct arena *arena, const void *bytes, size_t size);
char *arena_string(struct arena *arena, const char *text, size_t max);
size_t arena_used(const struct arena *arena);

#endif
