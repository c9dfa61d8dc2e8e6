/*
 * Where each task finds its input and puts its output, and what must move for it. A task reads one store that
 * holds all it needs: memory in which the party made it, or a new store that is filled by receiving and, for
 * what the party has itself, by moving. Operator by operator; route_finish() then ranks the exchanges and
 * writes the programs' steps.
 *
 * Invariants: a want never leaves what the party could have moved itself unless that saves messages; whatever
 * is wanted was made by somebody or is given by the coordinator; pieces of one tensor go up at one rank,
 * below all wants.
 */
#include "server/plan/internal.h"

#include <stdlib.h>

void *maker_alloc(struct maker *maker, size_t count, size_t size)
{
    void *memory = arena_alloc(maker->plan->arena, count ? count : 1, size);
    if (!memory)
        maker->failed = true;
    return memory;
}

void *maker_push(struct maker *maker, void *vector, int32_t *n, int32_t *cap, size_t size)
{
    unsigned char **at = vector;
    if (*n == *cap) {
        int32_t room = *cap ? 2 * *cap : 8;
        unsigned char *bigger = maker_alloc(maker, (size_t)room, size);
        if (!bigger)
            return NULL;
        if (*n)
            memcpy(bigger, *at, (size_t)*n * size);
        *at = bigger;
        *cap = room;
    }
    return *at + (size_t)(*n)++ * size;
}

/* The operator's input that slot `slot` of a task reads, -1: none. */
static int32_t slot_input(const struct op *op, const struct task *task, int32_t slot)
{
    const struct op_row *row = op_row(op->kind);
    if (row->kernel == OP_KERNEL_COPY)
        return slot == 0 ? task->input : -1;
    return slot < op->n_inputs ? slot : -1;
}

struct box maker_need(const struct maker *maker, const struct task *task, int32_t slot)
{
    const struct op *op = &maker->graph->ops[task->op];
    int32_t input = slot_input(op, task, slot);
    if (input < 0 || maker_constant(maker->graph, maker->root[op->inputs[input]]))
        return (struct box){0};
    struct shape seen = maker->graph->tensors[op->inputs[input]].shape;
    struct shape made = maker->graph->tensors[maker->root[op->inputs[input]]].shape;
    if (!shape_equal(seen, made))
        return box_whole(made); /* a RESHAPE is a second view of a whole packed tensor */
    struct box need = op_row(op->kind)->need(maker->graph, op, input, task->box);
    if (box_empty(need)) /* nothing but border: any part will do as a view */
        need = (struct box){0, 1, 0, 1, 0, seen.c};
    return need;
}

static bool covered(struct box box, const struct box *valid, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (box_empty(box_intersect(box, valid[i])))
            continue;
        struct box rest[BOX_DIFFERENCE_MAX];
        int count = box_difference(box, valid[i], rest);
        for (int k = 0; k < count; k++)
            if (!covered(rest[k], valid + i + 1, n - i - 1))
                return false;
        return true;
    }
    return box_empty(box);
}

static void add_valid(struct maker *maker, struct store *store, struct box box)
{
    struct box *valid =
        maker_push(maker, &store->valid, &store->n_valid, &store->cap_valid, sizeof *store->valid);
    if (valid)
        *valid = box;
}

static int32_t new_store(struct maker *maker, uint16_t party, int32_t tensor, uint8_t elem, struct box box)
{
    struct store *store =
        maker_push(maker, &maker->stores, &maker->n_stores, &maker->cap_stores, sizeof *store);
    if (!store)
        return -1;
    *store = (struct store){.party = party,
                            .elem = elem,
                            .tensor = tensor,
                            .box = box,
                            .shares_with = -1,
                            .first = INT32_MAX,
                            .last = -1,
                            .made_for = -1,
                            .next = -1,
                            .buffer = -1};
    int32_t index = maker->n_stores - 1;
    if (tensor < maker->graph->n_tensors) {
        store->next = maker->holdings[tensor].first_store;
        maker->holdings[tensor].first_store = index;
    }
    return index;
}

/* A store of the party that holds all of `box`, one that it made before one that it fetched; -1: none. */
static int32_t find_store(const struct maker *maker, uint16_t party, int32_t tensor, struct box box,
                          int32_t op)
{
    int32_t fetched = -1;
    for (int32_t i = maker->holdings[tensor].first_store; i >= 0; i = maker->stores[i].next) {
        const struct store *store = &maker->stores[i];
        if (store->party != party || !box_contains(store->box, box) ||
            !covered(box, store->valid, store->n_valid))
            continue;
        if (store->made_for < 0)
            return i;
        if (fetched < 0 && (store->made_for == op || maker->mode == MAKER_KEEP))
            fetched = i;
    }
    return fetched;
}

