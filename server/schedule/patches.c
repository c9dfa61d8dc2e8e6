/*
 * Segments patch by patch: the last operator's output is made in tiles, each from the boxes of everything
 * before it that it needs, so that what tiles share is computed again. Within a patch the operators run
 * whole, in loops over channels or row by row, on tensors of the largest box. Rows of an input that dies are
 * freed once no later band of tiles needs them, and the output grows into that space. Bands and columns are
 * independent, since needed boxes are.
 */
#include "server/schedule/areas.h"
#include "server/schedule/memo.h"

#include <stdlib.h>
#include <string.h>

enum { GRIDS = 12 };

static const int32_t grids[GRIDS] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 28};

/* One axis: for each operator of the segment the most rows (columns) a tile needs of its output, and their
 * sum. */
struct axis {
    int32_t most[PATCH_OPS_MAX];
    int64_t sum[PATCH_OPS_MAX];
    int32_t tile;
};

struct patches {
    const struct net *net;
    const done_word *done;
    const struct schedule_options *options;
    done_word after[SCHEDULE_OPS_MAX / 64 + 1];
    int32_t ops[PATCH_OPS_MAX], n;
    int64_t bound, budget;
};

static int32_t place_of(const struct patches *p, int32_t op)
{
    for (int32_t k = 0; k < p->n; k++)
        if (p->ops[k] == op)
            return k;
    return -1;
}

static struct box whole_of(const struct patches *p, int32_t tensor)
{
    return box_whole(p->net->tensors[tensor].shape);
}

/* Boxes of all outputs for a box of the last one; boxes[k] belongs to ops[k]. `input`: hull of what is needed
 * of that tensor. */
static struct box boxes_for(const struct patches *p, struct box last, struct box *boxes, int32_t input)
{
    struct box of_input = {0};
    memset(boxes, 0, PATCH_OPS_MAX * sizeof *boxes);
    boxes[p->n - 1] = last;
    for (int32_t k = p->n - 1; k >= 0; k--) {
        const struct net_op *op = &p->net->ops[p->ops[k]];
        const struct op *it = &p->net->graph->ops[op->graph_op];
        for (int32_t i = 0; i < it->n_inputs; i++) {
            int32_t tensor = it->inputs[i], producer = p->net->tensors[tensor].producer;
            int32_t from = producer < 0 ? -1 : place_of(p, producer);
            struct box need = op_row(it->kind)->need(p->net->graph, it, i, boxes[k]);
            if (from >= 0)
                boxes[from] = box_hull(boxes[from], need);
            else if (tensor == input)
                of_input = box_hull(of_input, need);
        }
    }
    return of_input;
}

static void set_axis(const struct patches *p, bool rows, int32_t tile, struct axis *axis)
{
    struct box whole = whole_of(p, p->net->ops[p->ops[p->n - 1]].out), boxes[PATCH_OPS_MAX];
    int32_t end = rows ? whole.h1 : whole.w1;
    *axis = (struct axis){.tile = tile};
    for (int32_t at = 0; at < end; at += tile) {
        struct box last = whole;
        int32_t to = at + tile < end ? at + tile : end;
        if (rows)
            last.h0 = at, last.h1 = to;
        else
            last.w0 = at, last.w1 = to;
        boxes_for(p, last, boxes, -1);
        for (int32_t k = 0; k < p->n; k++) {
            int32_t size = rows ? boxes[k].h1 - boxes[k].h0 : boxes[k].w1 - boxes[k].w0;
            axis->most[k] = size > axis->most[k] ? size : axis->most[k];
            axis->sum[k] += size;
        }
    }
}

static int64_t extra_macs(const struct patches *p, const struct axis *h, const struct axis *w)
{
    int64_t extra = 0;
    for (int32_t k = 0; k < p->n; k++) {
        const struct net_op *op = &p->net->ops[p->ops[k]];
        struct shape shape = p->net->tensors[op->out].shape;
        extra += op->macs / ((int64_t)shape.h * shape.w) * h->sum[k] * w->sum[k] - op->macs;
    }
    return extra;
}

/* How far the output grows into the place of a dying input, which frees rows that no later band needs: bytes
 * that the two take less than apart. */
