/*
 * Making a plan: shares within caps, then cutting, routing, placing and predicting (cut.c, route.c,
 * program.c, memory.c, cost.c), again with lower caps while a board's fragment or arena is too large. A
 * kernel that is cut lies on two boards, so shares of weight bytes alone do not tell a fragment's size.
 *
 * Deterministic: the same graph, boards and options give the same plan.
 */
#include "server/plan/internal.h"

#include "server/base/stop.h"
#include "server/plan/json.h"

#include <math.h>
#include <stdio.h>

enum { PLAN_FLASH_MOST = INT32_MAX }; /* no fragment is larger: sums cannot overflow */

/* What one call of plan_make works on. */
struct search {
    const struct graph *graph;
    const char *version;
    const struct plan_board *boards;
    int32_t n;
    struct plan_options options;
    double rating[PLAN_BOARDS_MAX];
    int64_t total; /* weight bytes of the whole network, the unit of shares */
    int64_t cap[PLAN_BOARDS_MAX], share[PLAN_BOARDS_MAX];
    enum maker_mode mode;
    int32_t level; /* of scratch_levels */
    struct error *error;
    const struct schedule *partial; /* what the board with the share runs; NULL: whole operators */
    const struct schedule_options *partial_options;
};

/* Scratch for packed kernels, as much as helps; where memory is short less; then none: plain layouts. */
static const int32_t scratch_levels[] = {32768, 8192, 0};
enum { LEVELS = sizeof scratch_levels / sizeof *scratch_levels };

/* ---- one plan for given shares ---- */

static void set_roots(struct maker *maker)
{
    const struct graph *graph = maker->graph;
    for (int32_t t = 0; t < graph->n_tensors; t++) {
        maker->root[t] = t;
        maker->holdings[t] = (struct holding){.exchange = -1, .first_store = -1};
    }
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        if (op->place == OP_PLACE_BODY && !maker_runs(graph, op))
            maker->root[op->output] = maker->root[op->inputs[0]];
    }
}

static bool made_by_boards(const struct graph *graph, int32_t tensor)
{
    int32_t producer = graph->tensors[tensor].producer;
    return producer >= 0 && maker_runs(graph, &graph->ops[producer]);
}

/* Which tensors the coordinator gives, and which it needs. */
static void set_ends(struct maker *maker)
{
    const struct graph *graph = maker->graph;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            int32_t root = maker->root[op->inputs[k]];
            if (op->place == OP_PLACE_TAIL && made_by_boards(graph, root))
                maker->holdings[root].output = true;
            if (maker_runs(graph, op) && !made_by_boards(graph, root) && !maker_constant(graph, root))
                maker->holdings[root].given = true;
        }
    }
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (made_by_boards(graph, maker->root[graph->outputs[i]]))
            maker->holdings[maker->root[graph->outputs[i]]].output = true;
}

static void set_fractions(struct maker *maker, const struct search *search)
{
    int64_t sum = 0;
    maker->first_board = -1;
    for (int32_t b = 0; b < search->n; b++) {
        sum += search->share[b];
        maker->fraction[b] = sum == search->total ? 1 : (double)sum / (double)search->total;
        maker->plan->parties[b].share =
            (int64_t)((double)search->share[b] * PLAN_SHARE_WHOLE / (double)search->total + 0.5);
        maker->plan->parties[b].rating_kb_per_s = search->rating[b];
        if (maker->first_board < 0 && search->share[b] > 0)
            maker->first_board = b;
    }
}

static void write_whole(struct maker *maker)
{
    const struct graph *graph = maker->graph;
    for (int32_t i = 0; i < graph->n_ops && !maker->failed; i++) {
        maker->op_task[i] = maker->n_tasks;
        if (maker_runs(graph, &graph->ops[i]))
            cut_op(maker, i);
        maker->op_task[i + 1] = maker->n_tasks;
        if (!maker->failed)
            route_op(maker, i);
    }
    if (!maker->failed)
        program_write(maker);
    if (!maker->failed)
        memory_place(maker);
}

static int run_maker(struct maker *maker)
{
    if (maker->partial)
        partial_write(maker);
    else
        write_whole(maker);
    if (!maker->failed && maker->error->status == STATUS_OK)
        cost_predict(maker);
    if (maker->failed)
        return error_set(maker->error, STATUS_NO_MEMORY, "no memory for the plan");
    return maker->error->status;
}

