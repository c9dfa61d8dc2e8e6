/* Plans on virtual boards: the board's own core, real frames and the conductor give what the reference
 * executor gives. */
#include "server/base/file.h"
#include "server/import/tflite.h"
#include "server/model/reference.h"
#include "server/sim/local.h"
#include "server/sim/virtual_board.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct plan_board boards[16];

static void make_boards(struct prng *prng, int32_t n, bool uneven)
{
    for (int32_t b = 0; b < n; b++) {
        boards[b] = *plan_profile("teensy41-good");
        if (uneven)
            boards[b].clock_hz *= 0.1 + prng_unit(prng);
        snprintf(boards[b].name, sizeof boards[b].name, "board-%d", b + 1);
    }
}

struct made {
    struct plan *plan;
    struct emit_fragment *fragments;
    int32_t n;
};

static struct made make(const struct graph *graph, int32_t n, enum plan_shares shares, const char *what)
{
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON, .shares = shares};
    struct made made = {.n = n};
    struct error error;
    error_clear(&error);
    made.plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
    if (made.plan == NULL)
        fail_msg("%s: plan: %s", what, error.message);
    if (emit_plan(made.plan, &made.fragments, &error) < 0)
        fail_msg("%s: emit: %s", what, error.message);
    return made;
}

static void unmake(struct made *made)
{
    emit_free(made->fragments, made->n);
    plan_free(made->plan);
}

static void check_split_equals_whole(uint64_t seed, int32_t n, bool uneven)
{
    struct prng prng = prng_seed(seed);
    struct graph *graph = random_graph(seed, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    void *input = random_input(graph, seed, &in_bytes);
    uint8_t *whole = malloc(out_bytes), *split = calloc(1, out_bytes);
    static struct sim_local_result result;
    struct error error;
    char what[64];
    snprintf(what, sizeof what, "seed %llu, %d boards", (unsigned long long)seed, n);
    error_clear(&error);
    make_boards(&prng, n, uneven);
    struct made made = make(graph, n, uneven ? PLAN_SHARES_RATING : PLAN_SHARES_EVEN, what);
    assert_int_equal(reference_run(graph, input, in_bytes, whole, out_bytes, &error), 0);
    if (sim_local_run(made.plan, made.fragments, input, in_bytes, split, out_bytes, &result, &error) < 0)
        fail_msg("%s: %s", what, error.message);
    if (memcmp(whole, split, out_bytes) != 0)
        fail_msg("%s: split differs from whole", what);
    assert_int_equal(result.bytes_moved, made.plan->bytes_moved);
    for (int32_t b = 0; b < n; b++) {
        assert_int_equal(result.party[b].used, made.fragments[b].size > 0);
        assert_true(result.party[b].arena_high_water <= result.party[b].arena_bytes);
        assert_true(!result.party[b].used ||
                    result.party[b].arena_bytes == made.plan->parties[b].arena_bytes);
    }
    unmake(&made);
    graph_free(graph);
    free(input);
    free(whole);
    free(split);
}

static void random_graphs_on_1_to_16_boards_equal_the_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++)
        check_split_equals_whole(seed, (int32_t)(seed % 16 + 1), seed % 2 == 1);
}

