/*
 * The image that runs a whole network as a board does: the walker over a fragment in flash, called step by
 * step. Prints "step OPERATOR" before each and lets the plugin count it, walker included; then "macs N". What
 * the fragment sends must be what the host computed.
 */
#include "tests/firmware/kernels/whole.h"

#include "shared/vm/parts.h"
#include "tests/firmware/kernels/image.h"

#include <string.h>

enum { ARENA_MAX = 448 * 1024 };

static _Alignas(16) uint8_t arena[ARENA_MAX];
static struct vm_tables tables;
static struct vm vm;
static const struct whole *const whole = (const struct whole *)WHOLE_ADDRESS;

static const uint8_t *bytes_of(const struct vm_slot *slot)
{
    const struct whole_transfer *t = (const struct whole_transfer *)(whole + 1) + slot->transfer;
    return (const uint8_t *)whole + t->offset + slot->first;
}

static int post(void *context, const struct vm_slot *slot)
{
    uint8_t carry[4] = {0};
    (void)context;
    vm_slot_put(slot, 0, bytes_of(slot), slot->bytes, carry);
    return 0;
}

static int send(void *context, const struct vm_slot *slot)
{
    static uint8_t said[ARENA_MAX];
    (void)context;
    if (slot->bytes > sizeof said)
        return STATUS_TOO_LARGE;
    vm_slot_get(slot, 0, said, slot->bytes);
    return memcmp(said, bytes_of(slot), slot->bytes) == 0 ? 0 : STATUS_FRAGMENT_DATA;
}

static int done(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

static const char *kind_at(const struct fragment *f, uint16_t pc)
{
    static const char *const names[FRAGMENT_OP_COUNT] = {[FRAGMENT_DW] = "depthwise",
                                                         [FRAGMENT_ADD] = "add",
                                                         [FRAGMENT_SUM] = "pool",
                                                         [FRAGMENT_POOL] = "pool",
                                                         [FRAGMENT_SOFTMAX] = "softmax"};
    if (pc >= f->n_code)
        return "rest";
    const struct fragment_code *code = &f->code[pc];
    if (code->op == FRAGMENT_CONV && f->slices[code->slice].kernel > 1)
        return "conv";
    if (code->op == FRAGMENT_CONV)
        return f->views[code->out].h * f->views[code->out].w == 1 ? "fully connected" : "1x1";
    return names[code->op] ? names[code->op] : "rest";
}

static void print_macs(const struct fragment *fragment)
{
    static struct vm costing;
    struct vm_cost cost;
    uint32_t rank;
    memset(&cost, 0, sizeof cost);
    vm_start(&costing, fragment, (struct vm_memory){0}, (struct vm_io){0});
    while (vm_cost(&costing, &cost, &rank) == VM_WAITING)
        ;
    print("macs ");
    print_number((int64_t)(cost.macs[0] + cost.macs[1] + cost.macs[2] + cost.macs[3]));
    print("\narena ");
    print_number(fragment->header->arena_bytes);
    print("\n");
}

int image_main(void)
{
    struct fragment fragment;
    struct fragment_place place;
    if (whole->magic != WHOLE_MAGIC)
        return 2;
    if (fragment_open(&fragment, (const uint8_t *)whole + whole->fragment, whole->fragment_bytes, &place) <
            0 ||
        vm_check_bounds(&fragment, ARENA_MAX, &place) < 0) {
        print(place.reason);
        return 3;
    }
    vm_start(&vm, &fragment, (struct vm_memory){arena, fragment.header->arena_bytes, NULL, &tables},
             (struct vm_io){NULL, post, send, done});
    int status = VM_RAN;
    while (status == VM_RAN) {
        print("step ");
        print(kind_at(&fragment, vm.pc));
        print("\n");
        mark();
        status = vm_step(&vm);
        mark();
    }
    print_macs(&fragment);
    print(status == VM_DONE ? "ok\n" : "differs\n");
    return status == VM_DONE ? 0 : 1;
}
