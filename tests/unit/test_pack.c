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

static int pack(struct pack_item *items, int32_t n, int32_t effort, int64_t *total)
{
    return schedule_pack(&(struct pack_problem){.items = items, .n_items = n, .moves = effort}, total);
}

static int64_t bound_of(struct pack_item *items, int32_t n)
{
    return schedule_pack_bound(&(struct pack_problem){.items = items, .n_items = n});
}

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
        assert_int_equal(pack(items, n, 5, &total), 0);
        check_apart(items, n, total);
        assert_true(total >= bound_of(items, n));
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
        assert_int_equal(pack(items, n, 5, &total), 0);
        assert_true(total >= bound_of(items, n));
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
        assert_int_equal(pack(items, 40, 500, &total), 0);
        check_apart(items, 40, total);
        assert_int_equal(total, bound_of(items, 40));
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
    assert_int_equal(pack(items, n, 300, &total), 0);
    assert_int_equal(pack(again, n, 300, &second), 0);
    assert_int_equal(total, second);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(items[i].offset, again[i].offset);
}

/* ---- against every possible packing ---- */

static const struct pack_pair *pair_of(const struct pack_problem *problem, int32_t i, int32_t j)
{
    for (int32_t p = 0; p < problem->n_pairs; p++)
        if ((problem->pairs[p].below == i && problem->pairs[p].above == j) ||
            (problem->pairs[p].below == j && problem->pairs[p].above == i))
            return &problem->pairs[p];
    return NULL;
}

static bool may_lie(const struct pack_problem *problem, int32_t i, int32_t j)
{
    const struct pack_item *a = &problem->items[i], *b = &problem->items[j];
    const struct pack_pair *pair = pair_of(problem, i, j);
    if (a->first > b->last || b->first > a->last || a->offset + a->bytes <= b->offset ||
        b->offset + b->bytes <= a->offset)
        return true;
    return pair &&
           ((pair->level && a->offset == b->offset) ||
            problem->items[pair->above].offset >= problem->items[pair->below].offset + pair->distance);
}

/* Whether items from number `at` on can lie below `total`, whatever their offsets. */
static bool exists(const struct pack_problem *problem, int32_t at, int64_t total)
{
    struct pack_item *item = &problem->items[at];
    if (at == problem->n_items)
        return true;
    for (item->offset = 0; item->offset + item->bytes <= total; item->offset++) {
        bool good = true;
        for (int32_t j = 0; j < at && good; j++)
            good = may_lie(problem, at, j);
        if (good && exists(problem, at + 1, total))
            return true;
    }
    return false;
}

static int64_t least_total(const struct pack_problem *problem)
{
    int64_t total = 0;
    while (!exists(problem, 0, total))
        total++;
    return total;
}

/* Up to 7 items of up to 6 bytes; `pairs` of them may overlap. */
static int32_t packed_as_tightly_as_possible(int32_t rounds, int32_t pairs, uint64_t seed)
{
    struct pack_item items[7], same[7];
    struct pack_pair pair[3];
    struct prng prng = prng_seed(seed);
    int32_t missed = 0;
    for (int32_t round = 0; round < rounds; round++) {
        struct pack_problem problem = {
            .items = items, .n_items = prng_range(&prng, 3, 7), .pairs = pair, .moves = 20, .work = 1 << 20};
        int64_t total;
        for (int32_t i = 0; i < problem.n_items; i++) {
            int32_t first = prng_range(&prng, 0, 5);
            items[i] = (struct pack_item){.bytes = prng_range(&prng, 1, 6),
                                          .first = first,
                                          .last = first + prng_range(&prng, 0, 3),
                                          .align = 1};
        }
        for (int32_t p = 0; p < pairs; p++) {
            int32_t below = prng_range(&prng, 0, problem.n_items - 1);
            int32_t above = prng_range(&prng, 0, problem.n_items - 1);
            pair[problem.n_pairs] =
                (struct pack_pair){below, above, prng_range(&prng, 0, 5), prng_one_in(&prng, 2)};
            if (below != above && !pair_of(&problem, below, above))
                problem.n_pairs++;
        }
        assert_int_equal(schedule_pack(&problem, &total), 0);
        for (int32_t i = 0; i < problem.n_items; i++)
            for (int32_t j = 0; j < i; j++)
                assert_true(may_lie(&problem, i, j));
        assert_true(total >= schedule_pack_bound(&problem));
        memcpy(same, items, sizeof same);
        problem.items = same;
        int64_t least = least_total(&problem);
        assert_true(total >= least);
        missed += total > least;
    }
    return missed;
}

/* Where no assignment meets the bound there is none: every one was tried. */
static void packed_items_take_as_little_as_any_assignment(void **state)
{
    (void)state;
    assert_int_equal(packed_as_tightly_as_possible(200, 0, 11), 0);
}

/* The search is not complete for pairs: few miss. */
static void packed_pairs_mostly_take_as_little_as_any_assignment(void **state)
{
    (void)state;
    int32_t missed = packed_as_tightly_as_possible(200, 3, 12);
    print_message("%d of 200 take more than they must\n", missed);
    assert_true(missed <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_items_take_as_little_as_any_assignment),
        cmocka_unit_test(packed_pairs_mostly_take_as_little_as_any_assignment),
        cmocka_unit_test(packed_items_used_together_lie_apart),
        cmocka_unit_test(packed_groups_keep_their_distances),
        cmocka_unit_test(packed_chain_meets_the_bound),
        cmocka_unit_test(packing_is_the_same_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
