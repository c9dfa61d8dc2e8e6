/*
 * From the graph to the scheduler's net: the operators that boards run, their inputs without constants, which
 * of those a part of the channels needs in part only, and which memory is shared through views. All of it
 * comes from the operator table's rows.
 */
#include "server/schedule/areas.h"

#include "server/model/tall.h"

#include <string.h>

static bool reads_already(const struct net_op *op, int32_t tensor)
{
    for (int32_t i = 0; i < op->n_in; i++)
        if (op->in[i] == tensor)
            return true;
    return false;
}

/* Whether the first channel of the output needs only a proportional part of input i's channels. */
static bool is_sliced(const struct graph *graph, const struct op *op, int32_t i)
{
    struct shape in = graph->tensors[op->inputs[i]].shape, out = graph->tensors[op->output].shape;
    if (in.c < 2 || out.c % in.c)
        return false;
    struct box box = box_whole(out);
    box.c1 = out.c / in.c;
    struct box need = op_row(op->kind)->need(graph, op, i, box);
    return need.c0 == 0 && need.c1 == 1;
}

/* `given`: the graph as it is, by which an operator goes that stays. */
static void add_op(struct net *net, const struct graph *given, int32_t index)
{
    struct net_op *to = &net->ops[net->n_ops];
    to->tall = net->graph != given && tall_turns(given, &given->ops[index]);
    to->stays = net->graph != given && tall_stays(given, &given->ops[index]);
    const struct graph *graph = to->stays ? given : net->graph;
    const struct op *op = &graph->ops[index];
    const struct op_row *row = op_row(op->kind);
    to->graph_op = index;
    to->out = op->output;
    to->class = row->class;
    to->channels = row->class == OP_CLASS_CHANNELWISE && (row->axes(graph, op) & OP_AXIS_C);
    to->inplace = row->inplace;
    to->view = row->kernel == OP_KERNEL_FREE;
    to->rows = !to->stays && (row->axes(graph, op) & OP_AXIS_H) != 0;
    to->row_sums =
        !to->rows && !to->stays && row->kernel == OP_KERNEL_SUM && graph->tensors[op->output].shape.h == 1;
    to->macs = row->macs(graph, op, box_whole(graph->tensors[op->output].shape));
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t tensor = op->inputs[i];
        if (graph->tensors[tensor].data || reads_already(to, tensor))
            continue;
        to->sliced[to->n_in] = is_sliced(graph, op, i);
        to->in[to->n_in++] = tensor;
        net->tensors[tensor].used = true;
        net->tensors[tensor].n_readers++;
    }
    net->tensors[op->output].used = true;
    net->tensors[op->output].producer = net->n_ops++;
}

static bool is_corner(const struct net_op *op, int32_t i, int32_t r, int32_t h)
{
    const int32_t *need0 = op->need0[i], *need1 = op->need1[i];
    if (need1[r] <= need0[r])
        return false;
    return r == 0 || r == h - 1 || need1[r - 1] <= need0[r - 1] || need1[r + 1] <= need0[r + 1] ||
           need1[r + 1] - need1[r] != need1[r] - need1[r - 1] ||
           need0[r + 1] - need0[r] != need0[r] - need0[r - 1];
}

bool net_corners(struct net *net, struct net_op *op, int32_t i, int32_t h)
{
    int32_t n = 0;
    op->n_corners[i] = 0;
    for (int32_t r = 0; r < h; r++)
        n += is_corner(op, i, r, h);
    op->corners[i] = arena_alloc(net->arena, (size_t)n + 1, sizeof *op->corners[i]);
    for (int32_t r = 0; r < h && op->corners[i]; r++)
        if (is_corner(op, i, r, h))
            op->corners[i][op->n_corners[i]++] = r;
    return op->corners[i] != NULL;
}

