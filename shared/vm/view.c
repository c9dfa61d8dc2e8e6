/*
 * Views: the only way to memory. Whatever reads or writes the arena or the weights gets its addresses here,
 * and every bound is checked each time, in 64 bits: coordinates against the tensor and the view's capacity,
 * then the bytes of every row against the region. Nothing here trusts that vm_check has run.
 */
#include "shared/vm/parts.h"

static int32_t least(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

struct vm_origin vm_view_origin(const struct fragment *fragment, const int32_t *counter,
                                const struct fragment_view *view)
{
    return (struct vm_origin){vm_start_of(fragment, counter, view->h0),
                              vm_start_of(fragment, counter, view->w0),
                              vm_start_of(fragment, counter, view->c0)};
}

struct vm_extent vm_view_inside(const struct fragment_view *view, const struct vm_operand *operand)
{
    struct vm_extent rows = {0, operand->box.h0 < 0 ? 0 : operand->box.h0, least(operand->box.h1, view->h)};
    if (operand->box.w0 >= operand->box.w1 || operand->box.c0 >= operand->box.c1)
        rows.hi = rows.lo;
    return rows;
}

static const char *fault_at(const struct fragment_view *view, struct vm_origin origin,
                            const struct vm_operand *operand)
{
    const struct vm_box *box = &operand->box;
    struct vm_extent rows = vm_view_inside(view, operand);
    if (operand->writes && (box->h0 != rows.lo || box->h1 != rows.hi))
        return "writes rows outside the tensor";
    if (rows.lo >= rows.hi)
        return NULL;
    if (view->h0 != FRAGMENT_NONE && (rows.lo < origin.h || rows.hi > origin.h + view->rows))
        return "rows that the view does not hold";
    if (box->w0 < origin.w || box->w1 > least(view->w, origin.w + view->w_cap))
        return "columns that the view does not hold";
    if (box->c0 < origin.c || box->c1 > least(view->c, origin.c + view->c_cap))
        return "channels that the view does not hold";
    return NULL;
}

const char *vm_view_fault(const struct fragment *fragment, const int32_t *counter,
                          const struct vm_operand *operand)
{
    const struct fragment_view *view = &fragment->views[operand->view];
    if (operand->writes && view->region != FRAGMENT_REGION_ARENA)
        return "writes to constants";
    return fault_at(view, vm_view_origin(fragment, counter, view), operand);
}

/* ---- addresses ---- */

struct region {
    uint8_t *base;
    uint64_t bytes;
};

/* Constants are never written: vm_view_fault refuses it, and only reading kernels and SEND get such a
 * pointer. */
static struct region region_of(const struct vm *vm, const struct fragment_view *view)
{
    if (view->region == FRAGMENT_REGION_WEIGHTS) {
        union {
            const uint8_t *constant;
            uint8_t *bytes;
        } weights = {.constant = vm->fragment->weights};
        return (struct region){weights.bytes, vm->fragment->weight_bytes};
    }
    uint32_t stated = vm->fragment->header->arena_bytes;
    return (struct region){vm->memory.arena,
                           stated < vm->memory.arena_bytes ? stated : vm->memory.arena_bytes};
}

/* First byte of element (slot, w0, c0) and one past the last byte of that row of the box. */
static void row_bytes(const struct fragment_view *view, struct vm_origin origin, const struct vm_box *box,
                      uint32_t slot, uint64_t *from, uint64_t *to)
{
    uint64_t row = view->offset + (uint64_t)slot * view->row_stride;
    *from = row + (uint64_t)(box->w0 - origin.w) * view->pixel_stride +
            (uint64_t)(box->c0 - origin.c) * view->elem;
    *to = row + (uint64_t)(box->w1 - 1 - origin.w) * view->pixel_stride +
          (uint64_t)(box->c1 - origin.c) * view->elem;
}

static void raise_high_water(struct vm *vm, const struct fragment_view *view, uint64_t to)
{
    if (view->region == FRAGMENT_REGION_ARENA && to > vm->high_water)
        vm->high_water = (uint32_t)to;
}

const char *vm_view_rows(struct vm *vm, const struct vm_operand *operand, void **rows)
{
    const struct fragment_view *view = &vm->fragment->views[operand->view];
    const char *fault = vm_view_fault(vm->fragment, vm->counter, operand);
    if (fault)
        return fault;
    int64_t count = (int64_t)operand->box.h1 - operand->box.h0;
    if (count > NN_ROWS_MAX)
        return "more rows than a table holds";
    struct vm_origin origin = vm_view_origin(vm->fragment, vm->counter, view);
    struct vm_extent inside = vm_view_inside(view, operand);
    struct region region = region_of(vm, view);
    for (int32_t i = 0; i < count; i++) {
        int32_t h = operand->box.h0 + i;
        rows[i] = NULL;
        if (h < inside.lo || h >= inside.hi)
            continue;
        uint64_t from, to;
        row_bytes(view, origin, &operand->box, vm_view_slot(view, origin, h), &from, &to);
        if (to > region.bytes)
            return "reaches beyond its region";
        raise_high_water(vm, view, to);
        rows[i] = region.base + from;
    }
    return NULL;
}

const char *vm_view_slot_of(struct vm *vm, const struct vm_operand *operand, struct vm_slot *slot)
{
    const struct fragment_view *view = &vm->fragment->views[operand->view];
    const char *fault = vm_view_fault(vm->fragment, vm->counter, operand);
    if (fault)
        return fault;
    struct vm_origin origin = vm_view_origin(vm->fragment, vm->counter, view);
    struct region region = region_of(vm, view);
    for (int32_t h = operand->box.h0; h < operand->box.h1; h++) {
        uint64_t from, to;
        row_bytes(view, origin, &operand->box, vm_view_slot(view, origin, h), &from, &to);
        if (to > region.bytes)
            return "reaches beyond its region";
        raise_high_water(vm, view, to);
    }
    slot->box = operand->box;
    slot->elem = view->elem;
    slot->base = region.base;
    slot->offset = view->offset;
    slot->row_stride = view->row_stride;
    slot->pixel_stride = view->pixel_stride;
    slot->rows = view->rows;
    slot->h_start = origin.h;
    slot->w_start = origin.w;
    slot->c_start = origin.c;
    return NULL;
}
