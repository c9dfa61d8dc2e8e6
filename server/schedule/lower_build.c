/*
 * Records of a program under construction. Equal ranges and views are one record. Without memory everything
 * goes on with record 0 and `failed` set, so that callers need not look.
 */
#include "server/schedule/lower_internal.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more at (*array)[*n]; NULL without memory. */
static void *grow(struct lower *l, void *array, int32_t *n, int32_t *cap, size_t size)
{
    void *items, *larger;
    memcpy(&items, array, sizeof items);
    if (*n == *cap) {
        int32_t more = *cap ? *cap * 2 : 64;
        larger = realloc(items, (size_t)more * size);
        if (!larger) {
            l->failed = true;
            return NULL;
        }
        items = larger;
        memcpy(array, &items, sizeof items);
        *cap = more;
    }
    void *at = (char *)items + (size_t)*n * size;
    memset(at, 0, size);
    (*n)++;
    return at;
}

/* ---- ranges ---- */

int32_t lower_range(struct lower *l, struct fragment_range range)
{
    struct lowered *out = l->out;
    for (int32_t i = out->n_ranges; i-- > 0;)
        if (memcmp(&out->ranges[i], &range, sizeof range) == 0)
            return i;
    struct fragment_range *item = grow(l, &out->ranges, &out->n_ranges, &out->cap_ranges, sizeof *item);
    if (!item)
        return 0;
    *item = range;
    return out->n_ranges - 1;
}

static struct fragment_range blank_range(int32_t lo, int32_t hi)
{
    struct fragment_range range;
    memset(&range, 0, sizeof range);
    range.div = 1;
    range.lo = (uint16_t)lo;
    range.hi = (uint16_t)hi;
    range.parent = FRAGMENT_NONE;
    range.loop = FRAGMENT_NO_LOOP;
    return range;
}

int32_t lower_const(struct lower *l, int32_t lo, int32_t hi)
{
    struct fragment_range range = blank_range(lo, hi);
    range.b0 = lo;
    range.b1 = hi;
    return lower_range(l, range);
}

int32_t lower_affine(struct lower *l, int32_t a, int32_t b0, int32_t b1, int32_t div, int32_t lo, int32_t hi)
{
    struct fragment_range range = blank_range(lo, hi);
    range.a = a;
    range.b0 = b0;
    range.b1 = b1;
    range.div = (uint16_t)div;
    range.loop = (uint8_t)(l->depth - 1);
    return lower_range(l, range);
}

int32_t lower_inside(struct lower *l, int32_t parent, int32_t a, int32_t b0, int32_t b1, int32_t div)
{
    if (l->failed)
        return 0;
    struct fragment_range range = l->out->ranges[parent]; /* its limits are those of the parent */
    range.a = a;
    range.b0 = b0;
    range.b1 = b1;
    range.div = (uint16_t)div;
    range.parent = (uint16_t)parent;
    range.loop = (uint8_t)(l->depth - 1);
    return lower_range(l, range);
}

