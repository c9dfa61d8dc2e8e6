/*
 * The rule of posting (ENCODING C3, C5): random exchanges between parties that talk to each other over links
 * which hold little and deliver in order. Parties whose programs all pass the check never deadlock, however
 * their moves are mixed; among those that the check refuses many do.
 */
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARTIES_MAX = 5, EXCHANGES_MAX = 8, W = 5, C = 4 };
#ifdef SHOAL_SANITIZE
enum { PLANS = 60 };
#else
enum { PLANS = 300 };
#endif

struct plan {
    int32_t parties, exchanges;
    bool gives[EXCHANGES_MAX][PARTIES_MAX], takes[EXCHANGES_MAX][PARTIES_MAX];
    int32_t rows[EXCHANGES_MAX];
};

static struct plan random_plan(struct prng *r)
{
    struct plan plan = {.parties = prng_range(r, 2, PARTIES_MAX),
                        .exchanges = prng_range(r, 2, EXCHANGES_MAX)};
    for (int32_t x = 0; x < plan.exchanges; x++) {
        plan.rows[x] = prng_range(r, 1, 40);
        for (int32_t p = 0; p < plan.parties; p++) {
            plan.gives[x][p] = prng_one_in(r, 2);
            plan.takes[x][p] = prng_one_in(r, 2);
        }
    }
    return plan;
}

/* What party p sends in exchange x. */
static uint8_t byte_of(int32_t x, int32_t p, int32_t i)
{
    return (uint8_t)(x * 37 + p * 101 + i * 7);
}

static struct fragment_transfer transfer(const struct plan *plan, int32_t x, int32_t from, int32_t to)
{
    return (struct fragment_transfer){.id = (uint16_t)x,
                                      .exchange = (uint16_t)x,
                                      .rank = (uint32_t)x,
                                      .from = (uint16_t)(from + 1),
                                      .to = (uint16_t)(to + 1),
                                      .h1 = (uint16_t)plan->rows[x],
                                      .w1 = W,
                                      .c1 = C};
}

static uint16_t view_over(struct program *p, uint8_t region, uint32_t offset, int32_t rows, int32_t tensor)
{
    return program_view(p, (struct fragment_view){.tensor = (uint16_t)tensor,
                                                  .region = region,
                                                  .offset = offset,
                                                  .elem = 1,
                                                  .rows = (uint16_t)rows,
                                                  .row_stride = W * C,
                                                  .pixel_stride = C,
                                                  .w_cap = W,
                                                  .c_cap = C,
                                                  .h = (uint16_t)rows,
                                                  .w = W,
                                                  .c = C,
                                                  .h0 = FRAGMENT_NONE,
                                                  .w0 = FRAGMENT_NONE,
                                                  .c0 = FRAGMENT_NONE});
}

/* What party `me` sends of exchange x: constants. */
static uint16_t source(struct program *p, const struct plan *plan, int32_t x, int32_t me)
{
    uint8_t bytes[64 * W * C];
    int32_t n = plan->rows[x] * W * C;
    for (int32_t i = 0; i < n; i++)
        bytes[i] = byte_of(x, me, i);
    uint16_t slice =
        program_slice(p, (struct fragment_slice){.kind = FRAGMENT_SLICE_CONSTANT}, bytes, (uint32_t)n, NULL);
    return view_over(p, FRAGMENT_REGION_WEIGHTS, p->slices[slice].offset, plan->rows[x], 500 + x);
}

/* All moves in the order of the rule; then what was received goes to the coordinator. */
static struct program *write_party(const struct plan *plan, int32_t me)
{
    struct program *p = program_new((uint16_t)(me + 1));
    uint16_t received[EXCHANGES_MAX * PARTIES_MAX], n = 0;
    struct fragment_transfer back[EXCHANGES_MAX * PARTIES_MAX];
    for (int32_t x = 0; x < plan->exchanges; x++) {
        for (int32_t peer = 0; peer < plan->parties; peer++)
            if (peer != me && plan->takes[x][me] && plan->gives[x][peer]) {
                back[n] = transfer(plan, x, peer, me);
                received[n] = view_over(p, FRAGMENT_REGION_ARENA, p->arena_bytes, plan->rows[x], n);
                p->arena_bytes += (uint32_t)(plan->rows[x] * W * C);
                program_move(p, FRAGMENT_POST, received[n], program_transfer(p, back[n]), 0);
                n++;
            }
        uint16_t view = plan->gives[x][me] ? source(p, plan, x, me) : (uint16_t)0;
        for (int32_t peer = 0; peer < plan->parties; peer++)
            if (peer != me && plan->gives[x][me] && plan->takes[x][peer])
                program_move(p, FRAGMENT_SEND, view, program_transfer(p, transfer(plan, x, me, peer)), 0);
        p->ranks = (uint32_t)x + 1;
        program_wait(p, (uint32_t)x);
    }
    for (uint16_t i = 0; i < n; i++) {
        back[i].id = i;
        back[i].rank = back[i].exchange = (uint16_t)plan->exchanges;
        back[i].from = (uint16_t)(me + 1);
        back[i].to = 0;
        program_move(p, FRAGMENT_SEND, received[i], program_transfer(p, back[i]), 0);
    }
    return p;
}

