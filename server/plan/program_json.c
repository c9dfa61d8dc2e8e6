/*
 * A party's program and the schedule it comes from, as JSON: records are arrays of numbers. What is read is
 * checked as far as emitting it needs: every number of a record, tensor or operator lies within.
 */
#include "server/plan/json.h"

#include <string.h>

enum { RANGE_NUMBERS = 8, VIEW_NUMBERS = 19, CODE_NUMBERS = 16, BUFFER_NUMBERS = 10, NUMBERS_MAX = 19 };
enum { STEP_NUMBERS = 6, FORM_NUMBERS = 10 };

static json_t *numbers(const int64_t *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_integer(values[i]));
    return array;
}

static json_t *ranges_json(const struct lowered *program)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < program->n_ranges; i++) {
        const struct fragment_range *r = &program->ranges[i];
        const int64_t n[RANGE_NUMBERS] = {r->a, r->b0, r->b1, r->div, r->lo, r->hi, r->parent, r->loop};
        json_array_append_new(array, numbers(n, RANGE_NUMBERS));
    }
    return array;
}

static json_t *views_json(const struct lowered *program)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < program->n_views; i++) {
        const struct fragment_view *v = &program->views[i].view;
        const int64_t n[VIEW_NUMBERS] = {program->views[i].buffer,
                                         v->offset,
                                         v->row_stride,
                                         v->pixel_stride,
                                         v->tensor,
                                         v->region,
                                         v->elem,
                                         v->rows,
                                         v->w_cap,
                                         v->c_cap,
                                         v->h,
                                         v->w,
                                         v->c,
                                         v->h0,
                                         v->w0,
                                         v->c0,
                                         v->part_c,
                                         v->part_c_of,
                                         v->part_h};
        json_array_append_new(array, numbers(n, VIEW_NUMBERS));
    }
    return array;
}

static json_t *code_json(const struct lowered *program)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < program->n_code; i++) {
        const struct lower_code *c = &program->code[i];
        const int64_t n[CODE_NUMBERS] = {c->op,       c->form,  c->loop,   c->whole_scales | c->tall << 1,
                                         c->graph_op, c->input, c->tensor, c->in[0],
                                         c->in[1],    c->out,   c->h,      c->w,
                                         c->c,        c->k,     c->count,  c->scratch};
        json_array_append_new(array, numbers(n, CODE_NUMBERS));
    }
    return array;
}

static json_t *buffers_json(const struct lowered *program)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < program->n_buffers; i++) {
        const struct lower_buffer *b = &program->buffers[i];
        const int64_t n[BUFFER_NUMBERS] = {b->bytes, b->offset, b->tensor, b->first,    b->last,
                                           b->align, b->scope,  b->group,  b->distance, b->scratch};
        json_array_append_new(array, numbers(n, BUFFER_NUMBERS));
    }
    return array;
}

static json_t *steps_json(const struct plan_partial *steps, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++) {
        const struct schedule_form *f = &steps[i].form;
        const int64_t values[STEP_NUMBERS] = {f->mode, f->k, f->tile_h, f->tile_w, f->again, f->peak_bytes};
        json_t *ops = json_array();
        for (int32_t k = 0; k < steps[i].n_ops; k++)
            json_array_append_new(ops, json_integer(steps[i].ops[k]));
        json_array_append_new(array, json_pack("[o,o]", numbers(values, STEP_NUMBERS), ops));
    }
    return array;
}

/* What a step's record does not have, for people. */
static json_t *form_json(const struct schedule_form *f)
{
    const int64_t values[FORM_NUMBERS] = {f->extra_macs, f->free,      f->rings | f->columns << 1,
                                          f->turns,      f->patches_h, f->patches_w,
                                          f->rows_in,    f->rows_out,  f->ring_lo,
                                          f->ring_hi};
    return numbers(values, FORM_NUMBERS);
}

json_t *json_program(const struct plan_party *party)
{
    const struct lowered *program = party->program;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "ranges", ranges_json(program), "views",
                     views_json(program), "code", code_json(program), "buffers", buffers_json(program),
                     "steps", steps_json(party->partial, party->n_partial));
}