bool lower_is_const(const struct lower *l, int32_t range)
{
    return !l->failed && l->out->ranges[range].loop == FRAGMENT_NO_LOOP;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

int32_t lower_narrow(struct lower *l, int32_t range, int32_t by, int32_t lo, int32_t hi)
{
    if (l->failed)
        return 0;
    struct fragment_range item = l->out->ranges[range];
    lo = larger(lo, item.lo + by);
    hi = larger(lo, smaller(hi, item.hi + by));
    if (item.loop == FRAGMENT_NO_LOOP)
        return lower_const(l, smaller(larger(item.b0 + by, lo), hi), smaller(larger(item.b1 + by, lo), hi));
    item.b0 += by * item.div;
    item.b1 += by * item.div;
    item.lo = (uint16_t)lo;
    item.hi = (uint16_t)hi;
    return lower_range(l, item);
}

/* ---- buffers ---- */

int32_t lower_buffer(struct lower *l, int32_t tensor, int64_t bytes, bool inner, bool scratch)
{
    struct lowered *out = l->out;
    struct lower_buffer *item = grow(l, &out->buffers, &out->n_buffers, &out->cap_buffers, sizeof *item);
    if (!item)
        return 0;
    *item = (struct lower_buffer){.bytes =
                                      scratch ? (bytes + LOWER_ALIGN - 1) / LOWER_ALIGN * LOWER_ALIGN : bytes,
                                  .tensor = tensor,
                                  .first = -1,
                                  .last = -1,
                                  .align = LOWER_ALIGN,
                                  .scope = inner && l->depth ? l->loops[l->depth - 1] : LOWER_NONE,
                                  .scratch = scratch};
    return out->n_buffers - 1;
}

void lower_tie(struct lower *l, int32_t a, int32_t b, int64_t distance)
{
    if (l->failed)
        return;
    struct lowered *out = l->out;
    if (!out->buffers[b].group) { /* a new number */
        int32_t most = 0;
        for (int32_t i = 0; i < out->n_buffers; i++)
            most = larger(most, out->buffers[i].group);
        out->buffers[b].group = most + 1;
    }
    int32_t old = out->buffers[a].group, group = out->buffers[b].group;
    int64_t moved = out->buffers[b].distance + distance - out->buffers[a].distance;
    for (int32_t i = 0; i < out->n_buffers; i++)
        if (i == a || (old && out->buffers[i].group == old)) {
            out->buffers[i].group = group;
            out->buffers[i].distance += moved;
        }
}

void lower_allow(struct lower *l, struct pack_pair pair)
{
    struct pack_pair *item = grow(l, &l->pairs, &l->n_pairs, &l->cap_pairs, sizeof *item);
    if (item)
        *item = pair;
}

/* ---- views ---- */

static uint16_t origin(const struct lower *l, int32_t range)
{
    if (range < 0 || (lower_is_const(l, range) && l->out->ranges[range].b0 == 0))
        return FRAGMENT_NONE;
    return (uint16_t)range;
}

static int32_t add_view(struct lower *l, const struct lower_view *view)
{
    struct lowered *out = l->out;
    for (int32_t i = out->n_views; i-- > 0;)
        if (memcmp(&out->views[i], view, sizeof *view) == 0)
            return i;
    struct lower_view *item = grow(l, &out->views, &out->n_views, &out->cap_views, sizeof *item);
    if (!item)
        return 0;
    *item = *view;
    return out->n_views - 1;
}

int32_t lower_view(struct lower *l, int32_t buffer, int32_t tensor, struct shape shape, int32_t elem,
                   struct lower_box box)
{
    struct lower_view item;
    if (l->failed)
        return 0;
    memset(&item, 0, sizeof item);
    struct fragment_view *view = &item.view;
    item.buffer = buffer;
    view->pixel_stride = (uint32_t)(box.cap_c * elem);
    view->row_stride = (uint32_t)(box.cap_w * box.cap_c * elem);
    view->tensor = (uint16_t)tensor;
    view->region = buffer < 0 ? FRAGMENT_REGION_WEIGHTS : FRAGMENT_REGION_ARENA;
    view->elem = (uint8_t)elem;
    view->rows = (uint16_t)box.cap_h;
    view->w_cap = (uint16_t)box.cap_w;
    view->c_cap = (uint16_t)box.cap_c;
    view->h = (uint16_t)shape.h;
    view->w = (uint16_t)shape.w;
    view->c = (uint16_t)shape.c;
    view->h0 = origin(l, box.h0);
    view->w0 = origin(l, box.w0);
    view->c0 = origin(l, box.c0);
    return add_view(l, &item);
}

static struct lower_box whole_box(struct shape shape)
{
    return (struct lower_box){shape.h, shape.w, shape.c, LOWER_NONE, LOWER_NONE, LOWER_NONE};
}

int32_t lower_whole(struct lower *l, int32_t buffer, int32_t tensor, int32_t elem)
{
    const struct net_tensor *it = &l->net->tensors[tensor];
    struct shape shape = l->graph->tensors[tensor].shape;
    int32_t index = lower_view(l, buffer, it->storage, shape, elem, whole_box(shape));
    if (!it->joined || l->failed)
        return index;
    struct lower_view part = l->out->views[index];
    struct shape all = l->graph->tensors[it->storage].shape;
    part.view.offset = (uint32_t)(it->at * elem);
    part.view.part_h = (uint16_t)(it->at / (all.w * all.c));
    part.view.part_c = (uint16_t)(it->at % all.c);
    part.view.part_c_of = (uint16_t)all.c;
    part.view.pixel_stride = (uint32_t)(all.c * elem);
    part.view.row_stride = (uint32_t)(all.w * all.c * elem);
    return add_view(l, &part);
}

int32_t lower_whole_sums(struct lower *l, int32_t buffer, int32_t op)
{
    struct shape shape = l->graph->tensors[l->graph->ops[op].output].shape;
    return lower_view(l, buffer, l->graph->n_tensors + op, shape, 4, whole_box(shape));
}

int32_t lower_view_of(struct lower *l, int32_t tensor)
{
    if (l->now[tensor] >= 0)
        return l->now[tensor];
    if (l->graph->tensors[tensor].data)
        return lower_whole(l, LOWER_NONE, tensor, 1);
    int32_t buffer = l->home[l->net->tensors[tensor].storage];
    if (buffer < 0) {
        l->refused = "a step reads a tensor that is not there";
        return 0;
    }
    return lower_whole(l, buffer, tensor, 1);
}

/* ---- instructions ---- */

struct lower_code *lower_code(struct lower *l, enum fragment_op op, int32_t graph_op)
{
    static struct lower_code nowhere; /* written to, never read: only after a failure */
    struct lowered *out = l->out;
    struct lower_code *item = grow(l, &out->code, &out->n_code, &out->cap_code, sizeof *item);
    if (!item)
        item = &nowhere;
    *item = (struct lower_code){.op = (uint8_t)op,
                                .tall = l->tall,
                                .graph_op = graph_op,
                                .tensor = LOWER_NONE,
                                .in = {LOWER_NONE, LOWER_NONE},
                                .out = LOWER_NONE,
                                .scratch = LOWER_NONE,
                                .h = LOWER_NONE,
                                .w = LOWER_NONE,
                                .c = LOWER_NONE,
                                .k = LOWER_NONE};
    return item;
}

void lower_loop(struct lower *l, int64_t count)
{
    if (l->depth == FRAGMENT_LOOPS_MAX || count > FRAGMENT_EXECUTIONS_MAX) {
        l->refused = count > FRAGMENT_EXECUTIONS_MAX ? "a loop runs too often" : "loops nest too deep";
        return;
    }
    struct lower_code *code = lower_code(l, FRAGMENT_LOOP, LOWER_NONE);
    code->loop = (uint8_t)l->depth;
    code->count = (uint32_t)count;
    l->loops[l->depth++] = l->out->n_code - 1;
}

void lower_end(struct lower *l)
{
    if (l->depth > 0) {
        lower_code(l, FRAGMENT_END, LOWER_NONE);
        l->depth--;
    }
}

struct lower_area lower_area_of(struct lower *l, int32_t tensor)
{
    struct shape shape = l->graph->tensors[tensor].shape;
    if (l->tiles && l->area[tensor].tile)
        return l->area[tensor];
    return (struct lower_area){
        lower_const(l, 0, shape.h), lower_const(l, 0, shape.w), shape.h, shape.w, shape.h, false};
}
