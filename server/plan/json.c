/*
 * A plan as JSON, whole, and its hash. Lists of records are arrays of numbers, since a plan has thousands of
 * them. The canonical form has sorted keys and no spaces; the hash covers all that planning decides, so
 * neither "hash" nor what emit adds ("fragments", "fragment_bytes"), nor "forms", which is for people.
 */
#include "server/plan/json.h"

#include "server/base/hash.h"

#include <stdlib.h>
#include <string.h>

static void put_int(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

static void put_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(value));
}

static json_t *numbers(const int64_t *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_integer(values[i]));
    return array;
}

#define NUMBERS(...) \
    numbers((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define BOX(b) (b).h0, (b).h1, (b).w0, (b).w1, (b).c0, (b).c1

static json_t *times_json(const struct plan_times *times)
{
    json_t *array = json_array();
    json_array_append_new(array, json_real(times->start_ms));
    json_array_append_new(array, json_real(times->computing_ms));
    json_array_append_new(array, json_real(times->moving_ms));
    json_array_append_new(array, json_real(times->waiting_ms));
    json_array_append_new(array, json_real(times->flash_ms));
    return array;
}

static json_t *buffers_json(const struct plan_party *party)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < party->n_buffers; i++) {
        const struct plan_buffer *b = &party->buffers[i];
        json_array_append_new(
            array, NUMBERS(b->tensor, b->elem, b->offset, b->bytes, b->first, b->last, BOX(b->box)));
    }
    return array;
}

static json_t *steps_json(const struct plan_party *party)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < party->n_steps; i++) {
        const struct plan_step *s = &party->steps[i];
        json_array_append_new(array, NUMBERS(s->kind, s->segment, s->op, s->input, s->in[0], s->in[1], s->out,
                                             s->scratch, s->transfer, s->rank, BOX(s->box)));
    }
    return array;
}

static json_t *party_json(const struct plan *plan, const struct plan_party *party)
{
    json_t *object = json_object(), *resident = json_array();
    for (int32_t i = 0; i < plan->graph->n_ops; i++)
        if (party->resident[i])
            json_array_append_new(resident, json_integer(i));
    put_int(object, "share", party->share);
    put_real(object, "rating_kb_per_s", party->rating_kb_per_s);
    json_object_set_new(object, "buffers", buffers_json(party));
    json_object_set_new(object, "steps", steps_json(party));
    json_object_set_new(object, "resident", resident);
    put_int(object, "peak_bytes", party->peak_bytes);
    put_int(object, "peak_step", party->peak_step);
    put_int(object, "arena_bytes", party->arena_bytes);
    put_int(object, "scratch_bytes", party->scratch_bytes);
    put_int(object, "weight_bytes", party->weight_bytes);
    put_int(object, "resident_bytes", party->resident_bytes);
    put_int(object, "bytes_sent", party->bytes_sent);
    put_int(object, "bytes_received", party->bytes_received);
    json_object_set_new(object, "times", times_json(&party->times));
    json_object_set_new(object, "used", json_boolean(party->used));
    if (party->program)
        json_object_set_new(object, "program", json_program(party));
    return object;
}

static json_t *segments_json(const struct plan *plan)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->n_segments; i++) {
        json_t *object = json_object(), *times = json_array();
        for (int32_t b = 0; b < plan->n_boards; b++)
            json_array_append_new(times, times_json(&plan->segments[i].times[b]));
        put_int(object, "first_op", plan->segments[i].first_op);
        put_int(object, "last_op", plan->segments[i].last_op);
        json_object_set_new(object, "times", times);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *pieces_json(const struct plan_piece *pieces, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(array,
                              NUMBERS(pieces[i].party, pieces[i].form, pieces[i].rank, BOX(pieces[i].box)));
    return array;
}

static json_t *exchanges_json(const struct plan *plan)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < plan->n_exchanges; i++) {
        const struct plan_exchange *exchange = &plan->exchanges[i];
        json_t *object = json_object();
        put_int(object, "tensor", exchange->tensor);
        put_int(object, "rank", exchange->rank);
        json_object_set_new(object, "have", pieces_json(exchange->have, exchange->n_have));
        json_object_set_new(object, "want", pieces_json(exchange->want, exchange->n_want));
        json_object_set_new(object, "input", json_boolean(plan->table.exchanges[i].is_input));
        json_object_set_new(object, "output", json_boolean(plan->table.exchanges[i].is_output));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *transfers_json(const struct plan *plan)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->table.n_transfers; i++) {
        const struct conduct_transfer *t = &plan->table.transfers[i];
        json_array_append_new(array,
                              NUMBERS(t->id, t->exchange, t->rank, t->from, t->to, t->wire, BOX(t->box)));
    }
    return array;
}