/* Rows of each input that a row of the output needs. */
static bool add_needs(struct net *net, struct net_op *op)
{
    const struct op *it = &net->graph->ops[op->graph_op];
    struct shape out = net->graph->tensors[op->out].shape;
    for (int32_t i = 0; i < op->n_in && (op->rows || op->row_sums); i++) {
        op->need0[i] = arena_alloc(net->arena, (size_t)out.h, sizeof *op->need0[i]);
        op->need1[i] = arena_alloc(net->arena, (size_t)out.h, sizeof *op->need1[i]);
        if (!op->need0[i] || !op->need1[i])
            return false;
        for (int32_t r = 0; r < out.h; r++) {
            struct box box = {r, r + 1, 0, out.w, 0, out.c}, need = {0};
            for (int32_t j = 0; j < it->n_inputs; j++) /* it may read a tensor more than once */
                if (it->inputs[j] == op->in[i])
                    need = box_hull(need, op_row(it->kind)->need(net->graph, it, j, box));
            op->need0[i][r] = need.h0;
            op->need1[i][r] = need.h1;
        }
        if (!net_corners(net, op, i, out.h))
            return false;
    }
    return true;
}

static void set_alone(struct net *net)
{
    for (int32_t k = 0; k < net->n_used; k++)
        net->tensors[net->tensors[net->used[k]].storage].alone = true;
    for (int32_t k = 0; k < net->n_used; k++) {
        struct net_tensor *tensor = &net->tensors[net->used[k]];
        if (tensor->storage != net->used[k])
            tensor->alone = net->tensors[tensor->storage].alone = false;
    }
    net->memory->known = false;
}

/* How tiles of the output need tiles of the inputs. */
static bool add_steps(struct net *net, struct net_op *op)
{
    const struct op *it = &net->graph->ops[op->graph_op];
    uint32_t axes = op_row(it->kind)->axes(net->graph, it);
    if (op->view || op->stays || !(axes & OP_AXIS_H) || !(axes & OP_AXIS_W))
        return true;
    for (int axis = 0; axis < 2; axis++) {
        op->steps[axis] = arena_alloc(net->arena, (size_t)it->n_inputs, sizeof *op->steps[axis]);
        for (int32_t i = 0; op->steps[axis] && i < it->n_inputs; i++)
            (void)area_step(net->graph, it, i, axis, &op->steps[axis][i]);
        if (!op->steps[axis])
            return false;
    }
    return true;
}

static bool join_readers(struct net *net)
{
    for (int32_t t = 0; t < net->n_tensors; t++) {
        struct net_tensor *tensor = &net->tensors[t];
        if (!tensor->used)
            continue;
        net->used[net->n_used++] = t;
        tensor->readers = arena_alloc(net->arena, (size_t)tensor->n_readers + 1, sizeof *tensor->readers);
        if (!tensor->readers)
            return false;
        tensor->n_readers = 0;
        tensor->input = tensor->producer < 0;
    }
    for (int32_t o = 0; o < net->n_ops; o++) {
        struct net_op *op = &net->ops[o];
        if (!add_needs(net, op) || !add_steps(net, op))
            return false;
        for (int32_t i = 0; i < op->n_in; i++) {
            struct net_tensor *tensor = &net->tensors[op->in[i]];
            tensor->readers[tensor->n_readers++] = o;
        }
        if (op->view)
            net->tensors[op->out].storage = net->tensors[op->in[0]].storage;
    }
    return true;
}

static void mark_outputs(struct net *net)
{
    const struct graph *graph = net->graph;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        net->tensors[graph->outputs[i]].output = true;
    for (int32_t o = 0; o < graph->n_ops; o++)
        for (int32_t i = 0; i < graph->ops[o].n_inputs && graph->ops[o].place == OP_PLACE_TAIL; i++)
            net->tensors[graph->ops[o].inputs[i]].output = true;
}

