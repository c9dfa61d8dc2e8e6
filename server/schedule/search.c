/*
 * The search: states are sets of operators that are done, moves lead from one to a larger one, the least peak
 * is a shortest path whose length is the largest move on it. States are expanded in the order of that length,
 * so only those are met that a schedule within the answer can pass. What remains to be done says everything
 * about a state: loops are closed within a move.
 *
 * With a budget of extra MACs or a limit of memory all states within the bound are expanded; then the least
 * threshold with a path within the budget is found by bisection, and of the paths under it the fastest is
 * taken. A search fails when the server is ending (server/base/stop.h).
 */
#include "server/schedule/search.h"

#include "server/base/stop.h"

#include <stdlib.h>
#include <string.h>

enum { STATES_MAX = 2000, LOOPS_MAX = 1000, LOOPS_WIDE = 60 };
enum { GUESSES = 100000 }; /* moves to look at for patches that make nothing smaller, but perhaps faster */
enum {
    LOOPS_WORK = 200000,
    LOOPS_WORK_QUICK = 60000,
    ROWS_WORK = 200000000,
    BRANCHES_WORK = 20000000,
    PATCHES_WORK = 20000
};

struct queued {
    int64_t peak;
    int32_t state, done_ops;
};

struct search {
    const struct net *net;
    const struct schedule_options *options;
    done_word *bits; /* of state i: from i * words on */
    int32_t words;
    struct state *states;
    int32_t n_states, room_states;
    struct edge *edges;
    int32_t n_edges, room_edges;
    int32_t *slots;
    uint32_t n_slots;
    struct queued *heap;
    int32_t n_heap, room_heap;
    int64_t budget;                   /* extra MACs */
    int64_t bound;                    /* moves above are not kept */
    struct work work;                 /* what may still be tried */
    int32_t at, goal;                 /* at: the state that is being expanded */
    int32_t part;                     /* of the edges that are being added */
    bool ordered, exhaustive, failed; /* ordered: few orders of a wide graph */
};

static done_word *bits_of(const struct search *search, int32_t state)
{
    return search->bits + (size_t)state * (size_t)search->words;
}

/* Doubles `*array` of `*room` items of `size` bytes if `n` are in it. */
static bool make_room(void *array, int32_t n, int32_t *room, size_t size)
{
    if (n < *room)
        return true;
    int32_t more = *room ? *room * 2 : 256;
    void *old, *larger;
    memcpy(&old, array, sizeof old);
    larger = realloc(old, (size_t)more * size);
    if (!larger)
        return false;
    memcpy(array, &larger, sizeof larger);
    *room = more;
    return true;
}

