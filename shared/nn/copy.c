/*
 * COPY moves, pads and permutes the axes of elements of 1 or 4 bytes. Output (h, w, c) less the pads gives
 * three coordinates; the one of axis i is the input's coordinate on axis perm[i]. What lies outside the input
 * is filled.
 */
#include "shared/nn/rows.h"

#include <stdbool.h>
#include <string.h>

/* A record without a permutation has zeros there: no axis moves. */
static bool is_permutation(const uint16_t perm[3])
{
    uint32_t seen = 0;
    for (int i = 0; i < 3; i++)
        seen |= perm[i] < 3 ? 1u << perm[i] : 8u;
    return seen == 7;
}

static void put(char *to, const char *from, int32_t element, int16_t fill)
{
    if (from)
        memmove(to, from, (size_t)element);
    else if (element == 1)
        *(int8_t *)to = (int8_t)fixed_clamp(fill, INT8_MIN, INT8_MAX);
    else
        memset(to, 0, (size_t)element);
}

/* Channels [out->c0, out->c1) of one pixel when channels stay channels: one run between two fills. */
static void copy_pixel(const struct nn_params *p, const struct nn_in *in, int64_t h, int64_t w, int32_t in_h,
                       int32_t in_c, int32_t element, const struct nn_out *out, char *to)
{
    bool inside = h >= 0 && h < in_h && w >= 0 && w < in->width;
    const char *row = inside ? nn_in_row(in, h) : NULL;
    int32_t first = row ? fixed_clamp(p->pad_c, out->c0, out->c1) : out->c1;
    int32_t last = row ? fixed_clamp(fixed_add(in_c, p->pad_c), first, out->c1) : out->c1;
    for (int32_t c = out->c0; c < first; c++)
        put(to + (ptrdiff_t)(c - out->c0) * element, NULL, element, p->fill);
    if (last > first)
        memmove(to + (ptrdiff_t)(first - out->c0) * element,
                row + nn_in_offset(in, w, first - p->pad_c, element),
                (size_t)(last - first) * (size_t)element);
    for (int32_t c = last; c < out->c1; c++)
        put(to + (ptrdiff_t)(c - out->c0) * element, NULL, element, p->fill);
}

static void permute_pixel(const struct nn_params *p, const struct nn_in *in, int32_t h, int32_t w,
                          int32_t in_h, int32_t in_c, int32_t element, const struct nn_out *out, char *to)
{
    for (int32_t c = out->c0; c < out->c1; c++, to += element) {
        int64_t at[3];
        at[p->perm[0]] = (int64_t)h - p->pad_top;
        at[p->perm[1]] = (int64_t)w - p->pad_left;
        at[p->perm[2]] = (int64_t)c - p->pad_c;
        bool inside =
            at[0] >= 0 && at[0] < in_h && at[1] >= 0 && at[1] < in->width && at[2] >= 0 && at[2] < in_c;
        const char *row = inside ? nn_in_row(in, at[0]) : NULL;
        put(to, row ? row + nn_in_offset(in, at[1], at[2], element) : NULL, element, p->fill);
    }
}

void nn_copy(const struct nn_params *p, const struct nn_in *in, int32_t in_h, int32_t in_c, int32_t element,
             const struct nn_out *out)
{
    if (element != 1 && element != 4)
        return;
    bool moves = is_permutation(p->perm) && (p->perm[0] != 0 || p->perm[1] != 1);
    for (int32_t h = out->h0; h < out->h1; h++)
        for (int32_t w = out->w0; w < out->w1; w++) {
            char *to = nn_out_pixel(out, h, w);
            if (moves)
                permute_pixel(p, in, h, w, in_h, in_c, element, out, to);
            else
                copy_pixel(p, in, (int64_t)h - p->pad_top, (int64_t)w - p->pad_left, in_h, in_c, element, out,
                           to);
        }
}