struct net *schedule_net(const struct graph *given, bool tall)
{
    struct arena *arena = arena_new((size_t)512 << 20);
    struct net *net = arena ? arena_alloc(arena, 1, sizeof *net) : NULL;
    if (!net) {
        arena_free(arena);
        return NULL;
    }
    const struct graph *graph = tall ? tall_graph(given, arena) : given;
    if (!graph) {
        arena_free(arena);
        return NULL;
    }
    net->arena = arena;
    net->graph = graph;
    net->n_tensors = graph->n_tensors;
    net->ops = arena_alloc(arena, (size_t)graph->n_ops + 1, sizeof *net->ops);
    net->tensors = arena_alloc(arena, (size_t)graph->n_tensors + 1, sizeof *net->tensors);
    net->used = arena_alloc(arena, (size_t)graph->n_tensors + 1, sizeof *net->used);
    net->memory = arena_alloc(arena, 1, sizeof *net->memory);
    if (!net->ops || !net->tensors || !net->used || !net->memory) {
        schedule_net_free(net);
        return NULL;
    }
    for (int32_t t = 0; t < graph->n_tensors; t++)
        net->tensors[t] = (struct net_tensor){.bytes = shape_elements(graph->tensors[t].shape),
                                              .shape = graph->tensors[t].shape,
                                              .storage = t,
                                              .producer = -1};
    for (int32_t o = 0; o < graph->n_ops; o++)
        if (graph->ops[o].place == OP_PLACE_BODY)
            add_op(net, given, o);
    mark_outputs(net);
    if (!join_readers(net)) {
        schedule_net_free(net);
        return NULL;
    }
    set_alone(net);
    return net;
}

void schedule_net_free(struct net *net)
{
    if (net)
        arena_free(net->arena);
}

bool net_awaited(const struct net *net, const done_word *done, int32_t tensor, bool streamed)
{
    return streamed && net->tensors[tensor].input && !net_is_live(net, done, tensor, true) &&
           net_is_live(net, done, tensor, false);
}

bool net_available(const struct net *net, const done_word *done, int32_t tensor)
{
    int32_t producer = net->tensors[tensor].producer;
    return producer < 0 || done_has(done, producer);
}

bool net_ready(const struct net *net, const done_word *done, int32_t op)
{
    if (done_has(done, op))
        return false;
    for (int32_t i = 0; i < net->ops[op].n_in; i++)
        if (!net_available(net, done, net->ops[op].in[i]))
            return false;
    return true;
}

bool net_is_live(const struct net *net, const done_word *done, int32_t t, bool streamed)
{
    const struct net_tensor *tensor = &net->tensors[t];
    if (!net_available(net, done, t))
        return false;
    if (tensor->output)
        return true;
    int32_t waiting = 0;
    for (int32_t i = 0; i < tensor->n_readers; i++)
        waiting += !done_has(done, tensor->readers[i]);
    return waiting > 0 && !(streamed && tensor->input && waiting == tensor->n_readers);
}

static int64_t count_live(const struct net *net, const done_word *done, bool streamed)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < net->n_used; k++) {
        int32_t t = net->used[k], storage = net->tensors[t].storage;
        if (!net_is_live(net, done, t, streamed))
            continue;
        bool counted = false; /* another view of the same memory came first */
        for (int32_t j = 0; j < k && !counted && !net->tensors[t].alone; j++)
            counted = net->tensors[net->used[j]].storage == storage &&
                      net_is_live(net, done, net->used[j], streamed);
        if (!counted && !net->tensors[storage].outside)
            sum += net->tensors[storage].bytes;
    }
    return sum;
}

int64_t net_live(const struct net *net, const done_word *done, bool streamed)
{
    struct net_memory *memory = net->memory;
    size_t bytes = (size_t)done_words(net) * sizeof *done;
    if (memory->known && memory->streamed == streamed && memcmp(memory->done, done, bytes) == 0)
        return memory->bytes;
    memory->bytes = count_live(net, done, streamed);
    memory->streamed = streamed;
    memory->known = true;
    memcpy(memory->done, done, bytes);
    return memory->bytes;
}

int64_t net_new_bytes(const struct net *net, const done_word *done, int32_t tensor)
{
    int32_t storage = net->tensors[tensor].storage;
    for (int32_t k = 0; k < net->n_used && net->tensors[tensor].joined; k++)
        if (net->tensors[net->used[k]].storage == storage && net_is_live(net, done, net->used[k], false))
            return 0;
    return net->tensors[storage].outside ? 0 : net->tensors[storage].bytes;
}

