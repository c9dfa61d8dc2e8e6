/*
 * The kernels of every layout against the plain ones, in portable C: the same cases run on an emulated
 * Cortex-M7 in tests/firmware. Every block of memory is exactly as large as it must be.
 */
#include "shared/nn/layout.h"
#include "tests/support/nn_exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCKS_MAX = 256, CASES = 1500 };

struct blocks {
    void *items[BLOCKS_MAX];
    int n;
};

static void *take(void *context, size_t size)
{
    struct blocks *blocks = context;
    void *block = blocks->n < BLOCKS_MAX ? malloc(size) : NULL;
    if (!block)
        abort();
    return blocks->items[blocks->n++] = block;
}

static void drop(void *context)
{
    struct blocks *blocks = context;
    while (blocks->n > 0)
        free(blocks->items[--blocks->n]);
}

static void equal_to_plain(enum nn_exact_kind kind)
{
    struct blocks blocks = {.n = 0};
    struct nn_exact_memory memory = {take, drop, &blocks};
    uint64_t outputs = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        const char *fault = nn_exact_case(kind, seed, &memory, &outputs);
        if (fault)
            fail_msg("%s, seed %llu: %s", nn_exact_name(kind), (unsigned long long)seed, fault);
    }
    assert_true(outputs > CASES);
}

static void convolution_by_pairs_equals_the_plain_kernel(void **state)
{
    (void)state;
    equal_to_plain(NN_EXACT_CONV);
}

static void sums_by_pairs_equal_the_plain_kernel(void **state)
{
    (void)state;
    equal_to_plain(NN_EXACT_SUMS);
}

static void depthwise_by_pairs_equals_the_plain_kernel(void **state)
{
    (void)state;
    equal_to_plain(NN_EXACT_DEPTHWISE);
}

static void fully_connected_by_fours_equals_the_plain_kernel(void **state)
{
    (void)state;
    equal_to_plain(NN_EXACT_FOURS);
}

static void quick_addition_equals_the_plain_kernel(void **state)
{
    (void)state;
    equal_to_plain(NN_EXACT_ADD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_by_pairs_equals_the_plain_kernel),
        cmocka_unit_test(sums_by_pairs_equal_the_plain_kernel),
        cmocka_unit_test(depthwise_by_pairs_equals_the_plain_kernel),
        cmocka_unit_test(fully_connected_by_fours_equals_the_plain_kernel),
        cmocka_unit_test(quick_addition_equals_the_plain_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
