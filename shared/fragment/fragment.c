/*
 * Opens and lays out fragment images. fragment_open() is the only gate between bytes from outside and the
 * records that everything else reads in place: after it every index points at a record, every enumerator is
 * known, loops nest properly, chains of parent ranges are short, and every slice lies in the weights. It
 * reads each record once and never writes. Sections stand in one canonical order without gaps, so an image
 * has one reading only.
 */
#include "shared/fragment/fragment.h"

#include "shared/nn/layout.h"

#include <string.h>

static const uint8_t magic[4] = {'S', 'H', 'F', 'R'};

static const uint32_t record_bytes[FRAGMENT_SECTIONS] = {sizeof(struct fragment_range),
                                                         sizeof(struct fragment_view),
                                                         sizeof(struct fragment_code),
                                                         sizeof(struct fragment_transfer),
                                                         sizeof(struct nn_params),
                                                         sizeof(struct fragment_slice),
                                                         1};

static uint64_t align(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static bool all_zero(const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= b[i];
    return any == 0;
}

static bool index_ok(uint16_t index, uint16_t count)
{
    return index == FRAGMENT_NONE || index < count;
}

/* ---- one function a kind of record; each answers a reason, or NULL where the record is good ---- */

static const char *header_fault(const struct fragment_header *h, size_t size)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return "not a fragment: wrong magic";
    if (h->version != FRAGMENT_VERSION)
        return "unknown version";
    if (h->image_bytes > size)
        return "the image is cut short";
    if (h->party == 0)
        return "party 0 is the coordinator";
    if (h->executions > FRAGMENT_EXECUTIONS_MAX)
        return "states too many executions";
    if (!all_zero(h->reserved, sizeof h->reserved))
        return "reserved bytes are set";
    return NULL;
}

static const char *sections_fault(const struct fragment_header *h)
{
    uint64_t at = sizeof(struct fragment_header);
    for (int s = 0; s < FRAGMENT_SECTIONS; s++) {
        if (h->section[s].offset != at)
            return "a section is out of place";
        if (s != FRAGMENT_WEIGHTS && h->section[s].count > FRAGMENT_NONE)
            return "too many records";
        at = align(at + (uint64_t)h->section[s].count * record_bytes[s], FRAGMENT_ALIGN);
    }
    return at == h->image_bytes ? NULL : "the image's size is not that of its sections";
}

static const char *range_fault(const struct fragment *f, uint16_t i)
{
    const struct fragment_range *r = &f->ranges[i];
    if (r->div == 0)
        return "divides by zero";
    if (r->lo > r->hi)
        return "limits are the wrong way round";
    if (r->parent != FRAGMENT_NONE && r->parent >= i)
        return "the parent must be an earlier range";
    if (r->loop != FRAGMENT_NO_LOOP && r->loop >= FRAGMENT_LOOPS_MAX)
        return "no such counter";
    if (r->loop == FRAGMENT_NO_LOOP && r->a != 0)
        return "a factor without a counter";
    if (!all_zero(r->reserved, sizeof r->reserved))
        return "reserved bytes are set";
    int depth = 0;
    for (uint16_t p = r->parent; p != FRAGMENT_NONE; p = f->ranges[p].parent)
        if (++depth > FRAGMENT_PARENTS_MAX)
            return "too many parents";
    return NULL;
}

static const char *view_fault(const struct fragment *f, uint16_t i)
{
    const struct fragment_view *v = &f->views[i];
    if (v->region != FRAGMENT_REGION_ARENA && v->region != FRAGMENT_REGION_WEIGHTS)
        return "no such region";
    if (v->elem != 1 && v->elem != 4)
        return "elements have 1 or 4 bytes";
    if (v->elem == 4 && (v->offset | v->row_stride | v->pixel_stride) % 4 != 0)
        return "4-byte elements are not aligned";
    if (v->rows == 0 || v->w_cap == 0 || v->c_cap == 0)
        return "holds nothing";
    if (v->h == 0 || v->w == 0 || v->c == 0)
        return "a tensor without elements";
    if (!index_ok(v->h0, f->n_ranges) || !index_ok(v->w0, f->n_ranges) || !index_ok(v->c0, f->n_ranges))
        return "no such range";
    if (v->part_c_of != 0 && (uint32_t)v->part_c + v->c > v->part_c_of)
        return "a part is larger than its whole";
    if (v->part_c_of == 0 && v->part_c != 0)
        return "a part of nothing";
    return NULL;
}