/* What the hash covers. */
static json_t *core_json(const struct plan *plan)
{
    json_t *object = json_object(), *boards = json_array(), *parties = json_array();
    for (int32_t b = 0; b < plan->n_boards; b++) {
        json_array_append_new(boards, plan_board_json(&plan->boards[b]));
        json_array_append_new(parties, party_json(plan, &plan->parties[b]));
    }
    put_int(object, "format", 1);
    json_object_set_new(object, "version", json_string(plan->version));
    json_object_set_new(object, "strategy", json_string(plan_strategy_name(plan->options.strategy)));
    json_object_set_new(object, "shares", json_string(plan_shares_name(plan->options.shares)));
    put_int(object, "objective", plan->options.objective);
    json_object_set_new(object, "boards", boards);
    json_object_set_new(object, "parties", parties);
    json_object_set_new(object, "segments", segments_json(plan));
    json_object_set_new(object, "exchanges", exchanges_json(plan));
    json_object_set_new(object, "transfers", transfers_json(plan));
    put_real(object, "latency_ms", plan->latency_ms);
    put_real(object, "computing_ms", plan->computing_ms);
    put_real(object, "moving_ms", plan->moving_ms);
    put_real(object, "waiting_ms", plan->waiting_ms);
    put_real(object, "flash_ms", plan->flash_ms);
    put_real(object, "throughput_per_s", plan->throughput_per_s);
    put_int(object, "coordinator_bytes", plan->coordinator_bytes);
    put_int(object, "bytes_moved", plan->bytes_moved);
    put_int(object, "rounds", plan->rounds);
    return object;
}

static int hash_json(json_t *core, char hash[65])
{
    uint8_t digest[HASH_BYTES];
    char *text = json_dumps(core, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text)
        return STATUS_NO_MEMORY;
    hash_sha256(text, strlen(text), digest);
    hash_hex(digest, hash);
    free(text);
    return 0;
}

int json_plan_hash(const struct plan *plan, char hash[65])
{
    json_t *core = core_json(plan);
    int status = core ? hash_json(core, hash) : STATUS_NO_MEMORY;
    json_decref(core);
    return status;
}

int plan_json_set_board(json_t *plan, int32_t party, const struct plan_board *board)
{
    json_t *boards = json_object_get(plan, "boards"), *other;
    json_t *former = json_incref(json_array_get(boards, (size_t)party - 1)), *core = json_copy(plan);
    char hash[65];
    size_t i;
    int status = former && core ? 0 : STATUS_NO_MEMORY;
    json_array_foreach(boards, i, other)
    {
        const char *id = json_string_value(json_object_get(other, "id"));
        if (status == 0 && id && strcmp(id, board->id) == 0)
            json_array_set(boards, i, former);
    }
    if (status == 0 && json_array_set_new(boards, (size_t)party - 1, plan_board_json(board)) < 0)
        status = STATUS_NO_MEMORY;
    json_object_del(core, "hash");
    json_object_del(core, "fragments");
    json_object_del(core, "forms");
    if (status == 0)
        status = hash_json(core, hash);
    if (status == 0)
        json_object_set_new(plan, "hash", json_string(hash));
    json_decref(core);
    json_decref(former);
    return status;
}

json_t *plan_to_json(const struct plan *plan)
{
    json_t *object = core_json(plan), *fragments = json_array(), *forms = json_array();
    for (int32_t b = 0; b < plan->n_boards; b++) {
        json_array_append_new(forms, json_forms(&plan->parties[b]));
        char hex[HASH_HEX_BYTES];
        hash_hex(plan->table.fragments[b], hex);
        json_t *fragment = json_object();
        json_object_set_new(fragment, "hash", json_string(hex));
        put_int(fragment, "bytes", plan->parties[b].fragment_bytes);
        json_array_append_new(fragments, fragment);
    }
    json_object_set_new(object, "forms", forms);
    json_object_set_new(object, "fragments", fragments);
    json_object_set_new(object, "hash", json_string(plan->hash));
    return object;
}

/* ---- reading ---- */

struct reader {
    struct plan *plan;
    const struct graph *graph;
    struct error *error;
    bool bad;
};

