/*
 * Host side of the image that runs a whole network: `fragment MODEL GOLDEN_IN GOLDEN_OUT FILE [LAYOUTS]`
 * plans the model for one board that takes the layouts (7), emits its fragment, walks it here with the golden
 * input, checks the golden output, and writes FILE (whole.h).
 */
#include "server/base/file.h"
#include "server/emit/emit.h"
#include "server/import/tflite.h"
#include "shared/vm/vm.h"
#include "tests/firmware/kernels/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 64 * 1024 * 1024 };

struct run {
    const struct plan *plan;
    struct plan_io *io;
    struct fragment fragment;
    uint8_t *bytes; /* of all transfers, one after another */
    uint32_t *at;   /* of each */
    int8_t **outputs;
};

static void *must(void *memory, const char *what)
{
    if (!memory) {
        fprintf(stderr, "fragment: no memory for %s\n", what);
        exit(1);
    }
    return memory;
}

static uint8_t *load(const char *path, size_t *size)
{
    uint8_t *bytes;
    if (file_read(path, FILE_MAX_BYTES, &bytes, size, NULL) < 0) {
        fprintf(stderr, "fragment: cannot read %s\n", path);
        exit(1);
    }
    return bytes;
}

/* The part of an exchange's tensor that a transfer carries, packed; `out` says which way. */
static void move(const struct conduct_transfer *t, struct shape shape, int8_t *tensor, uint8_t *packed,
                 bool out)
{
    size_t run = (size_t)(t->box.c1 - t->box.c0);
    for (int32_t h = t->box.h0; h < t->box.h1; h++)
        for (int32_t w = t->box.w0; w < t->box.w1; w++, packed += run) {
            int8_t *at = tensor + ((size_t)h * (size_t)shape.w + (size_t)w) * (size_t)shape.c + t->box.c0;
            if (out)
                memcpy(at, packed, run);
            else
                memcpy(packed, at, run);
        }
}

static int post(void *context, const struct vm_slot *slot)
{
    struct run *run = context;
    const struct conduct_transfer *t = &run->plan->table.transfers[slot->transfer];
    uint8_t carry[4] = {0}, *packed = run->bytes + run->at[slot->transfer];
    union {
        const int8_t *from;
        int8_t *to;
    } tensor = {.from = run->io->inputs[t->exchange]};
    move(t, run->plan->table.exchanges[t->exchange].shape, tensor.to, packed, false);
    vm_slot_put(slot, 0, packed, slot->bytes, carry);
    return 0;
}

static int send(void *context, const struct vm_slot *slot)
{
    struct run *run = context;
    const struct conduct_transfer *t = &run->plan->table.transfers[slot->transfer];
    uint8_t *packed = run->bytes + run->at[slot->transfer];
    vm_slot_get(slot, 0, packed, slot->bytes);
    move(t, run->plan->table.exchanges[t->exchange].shape, run->outputs[t->exchange], packed, true);
    return 0;
}

static int done(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

static uint32_t walk(struct run *run)
{
    static struct vm_tables tables;
    static struct vm vm;
    uint32_t total = 0;
    uint32_t arena = run->fragment.header->arena_bytes;
    run->at = must(calloc((size_t)run->fragment.n_transfers + 1, sizeof *run->at), "offsets");
    for (uint16_t i = 0; i < run->fragment.n_transfers; i++) {
        run->at[i] = total;
        total += (uint32_t)fragment_transfer_bytes(&run->fragment.transfers[i]);
    }
    run->bytes = must(calloc(1, total + 1), "transfers");
    void *memory = must(aligned_alloc(16, (arena + 31u) / 16 * 16), "the arena");
    vm_start(&vm, &run->fragment, (struct vm_memory){memory, arena, NULL, &tables},
             (struct vm_io){run, post, send, done});
    int status = VM_RAN;
    while (status == VM_RAN)
        status = vm_step(&vm);
    free(memory);
    if (status != VM_DONE) {
        fprintf(stderr, "fragment: the walk ends with %d\n", status);
        exit(1);
    }
    return total;
}

static void write_file(const struct run *run, uint32_t total, const char *path)
{
    uint32_t n = run->fragment.n_transfers, size = run->fragment.header->image_bytes;
    uint32_t head = (uint32_t)(sizeof(struct whole) + n * sizeof(struct whole_transfer));
    struct whole whole = {WHOLE_MAGIC, (head + WHOLE_ALIGN - 1) / WHOLE_ALIGN * WHOLE_ALIGN, size, n};
    uint32_t data = whole.fragment + size, bytes = data + total;
    uint8_t *out = must(calloc(1, bytes), "the file");
    memcpy(out, &whole, sizeof whole);
    for (uint32_t i = 0; i < n; i++) {
        struct whole_transfer t = {data + run->at[i],
                                   (uint32_t)fragment_transfer_bytes(&run->fragment.transfers[i])};
        memcpy(out + sizeof whole + i * sizeof t, &t, sizeof t);
    }
    memcpy(out + whole.fragment, run->fragment.bytes, size);
    memcpy(out + data, run->bytes, total);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(out, 1, bytes, file) != bytes || fclose(file) != 0) {
        fprintf(stderr, "fragment: cannot write %s\n", path);
        exit(1);
    }
    free(out);
}

