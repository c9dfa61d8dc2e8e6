/*
 * From stores, wants and moves to each party's program: ranks, exchanges, the table of transfers that
 * fragment, conductor and simulator share, and steps in the order of ENCODING C3.
 *
 * Before an operator for which anybody must receive there is one pair of ranks: r for what goes up, r + 1 for
 * what comes down. Every party queues its sends of r and posts its receives of r + 1 there, moves what it has
 * itself, then waits for r + 1 if it posted anything. So before it waits for a rank it has begun everything
 * up to it. Memory of a queued send stays in use until the next wait for its rank or above.
 */
#include "server/plan/internal.h"

#include <stdlib.h>

/* A transfer to be, with the store at the board's end. */
struct leg {
    struct conduct_transfer transfer;
    int32_t store, op;
};

struct legs {
    struct leg *items;
    int32_t n, cap;
};

static void set_ranks(struct maker *maker)
{
    int32_t n_ops = maker->graph->n_ops;
    for (int32_t i = 0; i <= n_ops; i++)
        maker->rank_before[i] = -1;
    for (int32_t i = 0; i < maker->n_wants; i++)
        maker->rank_before[maker->wants[i].op] = 0;
    for (int32_t t = 0; t < maker->graph->n_tensors; t++)
        if (maker->holdings[t].output)
            maker->rank_before[n_ops] = 0;
    maker->ranks = 0;
    for (int32_t i = 0; i <= n_ops; i++)
        if (maker->rank_before[i] == 0) {
            maker->rank_before[i] = (int32_t)maker->ranks;
            maker->ranks = (uint32_t)program_last_rank(maker, i) + 2;
        }
}

int32_t program_last_rank(const struct maker *maker, int32_t op)
{
    return maker->rank_before[op] + (maker->apart && op < maker->graph->n_ops ? 2 * (maker->n_wants - 1) : 0);
}

static int32_t new_exchange(struct maker *maker, int32_t tensor, int32_t op)
{
    struct plan *plan = maker->plan;
    struct holding *holding = &maker->holdings[tensor];
    int32_t index = plan->n_exchanges++;
    holding->exchange = index;
    plan->exchanges[index] =
        (struct plan_exchange){.tensor = tensor, .rank = (uint32_t)maker->rank_before[op]};
    if (maker->apart && holding->given) /* the inputs are the first */
        plan->exchanges[index].rank += 2 * (uint32_t)index;
    plan->table.exchanges[index] = (struct conduct_exchange){tensor, maker->graph->tensors[tensor].shape,
                                                             holding->given, holding->output};
    return index;
}

/* One exchange a tensor, numbered by the first operator that wants it. */
static void make_exchanges(struct maker *maker)
{
    struct plan *plan = maker->plan;
    size_t most = (size_t)maker->graph->n_tensors;
    plan->exchanges = maker_alloc(maker, most, sizeof *plan->exchanges);
    plan->table.exchanges = maker_alloc(maker, most, sizeof *plan->table.exchanges);
    if (maker->failed)
        return;
    for (int32_t i = 0; i < maker->n_wants; i++) /* wants are in order of operators */
        if (maker->holdings[maker->wants[i].tensor].exchange < 0)
            new_exchange(maker, maker->wants[i].tensor, maker->wants[i].op);
    for (int32_t t = 0; t < maker->graph->n_tensors; t++)
        if (maker->holdings[t].output && maker->holdings[t].exchange < 0)
            new_exchange(maker, t, maker->graph->n_ops);
    plan->table.n_exchanges = (uint32_t)plan->n_exchanges;
}

static void add_leg(struct maker *maker, struct legs *legs, int32_t exchange, uint32_t rank, uint16_t from,
                    uint16_t to, struct box box, int32_t store, int32_t op)
{
    struct leg *leg = maker_push(maker, &legs->items, &legs->n, &legs->cap, sizeof *leg);
    if (leg)
        *leg = (struct leg){{0, (uint16_t)exchange, rank, from, to, FRAGMENT_WIRE_I8, box}, store, op};
}