static const char *code_fault(const struct fragment *f, uint16_t i)
{
    const struct fragment_code *c = &f->code[i];
    if (c->op >= FRAGMENT_OP_COUNT)
        return "no such operator";
    if (c->form & ~(FRAGMENT_FORM_ACC | FRAGMENT_FORM_BCAST_PIXEL | FRAGMENT_FORM_BCAST_SCALAR))
        return "no such form";
    if (c->reserved != 0)
        return "reserved bytes are set";
    if (!index_ok(c->params, f->n_params))
        return "no such parameters";
    if (!index_ok(c->in[0], f->n_views) || !index_ok(c->in[1], f->n_views) || !index_ok(c->out, f->n_views) ||
        !index_ok(c->scratch, f->n_views))
        return "no such view";
    if (!index_ok(c->h, f->n_ranges) || !index_ok(c->w, f->n_ranges) || !index_ok(c->c, f->n_ranges) ||
        !index_ok(c->k, f->n_ranges))
        return "no such range";
    if (!index_ok(c->slice, f->n_slices))
        return "no such slice";
    bool moves = c->op == FRAGMENT_SEND || c->op == FRAGMENT_POST || c->op == FRAGMENT_RECV;
    if (moves && c->arg >= f->n_transfers)
        return "no such transfer";
    if (c->op == FRAGMENT_WAIT && c->arg >= f->header->ranks)
        return "no such rank";
    return NULL;
}

/* LOOP and END pair up, nest at most four deep, and no counter is used twice in a nest. */
static const char *nest_fault(const struct fragment *f, uint16_t *record)
{
    uint8_t counters[FRAGMENT_LOOPS_MAX];
    int depth = 0;
    for (uint16_t i = 0; i < f->n_code; i++) {
        const struct fragment_code *c = &f->code[i];
        *record = i;
        if (c->op == FRAGMENT_END && depth-- == 0)
            return "END without LOOP";
        if (c->op != FRAGMENT_LOOP)
            continue;
        if (c->loop >= FRAGMENT_LOOPS_MAX)
            return "no such counter";
        if (c->arg == 0 || c->arg > FRAGMENT_EXECUTIONS_MAX)
            return "a count out of range";
        if (depth == FRAGMENT_LOOPS_MAX)
            return "loops nest too deep";
        for (int d = 0; d < depth; d++)
            if (counters[d] == c->loop)
                return "the counter is in use";
        counters[depth++] = c->loop;
    }
    return depth == 0 ? NULL : "LOOP without END";
}

static const char *transfer_fault(const struct fragment *f, uint16_t i)
{
    const struct fragment_transfer *t = &f->transfers[i];
    if (t->rank >= f->header->ranks)
        return "no such rank";
    if ((t->from == f->header->party) == (t->to == f->header->party))
        return "not between this party and another";
    if (t->wire > FRAGMENT_WIRE_I32)
        return "no such wire form";
    if (t->h0 >= t->h1 || t->w0 >= t->w1 || t->c0 >= t->c1)
        return "an empty box";
    if (!all_zero(t->reserved, sizeof t->reserved))
        return "reserved bytes are set";
    if (fragment_transfer_bytes(t) > UINT32_MAX)
        return "a box too large";
    if (i > 0 && (t[-1].rank > t->rank || (t[-1].rank == t->rank && t[-1].id > t->id)))
        return "not sorted by rank and id";
    return NULL;
}

static const char *slice_fault(const struct fragment *f, uint16_t i)
{
    const struct fragment_slice *s = &f->slices[i];
    if (s->kind > FRAGMENT_SLICE_CONSTANT)
        return "no such kind";
    if (s->layout >= NN_LAYOUTS || (s->layout != NN_LAYOUT_PLAIN && s->kind > FRAGMENT_SLICE_DW))
        return "unknown layout";
    if (!all_zero(s->reserved, sizeof s->reserved))
        return "reserved bytes are set";
    if (s->offset % FRAGMENT_ALIGN != 0 || (uint64_t)s->offset + s->total_bytes > f->weight_bytes)
        return "outside the weights";
    if (s->resident_offset != FRAGMENT_NOT_RESIDENT &&
        (s->resident_offset % FRAGMENT_ALIGN != 0 ||
         (uint64_t)s->resident_offset + s->total_bytes > f->header->resident_bytes))
        return "outside the resident weights";
    if (s->c0 > s->c1 || s->k0 > s->k1)
        return "channels are the wrong way round";
    uint64_t c = (uint64_t)(s->c1 - s->c0), k = (uint64_t)(s->k1 - s->k0);
    bool scaled = s->kind <= FRAGMENT_SLICE_FINISH;
    if (s->total_bytes != (scaled ? align(s->bytes, 4) + 12 * c : s->bytes))
        return "its size is not that of its parts";
    if (s->kind == FRAGMENT_SLICE_CONV && (k == 0 || s->kernel > UINT16_MAX || s->bytes != c * k * s->kernel))
        return "values do not match channels and kernel";
    if (s->kind == FRAGMENT_SLICE_CONV && (s->k_block == 0 || s->k_block > k))
        return "a block of input channels out of range";
    if (s->kind == FRAGMENT_SLICE_DW && s->bytes != c * (uint64_t)s->kernel)
        return "values do not match channels and kernel";
    if (s->kind == FRAGMENT_SLICE_FINISH && s->bytes != 0)
        return "FINISH has no values";
    if (s->kind == FRAGMENT_SLICE_TABLE && s->bytes != 256)
        return "a table has 256 entries";
    return NULL;
}

