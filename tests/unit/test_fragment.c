/*
 * Opening fragments: what the writer lays out is what the reader finds, and no bytes of any size do more than
 * be refused with a reason.
 */
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct net_image some_image(size_t *size)
{
    struct net net = net_block(1);
    struct program *p = program_new(1);
    net_patches(p, &net, (struct net_patches){.h = 3, .w = 4, .k = 3});
    struct net_image image = net_image(p);
    *size = image.fragment.header->image_bytes;
    net_free(&net);
    return image;
}

static int open_copy(const uint8_t *bytes, size_t size)
{
    struct fragment fragment;
    struct fragment_place place = {.reason = NULL};
    uint8_t *copy = malloc(size + 1); /* exactly sized under sanitizers: every read beyond shows */
    memcpy(copy, bytes, size);
    int status = fragment_open(&fragment, copy, size, &place);
    assert_non_null(place.reason);
    assert_true(status == STATUS_OK || place.reason[0] != 0);
    free(copy);
    return status;
}

static void a_written_image_opens_with_its_records_in_place(void **state)
{
    (void)state;
    struct fragment_layout layout = {3, 2, 1, 0, 1, 1, 100};
    size_t size = fragment_image_bytes(&layout);
    uint8_t *bytes = malloc(size);
    struct fragment_writer w;
    struct fragment f;
    struct fragment_place place;
    assert_int_equal(fragment_write(&w, &layout, bytes, size - 1), STATUS_TOO_LARGE);
    assert_int_equal(fragment_write(&w, &layout, bytes, size), STATUS_OK);
    w.header->party = 3;
    for (int i = 0; i < 3; i++)
        w.ranges[i] = (struct fragment_range){
            .b1 = i + 1, .div = 1, .hi = 9, .parent = FRAGMENT_NONE, .loop = FRAGMENT_NO_LOOP};
    for (int i = 0; i < 2; i++)
        w.views[i] = (struct fragment_view){.tensor = (uint16_t)(i + 7),
                                            .elem = 1,
                                            .rows = 1,
                                            .w_cap = 1,
                                            .c_cap = 1,
                                            .h = 1,
                                            .w = 1,
                                            .c = 1,
                                            .h0 = FRAGMENT_NONE,
                                            .w0 = 2,
                                            .c0 = FRAGMENT_NONE};
    *w.code = program_op(FRAGMENT_ZERO);
    w.slices[0] = (struct fragment_slice){.bytes = 100,
                                          .total_bytes = 100,
                                          .kind = FRAGMENT_SLICE_CONSTANT,
                                          .resident_offset = FRAGMENT_NOT_RESIDENT};
    w.weights[99] = 42;
    assert_int_equal(fragment_open(&f, bytes, size, &place), STATUS_OK);
    assert_int_equal(f.n_ranges, 3);
    assert_int_equal(f.ranges[2].b1, 3);
    assert_int_equal(f.views[1].tensor, 8);
    assert_int_equal(f.code[0].op, FRAGMENT_ZERO);
    assert_int_equal(f.weight_bytes, 100);
    assert_int_equal(fragment_weights(&f, 0, NULL).values[99], 42);
    w.views[1].h0 = 3;
    assert_int_equal(fragment_open(&f, bytes, size, &place), STATUS_FRAGMENT_MALFORMED);
    assert_int_equal(place.section, FRAGMENT_VIEWS);
    assert_int_equal(place.record, 1);
    assert_string_equal(place.reason, "no such range");
    free(bytes);
}

static void an_image_cut_anywhere_is_refused(void **state)
{
    (void)state;
    size_t size;
    struct net_image image = some_image(&size);
    assert_int_equal(open_copy(image.bytes, size), STATUS_OK);
    for (size_t n = 0; n < size; n++)
        assert_int_equal(open_copy(image.bytes, n), STATUS_FRAGMENT_MALFORMED);
    free(image.bytes);
}

static void bytes_after_the_image_do_not_matter(void **state)
{
    (void)state;
    size_t size;
    struct net_image image = some_image(&size);
    uint8_t *longer = malloc(size + 1000);
    memset(longer, 0xAB, size + 1000);
    memcpy(longer, image.bytes, size);
    assert_int_equal(open_copy(longer, size + 1000), STATUS_OK);
    free(longer);
    free(image.bytes);
}

static void garbage_is_refused(void **state)
{
    (void)state;
    struct prng r = prng_seed(5);
    size_t size, opened = 0;
    struct net_image image = some_image(&size);
    uint8_t *bytes = malloc(size);
    for (int round = 0; round < 3000; round++) {
        memcpy(bytes, image.bytes, size);
        int32_t from = prng_range(&r, 0, (int32_t)size - 1), n = prng_range(&r, 1, 64);
        for (int32_t i = from; i < from + n && i < (int32_t)size; i++)
            bytes[i] = (uint8_t)prng_next(&r);
        opened += open_copy(bytes, size) == STATUS_OK; /* weights and hashes may be anything */
    }
    for (int round = 0; round < 300; round++) {
        size_t n = (size_t)prng_range(&r, 0, (int32_t)size);
        prng_fill(&r, bytes, n);
        assert_int_equal(open_copy(bytes, n), STATUS_FRAGMENT_MALFORMED);
    }
    assert_true(opened < 2500);
    free(bytes);
    free(image.bytes);
}

static void resident_weights_are_read_from_their_ram(void **state)
{
    (void)state;
    size_t size;
    struct net_image image = some_image(&size);
    struct fragment f = image.fragment;
    struct fragment_slice *s =
        (void *)(image.bytes + f.header->section[FRAGMENT_SLICES].offset + sizeof(struct fragment_slice));
    uint8_t *ram = calloc(1, 4096);
    s->resident_offset = 64;
    ((struct fragment_header *)(void *)image.bytes)->resident_bytes = 4096;
    assert_int_equal(fragment_open(&f, image.bytes, size, NULL), STATUS_OK);
    assert_ptr_equal(fragment_weights(&f, 1, ram).values, ram + 64);
    assert_ptr_equal(fragment_weights(&f, 1, NULL).values, f.weights + s->offset);
    assert_ptr_equal(fragment_weights(&f, 0, ram).values, f.weights + f.slices[0].offset);
    s->resident_offset = 4096 - 16;
    s->total_bytes = s->total_bytes > 16 ? s->total_bytes : 32;
    assert_int_equal(fragment_open(&f, image.bytes, size, NULL), STATUS_FRAGMENT_MALFORMED);
    free(ram);
    free(image.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_image_opens_with_its_records_in_place),
        cmocka_unit_test(an_image_cut_anywhere_is_refused),
        cmocka_unit_test(bytes_after_the_image_do_not_matter),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(resident_weights_are_read_from_their_ram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