static void one_fleet_answers_several_inferences(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    struct graph *graph = random_graph(11, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    uint8_t *whole = malloc(out_bytes), *split = malloc(out_bytes);
    struct error error;
    error_clear(&error);
    make_boards(&prng, 3, false);
    struct made made = make(graph, 3, PLAN_SHARES_EVEN, "seed 11");
    struct sim_local *sim = sim_local_open(made.plan, made.fragments, &error);
    assert_non_null(sim);
    for (uint64_t i = 0; i < 5; i++) {
        void *input = random_input(graph, i, &in_bytes);
        assert_int_equal(reference_run(graph, input, in_bytes, whole, out_bytes, &error), 0);
        assert_int_equal(sim_local_infer(sim, input, in_bytes, split, out_bytes, NULL, &error), 0);
        assert_memory_equal(whole, split, out_bytes);
        free(input);
    }
    assert_int_equal(sim_local_infer(sim, whole, 0, split, out_bytes, NULL, &error), STATUS_INPUT_SIZE);
    sim_local_close(sim);
    unmake(&made);
    graph_free(graph);
    free(whole);
    free(split);
}

static void damaged_fragment_is_refused_by_its_board_by_name(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    struct graph *graph = random_graph(11, NULL);
    size_t in_bytes, out_bytes = graph_output_bytes(graph);
    void *input = random_input(graph, 1, &in_bytes);
    uint8_t *split = malloc(out_bytes);
    struct error error;
    error_clear(&error);
    make_boards(&prng, 2, false);
    struct made made = make(graph, 2, PLAN_SHARES_EVEN, "seed 11");
    made.fragments[1].bytes[made.fragments[1].size - 1] ^= 1;
    int status = sim_local_run(made.plan, made.fragments, input, in_bytes, split, out_bytes, NULL, &error);
    assert_int_equal(status, STATUS_HASH_MISMATCH);
    assert_non_null(strstr(error.message, "board-2"));
    unmake(&made);
    graph_free(graph);
    free(input);
    free(split);
}

/* ---- a real model ---- */

static uint8_t *facts_file(const char *path, size_t *size)
{
    char full[512];
    const char *folder = getenv("FACTS");
    uint8_t *bytes;
    (void)snprintf(full, sizeof full, "%s/%s", folder != NULL && *folder != 0 ? folder : "../shared", path);
    if (file_read(full, 64u << 20, &bytes, size, NULL) == 0)
        return bytes;
    printf("SKIP real_model_over_boards_meets_its_golden: no %s\n", full);
    return NULL;
}

static void real_model_over_boards_meets_its_golden(void **state)
{
    (void)state;
    static struct sim_local_result result;
    struct prng prng = prng_seed(1);
    struct error error;
    size_t size, in_bytes, out_bytes;
    uint8_t *file = facts_file("models/cfu_model_mobilenetv2_160_035.tflite", &size);
    if (file == NULL)
        return;
    uint8_t *input = facts_file("golden/cfu_model_mobilenetv2_160_035.in3.bin", &in_bytes);
    uint8_t *golden = facts_file("golden/cfu_model_mobilenetv2_160_035.out3.bin", &out_bytes);
    assert_non_null(input);
    assert_non_null(golden);
    error_clear(&error);
    struct graph *graph = import_tflite(file, size, "cfu", &error);
    assert_non_null(graph);
    uint8_t *split = malloc(out_bytes);
    make_boards(&prng, 8, false);
    static const int32_t counts[] = {1, 3, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct made made = make(graph, counts[i], PLAN_SHARES_EVEN, "cfu");
        if (sim_local_run(made.plan, made.fragments, input, in_bytes, split, out_bytes, &result, &error) < 0)
            fail_msg("%d boards: %s", counts[i], error.message);
        assert_memory_equal(split, golden, out_bytes);
        assert_int_equal(result.bytes_moved, made.plan->bytes_moved);
        printf("%d boards in this process: %.0f ms, %llu bytes moved\n", counts[i], result.latency_ms,
               (unsigned long long)result.bytes_moved);
        unmake(&made);
    }
    graph_free(graph);
    free(file);
    free(input);
    free(golden);
    free(split);
}

/* ---- several deployments on the same boards, with trouble ---- */

enum { FLEET = 4, PLANS = 3, ASKED = 12 };

struct asked {
    const struct made *made;
    struct plan_io *io;
    uint8_t *whole;
    size_t out_bytes;
    bool ended, good;
};

struct fleet {
    struct prng prng;
    struct conductor *conductor;
    struct virtual_board *boards[FLEET];
    bool welcomed[FLEET];
    struct graph *graphs[PLANS];
    struct made mades[PLANS];
    struct asked asked[ASKED + 1]; /* by inference */
    uint32_t n_asked, n_ended;
    uint64_t now_us;
    bool trouble;
};

static void fleet_open(struct fleet *fleet, uint64_t seed, bool trouble)
{
    uint32_t arena = 0, flash = 0, resident = 0;
    memset(fleet, 0, sizeof *fleet);
    fleet->prng = prng_seed(seed);
    fleet->trouble = trouble;
    fleet->now_us = 1;
    fleet->conductor = conductor_new();
    make_boards(&fleet->prng, FLEET, true);
    for (int i = 0; i < PLANS; i++) {
        fleet->graphs[i] = random_graph(seed * 7 + (uint64_t)i, NULL);
        fleet->mades[i] =
            make(fleet->graphs[i], prng_range(&fleet->prng, 1, FLEET), PLAN_SHARES_EVEN, "fleet");
        for (int32_t b = 0; b < fleet->mades[i].n; b++) {
            const struct emit_fragment *image = &fleet->mades[i].fragments[b];
            const struct fragment_header *header = (const struct fragment_header *)image->bytes;
            flash += image->size;
            if (image->size > 0 && header->arena_bytes > arena)
                arena = header->arena_bytes;
            if (image->size > 0 && header->resident_bytes > resident)
                resident = header->resident_bytes;
        }
    }
    for (int b = 0; b < FLEET; b++) {
        struct virtual_config config = {.name = "fleet",
                                        .arena_bytes = arena,
                                        .resident_bytes = resident,
                                        .flash_bytes = flash,
                                        .clock_hz = 1,
                                        .link_bytes =
                                            (uint32_t)prng_range(&fleet->prng, WIRE_FRAME_MAX, 20000)};
        fleet->boards[b] = virtual_board_new(&config);
        assert_non_null(fleet->boards[b]);
        for (int i = 0; i < PLANS; i++)
            if (b < fleet->mades[i].n && fleet->mades[i].fragments[b].size > 0)
                assert_int_equal(virtual_board_store(fleet->boards[b], fleet->mades[i].fragments[b].bytes,
                                                     fleet->mades[i].fragments[b].size,
                                                     fleet->mades[i].fragments[b].hash),
                                 0);
    }
}

static void fleet_close(struct fleet *fleet)
{
    for (uint32_t i = 1; i <= fleet->n_asked; i++) {
        plan_io_free(fleet->asked[i].io);
        free(fleet->asked[i].whole);
    }
    for (int b = 0; b < FLEET; b++) {
        assert_true(virtual_board_guards_intact(fleet->boards[b]));
        virtual_board_free(fleet->boards[b]);
    }
    conductor_free(fleet->conductor);
    for (int i = 0; i < PLANS; i++) {
        unmake(&fleet->mades[i]);
        graph_free(fleet->graphs[i]);
    }
}

static void fleet_ask(struct fleet *fleet)
{
    static const uint16_t links[FLEET] = {0, 1, 2, 3};
    int i = prng_range(&fleet->prng, 0, PLANS - 1);
    struct asked *asked = &fleet->asked[++fleet->n_asked];
    size_t in_bytes;
    void *input = random_input(fleet->graphs[i], prng_next(&fleet->prng), &in_bytes);
    asked->made = &fleet->mades[i];
    asked->out_bytes = graph_output_bytes(fleet->graphs[i]);
    asked->whole = malloc(asked->out_bytes);
    assert_int_equal(reference_run(fleet->graphs[i], input, in_bytes, asked->whole, asked->out_bytes, NULL),
                     0);
    asked->io = plan_io_begin(asked->made->plan, input, in_bytes, NULL);
    assert_non_null(asked->io);
    assert_int_equal(conduct_begin(fleet->conductor, fleet->n_asked, &asked->made->plan->table, links,
                                   asked->io->inputs, 1, 1, fleet->now_us),
                     0);
    free(input);
}

static void fleet_lose(struct fleet *fleet, int b)
{
    virtual_board_cut(fleet->boards[b]);
    conduct_link_lost(fleet->conductor, (uint16_t)b, fleet->now_us);
    fleet->welcomed[b] = false;
    virtual_board_reconnect(fleet->boards[b]);
}

static void fleet_collect(struct fleet *fleet)
{
    const struct conduct_result *result;
    while ((result = conduct_finished(fleet->conductor)) != NULL) {
        struct asked *asked = &fleet->asked[result->inference];
        assert_false(asked->ended);
        asked->ended = true;
        fleet->n_ended++;
        if (result->status == 0) {
            uint8_t *split = malloc(asked->out_bytes);
            assert_int_equal(plan_io_end(asked->io, result->outputs, split, asked->out_bytes, NULL), 0);
            assert_memory_equal(split, asked->whole, asked->out_bytes);
            asked->good = true;
            free(split);
        } else {
            assert_true(fleet->trouble);
        }
        conduct_release(fleet->conductor, result);
    }
}

/* One random board's turn, or one of its frames. */
static bool fleet_turn(struct fleet *fleet, int b)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    bool moved = false, busy;
    if (fleet->welcomed[b] && virtual_board_room(fleet->boards[b]) &&
        conduct_next_frame(fleet->conductor, (uint16_t)b, &header, payload) >= 0)
        moved = virtual_board_send(fleet->boards[b], &header, payload);
    assert_int_equal(virtual_board_poll(fleet->boards[b], &busy), 0);
    if (prng_one_in(&fleet->prng, 3) || !busy)
        while (virtual_board_receive(fleet->boards[b], &header, payload) >= 0) {
            if (header.type == WIRE_HELLO) {
                struct wire_welcome welcome = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED};
                header = (struct wire_header){.type = WIRE_WELCOME,
                                              .length = (uint32_t)wire_encode_welcome(&welcome, payload)};
                virtual_board_send(fleet->boards[b], &header, payload);
                fleet->welcomed[b] = true;
            } else if (header.type != WIRE_BEAT && header.type != WIRE_LOG) {
                assert_int_equal(
                    conduct_frame(fleet->conductor, (uint16_t)b, &header, payload, fleet->now_us), 0);
            }
            moved = true;
        }
    return moved || busy;
}