/* Lists the wants of each tensor, in their order. */
static void link_wants(struct maker *maker)
{
    for (int32_t t = 0; t < maker->graph->n_tensors; t++)
        maker->holdings[t].first_want = -1;
    for (int32_t i = maker->n_wants; i-- > 0;) {
        struct holding *holding = &maker->holdings[maker->wants[i].tensor];
        maker->wants[i].next = holding->first_want;
        holding->first_want = i;
    }
}

enum { PARTS_MAX = 128 };

/* What of a piece anybody else wants, as few disjoint boxes. */
static int32_t wanted_parts(const struct maker *maker, int32_t tensor, const struct piece *piece,
                            struct box parts[PARTS_MAX])
{
    int32_t n = 0;
    int64_t worth = (int64_t)(maker->plan->boards[piece->party - 1].extra_message_cpu_s *
                              maker->plan->boards[piece->party - 1].link_bytes_per_s);
    for (int32_t i = maker->holdings[tensor].first_want; i >= 0; i = maker->wants[i].next) {
        struct box cut = box_intersect(maker->wants[i].box, piece->box);
        if (box_empty(cut))
            continue;
        bool known = false;
        for (int32_t k = 0; k < n && !known; k++)
            known = box_contains(parts[k], cut);
        if (known)
            continue;
        parts[n++] = cut;
        if (n == PARTS_MAX)
            n = cut_join(parts, n, INT32_MAX);
    }
    return cut_join(parts, n, worth);
}

static void add_uploads(struct maker *maker, struct legs *legs, int32_t exchange)
{
    const struct plan_exchange *item = &maker->plan->exchanges[exchange];
    const struct holding *holding = &maker->holdings[item->tensor];
    for (int32_t i = 0; i < holding->n; i++) {
        const struct piece *piece = &holding->pieces[i];
        struct box parts[PARTS_MAX] = {piece->box};
        int32_t n = holding->output ? 1 : wanted_parts(maker, item->tensor, piece, parts);
        for (int32_t k = 0; k < n; k++)
            add_leg(maker, legs, exchange, item->rank, piece->party, 0, parts[k], piece->store, -1);
    }
}

static int by_order(const void *a, const void *b)
{
    const struct conduct_transfer *x = &((const struct leg *)a)->transfer,
                                  *y = &((const struct leg *)b)->transfer;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->exchange != y->exchange)
        return x->exchange < y->exchange ? -1 : 1;
    const int32_t p[6] = {x->box.h0, x->box.w0, x->box.c0, x->box.h1, x->box.w1, x->box.c1};
    const int32_t q[6] = {y->box.h0, y->box.w0, y->box.c0, y->box.h1, y->box.w1, y->box.c1};
    for (int i = 0; i < 6; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return ((const struct leg *)a)->store < ((const struct leg *)b)->store ? -1 : 1;
}

static void number_transfers(struct maker *maker, struct legs *legs)
{
    struct plan *plan = maker->plan;
    uint32_t next[PLAN_BOARDS_MAX + 1] = {0};
    qsort(legs->items, (size_t)legs->n, sizeof *legs->items, by_order);
    plan->table.transfers = maker_alloc(maker, (size_t)legs->n, sizeof *plan->table.transfers);
    if (maker->failed)
        return;
    for (int32_t i = 0; i < legs->n; i++) {
        struct conduct_transfer *transfer = &legs->items[i].transfer;
        uint16_t link = transfer->from ? transfer->from : transfer->to;
        if (next[link] >= UINT16_MAX)
            error_set(maker->error, STATUS_MODEL_LIMIT, "board %d has more than %d transfers", link,
                      UINT16_MAX);
        transfer->id = (uint16_t)next[link]++;
        plan->table.transfers[i] = *transfer;
    }
    plan->table.n_transfers = (uint32_t)legs->n;
}

/* The exchanges' lists of what travels, from the table. */
static void list_pieces(struct maker *maker)
{
    struct plan *plan = maker->plan;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < plan->table.n_transfers; i++) {
            const struct conduct_transfer *t = &plan->table.transfers[i];
            struct plan_exchange *exchange = &plan->exchanges[t->exchange];
            struct plan_piece piece = {t->from ? t->from : t->to, PLAN_FORM_I8, t->rank, t->box};
            struct plan_piece *list = t->from ? exchange->have : exchange->want;
            int32_t *n = t->from ? &exchange->n_have : &exchange->n_want;
            if (pass == 1)
                list[*n] = piece;
            (*n)++;
        }
        for (int32_t e = 0; e < plan->n_exchanges && pass == 0; e++) {
            struct plan_exchange *exchange = &plan->exchanges[e];
            exchange->have = maker_alloc(maker, (size_t)exchange->n_have, sizeof *exchange->have);
            exchange->want = maker_alloc(maker, (size_t)exchange->n_want, sizeof *exchange->want);
            exchange->n_have = exchange->n_want = 0;
            if (maker->failed)
                return;
        }
    }
}

