/*
 * From stores to buffers: each store that a party uses gets a place in its arena. A store made in place of
 * another is one buffer with it if nobody reads the other any more. peak_bytes follows the counting rules
 * (activations in use at a step; no scratch), arena_bytes is what the packer needs for everything.
 */
#include "server/plan/internal.h"
#include "server/schedule/pack.h"

enum { PACK_EFFORT = 40000 }; /* moves times items */

struct group {
    struct pack_item item;
    bool scratch;
};

/* A party's stores and the groups of those that share memory. */
struct layout {
    int32_t *stores, *group_of; /* group_of: of every store of the maker */
    int32_t n_stores;
    struct group *groups;
    int32_t n_groups;
};

static int32_t align_of(const struct maker *maker, const struct store *store)
{
    return store->elem == 4 || store->tensor >= maker->graph->n_tensors ? 16 : 4;
}

/* The other store ends with the step that ends the making of this one, so its memory may be overwritten. */
static bool may_share(const struct maker *maker, const struct plan_party *party, const struct store *store)
{
    if (store->shares_with < 0)
        return false;
    const struct store *other = &maker->stores[store->shares_with];
    int32_t op = maker->graph->tensors[store->tensor].producer;
    int32_t last_made = -1;
    for (int32_t s = store->first; s < party->n_steps && party->steps[s].op == op; s++)
        if (party->steps[s].kind == PLAN_STEP_TASK)
            last_made = s;
    return other->first < store->first && other->last <= last_made;
}

static void collect(struct maker *maker, uint16_t number, struct layout *layout)
{
    const struct plan_party *party = &maker->plan->parties[number - 1];
    for (int32_t i = 0; i < maker->n_stores; i++) {
        struct store *store = &maker->stores[i];
        if (store->party != number || store->last < 0)
            continue;
        layout->stores[layout->n_stores++] = i;
        int32_t group = may_share(maker, party, store) ? layout->group_of[store->shares_with] : -1;
        if (group < 0) {
            group = layout->n_groups++;
            layout->groups[group] = (struct group){{.bytes = box_elements(store->box) * store->elem,
                                                    .first = store->first,
                                                    .last = store->last,
                                                    .align = align_of(maker, store)},
                                                   store->tensor >= maker->graph->n_tensors};
        }
        struct pack_item *item = &layout->groups[group].item;
        item->first = store->first < item->first ? store->first : item->first;
        item->last = store->last > item->last ? store->last : item->last;
        layout->group_of[i] = group;
    }
}

static int64_t sum_at(const struct layout *layout, int32_t step, bool scratch)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < layout->n_groups; i++)
        if (layout->groups[i].scratch == scratch && layout->groups[i].item.first <= step &&
            step <= layout->groups[i].item.last)
            sum += layout->groups[i].item.bytes;
    return sum;
}

static void set_peaks(const struct layout *layout, struct plan_party *party)
{
    party->peak_bytes = party->scratch_bytes = 0;
    for (int32_t i = 0; i < layout->n_groups; i++) {
        int32_t step = layout->groups[i].item.first;
        int64_t peak = sum_at(layout, step, false), scratch = sum_at(layout, step, true);
        if (peak > party->peak_bytes) {
            party->peak_bytes = peak;
            party->peak_step = step;
        }
        party->scratch_bytes = scratch > party->scratch_bytes ? scratch : party->scratch_bytes;
    }
}

static void number_buffers(struct maker *maker, const struct layout *layout, struct plan_party *party)
{
    party->buffers = maker_alloc(maker, (size_t)layout->n_stores, sizeof *party->buffers);
    party->n_buffers = layout->n_stores;
    if (maker->failed)
        return;
    for (int32_t k = 0; k < layout->n_stores; k++) {
        struct store *store = &maker->stores[layout->stores[k]];
        const struct pack_item *item = &layout->groups[layout->group_of[layout->stores[k]]].item;
        store->buffer = k;
        party->buffers[k] =
            (struct plan_buffer){store->tensor,         store->box,   store->elem, (uint32_t)item->offset,
                                 (uint32_t)item->bytes, store->first, store->last};
    }
    for (int32_t s = 0; s < party->n_steps; s++) {
        int32_t *refs[4] = {&party->steps[s].in[0], &party->steps[s].in[1], &party->steps[s].out,
                            &party->steps[s].scratch};
        for (int i = 0; i < 4; i++)
            if (*refs[i] >= 0)
                *refs[i] = maker->stores[*refs[i]].buffer;
    }
}

static void place_party(struct maker *maker, uint16_t number, struct layout *layout, struct pack_item *items)
{
    struct plan_party *party = &maker->plan->parties[number - 1];
    layout->n_stores = layout->n_groups = 0;
    collect(maker, number, layout);
    set_peaks(layout, party);
    for (int32_t i = 0; i < layout->n_groups; i++) {
        items[i] = layout->groups[i].item;
        items[i].bytes =
            (items[i].bytes + 3) / 4 * 4; /* the alignment of all, so that the bound can be met */
    }
    struct pack_problem problem = {.items = items,
                                   .n_items = layout->n_groups,
                                   .moves = layout->n_groups ? PACK_EFFORT / layout->n_groups : 0};
    if (schedule_pack(&problem, &party->arena_bytes) < 0)
        maker->failed = true;
    for (int32_t i = 0; i < layout->n_groups; i++)
        layout->groups[i].item.offset = items[i].offset;
    party->arena_bytes = (party->arena_bytes + 15) / 16 * 16;
    if (party->arena_bytes > UINT32_MAX)
        error_set(maker->error, STATUS_DOES_NOT_FIT, "an arena of %lld bytes", (long long)party->arena_bytes);
    number_buffers(maker, layout, party);
}

void memory_place(struct maker *maker)
{
    size_t n = (size_t)maker->n_stores;
    struct layout layout = {.stores = maker_alloc(maker, n, sizeof *layout.stores),
                            .group_of = maker_alloc(maker, n, sizeof *layout.group_of),
                            .groups = maker_alloc(maker, n, sizeof *layout.groups)};
    struct pack_item *items = maker_alloc(maker, n, sizeof *items);
    for (uint16_t p = 1; p <= maker->plan->n_boards && !maker->failed; p++)
        place_party(maker, p, &layout, items);
}
