/*
 * The fragment image: one board's program and weights, a verified binary. ENCODING A defines it; this header
 * fixes its bytes. Little-endian, every section aligned to 16, records readable in place. A fragment's
 * identity is the SHA-256 of the whole image, kept outside it.
 *
 * Sections in this order: header, ranges, views, code, transfers, params, slices (the weight table), weights.
 */
#ifndef SHOAL_SHARED_FRAGMENT_FRAGMENT_H
#define SHOAL_SHARED_FRAGMENT_FRAGMENT_H

#include "shared/base/status.h"
#include "shared/nn/nn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAGMENT_VERSION = 1,
    FRAGMENT_NONE = 0xFFFF, /* no range, view, params, slice */
    FRAGMENT_NO_LOOP = 0xFF,
    FRAGMENT_LOOPS_MAX = 4,        /* nesting and counters */
    FRAGMENT_PARENTS_MAX = 4,      /* length of a chain of parent ranges */
    FRAGMENT_REGION_ARENA = 0,     /* views into the arena */
    FRAGMENT_REGION_WEIGHTS = 255, /* views into the weights section: constants, read only */
    FRAGMENT_EXECUTIONS_MAX = 1000000,
    FRAGMENT_ALIGN = 16
};
#define FRAGMENT_NOT_RESIDENT 0xFFFFFFFFu /* resident_offset of a slice that is read from flash */

enum fragment_op {
    FRAGMENT_LOOP,
    FRAGMENT_END,
    FRAGMENT_CONV,
    FRAGMENT_DW,
    FRAGMENT_POOL,
    FRAGMENT_SUM,
    FRAGMENT_ADD,
    FRAGMENT_MUL,
    FRAGMENT_LUT,
    FRAGMENT_COPY,
    FRAGMENT_RESIZE,
    FRAGMENT_SOFTMAX,
    FRAGMENT_ZERO,
    FRAGMENT_FINISH,
    FRAGMENT_SEND,
    FRAGMENT_POST,
    FRAGMENT_WAIT,
    FRAGMENT_RECV,
    FRAGMENT_OP_COUNT
};

/* Forms (bits). ACC: CONV adds into int32; POST and RECV add arriving sums into the view. */
enum fragment_form { FRAGMENT_FORM_ACC = 1, FRAGMENT_FORM_BCAST_PIXEL = 2, FRAGMENT_FORM_BCAST_SCALAR = 4 };

/* How a transfer's elements travel: int8, int32 sums as 3 or 4 bytes. */
enum fragment_wire { FRAGMENT_WIRE_I8, FRAGMENT_WIRE_I24, FRAGMENT_WIRE_I32 };

enum fragment_section {
    FRAGMENT_RANGES,
    FRAGMENT_VIEWS,
    FRAGMENT_CODE,
    FRAGMENT_TRANSFERS,
    FRAGMENT_PARAMS,
    FRAGMENT_SLICES,
    FRAGMENT_WEIGHTS,
    FRAGMENT_SECTIONS
};

struct fragment_header { /* 128 bytes */
    uint8_t magic[4];    /* "SHFR" */
    uint16_t version;
    uint16_t party;          /* 1.. */
    uint32_t image_bytes;    /* of the whole image */
    uint32_t arena_bytes;    /* all views of region 0 and kernel scratch lie below */
    uint32_t peak_bytes;     /* the plan's, for information */
    uint32_t executions;     /* instructions executed in one run, LOOP and END not counted */
    uint32_t ranks;          /* ranks are below this */
    uint32_t resident_bytes; /* RAM for resident weights */
    struct {
        uint32_t offset, count; /* count of records; of bytes for the weights */
    } section[FRAGMENT_SECTIONS];
    uint8_t plan[32]; /* the plan's hash */
    uint8_t reserved[8];
};
_Static_assert(sizeof(struct fragment_header) == 128, "format");

struct fragment_range { /* 24 bytes; see ENCODING A */
    int32_t a, b0, b1;
    uint16_t div, lo, hi, parent; /* parent: an earlier range or FRAGMENT_NONE */
    uint8_t loop;                 /* counter 0..3 or FRAGMENT_NO_LOOP (then a is 0) */
    uint8_t reserved[3];
};
_Static_assert(sizeof(struct fragment_range) == 24, "format");

struct fragment_view {     /* 40 bytes */
    uint32_t offset;       /* of element (start, start, start) in the region */
    uint32_t row_stride;   /* bytes */
    uint32_t pixel_stride; /* bytes */
    uint16_t tensor;       /* number for the data check and for people; views of one tensor agree */
    uint8_t region, elem;  /* elem: 1 or 4 */
    uint16_t rows;         /* rows held: row h lies in slot (h - start(h0)) mod rows */
    uint16_t w_cap, c_cap;
    uint16_t h, w, c;    /* of the whole tensor */
    uint16_t h0, w0, c0; /* ranges whose clamped start is the origin, or FRAGMENT_NONE: 0 */
    /* For the data check only, where this view shows channels [part_c, part_c + c) and rows from part_h on of
     * a wider tensor `tensor` with part_c_of channels (a slice, a concatenation without copying); 0, 0, 0:
     * the whole tensor. Views of one tensor may have other dimensions of the same element order (RESHAPE). */
    uint16_t part_c, part_c_of, part_h;
};
_Static_assert(sizeof(struct fragment_view) == 40, "format");

/* SEND reads in[0]; POST, RECV write out; ZERO has only out. A box needs h, w and c; CONV and SUM also need
 * k. An instruction with an empty h, w, c (or, where it only adds, k) is skipped and not counted. What an
 * operator does not use is FRAGMENT_NONE. */
