/*
 * Best-fit packing with a local search. The unit is a group of items, mostly one item alone. An order of
 * units decides a packing: each goes into the smallest gap that takes all its items between the items already
 * placed that are in use at the same time, lowest offset among equals. The search moves one unit to another
 * place in the order and keeps what is not worse.
 *
 * Invariant: items of unlike units whose times overlap never overlap in memory; with no conflicts everything
 * lies at 0.
 */
#include "server/schedule/pack_internal.h"

#include "shared/base/status.h"

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
    struct pack_units all; /* also points at what follows */
    struct pack_conflict *conflicts;
    int32_t *start;
    struct unit *units;
    int32_t n_units, *members, *unit_of;
    int64_t *above;              /* of each item: from its unit's origin */
    int32_t *order, *best_order; /* of units */
    struct barrier *near;
    bool *placed;         /* of each item */
    bool *top, *best_top; /* units that go to the upper end, below the bound, where nothing is above */
    int64_t bound;
    int64_t *best_offset;
    int32_t *align;  /* of each unit */
    int64_t *origin; /* of each unit, by the exact search */
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

int64_t pack_gain(const struct pack_item *items, const struct pack_pair *pair)
{
    int64_t below = items[pair->below].bytes, above = items[pair->above].bytes;
    int64_t less = below < above ? below : above;
    if (pair->level || below - pair->distance > less)
        return less;
    return below > pair->distance ? below - pair->distance : 0;
}

static int64_t used_at(const struct pack_problem *problem, int32_t step)
{
    const struct pack_item *items = problem->items;
    int64_t sum = 0;
    for (int32_t j = 0; j < problem->n_items; j++) {
        if (!in_use(&items[j], step))
            continue;
        bool counted = false; /* its group */
        for (int32_t k = 0; k < j && items[j].group && !counted; k++)
            counted = items[k].group == items[j].group && in_use(&items[k], step);
        if (!counted)
            sum += items[j].group ? covered(items, problem->n_items, items[j].group, step) : items[j].bytes;
    }
    for (int32_t p = 0; p < problem->n_pairs; p++)
        if (in_use(&items[problem->pairs[p].below], step) && in_use(&items[problem->pairs[p].above], step))
            sum -= pack_gain(items, &problem->pairs[p]);
    return sum;
}

int64_t schedule_pack_bound(const struct pack_problem *problem)
{
    int64_t bound = 0;
    for (int32_t i = 0; i < problem->n_items; i++) { /* the sum grows only where an item begins */
        int64_t used = used_at(problem, problem->items[i].first);
        bound = used > bound ? used : bound;
        bound = problem->items[i].bytes > bound ? problem->items[i].bytes : bound;
    }
    return bound;
}

/* ---- conflicts ---- */

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

static struct pack_conflict *conflict_of(const struct packer *packer, int32_t i, int32_t other)
{
    for (int32_t k = packer->start[i]; k < packer->start[i + 1]; k++)
        if (packer->conflicts[k].other == other)
            return &packer->conflicts[k];
    return NULL;
}

static void list_conflicts(struct packer *packer, const struct pack_problem *problem)
{
    int32_t count = 0;
    for (int32_t i = 0; i < packer->n; i++) {
        packer->start[i] = count;
        for (int32_t j = 0; j < packer->n; j++)
            if (conflict(packer, i, j))
                packer->conflicts[count++] =
                    (struct pack_conflict){j, false, -packer->items[i].bytes, packer->items[j].bytes};
    }
    packer->start[packer->n] = count;
    for (int32_t p = 0; p < problem->n_pairs; p++) {
        const struct pack_pair *pair = &problem->pairs[p];
        struct pack_conflict *low = conflict_of(packer, pair->below, pair->above),
                             *high = conflict_of(packer, pair->above, pair->below);
        if (!low || !high)
            continue;
        low->lo = -pair->distance > low->lo ? -pair->distance : low->lo;
        high->hi = pair->distance < high->hi ? pair->distance : high->hi;
        low->level = high->level = pair->level;
    }
}

/* ---- units ---- */

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
    packer->align[packer->n_units] = unit->align;
    lowest -= (lowest % unit->align + unit->align) % unit->align; /* each item keeps its alignment */
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

static int32_t add_barrier(struct packer *packer, int32_t n, struct barrier barrier)
{
    int32_t at = n;
    for (; at > 0 && packer->near[at - 1].from > barrier.from; at--)
        packer->near[at] = packer->near[at - 1];
    packer->near[at] = barrier;
    return n + 1;
}

