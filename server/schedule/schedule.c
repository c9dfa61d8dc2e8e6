/*
 * From the search's moves to a schedule in terms of the graph: channels an iteration, what is live at each
 * step.
 */
#include "server/schedule/schedule.h"

#include "server/base/stop.h"
#include "server/model/tall.h"
#include "server/schedule/cost.h"
#include "server/schedule/memo.h"
#include "server/schedule/search.h"

#include <stdlib.h>
#include <string.h>

/* More than any board has, so that sums with it stay in range. */
#define RAM_MAX ((int64_t)1 << 50)

const struct schedule_board *schedule_board_default(void)
{
    static const struct schedule_board teensy41_good = {.clock_hz = 600e6,
                                                        .mac_per_cycle = {0.62, 0.30, 0.40, 0.60},
                                                        .element_per_cycle = 0.50,
                                                        .flash_bytes_per_s = 40e6,
                                                        .arena_bytes = 458752,
                                                        .weight_ram_bytes = 262144};
    return &teensy41_good;
}

static void free_steps(struct schedule_step *steps, int32_t n)
{
    for (int32_t i = 0; steps && i < n; i++) {
        free(steps[i].ops);
        free(steps[i].live);
        free(steps[i].rows);
        free(steps[i].patch_h);
        free(steps[i].patch_w);
        free_steps(steps[i].inner, steps[i].n_inner);
    }
    free(steps);
}

static bool fill_rows(const struct net *net, const struct schedule_options *options, const done_word *done,
                      const struct move *move, struct schedule_step *step)
{
    struct move same;
    int64_t bytes;
    step->rows = calloc(ROW_PLAN_MAX, sizeof *step->rows);
    if (!step->rows || !(move->ringed ? rows_rings(net, done, move->ops, move->n_ops, &bytes, step->rows)
                                      : rows_plan(net, done, options, move->ops, move->n_ops, move->again,
                                                  &same, step->rows)))
        return false;
    while (step->rows[step->n_rows].tensor >= 0)
        step->n_rows++;
    return true;
}

/* What a move says by itself; `names` turns its operators into the graph's. */
static bool fill_ops(const struct move *move, const int32_t *names, int64_t limit, struct schedule_step *step)
{
    int64_t k = cost_channels(move, limit);
    step->ops = calloc((size_t)move->n_ops, sizeof *step->ops);
    for (int32_t i = 0; step->ops && i < move->n_ops; i++)
        step->ops[i] = names[move->ops[i]];
    step->mode = move->mode;
    step->n_ops = move->n_ops;
    step->k = (int32_t)k;
    step->iterations = move->mode == SCHEDULE_CHANNELS ? move->iterations : 1;
    step->tile_h = move->tile_h;
    step->tile_w = move->tile_w;
    step->again = move->again;
    step->extra_macs = move->extra_macs;
    step->peak_bytes = move->fixed_bytes + move->part_bytes * (k > 0 ? k : 1);
    return step->ops != NULL;
}

static bool fill_inner(const struct net *net, const struct move *move, int64_t limit,
                       struct schedule_step *step)
{
    step->patch_h = calloc((size_t)move->n_ops, sizeof *step->patch_h);
    step->patch_w = calloc((size_t)move->n_ops, sizeof *step->patch_w);
    step->inner = calloc((size_t)move->n_inner + 1, sizeof *step->inner);
    if (!step->patch_h || !step->patch_w || !step->inner)
        return false;
    patches_sizes(net, move, step->patch_h, step->patch_w);
    int64_t most = 0;
    for (int32_t i = 0; i < move->n_inner; i++) {
        struct schedule_step *inner = &step->inner[step->n_inner++];
        if (!fill_ops(&move->inner[i], step->ops, limit - move->held_bytes, inner))
            return false;
        if (move->inner[i].mode == SCHEDULE_ROWS || move->inner[i].ringed) {
            inner->rows = calloc(ROW_PLAN_MAX, sizeof *inner->rows);
            if (!inner->rows || !patches_rows(net, move, i, inner->rows))
                return false;
            while (inner->rows[inner->n_rows].tensor >= 0)
                inner->n_rows++;
        }
        most = inner->peak_bytes > most ? inner->peak_bytes : most;
    }
    step->peak_bytes = move->held_bytes + most;
    return true;
}

