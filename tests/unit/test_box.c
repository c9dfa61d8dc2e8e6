/* Box algebra, each rule against a brute force over the cells of small tensors. */
#include "server/model/box.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 7 };

static struct shape random_shape(struct prng *prng)
{
    return (struct shape){prng_range(prng, 1, SIDE), prng_range(prng, 1, SIDE), prng_range(prng, 1, SIDE)};
}

static struct box random_box(struct prng *prng)
{
    struct box box = {prng_range(prng, 0, SIDE - 1), 0, prng_range(prng, 0, SIDE - 1), 0,
                      prng_range(prng, 0, SIDE - 1), 0};
    box.h1 = prng_range(prng, box.h0, SIDE);
    box.w1 = prng_range(prng, box.w0, SIDE);
    box.c1 = prng_range(prng, box.c0, SIDE);
    return box;
}

static bool has(struct box box, int32_t h, int32_t w, int32_t c)
{
    return h >= box.h0 && h < box.h1 && w >= box.w0 && w < box.w1 && c >= box.c0 && c < box.c1;
}

/* How many of the boxes hold the cell. */
static int holders(const struct box *boxes, int count, int32_t h, int32_t w, int32_t c)
{
    int holders = 0;
    for (int i = 0; i < count; i++)
        holders += has(boxes[i], h, w, c);
    return holders;
}

#define EACH_CELL(h, w, c)                 \
    for (int32_t h = 0; h < SIDE; h++)     \
        for (int32_t w = 0; w < SIDE; w++) \
            for (int32_t c = 0; c < SIDE; c++)

static void run_covers_exactly_its_positions_once(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    int most = 0;
    for (int round = 0; round < 3000; round++) {
        struct shape shape = random_shape(&prng);
        int64_t p = prng_range(&prng, 0, (int32_t)shape_elements(shape));
        int64_t q = prng_range(&prng, (int32_t)p, (int32_t)shape_elements(shape));
        struct box boxes[BOX_RUN_MAX];
        int count = box_run(shape, p, q, boxes);
        most = count > most ? count : most;
        EACH_CELL(h, w, c)
        {
            bool inside = h < shape.h && w < shape.w && c < shape.c;
            int64_t position = ((int64_t)c * shape.h + h) * shape.w + w;
            assert_int_equal(holders(boxes, count, h, w, c), inside && position >= p && position < q);
        }
    }
    assert_int_equal(most, BOX_RUN_MAX);
}

static void run_boxes_come_in_the_order_of_the_run(void **state)
{
    (void)state;
    struct shape shape = {4, 5, 6};
    struct box boxes[BOX_RUN_MAX];
    int count = box_run(shape, 7, 4 * 5 * 4 + 13, boxes);
    struct box expected[] = {
        {1, 2, 2, 5, 0, 1}, {2, 4, 0, 5, 0, 1}, {0, 4, 0, 5, 1, 4}, {0, 2, 0, 5, 4, 5}, {2, 3, 0, 3, 4, 5}};
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; i++)
        assert_true(box_equal(boxes[i], expected[i]));
    assert_int_equal(box_run(shape, 120, 120, boxes), 0);
    assert_int_equal(box_run(shape, 0, 120, boxes), 1);
    assert_true(box_equal(boxes[0], box_whole(shape)));
}

static void runs_of_large_tensors_do_not_overflow(void **state)
{
    (void)state;
    struct shape shape = {65535, 65535, 65535};
    struct box boxes[BOX_RUN_MAX];
    int64_t elements = shape_elements(shape), total = 0;
    assert_true(elements == 281462092005375);
    int count = box_run(shape, 3, elements - 5, boxes);
    for (int i = 0; i < count; i++)
        total += box_elements(boxes[i]);
    assert_int_equal(count, 5);
    assert_true(total == elements - 8);
}

static void difference_is_disjoint_and_covers_a_without_b(void **state)
{
    (void)state;
    struct prng prng = prng_seed(2);
    int most = 0;
    for (int round = 0; round < 3000; round++) {
        struct box a = random_box(&prng), b = random_box(&prng), boxes[BOX_DIFFERENCE_MAX];
        int count = box_difference(a, b, boxes);
        most = count > most ? count : most;
        for (int i = 0; i < count; i++)
            assert_false(box_empty(boxes[i]));
        EACH_CELL(h, w, c)
        assert_int_equal(holders(boxes, count, h, w, c), has(a, h, w, c) && !has(b, h, w, c));
    }
    assert_int_equal(most, BOX_DIFFERENCE_MAX);
}

