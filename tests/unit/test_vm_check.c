/*
 * What the checks must refuse: programs that are wrong in one deliberate way, of which most stay within their
 * memory and many even give the right answer now and then. Strength is counted over random networks: a kind
 * of fault is refused whenever it is one, that is, whenever the broken program differs from the sound one.
 */
#include "server/model/reference.h"
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 25 };

/* Takes the program; answers the checks' status. */
static int check(struct program *program)
{
    struct fragment_place place = {0};
    struct net_image image = net_image(program);
    int status = net_check(&image.fragment, &place);
    free(image.bytes);
    return status;
}

static int bounds(struct program *program)
{
    struct fragment_place place = {0};
    struct net_image image = net_image(program);
    int status = vm_check_bounds(&image.fragment, image.fragment.header->arena_bytes, &place);
    free(image.bytes);
    return status;
}

/* ---- data ---- */

/* Runs a program of party 1 and says whether its output is the reference's. */
static bool exact(const struct net *net, void *const *tensors, const struct fragment *fragment)
{
    struct local_hub hub;
    struct local_party *party = malloc(sizeof *party);
    local_hub_start(&hub, 1);
    local_hub_put(&hub, 0, 1, 0, tensors[net->in], (uint32_t)net_bytes(net, net->in));
    local_party_start(party, &hub, fragment);
    bool same = local_run(&party, 1) == 0;
    const struct local_transfer *out = local_hub_find(&hub, 1, 0, 1);
    same = same && out && out->filled == out->size && memcmp(out->bytes, tensors[net->out], out->size) == 0;
    assert_true(local_party_end(party));
    free(party);
    local_hub_end(&hub);
    return same;
}

/* A distance is wrong exactly where a byte is overwritten that is still read; the check knows it to the byte,
 * so what it lets through must be exact. */
static void an_overlap_too_close_is_refused_and_one_that_passes_is_exact(void **state)
{
    (void)state;
    int32_t refused = 0, passed = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = seed % 4 == 0 ? net_random(seed) : net_block(seed);
        void *tensors[NET_TENSORS_MAX];
        net_reference(&net, seed, tensors);
        for (int32_t less = 0; less < 400; less = less * 2 + 1) {
            struct fragment_place place = {0};
            struct program *p = program_new(1);
            net_rows(p, &net, (struct net_rows){.overlap = true, .less_overlap = less});
            struct net_image image = net_image(p);
            int status = net_check(&image.fragment, &place);
            assert_true(status == STATUS_OK || (less > 0 && status == STATUS_FRAGMENT_DATA));
            if (status == STATUS_OK)
                assert_true(exact(&net, tensors, &image.fragment));
            refused += status != STATUS_OK;
            passed += status == STATUS_OK;
            free(image.bytes);
        }
        reference_free_tensors(net.graph, tensors);
        net_free(&net);
    }
    print_message("%d refused, %d passed and exact\n", refused, passed);
    assert_true(refused >= SEEDS && passed >= SEEDS);
}

static void a_ring_with_a_row_too_few_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = net_random(seed);
        struct program *p = program_new(1);
        net_rows(p, &net, (struct net_rows){.stream_in = true, .less_rows = 1});
        assert_int_equal(check(p), STATUS_FRAGMENT_DATA);
        net_free(&net);
    }
}

static bool leave_out(struct program *p, enum fragment_op op, int32_t which)
{
    for (uint16_t i = 0; i < p->n_code; i++)
        if (p->code[i].op == op && which-- == 0) {
            memmove(&p->code[i], &p->code[i + 1], (size_t)(p->n_code - i - 1) * sizeof p->code[0]);
            p->n_code--;
            return true;
        }
    return false;
}

static void a_program_without_one_of_its_operators_is_refused(void **state)
{
    (void)state;
    static const enum fragment_op ops[] = {FRAGMENT_CONV, FRAGMENT_DW, FRAGMENT_ADD, FRAGMENT_ZERO,
                                           FRAGMENT_FINISH};
    int32_t broken = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = net_random(seed);
        for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
            for (int32_t which = 0; which < 12; which++)
                for (int form = 0; form < 3; form++) {
                    struct program *p = program_new(1);
                    if (form == 0)
                        net_rows(p, &net, (struct net_rows){.overlap = true});
                    else
                        net_patches(
                            p, &net,
                            (struct net_patches){.h = 3, .w = 4, .k = 2 * (form - 1), .rows = form == 1});
                    if (!leave_out(p, ops[i], which)) {
                        program_free(p);
                        continue;
                    }
                    assert_int_equal(check(p), STATUS_FRAGMENT_DATA);
                    broken++;
                }
        net_free(&net);
    }
    assert_true(broken > 20 * SEEDS);
}

