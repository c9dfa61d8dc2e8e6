/*
 * A small assembler for hand-written programs: records are appended in any order and answered by index, then
 * program_image() lays them out, states the executions and opens the result. A slip in a test's program (too
 * many records, an image that does not open) ends the process with a message, so that tests need no checks.
 */
#ifndef SHOAL_TESTS_SUPPORT_PROGRAM_H
#define SHOAL_TESTS_SUPPORT_PROGRAM_H

#include "shared/vm/vm.h"

enum { PROGRAM_RECORDS_MAX = 1024 };

struct program {
    struct fragment_range ranges[PROGRAM_RECORDS_MAX];
    struct fragment_view views[PROGRAM_RECORDS_MAX];
    struct fragment_code code[PROGRAM_RECORDS_MAX];
    struct fragment_transfer transfers[PROGRAM_RECORDS_MAX];
    struct nn_params params[PROGRAM_RECORDS_MAX];
    struct fragment_slice slices[PROGRAM_RECORDS_MAX];
    uint16_t n_ranges, n_views, n_code, n_transfers, n_params, n_slices;
    uint8_t *weights;
    uint32_t weight_bytes;
    uint16_t party;
    uint32_t arena_bytes, ranks;
};

/* Empty, for a party; the caller's to free with program_free. */
struct program *program_new(uint16_t party);
void program_free(struct program *program);

/* Each appends a record and answers its index. */
uint16_t program_range(struct program *program, struct fragment_range range);
/* [lo, hi), without counter. */
uint16_t program_span(struct program *program, int32_t lo, int32_t hi);
uint16_t program_view(struct program *program, struct fragment_view view);
uint16_t program_params(struct program *program, struct nn_params params);
/* kind, c0, c1, k0, k1, k_block and kernel are the caller's; sizes and places are set here. `scales` holds
 * mantissas, shifts and biases, c1 - c0 of each (NULL for tables and constants). */
uint16_t program_slice(struct program *program, struct fragment_slice slice, const void *values,
                       uint32_t bytes, const int32_t *scales);
/* Ranks grow by themselves. */
uint16_t program_transfer(struct program *program, struct fragment_transfer transfer);

/* An instruction that uses nothing yet. */
struct fragment_code program_op(enum fragment_op op);
uint16_t program_code(struct program *program, struct fragment_code code);
void program_loop(struct program *program, uint8_t counter, uint32_t count);
void program_end(struct program *program);
void program_wait(struct program *program, uint32_t rank);
/* SEND, POST or RECV of a transfer through a view over its whole box. */
void program_move(struct program *program, enum fragment_op op, uint16_t view, uint16_t transfer,
                  uint8_t form);

/* The image, malloc'ed, opened as *fragment. */
uint8_t *program_image(const struct program *program, struct fragment *fragment);

#endif