static struct plan *new_plan(const struct search *search)
{
    struct arena *arena = arena_new(PLAN_ARENA_LIMIT);
    struct plan *plan = arena ? arena_alloc(arena, 1, sizeof *plan) : NULL;
    if (!plan) {
        arena_free(arena);
        return NULL;
    }
    plan->arena = arena;
    plan->graph = search->graph;
    plan->options = search->options;
    plan->n_boards = search->n;
    if (search->version)
        snprintf(plan->version, sizeof plan->version, "%s", search->version);
    plan->boards = arena_copy(arena, search->boards, sizeof *plan->boards * (size_t)search->n);
    plan->parties = arena_alloc(arena, (size_t)search->n, sizeof *plan->parties);
    plan->table.fragments = arena_alloc(arena, (size_t)search->n, sizeof *plan->table.fragments);
    plan->table.parties = (uint16_t)search->n;
    for (int32_t b = 0; plan->boards && b < search->n; b++)
        if (scratch_levels[search->level] == 0)
            plan->boards[b].layouts = NN_LAYOUT_MASK_PLAIN;
        else if (search->partial) /* whose weights may be for sums */
            plan->boards[b].layouts &= ~((int64_t)1 << NN_LAYOUT_FOURS);
    if (plan->boards && plan->parties && plan->table.fragments)
        return plan;
    plan_free(plan);
    return NULL;
}

static struct plan *build(const struct search *search)
{
    struct plan *plan = new_plan(search);
    if (!plan) {
        error_set(search->error, STATUS_NO_MEMORY, "no memory for the plan");
        return NULL;
    }
    size_t n_ops = (size_t)search->graph->n_ops, n_tensors = (size_t)search->graph->n_tensors;
    struct maker maker = {.plan = plan,
                          .graph = search->graph,
                          .error = search->error,
                          .mode = search->mode,
                          .scratch_limit = scratch_levels[search->level],
                          .partial = search->partial,
                          .partial_options = search->partial_options};
    maker.root = maker_alloc(&maker, n_tensors, sizeof *maker.root);
    maker.holdings = maker_alloc(&maker, n_tensors, sizeof *maker.holdings);
    maker.op_task = maker_alloc(&maker, n_ops + 1, sizeof *maker.op_task);
    maker.rank_before = maker_alloc(&maker, n_ops + 1, sizeof *maker.rank_before);
    maker.segment_of = maker_alloc(&maker, n_ops + 1, sizeof *maker.segment_of);
    if (!maker.failed) {
        set_roots(&maker);
        set_ends(&maker);
        set_fractions(&maker, search);
    }
    if (maker.failed)
        error_set(search->error, STATUS_NO_MEMORY, "no memory for the plan");
    else if (run_maker(&maker) == 0)
        return plan;
    plan_free(plan);
    return NULL;
}

/* The board with the share runs a schedule. */
static struct plan *build_partial(struct search *search, const struct schedule *schedule,
                                  const struct schedule_options *options)
{
    search->partial = schedule;
    search->partial_options = options;
    struct plan *plan = build(search);
    search->partial = NULL;
    search->partial_options = NULL;
    return plan;
}

void plan_free(struct plan *plan)
{
    if (plan)
        arena_free(plan->arena);
}

/* ---- ratings ---- */

static int64_t weights_whole(const struct graph *graph)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        if (maker_runs(graph, op) && op_row(op->kind)->needs_weights)
            sum += cost_slice_bytes(op->weight_bytes, graph->tensors[op->output].shape.c);
    }
    return sum;
}

bool plan_has_flash(const struct graph *graph, const struct plan_board *boards, int32_t n_boards,
                    const struct plan_options *options)
{
    int64_t flash = 0;
    for (int32_t b = 0; b < n_boards; b++) {
        int64_t own = boards[b].flash_bytes, sum = flash + (own > PLAN_FLASH_MOST ? PLAN_FLASH_MOST : own);
        flash = options->strategy != PLAN_STRATEGY_SINGLE ? sum : own > flash ? own : flash;
    }
    return flash >= weights_whole(graph);
}

static int64_t output_bytes(const struct graph *graph)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_ops; i++)
        if (maker_runs(graph, &graph->ops[i]))
            sum += shape_elements(graph->tensors[graph->ops[i].output].shape);
    return sum;
}