static void a_halo_that_is_not_waited_for_is_refused(void **state)
{
    (void)state;
    int32_t broken = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = net_block(seed);
        for (int32_t i = 0; i < 3; i++) {
            struct program *p = program_new((uint16_t)(i + 1));
            assert_true(net_strip(p, &net, 3, i, false));
            assert_int_equal(check(p), STATUS_FRAGMENT_DATA);
            broken++;
        }
        net_free(&net);
    }
    assert_int_equal(broken, 3 * SEEDS);
}

/* Changes the element 0 of the first RECV's view after a SEND of it was queued: LUT-free, by receiving once
 * more. */
static struct program *two_transfers(bool wait, bool send_first)
{
    struct program *p = program_new(1);
    struct fragment_view view = {.region = FRAGMENT_REGION_ARENA,
                                 .elem = 1,
                                 .rows = 4,
                                 .row_stride = 12,
                                 .pixel_stride = 3,
                                 .w_cap = 4,
                                 .c_cap = 3,
                                 .h = 4,
                                 .w = 4,
                                 .c = 3,
                                 .h0 = FRAGMENT_NONE,
                                 .w0 = FRAGMENT_NONE,
                                 .c0 = FRAGMENT_NONE};
    struct fragment_transfer t = {.id = 0, .rank = 0, .from = 0, .to = 1, .h1 = 4, .w1 = 4, .c1 = 3};
    uint16_t v = program_view(p, view);
    uint16_t in = program_transfer(p, t);
    t.id = 1;
    t.rank = 1;
    if (send_first) {
        t.from = 1;
        t.to = 0;
    }
    uint16_t second = program_transfer(p, t);
    t = (struct fragment_transfer){.id = 2, .rank = 2, .from = 0, .to = 1, .h1 = 4, .w1 = 4, .c1 = 3};
    uint16_t third = program_transfer(p, t);
    p->arena_bytes = 48;
    program_move(p, FRAGMENT_RECV, v, in, 0);
    program_move(p, send_first ? FRAGMENT_SEND : FRAGMENT_POST, v, second, 0);
    if (wait)
        program_wait(p, 1);
    program_move(p, FRAGMENT_RECV, v, third, 0);
    return p;
}

static void memory_under_a_queued_send_or_a_posted_receive_is_not_written_before_a_wait(void **state)
{
    (void)state;
    for (int send = 0; send < 2; send++) {
        assert_int_equal(check(two_transfers(true, send)), STATUS_OK);
        assert_int_equal(check(two_transfers(false, send)), STATUS_FRAGMENT_DATA);
    }
}

/* ---- order ---- */

struct moves {
    enum fragment_op op; /* SEND, POST, RECV, WAIT */
    uint16_t id;
    uint32_t rank;
};

/* One transfer of 2x2x1 for each move but WAIT; views do not matter to the order, all share one. */
static struct program *moves(const struct moves *list, int32_t n)
{
    struct program *p = program_new(2);
    uint16_t index[16];
    p->arena_bytes = 64;
    uint16_t v = program_view(p, (struct fragment_view){.elem = 1,
                                                        .rows = 2,
                                                        .row_stride = 2,
                                                        .pixel_stride = 1,
                                                        .w_cap = 2,
                                                        .c_cap = 1,
                                                        .h = 2,
                                                        .w = 2,
                                                        .c = 1,
                                                        .h0 = FRAGMENT_NONE,
                                                        .w0 = FRAGMENT_NONE,
                                                        .c0 = FRAGMENT_NONE});
    for (uint32_t rank = 0; rank < 8; rank++) /* the table is sorted, whatever the program does */
        for (uint16_t id = 0; id < 8; id++)
            for (int32_t i = 0; i < n; i++)
                if (list[i].op != FRAGMENT_WAIT && list[i].rank == rank && list[i].id == id) {
                    struct fragment_transfer t = {.id = id, .rank = rank, .to = 2, .h1 = 2, .w1 = 2, .c1 = 1};
                    if (list[i].op == FRAGMENT_SEND) {
                        t.from = 2;
                        t.to = 0;
                    }
                    index[i] = program_transfer(p, t);
                }
    p->ranks = 8;
    for (int32_t i = 0; i < n; i++) {
        if (list[i].op == FRAGMENT_WAIT)
            program_wait(p, list[i].rank);
        else
            program_move(p, list[i].op, v, index[i], 0);
    }
    return p;
}