static void intersection_holds_what_both_hold(void **state)
{
    (void)state;
    struct prng prng = prng_seed(3);
    for (int round = 0; round < 2000; round++) {
        struct box a = random_box(&prng), b = random_box(&prng), both = box_intersect(a, b);
        int64_t cells = 0;
        EACH_CELL(h, w, c)
        {
            assert_int_equal(has(both, h, w, c), has(a, h, w, c) && has(b, h, w, c));
            cells += has(both, h, w, c);
        }
        assert_true(box_elements(both) == cells);
        assert_true(box_contains(a, both) && box_contains(b, both));
        assert_true(box_equal(both, box_intersect(b, a)));
    }
}

static void hull_is_the_smallest_box_around_both(void **state)
{
    (void)state;
    struct prng prng = prng_seed(4);
    for (int round = 0; round < 2000; round++) {
        struct box a = random_box(&prng), b = random_box(&prng), hull = box_hull(a, b), tight = {0};
        bool any = false;
        EACH_CELL(h, w, c)
        if (has(a, h, w, c) || has(b, h, w, c)) {
            assert_true(has(hull, h, w, c));
            if (!any)
                tight = (struct box){h, h + 1, w, w + 1, c, c + 1};
            any = true;
            tight.h0 = h < tight.h0 ? h : tight.h0, tight.h1 = h >= tight.h1 ? h + 1 : tight.h1;
            tight.w0 = w < tight.w0 ? w : tight.w0, tight.w1 = w >= tight.w1 ? w + 1 : tight.w1;
            tight.c0 = c < tight.c0 ? c : tight.c0, tight.c1 = c >= tight.c1 ? c + 1 : tight.c1;
        }
        assert_true(box_equal(hull, tight));
    }
}

static void contains_means_every_cell(void **state)
{
    (void)state;
    struct prng prng = prng_seed(5);
    for (int round = 0; round < 2000; round++) {
        struct box a = random_box(&prng), b = random_box(&prng);
        bool all = true;
        EACH_CELL(h, w, c)
        all = all && (!has(b, h, w, c) || has(a, h, w, c));
        assert_int_equal(box_contains(a, b), all);
    }
}

static void empty_boxes_are_equal_and_count_nothing(void **state)
{
    (void)state;
    struct box none = {3, 3, 0, 5, 0, 5}, other = {0, 4, 5, 2, 0, 1}, some = {0, 1, 0, 1, 0, 1};
    assert_true(box_equal(none, other));
    assert_false(box_equal(none, some));
    assert_false(box_equal(some, (struct box){0, 1, 0, 1, 0, 2}));
    assert_true(box_elements(none) == 0 && box_elements(other) == 0);
    assert_true(box_equal(box_hull(none, some), some) && box_equal(box_hull(some, other), some));
}

static void shapes_are_equal_in_all_axes(void **state)
{
    (void)state;
    struct shape shape = {2, 3, 4};
    assert_true(shape_equal(shape, (struct shape){2, 3, 4}));
    assert_false(shape_equal(shape, (struct shape){1, 3, 4}));
    assert_false(shape_equal(shape, (struct shape){2, 1, 4}));
    assert_false(shape_equal(shape, (struct shape){2, 3, 1}));
    assert_true(shape_elements(shape) == 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_covers_exactly_its_positions_once),
        cmocka_unit_test(run_boxes_come_in_the_order_of_the_run),
        cmocka_unit_test(runs_of_large_tensors_do_not_overflow),
        cmocka_unit_test(difference_is_disjoint_and_covers_a_without_b),
        cmocka_unit_test(intersection_holds_what_both_hold),
        cmocka_unit_test(hull_is_the_smallest_box_around_both),
        cmocka_unit_test(contains_means_every_cell),
        cmocka_unit_test(empty_boxes_are_equal_and_count_nothing),
        cmocka_unit_test(shapes_are_equal_in_all_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
