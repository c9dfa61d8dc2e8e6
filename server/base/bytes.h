/*
 * A growable run of bytes with a cap. Appending never fails half way: either all of it is in, or `status` is
 * set and stays, later appends do nothing, and the writer checks once at the end. One owner, no locks.
 * Little-endian numbers at any address: shared/base/le.h, included here.
 */
#ifndef SHOAL_SERVER_BASE_BYTES_H
#define SHOAL_SERVER_BASE_BYTES_H

#include "shared/base/le.h"
#include "shared/base/status.h"

#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data; /* malloc'ed, `size` bytes valid; NULL while empty */
    size_t size, capacity, limit;
    int status; /* 0, STATUS_TOO_LARGE or STATUS_NO_MEMORY; the first one stays */
};

/* `limit` is the largest size in bytes. */
void bytes_init(struct bytes *bytes, size_t limit);
void bytes_free(struct bytes *bytes); /* also of a struct that is all zero */
/* The bytes, malloc'ed and the caller's to free (never NULL with status 0); the struct is empty after. NULL
 * and *size 0 when status is set. */
uint8_t *bytes_take(struct bytes *bytes, size_t *size);

/* Each returns `status`. */
int bytes_append(struct bytes *bytes, const void *from, size_t n);
int bytes_zero(struct bytes *bytes, size_t n);
int bytes_align(struct bytes *bytes, size_t to); /* zeros up to a multiple of `to` */
int bytes_put8(struct bytes *bytes, uint8_t v);
int bytes_put16(struct bytes *bytes, uint16_t v);
int bytes_put32(struct bytes *bytes, uint32_t v);
int bytes_put64(struct bytes *bytes, uint64_t v);
int bytes_printf(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
