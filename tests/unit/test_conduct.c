/*
 * The conductor against simulated boards that know nothing of it but ENCODING C: random tables, arrival
 * orders, frame sizes, full links, lost links, aborts, broken frames. No inference may hang, and what ends
 * well has the right bytes.
 */
#include "server/conduct/conduct.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BOARDS = 5, EXCHANGES = 8, TRANSFERS = 400, TABLES = 3, RUNS = 6, QUEUE = 8 };

struct test_table {
    struct conduct_table table;
    struct conduct_transfer transfers[TRANSFERS];
    struct conduct_exchange exchanges[EXCHANGES];
    uint8_t fragments[BOARDS][WIRE_HASH_BYTES];
};

static int by_order(const void *a, const void *b)
{
    const struct conduct_transfer *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->from != y->from)
        return (int)x->from - (int)y->from;
    if (x->to != y->to)
        return (int)x->to - (int)y->to;
    return (int)x->id - (int)y->id;
}

static struct shape random_shape(struct prng *prng)
{
    if (prng_one_in(prng, 4)) /* several frames */
        return (struct shape){prng_range(prng, 8, 40), prng_range(prng, 8, 40), prng_range(prng, 1, 16)};
    return (struct shape){prng_range(prng, 1, 6), prng_range(prng, 1, 6), prng_range(prng, 1, 12)};
}

static struct box random_box(struct prng *prng, struct shape s)
{
    struct box box;
    box.h0 = prng_range(prng, 0, s.h - 1);
    box.h1 = prng_range(prng, box.h0 + 1, s.h);
    box.w0 = prng_range(prng, 0, s.w - 1);
    box.w1 = prng_range(prng, box.w0 + 1, s.w);
    box.c0 = prng_range(prng, 0, s.c - 1);
    box.c1 = prng_range(prng, box.c0 + 1, s.c);
    return box;
}

static void add_transfer(struct test_table *t, uint16_t exchange, uint32_t rank, uint16_t from, uint16_t to,
                         struct box box)
{
    assert_true(t->table.n_transfers < TRANSFERS);
    t->transfers[t->table.n_transfers++] = (struct conduct_transfer){
        .exchange = exchange, .rank = rank, .from = from, .to = to, .wire = FRAGMENT_WIRE_I8, .box = box};
}

/* The tensor of an exchange in channel-major runs over the used parties, each run as up to five boxes. */
static void add_ups(struct prng *prng, struct test_table *t, uint16_t e, const uint16_t *used, int n)
{
    struct shape shape = t->exchanges[e].shape;
    int64_t all = shape_elements(shape), from = 0;
    for (int i = 0; i < n; i++) {
        int64_t to = i == n - 1 ? all : from + (int64_t)(prng_unit(prng) * (double)(all - from));
        struct box boxes[BOX_RUN_MAX];
        int k = box_run(shape, from, to, boxes);
        for (int b = 0; b < k; b++)
            add_transfer(t, e, 2u * e, used[i], 0, boxes[b]);
        from = to;
    }
}

static void random_table(struct prng *prng, struct test_table *t)
{
    uint16_t used[BOARDS];
    int n_used = 0;
    memset(t, 0, sizeof *t);
    t->table = (struct conduct_table){.parties = (uint16_t)prng_range(prng, 1, BOARDS),
                                      .transfers = t->transfers,
                                      .exchanges = t->exchanges,
                                      .fragments = t->fragments,
                                      .predicted_ms = 1};
    t->table.n_exchanges = (uint32_t)prng_range(prng, 2, EXCHANGES);
    for (uint16_t p = 1; p <= t->table.parties; p++)
        if (p == 1 || !prng_one_in(prng, 6)) {
            used[n_used++] = p;
            memset(t->fragments[p - 1], 0x40 + p, WIRE_HASH_BYTES);
        }
    for (uint16_t e = 0; e < t->table.n_exchanges; e++) {
        t->exchanges[e] =
            (struct conduct_exchange){.tensor = e, .shape = random_shape(prng), .is_input = e == 0};
        t->exchanges[e].is_output = e + 1u == t->table.n_exchanges || (e > 0 && prng_one_in(prng, 5));
        if (e > 0)
            add_ups(prng, t, e, used, n_used);
        for (int i = prng_range(prng, 0, 6); i > 0; i--)
            add_transfer(t, e, 2u * e + 1, 0, used[prng_range(prng, 0, n_used - 1)],
                         random_box(prng, t->exchanges[e].shape));
    }
    uint16_t ids[BOARDS + 1] = {0};
    qsort(t->transfers, t->table.n_transfers, sizeof *t->transfers, by_order);
    for (uint32_t i = 0; i < t->table.n_transfers; i++) {
        uint16_t board = t->transfers[i].from == 0 ? t->transfers[i].to : t->transfers[i].from;
        t->transfers[i].id = ids[board]++;
    }
}

