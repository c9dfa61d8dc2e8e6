/*
 * The steps of a schedule in turn. Inputs are received before the first step (streamed ones when a step first
 * reads them), outputs are sent after the last. Between steps every tensor that somebody still needs lies
 * whole in its home; within a step `now` says where else a tensor is.
 */
#include "server/schedule/lower_internal.h"

#include <stdlib.h>
#include <string.h>

int32_t lower_new_home(struct lower *l, int32_t tensor, int32_t over)
{
    if (l->net->tensors[tensor].joined) { /* it has its place in what is joined */
        int32_t storage = l->net->tensors[tensor].storage;
        return l->home[storage] >= 0 ? l->home[storage] : lower_new_home(l, storage, LOWER_NONE);
    }
    int32_t buffer = lower_buffer(l, tensor, shape_elements(l->graph->tensors[tensor].shape), false, false);
    l->home[tensor] = buffer;
    if (over >= 0)
        lower_tie(l, buffer, l->home[l->net->tensors[over].storage], 0);
    return buffer;
}

static bool same_area(const struct lower *l, int32_t a, int32_t b)
{
    return !l->tiles || (l->area[a].tile && l->area[b].tile && l->area[a].h == l->area[b].h &&
                         l->area[a].w == l->area[b].w && l->area[a].cap_h == l->area[b].cap_h &&
                         l->area[a].cap_w == l->area[b].cap_w);
}

int32_t lower_overwritten(const struct lower *l, const struct net_op *op)
{
    for (int32_t i = 0; i < op->n_in && op->inplace; i++)
        if (shape_equal(l->net->tensors[op->in[i]].shape, l->net->tensors[op->out].shape) &&
            net_dies(l->net, l->after, op->in[i]) && same_area(l, op->in[i], op->out))
            return op->in[i];
    return LOWER_NONE;
}

/* ---- one operator, whole (in a patch: of its tile) ---- */

int32_t lower_output(struct lower *l, int32_t tensor, int32_t over)
{
    if (l->now[tensor] >= 0) /* a patch's output */
        return l->now[tensor];
    struct lower_area area = lower_area_of(l, tensor);
    if (!area.tile) {
        int32_t buffer = lower_new_home(l, tensor, over);
        return lower_whole(l, buffer, tensor, 1);
    }
    struct shape shape = l->graph->tensors[tensor].shape;
    int64_t bytes = (int64_t)area.cap_h * area.cap_w * shape.c;
    l->home[tensor] = lower_buffer(l, tensor, bytes, true, false);
    if (over >= 0)
        lower_tie(l, l->home[tensor], l->home[over], 0);
    l->now[tensor] =
        lower_view(l, l->home[tensor], tensor, shape, 1,
                   (struct lower_box){area.cap_h, area.cap_w, shape.c, area.h, area.w, LOWER_NONE});
    return l->now[tensor];
}

void lower_step_full(struct lower *l, int32_t op)
{
    const struct net_op *it = &l->net->ops[op];
    if (it->view)
        return;
    struct shape shape = l->graph->tensors[it->out].shape;
    struct lower_area area = lower_area_of(l, it->out);
    int32_t c = lower_const(l, 0, shape.c), out = lower_output(l, it->out, lower_overwritten(l, it));
    struct lower_task task = {it->graph_op, out,        area.h,     area.w,     c,
                              LOWER_NONE,   LOWER_NONE, area.cap_h, area.cap_w, shape.c};
    if (!area.tile && op_row(l->graph->ops[it->graph_op].kind)->kernel == OP_KERNEL_SUM) {
        int32_t sums =
            lower_buffer(l, l->graph->n_tensors + it->graph_op, 4 * shape_elements(shape), false, true);
        lower_tie(l, sums, l->home[it->out], 0);
        task.sums = lower_whole_sums(l, sums, it->graph_op);
    }
    lower_task(l, &task);
}

/* ---- ends ---- */

static void move_whole(struct lower *l, enum fragment_op kind, int32_t tensor)
{
    struct shape shape = l->graph->tensors[tensor].shape;
    int32_t view = lower_whole(l, l->home[tensor], tensor, 1);
    int32_t h = lower_const(l, 0, shape.h), w = lower_const(l, 0, shape.w), c = lower_const(l, 0, shape.c);
    struct lower_code *code = lower_code(l, kind, LOWER_NONE);
    *(kind == FRAGMENT_SEND ? &code->in[0] : &code->out) = view;
    code->h = h;
    code->w = w;
    code->c = c;
    code->tensor = tensor;
}

static bool is_input(const struct net *net, int32_t tensor)
{
    return net->tensors[tensor].used && net->tensors[tensor].producer < 0;
}

static void receive_inputs(struct lower *l)
{
    bool any = false;
    for (int32_t k = 0; k < l->net->n_used && !l->options->streamed; k++) {
        int32_t t = l->net->used[k];
        if (!is_input(l->net, t))
            continue;
        lower_new_home(l, t, LOWER_NONE);
        move_whole(l, FRAGMENT_POST, t);
        any = true;
    }
    if (any)
        lower_code(l, FRAGMENT_WAIT, LOWER_NONE);
}