/* Swaps neighbours now and then. */
static void mix(struct program *p, struct prng *r, int32_t swaps)
{
    for (; swaps > 0 && p->n_code > 1; swaps--) {
        int32_t i = prng_range(r, 0, p->n_code - 2);
        struct fragment_code code = p->code[i];
        p->code[i] = p->code[i + 1];
        p->code[i + 1] = code;
    }
}

struct outcome {
    bool passed;
    int status;
};

static void require_received(const struct plan *plan, const struct local_hub *hub)
{
    for (int32_t me = 0; me < plan->parties; me++) {
        uint16_t id = 0;
        for (int32_t x = 0; x < plan->exchanges; x++)
            for (int32_t peer = 0; peer < plan->parties; peer++) {
                if (peer == me || !plan->takes[x][me] || !plan->gives[x][peer])
                    continue;
                const struct local_transfer *t = local_hub_find(hub, (uint16_t)(me + 1), 0, id++);
                assert_non_null(t);
                assert_int_equal(t->filled, plan->rows[x] * W * C);
                for (uint32_t i = 0; i < t->size; i++)
                    assert_int_equal(t->bytes[i], byte_of(x, peer, (int32_t)i));
            }
    }
}

static struct outcome try_plan(const struct plan *plan, struct prng *r, int32_t swaps)
{
    struct net_image images[PARTIES_MAX];
    struct local_party *parties[PARTIES_MAX] = {NULL};
    struct outcome outcome = {true, 0};
    struct local_hub hub;
    local_hub_start(&hub, prng_next(r));
    for (int32_t i = 0; i < plan->parties; i++) {
        struct fragment_place place;
        struct program *p = write_party(plan, i);
        mix(p, r, swaps);
        images[i] = net_image(p);
        outcome.passed = outcome.passed && net_check(&images[i].fragment, &place) == STATUS_OK;
        parties[i] = malloc(sizeof *parties[i]);
        local_party_start(parties[i], &hub, &images[i].fragment);
    }
    outcome.status = local_run(parties, plan->parties);
    if (outcome.status == 0 && outcome.passed)
        require_received(plan, &hub);
    for (int32_t i = 0; i < plan->parties; i++) {
        assert_true(local_party_end(parties[i]));
        free(parties[i]);
        free(images[i].bytes);
    }
    local_hub_end(&hub);
    return outcome;
}

static void programs_by_the_rule_pass_and_never_deadlock(void **state)
{
    (void)state;
    struct prng r = prng_seed(1);
    for (int round = 0; round < PLANS; round++) {
        struct plan plan = random_plan(&r);
        struct outcome outcome = try_plan(&plan, &r, 0);
        assert_true(outcome.passed);
        assert_int_equal(outcome.status, 0);
    }
}

static void mixed_programs_that_pass_never_deadlock_and_many_refused_ones_do(void **state)
{
    (void)state;
    struct prng r = prng_seed(2);
    int32_t passed = 0, refused = 0, deadlocks = 0;
    for (int round = 0; round < PLANS; round++) {
        struct plan plan = random_plan(&r);
        struct outcome outcome = try_plan(&plan, &r, 1 + round % 12);
        if (outcome.passed)
            assert_int_equal(outcome.status, 0);
        passed += outcome.passed;
        refused += !outcome.passed;
        deadlocks += !outcome.passed && outcome.status == STATUS_DEADLINE;
    }
    print_message("%d passed, %d refused of which %d deadlock\n", passed, refused, deadlocks);
    assert_true(passed >= PLANS / 30 && refused >= PLANS / 3 && deadlocks >= PLANS / 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_by_the_rule_pass_and_never_deadlock),
        cmocka_unit_test(mixed_programs_that_pass_never_deadlock_and_many_refused_ones_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
