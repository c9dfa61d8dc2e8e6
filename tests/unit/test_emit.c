/* Emitted fragments: what they cost is what the plan says, no work is done twice, and records are in order.
 */
#include "server/emit/emit.h"
#include "server/model/optable.h"
#include "shared/vm/vm.h"
#include "tests/support/prng.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct made {
    struct graph *graph;
    struct plan *plan;
    struct emit_fragment *fragments;
    int32_t n;
};

static struct made make_for(uint64_t seed, int32_t n, int64_t layouts)
{
    struct made made = {.graph = random_graph(seed, NULL), .n = n};
    struct plan_board boards[16];
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON, .shares = PLAN_SHARES_FREQUENCY};
    struct error error;
    for (int32_t b = 0; b < n; b++) {
        boards[b] = *plan_profile("teensy41-good");
        boards[b].clock_hz *= 1 + b % 3;
        boards[b].weight_ram_bytes = 700;
        boards[b].layouts = layouts;
    }
    made.plan = plan_make(made.graph, "", boards, n, &options, NULL, NULL, &error);
    if (!made.plan || emit_plan(made.plan, &made.fragments, &error) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
    return made;
}

static struct made make(uint64_t seed, int32_t n)
{
    return make_for(seed, n, NN_LAYOUT_MASK_PLAIN);
}

static void drop(struct made *made)
{
    emit_free(made->fragments, made->n);
    plan_free(made->plan);
    graph_free(made->graph);
}

static struct fragment opened(const struct made *made, int32_t b)
{
    struct fragment fragment;
    struct fragment_place place;
    assert_int_equal(fragment_open(&fragment, made->fragments[b].bytes, made->fragments[b].size, &place), 0);
    return fragment;
}

static struct vm_cost cost_of(const struct fragment *fragment)
{
    struct vm_cost cost = {0};
    struct vm vm;
    uint32_t rank;
    vm_start(&vm, fragment, (struct vm_memory){0}, (struct vm_io){0});
    while (vm_cost(&vm, &cost, &rank) == VM_WAITING)
        ;
    return cost;
}

static int64_t whole_macs(const struct graph *graph)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_ops; i++)
        sum += op_row(graph->ops[i].kind)
                   ->macs(graph, &graph->ops[i], box_whole(graph->tensors[graph->ops[i].output].shape));
    return sum;
}

static void fragments_do_each_mac_once_and_move_what_the_plan_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct made made = make(seed, 1 + (int32_t)(seed % 7));
        uint64_t macs = 0;
        for (int32_t b = 0; b < made.n; b++) {
            if (made.fragments[b].size == 0)
                continue;
            struct fragment fragment = opened(&made, b);
            struct vm_cost cost = cost_of(&fragment);
            macs += cost.macs[0] + cost.macs[1] + cost.macs[2] + cost.macs[3];
            assert_int_equal(cost.sent_bytes, made.plan->parties[b].bytes_sent);
            assert_int_equal(cost.received_bytes, made.plan->parties[b].bytes_received);
            assert_int_equal(cost.executions, fragment.header->executions);
        }
        if ((int64_t)macs != whole_macs(made.graph))
            fail_msg("seed %llu: %llu MACs, not %lld", (unsigned long long)seed, (unsigned long long)macs,
                     (long long)whole_macs(made.graph));
        drop(&made);
    }
}

/* A grouped 1x1 convolution is conv to the table and, group by group, conv1x1 to the walker. */
static bool has_groups(const struct graph *graph)
{
    for (int32_t i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].kind == OP_CONV && graph->ops[i].groups > 1)
            return true;
    return false;
}

/* The planner's prediction is the walker's count by the same rates. */
static void predicted_times_are_those_of_the_walkers_count(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct made made = make(seed, 1 + (int32_t)(seed % 5));
        for (int32_t b = 0; b < made.n; b++) {
            if (made.fragments[b].size == 0 || has_groups(made.graph))
                continue;
            const struct plan_board *board = &made.plan->boards[b];
            const struct plan_times *times = &made.plan->parties[b].times;
            struct fragment fragment = opened(&made, b);
            struct vm_cost cost = cost_of(&fragment);
            double cycles = (double)cost.elements / board->element_per_cycle;
            for (int kind = 0; kind < 4; kind++)
                cycles += (double)cost.macs[kind] / board->mac_per_cycle[kind];
            double computing = 1e3 * (cycles / board->clock_hz + 1e-6 * (double)cost.executions);
            double flash = 1e3 * (double)cost.weight_bytes / board->flash_bytes_per_s;
            if (fabs(computing - times->computing_ms) > 1e-6 || fabs(flash - times->flash_ms) > 1e-6)
                fail_msg("seed %llu, board %d: computing %f, counted %f; flash %f, counted %f",
                         (unsigned long long)seed, b + 1, times->computing_ms, computing, times->flash_ms,
                         flash);
        }
        drop(&made);
    }
}