static uint64_t hash_of(const struct search *search, const done_word *bits)
{
    uint64_t hash = 88172645463325252u;
    for (int32_t w = 0; w < search->words; w++) {
        hash = (hash ^ bits[w]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Nothing is done behind an operator that is not. There is always room for these states: the order of the
 * graph leads through them to the end. */
static bool is_prefix(const struct search *search, const done_word *bits)
{
    bool ended = false;
    for (int32_t o = 0; o < search->net->n_ops; o++) {
        if (ended && done_has(bits, o))
            return false;
        ended |= !done_has(bits, o);
    }
    return true;
}

static int32_t find_state(struct search *search, const done_word *bits)
{
    for (uint64_t slot = hash_of(search, bits) % search->n_slots;; slot = (slot + 1) % search->n_slots) {
        int32_t state = search->slots[slot];
        if (state != NO_STATE && memcmp(bits_of(search, state), bits, (size_t)search->words * sizeof *bits))
            continue;
        if (state != NO_STATE)
            return state;
        if (search->n_states >= STATES_MAX && !(search->ordered && is_prefix(search, bits))) {
            search->exhaustive = false;
            return NO_STATE;
        }
        if (!make_room(&search->states, search->n_states, &search->room_states, sizeof *search->states)) {
            search->failed = true;
            return NO_STATE;
        }
        state = search->n_states++;
        memcpy(bits_of(search, state), bits, (size_t)search->words * sizeof *bits);
        search->states[state] = (struct state){.peak = INT64_MAX};
        for (int32_t o = 0; o < search->net->n_ops; o++)
            search->states[state].done_ops += done_has(bits, o);
        search->slots[slot] = state;
        return state;
    }
}

/* ---- states by peak; among equals the one with more done. A state may stand in the heap more than once ----
 */

static bool before(struct queued a, struct queued b)
{
    return a.peak != b.peak ? a.peak < b.peak : a.done_ops > b.done_ops;
}

static void push_key(struct search *search, int32_t state, int64_t key)
{
    if (!make_room(&search->heap, search->n_heap, &search->room_heap, sizeof *search->heap)) {
        search->failed = true;
        return;
    }
    struct queued item = {key, state, search->states[state].done_ops};
    int32_t i = search->n_heap++;
    for (; i > 0 && before(item, search->heap[(i - 1) / 2]); i = (i - 1) / 2)
        search->heap[i] = search->heap[(i - 1) / 2];
    search->heap[i] = item;
}

static void push(struct search *search, int32_t state)
{
    push_key(search, state, search->states[state].peak);
}

static int32_t pop(struct search *search)
{
    struct queued top = search->heap[0], last = search->heap[--search->n_heap];
    int32_t i = 0;
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child + 1 < search->n_heap && before(search->heap[child + 1], search->heap[child]))
            child++;
        if (child >= search->n_heap || !before(search->heap[child], last))
            break;
        search->heap[i] = search->heap[child];
        i = child;
    }
    search->heap[i] = last;
    return top.state;
}

/* ---- moves ---- */

static void take_move(void *context, const struct move *move)
{
    struct search *search = context;
    if (search->failed || move_peak(move) > search->bound)
        return;
    done_word bits[SCHEDULE_OPS_MAX / 64 + 1];
    memcpy(bits, bits_of(search, search->at), (size_t)search->words * sizeof *bits);
    for (int32_t i = move->again; i < move->n_ops; i++)
        done_add(bits, move->ops[i]);
    int32_t to = find_state(search, bits);
    if (to == NO_STATE)
        return;
    if (!make_room(&search->edges, search->n_edges, &search->room_edges, sizeof *search->edges)) {
        search->failed = true;
        return;
    }
    search->edges[search->n_edges++] = (struct edge){search->at, to, *move};
    search->states[search->at].n_edges[search->part]++;
}

/* In a wide graph only moves with the first operator that remains, so that there are few states. */
static void take_ordered(void *context, const struct move *move)
{
    struct search *search = context;
    const done_word *done = bits_of(search, search->at);
    int32_t first = 0;
    while (first < search->net->n_ops && done_has(done, first))
        first++;
    for (int32_t i = 0; i < move->n_ops; i++)
        if (move->ops[i] == first)
            take_move(context, move);
}

static void expand_plain(struct search *search, const done_word *done)
{
    const struct net *net = search->net;
    for (int32_t op = 0; op < net->n_ops; op++)
        if (net_ready(net, done, op)) {
            struct move move;
            loops_full(net, done, search->options, op, &move);
            take_move(search, &move);
            if (search->ordered)
                break;
        }
    if (search->options->axes == SCHEDULE_AXES_CHANNELS || search->options->axes == SCHEDULE_AXES_ALL)
        search->exhaustive &= loops_each(net, done, search->options, search->ordered ? LOOPS_WIDE : LOOPS_MAX,
                                         &search->work, search->ordered ? take_ordered : take_move, search);
    if (search->options->axes >= SCHEDULE_AXES_ROWS)
        rows_each(net, done, search->options, &search->work, take_move, search);
    if (search->options->axes >= SCHEDULE_AXES_ROWS)
        rows_each_branch(net, done, search->options, search->ordered, &search->work, take_move, search);
}

static void expand_again(struct search *search, const done_word *done)
{
    rows_each_again(search->net, done, search->options, &search->work, take_move, search);
    if (search->options->axes == SCHEDULE_AXES_ALL && !search->options->streamed)
        patches_each(search->net, done, search->options, search->bound, search->budget, &search->work,
                     take_move, search);
}

static void expand(struct search *search, int32_t state, int32_t part)
{
    if (search->states[state].expanded[part])
        return;
    done_word done[SCHEDULE_OPS_MAX / 64 + 1];
    memcpy(done, bits_of(search, state), (size_t)search->words * sizeof *done);
    search->at = state;
    search->part = part;
    search->states[state].expanded[part] = true;
    search->states[state].first_edge[part] = search->n_edges;
    if (part == PLAIN)
        expand_plain(search, done);
    else
        expand_again(search, done);
}

/* The least peak; NO_STATE: not found. */
static int32_t cheapest(struct search *search)
{
    search->states[0].peak = net_live(search->net, bits_of(search, 0), search->options->streamed);
    push(search, 0);
    while (search->n_heap > 0 && !search->failed && (search->exhaustive || search->ordered)) {
        search->failed = stop_asked();
        int32_t state = pop(search);
        if (search->states[state].settled)
            continue;
        search->states[state].settled = true;
        if (state == search->goal)
            return state;
        expand(search, state, PLAIN);
        for (int32_t e = 0; e < search->states[state].n_edges[PLAIN]; e++) {
            const struct edge *edge = &search->edges[search->states[state].first_edge[PLAIN] + e];
            int64_t peak = move_peak(&edge->move);
            peak = peak > search->states[state].peak ? peak : search->states[state].peak;
            if (peak < search->states[edge->to].peak) {
                search->states[edge->to].peak = peak;
                push(search, edge->to);
            }
        }
    }
    return NO_STATE;
}

static int64_t budget_of(const struct net *net, const struct schedule_options *options)
{
    double macs = 0;
    for (int32_t o = 0; o < net->n_ops; o++)
        macs += (double)net->ops[o].macs;
    return (int64_t)(macs * options->extra_macs / 100);
}

/* What the operators take one after the other, whole: more than that is no use unless it is faster. */
static int64_t in_order(const struct net *net, const struct schedule_options *options)
{
    done_word done[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    int64_t peak = net_live(net, done, options->streamed);
    for (int32_t op = 0; op < net->n_ops; op++) {
        struct move move;
        loops_full(net, done, options, op, &move);
        peak = move_peak(&move) > peak ? move_peak(&move) : peak;
        done_add(done, op);
    }
    return peak;
}

/* State 0 is the start. */
static bool search_init(struct search *search, const struct net *net, const struct schedule_options *options,
                        bool ordered)
{
    int64_t bound = in_order(net, options);
    *search = (struct search){
        .net = net,
        .options = options,
        .words = done_words(net),
        .n_slots = 4 * (STATES_MAX + SCHEDULE_OPS_MAX),
        .bound = bound > options->ram ? bound : options->ram,
        .work = {.loops = options->axes == SCHEDULE_AXES_CHANNELS ? LOOPS_WORK_QUICK : LOOPS_WORK,
                 .rows = ROWS_WORK,
                 .branches = BRANCHES_WORK,
                 .patches = PATCHES_WORK},
        .ordered = ordered,
        .exhaustive = true};
    search->bits =
        malloc(((size_t)STATES_MAX + SCHEDULE_OPS_MAX + 2) * (size_t)search->words * sizeof *search->bits);
    search->slots = malloc(search->n_slots * sizeof *search->slots);
    if (!search->bits || !search->slots)
        return false;
    memset(search->slots, 0xff, search->n_slots * sizeof *search->slots);
    done_word all[SCHEDULE_OPS_MAX / 64 + 1] = {0}, none[SCHEDULE_OPS_MAX / 64 + 1] = {0};
    for (int32_t o = 0; o < net->n_ops; o++)
        done_add(all, o);
    int32_t start = find_state(search, none);
    search->goal = find_state(search, all);
    return start == 0 && search->goal >= 0;
}

static void search_free(struct search *search)
{
    free(search->bits);
    free(search->slots);
    free(search->states);
    free(search->edges);
    free(search->heap);
}

static void follow(struct search *search, int32_t s, int32_t part)
{
    expand(search, s, part);
    for (int32_t e = 0; e < search->states[s].n_edges[part]; e++) {
        const struct edge *edge = &search->edges[search->states[s].first_edge[part] + e];
        int64_t extra = search->states[s].peak + edge->move.extra_macs;
        if (move_peak(&edge->move) > search->bound || extra > search->budget)
            continue;
        if (search->states[edge->to].peak == INT64_MAX)
            push_key(search, edge->to, search->states[edge->to].done_ops);
        if (extra < search->states[edge->to].peak)
            search->states[edge->to].peak = extra;
    }
}

/* All states that moves of at most `bound` bytes lead to within `budget` extra MACs, in the order of what is
 * done: moves lead to larger sets, so a state's extra MACs are known when its turn comes. */
static void expand_all(struct search *search, int64_t bound, int64_t budget)
{
    search->bound = bound;
    search->budget = budget;
    search->n_heap = 0;
    for (int32_t s = 0; s < search->n_states; s++) {
        search->states[s].peak = s == 0 ? 0 : INT64_MAX; /* here: extra MACs */
        search->states[s].settled = false;
    }
    push_key(search, 0, 0);
    while (search->n_heap > 0 && !search->failed) {
        search->failed = stop_asked();
        int32_t s = pop(search);
        if (search->states[s].settled || s == search->goal)
            continue;
        search->states[s].settled = true;
        follow(search, s, PLAIN);
        if (budget > 0)
            follow(search, s, AGAIN);
    }
}

/* The best that the states met allow: the least peak, or the fastest within options.ram, unless `result` is
 * as good. */
static void improve(struct search *search, struct search_result *result)
{
    struct search_result better = {.moves = NULL};
    struct paths paths = {.net = search->net,
                          .options = search->options,
                          .states = search->states,
                          .edges = search->edges,
                          .n_states = search->n_states,
                          .n_edges = search->n_edges,
                          .goal = search->goal,
                          .budget = search->budget};
    int64_t ram = search->options->ram, peak = paths_least(&paths, &search->failed);
    if (peak < 0 || search->failed)
        return;
    int64_t limit = ram > peak ? ram : peak;
    bool found = paths_fastest(&paths, peak, limit, GUESSES, &better);
    int64_t before = result->limit_bytes > ram ? result->limit_bytes : ram;
    if (found &&
        (!result->moves || limit < before || (limit == before && better.seconds < result->seconds))) {
        struct move *worse = result->moves;
        result->moves = better.moves;
        result->n_moves = better.n_moves;
        result->limit_bytes = better.limit_bytes;
        result->seconds = better.seconds;
        better.moves = worse;
    }
    if (!result->peak_bytes || peak < result->peak_bytes)
        result->peak_bytes = peak;
    free(better.moves);
}

/* The least peak without extra MACs, `cap` if it is not below; on true the search is the caller's to free. */
static bool least(struct search *search, const struct net *net, const struct schedule_options *options,
                  bool ordered, int64_t cap, struct search_result *result)
{
    *result = (struct search_result){.moves = NULL};
    bool good = search_init(search, net, options, ordered);
    bool capped = search->bound > cap;
    search->bound = capped ? cap : search->bound;
    bool found = good && cheapest(search) != NO_STATE;
    if (good && !search->failed && (found || (capped && (ordered || search->exhaustive)))) {
        result->exhaustive = search->exhaustive && !ordered && search->work.rows >= 0;
        result->least_bytes = found ? search->states[search->goal].peak : cap;
        return true;
    }
    result->out_of_memory = !good || search->failed;
    search_free(search);
    return false;
}

bool search_least(const struct net *net, const struct schedule_options *options, struct search_result *result)
{
    struct search search;
    if (!least(&search, net, options, false, INT64_MAX, result) &&
        (result->out_of_memory || !least(&search, net, options, true, INT64_MAX, result)))
        return false;
    improve(&search, result);
    result->n_tried = search.n_edges;
    search_free(&search);
    return result->moves != NULL;
}

bool search_run(const struct net *net, const struct schedule_options *options, bool ordered, int64_t cap,
                struct search_result *result)
{
    struct search search;
    int64_t budget = options->axes >= SCHEDULE_AXES_ROWS ? budget_of(net, options) : 0;
    if (!least(&search, net, options, ordered, cap, result))
        return false;
    int64_t bound = options->ram > result->least_bytes ? options->ram : result->least_bytes;
    expand_all(&search, bound, 0);
    improve(&search, result);
    if (budget > 0) {
        expand_all(&search, bound, budget);
        improve(&search, result);
    }
    result->out_of_memory = search.failed;
    search_free(&search);
    return result->moves != NULL;
}