/* Bytes that are worth one message less. */
static int64_t message_worth(const struct maker *maker, uint16_t party)
{
    const struct plan_board *board = &maker->plan->boards[party - 1];
    double worth = board->extra_message_cpu_s * board->link_bytes_per_s;
    return worth > 0 && worth < 1e6 ? (int64_t)worth : 0;
}

static void add_move(struct maker *maker, int32_t tensor, int32_t op, uint16_t party, int32_t from,
                     int32_t to, struct box box)
{
    struct move *move = maker_push(maker, &maker->moves, &maker->n_moves, &maker->cap_moves, sizeof *move);
    if (move)
        *move = (struct move){tensor, op, from, to, party, box};
}

enum { PARTS_MAX = 64 };

/* Takes `own` out of the boxes to be received if that saves more than the messages it costs. */
static bool take_out(struct box *parts, int32_t *n, struct box own, int64_t worth)
{
    struct box left[PARTS_MAX];
    int32_t count = 0;
    int64_t saved = 0;
    for (int32_t i = 0; i < *n; i++) {
        struct box rest[BOX_DIFFERENCE_MAX];
        int k = box_difference(parts[i], own, rest);
        if (count + k > PARTS_MAX)
            return false;
        saved += box_elements(box_intersect(parts[i], own));
        for (int j = 0; j < k; j++)
            left[count++] = rest[j];
    }
    if (saved == 0 || saved < (count - *n) * worth)
        return false;
    memcpy(parts, left, sizeof *parts * (size_t)count);
    *n = count;
    return true;
}

static int by_size(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int64_t nx = box_elements(x->box), ny = box_elements(y->box);
    if (nx != ny)
        return nx < ny ? 1 : -1;
    return x->store != y->store ? (x->store > y->store) - (x->store < y->store)
                                : (x->box.c0 > y->box.c0) - (x->box.c0 < y->box.c0);
}

/* A new store for `box`: what the party made itself is moved, the rest is wanted. Largest own pieces first.
 */
static void fetch(struct maker *maker, uint16_t party, int32_t tensor, int32_t op, struct box box)
{
    const struct holding *holding = &maker->holdings[tensor];
    struct piece own[PARTS_MAX];
    int32_t n_own = 0, n_parts = 1;
    struct box parts[PARTS_MAX] = {box};
    for (int32_t i = 0; i < holding->n && n_own < PARTS_MAX; i++) {
        struct box cut = box_intersect(holding->pieces[i].box, box);
        if (holding->pieces[i].party == party && !box_empty(cut))
            own[n_own++] = (struct piece){party, holding->pieces[i].store, cut};
    }
    qsort(own, (size_t)n_own, sizeof *own, by_size);
    int32_t to = new_store(maker, party, tensor, 1, box);
    if (to < 0)
        return;
    bool taken[PARTS_MAX] = {false};
    for (int32_t i = 0; i < n_own; i++)
        taken[i] = take_out(parts, &n_parts, own[i].box, message_worth(maker, party));
    if (maker->mode == MAKER_FRUGAL && n_parts > 0) {
        parts[0] = box;
        n_parts = 1;
        n_own = 0;
    }
    for (int32_t i = 0; i < n_own; i++)
        if (taken[i])
            add_move(maker, tensor, op, party, own[i].store, to, own[i].box);
    for (int32_t i = 0; i < n_parts; i++) {
        struct want *want =
            maker_push(maker, &maker->wants, &maker->n_wants, &maker->cap_wants, sizeof *want);
        if (want)
            *want = (struct want){tensor, op, to, party, parts[i], -1};
    }
    maker->stores[to].made_for = op;
    add_valid(maker, &maker->stores[to], box);
}

/* Finds or fetches what the tasks [begin, end) of one party read through one slot. */
static void route_inputs(struct maker *maker, int32_t begin, int32_t end, int32_t slot)
{
    const struct op *op = &maker->graph->ops[maker->tasks[begin].op];
    int32_t index = maker->tasks[begin].op;
    uint16_t party = maker->tasks[begin].party;
    for (bool again = true; again;) {
        /* one pass a tensor, since a concatenation's tasks read different ones */
        struct box missing[PARTS_MAX];
        int32_t n = 0, tensor = -1;
        again = false;
        for (int32_t t = begin; t < end && n < PARTS_MAX; t++) {
            struct task *task = &maker->tasks[t];
            struct box need = maker_need(maker, task, slot);
            if (box_empty(need) || task->in[slot] >= 0)
                continue;
            int32_t root = maker->root[op->inputs[slot_input(op, task, slot)]];
            task->in[slot] = find_store(maker, party, root, need, index);
            if (task->in[slot] >= 0 || (tensor >= 0 && tensor != root))
                continue;
            tensor = root;
            missing[n++] = need;
            again = true;
        }
        n = cut_join(missing, n, message_worth(maker, party));
        for (int32_t i = 0; i < n && !maker->failed; i++)
            fetch(maker, party, tensor, index, missing[i]);
        if (maker->failed)
            return;
    }
}