/* By rows or in tiles of a tensor that is a row as it is. */
static void set_tall(const struct net *net, const struct move *move, struct schedule_step *step)
{
    for (int32_t i = 0; i < move->n_ops && (step->rows || move->mode == SCHEDULE_PATCHES); i++)
        step->tall |= net->ops[move->ops[i]].tall;
    for (int32_t i = 0; i < step->n_inner; i++)
        step->inner[i].tall = step->tall;
}

/* Storages in which something is live. */
static bool fill_live(const struct net *net, const done_word *done, bool streamed, struct schedule_step *step)
{
    bool *held = calloc((size_t)net->n_tensors + 1, sizeof *held);
    step->live = calloc((size_t)net->n_used + 1, sizeof *step->live);
    for (int32_t i = 0; held && i < net->n_used; i++)
        held[net->tensors[net->used[i]].storage] |= net_is_live(net, done, net->used[i], streamed);
    for (int32_t i = 0; held && step->live && i < net->n_used; i++)
        if (held[net->used[i]])
            step->live[step->n_live++] = net->used[i];
    bool good = held && step->live;
    free(held);
    return good;
}

static bool fill_step(const struct net *net, const struct schedule_options *options, const done_word *done,
                      const struct move *move, int64_t limit, struct schedule_step *step)
{
    int32_t *names = calloc((size_t)net->n_ops + 1, sizeof *names);
    for (int32_t o = 0; names && o < net->n_ops; o++)
        names[o] = net->ops[o].graph_op;
    bool good = names && fill_ops(move, names, limit, step);
    free(names);
    if (good && (move->mode == SCHEDULE_ROWS || move->ringed))
        good = fill_rows(net, options, done, move, step);
    if (good && move->mode == SCHEDULE_PATCHES)
        good = fill_inner(net, move, limit, step);
    if (!good || !fill_live(net, done, options->streamed, step))
        return false;
    set_tall(net, move, step);
    step->inner_bytes = step->peak_bytes - net_live(net, done, options->streamed);
    return true;
}

static double step_seconds(const struct net *net, const struct move *move, int64_t limit,
                           const bool *resident)
{
    struct cost cost;
    cost_move(net, move, limit, &cost);
    for (int32_t k = 0; k < move->n_ops; k++)
        if (!resident[move->ops[k]])
            cost.seconds +=
                (double)(cost.reads[k] * net->ops[move->ops[k]].read_bytes) / net->board->flash_bytes_per_s;
    return cost.seconds;
}

/* Times, and which weights are resident: those that are read most, in the memory that is left. */
static bool fill_times(struct schedule *schedule, const struct net *net,
                       const struct schedule_options *options, const struct search_result *result)
{
    const struct schedule_board *board = net->board;
    int64_t arena = options->ram ? options->ram : board->arena_bytes;
    int64_t room =
        board->weight_ram_bytes + (arena > schedule->peak_bytes ? arena - schedule->peak_bytes : 0);
    bool *resident = calloc((size_t)net->n_ops + 1, sizeof *resident);
    schedule->resident = calloc((size_t)net->graph->n_ops + 1, sizeof *schedule->resident);
    schedule->seconds = resident && schedule->resident ? cost_moves(net, result->moves, result->n_moves,
                                                                    result->limit_bytes, room, resident)
                                                       : -1;
    for (int32_t i = 0; i < result->n_moves && schedule->seconds >= 0; i++)
        schedule->steps[i].seconds = step_seconds(net, &result->moves[i], result->limit_bytes, resident);
    for (int32_t o = 0; o < net->n_ops && schedule->seconds >= 0; o++)
        schedule->resident[net->ops[o].graph_op] = resident[o];
    free(resident);
    return schedule->seconds >= 0;
}

