/*
 * The programs of ENCODING A on random networks: each passes both checks, keeps within its arena, and gives
 * the reference executor's bits. What differs between the forms is order and place only, so one judge serves
 * all.
 */
#include "server/model/reference.h"
#include "tests/support/net_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef SHOAL_SANITIZE
enum { SEEDS = 6 };
#else
enum { SEEDS = 25 };
#endif

struct fixture {
    struct net net;
    void *tensors[NET_TENSORS_MAX];
    uint64_t seed;
};

static void set_up(struct fixture *f, struct net net, uint64_t seed)
{
    *f = (struct fixture){.net = net, .seed = seed};
    net_reference(&f->net, seed + 1000, f->tensors);
}

static void tear_down(struct fixture *f)
{
    reference_free_tensors(f->net.graph, f->tensors);
    net_free(&f->net);
}

static void require_checked(const struct fixture *f, const struct fragment *fragment)
{
    struct fragment_place place = {0};
    int status = net_check(fragment, &place);
    if (status != STATUS_OK)
        fail_msg("seed %d: %s: %s, section %d record %d", (int)f->seed, status_name(status), place.reason,
                 place.section, place.record);
}

/* Runs the programs of parties 1..n against a hub that already has what the coordinator sends. */
static void run_all(struct net_image *images, int32_t n, struct local_hub *hub)
{
    struct local_party *parties[8] = {NULL};
    for (int32_t i = 0; i < n; i++) {
        parties[i] = malloc(sizeof *parties[i]);
        local_party_start(parties[i], hub, &images[i].fragment);
    }
    assert_int_equal(local_run(parties, n), 0);
    for (int32_t i = 0; i < n; i++) {
        assert_true(parties[i]->vm.high_water <= images[i].fragment.header->arena_bytes);
        assert_int_equal(parties[i]->vm.executions, images[i].fragment.header->executions);
        assert_true(local_party_end(parties[i]));
        free(parties[i]);
        free(images[i].bytes);
    }
}

/* One party, transfers 0 and 1 as net_program.h says. */
static void require_exact(struct fixture *f, struct program *program)
{
    struct local_hub hub;
    struct net_image image = net_image(program);
    require_checked(f, &image.fragment);
    local_hub_start(&hub, f->seed);
    local_hub_put(&hub, 0, 1, 0, f->tensors[f->net.in], (uint32_t)net_bytes(&f->net, f->net.in));
    run_all(&image, 1, &hub);
    const struct local_transfer *out = local_hub_find(&hub, 1, 0, 1);
    assert_non_null(out);
    assert_int_equal(out->filled, net_bytes(&f->net, f->net.out));
    assert_memory_equal(out->bytes, f->tensors[f->net.out], out->size);
    local_hub_end(&hub);
}

static void whole_layers_equal_the_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture f;
        set_up(&f, net_random(seed), seed);
        struct program *p = program_new(1);
        net_full(p, &f.net);
        require_exact(&f, p);
        tear_down(&f);
    }
}

static void streamed_rows_equal_the_reference(void **state)
{
    (void)state;
    static const struct net_rows forms[] = {
        {.overlap = false}, {.overlap = true}, {.stream_in = true}, {.stream_in = true, .stream_out = true}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture f;
        set_up(&f, net_random(seed), seed);
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            struct program *p = program_new(1);
            net_rows(p, &f.net, forms[i]);
            require_exact(&f, p);
        }
        tear_down(&f);
    }
}

static void patches_equal_the_reference(void **state)
{
    (void)state;
    static const struct net_patches forms[] = {{.h = 2, .w = 3},
                                               {.h = 3, .w = 2, .rows = true},
                                               {.h = 5, .w = 4, .rows = true},
                                               {.h = 5, .w = 4, .k = 1},
                                               {.h = 2, .w = 3, .k = 2},
                                               {.h = 3, .w = 2, .k = 4},
                                               {.h = 9, .w = 5, .k = 3},
                                               {.h = 3, .w = 3, .k = 3, .elsewhere = true}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture f;
        set_up(&f, net_random(seed), seed);
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            struct program *p = program_new(1);
            net_patches(p, &f.net, forms[i]);
            require_exact(&f, p);
        }
        tear_down(&f);
    }
}

static void a_channel_loop_alone_on_one_board_equals_the_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture f;
        set_up(&f, net_random(seed), seed);
        struct shape y = net_shape(&f.net, f.net.out);
        for (int32_t k = 1; k < 6; k += 2) {
            struct program *p = program_new(1);
            net_patches(p, &f.net, (struct net_patches){.h = y.h, .w = y.w, .k = k});
            require_exact(&f, p);
        }
        tear_down(&f);
    }
}

