/*
 * Box algebra. Counts are 64 bits wide: a tensor may have 2^48 elements as far as this file is concerned.
 * Empty boxes are normalised to all zeros where one is returned, so that equal results compare equal.
 */
#include "server/model/box.h"

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t max32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

int64_t shape_elements(struct shape shape)
{
    return (int64_t)shape.h * shape.w * shape.c;
}

bool shape_equal(struct shape a, struct shape b)
{
    return a.h == b.h && a.w == b.w && a.c == b.c;
}

struct box box_whole(struct shape shape)
{
    return (struct box){0, shape.h, 0, shape.w, 0, shape.c};
}

bool box_empty(struct box box)
{
    return box.h0 >= box.h1 || box.w0 >= box.w1 || box.c0 >= box.c1;
}

bool box_equal(struct box a, struct box b)
{
    if (box_empty(a) || box_empty(b))
        return box_empty(a) && box_empty(b);
    return a.h0 == b.h0 && a.h1 == b.h1 && a.w0 == b.w0 && a.w1 == b.w1 && a.c0 == b.c0 && a.c1 == b.c1;
}

int64_t box_elements(struct box box)
{
    if (box_empty(box))
        return 0;
    return (int64_t)(box.h1 - box.h0) * (box.w1 - box.w0) * (box.c1 - box.c0);
}

struct box box_intersect(struct box a, struct box b)
{
    struct box out = {max32(a.h0, b.h0), min32(a.h1, b.h1), max32(a.w0, b.w0),
                      min32(a.w1, b.w1), max32(a.c0, b.c0), min32(a.c1, b.c1)};
    return box_empty(out) ? (struct box){0} : out;
}

bool box_contains(struct box outer, struct box inner)
{
    return box_empty(inner) || (outer.h0 <= inner.h0 && inner.h1 <= outer.h1 && outer.w0 <= inner.w0 &&
                                inner.w1 <= outer.w1 && outer.c0 <= inner.c0 && inner.c1 <= outer.c1);
}

struct box box_hull(struct box a, struct box b)
{
    if (box_empty(a))
        return box_empty(b) ? (struct box){0} : b;
    if (box_empty(b))
        return a;
    return (struct box){min32(a.h0, b.h0), max32(a.h1, b.h1), min32(a.w0, b.w0),
                        max32(a.w1, b.w1), min32(a.c0, b.c0), max32(a.c1, b.c1)};
}

/* Appends the box unless it is empty. */
static int put(struct box *out, int count, struct box box)
{
    if (box_empty(box))
        return count;
    out[count] = box;
    return count + 1;
}

int box_difference(struct box a, struct box b, struct box out[BOX_DIFFERENCE_MAX])
{
    struct box cut = box_intersect(a, b);
    if (box_empty(cut))
        return put(out, 0, a);
    int count = 0;
    count = put(out, count, (struct box){a.h0, cut.h0, a.w0, a.w1, a.c0, a.c1});
    count = put(out, count, (struct box){cut.h1, a.h1, a.w0, a.w1, a.c0, a.c1});
    count = put(out, count, (struct box){cut.h0, cut.h1, a.w0, cut.w0, a.c0, a.c1});
    count = put(out, count, (struct box){cut.h0, cut.h1, cut.w1, a.w1, a.c0, a.c1});
    count = put(out, count, (struct box){cut.h0, cut.h1, cut.w0, cut.w1, a.c0, cut.c0});
    count = put(out, count, (struct box){cut.h0, cut.h1, cut.w0, cut.w1, cut.c1, a.c1});
    return count;
}

/* Length of the longest box that starts at p, ends by q and is one of: whole channels, whole rows of one
 * channel, part of one row. */
static struct box run_step(struct shape shape, int64_t p, int64_t q, int64_t *next)
{
    int64_t map = (int64_t)shape.h * shape.w;
    int32_t c = (int32_t)(p / map), h = (int32_t)(p % map / shape.w), w = (int32_t)(p % shape.w);
    int64_t channel_end = (int64_t)(c + 1) * map, row_end = p - w + shape.w;
    if (p % map == 0 && q >= channel_end) {
        int32_t channels = (int32_t)((q - p) / map);
        *next = p + channels * map;
        return (struct box){0, shape.h, 0, shape.w, c, c + channels};
    }
    int64_t end = q < channel_end ? q : channel_end;
    if (w == 0 && end >= row_end) {
        int32_t rows = (int32_t)((end - p) / shape.w);
        *next = p + (int64_t)rows * shape.w;
        return (struct box){h, h + rows, 0, shape.w, c, c + 1};
    }
    end = end < row_end ? end : row_end;
    *next = end;
    return (struct box){h, h + 1, w, w + (int32_t)(end - p), c, c + 1};
}

int box_run(struct shape shape, int64_t p, int64_t q, struct box out[BOX_RUN_MAX])
{
    int count = 0;
    while (p < q && count < BOX_RUN_MAX)
        out[count++] = run_step(shape, p, q, &p);
    return count;
}
