/*
 * Slots: transfers packed and unpacked at any offset, through any view, against a plain walk over the
 * elements.
 */
#include "shared/vm/vm.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARENA = 8192 };

/* A slot somewhere in the arena: a ring or a part of wider rows and pixels. */
static struct vm_slot random_slot(struct prng *r, uint8_t *arena, uint8_t wire)
{
    static const uint32_t element[] = {1, 3, 4};
    uint8_t elem = wire == FRAGMENT_WIRE_I8 ? 1 : 4;
    int32_t h = prng_range(r, 1, 5), w = prng_range(r, 1, 6), c = prng_range(r, 1, 7);
    struct vm_slot s = {.wire = wire, .elem = elem, .base = arena};
    s.h_start = prng_range(r, 0, 9);
    s.w_start = prng_range(r, 0, 9);
    s.c_start = prng_range(r, 0, 9);
    s.box = (struct vm_box){s.h_start + prng_range(r, 0, 3), 0, s.w_start + prng_range(r, 0, 2), 0,
                            s.c_start + prng_range(r, 0, 2), 0};
    s.box.h1 = s.box.h0 + h;
    s.box.w1 = s.box.w0 + w;
    s.box.c1 = s.box.c0 + c;
    s.rows = h + prng_range(r, 0, 3);
    bool packed = prng_one_in(r, 2);
    if (packed) {
        s.w_start = s.box.w0;
        s.c_start = s.box.c0;
    }
    s.pixel_stride = (uint32_t)(packed ? c : c + 2 + prng_range(r, 0, 3)) * elem;
    s.row_stride = s.pixel_stride * (uint32_t)(packed ? w : w + 3);
    s.offset = (uint32_t)prng_range(r, 0, 20) * elem;
    s.bytes = (uint32_t)(h * w * c) * element[wire];
    return s;
}

static uint8_t *place(const struct vm_slot *s, int32_t h, int32_t w, int32_t c)
{
    return s->base + s->offset + (uint32_t)((h - s->h_start) % s->rows) * s->row_stride +
           (uint32_t)(w - s->w_start) * s->pixel_stride + (uint32_t)((c - s->c_start) * s->elem);
}

#define EACH_ELEMENT(s, h, w, c)                          \
    for (int32_t h = (s).box.h0; h < (s).box.h1; h++)     \
        for (int32_t w = (s).box.w0; w < (s).box.w1; w++) \
            for (int32_t c = (s).box.c0; c < (s).box.c1; c++)

static int32_t value_at(const struct vm_slot *s, int32_t h, int32_t w, int32_t c)
{
    int32_t x = 0;
    if (s->elem == 1)
        return *(int8_t *)place(s, h, w, c);
    memcpy(&x, place(s, h, w, c), 4);
    return x;
}

/* Sums as the plan proves them: within 24 bits where they travel so. */
static void fill(struct prng *r, const struct vm_slot *s)
{
    EACH_ELEMENT(*s, h, w, c)
    {
        int32_t x =
            s->wire == FRAGMENT_WIRE_I24 ? prng_range(r, -(1 << 23), (1 << 23) - 1) : (int32_t)prng_next(r);
        memcpy(place(s, h, w, c), &x, s->elem);
    }
}

static void get_in_pieces(struct prng *r, const struct vm_slot *s, uint8_t *out)
{
    for (uint32_t at = 0; at < s->bytes;) {
        uint32_t n = (uint32_t)prng_range(r, 1, 11);
        n = n < s->bytes - at ? n : s->bytes - at;
        vm_slot_get(s, at, out + at, n);
        at += n;
    }
}

static void put_in_pieces(struct prng *r, const struct vm_slot *s, const uint8_t *in)
{
    uint8_t carry[4] = {0};
    for (uint32_t at = 0; at < s->bytes;) {
        uint32_t n = (uint32_t)prng_range(r, 1, 11);
        n = n < s->bytes - at ? n : s->bytes - at;
        vm_slot_put(s, at, in + at, n, carry);
        at += n;
    }
}

static void elements_travel_packed_in_order_h_w_c(void **state)
{
    (void)state;
    struct prng r = prng_seed(1);
    uint8_t *arena = malloc(ARENA), *wire = malloc(ARENA);
    static const int32_t element[] = {1, 3, 4};
    for (int round = 0; round < 2000; round++) {
        struct vm_slot s = random_slot(&r, arena, (uint8_t)(round % 3));
        int32_t i = 0;
        fill(&r, &s);
        get_in_pieces(&r, &s, wire);
        EACH_ELEMENT(s, h, w, c)
        {
            int32_t x = value_at(&s, h, w, c);
            for (int32_t b = 0; b < element[s.wire]; b++)
                assert_int_equal(wire[i++], (uint8_t)((uint32_t)x >> (8 * b)));
        }
        assert_int_equal(i, s.bytes);
    }
    free(wire);
    free(arena);
}

static void what_was_got_can_be_put_anywhere_and_touches_nothing_else(void **state)
{
    (void)state;
    struct prng r = prng_seed(2);
    uint8_t *a = malloc(ARENA), *b = malloc(ARENA), *wire = malloc(ARENA), *before = malloc(ARENA);
    for (int round = 0; round < 2000; round++) {
        struct vm_slot from = random_slot(&r, a, (uint8_t)(round % 3)), to = from;
        fill(&r, &from);
        get_in_pieces(&r, &from, wire);
        prng_fill(&r, b, ARENA);
        memcpy(before, b, ARENA);
        to.base = b;
        put_in_pieces(&r, &to, wire);
        EACH_ELEMENT(to, h, w, c)
        {
            assert_int_equal(value_at(&to, h, w, c), value_at(&from, h, w, c));
            memcpy(place(&to, h, w, c), before + (place(&to, h, w, c) - b), to.elem);
        }
        assert_memory_equal(b, before, ARENA);
    }
    free(before);
    free(wire);
    free(b);
    free(a);
}

static void arriving_sums_are_added_and_wrap(void **state)
{
    (void)state;
    struct prng r = prng_seed(3);
    uint8_t *a = malloc(ARENA), *b = malloc(ARENA), *wire = malloc(ARENA);
    for (int round = 0; round < 1000; round++) {
        struct vm_slot from = random_slot(&r, a, (uint8_t)(1 + round % 2)), to = from;
        int32_t sums[5 * 6 * 7], n = 0;
        fill(&r, &from);
        get_in_pieces(&r, &from, wire);
        to.base = b;
        to.accumulate = true;
        fill(&r, &to);
        EACH_ELEMENT(to, h, w, c)
        sums[n++] = (int32_t)((uint32_t)value_at(&from, h, w, c) + (uint32_t)value_at(&to, h, w, c));
        put_in_pieces(&r, &to, wire);
        n = 0;
        EACH_ELEMENT(to, h, w, c)
        assert_int_equal(value_at(&to, h, w, c), sums[n++]);
    }
    free(wire);
    free(b);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_travel_packed_in_order_h_w_c),
        cmocka_unit_test(what_was_got_can_be_put_anywhere_and_touches_nothing_else),
        cmocka_unit_test(arriving_sums_are_added_and_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
