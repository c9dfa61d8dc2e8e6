/*
 * The image that proves kernels: the random cases of tests/support/nn_exact.h with the instructions of a
 * Cortex-M7. Ends with a line "ok" and status 0, or names the case.
 */
#include "tests/firmware/kernels/image.h"
#include "tests/support/nn_exact.h"

enum { MEMORY_BYTES = 3 * 1024 * 1024, CASES = 2500, ALIGN = 8 };

static _Alignas(ALIGN) uint8_t bytes[MEMORY_BYTES];

static void *take(void *context, size_t size)
{
    size_t *used = context, at = *used;
    *used += (size + ALIGN - 1) / ALIGN * ALIGN;
    if (*used > MEMORY_BYTES) {
        print("out of memory\n");
        image_exit(1);
    }
    return bytes + at;
}

static void drop(void *context)
{
    *(size_t *)context = 0;
}

int image_main(void)
{
    size_t used = 0;
    const struct nn_exact_memory memory = {take, drop, &used};
    for (int kind = 0; kind < NN_EXACT_KINDS; kind++) {
        uint64_t outputs = 0;
        for (uint64_t seed = 0; seed < CASES; seed++) {
            const char *fault = nn_exact_case((enum nn_exact_kind)kind, seed, &memory, &outputs);
            if (!fault)
                continue;
            print(nn_exact_name((enum nn_exact_kind)kind));
            print(", seed ");
            print_number((int64_t)seed);
            print(": ");
            print(fault);
            print("\n");
            return 1;
        }
        print(nn_exact_name((enum nn_exact_kind)kind));
        print(": ");
        print_number(CASES);
        print(" cases, ");
        print_number((int64_t)outputs);
        print(" outputs equal\n");
    }
    print("ok\n");
    return 0;
}