struct fragment_code { /* 32 bytes */
    uint8_t op, form;
    uint8_t loop; /* LOOP: its counter */
    uint8_t reserved;
    uint16_t params; /* index of a params record or FRAGMENT_NONE */
    uint16_t in[2], out,
        scratch;      /* views or FRAGMENT_NONE; scratch: bytes side by side, by weights' layout */
    uint16_t h, w, c; /* ranges of the output box (SEND, POST, RECV: of the transfer's box) */
    uint16_t k;       /* range of input channels (CONV) or input rows (SUM) */
    uint16_t slice;   /* weights, table or bias: index or FRAGMENT_NONE */
    uint16_t layer;   /* the graph's operator, for people and times; FRAGMENT_NONE: none */
    uint32_t arg;     /* LOOP: count; SEND, POST, RECV: index into transfers; WAIT: rank */
};
_Static_assert(sizeof(struct fragment_code) == 32, "format");

/* The table is sorted by rank, then id; programs begin the transfers of a link and direction in that order.
 */
struct fragment_transfer { /* 28 bytes */
    uint16_t id;           /* number on the link, 0.. */
    uint16_t exchange;
    uint32_t rank;
    uint16_t from, to; /* parties */
    uint8_t wire;      /* enum fragment_wire */
    uint8_t reserved[3];
    uint16_t h0, h1, w0, w1, c0, c1; /* the whole transfer's box; by rows in a loop they add up to it */
};
_Static_assert(sizeof(struct fragment_transfer) == 28, "format");

struct fragment_slice {       /* 80 bytes */
    uint32_t offset;          /* in the weights section, multiple of 16 */
    uint32_t bytes;           /* of the values; then, each aligned to 4: mantissas, shifts, biases (int32) */
    uint16_t c0, c1, k0, k1;  /* output and input channels that it covers */
    uint16_t k_block;         /* input channels of a block; see struct nn_weights */
    uint8_t layout;           /* enum nn_layout */
    uint8_t kind;             /* enum fragment_slice_kind */
    uint32_t kernel;          /* kernel_h * kernel_w, for the bounds check */
    uint32_t total_bytes;     /* values aligned to 4, mantissas, shifts, biases; TABLE, CONSTANT: bytes */
    uint32_t resident_offset; /* in the resident weights' RAM, multiple of 16; or FRAGMENT_NOT_RESIDENT */
    uint8_t sha256[32];       /* of total_bytes at offset */
    uint8_t reserved[16];
};
_Static_assert(sizeof(struct fragment_slice) == 80, "format");

/* CONV, DW carry multipliers and biases; FINISH slices carry only them (bytes 0); TABLE is 256 bytes;
 * CONSTANT is what a view of region 255 points into. */
enum fragment_slice_kind {
    FRAGMENT_SLICE_CONV,
    FRAGMENT_SLICE_DW,
    FRAGMENT_SLICE_FINISH,
    FRAGMENT_SLICE_TABLE,
    FRAGMENT_SLICE_CONSTANT
};

/* An opened image: pointers into the caller's bytes, which stay where they are while it is used. */
struct fragment {
    const uint8_t *bytes;
    const struct fragment_header *header;
    const struct fragment_range *ranges;
    const struct fragment_view *views;
    const struct fragment_code *code;
    const struct fragment_transfer *transfers;
    const struct nn_params *params;
    const struct fragment_slice *slices;
    const uint8_t *weights;
    uint16_t n_ranges, n_views, n_code, n_transfers, n_params, n_slices;
    uint32_t weight_bytes;
};

/* Where a refusal lies. */
struct fragment_place {
    uint16_t record;    /* index in its section */
    uint8_t section;    /* enum fragment_section */
    const char *reason; /* static text */
};

/* Opens an image at an address aligned to 16: checks magic, version, sizes, section bounds and alignment, and
 * every index and enumerator in every record (STATUS_FRAGMENT_MALFORMED with the place). What a program does
 * is the business of vm_check. `size` may be larger than the image. */
int fragment_open(struct fragment *fragment, const uint8_t *bytes, size_t size, struct fragment_place *place);

/* Values, mantissas, shifts, biases of a slice as a kernel takes them; `resident` is the resident weights'
 * RAM or NULL to read everything from the image. */
struct nn_weights fragment_weights(const struct fragment *fragment, uint16_t slice, const uint8_t *resident);

/* Bytes on the wire of the whole transfer; fragment_open refuses more than UINT32_MAX. */
uint64_t fragment_transfer_bytes(const struct fragment_transfer *transfer);

/* ---- writer: ask for the size, give the memory ---- */

/* Sizes of the sections to be written, and the header's own fields. */
struct fragment_layout {
    uint16_t n_ranges, n_views, n_code, n_transfers, n_params, n_slices;
    uint32_t weight_bytes;
};
size_t fragment_image_bytes(const struct fragment_layout *layout);
/* Pointers into an image under construction, to be filled in place. Zeroes the image and writes the header's
 * magic, version, sizes and section table. */
struct fragment_writer {
    struct fragment_header *header;
    struct fragment_range *ranges;
    struct fragment_view *views;
    struct fragment_code *code;
    struct fragment_transfer *transfers;
    struct nn_params *params;
    struct fragment_slice *slices;
    uint8_t *weights;
};
int fragment_write(struct fragment_writer *writer, const struct fragment_layout *layout, uint8_t *bytes,
                   size_t size);

#endif