/* ---- steps ---- */

struct writer {
    struct maker *maker;
    const struct legs *legs;
    uint16_t party;
    struct plan_step *steps;
    int32_t n, cap;
    int32_t next_leg, next_move; /* where to look on */
    int32_t *sent;               /* stores of sends since the last wait */
    int32_t n_sent, cap_sent;
    int32_t segment;
};

static void use(struct writer *writer, int32_t store, int32_t step)
{
    if (store < 0)
        return;
    struct store *item = &writer->maker->stores[store];
    item->first = step < item->first ? step : item->first;
    item->last = step > item->last ? step : item->last;
}

static struct plan_step *add_step(struct writer *writer, enum plan_step_kind kind, int32_t op, struct box box)
{
    struct plan_step *step =
        maker_push(writer->maker, &writer->steps, &writer->n, &writer->cap, sizeof *step);
    if (step)
        *step = (struct plan_step){.kind = kind,
                                   .segment = writer->segment,
                                   .op = op,
                                   .box = box,
                                   .in = {-1, -1},
                                   .out = -1,
                                   .scratch = -1};
    return step;
}

/* Sends queued so far are done here. */
static void release_sends(struct writer *writer, int32_t step)
{
    for (int32_t i = 0; i < writer->n_sent; i++)
        use(writer, writer->sent[i], step);
    writer->n_sent = 0;
}

static void add_transfers(struct writer *writer, uint32_t rank, int32_t op, bool *posted)
{
    for (; writer->next_leg < writer->legs->n; writer->next_leg++) {
        const struct leg *leg = &writer->legs->items[writer->next_leg];
        const struct conduct_transfer *transfer = &leg->transfer;
        if (transfer->rank > rank)
            return;
        if (transfer->from != writer->party && transfer->to != writer->party)
            continue;
        bool send = transfer->from == writer->party;
        struct plan_step *step = add_step(writer, send ? PLAN_STEP_SEND : PLAN_STEP_POST, op, transfer->box);
        int32_t *sent =
            send ? maker_push(writer->maker, &writer->sent, &writer->n_sent, &writer->cap_sent, sizeof *sent)
                 : NULL;
        if (!step || (send && !sent))
            return;
        step->transfer = (uint32_t)writer->next_leg;
        *(send ? &step->in[0] : &step->out) = leg->store;
        use(writer, leg->store, writer->n - 1);
        if (send)
            *sent = leg->store;
        else
            *posted = true;
    }
}

static void add_moves(struct writer *writer, int32_t op)
{
    struct maker *maker = writer->maker;
    for (; writer->next_move < maker->n_moves && maker->moves[writer->next_move].op <= op;
         writer->next_move++) {
        const struct move *move = &maker->moves[writer->next_move];
        if (move->party != writer->party)
            continue;
        struct plan_step *step = add_step(writer, PLAN_STEP_COPY, op, move->box);
        if (!step)
            return;
        step->in[0] = move->from;
        step->out = move->to;
        use(writer, move->from, writer->n - 1);
        use(writer, move->to, writer->n - 1);
    }
}

static void add_wait(struct writer *writer, int32_t layer, uint32_t rank)
{
    struct plan_step *step = add_step(writer, PLAN_STEP_WAIT, layer, (struct box){0});
    if (!step)
        return;
    step->rank = rank;
    release_sends(writer, writer->n - 1);
}

static bool receives_at(const struct writer *writer, uint32_t rank)
{
    for (int32_t i = writer->next_leg; i < writer->legs->n && writer->legs->items[i].transfer.rank <= rank;
         i++)
        if (writer->legs->items[i].transfer.to == writer->party)
            return true;
    return false;
}