static void spoil(struct reader *reader, const char *what)
{
    if (!reader->bad)
        error_set(reader->error, STATUS_BAD_JSON, "not a plan of this model: %s", what);
    reader->bad = true;
}

static void *room(struct reader *reader, size_t n, size_t size)
{
    void *memory = arena_alloc(reader->plan->arena, n ? n : 1, size);
    if (!memory) {
        error_set(reader->error, STATUS_NO_MEMORY, "no memory for the plan");
        reader->bad = true;
    }
    return memory;
}

static int64_t get_int(struct reader *reader, json_t *object, const char *key, int64_t lo, int64_t hi)
{
    json_t *value = json_object_get(object, key);
    if (json_is_integer(value) && json_integer_value(value) >= lo && json_integer_value(value) <= hi)
        return json_integer_value(value);
    spoil(reader, key);
    return lo;
}

static double get_real(struct reader *reader, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        spoil(reader, key);
    return json_number_value(value);
}

/* A record of exactly n numbers. */
static void get_numbers(struct reader *reader, json_t *array, int64_t *out, size_t n)
{
    memset(out, 0, n * sizeof *out);
    if (json_array_size(array) != n) {
        spoil(reader, "a record's length");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!json_is_integer(json_array_get(array, i)))
            spoil(reader, "a record's number");
        out[i] = json_integer_value(json_array_get(array, i));
    }
}

static struct box box_of(const int64_t *at)
{
    return (struct box){(int32_t)at[0], (int32_t)at[1], (int32_t)at[2],
                        (int32_t)at[3], (int32_t)at[4], (int32_t)at[5]};
}

static bool within(int64_t x, int64_t lo, int64_t hi)
{
    return x >= lo && x < hi;
}

/* A box within a tensor; an empty one counts where `empty` says so. */
static bool box_in(const struct graph *graph, int64_t tensor, const int64_t *at, bool empty)
{
    if (!within(tensor, 0, graph->n_tensors))
        return false;
    struct shape shape = graph->tensors[tensor].shape;
    for (int i = 0; i < 6; i++)
        if (at[i] < 0 || at[i] > GRAPH_DIM_MAX)
            return false;
    struct box box = box_of(at);
    return box_empty(box) ? empty : box_contains(box_whole(shape), box);
}

static void get_times(struct reader *reader, json_t *array, struct plan_times *times)
{
    double *to[5] = {&times->start_ms, &times->computing_ms, &times->moving_ms, &times->waiting_ms,
                     &times->flash_ms};
    if (json_array_size(array) != 5)
        spoil(reader, "times");
    for (size_t i = 0; i < 5; i++)
        *to[i] = json_number_value(json_array_get(array, i));
}

static void get_buffers(struct reader *reader, json_t *array, struct plan_party *party)
{
    party->n_buffers = (int32_t)json_array_size(array);
    party->buffers = room(reader, json_array_size(array), sizeof *party->buffers);
    for (int32_t i = 0; i < party->n_buffers && !reader->bad; i++) {
        int64_t n[12];
        int32_t n_tensors = reader->graph->n_tensors;
        get_numbers(reader, json_array_get(array, (size_t)i), n, 12);
        if (!within(n[0], 0, n_tensors + (int64_t)reader->graph->n_ops) || !within(n[1], 1, 5) ||
            !within(n[2], 0, UINT32_MAX) || !within(n[3], 0, UINT32_MAX) ||
            (n[0] < n_tensors && !box_in(reader->graph, n[0], n + 6, false)))
            spoil(reader, "a buffer");
        party->buffers[i] = (struct plan_buffer){(int32_t)n[0],  box_of(n + 6), (uint8_t)n[1], (uint32_t)n[2],
                                                 (uint32_t)n[3], (int32_t)n[4], (int32_t)n[5]};
    }
}