/* ---- the boards ---- */

struct frame {
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
};

struct fifo {
    struct frame frames[QUEUE];
    int first, n;
};

/* The truth of one inference: all tensors, made before it begins. */
struct truth {
    uint32_t id;
    struct test_table *table;
    int8_t *tensors[EXCHANGES];
    uint16_t links[BOARDS];
    bool ended, failed;
};

struct run {
    struct truth *truth; /* NULL: none */
    uint16_t party;
    uint32_t rank;          /* everything of rank <= this is posted and queued */
    uint32_t at[TRANSFERS]; /* bytes of each of its transfers that are done */
};

struct test_board {
    struct fifo in, out;
    int cap; /* frames that a direction holds */
    struct run current, waiting;
    uint32_t ended;
};

struct world {
    struct prng prng;
    struct conductor *conductor;
    struct test_table tables[TABLES];
    struct truth truths[RUNS];
    int n_truths;
    struct test_board *boards; /* BOARDS of them; link number = index */
    uint64_t now_us;
    bool broke;
};

static struct frame *fifo_push(struct fifo *fifo)
{
    assert_true(fifo->n < QUEUE);
    return &fifo->frames[(fifo->first + fifo->n++) % QUEUE];
}

static void fifo_pop(struct fifo *fifo)
{
    fifo->first = (fifo->first + 1) % QUEUE;
    fifo->n--;
}

static uint32_t max_rank(const struct test_table *table)
{
    return 2 * table->table.n_exchanges;
}

/* Byte i of the packed box of a tensor: slow, and not the conductor's way. */
static int8_t element(const int8_t *tensor, struct shape s, struct box b, uint32_t i)
{
    int32_t c = b.c1 - b.c0, w = b.w1 - b.w0, at = (int32_t)i;
    return tensor[((b.h0 + at / c / w) * s.w + b.w0 + at / c % w) * s.c + b.c0 + at % c];
}

static struct truth *truth_of(struct world *world, uint32_t id)
{
    for (int i = 0; i < world->n_truths; i++)
        if (world->truths[i].id == id)
            return &world->truths[i];
    fail_msg("a RUN of an inference that was never begun");
    return NULL;
}

static void end_run(struct test_board *board)
{
    if (board->current.truth != NULL && board->current.truth->id > board->ended)
        board->ended = board->current.truth->id;
    board->current = board->waiting;
    board->waiting.truth = NULL;
}

static void answer(struct test_board *board, uint8_t type, uint32_t inference)
{
    struct frame *frame = fifo_push(&board->out);
    static struct wire_done done;
    frame->header = (struct wire_header){.type = type, .inference = inference};
    if (type == WIRE_DONE)
        frame->header.length = (uint32_t)wire_encode_done(&done, frame->payload);
}

static void take_run(struct world *world, int link, const struct frame *frame)
{
    struct test_board *board = &world->boards[link];
    struct wire_run run;
    struct run *slot = board->current.truth == NULL ? &board->current : &board->waiting;
    assert_int_equal(wire_decode_run(frame->payload, frame->header.length, &run), 0);
    assert_null(slot->truth); /* never more than one waits */
    memset(slot, 0, sizeof *slot);
    slot->truth = truth_of(world, frame->header.inference);
    for (uint16_t p = 1; p <= slot->truth->table->table.parties; p++)
        if (slot->truth->links[p - 1] == link && slot->truth->table->fragments[p - 1][0] != 0)
            slot->party = p;
    assert_memory_equal(run.fragment, slot->truth->table->fragments[slot->party - 1], WIRE_HASH_BYTES);
}

/* 1 taken, 0 its receive is not posted yet. */
static int take_down(struct test_board *board, const struct frame *frame)
{
    struct run *run = &board->current;
    const struct wire_header *header = &frame->header;
    if (run->truth == NULL || run->truth->id != header->inference) {
        if (header->inference <= board->ended)
            return 1; /* of an aborted one */
        assert_non_null(board->waiting.truth);
        return 0;
    }
    const struct conduct_table *table = &run->truth->table->table;
    uint32_t t = 0;
    while (t < table->n_transfers &&
           (table->transfers[t].to != run->party || table->transfers[t].id != header->transfer))
        t++;
    assert_true(t < table->n_transfers);
    if (table->transfers[t].rank > run->rank)
        return 0;
    const struct conduct_transfer *transfer = &table->transfers[t];
    assert_int_equal(header->offset, run->at[t]);
    for (uint32_t i = 0; i < t; i++) /* nothing overtakes */
        if (table->transfers[i].to == run->party)
            assert_int_equal(run->at[i], box_elements(table->transfers[i].box));
    for (uint32_t i = 0; i < header->length; i++)
        if ((int8_t)frame->payload[i] != element(run->truth->tensors[transfer->exchange],
                                                 table->exchanges[transfer->exchange].shape, transfer->box,
                                                 header->offset + i))
            fail_msg("wrong byte sent down");
    run->at[t] += header->length;
    assert_int_equal((header->flags & WIRE_FLAG_LAST) != 0, run->at[t] == box_elements(transfer->box));
    return 1;
}

