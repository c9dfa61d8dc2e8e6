/*
 * The FlatBuffers reader. Invariant: an fb_table or fb_vector that a function hands out lies wholly inside
 * the bytes and is aligned, so the element accessors need no checks of their own. Numbers are assembled from
 * bytes: nothing here depends on the host's alignment or byte order.
 */
#include "server/import/flatbuffer.h"

#include <inttypes.h>
#include <string.h>

bool fb_failed(const struct fb *fb)
{
    return fb->status != STATUS_OK;
}

void fb_fault(struct fb *fb, size_t at, const char *what)
{
    if (fb_failed(fb))
        return;
    fb->status = error_set(fb->error, STATUS_MODEL_MALFORMED, "%s at byte %zu of %zu", what, at, fb->size);
    error_at_offset(fb->error, (int64_t)at);
}

static uint64_t load(const struct fb *fb, size_t at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)fb->bytes[at + i] << (8 * i);
    return v;
}

static bool inside(const struct fb *fb, size_t at, size_t bytes)
{
    return at <= fb->size && bytes <= fb->size - at;
}

/* The table at `at`, with its vtable. */
static bool table_at(struct fb *fb, size_t at, struct fb_table *table)
{
    memset(table, 0, sizeof *table);
    if (at % 4 != 0 || !inside(fb, at, 4)) {
        fb_fault(fb, at, "a table lies outside the file or is misaligned");
        return false;
    }
    int64_t vtable = (int64_t)at - (int32_t)(uint32_t)load(fb, at, 4);
    if (vtable < 0 || vtable % 2 != 0 || !inside(fb, (size_t)vtable, 4)) {
        fb_fault(fb, at, "a table's vtable lies outside the file or is misaligned");
        return false;
    }
    struct fb_table t = {.at = at, .vtable = (size_t)vtable};
    t.vtable_bytes = (uint16_t)load(fb, t.vtable, 2);
    t.table_bytes = (uint16_t)load(fb, t.vtable + 2, 2);
    if (t.vtable_bytes < 4 || t.vtable_bytes % 2 != 0 || !inside(fb, t.vtable, t.vtable_bytes)) {
        fb_fault(fb, t.vtable, "a vtable has an impossible length");
        return false;
    }
    if (t.table_bytes < 4 || !inside(fb, at, t.table_bytes)) {
        fb_fault(fb, at, "a table has an impossible length");
        return false;
    }
    *table = t;
    return true;
}

/* Follows the unsigned offset stored at `at` (which lies inside). 0 at a fault. */
static size_t follow(struct fb *fb, size_t at)
{
    size_t offset = (size_t)load(fb, at, 4);
    if (offset == 0 || offset > INT32_MAX || !inside(fb, at, offset)) {
        fb_fault(fb, at, "an offset points outside the file");
        return 0;
    }
    return at + offset;
}

bool fb_root(struct fb *fb, const char *identifier, struct fb_table *table)
{
    memset(table, 0, sizeof *table);
    if (fb->size < 8) {
        fb_fault(fb, 0, "the file ends before its root");
        return false;
    }
    if (memcmp(fb->bytes + 4, identifier, 4) != 0) {
        fb_fault(fb, 4, "the file identifier is missing");
        return false;
    }
    size_t at = follow(fb, 0);
    return at && table_at(fb, at, table);
}

/* Where a field of `bytes` bytes lies; 0 when absent. */
static size_t field_at(struct fb *fb, const struct fb_table *table, int field, size_t bytes)
{
    size_t slot = 4 + 2 * (size_t)field;
    if (fb_failed(fb) || slot + 2 > table->vtable_bytes)
        return 0;
    size_t offset = (size_t)load(fb, table->vtable + slot, 2);
    if (offset == 0)
        return 0;
    if (offset < 4 || offset + bytes > table->table_bytes || (table->at + offset) % bytes != 0) {
        fb_fault(fb, table->vtable + slot, "a field lies outside its table or is misaligned");
        return 0;
    }
    return table->at + offset;
}

static uint64_t scalar(struct fb *fb, const struct fb_table *table, int field, size_t bytes, uint64_t absent)
{
    size_t at = field_at(fb, table, field, bytes);
    return at ? load(fb, at, bytes) : absent;
}

bool fb_bool(struct fb *fb, const struct fb_table *table, int field, bool absent)
{
    return scalar(fb, table, field, 1, absent) != 0;
}