static void get_steps(struct reader *reader, json_t *array, struct plan_party *party)
{
    const struct graph *graph = reader->graph;
    party->n_steps = (int32_t)json_array_size(array);
    party->steps = room(reader, json_array_size(array), sizeof *party->steps);
    for (int32_t i = 0; i < party->n_steps && !reader->bad; i++) {
        int64_t n[16];
        get_numbers(reader, json_array_get(array, (size_t)i), n, 16);
        bool task = n[0] == PLAN_STEP_TASK;
        if (!within(n[0], 0, PLAN_STEP_WAIT + 1) || !within(n[1], 0, reader->plan->n_segments) ||
            !within(n[2], task ? 0 : -1, graph->n_ops) ||
            !within(n[3], 0, task ? graph->ops[n[2]].n_inputs : 1) || !within(n[9], 0, UINT32_MAX)) {
            spoil(reader, "a step");
            return;
        }
        for (int k = 4; k < 8; k++)
            if (!within(n[k], -1, party->n_buffers))
                spoil(reader, "a step's buffer");
        bool moves = n[0] == PLAN_STEP_SEND || n[0] == PLAN_STEP_POST;
        if ((moves && !within(n[8], 0, reader->plan->table.n_transfers)) ||
            (task &&
             ((n[6] < 0 && !party->program) || !box_in(graph, graph->ops[n[2]].output, n + 10, false))))
            spoil(reader, "a step");
        party->steps[i] = (struct plan_step){
            (enum plan_step_kind)n[0],      (int32_t)n[1], (int32_t)n[2], (int32_t)n[3],  box_of(n + 10),
            {(int32_t)n[4], (int32_t)n[5]}, (int32_t)n[6], (int32_t)n[7], (uint32_t)n[8], (uint32_t)n[9]};
    }
}

/* Of a party that runs a schedule of partial execution. */
static void get_program(struct reader *reader, json_t *json, struct plan_party *party)
{
    if (json && !reader->bad && !json_program_read(reader->graph, reader->plan->arena, json, party))
        spoil(reader, "program");
}

static void get_party(struct reader *reader, json_t *object, struct plan_party *party)
{
    json_t *resident = json_object_get(object, "resident");
    party->share = get_int(reader, object, "share", 0, PLAN_SHARE_WHOLE);
    party->rating_kb_per_s = get_real(reader, object, "rating_kb_per_s");
    get_buffers(reader, json_object_get(object, "buffers"), party);
    get_program(reader, json_object_get(object, "program"), party);
    get_steps(reader, json_object_get(object, "steps"), party);
    party->resident = room(reader, (size_t)reader->graph->n_ops, 1);
    for (size_t i = 0; i < json_array_size(resident) && !reader->bad; i++) {
        int64_t op = json_integer_value(json_array_get(resident, i));
        if (!within(op, 0, reader->graph->n_ops))
            spoil(reader, "resident");
        else
            party->resident[op] = 1;
    }
    party->peak_bytes = get_int(reader, object, "peak_bytes", 0, INT64_MAX);
    party->peak_step = (int32_t)get_int(reader, object, "peak_step", 0, INT32_MAX);
    party->arena_bytes = get_int(reader, object, "arena_bytes", 0, UINT32_MAX);
    party->scratch_bytes = get_int(reader, object, "scratch_bytes", 0, INT64_MAX);
    if (party->program) {
        party->program->peak_bytes = party->peak_bytes;
        party->program->arena_bytes = party->arena_bytes;
        party->program->scratch_bytes = party->scratch_bytes;
    }
    party->weight_bytes = get_int(reader, object, "weight_bytes", 0, INT64_MAX);
    party->resident_bytes = get_int(reader, object, "resident_bytes", 0, INT64_MAX);
    party->bytes_sent = get_int(reader, object, "bytes_sent", 0, INT64_MAX);
    party->bytes_received = get_int(reader, object, "bytes_received", 0, INT64_MAX);
    get_times(reader, json_object_get(object, "times"), &party->times);
    party->used = json_is_true(json_object_get(object, "used"));
}

static void get_segments(struct reader *reader, json_t *array)
{
    struct plan *plan = reader->plan;
    plan->n_segments = (int32_t)json_array_size(array);
    plan->segments = room(reader, json_array_size(array), sizeof *plan->segments);
    for (int32_t i = 0; i < plan->n_segments && !reader->bad; i++) {
        json_t *object = json_array_get(array, (size_t)i), *times = json_object_get(object, "times");
        struct plan_segment *segment = &plan->segments[i];
        segment->first_op = (int32_t)get_int(reader, object, "first_op", 0, reader->graph->n_ops - 1);
        segment->last_op = (int32_t)get_int(reader, object, "last_op", 0, reader->graph->n_ops - 1);
        segment->times = room(reader, (size_t)plan->n_boards, sizeof *segment->times);
        if (json_array_size(times) != (size_t)plan->n_boards)
            spoil(reader, "a segment's times");
        for (int32_t b = 0; b < plan->n_boards && !reader->bad; b++)
            get_times(reader, json_array_get(times, (size_t)b), &segment->times[b]);
    }
}

