/*
 * Where everything lies. Lifetimes are counted in instructions: what lives from one iteration of a loop to
 * another is in use during the whole loop. Then overlaps by rows: the walk of a step says at which execution
 * each row of an output is first written and each row of an input that dies is last read; so far below the
 * input, or further, the output may lie. Offsets come from the packer.
 */
#include "server/schedule/lower_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- overlaps ---- */

/* What happens to a whole tensor's rows: the last read of each, the first write; -1: never. */
struct track {
    int32_t tensor, buffer;
    int64_t row_bytes;
    int32_t rows;
    int64_t *read, *written;
    bool *by_element; /* the last read is by an element-wise operator that writes this row of `to` */
    int32_t to;       /* of the last reader: the tensor it writes */
    bool dies, made;
};

struct tracks {
    struct lower *l;
    struct track *items;
    int32_t n;
};

static struct track *track_of(struct tracks *t, int32_t view)
{
    if (view < 0 || t->l->out->views[view].view.elem != 1)
        return NULL;
    const struct lower_view *v = &t->l->out->views[view];
    for (int32_t i = 0; i < t->n; i++)
        if (t->items[i].buffer == v->buffer && v->buffer >= 0 && v->view.rows == t->items[i].rows)
            return &t->items[i];
    return NULL;
}

/* Rows of the view's tensor that the act reads through input `i`. */
static void rows_read(const struct lower *l, const struct lower_act *act, int32_t i, int32_t *lo, int32_t *hi)
{
    const struct lower_code *code = act->code;
    *lo = act->box.h0;
    *hi = act->box.h1;
    if (code->graph_op < 0)
        return;
    const struct op *op = &l->graph->ops[code->graph_op];
    bool look = code->op == FRAGMENT_LUT && op_row(op->kind)->kernel == OP_KERNEL_COPY;
    if (code->op == FRAGMENT_SUM && (op->reduce & OP_AXIS_H)) {
        *lo = act->k0;
        *hi = act->k1;
    } else if (code->op != FRAGMENT_SUM && code->op != FRAGMENT_FINISH && !look) {
        struct box need = op_row(op->kind)->need(l->graph, op, i ? i : code->input, act->box);
        *lo = need.h0;
        *hi = need.h1;
    }
}

static void note(void *context, const struct lower_act *act)
{
    struct tracks *t = context;
    const struct lower_code *code = act->code;
    struct track *out = track_of(t, code->out);
    bool in_place = code->graph_op >= 0 && op_row(t->l->graph->ops[code->graph_op].kind)->inplace;
    for (int32_t i = 0; i < 2; i++) {
        struct track *in = track_of(t, code->in[i]);
        int32_t lo, hi;
        if (!in)
            continue;
        rows_read(t->l, act, i, &lo, &hi);
        for (int32_t y = lo < 0 ? 0 : lo; y < hi && y < in->rows; y++) {
            in->read[y] = act->time;
            in->by_element[y] = in_place && out && !code->form && y >= act->box.h0 && y < act->box.h1;
            if (in->by_element[y])
                in->to = out->tensor;
        }
    }
    for (int32_t y = act->box.h0; out && y < act->box.h1 && y < out->rows; y++)
        if (out->written[y] < 0)
            out->written[y] = act->time;
}

/* How far above the output the input must lie; `over`: rows that are read last by the operator that writes
 * them at the same address may lie there. Meant for distance 0. */
static int64_t distance_of(const struct track *in, const struct track *out, bool over)
{
    int64_t most = 0;
    int32_t y = 0; /* rows are written in their order, so it never falls */
    const int64_t *last = in->read;
    for (int32_t r = 0; r < out->rows; r++) {
        if (out->written[r] < 0)
            continue;
        for (; y < in->rows; y++) {
            bool same = over && y == r && in->by_element[y] && in->to == out->tensor;
            if (last[y] > out->written[r] || (last[y] == out->written[r] && !same))
                break;
        }
        /* row y is the first that is still needed when row r is written */
        int64_t need = (r + 1) * out->row_bytes - y * in->row_bytes;
        if (y < in->rows && need > most)
            most = need;
    }
    return most;
}

/* The output may lie over the input wherever its rows come behind what is read of it. */
static void allow(struct tracks *t)
{
    for (int32_t i = 0; i < t->n; i++)
        for (int32_t o = 0; o < t->n; o++) {
            const struct track *in = &t->items[i], *out = &t->items[o];
            if (!in->dies || !out->made)
                continue;
            int64_t distance = distance_of(in, out, false);
            bool level = in->row_bytes == out->row_bytes && distance_of(in, out, true) == 0;
            if (level || distance < out->rows * out->row_bytes)
                lower_allow(t->l, (struct pack_pair){out->buffer, in->buffer, distance, level});
        }
}

