/*
 * Reading FlatBuffers from strangers. Every offset is checked where it is followed: bounds, alignment,
 * vtables, vector lengths, strings. The reader is sticky: after the first fault every access answers "absent"
 * and fb->error holds the cause with its byte offset, so that callers check fb_failed() where it suits them.
 * There is no recursion here: depth is what the caller walks. Borrowed bytes; one thread.
 */
#ifndef SHOAL_SERVER_IMPORT_FLATBUFFER_H
#define SHOAL_SERVER_IMPORT_FLATBUFFER_H

#include "server/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fb {
    const unsigned char *bytes;
    size_t size;
    struct error *error; /* never NULL */
    int status;          /* 0, or STATUS_MODEL_MALFORMED after the first fault */
};

/* All zero is an absent table, in which every field is absent. */
struct fb_table {
    size_t at, vtable;
    uint16_t vtable_bytes, table_bytes;
};

/* `at` is the first element; all zero is an absent vector. */
struct fb_vector {
    size_t at;
    uint32_t count, element_bytes;
};

bool fb_failed(const struct fb *fb);
/* Records a fault at a byte offset. */
void fb_fault(struct fb *fb, size_t at, const char *what);

/* The root table; the four bytes at offset 4 must be `identifier`. False on a fault. */
bool fb_root(struct fb *fb, const char *identifier, struct fb_table *table);

/* Scalars; `absent` when the field is not there. */
bool fb_bool(struct fb *fb, const struct fb_table *table, int field, bool absent);
int8_t fb_i8(struct fb *fb, const struct fb_table *table, int field, int8_t absent);
uint8_t fb_u8(struct fb *fb, const struct fb_table *table, int field, uint8_t absent);
int32_t fb_i32(struct fb *fb, const struct fb_table *table, int field, int32_t absent);
uint32_t fb_u32(struct fb *fb, const struct fb_table *table, int field, uint32_t absent);
uint64_t fb_u64(struct fb *fb, const struct fb_table *table, int field, uint64_t absent);
float fb_f32(struct fb *fb, const struct fb_table *table, int field, float absent);

/* Whether the field is there. */
bool fb_has(struct fb *fb, const struct fb_table *table, int field);

/* A table behind a field; false when absent or at a fault (then *out is an absent table). */
bool fb_child(struct fb *fb, const struct fb_table *table, int field, struct fb_table *out);

/* A vector of scalars of 1, 2, 4 or 8 bytes, or of offsets (4). Absent: count 0. */
struct fb_vector fb_vector(struct fb *fb, const struct fb_table *table, int field, uint32_t element_bytes);
bool fb_vector_child(struct fb *fb, const struct fb_vector *vector, uint32_t i, struct fb_table *out);
int32_t fb_vector_i32(const struct fb *fb, const struct fb_vector *vector, uint32_t i); /* i < count */
int64_t fb_vector_i64(const struct fb *fb, const struct fb_vector *vector, uint32_t i);
float fb_vector_f32(const struct fb *fb, const struct fb_vector *vector, uint32_t i);

/* A string: not zero-terminated to the caller, though the file must have the zero. Absent: NULL and length 0.
 */
const char *fb_string(struct fb *fb, const struct fb_table *table, int field, size_t *length);

#endif
