/*
 * Best-fit packing with a local search. An order of items decides a packing: each item goes into the smallest
 * gap that takes it between the items already placed that are in use at the same time, lowest offset among
 * equals. The search moves one item to another place in the order and keeps what is not worse.
 *
 * Invariant: items whose times overlap never overlap in memory; with no conflicts everything lies at 0.
 */
#include "server/schedule/pack.h"

#include "shared/base/status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct packer {
    struct pack_item *items;
    int32_t n;
    int32_t *conflicts; /* of item i: conflicts[start[i]] .. conflicts[start[i + 1] - 1] */
    int32_t *start;
    int32_t *order, *best_order, *near; /* n each */
    bool *placed;
    bool *top, *best_top; /* items that go to the upper end, below the bound, where nothing is above */
    int64_t bound;
    int64_t *best_offset;
    uint64_t random;
};

static bool overlap(const struct pack_item *a, const struct pack_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

int64_t schedule_pack_bound(const struct pack_item *items, int32_t n)
{
    int64_t bound = 0;
    for (int32_t i = 0; i < n; i++) { /* the sum grows only where an item begins */
        int64_t sum = 0;
        for (int32_t j = 0; j < n; j++)
            if (items[j].first <= items[i].first && items[i].first <= items[j].last)
                sum += items[j].bytes;
        bound = sum > bound ? sum : bound;
    }
    return bound;
}

static int32_t count_conflicts(const struct packer *packer)
{
    int32_t count = 0;
    for (int32_t i = 0; i < packer->n; i++)
        for (int32_t j = 0; j < packer->n; j++)
            count += i != j && overlap(&packer->items[i], &packer->items[j]);
    return count;
}

static void list_conflicts(struct packer *packer)
{
    int32_t count = 0;
    for (int32_t i = 0; i < packer->n; i++) {
        packer->start[i] = count;
        for (int32_t j = 0; j < packer->n; j++)
            if (i != j && overlap(&packer->items[i], &packer->items[j]))
                packer->conflicts[count++] = j;
    }
    packer->start[packer->n] = count;
}

static int64_t align_up(int64_t x, int64_t align)
{
    return (x + align - 1) / align * align;
}

/* The best gap for item i among its placed conflicts. */
static int64_t best_gap(struct packer *packer, int32_t i)
{
    const struct pack_item *item = &packer->items[i];
    int32_t n = 0;
    for (int32_t k = packer->start[i]; k < packer->start[i + 1]; k++) {
        int32_t other = packer->conflicts[k], at;
        if (!packer->placed[other])
            continue;
        for (at = n++; at > 0 && packer->items[packer->near[at - 1]].offset > packer->items[other].offset;
             at--)
            packer->near[at] = packer->near[at - 1];
        packer->near[at] = other;
    }
    int64_t end = 0, found = -1, waste = INT64_MAX;
    for (int32_t k = 0; k < n; k++) {
        const struct pack_item *next = &packer->items[packer->near[k]];
        int64_t at = align_up(end, item->align);
        if (next->offset - at >= item->bytes && next->offset - end - item->bytes < waste) {
            waste = next->offset - end - item->bytes;
            found = at;
        }
        if (next->offset + next->bytes > end)
            end = next->offset + next->bytes;
    }
    if (found >= 0)
        return found;
    int64_t upper = packer->bound - item->bytes;
    upper -= upper % item->align;
    end = align_up(end, item->align);
    return packer->top[i] && upper > end ? upper : end;
}

static int64_t place_all(struct packer *packer)
{
    int64_t total = 0;
    memset(packer->placed, 0, sizeof *packer->placed * (size_t)packer->n);
    for (int32_t k = 0; k < packer->n; k++) {
        struct pack_item *item = &packer->items[packer->order[k]];
        item->offset = best_gap(packer, packer->order[k]);
        packer->placed[packer->order[k]] = true;
        total = item->offset + item->bytes > total ? item->offset + item->bytes : total;
    }
    return total;
}

/* Sorts the order by one of a few keys; ties by index. */
static double key(const struct pack_item *item, int which)
{
    double span = item->last - item->first + 1;
    switch (which) {
    case 0:
        return -(double)item->bytes;
    case 1:
        return -(double)item->bytes * span;
    case 2:
        return item->first;
    default:
        return -span;
    }
}

static void sort_order(struct packer *packer, int which)
{
    for (int32_t i = 0; i < packer->n; i++) {
        int32_t at = i;
        double mine = key(&packer->items[i], which);
        for (; at > 0 && key(&packer->items[packer->order[at - 1]], which) > mine; at--)
            packer->order[at] = packer->order[at - 1];
        packer->order[at] = i;
    }
}

static void keep_best(struct packer *packer, int64_t total, int64_t *best)
{
    if (*best >= 0 && total > *best)
        return;
    *best = total;
    memcpy(packer->best_order, packer->order, sizeof *packer->order * (size_t)packer->n);
    memcpy(packer->best_top, packer->top, sizeof *packer->top * (size_t)packer->n);
    for (int32_t i = 0; i < packer->n; i++)
        packer->best_offset[i] = packer->items[i].offset;
}

static int32_t draw(struct packer *packer, int32_t n)
{
    packer->random = packer->random * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((packer->random >> 33) % (uint64_t)n);
}

/* An item that stands out above the bound in the best packing; now and then any. Its place in the order. */
static int32_t pick(struct packer *packer)
{
    int32_t start = draw(packer, packer->n);
    if (draw(packer, 4) == 0)
        return start;
    for (int32_t i = 0; i < packer->n; i++) {
        int32_t at = (start + i) % packer->n, item = packer->best_order[at];
        if (packer->best_offset[item] + packer->items[item].bytes > packer->bound)
            return at;
    }
    return start;
}

/* Moves one item of the best order, mostly to the front, or to the other end of the memory. */
static void move_one(struct packer *packer)
{
    memcpy(packer->order, packer->best_order, sizeof *packer->order * (size_t)packer->n);
    memcpy(packer->top, packer->best_top, sizeof *packer->top * (size_t)packer->n);
    int32_t from = pick(packer), to = draw(packer, draw(packer, 4) && from > 0 ? from : packer->n);
    int32_t item = packer->order[from];
    if (from < to)
        memmove(packer->order + from, packer->order + from + 1, sizeof item * (size_t)(to - from));
    else
        memmove(packer->order + to + 1, packer->order + to, sizeof item * (size_t)(from - to));
    packer->order[to] = item;
    if (draw(packer, 3) == 0)
        packer->top[item] = !packer->top[item];
}

/* In order of time, every second one from above: what packs a plain chain. */
static void sort_alternating(struct packer *packer)
{
    sort_order(packer, 2);
    for (int32_t k = 0; k < packer->n; k++)
        packer->top[packer->order[k]] = k % 2;
}

static void search(struct packer *packer, int32_t effort, int64_t *total)
{
    int64_t best = -1;
    packer->bound = schedule_pack_bound(packer->items, packer->n);
    sort_alternating(packer);
    keep_best(packer, place_all(packer), &best);
    memset(packer->top, 0, sizeof *packer->top * (size_t)packer->n);
    for (int which = 0; which < 4; which++) {
        sort_order(packer, which);
        keep_best(packer, place_all(packer), &best);
    }
    for (int32_t i = 0; i < effort && best > packer->bound; i++) {
        move_one(packer);
        keep_best(packer, place_all(packer), &best);
    }
    for (int32_t i = 0; i < packer->n; i++)
        packer->items[i].offset = packer->best_offset[i];
    *total = best;
}

int schedule_pack(struct pack_item *items, int32_t n, int32_t effort, int64_t *total)
{
    struct packer packer = {.items = items, .n = n, .random = 42};
    int status = STATUS_NO_MEMORY;
    *total = 0;
    if (n == 0)
        return 0;
    int32_t count = count_conflicts(&packer);
    packer.start = calloc((size_t)n + 1, sizeof *packer.start);
    packer.conflicts = calloc((size_t)count + 1, sizeof *packer.conflicts);
    packer.order = calloc((size_t)n, sizeof *packer.order);
    packer.best_order = calloc((size_t)n, sizeof *packer.best_order);
    packer.near = calloc((size_t)n, sizeof *packer.near);
    packer.placed = calloc((size_t)n, sizeof *packer.placed);
    packer.top = calloc((size_t)n, sizeof *packer.top);
    packer.best_top = calloc((size_t)n, sizeof *packer.best_top);
    packer.best_offset = calloc((size_t)n, sizeof *packer.best_offset);
    if (packer.start && packer.conflicts && packer.order && packer.best_order && packer.near &&
        packer.placed && packer.best_offset) {
        list_conflicts(&packer);
        search(&packer, effort, total);
        status = 0;
    }
    free(packer.start);
    free(packer.conflicts);
    free(packer.order);
    free(packer.best_order);
    free(packer.near);
    free(packer.placed);
    free(packer.top);
    free(packer.best_top);
    free(packer.best_offset);
    return status;
}