/* ---- opening ---- */

static int refuse(struct fragment_place *place, uint8_t section, uint16_t record, const char *reason)
{
    if (place)
        *place = (struct fragment_place){.record = record, .section = section, .reason = reason};
    return STATUS_FRAGMENT_MALFORMED;
}

static void set_pointers(struct fragment *f, const uint8_t *bytes)
{
    const struct fragment_header *h = (const struct fragment_header *)(const void *)bytes;
    f->bytes = bytes;
    f->header = h;
    f->ranges = (const void *)(bytes + h->section[FRAGMENT_RANGES].offset);
    f->views = (const void *)(bytes + h->section[FRAGMENT_VIEWS].offset);
    f->code = (const void *)(bytes + h->section[FRAGMENT_CODE].offset);
    f->transfers = (const void *)(bytes + h->section[FRAGMENT_TRANSFERS].offset);
    f->params = (const void *)(bytes + h->section[FRAGMENT_PARAMS].offset);
    f->slices = (const void *)(bytes + h->section[FRAGMENT_SLICES].offset);
    f->weights = bytes + h->section[FRAGMENT_WEIGHTS].offset;
    f->n_ranges = (uint16_t)h->section[FRAGMENT_RANGES].count;
    f->n_views = (uint16_t)h->section[FRAGMENT_VIEWS].count;
    f->n_code = (uint16_t)h->section[FRAGMENT_CODE].count;
    f->n_transfers = (uint16_t)h->section[FRAGMENT_TRANSFERS].count;
    f->n_params = (uint16_t)h->section[FRAGMENT_PARAMS].count;
    f->n_slices = (uint16_t)h->section[FRAGMENT_SLICES].count;
    f->weight_bytes = h->section[FRAGMENT_WEIGHTS].count;
}

static int open_records(const struct fragment *f, struct fragment_place *place)
{
    static const struct {
        uint8_t section;
        const char *(*fault)(const struct fragment *, uint16_t);
    } kinds[] = {{FRAGMENT_RANGES, range_fault},
                 {FRAGMENT_VIEWS, view_fault},
                 {FRAGMENT_CODE, code_fault},
                 {FRAGMENT_TRANSFERS, transfer_fault},
                 {FRAGMENT_SLICES, slice_fault}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint32_t count = f->header->section[kinds[k].section].count;
        for (uint32_t i = 0; i < count; i++) {
            const char *reason = kinds[k].fault(f, (uint16_t)i);
            if (reason)
                return refuse(place, kinds[k].section, (uint16_t)i, reason);
        }
    }
    for (uint16_t i = 0; i < f->n_params; i++)
        if (!all_zero(f->params[i].reserved, sizeof f->params[i].reserved))
            return refuse(place, FRAGMENT_PARAMS, i, "reserved bytes are set");
    uint16_t record = 0;
    const char *reason = nest_fault(f, &record);
    return reason ? refuse(place, FRAGMENT_CODE, record, reason) : STATUS_OK;
}

int fragment_open(struct fragment *fragment, const uint8_t *bytes, size_t size, struct fragment_place *place)
{
    if (place)
        *place = (struct fragment_place){.record = FRAGMENT_NONE, .section = FRAGMENT_SECTIONS, .reason = ""};
    memset(fragment, 0, sizeof *fragment);
    if ((uintptr_t)bytes % FRAGMENT_ALIGN != 0)
        return refuse(place, FRAGMENT_SECTIONS, FRAGMENT_NONE, "the image is not aligned");
    if (size < sizeof(struct fragment_header))
        return refuse(place, FRAGMENT_SECTIONS, FRAGMENT_NONE, "too short for a header");
    const struct fragment_header *header = (const struct fragment_header *)(const void *)bytes;
    const char *reason = header_fault(header, size);
    if (!reason)
        reason = sections_fault(header);
    if (reason)
        return refuse(place, FRAGMENT_SECTIONS, FRAGMENT_NONE, reason);
    struct fragment opened = {0};
    set_pointers(&opened, bytes);
    int status = open_records(&opened, place);
    if (status == STATUS_OK)
        *fragment = opened;
    return status;
}