static void fleet_trouble(struct fleet *fleet)
{
    if (prng_one_in(&fleet->prng, 1500))
        fleet_lose(fleet, prng_range(&fleet->prng, 0, FLEET - 1));
    if (prng_one_in(&fleet->prng, 400) && fleet->n_asked > 0) {
        uint32_t id = (uint32_t)prng_range(&fleet->prng, 1, (int32_t)fleet->n_asked);
        for (int twice = 0; twice < 2; twice++)
            conduct_abort(fleet->conductor, id, STATUS_CANCELLED, "on purpose", fleet->now_us);
    }
}

static int fleet_play(uint64_t seed, bool trouble)
{
    static struct fleet room;
    struct fleet *fleet = &room;
    int still = 0, good = 0;
    fleet_open(fleet, seed, trouble);
    while (fleet->n_ended < ASKED) {
        fleet->now_us++;
        if (fleet->n_asked < ASKED && prng_one_in(&fleet->prng, 50))
            fleet_ask(fleet);
        if (trouble)
            fleet_trouble(fleet);
        bool moved = fleet_turn(fleet, prng_range(&fleet->prng, 0, FLEET - 1));
        fleet_collect(fleet);
        still = moved || fleet->n_asked < ASKED ? 0 : still + 1;
        if (still > 1000)
            fail_msg("seed %llu: nothing moves any more", (unsigned long long)seed);
    }
    for (uint32_t i = 1; i <= ASKED; i++)
        good += fleet->asked[i].good;
    fleet_close(fleet);
    return good;
}

static void boards_shared_by_plans_never_deadlock(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++)
        assert_int_equal(fleet_play(seed, false), ASKED);
}

static void lost_boards_and_aborts_never_give_a_wrong_answer(void **state)
{
    (void)state;
    int good = 0;
    for (uint64_t seed = 100; seed < 112; seed++)
        good += fleet_play(seed, true);
    assert_in_range(good, 5, 12 * ASKED - 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_on_1_to_16_boards_equal_the_reference),
        cmocka_unit_test(one_fleet_answers_several_inferences),
        cmocka_unit_test(damaged_fragment_is_refused_by_its_board_by_name),
        cmocka_unit_test(real_model_over_boards_meets_its_golden),
        cmocka_unit_test(boards_shared_by_plans_never_deadlock),
        cmocka_unit_test(lost_boards_and_aborts_never_give_a_wrong_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
