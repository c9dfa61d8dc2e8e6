/*
 * A lowered schedule as instructions of a fragment: ranges and views are taken over, views with their
 * buffer's offset added; parameters, weights, tables and transfers come from the graph and the plan.
 */
#include "server/emit/internal.h"
#include "server/emit/params.h"
#include "server/model/optable.h"
#include "server/model/tall.h"

#include <stdlib.h>
#include <string.h>

struct program {
    struct emitter *emitter;
    struct arena *arena;
    const struct graph *tall; /* as instructions have it that are tall */
    const struct lowered *lowered;
    uint16_t *ranges, *views; /* numbers in the image */
};

/* Parents come before children in both. */
static void add_ranges(struct program *p)
{
    for (int32_t i = 0; i < p->lowered->n_ranges; i++) {
        struct fragment_range range = p->lowered->ranges[i];
        if (range.parent != FRAGMENT_NONE)
            range.parent = p->ranges[range.parent];
        p->ranges[i] = image_range_of(&p->emitter->image, &range);
    }
}

static uint16_t range_number(const struct program *p, int32_t range)
{
    return range < 0 ? (uint16_t)FRAGMENT_NONE : p->ranges[range];
}

static uint16_t mapped(const struct program *p, uint16_t range)
{
    return range == FRAGMENT_NONE ? range : p->ranges[range];
}

static void add_views(struct program *p)
{
    for (int32_t i = 0; i < p->lowered->n_views; i++) {
        const struct lower_view *from = &p->lowered->views[i];
        struct fragment_view view = from->view;
        if (from->buffer < 0) {
            p->views[i] = emit_constant(p->emitter, view.tensor);
            continue;
        }
        view.offset += (uint32_t)p->lowered->buffers[from->buffer].offset;
        view.h0 = mapped(p, view.h0);
        view.w0 = mapped(p, view.w0);
        view.c0 = mapped(p, view.c0);
        p->views[i] = image_view(&p->emitter->image, &view);
    }
}

static uint16_t view_number(const struct program *p, int32_t view)
{
    return view < 0 ? (uint16_t)FRAGMENT_NONE : p->views[view];
}

/* Output channels begin somewhere in the slice that covers the range's lower limit. */
static uint16_t slice_of(const struct program *p, const struct lower_code *code)
{
    const struct plan_slice *slice;
    return emit_weights(p->emitter, code->graph_op, p->lowered->ranges[code->c].lo, &slice);
}

static void set_slice(const struct program *p, const struct lower_code *from, struct fragment_code *code)
{
    const struct op *op = &p->emitter->graph->ops[from->graph_op];
    bool weights = op_row(op->kind)->needs_weights;
    if (from->op == FRAGMENT_LUT)
        code->slice = emit_table(p->emitter, op, from->input);
    else if (from->op == FRAGMENT_CONV || from->op == FRAGMENT_DW)
        code->slice = slice_of(p, from);
    else if (from->op == FRAGMENT_FINISH && weights)
        code->slice = from->whole_scales ? emit_scales(p->emitter, from->graph_op) : slice_of(p, from);
}

static uint32_t transfer_of(const struct program *p, const struct lower_code *code, uint32_t *last_rank)
{
    const struct conduct_table *table = &p->emitter->plan->table;
    bool send = code->op == FRAGMENT_SEND;
    for (uint32_t i = 0; i < table->n_transfers; i++) {
        const struct conduct_transfer *t = &table->transfers[i];
        if (p->emitter->plan->exchanges[t->exchange].tensor != code->tensor ||
            (send ? t->from : t->to) != p->emitter->number)
            continue;
        *last_rank = t->rank;
        return emit_transfer(p->emitter, i, code->tall);
    }
    p->emitter->image.status = STATUS_INTERNAL; /* a plan's table has all inputs and outputs of its program */
    return 0;
}

static void add_code(struct program *p, const struct lower_code *from, uint32_t *last_rank)
{
    struct emitter *emitter = p->emitter;
    struct fragment_code code = emit_blank((enum fragment_op)from->op, from->graph_op);
    code.form = from->form;
    code.loop = from->loop;
    code.in[0] = view_number(p, from->in[0]);
    code.in[1] = view_number(p, from->in[1]);
    code.out = view_number(p, from->out);
    code.scratch = view_number(p, from->scratch);
    code.h = range_number(p, from->h);
    code.w = range_number(p, from->w);
    code.c = range_number(p, from->c);
    code.k = range_number(p, from->k);
    if (from->op == FRAGMENT_LOOP)
        code.arg = from->count;
    if (from->op == FRAGMENT_WAIT)
        code.arg = *last_rank;
    if (from->tensor >= 0)
        code.arg = transfer_of(p, from, last_rank);
    if (from->graph_op >= 0) {
        bool plain = from->op == FRAGMENT_ZERO || from->op == FRAGMENT_LUT;
        const struct graph *graph = from->tall ? p->tall : emitter->graph;
        struct nn_params params = params_of(graph, &graph->ops[from->graph_op], from->input);
        code.params = plain ? (uint16_t)FRAGMENT_NONE : image_params(&emitter->image, &params);
        set_slice(p, from, &code);
    }
    image_code(&emitter->image, &code);
}

int emit_program(struct emitter *emitter, const struct lowered *lowered)
{
    struct program p = {.emitter = emitter, .lowered = lowered};
    uint32_t last_rank = 0;
    p.ranges = calloc((size_t)lowered->n_ranges + 1, sizeof *p.ranges);
    p.views = calloc((size_t)lowered->n_views + 1, sizeof *p.views);
    p.arena = arena_new(SIZE_MAX);
    p.tall = p.arena ? tall_graph(emitter->graph, p.arena) : NULL;
    bool good = p.ranges && p.views && p.tall;
    if (good) {
        add_ranges(&p);
        add_views(&p);
    }
    for (int32_t i = 0; good && i < lowered->n_code; i++)
        add_code(&p, &lowered->code[i], &last_rank);
    free(p.ranges);
    free(p.views);
    arena_free(p.arena);
    return good ? 0 : error_set(emitter->error, STATUS_NO_MEMORY, "no memory for a fragment");
}
