/*
 * Packing by branch and bound: units are placed in the order of their origins, each at the lowest one that is
 * free and not below the one before. A packing can be pushed down until every unit lies on another one or at
 * the bottom, and is then found in that order; so for items alone the search is complete. (A unit of several
 * items may also rest on one that begins above its own origin; searching from the top down finds most of
 * these.) Upside down everything is the same but for coordinates, which count from the target downwards.
 *
 * Invariants: lowest[] of a unit never falls along a branch, since more is placed and the order's end rises;
 * a branch ends where a unit's lowest origin is too high, or where at some step what is still to be placed
 * does not fit into what is free above the order's end. Work is counted, not timed.
 */
#include "server/schedule/pack_internal.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS_MAX = 200, SEEN_SLOTS = 1 << 14 };

/* What a unit covers at each of its steps, from `first` on: [lo, hi) above its origin; hi 0: nothing. */
struct outline {
    int32_t first, n;
    int64_t *lo, *hi;
    int64_t height, align, phase; /* (origin + phase) % align == 0 */
};

struct stretch {
    int64_t from, to;
};

/* A conflict of an item of one unit, in terms of units: the origin may not lie between lo and hi above that
 * of unit `other`, but at `level` if `levels`. */
struct bar {
    int32_t other;
    bool levels;
    int64_t lo, hi, level;
};

/* Two units of which the one may overlap the other by `gain` bytes, at these steps. */
struct share {
    int32_t a, b, first, last;
    int64_t gain;
};

struct exact {
    int32_t n, n_steps, n_shares;
    int64_t target, *work;
    struct outline *outlines;
    struct bar *bars; /* of unit u: from start[u] to start[u + 1] */
    int32_t *start;
    struct share *shares;
    int64_t *memory;       /* of the outlines */
    struct stretch *taken; /* of each step, n_taken[step] of n, by `from` */
    int32_t *n_taken;
    int64_t *waiting; /* of each step: bytes still to be placed, less what they may share */
    bool *placed;
    int64_t *origin, *lowest; /* lowest: of each depth, n */
    int32_t *order;           /* of each depth, n: what to try */
    uint64_t *seen, hash;
};

/* ---- outlines ---- */