static int64_t grown_bytes(const struct patches *p, int32_t tile, int32_t tensor)
{
    const struct net_tensor *in = &p->net->tensors[tensor],
                            *out = &p->net->tensors[p->net->ops[p->ops[p->n - 1]].out];
    int64_t in_row = in->bytes / in->shape.h, out_row = out->bytes / out->shape.h, apart = 0;
    struct box last = box_whole(out->shape), boxes[PATCH_OPS_MAX];
    int32_t first = in->shape.h; /* row that this or a later band needs */
    for (int32_t at = (out->shape.h - 1) / tile * tile; at >= 0; at -= tile) {
        last.h0 = at;
        last.h1 = at + tile < out->shape.h ? at + tile : out->shape.h;
        struct box need = boxes_for(p, last, boxes, tensor);
        first = !box_empty(need) && need.h0 < first ? need.h0 : first;
        int64_t more = first < in->shape.h ? out_row * last.h1 - in_row * first : 0;
        apart = more > apart ? more : apart;
    }
    int64_t both = in->bytes + apart > out->bytes ? in->bytes + apart : out->bytes;
    return in->bytes + out->bytes - both;
}

static bool is_read(const struct patches *p, int32_t tensor)
{
    for (int32_t k = 0; k < p->n; k++)
        for (int32_t i = 0; i < p->net->ops[p->ops[k]].n_in; i++)
            if (p->net->ops[p->ops[k]].in[i] == tensor)
                return true;
    return false;
}

/* Before the first patch: also inputs that arrive then. */
static bool is_there(const struct patches *p, int32_t tensor)
{
    bool streamed = p->options->streamed;
    return net_is_live(p->net, p->done, tensor, streamed) ||
           (net_awaited(p->net, p->done, tensor, streamed) && is_read(p, tensor));
}

static int64_t awaited_bytes(const struct patches *p)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < p->net->n_used && p->options->streamed; k++) {
        int32_t t = p->net->used[k];
        sum += net_awaited(p->net, p->done, t, true) && is_read(p, t) ? p->net->tensors[t].bytes : 0;
    }
    return sum;
}

/* What is live and the output take while patches are made: the output grows into the place of one input,
 * since offsets can hold no more. */
static int64_t held_bytes(const struct patches *p, int32_t tile)
{
    const struct net *net = p->net;
    int32_t out = net->ops[p->ops[p->n - 1]].out;
    int64_t gain = 0;
    for (int32_t k = 0; k < net->n_used && !net->tensors[out].joined; k++) {
        int32_t t = net->used[k];
        if (!is_there(p, t) || !net_dies(net, p->after, t) || net->tensors[t].storage != t)
            continue;
        bool alone = true;
        for (int32_t j = 0; j < net->n_used && alone; j++)
            alone = net->used[j] == t || net->tensors[net->used[j]].storage != t;
        int64_t grown = alone ? grown_bytes(p, tile, t) : 0;
        gain = grown > gain ? grown : gain;
    }
    return net_live(net, p->done, p->options->streamed) + awaited_bytes(p) +
           net_new_bytes(net, p->done, out) - gain;
}

/* A net of the largest boxes within a patch, whose inputs lie outside and count nothing. */
struct inner {
    struct net net;
    struct net_memory memory;
    struct net_op ops[PATCH_OPS_MAX];
    int32_t readers[PATCH_OPS_MAX][PATCH_OPS_MAX], used[PATCH_OPS_MAX * (GRAPH_OP_INPUTS_MAX + 1)];
    struct arena *arena; /* of the needs, NULL: none */
};

static void inner_free(struct inner *inner)
{
    free(inner->net.tensors);
    arena_free(inner->arena);
}

static bool same_area(struct area a, struct area b)
{
    return a.a == b.a && a.b0 == b.b0 && a.b1 == b.b1;
}

/* Rows that each row of operator k's area needs of its input i, counted from that input's first. False:
 * another rule, or no memory. */
static bool set_needs(struct inner *inner, const struct area *areas, int32_t k, int32_t i)
{
    struct net_op *op = &inner->ops[k];
    const struct graph *graph = inner->net.graph;
    const struct op *it = &graph->ops[op->graph_op];
    int32_t from = inner->net.tensors[op->in[i]].producer, h = areas[k].b1 - areas[k].b0;
    struct area_step step;
    struct area need;
    op->need0[i] = arena_alloc(inner->arena, (size_t)h, sizeof *op->need0[i]);
    op->need1[i] = arena_alloc(inner->arena, (size_t)h, sizeof *op->need1[i]);
    if (!op->need0[i] || !op->need1[i])
        return false;
    for (int32_t j = 0; j < it->n_inputs; j++) {
        if (it->inputs[j] != op->in[i])
            continue;
        if (!area_step_of(op, j, 0, &step))
            return false;
        for (int32_t r = 0; r < h; r++) {
            struct area row = {areas[k].a, areas[k].b0 + r, areas[k].b0 + r + 1};
            if (!area_back(&step, row, &need))
                return false;
            int32_t lo = need.b0 - areas[from].b0, hi = need.b1 - areas[from].b0;
            bool first = op->need1[i][r] == 0; /* rows are needed at least up to the first */
            op->need0[i][r] = first || lo < op->need0[i][r] ? lo : op->need0[i][r];
            op->need1[i][r] = hi > op->need1[i][r] ? hi : op->need1[i][r];
        }
    }
    return net_corners(&inner->net, op, i, h);
}