/* The only name of memory of its own, made by an operator that writes it once. */
static bool may_be_part(const struct net *net, int32_t tensor, struct quant quant)
{
    const struct net_tensor *it = &net->tensors[tensor];
    const struct tensor *full = &net->graph->tensors[tensor];
    if (full->data || it->producer < 0 || it->output || it->joined || it->storage != tensor ||
        full->quant.scale != quant.scale || full->quant.zero_point != quant.zero_point)
        return false;
    for (int32_t k = 0; k < net->n_used; k++)
        if (net->used[k] != tensor && net->tensors[net->used[k]].storage == tensor)
            return false;
    const struct net_op *op = &net->ops[it->producer];
    return !op->view && op_row(net->graph->ops[op->graph_op].kind)->kernel != OP_KERNEL_SUM;
}

bool net_may_join(const struct net *net, int32_t op)
{
    const struct net_op *it = &net->ops[op];
    const struct op *full = &net->graph->ops[it->graph_op];
    const struct net_tensor *out = &net->tensors[it->out];
    if (op_row(full->kind)->kernel != OP_KERNEL_COPY || full->n_inputs < 2 ||
        full->axis == 1 || /* no view says it */
        it->n_in != full->n_inputs || out->storage != it->out || it->view || it->stays ||
        (it->tall && full->axis == 0)) /* of columns, as it is */
        return false;
    for (int32_t i = 0; i < it->n_in; i++)
        if (!may_be_part(net, it->in[i], net->graph->tensors[it->out].quant))
            return false;
    return true;
}

void net_join(struct net *net, int32_t op)
{
    struct net_op *it = &net->ops[op];
    const struct op *full = &net->graph->ops[it->graph_op];
    int32_t at = 0;
    it->view = true;
    it->channels = it->rows = it->row_sums = it->inplace = false;
    it->class = OP_CLASS_NEITHER;
    for (int32_t i = 0; i < it->n_in; i++) {
        struct net_tensor *in = &net->tensors[it->in[i]];
        in->joined = true;
        in->storage = it->out;
        in->at = at;
        at += full->axis == 2 ? in->shape.c : in->shape.h * in->shape.w * in->shape.c;
        net->ops[in->producer].inplace = false; /* of other strides */
        for (int32_t r = 0; r < in->n_readers; r++)
            net->ops[in->readers[r]].inplace = false;
    }
    set_alone(net);
}

bool net_dies(const struct net *net, const done_word *after, int32_t tensor)
{
    int32_t storage = net->tensors[tensor].storage;
    if (net->tensors[tensor].alone)
        return !net_is_live(net, after, tensor, false);
    for (int32_t k = 0; k < net->n_used; k++)
        if (net->tensors[net->used[k]].storage == storage && net_is_live(net, after, net->used[k], false))
            return false;
    return true;
}

static int32_t add_sorted(int32_t *tensors, int32_t n, int32_t tensor)
{
    int32_t at = n;
    while (at > 0 && tensors[at - 1] > tensor)
        at--;
    if (at > 0 && tensors[at - 1] == tensor)
        return n;
    memmove(&tensors[at + 1], &tensors[at], (size_t)(n - at) * sizeof *tensors);
    tensors[at] = tensor;
    return n + 1;
}

int32_t net_touched(const struct net *net, const done_word *done, const done_word *after, int32_t *tensors)
{
    int32_t n = 0;
    for (int32_t w = 0; w < done_words(net); w++)
        for (done_word more = after[w] & ~done[w]; more; more &= more - 1) {
            const struct net_op *op = &net->ops[64 * w + __builtin_ctzll(more)];
            n = add_sorted(tensors, n, op->out);
            for (int32_t i = 0; i < op->n_in; i++)
                n = add_sorted(tensors, n, op->in[i]);
        }
    return n;
}

int32_t net_op_of(const struct net *net, int32_t graph_op)
{
    int32_t low = 0, high = net->n_ops;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (net->ops[middle].graph_op < graph_op)
            low = middle + 1;
        else
            high = middle;
    }
    return low < net->n_ops && net->ops[low].graph_op == graph_op ? low : net->n_ops;
}
