/*
 * Best-fit packing with a local search. The unit is a group of items, mostly one item alone. An order of
 * units decides a packing: each goes into the smallest gap that takes all its items between the items already
 * placed that are in use at the same time, lowest offset among equals. The search moves one unit to another
 * place in the order and keeps what is not worse.
 *
 * Invariant: items of unlike units whose times overlap never overlap in memory; with no conflicts everything
 * lies at 0.
 */
#include "server/schedule/pack.h"

#include "shared/base/status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Items at fixed distances: members[begin..end). */
struct unit {
    int32_t begin, end;
    int64_t bytes; /* from its lowest to its highest */
    int32_t first, last, align;
};

/* Offsets that an item placed before forbids to the unit's origin: all between the two. */
struct barrier {
    int64_t from, to;
};

struct packer {
    struct pack_item *items;
    int32_t n;
    int32_t *conflicts; /* of item i: conflicts[start[i]] .. conflicts[start[i + 1] - 1] */
    int32_t *start;
    struct unit *units;
    int32_t n_units, *members, *unit_of;
    int64_t *above;              /* of each item: from its unit's lowest byte */
    int32_t *order, *best_order; /* of units */
    struct barrier *near;
    bool *placed;         /* of each item */
    bool *top, *best_top; /* units that go to the upper end, below the bound, where nothing is above */
    int64_t bound;
    int64_t *best_offset;
    uint64_t random;
};