static void put_rows(struct fixture *f, struct local_hub *hub, int32_t n, int32_t index)
{
    int32_t lo, hi;
    struct shape a = net_shape(&f->net, f->net.in);
    net_strip_rows(&f->net, f->net.in, n, index, &lo, &hi);
    const int8_t *x = f->tensors[f->net.in];
    local_hub_put(hub, 0, (uint16_t)(index + 1), 0, x + lo * a.w * a.c, (uint32_t)((hi - lo) * a.w * a.c));
}

static void strips_that_exchange_their_halo_equal_the_reference(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture f;
        struct local_hub hub;
        struct net_image images[4];
        int32_t n = 2 + (int32_t)(seed % 3);
        set_up(&f, seed % 2 ? net_block(seed) : net_random(seed), seed);
        struct shape y = net_shape(&f.net, f.net.out);
        if (y.h < n)
            n = y.h;
        local_hub_start(&hub, seed);
        for (int32_t i = 0; i < n; i++) {
            struct program *p = program_new((uint16_t)(i + 1));
            assert_true(net_strip(p, &f.net, n, i, true));
            images[i] = net_image(p);
            require_checked(&f, &images[i].fragment);
            put_rows(&f, &hub, n, i);
        }
        run_all(images, n, &hub);
        for (int32_t i = 0; i < n; i++) {
            int32_t lo, hi;
            net_strip_rows(&f.net, f.net.out, n, i, &lo, &hi);
            const struct local_transfer *out = local_hub_find(&hub, (uint16_t)(i + 1), 0, 2);
            assert_int_equal(out->filled, (hi - lo) * y.w * y.c);
            assert_memory_equal(out->bytes, (int8_t *)f.tensors[f.net.out] + lo * y.w * y.c, out->size);
        }
        local_hub_end(&hub);
        tear_down(&f);
    }
}

static void partial_sums_as_int24_equal_the_reference_for_any_cut_of_channels(void **state)
{
    (void)state;
    int32_t cases = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct fixture f;
        set_up(&f, net_random(seed), seed);
        for (int32_t at = net_triple(&f.net, 0); at >= 0; at = net_triple(&f.net, at + 1)) {
            struct local_hub hub;
            struct net_image images[4];
            int32_t n = 1 + (int32_t)(seed + (uint64_t)at) % 4, in = f.net.ops[at].in[0],
                    out = f.net.ops[at + 2].out;
            local_hub_start(&hub, seed);
            for (int32_t i = 0; i < n; i++) {
                struct program *p = program_new((uint16_t)(i + 1));
                net_partial(p, &f.net, at, n, i, 1 + (int32_t)(seed % 4));
                images[i] = net_image(p);
                require_checked(&f, &images[i].fragment);
                local_hub_put(&hub, 0, (uint16_t)(i + 1), 0, f.tensors[in], (uint32_t)net_bytes(&f.net, in));
            }
            run_all(images, n, &hub);
            const struct local_transfer *sent = local_hub_find(&hub, 1, 0, 2);
            assert_int_equal(sent->filled, net_bytes(&f.net, out));
            assert_memory_equal(sent->bytes, f.tensors[out], sent->size);
            local_hub_end(&hub);
            cases++;
        }
        tear_down(&f);
    }
    assert_true(cases >= SEEDS / 2);
}

/* The figures of ENCODING A for MobileNetV2 at 224: 10 instructions, rings of 53,760 bytes, an arena of
 * 204,288. */
static void the_front_of_mobilenetv2_streams_in_the_arena_that_was_promised(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, net_front(1), 1);
    struct program *p = program_new(1);
    net_rows(p, &f.net, (struct net_rows){.overlap = true});
    uint32_t rings = 0;
    for (uint16_t i = 2; i < p->n_views; i++)
        rings += p->views[i].rows * p->views[i].row_stride;
    assert_int_equal(p->n_code, 10);
    assert_int_equal(rings, 53760);
    assert_int_equal(p->arena_bytes, 204288);
    require_exact(&f, p);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_layers_equal_the_reference),
        cmocka_unit_test(streamed_rows_equal_the_reference),
        cmocka_unit_test(patches_equal_the_reference),
        cmocka_unit_test(a_channel_loop_alone_on_one_board_equals_the_reference),
        cmocka_unit_test(strips_that_exchange_their_halo_equal_the_reference),
        cmocka_unit_test(partial_sums_as_int24_equal_the_reference_for_any_cut_of_channels),
        cmocka_unit_test(the_front_of_mobilenetv2_streams_in_the_arena_that_was_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
