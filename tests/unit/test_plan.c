/* Shares, ratings, boards, refusals, JSON: what a plan promises apart from exactness (test_split). */
#include "server/emit/emit.h"
#include "server/plan/describe.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- water-filling (facts/split 4) ---- */

struct filling {
    int32_t n;
    int64_t total, cap[16], share[16];
    double rating[16];
};

static struct filling random_filling(struct prng *prng)
{
    struct filling f = {.n = prng_range(prng, 1, 16), .total = prng_range(prng, 0, 5000000)};
    for (int32_t i = 0; i < f.n; i++) {
        f.rating[i] = prng_one_in(prng, 6) ? 0 : 0.01 + 100 * prng_unit(prng);
        f.cap[i] = prng_one_in(prng, 8) ? 0 : prng_range(prng, 0, (int32_t)(3 * f.total / f.n) + 1);
    }
    return f;
}

static int64_t sum_of(const int64_t *values, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/* No board that is not full is above another's level, rated before unrated. */
static void check_level(const struct filling *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        assert_true(f->share[i] >= 0 && f->share[i] <= f->cap[i]);
        for (int32_t j = 0; j < f->n; j++) {
            if (f->share[j] >= f->cap[j] || f->share[i] == 0)
                continue; /* j has room */
            if (f->rating[i] == 0)
                assert_true(f->rating[j] == 0);
            else if (f->rating[j] > 0)
                assert_true(((double)f->share[i] - 1.001) / f->rating[i] <=
                            ((double)f->share[j] + 1.001) / f->rating[j]);
        }
    }
}

static void waterfill_is_exact_level_and_within_caps(void **state)
{
    struct prng prng = prng_seed(7);
    int32_t infeasible = 0;
    (void)state;
    for (int32_t round = 0; round < 60000; round++) {
        struct filling f = random_filling(&prng);
        int status = plan_waterfill(f.total, f.rating, f.cap, f.n, f.share);
        bool feasible = sum_of(f.cap, f.n) >= f.total;
        assert_int_equal(status, feasible ? 0 : STATUS_DOES_NOT_FIT);
        infeasible += !feasible;
        if (!feasible)
            continue;
        assert_int_equal(sum_of(f.share, f.n), f.total);
        check_level(&f);
    }
    assert_true(infeasible > 1000);
}

static void waterfill_does_not_depend_on_order(void **state)
{
    struct prng prng = prng_seed(8);
    (void)state;
    for (int32_t round = 0; round < 20000; round++) {
        struct filling f = random_filling(&prng), turned = f;
        if (plan_waterfill(f.total, f.rating, f.cap, f.n, f.share) < 0)
            continue;
        for (int32_t i = 0; i < f.n; i++) {
            turned.rating[i] = f.rating[f.n - 1 - i];
            turned.cap[i] = f.cap[f.n - 1 - i];
        }
        assert_int_equal(plan_waterfill(f.total, turned.rating, turned.cap, f.n, turned.share), 0);
        for (int32_t i = 0; i < f.n; i++)
            assert_true(llabs((long long)(turned.share[f.n - 1 - i] - f.share[i])) <= 1);
    }
}

static void rating_is_equation_5(void **state)
{
    (void)state;
    /* facts/split 4: 600 MHz, K_1 0.127, no delay, 11 MB/s, K_c 1 */
    assert_true(fabs(plan_rating(600, 0.127, 0, 11000, 1) - 75.7) < 0.05);
    assert_true(fabs(plan_rating(600, 0.127, 0, 11000, 0) - 76.2) < 1e-9);
    double slow = plan_rating(600, 0.127, 0.010, 11000, 3), fast = plan_rating(600, 0.127, 0, 11000, 3);
    assert_true(slow < fast);
    assert_true(fabs(slow - 600 * 0.127 / ((0.010 + 1 / 11000.0) * 600 * 0.127 * 3 + 1)) < 1e-9);
}

/* ---- plans ---- */

