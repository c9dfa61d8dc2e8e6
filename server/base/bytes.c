/* The growable run of bytes. Sizes are compared with what is left before anything grows; capacity doubles and
 * never passes the limit. The first failure is kept and stops all later appends. */
#include "server/base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bytes_init(struct bytes *bytes, size_t limit)
{
    *bytes = (struct bytes){.limit = limit};
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){.limit = bytes->limit};
}

uint8_t *bytes_take(struct bytes *bytes, size_t *size)
{
    uint8_t *data = NULL;
    *size = 0;
    if (bytes->status == STATUS_OK && (data = bytes->data ? bytes->data : malloc(1))) {
        *size = bytes->size;
        bytes->data = NULL;
    }
    bytes_free(bytes);
    return data;
}

/* Room for n more bytes; NULL with status set. */
static uint8_t *extend(struct bytes *bytes, size_t n)
{
    if (bytes->status != STATUS_OK)
        return NULL;
    if (n > bytes->limit - bytes->size) {
        bytes->status = STATUS_TOO_LARGE;
        return NULL;
    }
    if (n > bytes->capacity - bytes->size || !bytes->data) {
        size_t capacity = bytes->capacity ? bytes->capacity : 256;
        while (capacity - bytes->size < n)
            capacity = capacity > bytes->limit / 2 ? bytes->limit : capacity * 2;
        uint8_t *data = realloc(bytes->data, capacity ? capacity : 1);
        if (!data) {
            bytes->status = STATUS_NO_MEMORY;
            return NULL;
        }
        bytes->data = data;
        bytes->capacity = capacity;
    }
    uint8_t *at = bytes->data + bytes->size;
    bytes->size += n;
    return at;
}

int bytes_append(struct bytes *bytes, const void *from, size_t n)
{
    uint8_t *at = extend(bytes, n);
    if (at && n)
        memcpy(at, from, n);
    return bytes->status;
}

int bytes_zero(struct bytes *bytes, size_t n)
{
    uint8_t *at = extend(bytes, n);
    if (at && n)
        memset(at, 0, n);
    return bytes->status;
}

int bytes_align(struct bytes *bytes, size_t to)
{
    return bytes_zero(bytes, (to - bytes->size % to) % to);
}

int bytes_put8(struct bytes *bytes, uint8_t v)
{
    return bytes_append(bytes, &v, 1);
}

int bytes_put16(struct bytes *bytes, uint16_t v)
{
    uint8_t *at = extend(bytes, 2);
    if (at)
        le_put16(at, v);
    return bytes->status;
}

int bytes_put32(struct bytes *bytes, uint32_t v)
{
    uint8_t *at = extend(bytes, 4);
    if (at)
        le_put32(at, v);
    return bytes->status;
}

int bytes_put64(struct bytes *bytes, uint64_t v)
{
    uint8_t *at = extend(bytes, 8);
    if (at)
        le_put64(at, v);
    return bytes->status;
}

int bytes_printf(struct bytes *bytes, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    /* vsnprintf wants room for its NUL: take one byte more and give it back. */
    uint8_t *at = n < 0 ? NULL : extend(bytes, (size_t)n + 1);
    if (at) {
        (void)vsnprintf((char *)at, (size_t)n + 1, format, again);
        bytes->size--;
    }
    va_end(again);
    return bytes->status;
}