int8_t fb_i8(struct fb *fb, const struct fb_table *table, int field, int8_t absent)
{
    return (int8_t)(uint8_t)scalar(fb, table, field, 1, (uint8_t)absent);
}

uint8_t fb_u8(struct fb *fb, const struct fb_table *table, int field, uint8_t absent)
{
    return (uint8_t)scalar(fb, table, field, 1, absent);
}

int32_t fb_i32(struct fb *fb, const struct fb_table *table, int field, int32_t absent)
{
    return (int32_t)(uint32_t)scalar(fb, table, field, 4, (uint32_t)absent);
}

uint32_t fb_u32(struct fb *fb, const struct fb_table *table, int field, uint32_t absent)
{
    return (uint32_t)scalar(fb, table, field, 4, absent);
}

uint64_t fb_u64(struct fb *fb, const struct fb_table *table, int field, uint64_t absent)
{
    return scalar(fb, table, field, 8, absent);
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float fb_f32(struct fb *fb, const struct fb_table *table, int field, float absent)
{
    size_t at = field_at(fb, table, field, 4);
    return at ? float_of((uint32_t)load(fb, at, 4)) : absent;
}

bool fb_has(struct fb *fb, const struct fb_table *table, int field)
{
    return field_at(fb, table, field, 1) != 0;
}

/* The target of an offset field; 0 when absent or at a fault. */
static size_t target(struct fb *fb, const struct fb_table *table, int field)
{
    size_t at = field_at(fb, table, field, 4);
    return at ? follow(fb, at) : 0;
}

bool fb_child(struct fb *fb, const struct fb_table *table, int field, struct fb_table *out)
{
    memset(out, 0, sizeof *out);
    size_t at = target(fb, table, field);
    return at && table_at(fb, at, out);
}

/* The vector whose length lies at `at`. */
static struct fb_vector vector_at(struct fb *fb, size_t at, uint32_t element_bytes)
{
    struct fb_vector none = {0, 0, element_bytes};
    if (at % 4 != 0 || !inside(fb, at, 4)) {
        fb_fault(fb, at, "a vector lies outside the file or is misaligned");
        return none;
    }
    uint32_t count = (uint32_t)load(fb, at, 4);
    if (count > (fb->size - at - 4) / element_bytes) {
        fb_fault(fb, at, "a vector is longer than the file");
        return none;
    }
    if (count > 0 && (at + 4) % element_bytes != 0) {
        fb_fault(fb, at, "a vector's elements are misaligned");
        return none;
    }
    return (struct fb_vector){at + 4, count, element_bytes};
}

struct fb_vector fb_vector(struct fb *fb, const struct fb_table *table, int field, uint32_t element_bytes)
{
    size_t at = target(fb, table, field);
    return at ? vector_at(fb, at, element_bytes) : (struct fb_vector){0, 0, element_bytes};
}

bool fb_vector_child(struct fb *fb, const struct fb_vector *vector, uint32_t i, struct fb_table *out)
{
    memset(out, 0, sizeof *out);
    if (fb_failed(fb) || i >= vector->count)
        return false;
    size_t at = follow(fb, vector->at + 4 * (size_t)i);
    return at && table_at(fb, at, out);
}

int32_t fb_vector_i32(const struct fb *fb, const struct fb_vector *vector, uint32_t i)
{
    return (int32_t)(uint32_t)load(fb, vector->at + 4 * (size_t)i, 4);
}

int64_t fb_vector_i64(const struct fb *fb, const struct fb_vector *vector, uint32_t i)
{
    return (int64_t)load(fb, vector->at + 8 * (size_t)i, 8);
}

float fb_vector_f32(const struct fb *fb, const struct fb_vector *vector, uint32_t i)
{
    return float_of((uint32_t)load(fb, vector->at + 4 * (size_t)i, 4));
}

const char *fb_string(struct fb *fb, const struct fb_table *table, int field, size_t *length)
{
    *length = 0;
    size_t at = target(fb, table, field);
    if (!at)
        return NULL;
    struct fb_vector v = vector_at(fb, at, 1);
    if (fb_failed(fb))
        return NULL;
    if (!inside(fb, v.at + v.count, 1) || fb->bytes[v.at + v.count] != 0) {
        fb_fault(fb, at, "a string has no end");
        return NULL;
    }
    *length = v.count;
    return (const char *)fb->bytes + v.at;
}