/* KB of output per million cycles of the whole network on this board. */
static double own_k1(const struct graph *graph, const struct plan_board *board)
{
    double cycles = 0;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        const struct op_row *row = op_row(op->kind);
        if (!maker_runs(graph, op))
            continue;
        struct box whole = box_whole(graph->tensors[op->output].shape);
        enum op_cost cost = row->cost(graph, op);
        cycles += cost <= OP_COST_FULLY_CONNECTED
                      ? (double)row->macs(graph, op, whole) / board->mac_per_cycle[cost]
                      : (double)box_elements(whole) / board->element_per_cycle;
    }
    return cycles > 0 ? (double)output_bytes(graph) / 1e3 / (cycles / 1e6) : 1;
}

static void set_even(struct search *search)
{
    for (int32_t b = 0; b < search->n; b++)
        search->rating[b] = 1;
}

/* Ratings by equation 5 need K_c, the bytes moved per byte of output; it is taken from the plan with even
 * shares. */
static int set_ratings(struct search *search)
{
    set_even(search);
    if (search->options.shares == PLAN_SHARES_FREQUENCY)
        for (int32_t b = 0; b < search->n; b++)
            search->rating[b] = search->boards[b].clock_hz / 1e6;
    if (search->options.shares != PLAN_SHARES_RATING)
        return 0;
    double kc = 1;
    if (search->n > 1) {
        int64_t caps[PLAN_BOARDS_MAX];
        for (int32_t b = 0; b < search->n; b++)
            caps[b] = search->total;
        plan_waterfill(search->total, search->rating, caps, search->n, search->share);
        struct plan *even = build(search);
        if (!even)
            return search->error->status;
        int64_t made = output_bytes(search->graph);
        kc = made > 0 ? (double)even->bytes_moved / (double)made : 1;
        plan_free(even);
    }
    for (int32_t b = 0; b < search->n; b++) {
        const struct plan_board *board = &search->boards[b];
        double k1 = board->k1 > 0 ? board->k1 : own_k1(search->graph, board);
        search->rating[b] =
            plan_rating(board->clock_hz / 1e6, k1, board->delay_s_per_kb, board->bandwidth_kb_per_s, kc);
    }
    return 0;
}

/* ---- what fits ---- */

static void name_largest(const struct plan *plan, int32_t party, struct error_shortfall *out)
{
    struct plan_slice slices[256];
    int32_t n = plan_slices(plan, party, slices, 256), best = -1;
    for (int32_t i = 0; i < n && i < 256; i++)
        if (best < 0 || slices[i].total_bytes > slices[best].total_bytes)
            best = i;
    if (best >= 0)
        snprintf(out->op, sizeof out->op, "%s", plan->graph->ops[slices[best].op].name);
}

/* What does not fit on one board; false when everything does. The arena goes before the flash. */
static bool shortfall(const struct plan *plan, int32_t b, struct error_shortfall *out)
{
    const struct plan_party *party = &plan->parties[b];
    const struct plan_board *board = &plan->boards[b];
    *out = (struct error_shortfall){.segment = -1};
    snprintf(out->board, sizeof out->board, "%s", board->name[0] ? board->name : board->id);
    if (party->arena_bytes > board->arena_bytes) {
        const struct plan_step *step = &party->steps[party->peak_step];
        out->resource = "arena";
        out->segment = step->segment;
        if (step->op >= 0)
            snprintf(out->op, sizeof out->op, "%s", plan->graph->ops[step->op].name);
        out->need_bytes = party->arena_bytes;
        out->have_bytes = board->arena_bytes;
        return true;
    }
    if (party->fragment_bytes <= board->flash_bytes)
        return false;
    out->resource = "flash";
    out->need_bytes = party->fragment_bytes;
    out->have_bytes = board->flash_bytes;
    name_largest(plan, b + 1, out);
    return true;
}

/* Lowers the caps of boards on which the plan does not fit; true when everything fits. */
static bool lower_caps(struct search *search, const struct plan *plan)
{
    bool fits = true;
    for (int32_t b = 0; b < search->n; b++) {
        struct error_shortfall what;
        if (!shortfall(plan, b, &what))
            continue;
        fits = false;
        int64_t share = search->share[b];
        int64_t cap = what.resource[0] == 'f'
                          ? share - (what.need_bytes - what.have_bytes)
                          : (int64_t)((double)share * (double)what.have_bytes / (double)what.need_bytes);
        search->cap[b] = cap < 0 ? 0 : cap >= share ? share - 1 : cap;
    }
    return fits;
}

