/*
 * The elements of a transfer as they travel: packed h, w, c, int8 as they are, int32 sums as their low 3 or
 * all 4 bytes. Any number of bytes at any offset, since frames end where they end. A put goes through the
 * stream in order; the part of an element that has arrived waits in the owner's carry.
 */
#include "shared/vm/vm.h"

#include <string.h>

static uint32_t wire_bytes(const struct vm_slot *slot)
{
    static const uint32_t bytes[] = {1, 3, 4};
    return bytes[slot->wire];
}

/* Address of element number `index`, and how many elements from there lie side by side within the pixel, or
 * within the row where pixels touch. */
static uint8_t *element_at(const struct vm_slot *slot, uint32_t index, uint32_t *run)
{
    const struct vm_box *box = &slot->box;
    uint32_t channels = (uint32_t)(box->c1 - box->c0), columns = (uint32_t)(box->w1 - box->w0);
    uint32_t c = index % channels, pixel = index / channels;
    uint32_t w = pixel % columns, h = pixel / columns;
    uint64_t slot_row = (uint32_t)(box->h0 + (int32_t)h - slot->h_start) % (uint32_t)slot->rows;
    *run = channels - c;
    if (slot->pixel_stride == channels * slot->elem)
        *run += (columns - 1 - w) * channels;
    return slot->base + slot->offset + slot_row * slot->row_stride +
           (uint64_t)(box->w0 + (int32_t)w - slot->w_start) * slot->pixel_stride +
           (uint64_t)(box->c0 + (int32_t)c - slot->c_start) * slot->elem;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int32_t load(const uint8_t *at)
{
    int32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

void vm_slot_get(const struct vm_slot *slot, uint32_t at, uint8_t *out, uint32_t n)
{
    uint32_t element = wire_bytes(slot);
    while (n > 0) {
        uint32_t run, part = at % element;
        const uint8_t *from = element_at(slot, at / element, &run);
        if (slot->elem == 1) {
            part = least(n, run);
            memcpy(out, from, part);
        } else {
            uint32_t bits = (uint32_t)load(from) >> (8 * part);
            part = least(n, element - part);
            for (uint32_t i = 0; i < part; i++)
                out[i] = (uint8_t)(bits >> (8 * i));
        }
        at += part;
        out += part;
        n -= part;
    }
}

static int32_t assemble(const uint8_t *carry, uint32_t element)
{
    uint32_t x = (uint32_t)carry[0] | (uint32_t)carry[1] << 8 | (uint32_t)carry[2] << 16;
    x |= element == 4 ? (uint32_t)carry[3] << 24 : (x & 0x800000u) ? 0xFF000000u : 0;
    return (int32_t)x;
}

static void put_sum(const struct vm_slot *slot, uint32_t index, int32_t x)
{
    uint32_t run;
    uint8_t *to = element_at(slot, index, &run);
    if (slot->accumulate)
        x = (int32_t)((uint32_t)x + (uint32_t)load(to));
    memcpy(to, &x, sizeof x);
}

void vm_slot_put(const struct vm_slot *slot, uint32_t at, const uint8_t *in, uint32_t n, uint8_t carry[4])
{
    uint32_t element = wire_bytes(slot);
    while (n > 0) {
        uint32_t run, part;
        if (slot->elem == 1) {
            uint8_t *to = element_at(slot, at, &run);
            part = least(n, run);
            memcpy(to, in, part);
        } else {
            uint32_t have = at % element;
            part = least(n, element - have);
            memcpy(carry + have, in, part);
            if (have + part == element)
                put_sum(slot, at / element, assemble(carry, element));
        }
        at += part;
        in += part;
        n -= part;
    }
}