static void take_abort(struct test_board *board, uint32_t id)
{
    if (board->current.truth != NULL && board->current.truth->id == id) {
        answer(board, WIRE_ABORTED, id);
        end_run(board);
    } else if (board->waiting.truth != NULL && board->waiting.truth->id == id) {
        answer(board, WIRE_ABORTED, id);
        board->waiting.truth = NULL;
        board->ended = id;
    }
}

static bool board_read(struct world *world, int link)
{
    struct test_board *board = &world->boards[link];
    if (board->in.n == 0)
        return false;
    struct frame *frame = &board->in.frames[board->in.first];
    if (frame->header.type == WIRE_DATA && take_down(board, frame) == 0)
        return false;
    if (frame->header.type == WIRE_ABORT) {
        if (board->out.n == QUEUE)
            return false;
        take_abort(board, frame->header.inference);
    }
    if (frame->header.type == WIRE_RUN)
        take_run(world, link, frame);
    fifo_pop(&board->in);
    return true;
}

/* Whether everything of rank <= the board's is done; sends one frame if something is left to send. */
static bool board_send(struct world *world, struct test_board *board, bool *all_done)
{
    struct run *run = &board->current;
    const struct conduct_table *table = &run->truth->table->table;
    *all_done = true;
    for (uint32_t t = 0; t < table->n_transfers; t++) {
        const struct conduct_transfer *transfer = &table->transfers[t];
        uint32_t bytes = (uint32_t)box_elements(transfer->box);
        if (transfer->rank > run->rank || run->at[t] == bytes)
            continue;
        if (transfer->to == run->party)
            *all_done = false;
        if (transfer->from != run->party)
            continue;
        *all_done = false;
        if (board->out.n >= board->cap)
            return false;
        uint32_t left = bytes - run->at[t], most = left < WIRE_PAYLOAD_MAX ? left : WIRE_PAYLOAD_MAX;
        uint32_t n =
            prng_one_in(&world->prng, 3) ? (uint32_t)prng_range(&world->prng, 1, (int32_t)most) : most;
        struct frame *frame = fifo_push(&board->out);
        frame->header = (struct wire_header){.type = WIRE_DATA,
                                             .transfer = transfer->id,
                                             .inference = run->truth->id,
                                             .offset = run->at[t],
                                             .length = n,
                                             .flags = n == left ? WIRE_FLAG_LAST : 0};
        for (uint32_t i = 0; i < n; i++)
            frame->payload[i] =
                (uint8_t)element(run->truth->tensors[transfer->exchange],
                                 table->exchanges[transfer->exchange].shape, transfer->box, run->at[t] + i);
        run->at[t] += n;
        return true;
    }
    return false;
}

static bool board_work(struct world *world, int link)
{
    struct test_board *board = &world->boards[link];
    bool all_done;
    if (board->current.truth == NULL)
        return false;
    if (board_send(world, board, &all_done))
        return true;
    if (!all_done || board->out.n >= board->cap)
        return false;
    if (board->current.rank < max_rank(board->current.truth->table)) {
        board->current.rank++;
        return true;
    }
    answer(board, WIRE_DONE, board->current.truth->id);
    end_run(board);
    return true;
}

/* ---- the world ---- */

static void lose_link(struct world *world, int link)
{
    struct test_board *board = &world->boards[link];
    board->in.n = board->out.n = 0;
    board->current.truth = board->waiting.truth = NULL;
    conduct_link_lost(world->conductor, (uint16_t)link, world->now_us);
}

static bool server_send(struct world *world, int link)
{
    struct test_board *board = &world->boards[link];
    if (board->in.n >= board->cap)
        return false;
    struct frame frame;
    bool has = conduct_has_frame(world->conductor, (uint16_t)link);
    int n = conduct_next_frame(world->conductor, (uint16_t)link, &frame.header, frame.payload);
    assert_int_equal(has, n >= 0);
    if (n < 0)
        return false;
    assert_int_equal(n, frame.header.length);
    *fifo_push(&board->in) = frame;
    return true;
}

