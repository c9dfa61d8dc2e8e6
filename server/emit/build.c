/*
 * Growing sections of a fragment. Ranges, views and parameters are looked up before they are added, so that a
 * section holds no two equal records; the order is that of first use, hence deterministic. Numbers are 16
 * bits wide: a section that would pass 65,534 records is an error and not a wrap.
 */
#include "server/emit/build.h"

#include "server/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS_MAX = FRAGMENT_NONE - 1 };

void image_drop(struct image *image)
{
    free(image->ranges.items);
    free(image->views.items);
    free(image->code.items);
    free(image->transfers.items);
    free(image->params.items);
    free(image->slices.items);
    free(image->weights);
    *image = (struct image){0};
}

static void fail(struct image *image, int status)
{
    if (image->status == 0)
        image->status = status;
}

static uint16_t add(struct image *image, struct image_vector *vector, const void *record, size_t size)
{
    if (image->status < 0)
        return 0;
    if (vector->n >= RECORDS_MAX) {
        fail(image, STATUS_MODEL_LIMIT);
        return 0;
    }
    if (vector->n == vector->cap) {
        uint32_t cap = vector->cap ? 2 * vector->cap : 64;
        void *items = realloc(vector->items, cap * size);
        if (!items) {
            fail(image, STATUS_NO_MEMORY);
            return 0;
        }
        vector->items = items;
        vector->cap = cap;
    }
    memcpy((uint8_t *)vector->items + vector->n * size, record, size);
    return (uint16_t)vector->n++;
}

static uint16_t add_once(struct image *image, struct image_vector *vector, const void *record, size_t size)
{
    for (uint32_t i = vector->n; i-- > 0;)
        if (memcmp((const uint8_t *)vector->items + i * size, record, size) == 0)
            return (uint16_t)i;
    return add(image, vector, record, size);
}

uint16_t image_range(struct image *image, int32_t lo, int32_t hi)
{
    struct fragment_range range;
    memset(&range, 0, sizeof range);
    range.b0 = lo;
    range.b1 = hi;
    range.div = 1;
    range.lo = (uint16_t)lo;
    range.hi = (uint16_t)hi;
    range.parent = FRAGMENT_NONE;
    range.loop = FRAGMENT_NO_LOOP;
    return image_range_of(image, &range);
}

uint16_t image_range_of(struct image *image, const struct fragment_range *range)
{
    return add_once(image, &image->ranges, range, sizeof *range);
}

uint16_t image_view(struct image *image, const struct fragment_view *view)
{
    return add_once(image, &image->views, view, sizeof *view);
}

uint16_t image_params(struct image *image, const struct nn_params *params)
{
    return add_once(image, &image->params, params, sizeof *params);
}

void image_code(struct image *image, const struct fragment_code *code)
{
    add(image, &image->code, code, sizeof *code);
}

void image_box(struct image *image, struct fragment_code *code, struct box box)
{
    code->h = image_range(image, box.h0, box.h1);
    code->w = image_range(image, box.w0, box.w1);
    code->c = image_range(image, box.c0, box.c1);
}

uint16_t image_transfer(struct image *image, const struct fragment_transfer *transfer)
{
    return add(image, &image->transfers, transfer, sizeof *transfer);
}

static bool reserve_weights(struct image *image, uint64_t bytes)
{
    uint64_t needed = image->weight_bytes + bytes;
    if (needed > INT32_MAX) {
        fail(image, STATUS_MODEL_LIMIT);
        return false;
    }
    if (needed > image->weight_cap) {
        uint32_t cap = (uint32_t)(needed < INT32_MAX / 2 ? 2 * needed : needed);
        uint8_t *weights = realloc(image->weights, cap);
        if (!weights) {
            fail(image, STATUS_NO_MEMORY);
            return false;
        }
        image->weights = weights;
        image->weight_cap = cap;
    }
    memset(image->weights + image->weight_bytes, 0, (size_t)bytes);
    return true;
}

uint16_t image_slice(struct image *image, struct fragment_slice *slice, bool resident, uint8_t **at)
{
    uint32_t room = (slice->total_bytes + FRAGMENT_ALIGN - 1) / FRAGMENT_ALIGN * FRAGMENT_ALIGN;
    *at = NULL;
    if (image->status < 0 || !reserve_weights(image, room))
        return 0;
    slice->offset = image->weight_bytes;
    slice->resident_offset = FRAGMENT_NOT_RESIDENT;
    if (resident) {
        slice->resident_offset = image->resident_bytes;
        image->resident_bytes += room;
    }
    uint16_t index = add(image, &image->slices, slice, sizeof *slice);
    *at = image->weights + image->weight_bytes;
    image->weight_bytes += room;
    return index;
}

struct fragment_slice *image_slice_at(struct image *image, uint16_t index)
{
    return (struct fragment_slice *)image->slices.items + index;
}

static void copy_section(void *to, const struct image_vector *vector, size_t size)
{
    if (vector->n)
        memcpy(to, vector->items, vector->n * size);
}

uint8_t *image_write(struct image *image, uint32_t *size, struct error *error)
{
    if (image->status < 0) {
        error_set(error, image->status, "a fragment has more records than its numbers can count");
        return NULL;
    }
    struct fragment_layout layout = {(uint16_t)image->ranges.n, (uint16_t)image->views.n,
                                     (uint16_t)image->code.n,   (uint16_t)image->transfers.n,
                                     (uint16_t)image->params.n, (uint16_t)image->slices.n,
                                     image->weight_bytes};
    size_t bytes = fragment_image_bytes(&layout);
    uint8_t *out =
        aligned_alloc(FRAGMENT_ALIGN, (bytes + FRAGMENT_ALIGN - 1) / FRAGMENT_ALIGN * FRAGMENT_ALIGN);
    struct fragment_writer writer;
    if (!out || fragment_write(&writer, &layout, out, bytes) < 0) {
        error_set(error, STATUS_NO_MEMORY, "no memory for a fragment of %zu bytes", bytes);
        free(out);
        return NULL;
    }
    copy_section(writer.ranges, &image->ranges, sizeof *writer.ranges);
    copy_section(writer.views, &image->views, sizeof *writer.views);
    copy_section(writer.code, &image->code, sizeof *writer.code);
    copy_section(writer.transfers, &image->transfers, sizeof *writer.transfers);
    copy_section(writer.params, &image->params, sizeof *writer.params);
    copy_section(writer.slices, &image->slices, sizeof *writer.slices);
    if (image->weight_bytes)
        memcpy(writer.weights, image->weights, image->weight_bytes);
    for (uint32_t i = 0; i < image->slices.n; i++)
        hash_sha256(writer.weights + writer.slices[i].offset, writer.slices[i].total_bytes,
                    writer.slices[i].sha256);
    writer.header->resident_bytes = image->resident_bytes;
    *size = (uint32_t)bytes;
    return out;
}
