/*
 * The loopback hub: see the header. A send is read from the sender's memory, and a receive written to the
 * receiver's, only while its party waits: memory that a program reuses too early shows as wrong bytes.
 */
#include "tests/support/local_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0x5A, FRAME_MAX = 97, CAPACITY = 300 };

static void *need(void *p)
{
    if (!p) {
        (void)fprintf(stderr, "local_io: out of memory\n");
        abort();
    }
    return p;
}

void local_hub_start(struct local_hub *hub, uint64_t seed)
{
    *hub = (struct local_hub){.prng = prng_seed(seed), .capacity = CAPACITY};
}

void local_hub_end(struct local_hub *hub)
{
    for (int32_t i = 0; i < hub->count; i++)
        free(hub->transfers[i].bytes);
    free(hub->transfers);
    *hub = (struct local_hub){0};
}

static struct local_transfer *find(const struct local_hub *hub, uint16_t from, uint16_t to, uint16_t id)
{
    for (int32_t i = 0; i < hub->count; i++) {
        struct local_transfer *t = &hub->transfers[i];
        if (t->from == from && t->to == to && t->id == id)
            return t;
    }
    return NULL;
}

static struct local_transfer *open_transfer(struct local_hub *hub, uint16_t from, uint16_t to, uint16_t id,
                                            uint32_t size)
{
    struct local_transfer *t = find(hub, from, to, id);
    if (t)
        return t;
    hub->transfers = need(realloc(hub->transfers, (size_t)(hub->count + 1) * sizeof *hub->transfers));
    t = &hub->transfers[hub->count++];
    *t = (struct local_transfer){.from = from, .to = to, .id = id, .bytes = need(malloc(size)), .size = size};
    return t;
}

void local_hub_put(struct local_hub *hub, uint16_t from, uint16_t to, uint16_t id, const void *bytes,
                   uint32_t size)
{
    struct local_transfer *t = open_transfer(hub, from, to, id, size);
    memcpy(t->bytes, bytes, size);
    t->filled = size;
}

const struct local_transfer *local_hub_find(const struct local_hub *hub, uint16_t from, uint16_t to,
                                            uint16_t id)
{
    return find(hub, from, to, id);
}

/* ---- one walker's side ---- */

void local_io_start(struct local_io *io, struct local_hub *hub, const struct fragment *fragment)
{
    memset(io, 0, sizeof *io);
    io->hub = hub;
    io->fragment = fragment;
}

static int queue(struct local_io *io, const struct vm_slot *slot, bool send)
{
    if (io->count == LOCAL_PENDING_MAX)
        return STATUS_NO_MEMORY;
    io->pending[io->count++] = (struct local_pending){.slot = *slot, .send = send};
    return 0;
}

static int on_post(void *context, const struct vm_slot *slot)
{
    return queue(context, slot, false);
}

static int on_send(void *context, const struct vm_slot *slot)
{
    return queue(context, slot, true);
}

/* Bytes that the link still takes. */
static uint32_t room(const struct local_hub *hub, const struct fragment_transfer *t)
{
    uint32_t held = 0;
    for (int32_t i = 0; i < hub->count; i++) {
        const struct local_transfer *other = &hub->transfers[i];
        if (other->from == t->from && other->to == t->to)
            held += other->filled - other->taken;
    }
    if (t->to == 0)
        return UINT32_MAX;
    return held < hub->capacity ? hub->capacity - held : 0;
}

/* Whether an earlier send of this party stands before it on the link. */
static bool queued_behind(const struct local_io *io, const struct local_pending *p)
{
    const struct fragment_transfer *t = &io->fragment->transfers[p->slot.transfer];
    for (const struct local_pending *before = io->pending; before < p; before++)
        if (before->send && before->at < before->slot.bytes &&
            io->fragment->transfers[before->slot.transfer].to == t->to)
            return true;
    return false;
}

static uint32_t send_frame(struct local_io *io, struct local_pending *p, uint32_t n)
{
    const struct fragment_transfer *t = &io->fragment->transfers[p->slot.transfer];
    uint32_t place = p->slot.first + p->at, takes = room(io->hub, t);
    if (takes == 0 || queued_behind(io, p))
        return 0;
    struct local_transfer *wire =
        open_transfer(io->hub, t->from, t->to, t->id, (uint32_t)fragment_transfer_bytes(t));
    n = n < takes ? n : takes;
    if (place != wire->filled || place + n > wire->size)
        return 0;
    vm_slot_get(&p->slot, p->at, wire->bytes + place, n);
    wire->filled += n;
    return n;
}