static bool server_receive(struct world *world, int link)
{
    struct test_board *board = &world->boards[link];
    if (board->out.n == 0)
        return false;
    struct frame frame = board->out.frames[board->out.first];
    fifo_pop(&board->out);
    if (world->broke && prng_one_in(&world->prng, 40)) {
        uint8_t bytes[WIRE_HEADER_BYTES];
        wire_header_put(&frame.header, bytes);
        bytes[prng_range(&world->prng, 0, WIRE_HEADER_BYTES - 1)] ^=
            (uint8_t)(1u << prng_range(&world->prng, 0, 7));
        if (wire_header_get(bytes, &frame.header) < 0) {
            lose_link(world, link);
            return true;
        }
    }
    if (conduct_frame(world->conductor, (uint16_t)link, &frame.header, frame.payload, world->now_us) < 0) {
        assert_true(world->broke);
        lose_link(world, link);
    }
    return true;
}

static void check_outputs(const struct truth *truth, const struct conduct_result *result)
{
    const struct conduct_table *table = &truth->table->table;
    for (uint32_t e = 0; e < table->n_exchanges; e++)
        if (table->exchanges[e].is_output)
            assert_memory_equal(result->outputs[e], truth->tensors[e],
                                (size_t)shape_elements(table->exchanges[e].shape));
}

static int collect(struct world *world)
{
    const struct conduct_result *result;
    int n = 0;
    while ((result = conduct_finished(world->conductor)) != NULL) {
        struct truth *truth = truth_of(world, result->inference);
        assert_false(truth->ended); /* once */
        truth->ended = true;
        truth->failed = result->status < 0;
        if (result->status == 0 && !world->broke)
            check_outputs(truth, result);
        if (result->status < 0)
            assert_true(result->reason[0] != 0);
        conduct_release(world->conductor, result);
        n++;
    }
    return n;
}

static void begin(struct world *world)
{
    struct truth *truth = &world->truths[world->n_truths];
    const int8_t *inputs[EXCHANGES] = {NULL};
    truth->id = (uint32_t)(world->n_truths * 3 + 1);
    truth->table = &world->tables[prng_range(&world->prng, 0, TABLES - 1)];
    for (uint32_t e = 0; e < truth->table->table.n_exchanges; e++) {
        size_t n = (size_t)shape_elements(truth->table->exchanges[e].shape);
        truth->tensors[e] = malloc(n);
        assert_non_null(truth->tensors[e]);
        prng_fill(&world->prng, truth->tensors[e], n);
        inputs[e] = truth->tensors[e];
    }
    int first = prng_range(&world->prng, 0, BOARDS - 1);
    for (int p = 0; p < truth->table->table.parties; p++)
        truth->links[p] = (uint16_t)((first + p) % BOARDS);
    world->n_truths++;
    assert_int_equal(conduct_begin(world->conductor, truth->id, &truth->table->table, truth->links, inputs, 7,
                                   1, world->now_us),
                     0);
}

static void world_open(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->prng = prng_seed(seed);
    world->conductor = conductor_new();
    world->boards = calloc(BOARDS, sizeof *world->boards);
    assert_non_null(world->conductor);
    assert_non_null(world->boards);
    world->now_us = 1;
    for (int t = 0; t < TABLES; t++) {
        struct error error;
        error_clear(&error);
        random_table(&world->prng, &world->tables[t]);
        if (conduct_table_check(&world->tables[t].table, &error) < 0)
            fail_msg("%s", error.message);
    }
    for (int b = 0; b < BOARDS; b++)
        world->boards[b].cap = prng_range(&world->prng, 1, QUEUE - 2);
}

static void world_close(struct world *world)
{
    for (int i = 0; i < world->n_truths; i++)
        for (int e = 0; e < EXCHANGES; e++)
            free(world->truths[i].tensors[e]);
    conductor_free(world->conductor);
    free(world->boards);
}

static bool move_something(struct world *world)
{
    int start = prng_range(&world->prng, 0, BOARDS * 4 - 1);
    for (int i = 0; i < BOARDS * 4; i++) {
        int what = (start + i * 7) % (BOARDS * 4), link = what / 4; /* 7 and 20 share no factor */
        bool moved = what % 4 == 0   ? server_send(world, link)
                     : what % 4 == 1 ? board_read(world, link)
                     : what % 4 == 2 ? board_work(world, link)
                                     : server_receive(world, link);
        if (moved)
            return true;
    }
    return false;
}