static void make_boards(struct plan_board *boards, int32_t n)
{
    for (int32_t b = 0; b < n; b++) {
        boards[b] = *plan_profile("teensy41-good");
        snprintf(boards[b].name, sizeof boards[b].name, "board-%d", b + 1);
    }
}

static struct plan *must_plan(const struct graph *graph, const struct plan_board *boards, int32_t n,
                              enum plan_shares shares)
{
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON, .shares = shares};
    struct error error;
    struct plan *plan = plan_make(graph, "", boards, n, &options, NULL, NULL, &error);
    if (!plan)
        fail_msg("%s", error.message);
    return plan;
}

static void shares_follow_frequency_and_rating(void **state)
{
    struct graph *graph = random_graph(3, NULL);
    struct plan_board boards[2];
    (void)state;
    make_boards(boards, 2);
    boards[1].clock_hz = 3 * boards[0].clock_hz;
    struct plan *even = must_plan(graph, boards, 2, PLAN_SHARES_EVEN);
    struct plan *frequency = must_plan(graph, boards, 2, PLAN_SHARES_FREQUENCY);
    struct plan *rating = must_plan(graph, boards, 2, PLAN_SHARES_RATING);
    assert_true(llabs((long long)even->parties[0].share - PLAN_SHARE_WHOLE / 2) < 1000);
    assert_true(llabs((long long)frequency->parties[0].share - PLAN_SHARE_WHOLE / 4) < 1000);
    /* the link evens out what the clock tells apart */
    assert_true(rating->parties[0].share > frequency->parties[0].share);
    assert_true(rating->parties[0].share < even->parties[0].share);
    plan_free(even);
    plan_free(frequency);
    plan_free(rating);
    boards[1].clock_hz = boards[0].clock_hz;
    boards[1].delay_s_per_kb = 0.01;
    rating = must_plan(graph, boards, 2, PLAN_SHARES_RATING);
    assert_true(rating->parties[1].share < rating->parties[0].share / 10);
    plan_free(rating);
    graph_free(graph);
}

static void plan_of_the_same_is_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        struct plan_board boards[5];
        make_boards(boards, 5);
        struct plan *a = must_plan(graph, boards, 5, PLAN_SHARES_RATING);
        struct plan *b = must_plan(graph, boards, 5, PLAN_SHARES_RATING);
        struct emit_fragment *fa, *fb;
        assert_int_equal(emit_plan(a, &fa, NULL), 0);
        assert_int_equal(emit_plan(b, &fb, NULL), 0);
        assert_string_equal(a->hash, b->hash);
        assert_memory_equal(a->table.fragments, b->table.fragments, 5 * WIRE_HASH_BYTES);
        emit_free(fa, 5);
        emit_free(fb, 5);
        plan_free(a);
        plan_free(b);
        graph_free(graph);
    }
}

/* Buffers in use at the same step lie apart, or are one in place of the other. */
static void buffers_in_use_together_do_not_overlap(void **state)
{
    (void)state;
    for (uint64_t seed = 50; seed < 90; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        struct plan_board boards[3];
        make_boards(boards, 3);
        struct plan *plan = must_plan(graph, boards, 3, PLAN_SHARES_EVEN);
        for (int32_t p = 0; p < 3; p++) {
            const struct plan_party *party = &plan->parties[p];
            for (int32_t i = 0; i < party->n_buffers; i++) {
                const struct plan_buffer *x = &party->buffers[i];
                assert_true((int64_t)x->offset + x->bytes <= party->arena_bytes);
                assert_true(x->elem == 1 || x->offset % 16 == 0);
                for (int32_t j = 0; j < i; j++) {
                    const struct plan_buffer *y = &party->buffers[j];
                    bool together = x->first <= y->last && y->first <= x->last;
                    bool apart = x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
                    bool in_place = x->offset == y->offset && box_equal(x->box, y->box);
                    assert_true(!together || apart || in_place);
                }
            }
            assert_true(party->peak_bytes <= party->arena_bytes);
        }
        plan_free(plan);
        graph_free(graph);
    }
}

