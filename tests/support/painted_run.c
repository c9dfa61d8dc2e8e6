/*
 * One virtual machine, served at once: what it posts is filled from the inputs, what it sends is taken. The
 * exchange buffers are whole tensors.
 */
#include "tests/support/painted_run.h"

#include "shared/vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 512 };

struct bench {
    const struct plan *plan;
    struct fragment fragment;
    int8_t **buffers; /* of each exchange */
    uint8_t *memory, *resident;
    struct vm_tables tables;
};

static void move(struct bench *bench, const struct vm_slot *slot)
{
    const struct fragment_transfer *t = &bench->fragment.transfers[slot->transfer];
    struct shape shape = bench->plan->table.exchanges[t->exchange].shape;
    if (t->h1 > shape.h) /* one row, arriving as one column */
        shape = (struct shape){shape.w, shape.h, shape.c};
    struct box box = {slot->box.h0, slot->box.h1, slot->box.w0, slot->box.w1, slot->box.c0, slot->box.c1};
    uint32_t at = 0, run = (uint32_t)(box.c1 - box.c0);
    uint8_t carry[4] = {0};
    for (int32_t h = box.h0; h < box.h1; h++)
        for (int32_t w = box.w0; w < box.w1; w++, at += run) {
            int8_t *element = bench->buffers[t->exchange] + ((int64_t)h * shape.w + w) * shape.c + box.c0;
            if (t->from)
                vm_slot_get(slot, at, (uint8_t *)element, run);
            else
                vm_slot_put(slot, at, (const uint8_t *)element, run, carry);
        }
}

static int begin(void *context, const struct vm_slot *slot)
{
    move(context, slot);
    return 0;
}

static int waited(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

static void fill_resident(struct bench *bench)
{
    bench->resident = aligned_alloc(16, (bench->fragment.header->resident_bytes + 16u) / 16 * 16);
    for (uint16_t i = 0; i < bench->fragment.n_slices; i++) {
        const struct fragment_slice *slice = &bench->fragment.slices[i];
        if (slice->resident_offset != FRAGMENT_NOT_RESIDENT)
            memcpy(bench->resident + slice->resident_offset, bench->fragment.weights + slice->offset,
                   slice->total_bytes);
    }
}

static void check_guards(const struct bench *bench, uint32_t arena, uint8_t paint)
{
    for (uint32_t i = 0; i < GUARD; i++)
        if (bench->memory[i] != paint || bench->memory[GUARD + arena + i] != paint) {
            fprintf(stderr, "a guard was touched\n");
            abort();
        }
}

static int run_painted(struct bench *bench, uint8_t paint, uint32_t *highest)
{
    uint32_t arena = bench->fragment.header->arena_bytes;
    memset(bench->memory, paint, arena + 2 * GUARD);
    struct vm_memory memory = {bench->memory + GUARD, arena, bench->resident, &bench->tables};
    struct vm vm;
    vm_start(&vm, &bench->fragment, memory, (struct vm_io){bench, begin, begin, waited});
    int state;
    do
        state = vm_step(&vm);
    while (state > 0);
    check_guards(bench, arena, paint);
    for (uint32_t i = 0; i < arena; i++)
        if (bench->memory[GUARD + i] != paint && i + 1 > *highest)
            *highest = i + 1;
    if (vm.high_water > arena)
        abort();
    return state;
}

static int run_once(struct bench *bench, const void *input, size_t input_bytes, uint8_t paint,
                    uint32_t *highest, void *output, size_t output_bytes, struct error *error)
{
    struct plan_io *io = plan_io_begin(bench->plan, input, input_bytes, error);
    if (!io)
        return error->status;
    for (int32_t e = 0; e < bench->plan->n_exchanges; e++) {
        size_t size = (size_t)shape_elements(bench->plan->table.exchanges[e].shape);
        memset(bench->buffers[e], 0x55, size);
        if (io->inputs[e])
            memcpy(bench->buffers[e], io->inputs[e], size);
    }
    int status = run_painted(bench, paint, highest);
    if (status == 0)
        status = plan_io_end(io, (const int8_t *const *)bench->buffers, output, output_bytes, error);
    plan_io_free(io);
    return status;
}

int painted_run(const struct plan *plan, const struct emit_fragment *fragment, const void *input,
                size_t input_bytes, void *output, size_t output_bytes, uint32_t *highest, struct error *error)
{
    struct bench bench = {.plan = plan};
    struct fragment_place place;
    uint8_t *first = calloc(1, output_bytes + 1);
    *highest = 0;
    int status = fragment_open(&bench.fragment, fragment->bytes, fragment->size, &place);
    if (status < 0)
        abort();
    bench.memory = aligned_alloc(16, (bench.fragment.header->arena_bytes + 15u) / 16 * 16 + 2 * GUARD);
    bench.buffers = calloc((size_t)plan->n_exchanges + 1, sizeof *bench.buffers);
    for (int32_t e = 0; e < plan->n_exchanges; e++)
        bench.buffers[e] = malloc((size_t)shape_elements(plan->table.exchanges[e].shape));
    fill_resident(&bench);
    status = run_once(&bench, input, input_bytes, 0, highest, first, output_bytes, error);
    if (status == 0)
        status = run_once(&bench, input, input_bytes, 0xA5, highest, output, output_bytes, error);
    if (status == 0 && memcmp(first, output, output_bytes) != 0) {
        fprintf(stderr, "the answer depends on what lay in the arena\n");
        abort();
    }
    for (int32_t e = 0; e < plan->n_exchanges; e++)
        free(bench.buffers[e]);
    free(bench.buffers);
    free(bench.memory);
    free(bench.resident);
    free(first);
    return status;
}