/* One board without resident weights, so that the image need not copy any. */
static struct plan *make_plan(const struct graph *graph, int64_t layouts, struct emit_fragment **fragments)
{
    struct plan_board board = *plan_profile("teensy41-good");
    struct plan_options options = {.strategy = PLAN_STRATEGY_SINGLE};
    struct error error;
    board.weight_ram_bytes = 0;
    board.layouts = layouts;
    struct plan *plan = plan_make(graph, "", &board, 1, &options, NULL, NULL, &error);
    if (!plan || emit_plan(plan, fragments, &error) < 0) {
        fprintf(stderr, "fragment: %s\n", error.message);
        exit(1);
    }
    return plan;
}

int main(int argc, char **argv)
{
    struct error error;
    struct emit_fragment *fragments = NULL;
    struct fragment_place place;
    size_t model_bytes, in_bytes, out_bytes;
    if (argc < 5) {
        fprintf(stderr, "usage: fragment MODEL GOLDEN_IN GOLDEN_OUT FILE [LAYOUTS]\n");
        return 2;
    }
    uint8_t *model = load(argv[1], &model_bytes), *in = load(argv[2], &in_bytes),
            *golden = load(argv[3], &out_bytes), *out = must(calloc(1, out_bytes + 1), "the output");
    error_clear(&error);
    struct graph *graph = import_tflite(model, model_bytes, "model", &error);
    if (!graph) {
        fprintf(stderr, "fragment: %s\n", error.message);
        return 1;
    }
    struct plan *plan = make_plan(graph, argc > 5 ? strtol(argv[5], NULL, 10) : 7, &fragments);
    struct run run = {.plan = plan, .io = plan_io_begin(plan, in, in_bytes, &error)};
    if (!run.io || fragment_open(&run.fragment, fragments[0].bytes, fragments[0].size, &place) < 0)
        return 1;
    run.outputs = must(calloc((size_t)plan->n_exchanges + 1, sizeof *run.outputs), "outputs");
    for (int32_t e = 0; e < plan->n_exchanges; e++)
        run.outputs[e] =
            must(calloc(1, (size_t)shape_elements(plan->table.exchanges[e].shape) + 1), "an output");
    uint32_t total = walk(&run);
    if (plan_io_end(run.io, (const int8_t *const *)run.outputs, out, out_bytes, &error) < 0 ||
        memcmp(out, golden, out_bytes) != 0) {
        fprintf(stderr, "fragment: the answer is not the golden one\n");
        return 1;
    }
    write_file(&run, total, argv[4]);
    printf("arena_bytes %lld scratch_bytes %lld peak_bytes %lld\n", (long long)plan->parties[0].arena_bytes,
           (long long)plan->parties[0].scratch_bytes, (long long)plan->parties[0].peak_bytes);
    for (int32_t e = 0; e < plan->n_exchanges; e++)
        free(run.outputs[e]);
    free(run.outputs);
    free(run.at);
    free(run.bytes);
    plan_io_free(run.io);
    emit_free(fragments, 1);
    plan_free(plan);
    graph_free(graph);
    free(model);
    free(in);
    free(golden);
    free(out);
    return 0;
}