/* Makes it a net that can also be cut over rows; `h`, `w`: areas. False: it can not. */
static bool inner_rows(struct inner *inner, int32_t n, const struct area *h, const struct area *w,
                       const int32_t *most_w)
{
    inner->net.patch = true;
    inner->net.arena = inner->arena = arena_new((size_t)64 << 20);
    for (int32_t k = 0; k < n; k++) {
        struct net_op *op = &inner->ops[k];
        const struct op *it = &inner->net.graph->ops[op->graph_op];
        if (op_row(it->kind)->kernel == OP_KERNEL_COPY && it->n_inputs > 1 && it->axis == 0)
            op->rows = false; /* a range in a range cannot be cut once more */
        inner->net.tensors[op->out].shape.h = h[k].b1 - h[k].b0;
        inner->net.tensors[op->out].shape.w = most_w[k];
    }
    for (int32_t k = 0; k < n && inner->arena; k++)
        for (int32_t i = 0; i < inner->ops[k].n_in; i++) {
            int32_t from = inner->net.tensors[inner->ops[k].in[i]].producer;
            if (from < 0)
                continue;
            inner->ops[k].apart[i] = !same_area(h[k], h[from]) || !same_area(w[k], w[from]);
            if (!set_needs(inner, h, k, i))
                return false;
        }
    return inner->arena != NULL;
}

static void add_outside(struct inner *inner, int32_t tensor)
{
    struct net_tensor *in = &inner->net.tensors[tensor];
    for (int32_t j = 0; j < inner->net.n_used; j++)
        if (inner->used[j] == tensor)
            return;
    in->bytes = 0;
    in->storage = tensor;
    in->alone = true;
    in->joined = false;
    in->producer = -1;
    in->n_readers = 0;
    in->input = true;
    in->used = in->output = false;
    inner->used[inner->net.n_used++] = tensor;
}

static void add_inside(struct inner *inner, int32_t k, int32_t h, int32_t w, bool last)
{
    struct net_tensor *out = &inner->net.tensors[inner->ops[k].out];
    out->bytes = (int64_t)h * w * out->shape.c;
    out->output = out->outside = last;
    out->storage = inner->ops[k].out;
    out->alone = true;
    out->joined = false;
    out->producer = k;
    out->readers = inner->readers[k];
    out->n_readers = 0;
    inner->used[inner->net.n_used++] = inner->ops[k].out;
}

/* False without memory; tensors are freed with free(). */
static bool inner_net(const struct patches *p, const int32_t *h, const int32_t *w, struct inner *inner)
{
    inner->arena = NULL;
    inner->net = *p->net;
    inner->net.memory = &inner->memory;
    inner->memory.known = false;
    inner->net.tensors = malloc((size_t)p->net->n_tensors * sizeof *inner->net.tensors);
    if (!inner->net.tensors)
        return false;
    memcpy(inner->net.tensors, p->net->tensors, (size_t)p->net->n_tensors * sizeof *inner->net.tensors);
    inner->net.ops = inner->ops;
    inner->net.n_ops = p->n;
    inner->net.used = inner->used;
    inner->net.n_used = 0;
    for (int32_t k = 0; k < p->n; k++) {
        inner->ops[k] = p->net->ops[p->ops[k]];
        for (int32_t i = 0; i < inner->ops[k].n_in; i++) {
            int32_t producer = p->net->tensors[inner->ops[k].in[i]].producer;
            if (producer < 0 || place_of(p, producer) < 0)
                add_outside(inner, inner->ops[k].in[i]);
        }
        add_inside(inner, k, h[k], w[k], k == p->n - 1);
    }
    for (int32_t j = 0; j < p->n; j++)
        for (int32_t i = 0; i < inner->ops[j].n_in; i++) {
            struct net_tensor *in = &inner->net.tensors[inner->ops[j].in[i]];
            if (in->producer >= 0)
                in->readers[in->n_readers++] = j;
        }
    return true;
}