json_t *json_forms(const struct plan_party *party)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < party->n_partial; i++) {
        const struct plan_partial *step = &party->partial[i];
        json_t *inner = json_array(), *steps = steps_json(step->inner, step->n_inner);
        for (int32_t k = 0; k < step->n_inner; k++)
            json_array_append_new(
                inner, json_pack("[O,o]", json_array_get(steps, (size_t)k), form_json(&step->inner[k].form)));
        json_array_append_new(array, json_pack("[o,o]", form_json(&step->form), inner));
        json_decref(steps);
    }
    return array;
}

/* ---- reading ---- */

struct reading {
    const struct graph *graph;
    struct arena *arena;
    struct lowered *program;
    bool bad;
};

static bool within(int64_t x, int64_t lo, int64_t hi)
{
    return x >= lo && x < hi;
}

/* A record of exactly `n` numbers. */
static void get(struct reading *r, const json_t *array, size_t index, int64_t *out, size_t n)
{
    const json_t *record = json_array_get(array, index);
    memset(out, 0, n * sizeof *out);
    r->bad |= json_array_size(record) != n;
    for (size_t i = 0; i < n && !r->bad; i++) {
        r->bad |= !json_is_integer(json_array_get(record, i));
        out[i] = json_integer_value(json_array_get(record, i));
    }
}

static void *room(struct reading *r, const json_t *array, size_t size, int32_t *n)
{
    size_t count = json_array_size(array);
    r->bad |= !json_is_array(array) || count >= FRAGMENT_NONE;
    void *items = r->bad ? NULL : arena_alloc(r->arena, count + 1, size);
    r->bad |= !items;
    *n = r->bad ? 0 : (int32_t)count;
    return items;
}

static void get_ranges(struct reading *r, const json_t *array)
{
    struct lowered *p = r->program;
    p->ranges = room(r, array, sizeof *p->ranges, &p->n_ranges);
    for (int32_t i = 0; i < p->n_ranges && !r->bad; i++) {
        int64_t n[RANGE_NUMBERS];
        get(r, array, (size_t)i, n, RANGE_NUMBERS);
        for (int k = 0; k < 3; k++)
            r->bad |= !within(n[k], INT32_MIN, (int64_t)INT32_MAX + 1);
        for (int k = 3; k < 7; k++)
            r->bad |= !within(n[k], 0, UINT16_MAX + 1);
        r->bad |= !within(n[7], 0, UINT8_MAX + 1) || n[3] == 0 || (n[6] != FRAGMENT_NONE && n[6] >= i);
        struct fragment_range *range = &p->ranges[i];
        range->a = (int32_t)n[0];
        range->b0 = (int32_t)n[1];
        range->b1 = (int32_t)n[2];
        range->div = (uint16_t)n[3];
        range->lo = (uint16_t)n[4];
        range->hi = (uint16_t)n[5];
        range->parent = (uint16_t)n[6];
        range->loop = (uint8_t)n[7];
    }
}

static bool range_or_none(const struct lowered *p, int64_t x)
{
    return x == FRAGMENT_NONE || within(x, 0, p->n_ranges);
}

static void get_view(struct reading *r, const int64_t *n, struct lower_view *item)
{
    const struct lowered *p = r->program;
    struct fragment_view *v = &item->view;
    for (int k = 1; k < 4; k++)
        r->bad |= !within(n[k], 0, (int64_t)UINT32_MAX + 1);
    for (int k = 4; k < VIEW_NUMBERS; k++)
        r->bad |= !within(n[k], 0, UINT16_MAX + 1);
    r->bad |= !within(n[0], -1, p->n_buffers) || n[5] > UINT8_MAX || n[6] > UINT8_MAX ||
              !range_or_none(p, n[13]) || !range_or_none(p, n[14]) || !range_or_none(p, n[15]) ||
              (n[0] < 0 && (n[4] >= r->graph->n_tensors || !r->graph->tensors[n[4]].data));
    item->buffer = (int32_t)n[0];
    v->offset = (uint32_t)n[1];
    v->row_stride = (uint32_t)n[2];
    v->pixel_stride = (uint32_t)n[3];
    v->region = (uint8_t)n[5];
    v->elem = (uint8_t)n[6];
    uint16_t *const to[] = {&v->tensor, NULL,   NULL,   &v->rows, &v->w_cap,  &v->c_cap,     &v->h,     &v->w,
                            &v->c,      &v->h0, &v->w0, &v->c0,   &v->part_c, &v->part_c_of, &v->part_h};
    for (int k = 4; k < VIEW_NUMBERS; k++)
        if (to[k - 4])
            *to[k - 4] = (uint16_t)n[k];
}