static struct plan_piece *get_pieces(struct reader *reader, json_t *array, int32_t tensor, int32_t *n)
{
    struct plan_piece *pieces = room(reader, json_array_size(array), sizeof *pieces);
    *n = (int32_t)json_array_size(array);
    for (int32_t i = 0; i < *n && !reader->bad; i++) {
        int64_t v[9];
        get_numbers(reader, json_array_get(array, (size_t)i), v, 9);
        if (!within(v[0], 1, reader->plan->n_boards + 1) || !within(v[1], 0, PLAN_FORM_SUM + 1) ||
            !within(v[2], 0, UINT32_MAX) || !box_in(reader->graph, tensor, v + 3, false))
            spoil(reader, "a piece");
        pieces[i] = (struct plan_piece){(uint16_t)v[0], (enum plan_form)v[1], (uint32_t)v[2], box_of(v + 3)};
    }
    return pieces;
}

static void get_exchanges(struct reader *reader, json_t *array)
{
    struct plan *plan = reader->plan;
    size_t n = json_array_size(array);
    plan->n_exchanges = (int32_t)n;
    plan->table.n_exchanges = (uint32_t)n;
    plan->exchanges = room(reader, n, sizeof *plan->exchanges);
    plan->table.exchanges = room(reader, n, sizeof *plan->table.exchanges);
    for (size_t i = 0; i < n && !reader->bad; i++) {
        json_t *object = json_array_get(array, i);
        struct plan_exchange *exchange = &plan->exchanges[i];
        exchange->tensor = (int32_t)get_int(reader, object, "tensor", 0, reader->graph->n_tensors - 1);
        exchange->rank = (uint32_t)get_int(reader, object, "rank", 0, UINT32_MAX - 1);
        exchange->have =
            get_pieces(reader, json_object_get(object, "have"), exchange->tensor, &exchange->n_have);
        exchange->want =
            get_pieces(reader, json_object_get(object, "want"), exchange->tensor, &exchange->n_want);
        plan->table.exchanges[i] = (struct conduct_exchange){
            exchange->tensor, reader->graph->tensors[exchange->tensor].shape,
            json_is_true(json_object_get(object, "input")), json_is_true(json_object_get(object, "output"))};
    }
}

static void get_transfers(struct reader *reader, json_t *array)
{
    struct plan *plan = reader->plan;
    size_t n = json_array_size(array);
    plan->table.n_transfers = (uint32_t)n;
    plan->table.transfers = room(reader, n, sizeof *plan->table.transfers);
    for (size_t i = 0; i < n && !reader->bad; i++) {
        int64_t v[12];
        get_numbers(reader, json_array_get(array, i), v, 12);
        if (!within(v[0], 0, UINT16_MAX + 1) || !within(v[1], 0, plan->n_exchanges) ||
            !within(v[2], 0, UINT32_MAX) || !within(v[3], 0, plan->n_boards + 1) ||
            !within(v[4], 0, plan->n_boards + 1) || (v[3] == 0) == (v[4] == 0) || !within(v[5], 0, 3) ||
            !box_in(reader->graph, plan->exchanges[v[1]].tensor, v + 6, false)) {
            spoil(reader, "a transfer");
            return;
        }
        plan->table.transfers[i] =
            (struct conduct_transfer){(uint16_t)v[0], (uint16_t)v[1], (uint32_t)v[2], (uint16_t)v[3],
                                      (uint16_t)v[4], (uint8_t)v[5],  box_of(v + 6)};
    }
}

static void get_fragments(struct reader *reader, json_t *array)
{
    struct plan *plan = reader->plan;
    if (json_array_size(array) != (size_t)plan->n_boards)
        spoil(reader, "fragments");
    for (int32_t b = 0; b < plan->n_boards && !reader->bad; b++) {
        json_t *object = json_array_get(array, (size_t)b);
        const char *hex = json_string_value(json_object_get(object, "hash"));
        if (!hex || !hash_from_hex(hex, plan->table.fragments[b]))
            spoil(reader, "a fragment's hash");
        plan->parties[b].fragment_bytes = get_int(reader, object, "bytes", 0, INT64_MAX);
    }
}

static void get_forms(struct reader *reader, json_t *array)
{
    struct plan *plan = reader->plan;
    for (int32_t b = 0; b < plan->n_boards && !reader->bad; b++)
        if (!json_forms_read(reader->graph, plan->arena, json_array_get(array, (size_t)b), &plan->parties[b]))
            spoil(reader, "forms");
}