static bool fill(struct schedule *schedule, const struct net *net, const struct schedule_options *options,
                 const struct search_result *result)
{
    done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    schedule->steps = calloc((size_t)result->n_moves + 1, sizeof *schedule->steps);
    schedule->peak_step = -1;
    schedule->exhaustive = result->exhaustive;
    schedule->streamed = options->streamed;
    schedule->joined = calloc((size_t)net->graph->n_ops + 1, sizeof *schedule->joined);
    if (!schedule->steps || !schedule->joined)
        return false;
    for (int32_t o = 0; o < net->n_ops; o++)
        for (int32_t i = 0; i < net->ops[o].n_in; i++)
            schedule->joined[net->ops[o].graph_op] |=
                net->tensors[net->ops[o].in[i]].joined &&
                net->tensors[net->ops[o].in[i]].storage == net->ops[o].out;
    for (int32_t i = 0; i < result->n_moves; i++) {
        const struct move *move = &result->moves[i];
        struct schedule_step *step = &schedule->steps[schedule->n_steps++];
        if (!fill_step(net, options, done, move, result->limit_bytes, step))
            return false;
        for (int32_t o = move->again; o < move->n_ops; o++)
            done_add(done, move->ops[o]);
        schedule->extra_macs += step->extra_macs;
        if (schedule->peak_step < 0 || step->peak_bytes > schedule->peak_bytes) {
            schedule->peak_bytes = step->peak_bytes;
            schedule->peak_step = i;
        }
    }
    return fill_times(schedule, net, options, result);
}

static int check_options(const struct schedule_options *options, struct error *error)
{
    if (options->accumulator != 32 && options->accumulator != 16 && options->accumulator != 8)
        return error_set(error, STATUS_INVALID_ARGUMENT, "an accumulator has 32, 16 or 8 bits, not %d",
                         options->accumulator);
    if (!(options->extra_macs >= 0 && options->extra_macs <= 1000))
        return error_set(error, STATUS_INVALID_ARGUMENT, "extra MACs are 0 to 1000 percent");
    return 0;
}

static void refuse_ram(int64_t need, int64_t ram, struct error *error)
{
    if (error_set(error, STATUS_DOES_NOT_FIT, "the least arena that was found is %lld bytes; there are %lld",
                  (long long)need, (long long)ram) &&
        error)
        error->shortfall = (struct error_shortfall){
            .segment = -1, .resource = "arena", .need_bytes = need, .have_bytes = ram};
}

/* What is asked, and what was found about it. */
struct question {
    const struct graph *graph;
    struct schedule_options options;
    struct memo *memo;
    int64_t *cap; /* of the best schedule so far, or options.ram: what takes more is no use */
};

/* A search over the graph in one order. */
struct attempt {
    struct net *net;
    int32_t joined; /* concatenations that are free */
    struct schedule_options options;
    struct search_result result;
    bool found;
};

static void attempt_free(struct attempt *attempt)
{
    free(attempt->result.moves);
    schedule_net_free(attempt->net);
    *attempt = (struct attempt){.net = NULL};
}

/* How the graph is seen. */
struct sight {
    bool join; /* with free concatenations; nothing where there are none */
    bool tall;
};

/* Depth first, then in `order`, which is of such a net, or NULL. False without memory. */
static bool put_in_order(struct net *net, const int32_t *order)
{
    int32_t *own = calloc((size_t)net->n_ops + 1, sizeof *own);
    bool good =
        own && order_depth_first(net, own) && order_apply(net, own) && (!order || order_apply(net, order));
    free(own);
    return good;
}