struct nn_weights fragment_weights(const struct fragment *fragment, uint16_t slice, const uint8_t *resident)
{
    const struct fragment_slice *s = &fragment->slices[slice];
    const uint8_t *at = fragment->weights + s->offset;
    if (resident && s->resident_offset != FRAGMENT_NOT_RESIDENT)
        at = resident + s->resident_offset;
    const int32_t *scales = (const int32_t *)(const void *)(at + align(s->bytes, 4));
    int32_t n = s->c1 - s->c0;
    bool scaled = s->kind <= FRAGMENT_SLICE_FINISH;
    return (struct nn_weights){.values = (const int8_t *)at,
                               .mantissa = scaled ? scales : NULL,
                               .shift = scaled ? scales + n : NULL,
                               .bias = scaled ? scales + 2 * n : NULL,
                               .c0 = s->c0,
                               .c1 = s->c1,
                               .k0 = s->k0,
                               .k1 = s->k1,
                               .k_block = s->k_block};
}

uint64_t fragment_transfer_bytes(const struct fragment_transfer *t)
{
    static const uint64_t element[] = {1, 3, 4};
    return (uint64_t)(t->h1 - t->h0) * (uint64_t)(t->w1 - t->w0) * (uint64_t)(t->c1 - t->c0) *
           element[t->wire];
}

/* ---- writing ---- */

static void layout_counts(const struct fragment_layout *layout, uint32_t counts[FRAGMENT_SECTIONS])
{
    counts[FRAGMENT_RANGES] = layout->n_ranges;
    counts[FRAGMENT_VIEWS] = layout->n_views;
    counts[FRAGMENT_CODE] = layout->n_code;
    counts[FRAGMENT_TRANSFERS] = layout->n_transfers;
    counts[FRAGMENT_PARAMS] = layout->n_params;
    counts[FRAGMENT_SLICES] = layout->n_slices;
    counts[FRAGMENT_WEIGHTS] = layout->weight_bytes;
}

size_t fragment_image_bytes(const struct fragment_layout *layout)
{
    uint32_t counts[FRAGMENT_SECTIONS];
    layout_counts(layout, counts);
    uint64_t at = sizeof(struct fragment_header);
    for (int s = 0; s < FRAGMENT_SECTIONS; s++)
        at = align(at + (uint64_t)counts[s] * record_bytes[s], FRAGMENT_ALIGN);
    return at > UINT32_MAX ? 0 : (size_t)at;
}

int fragment_write(struct fragment_writer *writer, const struct fragment_layout *layout, uint8_t *bytes,
                   size_t size)
{
    size_t image = fragment_image_bytes(layout);
    if (image == 0 || size < image)
        return STATUS_TOO_LARGE;
    if ((uintptr_t)bytes % FRAGMENT_ALIGN != 0)
        return STATUS_INVALID_ARGUMENT;
    memset(bytes, 0, image);
    uint32_t counts[FRAGMENT_SECTIONS];
    layout_counts(layout, counts);
    struct fragment_header *header = (struct fragment_header *)(void *)bytes;
    memcpy(header->magic, magic, sizeof magic);
    header->version = FRAGMENT_VERSION;
    header->image_bytes = (uint32_t)image;
    void *start[FRAGMENT_SECTIONS];
    uint64_t at = sizeof *header;
    for (int s = 0; s < FRAGMENT_SECTIONS; s++) {
        header->section[s].offset = (uint32_t)at;
        header->section[s].count = counts[s];
        start[s] = bytes + at;
        at = align(at + (uint64_t)counts[s] * record_bytes[s], FRAGMENT_ALIGN);
    }
    *writer = (struct fragment_writer){.header = header,
                                       .ranges = start[FRAGMENT_RANGES],
                                       .views = start[FRAGMENT_VIEWS],
                                       .code = start[FRAGMENT_CODE],
                                       .transfers = start[FRAGMENT_TRANSFERS],
                                       .params = start[FRAGMENT_PARAMS],
                                       .slices = start[FRAGMENT_SLICES],
                                       .weights = start[FRAGMENT_WEIGHTS]};
    return STATUS_OK;
}
