/*
 * A party that runs a schedule of partial execution (server/schedule) alone: it receives every input whole,
 * walks the lowered program, and sends every output whole. What it computes is listed as whole tasks, for
 * weights and people; memory and times are the program's.
 */
#include "server/plan/internal.h"

#include "server/model/tall.h"

/* ---- what is received, made and sent ---- */

/* In the order in which the program takes them. */
static void want_inputs(struct maker *maker, uint16_t party, int32_t op, const struct lowered *lowered)
{
    for (int32_t pc = 0; lowered && pc < lowered->n_code; pc++) {
        const struct lower_code *code = &lowered->code[pc];
        int32_t t = code->tensor;
        if (code->op != FRAGMENT_POST && code->op != FRAGMENT_RECV)
            continue;
        maker->apart |= code->op == FRAGMENT_RECV;
        struct want *want =
            maker_push(maker, &maker->wants, &maker->n_wants, &maker->cap_wants, sizeof *want);
        if (want)
            *want = (struct want){t, op, -1, party, box_whole(maker->graph->tensors[t].shape), -1};
    }
}

static void add_task(struct maker *maker, uint16_t party, int32_t op, int32_t input, struct box box)
{
    struct task *task = maker_push(maker, &maker->tasks, &maker->n_tasks, &maker->cap_tasks, sizeof *task);
    if (task)
        *task = (struct task){op, input, party, box, {-1, -1}, -1, -1};
}

/* The whole output, of a concatenation input by input. */
static void make_output(struct maker *maker, uint16_t party, int32_t index)
{
    const struct op *op = &maker->graph->ops[index];
    const struct op_row *row = op_row(op->kind);
    struct box box = box_whole(maker->graph->tensors[op->output].shape);
    int32_t n = row->kernel == OP_KERNEL_COPY && row->max_inputs > 1 ? op->n_inputs : 1, before = 0;
    for (int32_t i = 0; i < n; i++) {
        struct shape in = maker->graph->tensors[op->inputs[i]].shape;
        struct box part = box;
        if (n > 1) {
            int32_t *lo = op->axis == 0 ? &part.h0 : op->axis == 1 ? &part.w0 : &part.c0;
            int32_t *hi = op->axis == 0 ? &part.h1 : op->axis == 1 ? &part.w1 : &part.c1;
            *lo = before;
            *hi = before += op->axis == 0 ? in.h : op->axis == 1 ? in.w : in.c;
        }
        add_task(maker, party, index, i, part);
    }
    struct holding *holding = &maker->holdings[op->output];
    struct piece *piece = maker_push(maker, &holding->pieces, &holding->n, &holding->cap, sizeof *piece);
    if (piece)
        *piece = (struct piece){party, -1, box};
}

/* ---- the program, owned by the plan ---- */

static void *copied(struct maker *maker, const void *items, int32_t n, size_t size)
{
    void *copy = n ? arena_copy(maker->plan->arena, items, (size_t)n * size) : NULL;
    maker->failed |= n && !copy;
    return copy;
}

static struct lowered *own(struct maker *maker, const struct lowered *from)
{
    struct lowered *to = maker_alloc(maker, 1, sizeof *to);
    if (!to)
        return NULL;
    *to = *from;
    to->ranges = copied(maker, from->ranges, from->n_ranges, sizeof *to->ranges);
    to->views = copied(maker, from->views, from->n_views, sizeof *to->views);
    to->code = copied(maker, from->code, from->n_code, sizeof *to->code);
    to->buffers = copied(maker, from->buffers, from->n_buffers, sizeof *to->buffers);
    return to;
}

static void list_steps(struct maker *maker, const struct schedule_step *steps, int32_t n,
                       const struct schedule_step *outer, struct plan_partial **to, int32_t *n_to)
{
    *to = maker_alloc(maker, (size_t)n + 1, sizeof **to);
    *n_to = *to ? n : 0;
    for (int32_t s = 0; s < *n_to; s++) {
        struct plan_partial *step = &(*to)[s];
        step->form = schedule_form(maker->graph, maker->partial, &steps[s], outer);
        step->n_ops = steps[s].n_ops;
        step->ops = copied(maker, steps[s].ops, steps[s].n_ops, sizeof *step->ops);
        list_steps(maker, steps[s].inner, steps[s].n_inner, &steps[s], &step->inner, &step->n_inner);
    }
}

/* The first step that does an operator of the schedule's peak step. */
static int32_t peak_step(const struct plan_party *party, const struct schedule *schedule)
{
    const struct schedule_step *peak = schedule->n_steps ? &schedule->steps[schedule->peak_step] : NULL;
    for (int32_t s = 0; peak && s < party->n_steps; s++)
        if (party->steps[s].kind == PLAN_STEP_TASK && party->steps[s].op == peak->ops[peak->n_ops - 1])
            return s;
    return 0;
}

