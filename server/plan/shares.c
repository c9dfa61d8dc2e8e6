/*
 * Ratings and shares: equation 5 of the published split, and exact integer water-filling in place of its
 * equation 7 (facts/split 4). Invariants of the water-filling: shares sum up to the total, each lies within
 * [0, cap], it is refused exactly when the caps' sum is below the total, and share over rating is level over
 * those that are not full.
 */
#include "server/plan/plan.h"

#include <math.h>

enum { WATERFILL_MAX = 64 };

double plan_rating(double clock_mhz, double k1, double delay_s_per_kb, double bandwidth_kb_per_s, double kc)
{
    double alone = clock_mhz * k1;
    double kb_time = delay_s_per_kb + (bandwidth_kb_per_s > 0 ? 1 / bandwidth_kb_per_s : 0);
    double rating = alone / (kb_time * alone * kc + 1);
    return isfinite(rating) && rating > 0 ? rating : 0;
}

/* Those that still take: of one tier (rated, or unrated ones that come in only when the rated ones are full).
 */
struct pool {
    int32_t index[WATERFILL_MAX];
    double rating[WATERFILL_MAX];
    int64_t room[WATERFILL_MAX];
    int32_t n;
};

static double pool_sum(const struct pool *pool)
{
    double sum = 0;
    for (int32_t i = 0; i < pool->n; i++)
        sum += pool->rating[i];
    return sum;
}

/* Fills up all whose proportional share reaches their room and takes them out; true when there were any. */
static bool saturate(struct pool *pool, int64_t *left, int64_t *share)
{
    double sum = pool_sum(pool);
    int64_t total = *left;
    int32_t kept = 0;
    bool any = false;
    for (int32_t i = 0; i < pool->n; i++) {
        bool full = (double)total * (pool->rating[i] / sum) >= (double)pool->room[i];
        if (full) {
            share[pool->index[i]] = pool->room[i];
            *left -= pool->room[i];
            any = true;
            continue;
        }
        pool->index[kept] = pool->index[i];
        pool->rating[kept] = pool->rating[i];
        pool->room[kept++] = pool->room[i];
    }
    pool->n = kept;
    return any;
}

/* Nobody is full: floors, and the rest by largest remainder, ties by index. */
static void apportion(struct pool *pool, int64_t *left, int64_t *share)
{
    double sum = pool_sum(pool), remainder[WATERFILL_MAX];
    int64_t total = *left;
    for (int32_t i = 0; i < pool->n; i++) {
        double exact = (double)total * (pool->rating[i] / sum);
        int64_t whole = (int64_t)floor(exact);
        if (whole > *left)
            whole = *left;
        share[pool->index[i]] = whole;
        remainder[i] = exact - (double)whole;
        *left -= whole;
    }
    while (*left > 0) {
        int32_t best = -1;
        for (int32_t i = 0; i < pool->n; i++)
            if (share[pool->index[i]] < pool->room[i] && (best < 0 || remainder[i] > remainder[best]))
                best = i;
        if (best < 0)
            return;
        share[pool->index[best]]++;
        remainder[best] -= 1;
        (*left)--;
    }
}

static void fill_tier(struct pool *pool, int64_t *left, int64_t *share)
{
    while (pool->n > 0 && *left > 0 && saturate(pool, left, share))
        ;
    if (pool->n > 0 && *left > 0)
        apportion(pool, left, share);
}

int plan_waterfill(int64_t total, const double *rating, const int64_t *cap, int32_t n, int64_t *share)
{
    if (total < 0 || n < 0 || n > WATERFILL_MAX)
        return STATUS_INVALID_ARGUMENT;
    int64_t left = total;
    for (int32_t i = 0; i < n; i++)
        share[i] = 0;
    for (int tier = 0; tier < 2; tier++) {
        struct pool pool = {.n = 0};
        for (int32_t i = 0; i < n; i++) {
            bool rated = isfinite(rating[i]) && rating[i] > 0;
            if (rated != (tier == 0) || cap[i] <= 0)
                continue;
            pool.index[pool.n] = i;
            pool.rating[pool.n] = rated ? rating[i] : 1;
            pool.room[pool.n++] = cap[i];
        }
        fill_tier(&pool, &left, share);
    }
    return left > 0 ? STATUS_DOES_NOT_FIT : 0;
}
