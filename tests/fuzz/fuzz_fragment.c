/*
 * Fragment images from a stranger: refused with a place, or walked by every back end within their memory.
 * What the bounds check lets through never meets a bound in its run; what it refuses is run all the same,
 * since the machine must be safe on its own. Runs are cut off after some steps: that they end is the mutation
 * test's business.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/support/net_run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_MAX = 1 << 16, STEPS_MAX = 400, MOVED_MAX = 4096, WALK_MAX = 20000 };

static int on_post(void *context, const struct vm_slot *slot)
{
    uint8_t bytes[97], carry[4] = {0};
    (void)context;
    memset(bytes, 0x5A, sizeof bytes);
    for (uint32_t at = 0; at < slot->bytes && at < MOVED_MAX;) {
        uint32_t n = slot->bytes - at < sizeof bytes ? slot->bytes - at : (uint32_t)sizeof bytes;
        vm_slot_put(slot, at, bytes, n, carry);
        at += n;
    }
    return 0;
}

static int on_send(void *context, const struct vm_slot *slot)
{
    uint8_t bytes[61];
    (void)context;
    for (uint32_t at = 0; at < slot->bytes && at < MOVED_MAX;) {
        uint32_t n = slot->bytes - at < sizeof bytes ? slot->bytes - at : (uint32_t)sizeof bytes;
        vm_slot_get(slot, at, bytes, n);
        at += n;
    }
    return 0;
}

static int on_wait(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

static int run(const struct fragment *fragment)
{
    struct vm vm;
    static struct vm_tables tables;
    uint32_t arena = fragment->header->arena_bytes;
    uint8_t *memory = calloc(1, arena > 0 ? arena : 1);
    assert(memory);
    vm_start(&vm, fragment, (struct vm_memory){memory, arena, NULL, &tables},
             (struct vm_io){NULL, on_post, on_send, on_wait});
    int status = VM_RAN;
    for (int steps = 0; status == VM_RAN && steps < STEPS_MAX; steps++)
        status = vm_step(&vm);
    assert(vm.high_water <= arena);
    free(memory);
    return status;
}

void fuzz_one(const uint8_t *bytes, size_t size)
{
    struct fragment fragment;
    struct fragment_place place = {.reason = NULL};
    uint8_t *image = malloc(size + 1); /* aligned, as a board's flash is */
    assert(image);
    memcpy(image, bytes, size);
    int opened = fragment_open(&fragment, image, size, &place);
    assert(place.reason);
    if (opened == STATUS_OK && fragment.header->arena_bytes <= ARENA_MAX) {
        uint32_t executions = WALK_MAX;
        bool short_enough = vm_count(&fragment, &executions) == STATUS_OK && executions < WALK_MAX;
        int checked = short_enough ? vm_check_bounds(&fragment, ARENA_MAX, &place) : STATUS_FRAGMENT_ENDLESS;
        assert(checked == STATUS_OK || !short_enough || place.reason[0]);
        int status = run(&fragment);
        assert(checked != STATUS_OK || status != STATUS_FRAGMENT_BOUNDS);
    }
    free(image);
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t room)
{
    if (i >= 12)
        return 0;
    struct net net = net_block(i);
    struct program *p = program_new(1);
    switch (i % 4) {
    case 0:
        net_full(p, &net);
        break;
    case 1:
        net_rows(p, &net, (struct net_rows){.stream_in = true, .stream_out = true});
        break;
    case 2:
        net_patches(p, &net, (struct net_patches){.h = 3, .w = 4, .k = 3});
        break;
    default:
        p->party = (uint16_t)(1 + i / 4 % 2);
        net_partial(p, &net, net_triple(&net, 0), 2, (int32_t)(i / 4 % 2), 3);
        break;
    }
    struct net_image image = net_image(p);
    size_t size = image.fragment.header->image_bytes;
    size = size <= room ? size : 0;
    memcpy(out, image.bytes, size);
    free(image.bytes);
    net_free(&net);
    return size;
}