static void get_views(struct reading *r, const json_t *array)
{
    struct lowered *p = r->program;
    p->views = room(r, array, sizeof *p->views, &p->n_views);
    for (int32_t i = 0; i < p->n_views && !r->bad; i++) {
        int64_t n[VIEW_NUMBERS];
        get(r, array, (size_t)i, n, VIEW_NUMBERS);
        if (!r->bad)
            get_view(r, n, &p->views[i]);
    }
}

static void get_code(struct reading *r, const json_t *array)
{
    struct lowered *p = r->program;
    p->code = room(r, array, sizeof *p->code, &p->n_code);
    for (int32_t i = 0; i < p->n_code && !r->bad; i++) {
        int64_t n[CODE_NUMBERS];
        get(r, array, (size_t)i, n, CODE_NUMBERS);
        r->bad |= !within(n[0], 0, FRAGMENT_OP_COUNT) || !within(n[1], 0, 8) ||
                  !within(n[2], 0, FRAGMENT_LOOPS_MAX) || !within(n[4], -1, r->graph->n_ops) ||
                  !within(n[6], -1, r->graph->n_tensors) || !within(n[14], 0, UINT32_MAX) ||
                  !within(n[3], 0, 4);
        r->bad |= !r->bad && !within(n[5], 0, n[4] < 0 ? 1 : r->graph->ops[n[4]].n_inputs);
        for (int k = 7; k < 10; k++)
            r->bad |= !within(n[k], -1, p->n_views);
        r->bad |= !within(n[15], -1, p->n_views);
        for (int k = 10; k < 14; k++)
            r->bad |= !within(n[k], -1, p->n_ranges);
        r->bad |= n[4] >= 0 && n[12] < 0;
        p->code[i] = (struct lower_code){.op = (uint8_t)n[0],
                                         .form = (uint8_t)n[1],
                                         .loop = (uint8_t)n[2],
                                         .whole_scales = n[3] & 1,
                                         .tall = n[3] & 2,
                                         .graph_op = (int32_t)n[4],
                                         .input = (int32_t)n[5],
                                         .tensor = (int32_t)n[6],
                                         .in = {(int32_t)n[7], (int32_t)n[8]},
                                         .out = (int32_t)n[9],
                                         .scratch = (int32_t)n[15],
                                         .h = (int32_t)n[10],
                                         .w = (int32_t)n[11],
                                         .c = (int32_t)n[12],
                                         .k = (int32_t)n[13],
                                         .count = (uint32_t)n[14]};
    }
}

static void get_buffers(struct reading *r, const json_t *array)
{
    struct lowered *p = r->program;
    p->buffers = room(r, array, sizeof *p->buffers, &p->n_buffers);
    for (int32_t i = 0; i < p->n_buffers && !r->bad; i++) {
        int64_t n[BUFFER_NUMBERS];
        get(r, array, (size_t)i, n, BUFFER_NUMBERS);
        r->bad |= !within(n[0], 0, UINT32_MAX) || !within(n[1], 0, UINT32_MAX) ||
                  !within(n[2], 0, (int64_t)r->graph->n_tensors + r->graph->n_ops);
        for (int k = 3; k < 8; k++)
            r->bad |= !within(n[k], -1, INT32_MAX);
        p->buffers[i] = (struct lower_buffer){.bytes = n[0],
                                              .offset = n[1],
                                              .tensor = (int32_t)n[2],
                                              .first = (int32_t)n[3],
                                              .last = (int32_t)n[4],
                                              .align = (int32_t)n[5],
                                              .scope = (int32_t)n[6],
                                              .group = (int32_t)n[7],
                                              .distance = n[8],
                                              .scratch = n[9] != 0};
    }
}