enum trouble { TROUBLE_NONE = 0, TROUBLE_LINKS = 1, TROUBLE_ABORTS = 2, TROUBLE_BYTES = 4 };

/* Runs RUNS inferences to their end; returns how many ended well. */
static int play(uint64_t seed, unsigned trouble)
{
    static struct world room;
    struct world *world = &room;
    world_open(world, seed);
    world->broke = (trouble & TROUBLE_BYTES) != 0;
    int ended = 0, good = 0;
    while (ended < RUNS) {
        world->now_us++;
        if (world->n_truths < RUNS && prng_one_in(&world->prng, 20))
            begin(world);
        if (trouble & TROUBLE_LINKS && prng_one_in(&world->prng, 300))
            lose_link(world, prng_range(&world->prng, 0, BOARDS - 1));
        if (trouble & TROUBLE_ABORTS && prng_one_in(&world->prng, 100) && world->n_truths > 0) {
            uint32_t id = world->truths[prng_range(&world->prng, 0, world->n_truths - 1)].id;
            for (int twice = prng_range(&world->prng, 1, 2); twice > 0; twice--)
                conduct_abort(world->conductor, id, STATUS_CANCELLED, "on purpose", world->now_us);
        }
        bool moved = move_something(world);
        ended += collect(world);
        if (!moved && world->n_truths == RUNS && ended < RUNS) {
            if (trouble == TROUBLE_NONE)
                fail_msg("deadlock, seed %llu", (unsigned long long)seed);
            /* a broken byte may leave an inference waiting: the deadline must end it */
            uint64_t wait = conduct_next_deadline(world->conductor, world->now_us);
            if (wait == UINT64_MAX)
                fail_msg("deadlock without deadline, seed %llu", (unsigned long long)seed);
            world->now_us += wait;
            conduct_time(world->conductor, world->now_us);
            uint16_t link;
            while (conduct_next_drop(world->conductor, &link))
                lose_link(world, link);
            ended += collect(world);
        }
    }
    for (int i = 0; i < RUNS; i++)
        good += !world->truths[i].failed;
    while (trouble != TROUBLE_BYTES && move_something(world)) /* late frames and answers to aborts */
        ;
    for (uint16_t b = 0; trouble != TROUBLE_BYTES && b < BOARDS; b++)
        assert_int_equal(conduct_active(world->conductor, b), 0);
    world_close(world);
    return good;
}

static void random_plans_never_deadlock_and_move_the_right_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++)
        assert_int_equal(play(seed, TROUBLE_NONE), RUNS);
}

static void lost_links_and_doubled_aborts_end_every_inference(void **state)
{
    (void)state;
    int good = 0;
    for (uint64_t seed = 0; seed < 400; seed++)
        good += play(1000 + seed, TROUBLE_LINKS | TROUBLE_ABORTS);
    assert_in_range(good, 50, 400 * RUNS - 50); /* both outcomes occur */
}

static void broken_headers_end_in_a_protocol_error_or_a_deadline(void **state)
{
    (void)state;
    int good = 0;
    for (uint64_t seed = 0; seed < 400; seed++)
        good += play(2000 + seed, TROUBLE_BYTES);
    assert_in_range(good, 50, 400 * RUNS - 50);
}

/* ---- single rules, on one table of one board: input down, output up ---- */

static struct test_table small;
static const int8_t small_input[6] = {1, 2, 3, 4, 5, 6};
static const int8_t *const small_inputs[2] = {small_input, NULL};
static const uint16_t small_links[1] = {0};

static struct conductor *small_open(void)
{
    struct error error;
    error_clear(&error);
    memset(&small, 0, sizeof small);
    small.table = (struct conduct_table){.parties = 1,
                                         .transfers = small.transfers,
                                         .n_transfers = 2,
                                         .exchanges = small.exchanges,
                                         .n_exchanges = 2,
                                         .fragments = small.fragments,
                                         .predicted_ms = 500};
    small.fragments[0][0] = 1;
    small.exchanges[0] = (struct conduct_exchange){.shape = {1, 2, 3}, .is_input = true};
    small.exchanges[1] = (struct conduct_exchange){.shape = {1, 1, 2}, .is_output = true};
    small.transfers[0] =
        (struct conduct_transfer){.exchange = 0, .rank = 1, .to = 1, .box = {0, 1, 0, 2, 0, 3}};
    small.transfers[1] =
        (struct conduct_transfer){.exchange = 1, .id = 1, .rank = 2, .from = 1, .box = {0, 1, 0, 1, 0, 2}};
    assert_int_equal(conduct_table_check(&small.table, &error), 0);
    struct conductor *conductor = conductor_new();
    assert_non_null(conductor);
    return conductor;
}