static bool add_track(struct tracks *t, int32_t tensor, bool dies, bool made)
{
    struct shape shape = t->l->graph->tensors[tensor].shape;
    struct track *track = &t->items[t->n];
    size_t n = (size_t)shape.h;
    *track = (struct track){.tensor = tensor,
                            .buffer = t->l->home[tensor],
                            .row_bytes = (int64_t)shape.w * shape.c,
                            .rows = shape.h,
                            .to = LOWER_NONE,
                            .dies = dies,
                            .made = made};
    track->read = malloc(n * sizeof *track->read);
    track->written = malloc(n * sizeof *track->written);
    track->by_element = calloc(n, sizeof *track->by_element);
    t->n++;
    if (!track->read || !track->written || !track->by_element)
        return false;
    memset(track->read, 0xff, n * sizeof *track->read);
    memset(track->written, 0xff, n * sizeof *track->written);
    return true;
}

bool lower_alone(const struct net *net, int32_t tensor)
{
    return net->tensors[tensor].alone || net->tensors[tensor].storage != tensor;
}

static bool received(const struct lowered *out, int32_t tensor, int32_t before)
{
    for (int32_t pc = 0; pc < before; pc++)
        if (out->code[pc].op == FRAGMENT_RECV && out->code[pc].tensor == tensor)
            return true;
    return false;
}

static bool collect(struct tracks *t, int32_t from)
{
    const struct lower *l = t->l;
    int32_t touched[NET_TOUCHED_MAX], n = net_touched(l->net, l->done, l->after, touched);
    for (int32_t k = 0; k < n; k++) {
        int32_t tensor = touched[k];
        if (l->net->tensors[tensor].storage != tensor || l->home[tensor] < 0)
            continue;
        bool before =
                 net_is_live(l->net, l->done, tensor, l->options->streamed) || received(l->out, tensor, from),
             after = net_is_live(l->net, l->after, tensor, false);
        bool dies = before && net_dies(l->net, l->after, tensor) && lower_alone(l->net, tensor);
        bool made = !before && after && l->out->buffers[l->home[tensor]].group == 0;
        if ((dies || made) && !add_track(t, tensor, dies, made))
            return false;
    }
    return true;
}

void lower_overlap(struct lower *l, int32_t from)
{
    if (l->failed || l->refused)
        return;
    struct tracks t = {.l = l, .items = calloc((size_t)l->net->n_used + 1, sizeof *t.items)};
    if (t.items && collect(&t, from)) {
        lowered_walk(l->out, from, note, &t);
        allow(&t);
    } else {
        l->failed = true;
    }
    for (int32_t i = 0; i < t.n; i++) {
        free(t.items[i].read);
        free(t.items[i].written);
        free(t.items[i].by_element);
    }
    free(t.items);
}

/* ---- lifetimes ---- */

struct nest {
    int32_t *around; /* of each instruction: the LOOP around it, -1 */
    int32_t *end;    /* of each LOOP: its END */
};

static bool find_nest(const struct lowered *out, struct nest *nest)
{
    int32_t stack[FRAGMENT_LOOPS_MAX], depth = 0;
    nest->around = malloc(((size_t)out->n_code + 1) * sizeof *nest->around);
    nest->end = malloc(((size_t)out->n_code + 1) * sizeof *nest->end);
    if (!nest->around || !nest->end)
        return false;
    for (int32_t pc = 0; pc < out->n_code; pc++) {
        if (out->code[pc].op == FRAGMENT_END)
            nest->end[stack[--depth]] = pc;
        nest->around[pc] = depth ? stack[depth - 1] : LOWER_NONE;
        nest->end[pc] = pc;
        if (out->code[pc].op == FRAGMENT_LOOP)
            stack[depth++] = pc;
    }
    return true;
}

static void use(const struct lowered *out, const struct nest *nest, int32_t view, int32_t pc)
{
    if (view < 0 || out->views[view].buffer < 0)
        return;
    struct lower_buffer *buffer = &out->buffers[out->views[view].buffer];
    int32_t from = pc;
    for (int32_t loop = nest->around[pc]; loop >= 0 && loop != buffer->scope; loop = nest->around[loop])
        from = loop;
    int32_t to = nest->end[from];
    if (buffer->first < 0 || from < buffer->first)
        buffer->first = from;
    if (to > buffer->last)
        buffer->last = to;
}