/* `order`: of a net that is in order depth first, or NULL for that; `wide`: only moves in that order. */
static void attempt_run(struct attempt *attempt, const struct question *question, enum schedule_axes axes,
                        const int32_t *order, bool wide, struct sight sight)
{
    const struct schedule_board *board = question->options.board;
    *attempt =
        (struct attempt){.net = schedule_net(question->graph, sight.tall), .options = question->options};
    attempt->options.axes = axes;
    if (!attempt->net || !put_in_order(attempt->net, order))
        return;
    for (int32_t o = 0; sight.join && o < attempt->net->n_ops; o++)
        if (net_may_join(attempt->net, o)) {
            net_join(attempt->net, o);
            attempt->joined++;
        }
    if (sight.join && !attempt->joined)
        return;
    attempt->net->memo = question->memo;
    cost_prepare(attempt->net, board ? board : schedule_board_default());
    attempt->found = search_run(attempt->net, &attempt->options, wide, *question->cap, &attempt->result);
    int64_t limit = attempt->result.limit_bytes, ram = question->options.ram;
    limit = limit > ram ? limit : ram;
    if (attempt->found && limit < *question->cap)
        *question->cap = limit;
}

/* Keeps the better one in `best` and frees the other. */
static void attempt_better(struct attempt *best, struct attempt *other, int64_t ram)
{
    int64_t a = best->result.limit_bytes > ram ? best->result.limit_bytes : ram;
    int64_t b = other->result.limit_bytes > ram ? other->result.limit_bytes : ram;
    if (other->found && (!best->found || b < a || (b == a && other->result.seconds < best->result.seconds))) {
        struct attempt worse = *best;
        *best = *other;
        *other = worse;
    }
    attempt_free(other);
}

/* A graph that is too large to try everything: in an order with little memory, depth first and level by
 * level; then with fewer kinds of steps, since that search gets further. `best` is a net that nothing may
 * have been found for.
 */
static void try_orders(struct attempt *best, const struct question *question, struct sight sight)
{
    size_t n = (size_t)best->net->n_ops + 1;
    int32_t *little = calloc(n, sizeof *little), *level = calloc(n, sizeof *level);
    enum schedule_axes axes = question->options.axes;
    bool known = little && order_find(best->net, little), all = axes == SCHEDULE_AXES_ALL;
    bool levels = all && level && order_side_by_side(best->net, level);
    const struct {
        bool wanted;
        const int32_t *order;
        enum schedule_axes axes;
    } tries[] = {{known, little, axes},
                 {all || !known, NULL, axes},
                 {levels, level, axes},
                 {known && all, little, SCHEDULE_AXES_CHANNELS},
                 {all, NULL, SCHEDULE_AXES_CHANNELS}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct attempt other;
        if (!tries[i].wanted)
            continue;
        attempt_run(&other, question, tries[i].axes, tries[i].order, true, sight);
        attempt_better(best, &other, question->options.ram);
    }
    free(little);
    free(level);
    best->result.exhaustive = false;
}

/* Segments by rows follow the order of the operators, so also a search that met all states may find less in
 * an order with little memory. */
static void try_little(struct attempt *best, const struct question *question, struct sight sight)
{
    int32_t *order = calloc((size_t)best->net->n_ops + 1, sizeof *order);
    bool other_order = false;
    if (order && order_find(best->net, order))
        for (int32_t o = 0; o < best->net->n_ops; o++)
            other_order |= order[o] != o;
    if (other_order) {
        struct attempt other;
        int64_t before = best->result.peak_bytes;
        attempt_run(&other, question, question->options.axes, order, true, sight);
        attempt_better(best, &other, question->options.ram);
        best->result.exhaustive = best->result.peak_bytes >= before;
    }
    free(order);
}

static void try_one(struct attempt *best, const struct question *question, struct sight sight)
{
    attempt_run(best, question, question->options.axes, NULL, false, sight);
    if (!best->net || (sight.join && !best->joined) || best->result.out_of_memory)
        return;
    if (!best->result.exhaustive)
        try_orders(best, question, sight);
    else if (question->options.axes >= SCHEDULE_AXES_ROWS)
        try_little(best, question, sight);
}

static bool may_be_tall(const struct graph *graph)
{
    for (int32_t o = 0; o < graph->n_ops; o++)
        if (tall_turns(graph, &graph->ops[o]))
            return true;
    return false;
}

/* A free concatenation has its memory from its first input on, and ends what goes by rows; so both are tried;
 * channels alone keep to the rules of the paper. What stays where others are tall ends what goes by rows too.
 */