static bool overlap(const struct pack_item *a, const struct pack_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool in_use(const struct pack_item *item, int32_t step)
{
    return item->first <= step && step <= item->last;
}

/* Bytes that the items of a group in use at a step cover together. */
static int64_t covered(const struct pack_item *items, int32_t n, int32_t group, int32_t step)
{
    int64_t sum = 0, at = INT64_MIN;
    for (;;) { /* the covered stretch that begins lowest at or above `at` */
        int64_t from = INT64_MAX, to = INT64_MIN;
        for (int32_t i = 0; i < n; i++)
            if (items[i].group == group && in_use(&items[i], step) &&
                items[i].distance + items[i].bytes > at && items[i].distance < from) {
                from = items[i].distance;
                to = from + items[i].bytes;
            }
        if (from == INT64_MAX)
            return sum;
        from = from > at ? from : at;
        sum += to - from;
        at = to;
    }
}

int64_t schedule_pack_bound(const struct pack_item *items, int32_t n)
{
    int64_t bound = 0;
    for (int32_t i = 0; i < n; i++) { /* the sum grows only where an item begins */
        int64_t sum = 0;
        for (int32_t j = 0; j < n; j++) {
            if (!in_use(&items[j], items[i].first))
                continue;
            bool counted = false; /* its group */
            for (int32_t k = 0; k < j && items[j].group && !counted; k++)
                counted = items[k].group == items[j].group && in_use(&items[k], items[i].first);
            if (!counted)
                sum += items[j].group ? covered(items, n, items[j].group, items[i].first) : items[j].bytes;
        }
        bound = sum > bound ? sum : bound;
    }
    return bound;
}

static bool conflict(const struct packer *packer, int32_t i, int32_t j)
{
    return packer->unit_of[i] != packer->unit_of[j] && overlap(&packer->items[i], &packer->items[j]);
}

static int32_t count_conflicts(const struct packer *packer)
{
    int32_t count = 0;
    for (int32_t i = 0; i < packer->n; i++)
        for (int32_t j = 0; j < packer->n; j++)
            count += conflict(packer, i, j);
    return count;
}

static void list_conflicts(struct packer *packer)
{
    int32_t count = 0;
    for (int32_t i = 0; i < packer->n; i++) {
        packer->start[i] = count;
        for (int32_t j = 0; j < packer->n; j++)
            if (conflict(packer, i, j))
                packer->conflicts[count++] = j;
    }
    packer->start[packer->n] = count;
}

static void add_member(struct packer *packer, struct unit *unit, int32_t i)
{
    const struct pack_item *item = &packer->items[i];
    packer->members[unit->end++] = i;
    unit->first = item->first < unit->first ? item->first : unit->first;
    unit->last = item->last > unit->last ? item->last : unit->last;
    unit->align = item->align > unit->align ? item->align : unit->align;
}

static void make_unit(struct packer *packer, int32_t i)
{
    int32_t begin = packer->n_units ? packer->units[packer->n_units - 1].end : 0;
    int32_t group = packer->items[i].group;
    struct unit *unit = &packer->units[packer->n_units];
    *unit = (struct unit){begin, begin, 0, INT32_MAX, INT32_MIN, 1};
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    for (int32_t j = i; j < packer->n; j++) {
        const struct pack_item *item = &packer->items[j];
        if (j != i && (!group || item->group != group))
            continue;
        int64_t at = group ? item->distance : 0;
        packer->unit_of[j] = packer->n_units;
        add_member(packer, unit, j);
        lowest = at < lowest ? at : lowest;
        highest = at + item->bytes > highest ? at + item->bytes : highest;
    }
    for (int32_t m = begin; m < unit->end; m++)
        packer->above[packer->members[m]] = group ? packer->items[packer->members[m]].distance - lowest : 0;
    unit->bytes = highest - lowest;
    packer->n_units++;
}

static void make_units(struct packer *packer)
{
    for (int32_t i = 0; i < packer->n; i++)
        packer->unit_of[i] = -1;
    for (int32_t i = 0; i < packer->n; i++)
        if (packer->unit_of[i] < 0)
            make_unit(packer, i);
}

static int64_t align_up(int64_t x, int64_t align)
{
    return (x + align - 1) / align * align;
}

/* What the items already placed forbid to a unit's lowest byte, by their lower ends. */
static int32_t find_barriers(struct packer *packer, const struct unit *unit)
{
    int32_t n = 0;
    for (int32_t m = unit->begin; m < unit->end; m++) {
        int32_t i = packer->members[m];
        for (int32_t k = packer->start[i]; k < packer->start[i + 1]; k++) {
            int32_t other = packer->conflicts[k], at;
            const struct pack_item *item = &packer->items[other];
            if (!packer->placed[other])
                continue;
            struct barrier barrier = {item->offset - packer->items[i].bytes - packer->above[i],
                                      item->offset + item->bytes - packer->above[i]};
            for (at = n++; at > 0 && packer->near[at - 1].from > barrier.from; at--)
                packer->near[at] = packer->near[at - 1];
            packer->near[at] = barrier;
        }
    }
    return n;
}

/* The best gap for a unit among its placed conflicts. */
static int64_t best_gap(struct packer *packer, int32_t u)
{
    const struct unit *unit = &packer->units[u];
    int32_t n = find_barriers(packer, unit);
    int64_t end = 0, found = -1, waste = INT64_MAX;
    for (int32_t k = 0; k < n; k++) {
        struct barrier next = packer->near[k];
        int64_t at = align_up(end, unit->align);
        if (next.from >= at && next.from - end < waste) {
            waste = next.from - end;
            found = at;
        }
        end = next.to > end ? next.to : end;
    }
    if (found >= 0)
        return found;
    int64_t upper = packer->bound - unit->bytes;
    upper -= upper % unit->align;
    end = align_up(end, unit->align);
    return packer->top[u] && upper > end ? upper : end;
}

static int64_t place_all(struct packer *packer)
{
    int64_t total = 0;
    memset(packer->placed, 0, sizeof *packer->placed * (size_t)packer->n);
    for (int32_t k = 0; k < packer->n_units; k++) {
        const struct unit *unit = &packer->units[packer->order[k]];
        int64_t origin = best_gap(packer, packer->order[k]);
        for (int32_t m = unit->begin; m < unit->end; m++) {
            packer->items[packer->members[m]].offset = origin + packer->above[packer->members[m]];
            packer->placed[packer->members[m]] = true;
        }
        total = origin + unit->bytes > total ? origin + unit->bytes : total;
    }
    return total;
}

/* Sorts the order by one of a few keys; ties by index. */
static double key(const struct unit *unit, int which)
{
    double span = unit->last - unit->first + 1;
    switch (which) {
    case 0:
        return -(double)unit->bytes;
    case 1:
        return -(double)unit->bytes * span;
    case 2:
        return unit->first;
    default:
        return -span;
    }
}

static void sort_order(struct packer *packer, int which)
{
    for (int32_t i = 0; i < packer->n_units; i++) {
        int32_t at = i;
        double mine = key(&packer->units[i], which);
        for (; at > 0 && key(&packer->units[packer->order[at - 1]], which) > mine; at--)
            packer->order[at] = packer->order[at - 1];
        packer->order[at] = i;
    }
}

static void keep_best(struct packer *packer, int64_t total, int64_t *best)
{
    if (*best >= 0 && total > *best)
        return;
    *best = total;
    memcpy(packer->best_order, packer->order, sizeof *packer->order * (size_t)packer->n_units);
    memcpy(packer->best_top, packer->top, sizeof *packer->top * (size_t)packer->n_units);
    for (int32_t i = 0; i < packer->n; i++)
        packer->best_offset[i] = packer->items[i].offset;
}

static int32_t draw(struct packer *packer, int32_t n)
{
    packer->random = packer->random * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((packer->random >> 33) % (uint64_t)n);
}

static bool stands_out(const struct packer *packer, const struct unit *unit)
{
    for (int32_t m = unit->begin; m < unit->end; m++)
        if (packer->best_offset[packer->members[m]] + packer->items[packer->members[m]].bytes > packer->bound)
            return true;
    return false;
}

/* A unit that stands out above the bound in the best packing; now and then any. Its place in the order. */
static int32_t pick(struct packer *packer)
{
    int32_t start = draw(packer, packer->n_units);
    if (draw(packer, 4) == 0)
        return start;
    for (int32_t i = 0; i < packer->n_units; i++) {
        int32_t at = (start + i) % packer->n_units;
        if (stands_out(packer, &packer->units[packer->best_order[at]]))
            return at;
    }
    return start;
}

/* Moves one unit of the best order, mostly to the front, or to the other end of the memory. */
static void move_one(struct packer *packer)
{
    memcpy(packer->order, packer->best_order, sizeof *packer->order * (size_t)packer->n_units);
    memcpy(packer->top, packer->best_top, sizeof *packer->top * (size_t)packer->n_units);
    int32_t from = pick(packer), to = draw(packer, draw(packer, 4) && from > 0 ? from : packer->n_units);
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
    for (int32_t k = 0; k < packer->n_units; k++)
        packer->top[packer->order[k]] = k % 2;
}

static void search(struct packer *packer, int32_t effort, int64_t *total)
{
    int64_t best = -1;
    packer->bound = schedule_pack_bound(packer->items, packer->n);
    sort_alternating(packer);
    keep_best(packer, place_all(packer), &best);
    memset(packer->top, 0, sizeof *packer->top * (size_t)packer->n_units);
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

static bool reserve(struct packer *packer)
{
    size_t n = (size_t)packer->n;
    packer->units = calloc(n, sizeof *packer->units);
    packer->members = calloc(n, sizeof *packer->members);
    packer->unit_of = calloc(n, sizeof *packer->unit_of);
    packer->above = calloc(n, sizeof *packer->above);
    packer->start = calloc(n + 1, sizeof *packer->start);
    packer->order = calloc(n, sizeof *packer->order);
    packer->best_order = calloc(n, sizeof *packer->best_order);
    packer->placed = calloc(n, sizeof *packer->placed);
    packer->top = calloc(n, sizeof *packer->top);
    packer->best_top = calloc(n, sizeof *packer->best_top);
    packer->best_offset = calloc(n, sizeof *packer->best_offset);
    if (!packer->units || !packer->members || !packer->unit_of || !packer->above || !packer->start ||
        !packer->order || !packer->best_order || !packer->placed || !packer->top || !packer->best_top ||
        !packer->best_offset)
        return false;
    make_units(packer);
    size_t count = (size_t)count_conflicts(packer);
    packer->conflicts = calloc(count + 1, sizeof *packer->conflicts);
    packer->near = calloc(count + 1, sizeof *packer->near);
    return packer->conflicts && packer->near;
}

static void release(struct packer *packer)
{
    free(packer->units);
    free(packer->members);
    free(packer->unit_of);
    free(packer->above);
    free(packer->start);
    free(packer->conflicts);
    free(packer->order);
    free(packer->best_order);
    free(packer->near);
    free(packer->placed);
    free(packer->top);
    free(packer->best_top);
    free(packer->best_offset);
}

int schedule_pack(struct pack_item *items, int32_t n, int32_t effort, int64_t *total)
{
    struct packer packer = {.items = items, .n = n, .random = 42};
    int status = STATUS_NO_MEMORY;
    *total = 0;
    if (n == 0)
        return 0;
    if (reserve(&packer)) {
        list_conflicts(&packer);
        search(&packer, effort, total);
        status = 0;
    }
    release(&packer);
    return status;
}
