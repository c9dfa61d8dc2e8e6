/*
 * Boards take turns of one step; after each, transfers that can move do. A hop up moves once it is queued; a
 * hop down once it is posted and every piece that goes up into its box has arrived.
 */
#include "tests/support/split_run.h"

#include "shared/vm/vm.h"
#include "tests/support/prng.h"

#include <stdlib.h>
#include <string.h>

enum leg_state { LEG_NONE, LEG_BEGUN, LEG_DONE };

struct split;

struct worker {
    struct split *split;
    uint16_t party;
    struct fragment fragment;
    struct vm vm;
    struct vm_tables tables;
    uint8_t *arena, *resident;
    bool done;
};

struct split {
    const struct plan *plan;
    struct worker *workers;
    enum leg_state *states; /* of each transfer of the table */
    struct vm_slot *slots;
    int8_t **buffers; /* of each exchange */
};

/* The table's transfer with that id on the board's link. */
static uint32_t table_index(const struct worker *worker, uint16_t local)
{
    const struct conduct_table *table = &worker->split->plan->table;
    const struct fragment_transfer *transfer = &worker->fragment.transfers[local];
    for (uint32_t i = 0; i < table->n_transfers; i++) {
        const struct conduct_transfer *t = &table->transfers[i];
        if (t->id == transfer->id && (t->from ? t->from : t->to) == worker->party)
            return i;
    }
    abort();
}

static int begin(void *context, const struct vm_slot *slot)
{
    struct worker *worker = context;
    uint32_t index = table_index(worker, slot->transfer);
    if (worker->split->states[index] != LEG_NONE)
        return STATUS_WIRE_ORDER;
    worker->split->states[index] = LEG_BEGUN;
    worker->split->slots[index] = *slot;
    return 0;
}

static int waited(void *context, uint32_t rank)
{
    const struct worker *worker = context;
    const struct conduct_table *table = &worker->split->plan->table;
    for (uint32_t i = 0; i < table->n_transfers; i++)
        if ((table->transfers[i].from == worker->party || table->transfers[i].to == worker->party) &&
            table->transfers[i].rank <= rank && worker->split->states[i] == LEG_BEGUN)
            return 0;
    return 1;
}

/* The exchange's buffer is packed; a transfer travels packed too. */
static void between(struct split *split, uint32_t index)
{
    const struct conduct_transfer *t = &split->plan->table.transfers[index];
    struct shape shape = split->plan->table.exchanges[t->exchange].shape;
    uint32_t at = 0, run = (uint32_t)(t->box.c1 - t->box.c0);
    uint8_t carry[4] = {0};
    for (int32_t h = t->box.h0; h < t->box.h1; h++)
        for (int32_t w = t->box.w0; w < t->box.w1; w++, at += run) {
            int8_t *element = split->buffers[t->exchange] + ((int64_t)h * shape.w + w) * shape.c + t->box.c0;
            if (t->from)
                vm_slot_get(&split->slots[index], at, (uint8_t *)element, run);
            else
                vm_slot_put(&split->slots[index], at, (const uint8_t *)element, run, carry);
        }
}

static bool complete(const struct split *split, uint32_t down)
{
    const struct conduct_table *table = &split->plan->table;
    for (uint32_t i = 0; i < table->n_transfers; i++)
        if (table->transfers[i].from && table->transfers[i].exchange == table->transfers[down].exchange &&
            !box_empty(box_intersect(table->transfers[i].box, table->transfers[down].box)) &&
            split->states[i] != LEG_DONE)
            return false;
    return true;
}

static bool pump(struct split *split)
{
    bool moved = false;
    for (uint32_t i = 0; i < split->plan->table.n_transfers; i++) {
        if (split->states[i] != LEG_BEGUN || (!split->plan->table.transfers[i].from && !complete(split, i)))
            continue;
        between(split, i);
        split->states[i] = LEG_DONE;
        moved = true;
    }
    return moved;
}