/* A grid and what is known of it. */
struct grid {
    struct axis h, w;
    struct area rows[PATCH_OPS_MAX], columns[PATCH_OPS_MAX];
};

static bool set_grid(const struct patches *p, int32_t tile_h, int32_t tile_w, struct grid *grid)
{
    if (!areas_find(p->net, p->ops, p->n, 0, tile_h, grid->rows) ||
        !areas_find(p->net, p->ops, p->n, 1, tile_w, grid->columns))
        return false; /* no program can say it */
    set_axis(p, true, tile_h, &grid->h);
    set_axis(p, false, tile_w, &grid->w);
    return true;
}

/* How a patch is made with the least memory. */
static bool search_inner(const struct patches *p, const struct grid *grid, bool rows,
                         struct search_result *result)
{
    struct inner inner;
    struct schedule_options options = {.axes = rows ? SCHEDULE_AXES_ALL : SCHEDULE_AXES_CHANNELS,
                                       .accumulator = p->options->accumulator};
    *result = (struct search_result){.out_of_memory = true};
    if (!inner_net(p, grid->h.most, grid->w.most, &inner))
        return false;
    result->out_of_memory = false;
    bool good = (!rows || inner_rows(&inner, p->n, grid->rows, grid->columns, grid->w.most)) &&
                search_least(&inner.net, &options, result);
    inner_free(&inner);
    return good;
}

bool patches_rows(const struct net *net, const struct move *move, int32_t m, struct row_plan *plan)
{
    struct patches p = {.net = net, .n = move->n_ops};
    const struct move *it = &move->inner[m];
    struct schedule_options options = {.axes = SCHEDULE_AXES_ALL, .accumulator = 32};
    struct grid grid;
    struct inner inner;
    struct move same;
    done_word done[1] = {0};
    int64_t bytes;
    memcpy(p.ops, move->ops, (size_t)p.n * sizeof *p.ops);
    if (!set_grid(&p, move->tile_h, move->tile_w, &grid) || !inner_net(&p, grid.h.most, grid.w.most, &inner))
        return false;
    for (int32_t i = 0; i < m; i++)
        for (int32_t k = 0; k < move->inner[i].n_ops; k++)
            done_add(done, move->inner[i].ops[k]);
    bool good = inner_rows(&inner, p.n, grid.rows, grid.columns, grid.w.most) &&
                (it->ringed ? rows_rings(&inner.net, done, it->ops, it->n_ops, &bytes, plan)
                            : rows_plan(&inner.net, done, &options, it->ops, it->n_ops, 0, &same, plan));
    inner_free(&inner);
    return good;
}

void patches_sizes(const struct net *net, const struct move *move, int32_t *h, int32_t *w)
{
    struct patches p = {.net = net, .n = move->n_ops};
    struct axis rows, columns;
    memcpy(p.ops, move->ops, (size_t)p.n * sizeof *p.ops);
    set_axis(&p, true, move->tile_h, &rows);
    set_axis(&p, false, move->tile_w, &columns);
    memcpy(h, rows.most, (size_t)p.n * sizeof *h);
    memcpy(w, columns.most, (size_t)p.n * sizeof *w);
}

/* What is known about a way, searched for if need be. NULL: no way, or no memory. */
static const struct patch_way *find_inner(const struct patches *p, const struct grid *grid, int32_t number,
                                          bool rows)
{
    struct memo *memo = p->net->memo;
    struct patch_way *way = &memo->ways[number];
    struct search_result result;
    if (!way->known && (search_inner(p, grid, rows, &result) || !result.out_of_memory)) {
        *way = (struct patch_way){true, result.moves, result.moves ? result.n_moves : 0, result.peak_bytes};
        memo->left -= result.n_tried;
    }
    return way->known && way->n_moves > 0 ? way : NULL;
}

/* Gives the move its inner moves and shares; false without memory. */
static bool keep_inner(const struct patches *p, const struct axis *h, const struct axis *w,
                       const struct patch_way *way, struct move *move)
{
    move->inner = way->moves;
    move->n_inner = way->n_moves;
    move->share = arena_alloc(p->net->arena, (size_t)p->n, sizeof *move->share);
    move->heights = arena_alloc(p->net->arena, (size_t)p->n, sizeof *move->heights);
    for (int32_t k = 0; move->share && move->heights && k < p->n; k++) {
        move->heights[k] = h->most[k];
        struct shape shape = p->net->tensors[p->net->ops[p->ops[k]].out].shape;
        move->share[k] = (double)(h->sum[k] * w->sum[k]) / (double)((int64_t)shape.h * shape.w);
    }
    return move->share && move->heights;
}