static int refuse(struct search *search, const struct plan *plan, struct error_shortfall *shortfalls,
                  int32_t *n_shortfalls, int32_t room)
{
    int32_t n = 0;
    struct error_shortfall first = {.segment = -1}, item;
    for (int32_t b = 0; b < search->n; b++) {
        if (!shortfall(plan, b, &item))
            continue;
        if (n == 0)
            first = item;
        if (shortfalls && n < room)
            shortfalls[n] = item;
        n++;
    }
    if (n_shortfalls)
        *n_shortfalls = n < room ? n : room;
    error_set(search->error, STATUS_DOES_NOT_FIT, "board '%s' needs %lld bytes of %s and has %lld%s",
              first.board, (long long)first.need_bytes, first.resource ? first.resource : "memory",
              (long long)first.have_bytes, n > 1 ? "; others fall short too" : "");
    search->error->shortfall = first;
    return STATUS_DOES_NOT_FIT;
}

static void open_caps(struct search *search)
{
    for (int32_t b = 0; b < search->n; b++) {
        int64_t flash = search->boards[b].flash_bytes;
        search->cap[b] = flash < search->total ? (flash > 0 ? flash : 0) : search->total;
    }
}

/* The plan as it would be without caps, to say what is missing where. */
static struct plan *uncapped(struct search *search)
{
    for (int32_t b = 0; b < search->n; b++)
        search->cap[b] = search->total;
    plan_waterfill(search->total, search->rating, search->cap, search->n, search->share);
    return build(search);
}

/* The first level worth a try: the last where no board takes other layouts than plain. */
static int32_t first_level(const struct search *search)
{
    for (int32_t b = 0; b < search->n; b++)
        if (search->boards[b].layouts > NN_LAYOUT_MASK_PLAIN)
            return 0;
    return LEVELS - 1;
}

/* Cuts until all fits, in the mode that moves least first, there with the most scratch first. NULL: refused,
 * or an error. */
static struct plan *fit(struct search *search, struct error_shortfall *shortfalls, int32_t *n_shortfalls,
                        int32_t room)
{
    struct plan *plan = NULL;
    int32_t first = first_level(search), levels = LEVELS - first;
    for (int32_t i = 0; i < MAKER_MODES * levels; i++) {
        search->mode = (enum maker_mode)(i / levels);
        search->level = first + i % levels;
        open_caps(search);
        for (int32_t try = 0; try <= search->n; try++) {
            if (plan_waterfill(search->total, search->rating, search->cap, search->n, search->share) < 0)
                break;
            plan_free(plan);
            plan = build(search);
            if (!plan || lower_caps(search, plan))
                return plan;
        }
    }
    struct plan *open = uncapped(search);
    struct error_shortfall item;
    bool tells = false;
    for (int32_t b = 0; open && b < search->n; b++)
        tells = tells || shortfall(open, b, &item);
    if (tells || (open && !plan))
        refuse(search, open, shortfalls, n_shortfalls, room);
    else if (plan)
        refuse(search, plan, shortfalls, n_shortfalls, room);
    plan_free(open);
    plan_free(plan);
    return NULL;
}

/* A schedule's program at the levels of scratch [from, to): the first that fits the arena. *arena: the least
 * that was found. NULL: none, or search->error is set. */
static struct plan *fit_schedule(struct search *search, int32_t b, const struct schedule *schedule,
                                 const struct schedule_options *options, int32_t from, int32_t to,
                                 int64_t *arena)
{
    *arena = INT64_MAX;
    for (search->level = from; search->level < to; search->level++) {
        struct plan *plan = build_partial(search, schedule, options);
        if (!plan || plan->parties[b].arena_bytes <= search->boards[b].arena_bytes)
            return plan;
        *arena = plan->parties[b].arena_bytes < *arena ? plan->parties[b].arena_bytes : *arena;
        plan_free(plan);
    }
    return NULL;
}

/* The board does all by a schedule of partial execution: the fastest that fits, with as few MACs computed
 * again as it takes. NULL: none fits, *need is the least arena that was found; or search->error is set. */