static void transfers_are_sorted_and_numbered_by_link(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        struct plan_board boards[7];
        uint16_t next[8] = {0};
        make_boards(boards, 7);
        struct plan *plan = must_plan(graph, boards, 7, PLAN_SHARES_RATING);
        for (uint32_t i = 0; i < plan->table.n_transfers; i++) {
            const struct conduct_transfer *t = &plan->table.transfers[i];
            assert_true(i == 0 || t[-1].rank <= t->rank);
            assert_true((t->from == 0) != (t->to == 0));
            assert_int_equal(t->id, next[t->from + t->to]++);
            assert_int_equal(t->rank % 2, t->from ? 0 : 1);
        }
        plan_free(plan);
        graph_free(graph);
    }
}

/* ---- refusals ---- */

static void refusal_names_every_board_that_falls_short(void **state)
{
    struct graph *graph = random_graph(4, NULL);
    struct plan_board boards[3];
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON, .shares = PLAN_SHARES_EVEN};
    struct error_shortfall shortfalls[3];
    int32_t n = 3;
    struct error error;
    (void)state;
    make_boards(boards, 3);
    boards[0].arena_bytes = boards[1].arena_bytes = boards[2].arena_bytes = 16;
    assert_null(plan_make(graph, "", boards, 3, &options, shortfalls, &n, &error));
    assert_int_equal(error.status, STATUS_DOES_NOT_FIT);
    assert_int_equal(n, 3);
    for (int32_t b = 0; b < 3; b++) {
        assert_string_equal(shortfalls[b].board, boards[b].name);
        assert_string_equal(shortfalls[b].resource, "arena");
        assert_int_equal(shortfalls[b].have_bytes, 16);
        assert_true(shortfalls[b].need_bytes > 16 && shortfalls[b].segment >= 0 && shortfalls[b].op[0]);
    }
    n = 1;
    assert_null(plan_make(graph, "", boards, 3, &options, shortfalls, &n, &error));
    assert_int_equal(n, 1);
    make_boards(boards, 3);
    boards[0].flash_bytes = boards[1].flash_bytes = boards[2].flash_bytes = 300;
    n = 3;
    assert_null(plan_make(graph, "", boards, 3, &options, shortfalls, &n, &error));
    assert_int_equal(n, 3);
    assert_string_equal(shortfalls[0].resource, "flash");
    assert_string_equal(error.shortfall.resource, "flash");
    graph_free(graph);
}

static void a_small_flash_gives_its_part_to_others(void **state)
{
    struct graph *graph = random_graph(11, NULL);
    struct plan_board boards[3];
    (void)state;
    make_boards(boards, 3);
    struct plan *plan = must_plan(graph, boards, 3, PLAN_SHARES_EVEN);
    boards[1].flash_bytes = plan->parties[1].fragment_bytes * 2 / 3;
    plan_free(plan);
    plan = must_plan(graph, boards, 3, PLAN_SHARES_EVEN);
    assert_true(plan->parties[1].fragment_bytes <= boards[1].flash_bytes);
    assert_true(plan->parties[1].share < plan->parties[0].share);
    plan_free(plan);
    graph_free(graph);
}

/* Every change that a refusal offers really gives a plan. */
static void what_a_refusal_offers_fits(void **state)
{
    struct graph *graph = random_graph(11, NULL);
    struct plan_board boards[16];
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON, .shares = PLAN_SHARES_EVEN};
    (void)state;
    make_boards(boards, 16);
    struct plan *plan = must_plan(graph, boards, 4, PLAN_SHARES_EVEN);
    int64_t need = 0;
    for (int32_t b = 0; b < 4; b++)
        need = plan->parties[b].fragment_bytes > need ? plan->parties[b].fragment_bytes : need;
    plan_free(plan);
    for (int32_t b = 0; b < 16; b++)
        boards[b].flash_bytes = need;
    json_t *helps = describe_try(graph, boards, 2, &options);
    assert_true(json_array_size(helps) > 0);
    const char *first = json_string_value(json_array_get(helps, 0));
    int32_t count = (int32_t)strtol(first, NULL, 10);
    assert_true(count > 2 && count <= 4);
    plan_free(must_plan(graph, boards, count, PLAN_SHARES_EVEN));
    json_decref(helps);
    graph_free(graph);
}