static bool adds_up(const struct lowered *lowered)
{
    for (int32_t i = 0; i < lowered->n_code; i++)
        if (lowered->code[i].op == FRAGMENT_CONV && (lowered->code[i].form & FRAGMENT_FORM_ACC))
            return true;
    return false;
}

struct program {
    const struct maker *maker;
    const struct graph *tall;
};

/* Of the layout that the board takes for the operator's weights. */
static int32_t kernel_scratch(const void *context, int32_t index, bool tall, struct shape part)
{
    const struct program *program = context;
    const struct maker *maker = program->maker;
    const struct op *op = &maker->graph->ops[index];
    enum nn_layout layout = plan_layout(maker->graph, op, maker->plan->boards[maker->first_board].layouts);
    struct box box = {0, part.h, 0, part.w, 0, part.c};
    if (tall)
        op = &program->tall->ops[index];
    return layout == NN_LAYOUT_PLAIN
               ? 0
               : (plan_scratch(maker->graph, op, layout, box, maker->scratch_limit) + 7) / 8 * 8;
}

/* NULL with the maker's error set. */
static struct lowered *lower_program(struct maker *maker)
{
    struct program program = {maker, tall_graph(maker->graph, maker->plan->arena)};
    struct lower_kernels kernels = {&program, kernel_scratch};
    maker->failed |= !program.tall;
    return maker->failed
               ? NULL
               : schedule_lower(maker->graph, maker->partial, maker->partial_options, &kernels, maker->error);
}

static void set_program(struct maker *maker, const struct lowered *lowered)
{
    struct plan_party *party = &maker->plan->parties[maker->first_board];
    if (maker->partial_options->accumulator < 32 && adds_up(lowered))
        error_set(
            maker->error, STATUS_MODEL_UNSUPPORTED,
            "sums of fewer than 32 bits are not exact: they are scheduled and counted, but not executed");
    party->program = own(maker, lowered);
    party->peak_bytes = lowered->peak_bytes;
    party->arena_bytes = lowered->arena_bytes;
    party->scratch_bytes = lowered->scratch_bytes;
    if (party->arena_bytes > UINT32_MAX)
        error_set(maker->error, STATUS_DOES_NOT_FIT, "an arena of %lld bytes", (long long)party->arena_bytes);
    list_steps(maker, maker->partial->steps, maker->partial->n_steps, NULL, &party->partial,
               &party->n_partial);
    party->peak_step = peak_step(party, maker->partial);
}

void partial_write(struct maker *maker)
{
    uint16_t party = (uint16_t)(maker->first_board + 1);
    int32_t first = maker->graph->n_ops;
    for (int32_t i = 0; i < maker->graph->n_ops && !maker->failed; i++) {
        maker->op_task[i] = maker->n_tasks;
        if (maker_runs(maker->graph, &maker->graph->ops[i])) {
            first = i < first ? i : first;
            make_output(maker, party, i);
        }
        maker->op_task[i + 1] = maker->n_tasks;
    }
    struct lowered *lowered = maker->failed ? NULL : lower_program(maker);
    if (first < maker->graph->n_ops)
        want_inputs(maker, party, first, lowered);
    if (!maker->failed)
        program_write(maker);
    if (!maker->failed && lowered)
        set_program(maker, lowered);
    schedule_lowered_free(lowered);
}

/* ---- times ---- */

struct clock {
    const struct plan *plan;
    const struct graph *tall;
    const struct plan_board *board;
    const struct plan_party *party;
    double computing, flash; /* seconds */
    int32_t loop;            /* the outermost LOOP that was entered last, -1 */
    bool cached;             /* its weights stay in the data cache: read once */
};

enum { CACHE_BYTES = 24 * 1024, SCALES_BYTES = 12, TABLE_BYTES = 256 };

/* Bytes that one execution reads of weights, multipliers and tables. */
static double weight_bytes(const struct graph *graph, const struct lower_code *code, struct box box,
                           int32_t k)
{
    const struct op *op = &graph->ops[code->graph_op];
    if (code->op == FRAGMENT_LUT)
        return TABLE_BYTES;
    if (!op_row(op->kind)->needs_weights || (code->op != FRAGMENT_CONV && code->op != FRAGMENT_DW))
        return 0;
    int64_t each = (int64_t)op->kernel_h * op->kernel_w * (code->op == FRAGMENT_DW ? 1 : k) + SCALES_BYTES;
    return (double)(each * (box.c1 - box.c0));
}