static void get_step(struct reading *r, const json_t *record, struct plan_partial *step)
{
    const json_t *ops = json_array_get(record, 1);
    int64_t n[STEP_NUMBERS];
    get(r, record, 0, n, STEP_NUMBERS);
    r->bad |= !within(n[0], 0, SCHEDULE_PATCHES + 1);
    for (int k = 1; k < 5; k++)
        r->bad |= !within(n[k], 0, INT32_MAX);
    step->ops = room(r, ops, sizeof *step->ops, &step->n_ops);
    for (int32_t k = 0; k < step->n_ops; k++) {
        int64_t op = json_integer_value(json_array_get(ops, (size_t)k));
        r->bad |= !within(op, 0, r->graph->n_ops);
        step->ops[k] = r->bad ? 0 : (int32_t)op;
    }
    if (r->bad)
        return;
    step->form = (struct schedule_form){.mode = (enum schedule_mode)n[0],
                                        .k = (int32_t)n[1],
                                        .tile_h = (int32_t)n[2],
                                        .tile_w = (int32_t)n[3],
                                        .again = (int32_t)n[4],
                                        .peak_bytes = n[5]};
}

bool json_program_read(const struct graph *graph, struct arena *arena, const json_t *json,
                       struct plan_party *party)
{
    struct reading r = {.graph = graph, .arena = arena};
    const json_t *steps = json_object_get(json, "steps");
    r.program = party->program = arena_alloc(arena, 1, sizeof *party->program);
    if (!r.program)
        return false;
    get_ranges(&r, json_object_get(json, "ranges"));
    get_buffers(&r, json_object_get(json, "buffers"));
    get_views(&r, json_object_get(json, "views"));
    get_code(&r, json_object_get(json, "code"));
    party->partial = room(&r, steps, sizeof *party->partial, &party->n_partial);
    for (int32_t i = 0; i < party->n_partial && !r.bad; i++)
        get_step(&r, json_array_get(steps, (size_t)i), &party->partial[i]);
    return !r.bad;
}

static void get_form(struct reading *r, const json_t *record, size_t index, struct schedule_form *form)
{
    int64_t n[FORM_NUMBERS];
    get(r, record, index, n, FORM_NUMBERS);
    for (int k = 1; k < FORM_NUMBERS; k++)
        r->bad |= !within(n[k], 0, INT32_MAX);
    if (r->bad)
        return;
    form->extra_macs = n[0];
    form->free = n[1] != 0;
    form->rings = n[2] & 1;
    form->columns = n[2] & 2;
    form->turns = (int32_t)n[3];
    form->patches_h = (int32_t)n[4];
    form->patches_w = (int32_t)n[5];
    form->rows_in = (int32_t)n[6];
    form->rows_out = (int32_t)n[7];
    form->ring_lo = (int32_t)n[8];
    form->ring_hi = (int32_t)n[9];
}

bool json_forms_read(const struct graph *graph, struct arena *arena, const json_t *json,
                     struct plan_party *party)
{
    struct reading r = {.graph = graph, .arena = arena};
    if (!json)
        return true;
    r.bad = !json_is_array(json) || json_array_size(json) != (size_t)party->n_partial;
    for (int32_t i = 0; i < party->n_partial && !r.bad; i++) {
        struct plan_partial *step = &party->partial[i];
        const json_t *record = json_array_get(json, (size_t)i), *inner = json_array_get(record, 1);
        get_form(&r, record, 0, &step->form);
        step->inner = room(&r, inner, sizeof *step->inner, &step->n_inner);
        for (int32_t k = 0; k < step->n_inner && !r.bad; k++) {
            const json_t *each = json_array_get(inner, (size_t)k);
            get_step(&r, json_array_get(each, 0), &step->inner[k]);
            get_form(&r, each, 1, &step->inner[k].form);
        }
    }
    return !r.bad;
}