static int open_worker(struct split *split, int32_t b, const struct emit_fragment *image, struct prng *prng)
{
    struct worker *worker = &split->workers[b];
    struct fragment_place place;
    worker->split = split;
    worker->party = (uint16_t)(b + 1);
    worker->done = image->size == 0;
    if (worker->done)
        return 0;
    int status = fragment_open(&worker->fragment, image->bytes, image->size, &place);
    if (status < 0)
        return status;
    size_t arena = (worker->fragment.header->arena_bytes + 15u) / 16 * 16;
    worker->arena = aligned_alloc(16, arena + 16);
    worker->resident = aligned_alloc(16, (worker->fragment.header->resident_bytes + 16u) / 16 * 16);
    prng_fill(prng, worker->arena, arena);
    for (uint16_t i = 0; i < worker->fragment.n_slices; i++) {
        const struct fragment_slice *slice = &worker->fragment.slices[i];
        if (slice->resident_offset != FRAGMENT_NOT_RESIDENT)
            memcpy(worker->resident + slice->resident_offset, worker->fragment.weights + slice->offset,
                   slice->total_bytes);
    }
    struct vm_memory memory = {worker->arena, worker->fragment.header->arena_bytes, worker->resident,
                               &worker->tables};
    vm_start(&worker->vm, &worker->fragment, memory, (struct vm_io){worker, begin, begin, waited});
    return 0;
}

static int turns(struct split *split, struct prng *prng)
{
    int32_t n = split->plan->n_boards, left = n, idle = 0;
    while (left > 0) {
        left = 0;
        for (int32_t b = 0; b < n; b++)
            left += !split->workers[b].done;
        struct worker *worker = &split->workers[prng_range(prng, 0, n - 1)];
        if (worker->done)
            continue;
        int state = vm_step(&worker->vm);
        if (state < 0)
            return state;
        worker->done = state == VM_DONE;
        bool moved = pump(split);
        idle = moved || state != VM_WAITING ? 0 : idle + 1;
        if (idle > 1000 * n)
            return STATUS_DEADLINE;
    }
    return 0;
}

int split_run(const struct plan *plan, const struct emit_fragment *fragments, uint64_t seed,
              const void *input, size_t input_bytes, void *output, size_t output_bytes, struct error *error)
{
    struct prng prng = prng_seed(seed);
    struct split split = {.plan = plan};
    struct plan_io *io = plan_io_begin(plan, input, input_bytes, error);
    if (!io)
        return error->status;
    split.workers = calloc((size_t)plan->n_boards, sizeof *split.workers);
    split.states = calloc(plan->table.n_transfers + 1u, sizeof *split.states);
    split.slots = calloc(plan->table.n_transfers + 1u, sizeof *split.slots);
    split.buffers = calloc((size_t)plan->n_exchanges + 1, sizeof *split.buffers);
    for (int32_t e = 0; e < plan->n_exchanges; e++) {
        size_t size = (size_t)shape_elements(plan->table.exchanges[e].shape);
        split.buffers[e] = malloc(size);
        memset(split.buffers[e], 0x55, size);
        if (io->inputs[e])
            memcpy(split.buffers[e], io->inputs[e], size);
    }
    int status = 0;
    for (int32_t b = 0; b < plan->n_boards && status == 0; b++)
        status = open_worker(&split, b, &fragments[b], &prng);
    if (status == 0)
        status = turns(&split, &prng);
    if (status == 0)
        status = plan_io_end(io, (const int8_t *const *)split.buffers, output, output_bytes, error);
    for (int32_t b = 0; b < plan->n_boards; b++) {
        free(split.workers[b].arena);
        free(split.workers[b].resident);
    }
    for (int32_t e = 0; e < plan->n_exchanges; e++)
        free(split.buffers[e]);
    free(split.workers);
    free(split.states);
    free(split.slots);
    free(split.buffers);
    plan_io_free(io);
    return status;
}