static bool by_rows(const struct schedule_step *step, int32_t tensor)
{
    for (int32_t v = 0; v < step->n_rows; v++)
        if (step->rows[v].arrives && step->rows[v].tensor == tensor)
            return true;
    return false;
}

/* Streamed inputs that a step reads first arrive whole, but for the one that it takes row by row. */
static void receive_late(struct lower *l, const int32_t *ops, const struct schedule_step *step)
{
    for (int32_t k = 0; k < step->n_ops && l->options->streamed; k++)
        for (int32_t i = 0; i < l->net->ops[ops[k]].n_in; i++) {
            int32_t t = l->net->ops[ops[k]].in[i];
            if (!is_input(l->net, t) || l->home[t] >= 0 || by_rows(step, t))
                continue;
            lower_new_home(l, t, LOWER_NONE);
            move_whole(l, FRAGMENT_RECV, t);
        }
}

static void send_outputs(struct lower *l)
{
    for (int32_t t = 0; t < l->net->n_tensors; t++) {
        bool output = false; /* through itself or a view */
        for (int32_t k = 0; k < l->net->n_used; k++)
            output |=
                l->net->tensors[l->net->used[k]].output && l->net->tensors[l->net->used[k]].storage == t;
        if (output && l->net->tensors[t].producer >= 0)
            move_whole(l, FRAGMENT_SEND, t);
    }
}

/* ---- all ---- */

static void one_step(struct lower *l, const struct schedule_step *step, const int32_t *ops)
{
    receive_late(l, ops, step);
    lower_move(l, ops, step->n_ops);
    if (step->mode == SCHEDULE_FULL)
        lower_step_full(l, ops[0]);
    else if (step->mode == SCHEDULE_CHANNELS)
        lower_step_channels(l, ops, step->n_ops, step->k, step->rows, step->n_rows);
    else if (step->mode == SCHEDULE_ROWS)
        lower_step_rows(l, ops, step->n_ops, step->rows, step->n_rows);
    else
        lower_step_patches(l, ops, step);
}

/* The net as it is, and as it is in steps that are tall; NULL where there are none. */
struct nets {
    const struct net *plain, *tall;
};

static void see(struct lower *l, const struct nets *nets, bool tall)
{
    l->tall = tall;
    l->net = tall ? nets->tall : nets->plain;
    l->graph = l->net->graph;
}

static void all_steps(struct lower *l, const struct nets *nets, const struct schedule *schedule)
{
    done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0}, after[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    l->done = done;
    l->after = after;
    receive_inputs(l);
    for (int32_t s = 0; s < schedule->n_steps && !l->failed && !l->refused; s++) {
        const struct schedule_step *step = &schedule->steps[s];
        int32_t ops[NET_LOOP_OPS_MAX];
        if (step->n_ops > NET_LOOP_OPS_MAX) {
            l->refused = "a step of too many operators";
            break;
        }
        for (int32_t k = 0; k < step->n_ops; k++) {
            ops[k] = net_op_of(l->net, step->ops[k]);
            if (k >= step->again)
                done_add(after, ops[k]);
        }
        see(l, nets, step->tall);
        one_step(l, step, ops);
        see(l, nets, false);
        memcpy(done, after, sizeof done);
    }
    if (!l->failed && !l->refused)
        send_outputs(l);
}

static bool prepare(struct lower *l)
{
    size_t n = (size_t)l->graph->n_tensors + 1;
    l->home = malloc(n * sizeof *l->home);
    l->now = malloc(n * sizeof *l->now);
    l->area = calloc(n, sizeof *l->area);
    if (!l->home || !l->now || !l->area)
        return false;
    memset(l->home, 0xff, n * sizeof *l->home);
    memset(l->now, 0xff, n * sizeof *l->now);
    return true;
}

/* What a program is made from. */
struct request {
    const struct nets *nets;
    const struct schedule *schedule;
    const struct schedule_options *options;
    const struct lower_kernels *kernels;
};

/* NULL with `error` set. */
static struct lowered *lower_once(const struct request *request, uint64_t moves, bool thorough,
                                  int32_t *n_moves, struct error *error)
{
    struct lower l = {.graph = request->nets->plain->graph,
                      .net = request->nets->plain,
                      .options = request->options,
                      .kernels = request->kernels,
                      .thorough = thorough,
                      .moves = moves};
    l.out = calloc(1, sizeof *l.out);
    l.failed = !l.out || !prepare(&l);
    if (!l.failed) {
        l.out->peak_bytes = request->schedule->peak_bytes;
        all_steps(&l, request->nets, request->schedule);
        l.failed = l.failed || (!l.refused && !lower_place(&l));
    }
    *n_moves = l.n_moves;
    if (l.refused)
        error_set(error, STATUS_MODEL_UNSUPPORTED, "no program for this schedule: %s", l.refused);
    else if (l.failed)
        error_set(error, STATUS_NO_MEMORY, "no memory for the program");
    if (l.refused || l.failed) {
        schedule_lowered_free(l.out);
        l.out = NULL;
    }
    free(l.home);
    free(l.now);
    free(l.area);
    free(l.pairs);
    return l.out;
}