static int next_type(struct conductor *conductor, uint16_t link)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    return conduct_next_frame(conductor, link, &header, payload) < 0 ? -1 : header.type;
}

static int send_up(struct conductor *conductor, uint32_t inference, uint16_t transfer, uint32_t offset,
                   uint32_t n, uint8_t flags)
{
    struct wire_header header = {.type = WIRE_DATA,
                                 .flags = flags,
                                 .transfer = transfer,
                                 .inference = inference,
                                 .offset = offset,
                                 .length = n};
    static const uint8_t payload[WIRE_PAYLOAD_MAX] = {9, 8};
    return conduct_frame(conductor, 0, &header, payload, 5);
}

static int send_answer(struct conductor *conductor, uint8_t type, uint32_t inference)
{
    uint8_t payload[WIRE_PAYLOAD_MAX] = {0};
    static struct wire_done done = {
        .computing_us = 11, .n_times = 1, .times = {{.layer = 4, .computing_us = 11}}};
    static struct wire_failed failed = {
        .status = STATUS_RAM_FULL, .layer = 3, .section = WIRE_NO_SECTION, .reason = "no room"};
    int n = type == WIRE_DONE     ? wire_encode_done(&done, payload)
            : type == WIRE_FAILED ? wire_encode_failed(&failed, payload)
                                  : 0;
    struct wire_header header = {.type = type, .inference = inference, .length = (uint32_t)n};
    return conduct_frame(conductor, 0, &header, payload, 6);
}

static void run_goes_before_data_and_result_carries_times(void **state)
{
    (void)state;
    struct conductor *conductor = small_open();
    assert_int_equal(conduct_begin(conductor, 1, &small.table, small_links, small_inputs, 7, 1, 1), 0);
    assert_int_equal(next_type(conductor, 0), WIRE_RUN);
    assert_int_equal(next_type(conductor, 0), WIRE_DATA);
    assert_int_equal(next_type(conductor, 0), -1);
    assert_int_equal(send_up(conductor, 1, 1, 0, 1, 0), 0);
    assert_int_equal(send_up(conductor, 1, 1, 1, 1, WIRE_FLAG_LAST), 0);
    assert_null(conduct_finished(conductor));
    assert_int_equal(send_answer(conductor, WIRE_DONE, 1), 0);
    const struct conduct_result *result = conduct_finished(conductor);
    assert_non_null(result);
    assert_int_equal(result->status, 0);
    assert_int_equal(result->outputs[1][0], 9);
    assert_int_equal(result->outputs[1][1], 9);
    assert_int_equal(result->bytes_sent, 6);
    assert_int_equal(result->bytes_received, 2);
    assert_int_equal(result->party_times[1].n_times, 1);
    assert_int_equal(result->party_times[1].times[0].layer, 4);
    assert_int_equal(result->ended_us - result->begun_us, 5);
    conduct_release(conductor, result);
    assert_null(conduct_finished(conductor));
    conductor_free(conductor);
}

static void third_run_waits_until_the_first_is_answered(void **state)
{
    (void)state;
    struct conductor *conductor = small_open();
    for (uint32_t id = 1; id <= 3; id++)
        assert_int_equal(conduct_begin(conductor, id, &small.table, small_links, small_inputs, 7, 1, 1), 0);
    static const int sequence[] = {WIRE_RUN, WIRE_DATA, WIRE_RUN, WIRE_DATA, -1};
    for (size_t i = 0; i < sizeof sequence / sizeof sequence[0]; i++)
        assert_int_equal(next_type(conductor, 0), sequence[i]);
    assert_int_equal(send_up(conductor, 1, 1, 0, 2, WIRE_FLAG_LAST), 0);
    assert_int_equal(send_answer(conductor, WIRE_DONE, 1), 0);
    assert_int_equal(next_type(conductor, 0), WIRE_RUN);
    assert_int_equal(conduct_active(conductor, 0), 2);
    conductor_free(conductor);
}

