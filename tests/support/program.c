/* The assembler of hand-written programs: see the header. */
#include "tests/support/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *what, int record)
{
    (void)fprintf(stderr, "program: %s (record %d)\n", what, record);
    abort();
}

struct program *program_new(uint16_t party)
{
    struct program *p = calloc(1, sizeof *p);
    if (!p)
        fail("out of memory", 0);
    p->party = party;
    return p;
}

void program_free(struct program *program)
{
    free(program->weights);
    free(program);
}

static uint16_t next(uint16_t *count)
{
    if (*count == PROGRAM_RECORDS_MAX)
        fail("too many records", *count);
    return (*count)++;
}

uint16_t program_range(struct program *program, struct fragment_range range)
{
    uint16_t i = next(&program->n_ranges);
    program->ranges[i] = range;
    return i;
}

uint16_t program_span(struct program *program, int32_t lo, int32_t hi)
{
    struct fragment_range range = {.b0 = lo,
                                   .b1 = hi,
                                   .div = 1,
                                   .lo = (uint16_t)lo,
                                   .hi = (uint16_t)hi,
                                   .parent = FRAGMENT_NONE,
                                   .loop = FRAGMENT_NO_LOOP};
    for (uint16_t i = 0; i < program->n_ranges; i++)
        if (memcmp(&program->ranges[i], &range, sizeof range) == 0)
            return i;
    return program_range(program, range);
}

uint16_t program_view(struct program *program, struct fragment_view view)
{
    uint16_t i = next(&program->n_views);
    program->views[i] = view;
    return i;
}

uint16_t program_params(struct program *program, struct nn_params params)
{
    for (uint16_t i = 0; i < program->n_params; i++)
        if (memcmp(&program->params[i], &params, sizeof params) == 0)
            return i;
    uint16_t i = next(&program->n_params);
    program->params[i] = params;
    return i;
}

uint16_t program_slice(struct program *program, struct fragment_slice slice, const void *values,
                       uint32_t bytes, const int32_t *scales)
{
    uint32_t at = (program->weight_bytes + 15) / 16 * 16, n = (uint32_t)(slice.c1 - slice.c0);
    uint32_t scales_at = (bytes + 3) / 4 * 4;
    slice.offset = at;
    slice.bytes = bytes;
    slice.total_bytes = scales ? scales_at + 12 * n : bytes;
    slice.resident_offset = FRAGMENT_NOT_RESIDENT;
    uint32_t end = at + slice.total_bytes;
    program->weights = realloc(program->weights, end + 1);
    if (!program->weights)
        fail("out of memory", program->n_slices);
    memset(program->weights + program->weight_bytes, 0, end - program->weight_bytes);
    program->weight_bytes = end;
    if (bytes > 0)
        memcpy(program->weights + at, values, bytes);
    if (scales)
        memcpy(program->weights + at + scales_at, scales, 12 * (size_t)n);
    uint16_t i = next(&program->n_slices);
    program->slices[i] = slice;
    return i;
}

uint16_t program_transfer(struct program *program, struct fragment_transfer transfer)
{
    uint16_t i = next(&program->n_transfers);
    program->transfers[i] = transfer;
    if (transfer.rank >= program->ranks)
        program->ranks = transfer.rank + 1;
    return i;
}

struct fragment_code program_op(enum fragment_op op)
{
    return (struct fragment_code){.op = (uint8_t)op,
                                  .params = FRAGMENT_NONE,
                                  .in = {FRAGMENT_NONE, FRAGMENT_NONE},
                                  .out = FRAGMENT_NONE,
                                  .scratch = FRAGMENT_NONE,
                                  .h = FRAGMENT_NONE,
                                  .w = FRAGMENT_NONE,
                                  .c = FRAGMENT_NONE,
                                  .k = FRAGMENT_NONE,
                                  .slice = FRAGMENT_NONE,
                                  .layer = FRAGMENT_NONE};
}

uint16_t program_code(struct program *program, struct fragment_code code)
{
    uint16_t i = next(&program->n_code);
    program->code[i] = code;
    return i;
}

void program_loop(struct program *program, uint8_t counter, uint32_t count)
{
    struct fragment_code code = program_op(FRAGMENT_LOOP);
    code.loop = counter;
    code.arg = count;
    program_code(program, code);
}

void program_end(struct program *program)
{
    program_code(program, program_op(FRAGMENT_END));
}

void program_wait(struct program *program, uint32_t rank)
{
    struct fragment_code code = program_op(FRAGMENT_WAIT);
    code.arg = rank;
    program_code(program, code);
}

void program_move(struct program *program, enum fragment_op op, uint16_t view, uint16_t transfer,
                  uint8_t form)
{
    const struct fragment_transfer *t = &program->transfers[transfer];
    struct fragment_code code = program_op(op);
    code.form = form;
    code.h = program_span(program, t->h0, t->h1);
    code.w = program_span(program, t->w0, t->w1);
    code.c = program_span(program, t->c0, t->c1);
    code.arg = transfer;
    if (op == FRAGMENT_SEND)
        code.in[0] = view;
    else
        code.out = view;
    program_code(program, code);
}

uint8_t *program_image(const struct program *program, struct fragment *fragment)
{
    struct fragment_layout layout = {program->n_ranges,    program->n_views,  program->n_code,
                                     program->n_transfers, program->n_params, program->n_slices,
                                     program->weight_bytes};
    size_t size = fragment_image_bytes(&layout);
    uint8_t *bytes = malloc(size);
    struct fragment_writer w;
    if (!bytes || fragment_write(&w, &layout, bytes, size) != STATUS_OK)
        fail("no image", 0);
    w.header->party = program->party;
    w.header->arena_bytes = w.header->peak_bytes = program->arena_bytes;
    w.header->ranks = program->ranks;
    memcpy(w.ranges, program->ranges, program->n_ranges * sizeof *w.ranges);
    memcpy(w.views, program->views, program->n_views * sizeof *w.views);
    memcpy(w.code, program->code, program->n_code * sizeof *w.code);
    memcpy(w.transfers, program->transfers, program->n_transfers * sizeof *w.transfers);
    memcpy(w.params, program->params, program->n_params * sizeof *w.params);
    memcpy(w.slices, program->slices, program->n_slices * sizeof *w.slices);
    if (program->weight_bytes > 0)
        memcpy(w.weights, program->weights, program->weight_bytes);
    struct fragment_place place;
    if (fragment_open(fragment, bytes, size, &place) != STATUS_OK)
        fail(place.reason, place.record);
    if (vm_count(fragment, &w.header->executions) != STATUS_OK)
        fail("executes too much", 0);
    return bytes;
}