/* The outermost LOOP around an instruction; -1: none. */
static int32_t loop_around(const struct lowered *program, int32_t pc)
{
    int32_t depth = 0, loop = -1;
    for (int32_t i = 0; i < pc; i++) {
        if (program->code[i].op == FRAGMENT_LOOP && depth++ == 0)
            loop = i;
        if (program->code[i].op == FRAGMENT_END && --depth == 0)
            loop = -1;
    }
    return loop;
}

/* The weights of all operators within the LOOP, each once. */
static double loop_weights(const struct clock *clock, int32_t loop)
{
    const struct lowered *program = clock->party->program;
    const struct graph *graph = clock->plan->graph;
    int32_t depth = 0, last = -1;
    double sum = 0;
    for (int32_t i = loop; i < program->n_code; i++) {
        const struct lower_code *code = &program->code[i];
        depth += (code->op == FRAGMENT_LOOP) - (code->op == FRAGMENT_END);
        if (depth == 0)
            break;
        if (code->graph_op < 0 || code->graph_op == last || clock->party->resident[code->graph_op])
            continue;
        const struct op *op = &graph->ops[code->graph_op];
        struct shape in = graph->tensors[op->inputs[0]].shape;
        sum += weight_bytes(graph, code, box_whole(graph->tensors[op->output].shape),
                            op->groups > 0 ? in.c / op->groups : in.c);
        last = code->graph_op;
    }
    return sum;
}

/* Elements that an execution other than a convolution's reads through its first input. */
static double needed(const struct graph *graph, const struct lower_act *act)
{
    const struct lower_code *code = act->code;
    const struct op *op = &graph->ops[code->graph_op];
    struct box box = act->box;
    if (code->op == FRAGMENT_ZERO || code->op == FRAGMENT_FINISH || code->op == FRAGMENT_LUT)
        return 0;
    box = op_row(op->kind)->need(graph, op, code->input, box);
    if (code->op == FRAGMENT_SUM && (op->reduce & OP_AXIS_H)) {
        box.h0 = act->k0;
        box.h1 = act->k1;
    }
    return (double)box_elements(box);
}

static void tick(void *context, const struct lower_act *act)
{
    struct clock *clock = context;
    const struct plan *plan = clock->plan;
    const struct lowered *program = clock->party->program;
    const struct lower_code *code = act->code;
    clock->computing += 1e-6;
    if (code->op == FRAGMENT_COPY && code->graph_op < 0)
        clock->computing +=
            (double)box_elements(act->box) / (clock->board->element_per_cycle * clock->board->clock_hz);
    if (code->graph_op < 0)
        return;
    const struct graph *graph = code->tall ? clock->tall : plan->graph;
    const struct op *op = &graph->ops[code->graph_op];
    const struct op_row *row = op_row(op->kind);
    enum op_cost cost = row->cost(graph, op);
    struct shape in = graph->tensors[op->inputs[0]].shape;
    double elements = (double)box_elements(act->box), rate = clock->board->clock_hz;
    if (code->op == FRAGMENT_CONV || code->op == FRAGMENT_DW) {
        double part = code->op == FRAGMENT_CONV && op->groups > 0
                          ? (double)(act->k1 - act->k0) / ((double)in.c / op->groups)
                          : 1;
        clock->computing +=
            part * (double)row->macs(graph, op, act->box) / (clock->board->mac_per_cycle[cost] * rate);
        elements = code->form & FRAGMENT_FORM_ACC ? elements : 0;
    } else {
        double need = needed(graph, act);
        elements = need > elements ? need : elements;
    }
    clock->computing += elements / (clock->board->element_per_cycle * rate);
    int32_t loop = loop_around(program, (int32_t)(code - program->code));
    bool entered = loop != clock->loop;
    if (entered) {
        double all = loop < 0 ? 0 : loop_weights(clock, loop);
        clock->loop = loop;
        clock->cached = loop >= 0 && all <= CACHE_BYTES;
        clock->flash += clock->cached ? all / clock->board->flash_bytes_per_s : 0;
    }
    if (!clock->cached && !clock->party->resident[code->graph_op])
        clock->flash +=
            weight_bytes(plan->graph, code, act->box, act->k1 - act->k0) / clock->board->flash_bytes_per_s;
}

void partial_seconds(const struct plan *plan, int32_t b, double *computing, double *flash)
{
    struct arena *arena = arena_new(SIZE_MAX);
    struct clock clock = {.plan = plan,
                          .tall = arena ? tall_graph(plan->graph, arena) : NULL,
                          .board = &plan->boards[b],
                          .party = &plan->parties[b],
                          .loop = -1};
    if (!clock.tall) /* without memory a guess */
        clock.tall = plan->graph;
    lowered_walk(clock.party->program, 0, tick, &clock);
    *computing = clock.computing;
    *flash = clock.flash;
    arena_free(arena);
}