static void broken_protocol_is_refused(void **state)
{
    (void)state;
    struct conductor *conductor = small_open();
    assert_int_equal(conduct_begin(conductor, 1, &small.table, small_links, small_inputs, 7, 1, 1), 0);
    assert_int_equal(send_up(conductor, 1, 1, 0, 2, WIRE_FLAG_LAST), STATUS_WIRE_ORDER); /* RUN not sent */
    assert_int_equal(next_type(conductor, 0), WIRE_RUN);
    assert_int_equal(send_up(conductor, 2, 1, 0, 2, WIRE_FLAG_LAST),
                     STATUS_WIRE_ORDER); /* not its inference */
    assert_int_equal(send_up(conductor, 1, 0, 0, 2, WIRE_FLAG_LAST), STATUS_WIRE_ORDER); /* that goes down */
    assert_int_equal(send_up(conductor, 1, 77, 0, 2, WIRE_FLAG_LAST), STATUS_WIRE_ORDER);
    assert_int_equal(send_up(conductor, 1, 1, 1, 1, WIRE_FLAG_LAST), STATUS_WIRE_ORDER); /* a gap */
    assert_int_equal(send_up(conductor, 1, 1, 0, 3, WIRE_FLAG_LAST), STATUS_WIRE_ORDER); /* too long */
    assert_int_equal(send_up(conductor, 1, 1, 0, 0, 0), STATUS_WIRE_ORDER);              /* empty */
    assert_int_equal(send_up(conductor, 1, 1, 0, 2, 0), STATUS_WIRE_ORDER);              /* last not marked */
    assert_int_equal(send_up(conductor, 1, 1, 0, 1, WIRE_FLAG_LAST),
                     STATUS_WIRE_ORDER);                                       /* marked too early */
    assert_int_equal(send_answer(conductor, WIRE_DONE, 1), STATUS_WIRE_ORDER); /* not done */
    assert_int_equal(send_answer(conductor, WIRE_HELLO, 1), STATUS_WIRE_ORDER);
    struct wire_header header = {.type = WIRE_DONE, .inference = 1, .length = 3};
    assert_int_equal(conduct_frame(conductor, 0, &header, (const uint8_t *)"abc", 5), STATUS_WIRE_MALFORMED);
    header.length = WIRE_PAYLOAD_MAX + 1;
    assert_int_equal(conduct_frame(conductor, 0, &header, NULL, 5), STATUS_WIRE_MALFORMED);
    assert_int_equal(send_up(conductor, 1, 1, 0, 2, WIRE_FLAG_LAST), 0);
    assert_int_equal(send_up(conductor, 1, 1, 0, 2, WIRE_FLAG_LAST), STATUS_WIRE_ORDER); /* twice */
    conductor_free(conductor);
}

static void failed_board_ends_the_inference_with_its_reason(void **state)
{
    (void)state;
    struct conductor *conductor = small_open();
    assert_int_equal(conduct_begin(conductor, 1, &small.table, small_links, small_inputs, 7, 1, 1), 0);
    assert_int_equal(next_type(conductor, 0), WIRE_RUN);
    assert_int_equal(send_answer(conductor, WIRE_FAILED, 1), 0);
    const struct conduct_result *result = conduct_finished(conductor);
    assert_non_null(result);
    assert_int_equal(result->status, STATUS_RAM_FULL);
    assert_int_equal(result->party, 1);
    assert_non_null(strstr(result->reason, "no room"));
    assert_non_null(strstr(result->reason, "layer 3"));
    conduct_release(conductor, result);
    assert_int_equal(next_type(conductor, 0), -1); /* it has answered: no ABORT */
    conductor_free(conductor);
}

static void deadline_aborts_and_a_silent_board_is_dropped(void **state)
{
    (void)state;
    struct conductor *conductor = small_open(); /* predicted 500 ms: 2 s */
    uint16_t link = 99;
    assert_int_equal(conduct_begin(conductor, 1, &small.table, small_links, small_inputs, 7, 1, 1000), 0);
    assert_int_equal(next_type(conductor, 0), WIRE_RUN);
    assert_int_equal(conduct_next_deadline(conductor, 1000), 2000000);
    conduct_time(conductor, 2000999);
    assert_null(conduct_finished(conductor));
    conduct_time(conductor, 2001000);
    const struct conduct_result *result = conduct_finished(conductor);
    assert_non_null(result);
    assert_int_equal(result->status, STATUS_DEADLINE);
    assert_int_equal(result->party, 1);
    conduct_release(conductor, result);
    assert_int_equal(next_type(conductor, 0), WIRE_ABORT);
    assert_int_equal(next_type(conductor, 0), -1);
    assert_int_equal(send_up(conductor, 1, 1, 0, 2, WIRE_FLAG_LAST), 0); /* late: swallowed */
    assert_int_equal(conduct_next_deadline(conductor, 2001000), WIRE_STALE_MS * 1000);
    conduct_time(conductor, 2001000 + WIRE_STALE_MS * 1000 - 1); /* a board that is slow for so long stays */
    assert_false(conduct_next_drop(conductor, &link));
    conduct_time(conductor, 2001000 + WIRE_STALE_MS * 1000);
    assert_true(conduct_next_drop(conductor, &link));
    assert_int_equal(link, 0);
    assert_false(conduct_next_drop(conductor, &link));
    conduct_link_lost(conductor, 0, 7001001);
    assert_int_equal(conduct_active(conductor, 0), 0);
    conductor_free(conductor);
}