static bool set_lives(struct lowered *out)
{
    struct nest nest = {0};
    bool good = find_nest(out, &nest);
    for (int32_t pc = 0; good && pc < out->n_code; pc++) {
        use(out, &nest, out->code[pc].in[0], pc);
        use(out, &nest, out->code[pc].in[1], pc);
        use(out, &nest, out->code[pc].out, pc);
        use(out, &nest, out->code[pc].scratch, pc);
    }
    /* what is sent stays until the program ends: the sending goes on behind the instruction */
    for (int32_t pc = 0; good && pc < out->n_code; pc++)
        if (out->code[pc].op == FRAGMENT_SEND)
            out->buffers[out->views[out->code[pc].in[0]].buffer].last = out->n_code;
    free(nest.around);
    free(nest.end);
    return good;
}

/* ---- offsets ---- */

enum { PACK_MOVES = 20000, PACK_WORK = 1 << 17, PACK_THOROUGH = 16, ARENA_ALIGN = 16 };

static int64_t rounded(int64_t bytes, int64_t align)
{
    return (bytes + align - 1) / align * align;
}

int64_t lower_arena(int64_t bytes)
{
    return rounded(bytes, ARENA_ALIGN);
}

static int64_t scratch_at(const struct lowered *out, int32_t pc)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < out->n_buffers; i++)
        if (out->buffers[i].scratch && out->buffers[i].first <= pc && pc <= out->buffers[i].last)
            sum += out->buffers[i].bytes;
    return sum;
}

static int64_t most_scratch(const struct lowered *out)
{
    int64_t most = 0;
    for (int32_t i = 0; i < out->n_buffers; i++) {
        int64_t scratch = out->buffers[i].first < 0 ? 0 : scratch_at(out, out->buffers[i].first);
        most = scratch > most ? scratch : most;
    }
    return most;
}

/* Sums and scratch lie on words; tensors at any byte where that is `tight`. */
static void set_aligns(struct lowered *out, bool tight)
{
    for (int32_t i = 0; i < out->n_buffers; i++)
        if (!out->buffers[i].scratch)
            out->buffers[i].align = tight ? 1 : LOWER_ALIGN;
    for (int32_t v = 0; v < out->n_views; v++)
        if (out->views[v].buffer >= 0 && out->views[v].view.elem > 1 &&
            !out->buffers[out->views[v].buffer].scratch)
            out->buffers[out->views[v].buffer].align = LOWER_ALIGN;
}

/* Items and pairs of a packing; `item` of each buffer, -1: never used. */
struct packing {
    struct pack_item *items;
    struct pack_pair *pairs;
    int32_t *item;
};

static bool pack(struct lower *l, struct packing *p, bool tight)
{
    struct lowered *out = l->out;
    struct pack_problem problem = {.items = p->items, .pairs = p->pairs};
    set_aligns(out, tight);
    for (int32_t i = 0; i < out->n_buffers; i++) {
        const struct lower_buffer *b = &out->buffers[i];
        p->item[i] = b->first >= 0 ? problem.n_items++ : LOWER_NONE;
        if (b->first >= 0)
            p->items[p->item[i]] = (struct pack_item){.bytes = rounded(b->bytes, b->align),
                                                      .first = b->first,
                                                      .last = b->last,
                                                      .align = b->align,
                                                      .group = b->group,
                                                      .distance = b->distance};
    }
    for (int32_t k = 0; k < l->n_pairs; k++) {
        struct pack_pair pair = l->pairs[k];
        pair.below = p->item[pair.below];
        pair.above = p->item[pair.above];
        if (pair.below >= 0 && pair.above >= 0)
            p->pairs[problem.n_pairs++] = pair;
    }
    problem.moves = problem.n_items ? PACK_MOVES / problem.n_items : 0;
    problem.work = PACK_WORK * (l->thorough ? PACK_THOROUGH : 1);
    problem.wish = lower_arena(out->peak_bytes);
    problem.enough = lower_arena(out->peak_bytes + out->scratch_bytes);
    int64_t total;
    if (schedule_pack(&problem, &total) < 0)
        return false;
    if (tight && lower_arena(total) >= out->arena_bytes)
        return true;
    out->arena_bytes = lower_arena(total);
    for (int32_t i = 0; i < out->n_buffers; i++)
        if (p->item[i] >= 0)
            out->buffers[i].offset = p->items[p->item[i]].offset;
    return true;
}

bool lower_place(struct lower *l)
{
    struct lowered *out = l->out;
    if (l->failed || !set_lives(out))
        return false;
    size_t n = (size_t)out->n_buffers + 1;
    struct packing p = {calloc(n, sizeof *p.items), calloc((size_t)l->n_pairs + 1, sizeof *p.pairs),
                        calloc(n, sizeof *p.item)};
    out->scratch_bytes = most_scratch(out);
    bool good = p.items && p.pairs && p.item && pack(l, &p, false);
    if (good && out->arena_bytes > lower_arena(out->peak_bytes + out->scratch_bytes))
        good = pack(l, &p, true);
    free(p.items);
    free(p.pairs);
    free(p.item);
    return good;
}