/* The store in whose memory the output may be made: the same box, of an operator that may work in place. */
static int32_t in_place(const struct maker *maker, int32_t begin, int32_t end, int32_t out)
{
    const struct op *op = &maker->graph->ops[maker->tasks[begin].op];
    const struct store *made = &maker->stores[out];
    int32_t found = -1;
    if (!op_row(op->kind)->inplace)
        return -1;
    for (int32_t slot = 0; slot < 2 && found < 0; slot++) {
        for (int32_t t = begin; t < end; t++) {
            const struct task *task = &maker->tasks[t];
            if (task->out != out)
                continue;
            int32_t in = task->in[slot];
            if (in < 0 || (found >= 0 && in != found) || !box_equal(maker->stores[in].box, made->box) ||
                !shape_equal(maker->graph->tensors[maker->stores[in].tensor].shape,
                             maker->graph->tensors[op->output].shape)) {
                found = -1;
                break;
            }
            found = in;
        }
    }
    return found;
}

/* Where an operator needs room of its own: int32 sums, an input of a concatenation that is rescaled first, or
 * what its kernels widen. */
static int32_t new_scratch(struct maker *maker, const struct task *task)
{
    const struct graph *graph = maker->graph;
    const struct op *op = &graph->ops[task->op];
    const struct op_row *row = op_row(op->kind);
    int32_t number = graph->n_tensors + task->op;
    int64_t layouts = maker->plan->boards[task->party - 1].layouts;
    if (row->kernel == OP_KERNEL_CONV || row->kernel == OP_KERNEL_DW) {
        enum nn_layout layout = plan_layout(graph, op, layouts);
        if (layout == NN_LAYOUT_PLAIN)
            return -1;
        int32_t bytes = plan_scratch(graph, op, layout, task->box, maker->scratch_limit);
        return new_store(maker, task->party, number, 1, (struct box){0, 1, 0, 1, 0, bytes});
    }
    if (row->kernel == OP_KERNEL_SUM)
        return new_store(maker, task->party, number, 4, task->box);
    if (row->kernel != OP_KERNEL_COPY || row->max_inputs == 1)
        return -1;
    struct quant in = graph->tensors[op->inputs[task->input]].quant, out = graph->tensors[op->output].quant;
    if (in.scale == out.scale && in.zero_point == out.zero_point)
        return -1;
    return new_store(maker, task->party, number, 1, row->need(graph, op, task->input, task->box));
}

/* Stores for what the tasks [begin, end) of one party make. */
static void route_outputs(struct maker *maker, int32_t begin, int32_t end)
{
    int32_t index = maker->tasks[begin].op;
    const struct op *op = &maker->graph->ops[index];
    struct box boxes[PARTS_MAX];
    int32_t n = 0, first = maker->n_stores;
    for (int32_t t = begin; t < end && n < PARTS_MAX; t++)
        boxes[n++] = maker->tasks[t].box;
    n = end - begin <= PARTS_MAX ? cut_join(boxes, n, 64) : 0;
    for (int32_t i = 0; i < n; i++)
        new_store(maker, maker->tasks[begin].party, op->output, 1, boxes[i]);
    for (int32_t t = begin; t < end && !maker->failed; t++) {
        struct task *task = &maker->tasks[t];
        for (int32_t s = first; s < first + n && task->out < 0; s++)
            if (box_contains(maker->stores[s].box, task->box))
                task->out = s;
        if (task->out < 0)
            task->out = new_store(maker, task->party, op->output, 1, task->box);
        task->scratch = new_scratch(maker, task);
        if (maker->failed)
            return;
        add_valid(maker, &maker->stores[task->out], task->box);
        struct holding *holding = &maker->holdings[op->output];
        struct piece *piece = maker_push(maker, &holding->pieces, &holding->n, &holding->cap, sizeof *piece);
        if (piece)
            *piece = (struct piece){task->party, task->out, task->box};
    }
    for (int32_t s = first; s < maker->n_stores && !maker->failed; s++)
        if (maker->stores[s].tensor == op->output)
            maker->stores[s].shares_with = in_place(maker, begin, end, s);
}

void route_op(struct maker *maker, int32_t op)
{
    int32_t end = maker->op_task[op + 1];
    for (int32_t begin = maker->op_task[op], next; begin < end && !maker->failed; begin = next) {
        for (next = begin + 1; next < end && maker->tasks[next].party == maker->tasks[begin].party; next++)
            ;
        for (int32_t slot = 0; slot < 2; slot++)
            route_inputs(maker, begin, next, slot);
        if (!maker->failed)
            route_outputs(maker, begin, next);
    }
}