static void try_all(struct attempt *best, const struct question *question)
{
    enum schedule_axes axes = question->options.axes;
    bool all = axes == SCHEDULE_AXES_ALL,
         tall = (all || axes == SCHEDULE_AXES_ROWS) && may_be_tall(question->graph);
    try_one(best, question, (struct sight){false, false});
    bool exhaustive = best->result.exhaustive;
    for (int32_t i = 1; i < 4 && best->net; i++) {
        struct sight sight = {.join = i & 1, .tall = i & 2};
        struct attempt other;
        if ((sight.join && !all) || (sight.tall && !tall))
            continue;
        try_one(&other, question, sight);
        exhaustive = exhaustive && (sight.join || !other.net || other.result.exhaustive);
        attempt_better(best, &other, question->options.ram);
    }
    best->result.exhaustive = exhaustive;
}

/* Operator after operator has fewer states, so that it may find a better order of a graph that is too large
 * to try everything with more kinds of steps. */
static void try_whole(struct attempt *best, const struct question *question)
{
    struct question whole = *question;
    struct attempt other;
    whole.options.axes = SCHEDULE_AXES_FULL;
    try_one(&other, &whole, (struct sight){false, false});
    attempt_better(best, &other, question->options.ram);
    best->result.exhaustive = false;
}

/* The best schedule; best->found false: none. */
static void answer(struct attempt *best, const struct question *question)
{
    try_all(best, question);
    if (best->net && !best->result.exhaustive && question->options.axes != SCHEDULE_AXES_FULL)
        try_whole(best, question);
    if (question->options.streamed) { /* inputs that are waited for are as good as inputs that are there */
        struct attempt other;
        struct question counted = *question;
        counted.options.streamed = false;
        try_all(&other, &counted);
        bool exhaustive = best->result.exhaustive && other.result.exhaustive;
        attempt_better(best, &other, question->options.ram);
        best->result.exhaustive = exhaustive;
    }
}

static struct schedule *make(const struct question *question, struct error *error)
{
    struct attempt best;
    struct schedule *schedule = NULL;
    int64_t ram = question->options.ram;
    answer(&best, question);
    if (stop_check(error) < 0)
        best.found = false;
    if (best.found && (ram == 0 || best.result.peak_bytes <= ram)) {
        schedule = calloc(1, sizeof *schedule);
        if (schedule && !fill(schedule, best.net, &best.options, &best.result)) {
            schedule_free(schedule);
            schedule = NULL;
        }
    }
    if (best.found && !schedule && best.result.peak_bytes > ram && ram > 0)
        refuse_ram(best.result.peak_bytes, ram, error);
    if (!schedule)
        error_set(error, STATUS_NO_MEMORY, "no memory for the schedule");
    if (schedule)
        schedule->exhaustive &= !question->memo->short_of;
    attempt_free(&best);
    return schedule;
}

struct schedule *schedule_make(const struct graph *graph, const struct schedule_options *options,
                               struct error *error)
{
    if (check_options(options, error) < 0)
        return NULL;
    if (graph->n_ops > SCHEDULE_OPS_MAX) {
        error_set(error, STATUS_MODEL_LIMIT, "%d operators, the limit is %d", graph->n_ops, SCHEDULE_OPS_MAX);
        error_limit(error, SCHEDULE_OPS_MAX, graph->n_ops);
        return NULL;
    }
    int64_t cap = INT64_MAX;
    struct question question = {.graph = graph, .options = *options, .memo = memo_new(), .cap = &cap};
    question.options.ram = options->ram < RAM_MAX ? options->ram : RAM_MAX;
    struct schedule *schedule = question.memo ? make(&question, error) : NULL;
    if (!question.memo)
        error_set(error, STATUS_NO_MEMORY, "no memory for the schedule");
    memo_free(question.memo);
    return schedule;
}

void schedule_free(struct schedule *schedule)
{
    if (schedule)
        free_steps(schedule->steps, schedule->n_steps);
    if (schedule) {
        free(schedule->resident);
        free(schedule->joined);
    }
    free(schedule);
}