static void wrong_arguments_are_refused(void **state)
{
    struct graph *graph = random_graph(1, NULL);
    struct plan_board boards[1];
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON};
    struct error error;
    (void)state;
    make_boards(boards, 1);
    assert_null(plan_make(graph, "", boards, 0, &options, NULL, NULL, &error));
    assert_int_equal(error.status, STATUS_TOO_FEW_BOARDS);
    boards[0].clock_hz = 0;
    assert_null(plan_make(graph, "", boards, 1, &options, NULL, NULL, &error));
    assert_int_equal(error.status, STATUS_INVALID_ARGUMENT);
    make_boards(boards, 1);
    options.strategy = PLAN_STRATEGY_STRIPS;
    assert_null(plan_make(graph, "", boards, 1, &options, NULL, NULL, &error));
    assert_int_equal(error.status, STATUS_STRATEGY_UNSUPPORTED);
    graph_free(graph);
}

/* ---- JSON ---- */

static char *canonical(const struct plan *plan)
{
    json_t *json = plan_to_json(plan);
    char *text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(json);
    return text;
}

static void json_brings_a_plan_back_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct graph *graph = random_graph(seed, NULL);
        struct plan_board boards[4];
        struct emit_fragment *fragments, *again;
        struct error error;
        make_boards(boards, 4);
        struct plan *plan = must_plan(graph, boards, 4, PLAN_SHARES_RATING);
        assert_int_equal(emit_plan(plan, &fragments, NULL), 0);
        char *text = canonical(plan);
        json_t *json = json_loads(text, 0, NULL);
        struct plan *back = plan_from_json(graph, json, &error);
        if (!back)
            fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
        char *second = canonical(back);
        assert_string_equal(text, second);
        assert_int_equal(emit_plan(back, &again, NULL), 0); /* the same images to the byte */
        for (int32_t b = 0; b < 4; b++)
            assert_memory_equal(fragments[b].hash, again[b].hash, WIRE_HASH_BYTES);
        emit_free(fragments, 4);
        emit_free(again, 4);
        plan_free(plan);
        plan_free(back);
        json_decref(json);
        free(text);
        free(second);
        graph_free(graph);
    }
}

/* Replaces the n-th number of the document, counting depth first. */
static bool damage(json_t *json, int32_t *n, json_int_t value)
{
    size_t i;
    const char *key;
    json_t *item;
    if (json_is_integer(json) && (*n)-- == 0) {
        json_integer_set(json, value);
        return true;
    }
    if (json_is_array(json))
        json_array_foreach(json, i, item) if (damage(item, n, value)) return true;
    if (json_is_object(json))
        json_object_foreach(json, key, item) if (damage(item, n, value)) return true;
    return false;
}

static void json_that_was_changed_is_refused(void **state)
{
    struct graph *graph = random_graph(2, NULL);
    struct plan_board boards[2];
    struct prng prng = prng_seed(5);
    (void)state;
    make_boards(boards, 2);
    struct plan *plan = must_plan(graph, boards, 2, PLAN_SHARES_EVEN);
    json_t *json = plan_to_json(plan);
    for (int32_t round = 0; round < 500; round++) {
        json_t *copy = json_deep_copy(json);
        int32_t n = prng_range(&prng, 0, 1500);
        bool changed = damage(copy, &n, prng_range(&prng, -3, 100000)) && !json_equal(copy, json);
        json_object_del(copy, "fragments"); /* not covered by the hash */
        json_object_set(copy, "fragments", json_object_get(json, "fragments"));
        changed = changed && !json_equal(copy, json);
        struct plan *back = plan_from_json(graph, copy, NULL);
        assert_int_equal(back == NULL, changed);
        plan_free(back);
        json_decref(copy);
    }
    json_object_del(json, "steps");
    assert_null(plan_from_json(graph, json_null(), NULL));
    json_decref(json);
    plan_free(plan);
    graph_free(graph);
}

