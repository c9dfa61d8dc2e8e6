/* Arena packing: never an overlap, close to the bound, the same every time. */
#include "server/schedule/pack.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int32_t random_items(struct prng *prng, struct pack_item *items, int32_t max, int32_t steps)
{
    int32_t n = prng_range(prng, 1, max);
    for (int32_t i = 0; i < n; i++) {
        int32_t first = prng_range(prng, 0, steps);
        items[i] = (struct pack_item){.bytes = 4 * prng_range(prng, 1, 2000),
                                      .first = first,
                                      .last = first + prng_range(prng, 0, 4),
                                      .align = prng_one_in(prng, 8) ? 16 : 4};
    }
    return n;
}

static void check_apart(const struct pack_item *items, int32_t n, int64_t total)
{
    for (int32_t i = 0; i < n; i++) {
        assert_true(items[i].offset >= 0 && items[i].offset + items[i].bytes <= total);
        assert_int_equal(items[i].offset % items[i].align, 0);
        for (int32_t j = 0; j < i; j++) {
            bool together = items[i].first <= items[j].last && items[j].first <= items[i].last;
            bool apart = items[i].offset + items[i].bytes <= items[j].offset ||
                         items[j].offset + items[j].bytes <= items[i].offset;
            assert_true(!together || apart);
        }
    }
}

static void packed_items_used_together_lie_apart(void **state)
{
    struct pack_item items[60];
    struct prng prng = prng_seed(1);
    (void)state;
    for (int32_t round = 0; round < 2000; round++) {
        int32_t n = random_items(&prng, items, 60, 40);
        int64_t total;
        assert_int_equal(schedule_pack(items, n, 5, &total), 0);
        check_apart(items, n, total);
        assert_true(total >= schedule_pack_bound(items, n));
    }
}

/* Items of a group keep their distances and may overlap one another; of unlike groups they may not. */
static void packed_groups_keep_their_distances(void **state)
{
    struct pack_item items[60];
    struct prng prng = prng_seed(7);
    (void)state;
    for (int32_t round = 0; round < 1000; round++) {
        int32_t n = random_items(&prng, items, 60, 40);
        int64_t total;
        for (int32_t i = 0; i < n; i++) {
            items[i].align = 4;
            items[i].group = prng_range(&prng, 0, 5);
            items[i].distance = 4 * prng_range(&prng, -1000, 1000);
        }
        assert_int_equal(schedule_pack(items, n, 5, &total), 0);
        assert_true(total >= schedule_pack_bound(items, n));
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < i; j++) {
                bool together = items[i].first <= items[j].last && items[j].first <= items[i].last;
                bool apart = items[i].offset + items[i].bytes <= items[j].offset ||
                             items[j].offset + items[j].bytes <= items[i].offset;
                if (items[i].group && items[i].group == items[j].group)
                    assert_int_equal(items[i].offset - items[j].offset,
                                     items[i].distance - items[j].distance);
                else
                    assert_true(!together || apart);
                assert_true(items[i].offset >= 0 && items[i].offset + items[i].bytes <= total);
            }
    }
}

/* A chain of layers, each in use with the next, as one board runs a network: the bound is met. */
static void packed_chain_meets_the_bound(void **state)
{
    struct pack_item items[40];
    struct prng prng = prng_seed(2);
    (void)state;
    for (int32_t round = 0; round < 300; round++) {
        int64_t total;
        for (int32_t i = 0; i < 40; i++)
            items[i] = (struct pack_item){
                .bytes = 4 * prng_range(&prng, 1, 2000), .first = i, .last = i + 1, .align = 4};
        assert_int_equal(schedule_pack(items, 40, 500, &total), 0);
        check_apart(items, 40, total);
        assert_int_equal(total, schedule_pack_bound(items, 40));
    }
}

static void packing_is_the_same_every_time(void **state)
{
    struct pack_item items[50], again[50];
    struct prng prng = prng_seed(3);
    int64_t total, second;
    (void)state;
    int32_t n = random_items(&prng, items, 50, 20);
    memcpy(again, items, sizeof again);
    assert_int_equal(schedule_pack(items, n, 300, &total), 0);
    assert_int_equal(schedule_pack(again, n, 300, &second), 0);
    assert_int_equal(total, second);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(items[i].offset, again[i].offset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_items_used_together_lie_apart),
        cmocka_unit_test(packed_groups_keep_their_distances),
        cmocka_unit_test(packed_chain_meets_the_bound),
        cmocka_unit_test(packing_is_the_same_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