static struct plan *fit_partial(struct search *search, int32_t b, int32_t from, int32_t to, int64_t *need)
{
    static const double extra_macs[] = {0, 10, 50};
    enum { TRIES = 4 };
    const struct plan_board *board = &search->boards[b];
    struct schedule_board timed = {.clock_hz = board->clock_hz,
                                   .element_per_cycle = board->element_per_cycle,
                                   .flash_bytes_per_s = board->flash_bytes_per_s,
                                   .arena_bytes = board->arena_bytes,
                                   .weight_ram_bytes = board->weight_ram_bytes};
    memcpy(timed.mac_per_cycle, board->mac_per_cycle, sizeof timed.mac_per_cycle);
    for (size_t e = 0; e < sizeof extra_macs / sizeof *extra_macs; e++) {
        struct schedule_options options = {.axes = SCHEDULE_AXES_ALL,
                                           .accumulator = 32,
                                           .extra_macs = extra_macs[e],
                                           .ram = board->arena_bytes,
                                           .board = &timed};
        for (int try = 0; try <= TRIES; try++) {
            struct error error;
            int64_t arena;
            error_clear(&error);
            if (try == TRIES || options.ram <= 0) {
                options.ram = 0; /* the least memory */
                try = TRIES;
            }
            if (stop_check(search->error) < 0)
                return NULL;
            struct schedule *schedule = schedule_make(search->graph, &options, &error);
            if (!schedule && try == 0 && error.shortfall.need_bytes > 0 && error.shortfall.need_bytes < *need)
                *need = error.shortfall.need_bytes;
            if (!schedule && try == 0) /* less memory is asked for only from here on */
                break;
            if (!schedule)
                continue;
            struct plan *plan = fit_schedule(search, b, schedule, &options, from, to, &arena);
            schedule_free(schedule);
            if (!plan && search->error->status == STATUS_MODEL_UNSUPPORTED) { /* no program says it */
                error_clear(search->error);
                break;
            }
            if (plan || search->error->status != STATUS_OK)
                return plan;
            /* packing took more than the schedule counted: ask for one that counts less */
            *need = arena < *need ? arena : *need;
            options.ram -= arena - board->arena_bytes;
        }
    }
    return NULL;
}

/* The board does all at the levels of scratch [from, to): operator by operator where that fits, else by a
 * schedule. NULL with *item: nothing fits; or search->error is set. */
static struct plan *fit_levels(struct search *search, int32_t b, int32_t from, int32_t to,
                               struct error_shortfall *item)
{
    struct plan *plan = NULL;
    for (search->level = from; search->level < to; search->level++) {
        plan_free(plan);
        plan = build(search);
        if (!plan || !shortfall(plan, b, item))
            return plan;
    }
    plan_free(plan);
    if (item->resource[0] != 'a')
        return NULL;
    plan = fit_partial(search, b, from, to, &item->need_bytes);
    if (!plan || !shortfall(plan, b, item))
        return plan;
    plan_free(plan);
    return NULL;
}

/* One board does all: the first on which it fits, with kernels that want scratch before those that want none.
 */
static struct plan *fit_single(struct search *search, struct error_shortfall *shortfalls,
                               int32_t *n_shortfalls, int32_t room)
{
    int32_t n = 0, first = first_level(search);
    search->mode = MAKER_KEEP;
    for (int32_t b = 0; b < search->n; b++) {
        struct error_shortfall item;
        struct plan *plan = NULL;
        for (int32_t i = 0; i < search->n; i++)
            search->share[i] = i == b ? search->total : 0;
        if (first < LEVELS - 1)
            plan = fit_levels(search, b, first, LEVELS - 1, &item);
        if (!plan && search->error->status == STATUS_OK)
            plan = fit_levels(search, b, LEVELS - 1, LEVELS, &item);
        if (plan || search->error->status != STATUS_OK)
            return plan;
        if (item.resource[0] == 'a') /* arenas are multiples of 16 */
            item.need_bytes = (item.need_bytes + 15) / 16 * 16;
        if (n == 0) {
            error_set(search->error, STATUS_DOES_NOT_FIT, "board '%s' needs %lld bytes of %s and has %lld",
                      item.board, (long long)item.need_bytes, item.resource, (long long)item.have_bytes);
            search->error->shortfall = item;
        }
        if (shortfalls && n < room)
            shortfalls[n] = item;
        n++;
        search->error->status = STATUS_OK;
    }
    search->error->status = STATUS_DOES_NOT_FIT;
    if (n_shortfalls)
        *n_shortfalls = n < room ? n : room;
    return NULL;
}

static int check_board(const struct plan_board *board, struct error *error)
{
    double positive[] = {board->clock_hz,         board->mac_per_cycle[0],   board->mac_per_cycle[1],
                         board->mac_per_cycle[2], board->mac_per_cycle[3],   board->element_per_cycle,
                         board->link_bytes_per_s, board->crypto_bytes_per_s, board->flash_bytes_per_s};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (!isfinite(positive[i]) || positive[i] <= 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "board '%s' has a rate that is not above 0",
                             board->name);
    if (!(board->message_latency_s >= 0) || !(board->extra_message_cpu_s >= 0) ||
        !(board->delay_s_per_kb >= 0))
        return error_set(error, STATUS_INVALID_ARGUMENT, "board '%s' has a negative delay", board->name);
    return 0;
}