static uint32_t receive_frame(struct local_io *io, struct local_pending *p, uint32_t n)
{
    const struct fragment_transfer *t = &io->fragment->transfers[p->slot.transfer];
    uint32_t place = p->slot.first + p->at;
    struct local_transfer *wire = find(io->hub, t->from, t->to, t->id);
    if (!wire || place != wire->taken)
        return 0;
    for (const struct local_transfer *ahead = io->hub->transfers; ahead < wire; ahead++)
        if (ahead->from == t->from && ahead->to == t->to && ahead->taken < ahead->size)
            return 0;
    uint32_t there = wire->filled - wire->taken;
    n = n < there ? n : there;
    vm_slot_put(&p->slot, p->at, wire->bytes + place, n, p->carry);
    wire->taken += n;
    return n;
}

/* Moves one frame of a pending part; returns how many bytes. */
static uint32_t move(struct local_io *io, struct local_pending *p)
{
    uint32_t n = (uint32_t)prng_range(&io->hub->prng, 1, FRAME_MAX), left = p->slot.bytes - p->at;
    n = n < left ? n : left;
    n = p->send ? send_frame(io, p, n) : receive_frame(io, p, n);
    p->at += n;
    io->moved += n;
    return n;
}

static int on_wait(void *context, uint32_t rank)
{
    struct local_io *io = context;
    int open = 0;
    for (int32_t i = 0; i < io->count; i++) {
        struct local_pending *p = &io->pending[i];
        int frames = prng_range(&io->hub->prng, 1, 64);
        while (p->at < p->slot.bytes && frames-- > 0 && move(io, p) > 0)
            ;
        open += p->at < p->slot.bytes && io->fragment->transfers[p->slot.transfer].rank <= rank;
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < io->count; i++)
        if (io->pending[i].at < io->pending[i].slot.bytes)
            io->pending[kept++] = io->pending[i];
    io->count = kept;
    return open == 0;
}

struct vm_io local_io_functions(struct local_io *io)
{
    return (struct vm_io){io, on_post, on_send, on_wait};
}

/* ---- parties ---- */

void local_party_start(struct local_party *party, struct local_hub *hub, const struct fragment *fragment)
{
    uint32_t arena = fragment->header->arena_bytes;
    memset(party, 0, sizeof *party);
    party->fragment = fragment;
#ifdef SHOAL_SANITIZE
    size_t before = 0, bytes = arena > 0 ? arena : 1; /* the sanitizer guards it, to the byte */
#else
    size_t before = GUARD, bytes = (size_t)arena + 2 * GUARD;
#endif
    party->block = need(malloc(bytes));
    memset(party->block, GUARD_BYTE, bytes);
    uint8_t *at = party->block + before;
    for (uint32_t i = 0; i < arena; i++)
        at[i] = (uint8_t)prng_next(&hub->prng);
    local_io_start(&party->io, hub, fragment);
    vm_start(&party->vm, fragment, (struct vm_memory){at, arena, party->resident, &party->tables},
             local_io_functions(&party->io));
    party->status = VM_RAN;
}

bool local_party_end(struct local_party *party)
{
    bool clean = true;
#ifndef SHOAL_SANITIZE
    for (size_t i = 0; i < GUARD; i++)
        clean = clean && party->block[i] == GUARD_BYTE &&
                party->block[GUARD + party->fragment->header->arena_bytes + i] == GUARD_BYTE;
#endif
    free(party->block);
    party->block = NULL;
    return clean;
}

int local_run(struct local_party *const *parties, int32_t n)
{
    for (int idle = 0; idle < 1000;) {
        bool busy = false, moved = false;
        for (int32_t i = 0; i < n; i++) {
            struct local_party *p = parties[i];
            if (p->status == VM_DONE)
                continue;
            uint64_t before = p->io.moved;
            p->status = vm_step(&p->vm);
            if (p->status < 0)
                return p->status;
            busy = busy || p->status != VM_DONE;
            moved = moved || p->status != VM_WAITING || p->io.moved != before;
        }
        if (!busy)
            return 0;
        idle = moved ? 0 : idle + 1;
    }
    return STATUS_DEADLINE;
}
