/*
 * The cost walk against the definitions of the cost model, counted by hand over the network.
 */
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEEDS = 20 };

/* Walks to the end; `waits` counts the stops. */
static struct vm_cost cost_of(const struct fragment *fragment, int32_t *waits)
{
    struct vm vm;
    struct vm_cost cost = {0};
    uint32_t rank = 0;
    int status;
    vm_start(&vm, fragment, (struct vm_memory){0}, (struct vm_io){0});
    *waits = 0;
    while ((status = vm_cost(&vm, &cost, &rank)) == VM_WAITING)
        ++*waits;
    assert_int_equal(status, VM_DONE);
    return cost;
}

static struct vm_cost cost_of_program(struct program *p, int32_t *waits)
{
    struct net_image image = net_image(p);
    struct vm_cost cost = cost_of(&image.fragment, waits);
    assert_int_equal(cost.executions, image.fragment.header->executions);
    free(image.bytes);
    return cost;
}

static uint64_t all_macs(const struct vm_cost *cost)
{
    return cost->macs[0] + cost->macs[1] + cost->macs[2] + cost->macs[3];
}

struct expected {
    uint64_t macs[4], elements, weight_bytes;
};

static struct expected by_hand(const struct net *net)
{
    struct expected e = {{0}, 0, 0};
    for (int32_t i = 0; i < net->n; i++) {
        const struct net_op *o = &net->ops[i];
        struct shape y = net_shape(net, o->out), x = net_shape(net, o->in[0]);
        uint64_t out = (uint64_t)shape_elements(y), taps = (uint64_t)(o->kh * o->kw), c = (uint64_t)y.c;
        if (o->kind == FRAGMENT_ADD) {
            e.elements += out;
            continue;
        }
        uint64_t k = o->kind == FRAGMENT_CONV ? (uint64_t)x.c : 1;
        e.macs[o->kind == FRAGMENT_DW ? 1 : taps == 1 ? 0 : 2] += out * taps * k;
        e.weight_bytes += c * taps * k + 12 * c;
    }
    return e;
}

static void whole_layers_cost_their_macs_elements_weights_and_transfers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = net_random(seed);
        struct program *p = program_new(1);
        int32_t waits;
        net_full(p, &net);
        struct vm_cost cost = cost_of_program(p, &waits);
        struct expected e = by_hand(&net);
        for (int i = 0; i < 4; i++)
            assert_int_equal(cost.macs[i], e.macs[i]);
        assert_int_equal(cost.elements, e.elements);
        assert_int_equal(cost.weight_bytes, e.weight_bytes);
        assert_int_equal(cost.sent_bytes, net_bytes(&net, net.out));
        assert_int_equal(cost.received_bytes, net_bytes(&net, net.in));
        assert_int_equal(cost.sends, 1);
        assert_int_equal(cost.receives, 1);
        assert_int_equal(waits, 1);
        net_free(&net);
    }
}

/* These networks have less than 24 KiB of weights: one LOOP reads them once. */
static void a_loop_whose_weights_stay_in_the_cache_reads_them_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = net_random(seed);
        struct expected e = by_hand(&net);
        int32_t waits;
        assert_true(e.weight_bytes < 24 * 1024);
        struct program *p = program_new(1);
        net_rows(p, &net, (struct net_rows){.stream_in = true, .stream_out = true});
        struct vm_cost cost = cost_of_program(p, &waits);
        assert_int_equal(cost.weight_bytes, e.weight_bytes);
        assert_int_equal(all_macs(&cost), e.macs[0] + e.macs[1] + e.macs[2]);
        assert_int_equal(cost.sends, 1);
        assert_int_equal(cost.receives, 1);
        assert_int_equal(waits, net_shape(&net, net.in).h);
        net_free(&net);
    }
}

/* A channel loop inside one patch: each weight once, all sums once for each block of channels. */
static void accumulates_count_their_whole_output_each_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct net net = net_block(seed);
        struct program *p = program_new(1);
        int32_t waits, k = 3;
        net_partial(p, &net, 0, 1, 0, k);
        p->n_code--; /* the SEND at the end, with its transfer */
        p->n_transfers--;
        struct vm_cost cost = cost_of_program(p, &waits);
        struct shape y = net_shape(&net, net.ops[2].out), wide = net_shape(&net, net.ops[0].out);
        uint64_t out = (uint64_t)shape_elements(y), blocks = (uint64_t)((wide.c + k - 1) / k);
        assert_int_equal(cost.elements, out * (blocks + 2)); /* ZERO, FINISH */
        struct expected e = by_hand(&net);
        assert_int_equal(all_macs(&cost), e.macs[0] + e.macs[1] + e.macs[2]);
        assert_int_equal(cost.weight_bytes, e.weight_bytes);
        net_free(&net);
    }
}

static void resident_weights_cost_no_flash(void **state)
{
    (void)state;
    struct net net = net_block(4);
    struct program *p = program_new(1);
    int32_t waits;
    net_full(p, &net);
    struct net_image image = net_image(p);
    uint64_t before = cost_of(&image.fragment, &waits).weight_bytes;
    struct fragment_slice *s = (void *)(image.bytes + image.fragment.header->section[FRAGMENT_SLICES].offset);
    uint64_t its =
        (uint64_t)(s->c1 - s->c0) * (uint64_t)(s->k1 - s->k0) * s->kernel + 12 * (uint64_t)(s->c1 - s->c0);
    s->resident_offset = 0;
    assert_int_equal(cost_of(&image.fragment, &waits).weight_bytes, before - its);
    free(image.bytes);
    net_free(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_layers_cost_their_macs_elements_weights_and_transfers),
        cmocka_unit_test(a_loop_whose_weights_stay_in_the_cache_reads_them_once),
        cmocka_unit_test(accumulates_count_their_whole_output_each_time),
        cmocka_unit_test(resident_weights_cost_no_flash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