#define MOVES(...)                             \
    moves((const struct moves[]){__VA_ARGS__}, \
          sizeof((const struct moves[]){__VA_ARGS__}) / sizeof(struct moves))

static void a_wait_comes_after_all_of_its_rank_is_posted_and_queued(void **state)
{
    (void)state;
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_SEND, 0, 0}, {FRAGMENT_WAIT, 0, 0})),
                     STATUS_OK);
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_WAIT, 0, 0}, {FRAGMENT_SEND, 0, 0})),
                     STATUS_FRAGMENT_ORDER);
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_WAIT, 0, 0}, {FRAGMENT_SEND, 0, 1})),
                     STATUS_OK);
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_WAIT, 0, 1}, {FRAGMENT_SEND, 0, 1})),
                     STATUS_FRAGMENT_ORDER);
}

static void a_receive_that_waits_obeys_the_same_rule(void **state)
{
    (void)state;
    assert_int_equal(bounds(MOVES({FRAGMENT_RECV, 0, 0}, {FRAGMENT_SEND, 0, 1}, {FRAGMENT_RECV, 1, 2})),
                     STATUS_OK);
    assert_int_equal(bounds(MOVES({FRAGMENT_RECV, 0, 1}, {FRAGMENT_SEND, 0, 1})), STATUS_FRAGMENT_ORDER);
    assert_int_equal(bounds(MOVES({FRAGMENT_RECV, 0, 2}, {FRAGMENT_SEND, 0, 1})), STATUS_FRAGMENT_ORDER);
}

static void transfers_of_a_link_go_by_rank_and_id_each_once(void **state)
{
    (void)state;
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_POST, 1, 0}, {FRAGMENT_WAIT, 0, 0})),
                     STATUS_OK);
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 1, 0}, {FRAGMENT_POST, 0, 0}, {FRAGMENT_WAIT, 0, 0})),
                     STATUS_FRAGMENT_ORDER);
    assert_int_equal(bounds(MOVES({FRAGMENT_POST, 0, 1}, {FRAGMENT_POST, 1, 0}, {FRAGMENT_WAIT, 0, 1})),
                     STATUS_FRAGMENT_ORDER);
    struct program *twice = MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_WAIT, 0, 0});
    twice->code[twice->n_code++] = twice->code[0];
    assert_int_equal(bounds(twice), STATUS_FRAGMENT_ORDER);
    struct program *missing = MOVES({FRAGMENT_POST, 0, 0}, {FRAGMENT_SEND, 0, 1});
    missing->n_code--;
    assert_int_equal(bounds(missing), STATUS_FRAGMENT_ORDER);
}

/* ---- rows of a transfer in a LOOP ---- */

static struct program *by_rows(uint16_t peer, bool wait_inside, bool receive)
{
    struct net net = net_block(1);
    struct program *p = program_new(1);
    net_rows(p, &net, (struct net_rows){.stream_in = receive, .stream_out = !receive});
    for (uint16_t i = 0; i < p->n_transfers; i++) {
        if (p->transfers[i].from == 0)
            p->transfers[i].from = peer;
        if (p->transfers[i].to == 0)
            p->transfers[i].to = peer;
    }
    if (wait_inside) {
        uint16_t at = 0;
        while (p->code[at].op != FRAGMENT_END)
            at++;
        memmove(&p->code[at + 1], &p->code[at], (size_t)(p->n_code - at) * sizeof p->code[0]);
        p->code[at] = program_op(FRAGMENT_WAIT);
        p->n_code++;
    }
    net_free(&net);
    return p;
}