/* What the items already placed forbid to a unit's origin, by their lower ends. */
static int32_t find_barriers(struct packer *packer, const struct unit *unit)
{
    int32_t n = 0;
    for (int32_t m = unit->begin; m < unit->end; m++) {
        int32_t i = packer->members[m];
        for (int32_t k = packer->start[i]; k < packer->start[i + 1]; k++) {
            const struct pack_conflict *it = &packer->conflicts[k];
            if (!packer->placed[it->other])
                continue;
            int64_t level = packer->items[it->other].offset - packer->above[i];
            struct barrier barrier = {level + it->lo, level + it->hi};
            if (it->level && it->lo < 0 && it->hi > 0) {
                n = add_barrier(packer, n, (struct barrier){barrier.from, level});
                barrier.from = level;
            }
            if (barrier.from < barrier.to)
                n = add_barrier(packer, n, barrier);
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

/* ---- exact search ---- */

/* How many targets between what is wished and what is known are tried. */
enum { EXACT_TARGETS = 3 };

/* Tries to end at most at `target`, from below and from above; keeps what is found. */
static bool try_exact(struct packer *packer, int64_t target, int64_t work, int64_t *best)
{
    for (int32_t side = 0; side < 2; side++) {
        int64_t left = work;
        if (!pack_exact(&packer->all, target, side == 1, &left, packer->origin))
            continue;
        for (int32_t i = 0; i < packer->n; i++)
            packer->best_offset[i] = packer->origin[packer->unit_of[i]] + packer->above[i];
        *best = target;
        return true;
    }
    return false;
}

static void search(struct packer *packer, const struct pack_problem *problem, int64_t *total)
{
    int64_t best = -1, enough = schedule_pack_bound(problem);
    packer->bound = problem->wish > enough ? problem->wish : enough;
    enough = problem->enough > packer->bound ? problem->enough : packer->bound;
    sort_alternating(packer);
    keep_best(packer, place_all(packer), &best);
    memset(packer->top, 0, sizeof *packer->top * (size_t)packer->n_units);
    for (int which = 0; which < 4; which++) {
        sort_order(packer, which);
        keep_best(packer, place_all(packer), &best);
    }
    if (best > packer->bound && !try_exact(packer, packer->bound, problem->work, &best) && best > enough)
        (void)try_exact(packer, enough, problem->work, &best);
    for (int32_t i = 0; i < problem->moves && best > packer->bound; i++) {
        move_one(packer);
        keep_best(packer, place_all(packer), &best);
    }
    for (int32_t i = 0; i < EXACT_TARGETS && best > enough; i++)
        (void)try_exact(packer, (enough + best) / 2, problem->work, &best);
    *total = 0;
    for (int32_t i = 0; i < packer->n; i++) {
        packer->items[i].offset = packer->best_offset[i];
        if (packer->items[i].offset + packer->items[i].bytes > *total)
            *total = packer->items[i].offset + packer->items[i].bytes;
    }
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
    packer->align = calloc(n, sizeof *packer->align);
    packer->origin = calloc(n, sizeof *packer->origin);
    if (!packer->units || !packer->members || !packer->unit_of || !packer->above || !packer->start ||
        !packer->order || !packer->best_order || !packer->placed || !packer->top || !packer->best_top ||
        !packer->best_offset || !packer->align || !packer->origin)
        return false;
    make_units(packer);
    size_t count = (size_t)count_conflicts(packer);
    packer->conflicts = calloc(count + 1, sizeof *packer->conflicts);
    packer->near = calloc(2 * count + 1, sizeof *packer->near);
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
    free(packer->align);
    free(packer->origin);
}

int schedule_pack(const struct pack_problem *problem, int64_t *total)
{
    struct packer packer = {.items = problem->items, .n = problem->n_items, .random = 42};
    int status = STATUS_NO_MEMORY;
    *total = 0;
    if (packer.n == 0)
        return 0;
    if (reserve(&packer)) {
        list_conflicts(&packer, problem);
        packer.all = (struct pack_units){packer.items,   packer.n,        packer.n_units,   packer.unit_of,
                                         packer.align,   packer.above,    packer.conflicts, packer.start,
                                         problem->pairs, problem->n_pairs};
        search(&packer, problem, total);
        status = 0;
    }
    release(&packer);
    return status;
}