/* ---- boards ---- */

static int read_boards(const char *text, struct plan_board **boards, int32_t *n, struct error *error)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    error_clear(error);
    int status = plan_boards_from_json(json, boards, n, error);
    json_decref(json);
    return status;
}

static void fleets_are_read_and_unknown_keys_refused(void **state)
{
    struct plan_board *boards;
    struct error error;
    int32_t n;
    (void)state;
    assert_int_equal(
        read_boards(
            "[{\"name\":\"a\",\"clock_hz\":100e6,\"link_bytes_per_s\":2e6,\"message_latency_s\":0.004},"
            "{\"name\":\"b\",\"mac_per_cycle\":{\"conv\":0.1}}]",
            &boards, &n, &error),
        0);
    assert_int_equal(n, 2);
    assert_true(fabs(boards[0].bandwidth_kb_per_s - 2000) < 1e-9);
    assert_true(fabs(boards[0].delay_s_per_kb - 0.001) < 1e-12);
    assert_true(fabs(boards[1].mac_per_cycle[2] - 0.1) < 1e-12 &&
                fabs(boards[1].mac_per_cycle[0] - 0.62) < 1e-12);
    free(boards);
    const char *const bad[] = {"[]",
                               "[{\"clock\":1}]",
                               "{\"clock_hz\":-1}",
                               "{\"clock_hz\":\"fast\"}",
                               "{\"mac_per_cycle\":{\"winograd\":1}}",
                               "{\"arena_bytes\":1e30}",
                               "[1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(read_boards(bad[i], &boards, &n, &error) < 0);
        assert_null(boards);
        assert_true(error.message[0]);
    }
    json_t *json = plan_board_json(plan_profile("teensy41-cautious"));
    assert_int_equal(plan_boards_from_json(json, &boards, &n, NULL), 0);
    assert_memory_equal(&boards[0], plan_profile("teensy41-cautious"), sizeof *boards);
    json_decref(json);
    free(boards);
    assert_null(plan_profile("nothing"));
}

/* The built-in profiles are those that comparisons use. */
static void profiles_are_those_of_the_facts(void **state)
{
    static const char *const names[] = {"teensy41-good", "teensy41-cautious"};
    const char *facts = getenv("FACTS");
    (void)state;
    for (int i = 0; i < 2; i++) {
        char path[512];
        struct plan_board *board;
        int32_t n;
        snprintf(path, sizeof path, "%s/profiles/%s.json", facts && *facts ? facts : "../shared", names[i]);
        json_t *json = json_load_file(path, 0, NULL);
        if (!json) {
            printf("SKIP profiles_are_those_of_the_facts: no %s\n", path);
            skip();
        }
        assert_int_equal(plan_boards_from_json(json, &board, &n, NULL), 0);
        assert_memory_equal(board, plan_profile(names[i]), sizeof *board);
        free(board);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waterfill_is_exact_level_and_within_caps),
        cmocka_unit_test(waterfill_does_not_depend_on_order),
        cmocka_unit_test(rating_is_equation_5),
        cmocka_unit_test(shares_follow_frequency_and_rating),
        cmocka_unit_test(plan_of_the_same_is_the_same),
        cmocka_unit_test(buffers_in_use_together_do_not_overlap),
        cmocka_unit_test(transfers_are_sorted_and_numbered_by_link),
        cmocka_unit_test(refusal_names_every_board_that_falls_short),
        cmocka_unit_test(a_small_flash_gives_its_part_to_others),
        cmocka_unit_test(what_a_refusal_offers_fits),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(json_brings_a_plan_back_whole),
        cmocka_unit_test(json_that_was_changed_is_refused),
        cmocka_unit_test(profiles_are_those_of_the_facts),
        cmocka_unit_test(fleets_are_read_and_unknown_keys_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