static void resident_slices_lie_apart_and_within_the_boards_ram(void **state)
{
    int32_t resident = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct made made = make(seed, 3);
        for (int32_t b = 0; b < made.n; b++) {
            if (made.fragments[b].size == 0)
                continue;
            struct fragment fragment = opened(&made, b);
            uint32_t end = 0;
            for (uint16_t i = 0; i < fragment.n_slices; i++) {
                const struct fragment_slice *slice = &fragment.slices[i];
                if (slice->resident_offset == FRAGMENT_NOT_RESIDENT)
                    continue;
                resident++;
                assert_true(slice->resident_offset >= end && slice->resident_offset % 16 == 0);
                end = slice->resident_offset + slice->total_bytes;
            }
            assert_true(end <= fragment.header->resident_bytes);
            assert_true(fragment.header->resident_bytes <= made.plan->boards[b].weight_ram_bytes);
            assert_int_equal(fragment.header->resident_bytes, made.plan->parties[b].resident_bytes);
        }
        drop(&made);
    }
    assert_true(resident > 20);
}

static void fragments_hold_the_rows_of_the_plans_table(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct made made = make(seed, 4);
        uint32_t seen = 0;
        for (int32_t b = 0; b < made.n; b++) {
            if (made.fragments[b].size == 0)
                continue;
            struct fragment fragment = opened(&made, b);
            assert_int_equal(fragment.header->party, b + 1);
            assert_int_equal(fragment.header->arena_bytes, made.plan->parties[b].arena_bytes);
            assert_memory_equal(made.plan->table.fragments[b], made.fragments[b].hash, WIRE_HASH_BYTES);
            for (uint16_t i = 0; i < fragment.n_transfers; i++) {
                const struct fragment_transfer *f = &fragment.transfers[i];
                uint32_t k = 0;
                while (k < made.plan->table.n_transfers) {
                    const struct conduct_transfer *t = &made.plan->table.transfers[k];
                    if (t->id == f->id && t->from == f->from && t->to == f->to && t->rank == f->rank &&
                        t->exchange == f->exchange && t->box.h0 == f->h0 && t->box.c1 == f->c1)
                        break;
                    k++;
                }
                assert_true(k < made.plan->table.n_transfers);
                seen++;
            }
        }
        assert_int_equal(seen, made.plan->table.n_transfers);
        drop(&made);
    }
}

/* A board's weights stay the same to the byte when the plan is made anew for the same part: they need no
 * second push. */
static void slices_of_the_same_part_are_the_same_bytes(void **state)
{
    struct made a = make(9, 3), b = make(9, 3);
    (void)state;
    for (int32_t p = 0; p < 3; p++) {
        struct fragment x = opened(&a, p), y = opened(&b, p);
        assert_int_equal(x.n_slices, y.n_slices);
        for (uint16_t i = 0; i < x.n_slices; i++)
            assert_memory_equal(x.slices[i].sha256, y.slices[i].sha256, 32);
    }
    drop(&a);
    drop(&b);
}

static void emit_refuses_an_image_beyond_the_flash(void **state)
{
    struct made made = make(9, 2);
    struct error error;
    (void)state;
    emit_free(made.fragments, 2);
    made.plan->boards[1].flash_bytes = 100;
    assert_int_equal(emit_plan(made.plan, &made.fragments, &error), STATUS_DOES_NOT_FIT);
    assert_null(made.fragments);
    assert_string_equal(error.shortfall.resource, "flash");
    assert_int_equal(error.shortfall.have_bytes, 100);
    drop(&made);
}

/* Values only change their order: what is not weights is as large as before, and so are they. */
static void packed_weights_are_as_large_as_plain_ones(void **state)
{
    (void)state;
    int32_t packed = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct made plain = make(seed, 2), other = make_for(seed, 2, NN_LAYOUT_MASK_ALL);
        for (int32_t b = 0; b < 2; b++) {
            if (plain.fragments[b].size == 0)
                continue;
            struct fragment x = opened(&plain, b), y = opened(&other, b);
            assert_int_equal(x.n_slices, y.n_slices);
            assert_int_equal(x.weight_bytes, y.weight_bytes);
            for (uint16_t i = 0; i < y.n_slices; i++)
                packed += y.slices[i].layout != NN_LAYOUT_PLAIN;
        }
        drop(&plain);
        drop(&other);
    }
    assert_true(packed > 20);
}

/* Moved or shrunk scratch is refused: by the check of bounds where it leaves the arena or is too small, by
 * the check of data where it meets what an instruction reads or writes. */