static void only_the_coordinators_link_takes_rows_and_no_other_wait_stands_among_them(void **state)
{
    (void)state;
    for (int receive = 0; receive < 2; receive++) {
        assert_int_equal(bounds(by_rows(0, false, receive)), STATUS_OK);
        assert_int_equal(bounds(by_rows(2, false, receive)), STATUS_FRAGMENT_ORDER);
        assert_int_equal(bounds(by_rows(0, true, receive)), STATUS_FRAGMENT_ORDER);
    }
}

/* ---- ends ---- */

static struct program *loops(uint32_t count, uint32_t depth)
{
    struct program *p = program_new(1);
    for (uint32_t i = 0; i < depth; i++)
        program_loop(p, (uint8_t)i, count);
    for (uint32_t i = 0; i < depth; i++)
        program_end(p);
    return p;
}

static void loops_of_nothing_end_or_are_refused(void **state)
{
    (void)state;
    struct fragment fragment;
    struct fragment_place place;
    uint32_t executions;
    assert_int_equal(bounds(loops(1000, 1)), STATUS_OK);
    struct program *p = loops(3, 4);
    uint8_t *bytes = program_image(p, &fragment);
    for (uint16_t i = 0; i < 4; i++)
        ((struct fragment_code *)(void *)(bytes + fragment.header->section[FRAGMENT_CODE].offset))[i].arg =
            1000000;
    assert_int_equal(vm_check_bounds(&fragment, 0, &place), STATUS_FRAGMENT_ENDLESS);
    assert_int_equal(vm_count(&fragment, &executions), STATUS_FRAGMENT_ENDLESS);
    struct vm vm;
    vm_start(&vm, &fragment, (struct vm_memory){0}, (struct vm_io){0});
    int status = VM_RAN;
    for (int32_t steps = 0; status == VM_RAN; steps++) {
        assert_true(steps < 1000000);
        status = vm_step(&vm);
    }
    assert_int_equal(status, STATUS_FRAGMENT_ENDLESS);
    free(bytes);
    program_free(p);
}

static void executions_are_exactly_those_stated(void **state)
{
    (void)state;
    struct net net = net_block(3);
    struct fragment_place place;
    for (int32_t off = -1; off <= 1; off++) {
        struct program *p = program_new(1);
        net_rows(p, &net, (struct net_rows){.stream_in = true});
        struct net_image image = net_image(p);
        ((struct fragment_header *)(void *)image.bytes)->executions += (uint32_t)off;
        int status = vm_check_bounds(&image.fragment, image.fragment.header->arena_bytes, &place);
        assert_int_equal(status, off == 0 ? STATUS_OK : STATUS_FRAGMENT_ENDLESS);
        free(image.bytes);
    }
    net_free(&net);
}

static void an_arena_larger_than_the_boards_is_refused(void **state)
{
    (void)state;
    struct net net = net_block(3);
    struct fragment_place place;
    struct program *p = program_new(1);
    net_full(p, &net);
    struct net_image image = net_image(p);
    uint32_t need = image.fragment.header->arena_bytes;
    assert_int_equal(vm_check_bounds(&image.fragment, need, &place), STATUS_OK);
    assert_int_equal(vm_check_bounds(&image.fragment, need - 1, &place), STATUS_RAM_FULL);
    free(image.bytes);
    net_free(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overlap_too_close_is_refused_and_one_that_passes_is_exact),
        cmocka_unit_test(a_ring_with_a_row_too_few_is_refused),
        cmocka_unit_test(a_program_without_one_of_its_operators_is_refused),
        cmocka_unit_test(a_halo_that_is_not_waited_for_is_refused),
        cmocka_unit_test(memory_under_a_queued_send_or_a_posted_receive_is_not_written_before_a_wait),
        cmocka_unit_test(a_wait_comes_after_all_of_its_rank_is_posted_and_queued),
        cmocka_unit_test(a_receive_that_waits_obeys_the_same_rule),
        cmocka_unit_test(transfers_of_a_link_go_by_rank_and_id_each_once),
        cmocka_unit_test(only_the_coordinators_link_takes_rows_and_no_other_wait_stands_among_them),
        cmocka_unit_test(loops_of_nothing_end_or_are_refused),
        cmocka_unit_test(executions_are_exactly_those_stated),
        cmocka_unit_test(an_arena_larger_than_the_boards_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