/* A board's COPY shifts by at most this much. */
static int check_joins(const struct graph *graph, struct error *error)
{
    for (int32_t i = 0; i < graph->n_ops; i++) {
        const struct op *op = &graph->ops[i];
        const struct op_row *row = op_row(op->kind);
        struct shape out = graph->tensors[op->output].shape;
        int32_t size = op->axis == 0 ? out.h : op->axis == 1 ? out.w : out.c;
        if (!maker_runs(graph, op) || row->kernel != OP_KERNEL_COPY || row->max_inputs == 1 ||
            size <= INT16_MAX)
            continue;
        error_set(error, STATUS_MODEL_LIMIT, "a concatenation of %d along its axis, the limit is %d", size,
                  INT16_MAX);
        error_at_layer(error, op->name, op->file_op);
        error_limit(error, INT16_MAX, size);
        return STATUS_MODEL_LIMIT;
    }
    return 0;
}

static int check_arguments(struct search *search)
{
    if (search->n < 1)
        return error_set(search->error, STATUS_TOO_FEW_BOARDS, "a plan needs at least one board");
    if (search->n > PLAN_BOARDS_MAX)
        return error_set(search->error, STATUS_INVALID_ARGUMENT, "%d boards, the limit is %d", search->n,
                         PLAN_BOARDS_MAX);
    if (search->options.strategy == PLAN_STRATEGY_CHANNELS ||
        search->options.strategy == PLAN_STRATEGY_STRIPS)
        return error_set(search->error, STATUS_STRATEGY_UNSUPPORTED,
                         "strategy '%s' is not there yet; neuron and single are",
                         plan_strategy_name(search->options.strategy));
    if (search->options.strategy == PLAN_STRATEGY_AUTO)
        search->options.strategy = search->n == 1 ? PLAN_STRATEGY_SINGLE : PLAN_STRATEGY_NEURON;
    for (int32_t b = 0; b < search->n; b++)
        if (check_board(&search->boards[b], search->error) < 0)
            return search->error->status;
    return check_joins(search->graph, search->error);
}

static struct plan *hashed(struct plan *plan, struct error *error)
{
    if (!plan || json_plan_hash(plan, plan->hash) == 0)
        return plan;
    error_set(error, STATUS_NO_MEMORY, "no memory for the plan");
    plan_free(plan);
    return NULL;
}

struct plan *plan_make(const struct graph *graph, const char *version, const struct plan_board *boards,
                       int32_t n_boards, const struct plan_options *options,
                       struct error_shortfall *shortfalls, int32_t *n_shortfalls, struct error *error)
{
    struct error own;
    struct search search = {.graph = graph,
                            .version = version,
                            .boards = boards,
                            .n = n_boards,
                            .options = *options,
                            .error = error ? error : &own};
    int32_t room = n_shortfalls ? *n_shortfalls : 0;
    if (n_shortfalls)
        *n_shortfalls = 0;
    error_clear(search.error);
    if (check_arguments(&search) < 0)
        return NULL;
    search.total = weights_whole(graph);
    if (search.total == 0)
        search.total = PLAN_SHARE_WHOLE;
    search.level = first_level(&search);
    if (set_ratings(&search) < 0)
        return NULL;
    struct plan *plan = search.options.strategy == PLAN_STRATEGY_SINGLE
                            ? fit_single(&search, shortfalls, n_shortfalls, room)
                            : fit(&search, shortfalls, n_shortfalls, room);
    return hashed(plan, search.error);
}

struct plan *plan_scheduled(const struct graph *graph, const char *version, const struct plan_board *board,
                            const struct schedule *schedule, const struct schedule_options *options,
                            struct error *error)
{
    struct error own;
    struct search search = {.graph = graph,
                            .version = version,
                            .boards = board,
                            .n = 1,
                            .options = {.strategy = PLAN_STRATEGY_SINGLE},
                            .error = error ? error : &own,
                            .partial = schedule,
                            .partial_options = options};
    error_clear(search.error);
    if (check_arguments(&search) < 0)
        return NULL;
    search.total = search.share[0] = PLAN_SHARE_WHOLE;
    search.rating[0] = 1;
    return hashed(build(&search), search.error);
}
