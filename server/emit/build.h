/*
 * A fragment image under construction: records are added, equal ones once, and then laid out. Not for other
 * modules.
 */
#ifndef SHOAL_SERVER_EMIT_BUILD_H
#define SHOAL_SERVER_EMIT_BUILD_H

#include "server/base/error.h"
#include "server/model/box.h"
#include "shared/fragment/fragment.h"

struct image_vector {
    void *items;
    uint32_t n, cap;
};

struct image {
    struct image_vector ranges, views, code, transfers, params, slices;
    uint8_t *weights; /* malloc'ed */
    uint32_t weight_bytes, weight_cap;
    uint32_t resident_bytes;
    int status; /* the first thing that went wrong: STATUS_NO_MEMORY or STATUS_MODEL_LIMIT */
};

void image_drop(struct image *image);

/* Index of [lo, hi). */
uint16_t image_range(struct image *image, int32_t lo, int32_t hi);
uint16_t image_range_of(struct image *image, const struct fragment_range *range);
/* Index of the record, added if there is no equal one. */
uint16_t image_view(struct image *image, const struct fragment_view *view);
uint16_t image_params(struct image *image, const struct nn_params *params);
void image_code(struct image *image, const struct fragment_code *code);
/* Sets h, w, c of an instruction. */
void image_box(struct image *image, struct fragment_code *code, struct box box);
uint16_t image_transfer(struct image *image, const struct fragment_transfer *transfer);
/* Adds a slice of slice->total_bytes, zeroed, and sets its offset; *at is where to write them, until the next
 * call. Its hash is set by image_write. With `resident` it also gets a place in the resident weights. */
uint16_t image_slice(struct image *image, struct fragment_slice *slice, bool resident, uint8_t **at);
struct fragment_slice *image_slice_at(struct image *image, uint16_t index);

/* The laid-out image, malloc'ed; NULL with `error` set. Header fields that the image does not know (party,
 * arena, peak, ranks, executions, plan) are the caller's to set. */
uint8_t *image_write(struct image *image, uint32_t *size, struct error *error);

#endif