static void scratch_meets_nothing_that_is_in_use(void **state)
{
    (void)state;
    int32_t tried = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct made made = make_for(seed, 1, NN_LAYOUT_MASK_ALL);
        struct fragment fragment = opened(&made, 0);
        struct fragment_place place;
        struct fragment_view *views = (struct fragment_view *)(uintptr_t)fragment.views;
        size_t bytes = vm_check_data_bytes(&fragment);
        void *shadow = malloc(bytes);
        for (uint16_t i = 0; i < fragment.n_code; i++) {
            const struct fragment_code *code = &fragment.code[i];
            if (code->scratch == FRAGMENT_NONE)
                continue;
            struct fragment_view *scratch = &views[code->scratch], good = *scratch;
            uint16_t others[] = {code->in[0], code->out};
            for (int k = 0; k < 2; k++) {
                scratch->offset = views[others[k]].offset & ~7u;
                if (scratch->offset + scratch->c > fragment.header->arena_bytes)
                    assert_int_equal(vm_check_bounds(&fragment, UINT32_MAX, &place), STATUS_FRAGMENT_BOUNDS);
                else
                    assert_int_equal(vm_check_data(&fragment, shadow, bytes, &place), STATUS_FRAGMENT_DATA);
                *scratch = good;
            }
            scratch->c = scratch->c_cap = 1;
            assert_int_equal(vm_check_bounds(&fragment, UINT32_MAX, &place), STATUS_FRAGMENT_BOUNDS);
            *scratch = good;
            tried++;
        }
        free(shadow);
        drop(&made);
    }
    assert_true(tried > 20);
}

static int take_all(void *context, const struct vm_slot *slot)
{
    (void)context;
    (void)slot;
    return 0;
}

static int all_is_there(void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return 1;
}

/* Runs an image that the bounds check accepts, in an arena and with tables of exactly the size. */
static bool run_accepted(const uint8_t *bytes, size_t size, uint32_t arena_bytes)
{
    struct fragment fragment;
    struct fragment_place place;
    if (fragment_open(&fragment, bytes, size, &place) < 0 ||
        vm_check_bounds(&fragment, arena_bytes, &place) < 0)
        return false;
    uint8_t *arena = aligned_alloc(16, (arena_bytes + 15u) / 16 * 16);
    uint8_t *resident = aligned_alloc(16, (fragment.header->resident_bytes + 16u) / 16 * 16);
    struct vm_tables *tables = malloc(sizeof *tables);
    struct vm vm;
    memset(arena, 3, (arena_bytes + 15u) / 16 * 16);
    memset(resident, 1, (fragment.header->resident_bytes + 16u) / 16 * 16);
    vm_start(&vm, &fragment, (struct vm_memory){arena, arena_bytes, resident, tables},
             (struct vm_io){NULL, take_all, take_all, all_is_there});
    int status = VM_RAN;
    for (int32_t step = 0; step < 3000 && status == VM_RAN; step++)
        status = vm_step(&vm);
    assert_true(status == VM_RAN || status == VM_DONE || status == STATUS_FRAGMENT_ENDLESS);
    free(tables);
    free(resident);
    free(arena);
    return true;
}

/* Any byte of a program for packed weights changed: refused, or harmless (the sanitizers watch). */
static void changed_programs_of_packed_weights_are_refused_or_harmless(void **state)
{
    (void)state;
    int32_t accepted = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct made made = make_for(seed, 1, NN_LAYOUT_MASK_ALL);
        struct fragment fragment = opened(&made, 0);
        size_t size = made.fragments[0].size, records = (size_t)(fragment.weights - fragment.bytes);
        uint8_t *bytes = aligned_alloc(16, (size + 15) / 16 * 16);
        struct prng prng = prng_seed(seed);
        assert_true(run_accepted(made.fragments[0].bytes, size, fragment.header->arena_bytes));
        for (int round = 0; round < 250; round++) {
            memcpy(bytes, made.fragments[0].bytes, size);
            size_t at = (size_t)prng_range(&prng, 0, (int32_t)records - 1);
            bytes[at] = (uint8_t)(prng_one_in(&prng, 2) ? prng_next(&prng) : bytes[at] ^ (1u << (at % 8)));
            if (run_accepted(bytes, size, fragment.header->arena_bytes))
                accepted++;
            else
                refused++;
        }
        free(bytes);
        drop(&made);
    }
    assert_true(accepted > 100 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_do_each_mac_once_and_move_what_the_plan_says),
        cmocka_unit_test(predicted_times_are_those_of_the_walkers_count),
        cmocka_unit_test(resident_slices_lie_apart_and_within_the_boards_ram),
        cmocka_unit_test(fragments_hold_the_rows_of_the_plans_table),
        cmocka_unit_test(slices_of_the_same_part_are_the_same_bytes),
        cmocka_unit_test(emit_refuses_an_image_beyond_the_flash),
        cmocka_unit_test(packed_weights_are_as_large_as_plain_ones),
        cmocka_unit_test(scratch_meets_nothing_that_is_in_use),
        cmocka_unit_test(changed_programs_of_packed_weights_are_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
