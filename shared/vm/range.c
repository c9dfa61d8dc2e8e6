/*
 * Ranges: rows, columns or channels as a function of one loop counter. Computed in 64 bits with floor
 * division: |a * n + b| < 2^53 and at most FRAGMENT_PARENTS_MAX + 1 such terms add up, so nothing overflows.
 * The unclamped start is what children build on; the clamped start is the origin of views.
 */
#include "shared/vm/parts.h"

static int64_t floor_div(int64_t x, int64_t by)
{
    if (by == 1)
        return x;
    int64_t q = x / by;
    return q * by > x ? q - 1 : q;
}

static int32_t clamp(int64_t x, int32_t lo, int32_t hi)
{
    return x < lo ? lo : x > hi ? hi : (int32_t)x;
}

/* fragment_open bounds the chain of parents, hence the depth of this recursion. */
struct vm_extent vm_range(const struct fragment *fragment, const int32_t *counter, uint16_t index)
{
    const struct fragment_range *r = &fragment->ranges[index];
    struct vm_extent limits = {0, r->lo, r->hi};
    if (r->parent != FRAGMENT_NONE)
        limits = vm_range(fragment, counter, r->parent);
    int64_t at = r->loop == FRAGMENT_NO_LOOP ? 0 : (int64_t)r->a * counter[r->loop];
    int64_t first = limits.first + floor_div(at + r->b0, r->div);
    int64_t last = limits.first + floor_div(at + r->b1, r->div);
    return (struct vm_extent){first, clamp(first, limits.lo, limits.hi), clamp(last, limits.lo, limits.hi)};
}

int32_t vm_start_of(const struct fragment *fragment, const int32_t *counter, uint16_t index)
{
    return index == FRAGMENT_NONE ? 0 : vm_range(fragment, counter, index).lo;
}