bool patches_resolve(const struct net *net, const struct schedule_options *options, struct move *move)
{
    struct patches p = {.net = net, .n = move->n_ops, .options = options};
    struct grid grid;
    memcpy(p.ops, move->ops, (size_t)p.n * sizeof *p.ops);
    if (!set_grid(&p, move->tile_h, move->tile_w, &grid))
        return false;
    const struct patch_way *whole = find_inner(&p, &grid, move->way_whole, false), *way = whole;
    if (move->way != move->way_whole) { /* rows inside only where that takes less */
        way = find_inner(&p, &grid, move->way, true);
        whole = &net->memo->ways[move->way_whole];
        if (way && whole->n_moves > 0 && way->peak_bytes >= whole->peak_bytes)
            way = NULL;
    }
    if (!way)
        return false;
    move->fixed_bytes = move->held_bytes + way->peak_bytes;
    return keep_inner(&p, &grid.h, &grid.w, way, move);
}

/* Two guesses, whole and with rows inside: what lies outside is there at least, the output in it. */
static void offer(struct patches *p, int32_t tile_h, int32_t tile_w, int64_t held, move_sink *sink,
                  void *context)
{
    struct grid grid;
    if (!set_grid(p, tile_h, tile_w, &grid))
        return;
    struct shape out = p->net->tensors[p->net->ops[p->ops[p->n - 1]].out].shape;
    struct move move = {.mode = SCHEDULE_PATCHES,
                        .n_ops = p->n,
                        .fixed_bytes = held,
                        .held_bytes = held,
                        .iterations = 1,
                        .tile_h = tile_h,
                        .tile_w = tile_w,
                        .extra_macs = extra_macs(p, &grid.h, &grid.w)};
    if (move.extra_macs > p->budget || move.fixed_bytes > p->bound)
        return;
    move.tiles = (int64_t)((out.h + tile_h - 1) / tile_h) * ((out.w + tile_w - 1) / tile_w);
    memcpy(move.ops, p->ops, (size_t)p->n * sizeof *p->ops);
    move.way_whole = memo_way(p->net->memo, p->net, p->ops, p->n, tile_h, tile_w, false);
    move.way = move.way_whole;
    if (move.way >= 0)
        sink(context, &move);
    move.way = memo_way(p->net->memo, p->net, p->ops, p->n, tile_h, tile_w, true);
    if (move.way >= 0 && move.way_whole >= 0)
        sink(context, &move);
}

/* Only the last output is needed afterwards. */
static bool closed(const struct patches *p)
{
    for (int32_t k = 0; k < p->n - 1; k++)
        if (net_is_live(p->net, p->after, p->net->ops[p->ops[k]].out, false))
            return false;
    return true;
}

void patches_each(const struct net *net, const done_word *done, const struct schedule_options *options,
                  int64_t bound, int64_t budget, struct work *work, move_sink *sink, void *context)
{
    struct patches p = {.net = net, .done = done, .options = options, .bound = bound, .budget = budget};
    int64_t largest = 0;
    memcpy(p.after, done, (size_t)done_words(net) * sizeof *p.after);
    for (int32_t o = 0; o < net->n_ops && p.n < PATCH_OPS_MAX; o++) {
        const struct net_op *op = &net->ops[o];
        if (done_has(done, o))
            continue;
        const struct op *it = &net->graph->ops[op->graph_op];
        uint32_t axes = op_row(it->kind)->axes(net->graph, it);
        if (op->view || op->stays || !(axes & OP_AXIS_H) || !(axes & OP_AXIS_W) ||
            !net_ready(net, p.after, o))
            return;
        done_add(p.after, o);
        p.ops[p.n++] = o;
        largest = net->tensors[op->out].bytes > largest ? net->tensors[op->out].bytes : largest;
        struct shape out = net->tensors[op->out].shape;
        if (p.n < 2 || largest < bound / 4 || !closed(&p)) /* small tensors are no bottleneck */
            continue;
        for (int32_t g = 0; g < GRIDS && grids[g] <= out.h; g++) {
            int32_t tile = (out.h + grids[g] - 1) / grids[g];
            int64_t held = held_bytes(&p, tile);
            if (out.w == 1 && held < bound && --work->patches > 0)
                offer(&p, tile, 1, held, sink, context);
            for (int32_t c = 0; c < GRIDS && grids[c] <= out.w && held < bound; c++)
                if (abs(c - g) <= 1 && --work->patches > 0)
                    offer(&p, tile, (out.w + grids[c] - 1) / grids[c], held, sink, context);
        }
    }
}