/* Replaces *best by the program with these moves if its arena is smaller. False: it is not. */
static bool try_moves(const struct request *request, uint64_t moves, bool thorough, struct lowered **best)
{
    int32_t n;
    struct lowered *tried = lower_once(request, moves, thorough, &n, NULL);
    bool better = tried && tried->arena_bytes < (*best)->arena_bytes;
    schedule_lowered_free(better ? *best : tried);
    *best = better ? tried : *best;
    return better;
}

/* Only where the arena is larger than it should be. First a longer search for places, since that costs the
 * board nothing; then moves, which cost it time: all up, then one after another in every other way as long as
 * that makes the arena smaller. */
static void improve(const struct request *request, int64_t enough, int32_t n, struct lowered **best)
{
    enum { TRIES = 64 };
    uint64_t chosen = 0, all = 0;
    int32_t left = TRIES;
    for (int32_t i = 0; i < n; i++)
        all |= (uint64_t)LOWER_UP << LOWER_MOVE_BITS * i;
    if (try_moves(request, 0, true, best) && (*best)->arena_bytes <= enough)
        return;
    if (n > 0 && try_moves(request, all, false, best))
        chosen = all;
    for (bool better = true; better && (*best)->arena_bytes > enough;) {
        better = false;
        for (int32_t i = 0; i < n * (LOWER_MOVES - 1) && (*best)->arena_bytes > enough && left-- > 0; i++) {
            int32_t shift = LOWER_MOVE_BITS * (i / (LOWER_MOVES - 1));
            uint64_t now = chosen >> shift & 3,
                     other = (now + 1 + (uint64_t)i % (LOWER_MOVES - 1)) % LOWER_MOVES;
            uint64_t moves = (chosen & ~((uint64_t)3 << shift)) | other << shift;
            if (try_moves(request, moves, false, best)) {
                chosen = moves;
                better = true;
            }
        }
    }
    if (chosen && (*best)->arena_bytes > enough)
        (void)try_moves(request, chosen, true, best);
}

static void count(void *context, const struct lower_act *act)
{
    int64_t *executions = context;
    *executions = act->time + 1;
}

static struct net *joined_net(const struct graph *graph, const struct schedule *schedule, bool tall)
{
    struct net *net = schedule_net(graph, tall);
    for (int32_t o = 0; net && o < net->n_ops; o++)
        if (schedule->joined && schedule->joined[net->ops[o].graph_op])
            net_join(net, o);
    return net;
}

struct lowered *schedule_lower(const struct graph *graph, const struct schedule *schedule,
                               const struct schedule_options *given, const struct lower_kernels *kernels,
                               struct error *error)
{
    struct schedule_options own = *given, *options = &own;
    own.streamed = schedule->streamed;
    bool tall = false;
    for (int32_t s = 0; s < schedule->n_steps; s++)
        tall |= schedule->steps[s].tall;
    struct net *plain = joined_net(graph, schedule, false), *turned = NULL;
    if (plain && tall)
        turned = joined_net(graph, schedule, true);
    if (!plain || (tall && !turned)) {
        schedule_net_free(plain);
        error_set(error, STATUS_NO_MEMORY, "no memory for the program");
        return NULL;
    }
    int32_t n;
    const struct nets nets = {plain, turned};
    const struct request request = {&nets, schedule, options, kernels};
    struct lowered *lowered = lower_once(&request, 0, false, &n, error);
    if (lowered) {
        int64_t enough = lower_arena(schedule->peak_bytes + (kernels ? lowered->scratch_bytes : 0));
        enough = options->ram > enough ? options->ram : enough;
        if (lowered->arena_bytes > enough)
            improve(&request, enough, n, &lowered);
    }
    schedule_net_free(plain);
    schedule_net_free(turned);
    if (lowered)
        lowered_walk(lowered, 0, count, &lowered->executions);
    if (lowered && lowered->executions > FRAGMENT_EXECUTIONS_MAX) {
        error_set(error, STATUS_MODEL_UNSUPPORTED,
                  "no program for this schedule: it executes %lld instructions, the limit is %d",
                  (long long)lowered->executions, FRAGMENT_EXECUTIONS_MAX);
        schedule_lowered_free(lowered);
        return NULL;
    }
    return lowered;
}

void schedule_lowered_free(struct lowered *lowered)
{
    if (!lowered)
        return;
    free(lowered->ranges);
    free(lowered->views);
    free(lowered->code);
    free(lowered->buffers);
    free(lowered);
}
