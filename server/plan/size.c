/*
 * How large a party's fragment will be: the records that server/emit writes are counted as it writes them,
 * equal ones once. Never below what is emitted, and above only where two operators happen to have equal
 * parameters or tables. A change of how emit makes records changes this file too (test_split holds the two
 * together).
 */
#include "server/plan/internal.h"

#include "shared/fragment/fragment.h"

enum { TABLE_BYTES = 256, SCALES_BYTES = 12 };

/* What makes a record one of its kind; counted at the end. */
struct key {
    int32_t at[12];
};

_Static_assert(sizeof(struct fragment_view) <= sizeof(struct key), "a view is a key");

struct keys {
    struct key *items;
    int32_t n, cap;
};

struct tally {
    struct maker *maker;
    const struct plan *plan;
    const struct plan_party *party;
    struct keys ranges, views, params, tables, constants;
    int64_t code, transfers, slices, bytes; /* bytes: of weights, multipliers and biases */
};

static int64_t align_up(int64_t x)
{
    return (x + FRAGMENT_ALIGN - 1) / FRAGMENT_ALIGN * FRAGMENT_ALIGN;
}

#define ADD(tally, list, ...) add(tally, &(tally)->list, (struct key){{__VA_ARGS__}})
static void add(struct tally *tally, struct keys *keys, struct key key)
{
    struct key *item = maker_push(tally->maker, &keys->items, &keys->n, &keys->cap, sizeof *item);
    if (item)
        *item = key;
}