static void add_exchange(struct writer *writer, int32_t op)
{
    struct maker *maker = writer->maker;
    int32_t rank = maker->rank_before[op];
    bool posted = false;
    int32_t layer = op < maker->graph->n_ops ? op : -1;
    int32_t last = program_last_rank(maker, op);
    for (; rank >= 0; rank += 2) {
        add_transfers(writer, (uint32_t)rank, layer, &posted);
        if (maker->mode == MAKER_FRUGAL && writer->n_sent > 0 && receives_at(writer, (uint32_t)rank + 1))
            add_wait(writer, layer, (uint32_t)rank);
        add_transfers(writer, (uint32_t)rank + 1, layer, &posted);
        if (rank == last)
            break;
    }
    if (op < maker->graph->n_ops)
        add_moves(writer, op);
    if (posted)
        add_wait(writer, layer, (uint32_t)rank + 1);
}

static void add_task_step(struct writer *writer, const struct task *task)
{
    struct plan_step *step = add_step(writer, PLAN_STEP_TASK, task->op, task->box);
    if (!step)
        return;
    step->input = task->input;
    step->in[0] = task->in[0];
    step->in[1] = task->in[1];
    step->out = task->out;
    step->scratch = task->scratch;
    for (int i = 0; i < 2; i++)
        use(writer, task->in[i], writer->n - 1);
    use(writer, task->out, writer->n - 1);
    use(writer, task->scratch, writer->n - 1);
}

static void write_party(struct maker *maker, const struct legs *legs, uint16_t party)
{
    struct writer writer = {.maker = maker, .legs = legs, .party = party};
    for (int32_t op = 0; op <= maker->graph->n_ops && !maker->failed; op++) {
        if (op < maker->graph->n_ops && maker->segment_of[op] < 0)
            continue;
        if (op < maker->graph->n_ops)
            writer.segment = maker->segment_of[op];
        add_exchange(&writer, op);
        if (op < maker->graph->n_ops)
            for (int32_t t = maker->op_task[op]; t < maker->op_task[op + 1]; t++)
                if (maker->tasks[t].party == party)
                    add_task_step(&writer, &maker->tasks[t]);
    }
    release_sends(&writer, writer.n);
    maker->plan->parties[party - 1].steps = writer.steps;
    maker->plan->parties[party - 1].n_steps = writer.n;
    maker->plan->parties[party - 1].used = writer.n > 0;
}

static void make_segments(struct maker *maker)
{
    struct plan *plan = maker->plan;
    plan->segments = maker_alloc(maker, (size_t)maker->graph->n_ops, sizeof *plan->segments);
    plan->n_segments = 0;
    for (int32_t op = 0; op < maker->graph->n_ops && !maker->failed; op++) {
        maker->segment_of[op] = -1;
        if (!maker_runs(maker->graph, &maker->graph->ops[op]))
            continue;
        if (plan->n_segments == 0 || maker->rank_before[op] >= 0) {
            struct plan_segment *segment = &plan->segments[plan->n_segments++];
            segment->first_op = op;
            segment->times = maker_alloc(maker, (size_t)plan->n_boards, sizeof *segment->times);
        }
        plan->segments[plan->n_segments - 1].last_op = op;
        maker->segment_of[op] = plan->n_segments - 1;
    }
}

void program_write(struct maker *maker)
{
    struct legs legs = {0};
    set_ranks(maker);
    make_segments(maker);
    make_exchanges(maker);
    link_wants(maker);
    for (int32_t e = 0; e < maker->plan->n_exchanges && !maker->failed; e++)
        if (!maker->holdings[maker->plan->exchanges[e].tensor].given)
            add_uploads(maker, &legs, e);
    for (int32_t i = 0; i < maker->n_wants && !maker->failed; i++) {
        const struct want *want = &maker->wants[i];
        add_leg(maker, &legs, maker->holdings[want->tensor].exchange,
                (uint32_t)maker->rank_before[want->op] + 1 + (maker->apart ? 2 * (uint32_t)i : 0), 0,
                want->party, want->box, want->store, want->op);
    }
    if (maker->failed)
        return;
    number_transfers(maker, &legs);
    if (!maker->failed)
        list_pieces(maker);
    for (int32_t p = 1; p <= maker->plan->n_boards && !maker->failed; p++)
        write_party(maker, &legs, (uint16_t)p);
}