static void get_options(struct reader *reader, json_t *json)
{
    struct plan *plan = reader->plan;
    const char *version = json_string_value(json_object_get(json, "version"));
    const char *strategy = json_string_value(json_object_get(json, "strategy"));
    const char *shares = json_string_value(json_object_get(json, "shares"));
    if (get_int(reader, json, "format", 0, INT32_MAX) != 1 || !version ||
        strlen(version) >= sizeof plan->version || !strategy ||
        plan_strategy_from_name(strategy, &plan->options.strategy) < 0 || !shares ||
        plan_shares_from_name(shares, &plan->options.shares) < 0) {
        spoil(reader, "options");
        return;
    }
    memcpy(plan->version, version, strlen(version) + 1);
    plan->options.objective =
        (enum plan_objective)get_int(reader, json, "objective", 0, PLAN_OBJECTIVE_THROUGHPUT);
}

static void get_sums(struct reader *reader, json_t *json)
{
    struct plan *plan = reader->plan;
    plan->latency_ms = plan->table.predicted_ms = get_real(reader, json, "latency_ms");
    plan->computing_ms = get_real(reader, json, "computing_ms");
    plan->moving_ms = get_real(reader, json, "moving_ms");
    plan->waiting_ms = get_real(reader, json, "waiting_ms");
    plan->flash_ms = get_real(reader, json, "flash_ms");
    plan->throughput_per_s = get_real(reader, json, "throughput_per_s");
    plan->coordinator_bytes = get_int(reader, json, "coordinator_bytes", 0, INT64_MAX);
    plan->bytes_moved = get_int(reader, json, "bytes_moved", 0, INT64_MAX);
    plan->rounds = (int32_t)get_int(reader, json, "rounds", 0, INT32_MAX);
}

static void get_boards(struct reader *reader, json_t *json)
{
    struct plan *plan = reader->plan;
    struct plan_board *boards = NULL;
    if (plan_boards_from_json(json_object_get(json, "boards"), &boards, &plan->n_boards, reader->error) < 0) {
        reader->bad = true;
        return;
    }
    size_t n = (size_t)plan->n_boards;
    plan->boards = arena_copy(plan->arena, boards, n * sizeof *boards);
    plan->parties = room(reader, n, sizeof *plan->parties);
    plan->table.fragments = room(reader, n, sizeof *plan->table.fragments);
    plan->table.parties = (uint16_t)n;
    free(boards);
    if (json_array_size(json_object_get(json, "parties")) != n || !plan->boards)
        spoil(reader, "parties");
}

static void get_plan(struct reader *reader, json_t *json)
{
    get_options(reader, json);
    if (!reader->bad)
        get_boards(reader, json);
    if (!reader->bad)
        get_segments(reader, json_object_get(json, "segments"));
    if (!reader->bad)
        get_exchanges(reader, json_object_get(json, "exchanges"));
    if (!reader->bad)
        get_transfers(reader, json_object_get(json, "transfers"));
    for (int32_t b = 0; !reader->bad && b < reader->plan->n_boards; b++)
        get_party(reader, json_array_get(json_object_get(json, "parties"), (size_t)b),
                  &reader->plan->parties[b]);
    if (!reader->bad)
        get_fragments(reader, json_object_get(json, "fragments"));
    get_forms(reader, json_object_get(json, "forms"));
    if (!reader->bad)
        get_sums(reader, json);
}

struct plan *plan_from_json(const struct graph *graph, json_t *json, struct error *error)
{
    struct error own;
    enum { LIMIT = 512 * 1024 * 1024 };
    struct arena *arena = arena_new(LIMIT);
    struct reader reader = {.graph = graph, .error = error ? error : &own};
    error_clear(reader.error);
    reader.plan = arena ? arena_alloc(arena, 1, sizeof *reader.plan) : NULL;
    if (!reader.plan) {
        arena_free(arena);
        error_set(reader.error, STATUS_NO_MEMORY, "no memory for the plan");
        return NULL;
    }
    reader.plan->arena = arena;
    reader.plan->graph = graph;
    get_plan(&reader, json);
    const char *hash = json_string_value(json_object_get(json, "hash"));
    if (!reader.bad &&
        (json_plan_hash(reader.plan, reader.plan->hash) < 0 || !hash || strcmp(hash, reader.plan->hash) != 0))
        spoil(&reader, "the hash is another");
    if (!reader.bad)
        return reader.plan;
    plan_free(reader.plan);
    return NULL;
}