static uint32_t hash_of(const struct key *key)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof key->at / sizeof *key->at; i++)
        hash = (hash ^ (uint32_t)key->at[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* How many different ones there are; leaves each once, in the order of the first. */
static int64_t different(struct tally *tally, struct keys *keys)
{
    uint32_t room = 16;
    int32_t n = 0;
    while (room < 2 * (uint32_t)keys->n)
        room *= 2;
    int32_t *slots = maker_alloc(tally->maker, room, sizeof *slots); /* index + 1; 0: free */
    for (int32_t i = 0; slots && i < keys->n; i++) {
        uint32_t at = hash_of(&keys->items[i]) & (room - 1);
        while (slots[at] && memcmp(&keys->items[slots[at] - 1], &keys->items[i], sizeof *keys->items) != 0)
            at = (at + 1) & (room - 1);
        if (slots[at])
            continue;
        keys->items[n++] = keys->items[i];
        slots[at] = n;
    }
    keys->n = n;
    return n;
}

/* ---- views and boxes ---- */

static void range(struct tally *tally, int32_t lo, int32_t hi)
{
    ADD(tally, ranges, lo, hi);
}

static void box_ranges(struct tally *tally, struct box box)
{
    range(tally, box.h0, box.h1);
    range(tally, box.w0, box.w1);
    range(tally, box.c0, box.c1);
}

static void origin(struct tally *tally, int32_t lo, int32_t hi, int32_t whole)
{
    if (lo != 0 || hi != whole)
        range(tally, lo, hi);
}

/* A buffer seen as a tensor of shape `seen`. */
static void view(struct tally *tally, int32_t index, struct shape seen)
{
    const struct plan_buffer *buffer = &tally->party->buffers[index];
    const struct graph *graph = tally->plan->graph;
    struct box box = buffer->box;
    if (buffer->tensor < graph->n_tensors && !shape_equal(seen, graph->tensors[buffer->tensor].shape))
        box = box_whole(seen);
    origin(tally, box.h0, box.h1, seen.h);
    origin(tally, box.w0, box.w1, seen.w);
    origin(tally, box.c0, box.c1, seen.c);
    ADD(tally, views, (int32_t)buffer->offset, buffer->tensor, buffer->elem, seen.h, seen.w, seen.c, box.h0,
        box.h1, box.w0, box.w1, box.c0, box.c1);
}

static void own_view(struct tally *tally, int32_t index)
{
    if (index >= 0)
        view(tally, index, tally->plan->graph->tensors[tally->party->buffers[index].tensor].shape);
}

static void input_view(struct tally *tally, const struct op *op, int32_t input, int32_t buffer)
{
    int32_t tensor = op->inputs[input];
    if (buffer >= 0)
        view(tally, buffer, tally->plan->graph->tensors[tensor].shape);
    else
        ADD(tally, constants, tensor);
}

/* A table is made from the operator's kind and the quantisation at its two ends. */
static void table(struct tally *tally, int32_t index, int32_t input)
{
    const struct graph *graph = tally->plan->graph;
    const struct op *op = &graph->ops[index];
    const struct quant in = graph->tensors[op->inputs[input]].quant, out = graph->tensors[op->output].quant;
    int32_t scales[2];
    memcpy(&scales[0], &in.scale, sizeof in.scale);
    memcpy(&scales[1], &out.scale, sizeof out.scale);
    ADD(tally, tables, op_row(op->kind)->kernel == OP_KERNEL_COPY ? OP_REQUANTIZE : (int32_t)op->kind,
        scales[0], in.zero_point, scales[1], out.zero_point);
}

/* ---- one step ---- */

static void count_conv(struct tally *tally, const struct plan_step *step)
{
    const struct graph *graph = tally->plan->graph;
    const struct op *op = &graph->ops[step->op];
    int32_t per_group = graph->tensors[op->output].shape.c / op->groups;
    int32_t k = graph->tensors[op->inputs[0]].shape.c / op->groups;
    for (int32_t c = step->box.c0; c < step->box.c1;) {
        struct box box = step->box;
        int32_t group = c / per_group, end = (group + 1) * per_group;
        box.c0 = c;
        box.c1 = end < step->box.c1 ? end : step->box.c1;
        box_ranges(tally, box);
        range(tally, group * k, (group + 1) * k);
        tally->code++;
        c = box.c1;
    }
}

static void count_sum(struct tally *tally, const struct plan_step *step)
{
    const struct graph *graph = tally->plan->graph;
    const struct op *op = &graph->ops[step->op];
    view(tally, step->scratch, graph->tensors[op->output].shape);
    box_ranges(tally, step->box);
    if (op->reduce & OP_AXIS_H)
        range(tally, 0, graph->tensors[op->inputs[0]].shape.h);
    tally->code += 3;
}

static void count_task(struct tally *tally, const struct plan_step *step)
{
    const struct graph *graph = tally->plan->graph;
    const struct op *op = &graph->ops[step->op];
    enum op_kernel kernel = op_row(op->kind)->kernel;
    int32_t input = kernel == OP_KERNEL_COPY ? step->input : 0;
    input_view(tally, op, input, step->in[0]);
    own_view(tally, step->out);
    if (kernel != OP_KERNEL_LUT)
        ADD(tally, params, step->op, step->input);
    if ((kernel == OP_KERNEL_CONV || kernel == OP_KERNEL_DW) && step->scratch >= 0)
        view(tally, step->scratch, (struct shape){1, 1, tally->party->buffers[step->scratch].box.c1});
    if (kernel == OP_KERNEL_CONV) {
        count_conv(tally, step);
        return;
    }
    if (kernel == OP_KERNEL_SUM) {
        count_sum(tally, step);
        return;
    }
    if (kernel == OP_KERNEL_ADD || kernel == OP_KERNEL_MUL)
        input_view(tally, op, 1, step->in[1]);
    if (kernel == OP_KERNEL_LUT || (kernel == OP_KERNEL_COPY && step->scratch >= 0))
        table(tally, step->op, input);
    if (kernel == OP_KERNEL_COPY && step->scratch >= 0) {
        view(tally, step->scratch, graph->tensors[op->inputs[input]].shape);
        box_ranges(tally, tally->party->buffers[step->scratch].box);
        tally->code++;
    }
    box_ranges(tally, step->box);
    tally->code++;
}

static void count_step(struct tally *tally, const struct plan_step *step)
{
    if (step->kind == PLAN_STEP_TASK) {
        count_task(tally, step);
        return;
    }
    own_view(tally, step->in[0]);
    own_view(tally, step->out);
    if (step->kind != PLAN_STEP_WAIT)
        box_ranges(tally, step->box);
    tally->transfers += step->kind == PLAN_STEP_SEND || step->kind == PLAN_STEP_POST;
    tally->code++;
}

/* ---- a lowered schedule ---- */

static void program_view(struct tally *tally, const struct lowered *program, const struct lower_view *from)
{
    struct fragment_view seen = from->view;
    struct key key = {{0}};
    if (from->buffer < 0) {
        ADD(tally, constants, seen.tensor);
        return;
    }
    seen.offset += (uint32_t)program->buffers[from->buffer].offset;
    memcpy(key.at, &seen, sizeof seen);
    add(tally, &tally->views, key);
}

static void count_program(struct tally *tally, const struct lowered *program)
{
    const struct graph *graph = tally->plan->graph;
    for (int32_t i = 0; i < program->n_ranges; i++) {
        struct key key = {{0}};
        memcpy(key.at, &program->ranges[i], sizeof program->ranges[i]);
        add(tally, &tally->ranges, key);
    }
    for (int32_t i = 0; i < program->n_views; i++)
        program_view(tally, program, &program->views[i]);
    tally->code = program->n_code;
    for (int32_t i = 0; i < program->n_code; i++) {
        const struct lower_code *code = &program->code[i];
        tally->transfers += code->tensor >= 0;
        if (code->op == FRAGMENT_LUT)
            table(tally, code->graph_op, code->input);
        else if (code->graph_op >= 0 && code->op != FRAGMENT_ZERO)
            ADD(tally, params, code->graph_op, code->input, code->tall);
        if (code->whole_scales) {
            tally->slices++;
            tally->bytes +=
                align_up(SCALES_BYTES * (int64_t)graph->tensors[graph->ops[code->graph_op].output].shape.c);
        }
    }
}

/* ---- the whole ---- */

static int64_t total(struct tally *tally)
{
    int64_t tables = different(tally, &tally->tables), constants = different(tally, &tally->constants);
    int64_t sum = (int64_t)sizeof(struct fragment_header);
    for (int32_t i = 0; i < tally->constants.n; i++)
        tally->bytes +=
            align_up(shape_elements(tally->plan->graph->tensors[tally->constants.items[i].at[0]].shape));
    sum += align_up(different(tally, &tally->ranges) * (int64_t)sizeof(struct fragment_range));
    sum += align_up((different(tally, &tally->views) + constants) * (int64_t)sizeof(struct fragment_view));
    sum += align_up(tally->code * (int64_t)sizeof(struct fragment_code));
    sum += align_up(tally->transfers * (int64_t)sizeof(struct fragment_transfer));
    sum += align_up(different(tally, &tally->params) * (int64_t)sizeof(struct nn_params));
    sum += align_up((tally->slices + tables + constants) * (int64_t)sizeof(struct fragment_slice));
    return sum + tally->bytes + tables * TABLE_BYTES;
}

int64_t size_fragment(struct maker *maker, int32_t party, int32_t n_slices)
{
    const struct plan_party *item = &maker->plan->parties[party - 1];
    struct tally tally = {
        .maker = maker, .plan = maker->plan, .party = item, .slices = n_slices, .bytes = item->weight_bytes};
    if (item->program)
        count_program(&tally, item->program);
    for (int32_t s = 0; s < item->n_steps && !item->program; s++)
        count_step(&tally, &item->steps[s]);
    return maker->failed ? 0 : total(&tally);
}