static void inference_aborted_before_its_run_leaves_no_trace(void **state)
{
    (void)state;
    struct conductor *conductor = small_open();
    assert_int_equal(conduct_begin(conductor, 1, &small.table, small_links, small_inputs, 7, 1, 1), 0);
    conduct_abort(conductor, 1, STATUS_CANCELLED, "paused", 2);
    conduct_abort(conductor, 1, STATUS_CANCELLED, "paused", 2);
    conduct_abort(conductor, 55, STATUS_CANCELLED, "paused", 2);
    assert_int_equal(next_type(conductor, 0), -1);
    assert_int_equal(conduct_active(conductor, 0), 0);
    const struct conduct_result *result = conduct_finished(conductor);
    assert_int_equal(result->status, STATUS_CANCELLED);
    conduct_release(conductor, result);
    assert_null(conduct_finished(conductor));
    conductor_free(conductor);
}

static void begin_refuses_bad_ids_links_and_inputs(void **state)
{
    (void)state;
    struct conductor *conductor = small_open();
    static const int8_t *const no_inputs[2] = {NULL, NULL};
    static const uint16_t bad_links[1] = {CONDUCT_LINKS_MAX};
    assert_int_equal(conduct_begin(conductor, 0, &small.table, small_links, small_inputs, 7, 1, 1),
                     STATUS_INVALID_ARGUMENT);
    assert_int_equal(conduct_begin(conductor, 1, &small.table, bad_links, small_inputs, 7, 1, 1),
                     STATUS_INVALID_ARGUMENT);
    assert_int_equal(conduct_begin(conductor, 1, &small.table, small_links, no_inputs, 7, 1, 1),
                     STATUS_INVALID_ARGUMENT);
    assert_int_equal(conduct_begin(conductor, 4, &small.table, small_links, small_inputs, 7, 1, 1), 0);
    assert_int_equal(conduct_begin(conductor, 4, &small.table, small_links, small_inputs, 7, 1, 1),
                     STATUS_INVALID_ARGUMENT);
    conductor_free(conductor);
}

static int check_small(void)
{
    return conduct_table_check(&small.table, NULL);
}

static void table_check_refuses_what_cannot_be_conducted(void **state)
{
    (void)state;
    conductor_free(small_open());
    const struct test_table good = small;
    small.transfers[1].wire = FRAGMENT_WIRE_I24;
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.transfers[1].box.c1 = 1; /* the output is not whole */
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.transfers[0].box.w1 = 3; /* outside */
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.transfers[1].from = 0; /* from the coordinator to itself */
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.transfers[0].exchange = 1; /* sent down before it came up */
    small.transfers[0].box = small.transfers[1].box;
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.transfers[1].exchange = 9;
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.fragments[0][0] = 0; /* its board is not used */
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small = good;
    small.transfers[2] = small.transfers[1]; /* the same id twice */
    small.table.n_transfers = 3;
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
    small.transfers[2].id = 2;
    assert_int_equal(check_small(), 0);
    small.transfers[1].rank = 3; /* not in order */
    assert_int_equal(check_small(), STATUS_INVALID_ARGUMENT);
}

static void reserved_bytes_cover_all_tensors(void **state)
{
    (void)state;
    conductor_free(small_open());
    size_t before = conduct_table_bytes(&small.table);
    small.exchanges[0].shape = (struct shape){100, 100, 3};
    assert_int_equal(conduct_table_bytes(&small.table) - before, 30000 - 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_goes_before_data_and_result_carries_times),
        cmocka_unit_test(third_run_waits_until_the_first_is_answered),
        cmocka_unit_test(broken_protocol_is_refused),
        cmocka_unit_test(failed_board_ends_the_inference_with_its_reason),
        cmocka_unit_test(deadline_aborts_and_a_silent_board_is_dropped),
        cmocka_unit_test(inference_aborted_before_its_run_leaves_no_trace),
        cmocka_unit_test(begin_refuses_bad_ids_links_and_inputs),
        cmocka_unit_test(table_check_refuses_what_cannot_be_conducted),
        cmocka_unit_test(reserved_bytes_cover_all_tensors),
        cmocka_unit_test(random_plans_never_deadlock_and_move_the_right_bytes),
        cmocka_unit_test(lost_links_and_doubled_aborts_end_every_inference),
        cmocka_unit_test(broken_headers_end_in_a_protocol_error_or_a_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