static int compare_steps(const void *a, const void *b)
{
    int32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Steps at which items begin: no others matter. Returns their number. */
static int32_t list_steps(const struct pack_units *units, int32_t *steps)
{
    int32_t n = 0;
    for (int32_t i = 0; i < units->n_items; i++)
        steps[i] = units->items[i].first;
    qsort(steps, (size_t)units->n_items, sizeof *steps, compare_steps);
    for (int32_t i = 0; i < units->n_items; i++)
        if (i == 0 || steps[i] != steps[i - 1])
            steps[n++] = steps[i];
    return n;
}

static void cover(struct outline *outline, int32_t step, int64_t lo, int64_t hi)
{
    int32_t at = step - outline->first;
    bool none = outline->hi[at] == 0;
    outline->lo[at] = none || lo < outline->lo[at] ? lo : outline->lo[at];
    outline->hi[at] = hi > outline->hi[at] ? hi : outline->hi[at];
}

static void find_extent(const struct pack_units *units, const int32_t *steps, int32_t n_steps, int32_t i,
                        int32_t *first, int32_t *last)
{
    const struct pack_item *item = &units->items[i];
    for (*first = 0; *first < n_steps && steps[*first] < item->first;)
        ++*first;
    for (*last = *first; *last + 1 < n_steps && steps[*last + 1] <= item->last;)
        ++*last;
}

static bool make_outlines(struct exact *e, const struct pack_units *units, const int32_t *steps)
{
    int32_t first, last;
    size_t room = 0;
    for (int32_t u = 0; u < e->n; u++)
        e->outlines[u] = (struct outline){.first = INT32_MAX, .align = units->align[u]};
    for (int32_t i = 0; i < units->n_items; i++) {
        struct outline *outline = &e->outlines[units->unit_of[i]];
        find_extent(units, steps, e->n_steps, i, &first, &last);
        int32_t end = outline->n ? outline->first + outline->n : 0;
        outline->first = first < outline->first ? first : outline->first;
        end = last + 1 > end ? last + 1 : end;
        outline->n = end - outline->first;
    }
    for (int32_t u = 0; u < e->n; u++)
        room += (size_t)e->outlines[u].n;
    e->memory = calloc(2 * room + 1, sizeof *e->memory);
    if (!e->memory)
        return false;
    int64_t *memory = e->memory;
    for (int32_t u = 0; u < e->n; u++) {
        e->outlines[u].lo = memory;
        e->outlines[u].hi = memory + e->outlines[u].n;
        memory += 2 * e->outlines[u].n;
    }
    for (int32_t i = 0; i < units->n_items; i++) {
        struct outline *outline = &e->outlines[units->unit_of[i]];
        int64_t lo = units->above[i], hi = lo + units->items[i].bytes;
        find_extent(units, steps, e->n_steps, i, &first, &last);
        for (int32_t s = first; s <= last; s++)
            cover(outline, s, lo, hi);
        outline->height = hi > outline->height ? hi : outline->height;
    }
    return true;
}

static void turn_over(struct exact *e)
{
    for (int32_t u = 0; u < e->n; u++) {
        struct outline *outline = &e->outlines[u];
        for (int32_t s = 0; s < outline->n; s++) {
            int64_t lo = outline->lo[s];
            if (outline->hi[s] == 0)
                continue;
            outline->lo[s] = outline->height - outline->hi[s];
            outline->hi[s] = outline->height - lo;
        }
        outline->phase = outline->align - (e->target - outline->height) % outline->align;
    }
}

/* ---- conflicts ---- */

static struct bar make_bar(const struct exact *e, const struct pack_units *units, int32_t i,
                           const struct pack_conflict *conflict, bool upside_down)
{
    int32_t unit = units->unit_of[i], other = units->unit_of[conflict->other];
    int64_t apart = units->above[conflict->other] - units->above[i];
    struct bar bar = {other, conflict->level, apart + conflict->lo, apart + conflict->hi, apart};
    if (upside_down) {
        int64_t heights = e->outlines[other].height - e->outlines[unit].height;
        bar.lo = heights - (apart + conflict->hi);
        bar.hi = heights - (apart + conflict->lo);
        bar.level = heights - apart;
    }
    return bar;
}

static bool make_bars(struct exact *e, const struct pack_units *units, bool upside_down)
{
    int32_t n = 0;
    e->bars = calloc((size_t)units->start[units->n_items] + 1, sizeof *e->bars);
    e->start = calloc((size_t)e->n + 1, sizeof *e->start);
    if (!e->bars || !e->start)
        return false;
    for (int32_t u = 0; u < e->n; u++) {
        e->start[u] = n;
        for (int32_t i = 0; i < units->n_items; i++)
            for (int32_t k = units->start[i]; units->unit_of[i] == u && k < units->start[i + 1]; k++)
                if (units->conflicts[k].lo < units->conflicts[k].hi)
                    e->bars[n++] = make_bar(e, units, i, &units->conflicts[k], upside_down);
    }
    e->start[e->n] = n;
    return true;
}

static bool make_shares(struct exact *e, const struct pack_units *units, const int32_t *steps)
{
    e->shares = calloc((size_t)units->n_pairs + 1, sizeof *e->shares);
    for (int32_t p = 0; e->shares && p < units->n_pairs; p++) {
        const struct pack_pair *pair = &units->pairs[p];
        struct share share = {units->unit_of[pair->below], units->unit_of[pair->above], 0, 0,
                              pack_gain(units->items, pair)};
        int32_t first, last;
        find_extent(units, steps, e->n_steps, pair->below, &share.first, &share.last);
        find_extent(units, steps, e->n_steps, pair->above, &first, &last);
        share.first = first > share.first ? first : share.first;
        share.last = last < share.last ? last : share.last;
        if (share.a != share.b)
            e->shares[e->n_shares++] = share;
    }
    return e->shares != NULL;
}

static void count_share(struct exact *e, const struct share *share, int64_t sign)
{
    for (int32_t s = share->first; s <= share->last; s++)
        e->waiting[s] += sign * share->gain;
}

/* ---- the search ---- */

static int64_t aligned(const struct outline *outline, int64_t x)
{
    int64_t rest = (x + outline->phase) % outline->align;
    return rest ? x + outline->align - rest : x;
}

/* The lowest origin from `at` on that what is placed leaves free. */
static int64_t lowest_free(struct exact *e, int32_t u, int64_t at)
{
    const struct outline *outline = &e->outlines[u];
    at = aligned(outline, at);
    for (bool moved = true; moved && at + outline->height <= e->target;) {
        moved = false;
        *e->work -= e->start[u + 1] - e->start[u] + 1;
        for (int32_t k = e->start[u]; k < e->start[u + 1]; k++) {
            const struct bar *bar = &e->bars[k];
            int64_t from = e->origin[bar->other], level = from + bar->level;
            if (!e->placed[bar->other] || from + bar->lo >= at || at >= from + bar->hi ||
                (bar->levels && at == level))
                continue;
            bool rests = bar->levels && level > at && aligned(outline, level) == level;
            at = rests ? level : aligned(outline, from + bar->hi);
            moved = true;
        }
    }
    return at;
}

/* At every step what waits fits into what is free above `end`. */
static bool fits(const struct exact *e, int64_t end)
{
    for (int32_t s = 0; s < e->n_steps; s++) {
        const struct stretch *taken = e->taken + (size_t)s * (size_t)e->n;
        int64_t room = e->target - end - e->waiting[s], at = end;
        *e->work -= e->n_taken[s] + 1;
        for (int32_t k = 0; k < e->n_taken[s] && room >= 0; k++)
            if (taken[k].to > at) {
                room -= taken[k].to - (taken[k].from > at ? taken[k].from : at);
                at = taken[k].to;
            }
        if (room < 0)
            return false;
    }
    return true;
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void add_stretch(struct exact *e, int32_t step, struct stretch stretch)
{
    struct stretch *taken = e->taken + (size_t)step * (size_t)e->n;
    int32_t at = e->n_taken[step]++;
    for (; at > 0 && taken[at - 1].from > stretch.from; at--)
        taken[at] = taken[at - 1];
    taken[at] = stretch;
}

static void drop_stretch(struct exact *e, int32_t step, struct stretch stretch)
{
    struct stretch *taken = e->taken + (size_t)step * (size_t)e->n;
    int32_t at = 0, n = --e->n_taken[step];
    while (at < n && (taken[at].from != stretch.from || taken[at].to != stretch.to))
        at++;
    memmove(taken + at, taken + at + 1, (size_t)(n - at) * sizeof *taken);
}

/* The other way round with `back`. */
static void place(struct exact *e, int32_t u, int64_t origin, bool back)
{
    const struct outline *outline = &e->outlines[u];
    uint64_t mark = mixed((uint64_t)origin * UNITS_MAX + (uint64_t)u + 1);
    for (int32_t s = 0; s < outline->n; s++) {
        int32_t step = outline->first + s;
        struct stretch stretch = {origin + outline->lo[s], origin + outline->hi[s]};
        if (!outline->hi[s])
            continue;
        e->waiting[step] += back ? outline->hi[s] - outline->lo[s] : outline->lo[s] - outline->hi[s];
        if (back)
            drop_stretch(e, step, stretch);
        else
            add_stretch(e, step, stretch);
    }
    for (int32_t k = 0; k < e->n_shares; k++) { /* of two that lie, it is known what they share */
        const struct share *share = &e->shares[k];
        if ((share->a == u && e->placed[share->b]) || (share->b == u && e->placed[share->a]))
            count_share(e, share, back ? -1 : 1);
    }
    e->placed[u] = !back;
    e->origin[u] = origin;
    e->hash += back ? 0 - mark : mark;
}

/* The same units at the same places in another order lead nowhere new. Two that share a slot forget each
 * other. */
static bool was_seen(struct exact *e)
{
    uint64_t *slot = &e->seen[mixed(e->hash) % SEEN_SLOTS];
    bool seen = *slot == e->hash;
    *slot = e->hash;
    return seen;
}

/* Lower origins first, among equals what is in use longest. */
static bool before(const struct exact *e, const int64_t *lowest, int32_t a, int32_t b)
{
    if (lowest[a] != lowest[b])
        return lowest[a] < lowest[b];
    if (e->outlines[a].n != e->outlines[b].n)
        return e->outlines[a].n > e->outlines[b].n;
    return e->outlines[a].height > e->outlines[b].height;
}

/* Sets the lowest origins of what waits, and the order in which to try it. Returns how many, -1: one of them
 * has no place. */
static int32_t list_next(struct exact *e, int32_t depth, int64_t end)
{
    const int64_t *former = e->lowest + (size_t)(depth ? depth - 1 : 0) * (size_t)e->n;
    int64_t *lowest = e->lowest + (size_t)depth * (size_t)e->n;
    int32_t *order = e->order + (size_t)depth * (size_t)e->n, n = 0;
    for (int32_t u = 0; u < e->n; u++) {
        if (e->placed[u])
            continue;
        int64_t from = depth && former[u] > end ? former[u] : end;
        lowest[u] = lowest_free(e, u, from);
        if (lowest[u] + e->outlines[u].height > e->target)
            return -1;
        int32_t at = n++;
        for (; at > 0 && before(e, lowest, u, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = u;
    }
    return n;
}

static bool descend(struct exact *e, int32_t depth, int64_t end)
{
    if (depth == e->n)
        return true;
    if (*e->work <= 0 || !fits(e, end))
        return false;
    int32_t n = list_next(e, depth, end);
    const int64_t *lowest = e->lowest + (size_t)depth * (size_t)e->n;
    const int32_t *order = e->order + (size_t)depth * (size_t)e->n;
    int64_t latest = e->target; /* a unit that begins above it leaves no place for another one */
    for (int32_t k = 0; k < n; k++)
        if (e->target - e->outlines[order[k]].height < latest)
            latest = e->target - e->outlines[order[k]].height;
    for (int32_t k = 0; k<n && * e->work> 0; k++) {
        int32_t u = order[k];
        if (lowest[u] > latest)
            return false;
        place(e, u, lowest[u], false);
        if (!was_seen(e) && descend(e, depth + 1, lowest[u]))
            return true;
        place(e, u, lowest[u], true);
    }
    return false;
}

static bool reserve(struct exact *e)
{
    size_t n = (size_t)e->n, steps = (size_t)e->n_steps;
    e->outlines = calloc(n, sizeof *e->outlines);
    e->taken = calloc(steps * n, sizeof *e->taken);
    e->n_taken = calloc(steps, sizeof *e->n_taken);
    e->waiting = calloc(steps, sizeof *e->waiting);
    e->placed = calloc(n, sizeof *e->placed);
    e->lowest = calloc(n * n, sizeof *e->lowest);
    e->order = calloc(n * n, sizeof *e->order);
    e->seen = calloc(SEEN_SLOTS, sizeof *e->seen);
    return e->outlines && e->taken && e->n_taken && e->waiting && e->placed && e->lowest && e->order &&
           e->seen;
}

static void release(struct exact *e)
{
    free(e->outlines);
    free(e->bars);
    free(e->start);
    free(e->shares);
    free(e->memory);
    free(e->taken);
    free(e->n_taken);
    free(e->waiting);
    free(e->placed);
    free(e->lowest);
    free(e->order);
    free(e->seen);
}

bool pack_exact(const struct pack_units *units, int64_t target, bool upside_down, int64_t *work,
                int64_t *origins)
{
    struct exact e = {.n = units->n_units, .target = target, .work = work, .origin = origins};
    int32_t *steps = calloc((size_t)units->n_items + 1, sizeof *steps);
    bool found = false;
    e.n_steps = steps && e.n <= UNITS_MAX ? list_steps(units, steps) : 0;
    if (e.n_steps > 0 && reserve(&e) && make_outlines(&e, units, steps) && make_shares(&e, units, steps) &&
        make_bars(&e, units, upside_down)) {
        if (upside_down)
            turn_over(&e);
        for (int32_t u = 0; u < e.n; u++)
            for (int32_t s = 0; s < e.outlines[u].n; s++)
                e.waiting[e.outlines[u].first + s] += e.outlines[u].hi[s] - e.outlines[u].lo[s];
        for (int32_t k = 0; k < e.n_shares; k++)
            count_share(&e, &e.shares[k], -1);
        found = descend(&e, 0, 0);
        for (int32_t u = 0; u < e.n && found && upside_down; u++)
            origins[u] = target - origins[u] - e.outlines[u].height;
    } else {
        *work = 0;
    }
    release(&e);
    free(steps);
    return found;
}
