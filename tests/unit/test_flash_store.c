/*
 * The fragment store over an emulated NOR flash: against a model in RAM, with the power cut at every step of
 * a scenario, with bad blocks, ruined records, a full flash and one in pieces.
 */
#include "firmware/core/flash_store.h"
#include "firmware/core/flashmap.h"
#include "server/base/hash.h"
#include "tests/support/nor_flash.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum {
    ERASE = 4096,
    BLOCK = 16384,
    LOG = 2 * 8192, /* 128 records a half */
    FRAGMENTS = LOG,
    FRAGMENTS_BYTES = 40 * ERASE + 3 * BLOCK,
    BYTES = FRAGMENTS + FRAGMENTS_BYTES,
    SEEDS = 12, /* images that there are */
    IMAGE_MAX = 60000
};
static const struct flash_store_place place = {0, LOG, FRAGMENTS, FRAGMENTS_BYTES};

static struct nor_flash nor;
static struct flash_store store;
static struct board_store fs;

/* ---- images ---- */

struct image {
    uint8_t *bytes;
    uint32_t size;
    uint8_t hash[32];
};
static struct image images[SEEDS];

static int make_images(void **state)
{
    (void)state;
    static const uint32_t sizes[SEEDS] = {1,     100,   4095,  4096,  4097,  12288,
                                          16384, 20000, 33000, 40960, 50001, IMAGE_MAX};
    for (uint32_t i = 0; i < SEEDS; i++) {
        struct prng prng = prng_seed(100 + i);
        images[i].size = sizes[i];
        images[i].bytes = malloc(sizes[i]);
        assert_non_null(images[i].bytes);
        prng_fill(&prng, images[i].bytes, sizes[i]);
        hash_sha256(images[i].bytes, sizes[i], images[i].hash);
    }
    return 0;
}

static int free_images(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SEEDS; i++)
        free(images[i].bytes);
    return 0;
}

static const struct image *image_by(const uint8_t *hash)
{
    for (uint32_t i = 0; i < SEEDS; i++)
        if (memcmp(images[i].hash, hash, 32) == 0)
            return &images[i];
    return NULL;
}

/* ---- the store under test ---- */

static void reopen(void)
{
    assert_int_equal(flash_store_open(&store, &nor.flash, &place), 0);
    fs = flash_store_functions(&store);
}

static void open_new(void)
{
    nor_flash_new(&nor, BYTES, ERASE, BLOCK);
    reopen();
}

static void close_it(void)
{
    nor_flash_free(&nor);
}

static bool holds(const struct image *image)
{
    const uint8_t *bytes;
    uint32_t size;
    if (fs.find(fs.context, image->hash, &bytes, &size) != 0)
        return false;
    assert_int_equal(size, image->size);
    assert_memory_equal(bytes, image->bytes, size);
    return true;
}

/* Every image listed is one of ours, found in place, overlaps no other, and is whole if it must be. Returns
 * how many. */
static uint32_t check_images(bool whole)
{
    static uint8_t taken[FRAGMENTS_BYTES / ERASE];
    uint8_t hash[32];
    uint32_t size, n = 0, used = 0;
    memset(taken, 0, sizeof taken);
    for (; fs.list(fs.context, n, hash, &size) == 0; n++) {
        const uint8_t *bytes;
        uint32_t found;
        const struct image *image = image_by(hash);
        assert_non_null(image);
        assert_true(!whole || holds(image));
        assert_int_equal(fs.find(fs.context, hash, &bytes, &found), 0);
        assert_int_equal(found, image->size);
        assert_int_equal((uintptr_t)bytes % 16, 0);
        uint32_t first = (uint32_t)(bytes - nor.bytes) - FRAGMENTS;
        assert_int_equal(first % ERASE, 0);
        for (uint32_t at = first / ERASE; at * ERASE < first + size; at++) {
            assert_false(taken[at]);
            taken[at] = 1;
            used++;
        }
    }
    if (!store.part_open)
        assert_int_equal(fs.used(fs.context), used * ERASE);
    assert_true(fs.used(fs.context) <= fs.capacity(fs.context));
    return n;
}

static uint32_t check_all(void)
{
    return check_images(true);
}

/* Begins (or goes on) and writes up to `until` in pieces of `piece`. The first status that is not 0. */
static int write_until(const struct image *image, uint32_t until, uint32_t piece)
{
    uint32_t valid;
    int status = fs.begin(fs.context, image->hash, image->size, &valid);
    while (status == 0 && valid < until) {
        uint32_t n = until - valid < piece ? until - valid : piece;
        status = fs.write(fs.context, valid, image->bytes + valid, n);
        valid += status == 0 ? n : 0;
    }
    return status;
}

static int push(const struct image *image)
{
    int status = write_until(image, image->size, 4080);
    return status == 0 ? fs.commit(fs.context) : status;
}

static void push_ok(const struct image *image)
{
    assert_int_equal(push(image), 0);
    assert_true(holds(image));
}

/* ---- rules ---- */

static void committed_images_last_and_others_do_not(void **state)
{
    (void)state;
    open_new();
    push_ok(&images[10]);
    assert_int_equal(write_until(&images[8], 30000, 1000), 0);
    assert_false(holds(&images[8]));
    assert_int_equal(check_all(), 1);
    reopen();
    assert_true(holds(&images[10]));
    assert_int_equal(check_all(), 1);
    close_it();
}

static void broken_push_goes_on_where_it_was(void **state)
{
    (void)state;
    uint32_t valid;
    uint8_t byte;
    open_new();
    assert_int_equal(write_until(&images[10], 47001, 777), 0);
    assert_int_equal(fs.begin(fs.context, images[10].hash, images[10].size, &valid), 0);
    assert_int_equal(valid, 47001); /* the link broke, the board did not */
    assert_int_equal(fs.read(fs.context, 47000, &byte, 1), 0);
    assert_int_equal(byte, images[10].bytes[47000]);
    assert_int_equal(fs.read(fs.context, 47000, &byte, 2), STATUS_INVALID_ARGUMENT);
    reopen();
    assert_int_equal(fs.write(fs.context, 47001, images[10].bytes, 1), STATUS_WIRE_ORDER);
    assert_int_equal(fs.begin(fs.context, images[10].hash, images[10].size, &valid), 0);
    assert_in_range(valid, 47001 - BLOCK, 47001); /* a reset: the last border */
    push_ok(&images[10]);
    close_it();
}

static void another_push_drops_the_broken_one(void **state)
{
    (void)state;
    uint32_t valid;
    open_new();
    assert_int_equal(write_until(&images[10], 40000, 4080), 0);
    assert_int_equal(fs.begin(fs.context, images[9].hash, images[9].size, &valid), 0);
    assert_int_equal(valid, 0);
    push_ok(&images[9]);
    assert_int_equal(fs.begin(fs.context, images[10].hash, images[10].size, &valid), 0);
    assert_int_equal(valid, 0);
    close_it();
}

static void wrong_content_is_refused_and_dropped(void **state)
{
    (void)state;
    uint32_t valid;
    open_new();
    assert_int_equal(write_until(&images[10], images[10].size - 1, 4080), 0);
    uint8_t wrong = (uint8_t)(images[10].bytes[images[10].size - 1] ^ 1);
    assert_int_equal(fs.write(fs.context, images[10].size - 1, &wrong, 1), 0);
    assert_int_equal(fs.commit(fs.context), STATUS_HASH_MISMATCH);
    assert_int_equal(fs.commit(fs.context), STATUS_WIRE_ORDER);
    reopen();
    assert_int_equal(fs.begin(fs.context, images[10].hash, images[10].size, &valid), 0);
    assert_int_equal(valid, 0);
    assert_int_equal(write_until(&images[10], 100, 100), 0);
    assert_int_equal(fs.commit(fs.context), STATUS_HASH_MISMATCH); /* not whole */
    assert_int_equal(check_all(), 0);
    close_it();
}

static void offsets_rise_without_gaps(void **state)
{
    (void)state;
    open_new();
    assert_int_equal(write_until(&images[5], 100, 100), 0);
    assert_int_equal(fs.write(fs.context, 101, images[5].bytes, 1), STATUS_WIRE_ORDER);
    assert_int_equal(fs.write(fs.context, 99, images[5].bytes, 1), STATUS_WIRE_ORDER);
    assert_int_equal(fs.write(fs.context, 100, images[5].bytes, images[5].size - 99), STATUS_WIRE_ORDER);
    assert_int_equal(fs.write(fs.context, 100, images[5].bytes + 100, images[5].size - 100), 0);
    assert_int_equal(fs.commit(fs.context), 0);
    close_it();
}

static void removed_images_are_gone_and_their_room_is_free(void **state)
{
    (void)state;
    open_new();
    push_ok(&images[10]);
    push_ok(&images[9]);
    assert_int_equal(fs.remove(fs.context, images[10].hash), 0);
    assert_int_equal(fs.remove(fs.context, images[10].hash), STATUS_NOT_FOUND);
    assert_int_equal(fs.used(fs.context), 10 * ERASE);
    reopen();
    assert_false(holds(&images[10]));
    assert_true(holds(&images[9]));
    assert_int_equal(write_until(&images[10], 100, 100), 0);
    assert_int_equal(fs.remove(fs.context, images[10].hash), 0); /* being written */
    assert_int_equal(fs.commit(fs.context), STATUS_WIRE_ORDER);
    close_it();
}

static void full_flash_and_one_in_pieces_refuse(void **state)
{
    (void)state;
    uint32_t valid, held[32], n = 0;
    open_new();
    assert_int_equal(fs.begin(fs.context, images[0].hash, 0, &valid), STATUS_FLASH_FULL);
    assert_int_equal(fs.begin(fs.context, images[0].hash, FRAGMENTS_BYTES + 1, &valid), STATUS_FLASH_FULL);
    assert_int_equal(fs.begin(fs.context, images[0].hash, UINT32_MAX, &valid), STATUS_FLASH_FULL);
    for (uint32_t i = 5; i < SEEDS; i++) /* 3 + 4 + 5 + 9 + 10 + 13 + 15 blocks of 52 */
        if (push(&images[i]) == 0)
            held[n++] = i;
    assert_true(n >= 5);
    assert_int_equal(check_all(), n);
    assert_int_equal(push(&images[11]), holds(&images[11]) ? 0 : STATUS_FLASH_FULL);
    assert_int_equal(check_all(), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(fs.remove(fs.context, images[held[i]].hash), 0);
    push_ok(&images[11]);
    close_it();
}

static void room_in_pieces_is_not_room(void **state)
{
    (void)state;
    static struct image small[30];
    open_new();
    uint32_t n = 0;
    for (; n < 30; n++) {
        small[n] = images[4]; /* two blocks each */
        small[n].bytes = malloc(images[4].size);
        memset(small[n].bytes, (int)n + 1, small[n].size);
        hash_sha256(small[n].bytes, small[n].size, small[n].hash);
        if (push(&small[n]) != 0)
            break;
    }
    assert_in_range(n, 20, 26);
    for (uint32_t i = 0; i < n; i += 2)
        assert_int_equal(fs.remove(fs.context, small[i].hash), 0);
    assert_true(fs.capacity(fs.context) - fs.used(fs.context) > IMAGE_MAX + ERASE);
    assert_int_equal(push(&images[11]), STATUS_FLASH_FULL);
    for (uint32_t i = 1; i < n; i += 2)
        assert_int_equal(fs.remove(fs.context, small[i].hash), 0);
    push_ok(&images[11]);
    for (uint32_t i = 0; i <= n && i < 30; i++)
        free(small[i].bytes);
    close_it();
}

/* Two deployments of a large model take turns, each a little larger than the one it replaces. */
static void large_images_that_take_turns_leave_the_rest_in_one_piece(void **state)
{
    (void)state;
    static const uint32_t sectors[] = {22, 23, 24, 25, 26, 26, 24, 26};
    struct image one = {.bytes = calloc(1, 26 * ERASE)}, held[2] = {{0}, {0}};
    assert_non_null(one.bytes);
    open_new();
    for (uint32_t i = 0; i < sizeof sectors / sizeof *sectors; i++) {
        one.size = sectors[i] * ERASE; /* of 52: the two together always fit */
        one.bytes[0] = (uint8_t)i;
        hash_sha256(one.bytes, one.size, one.hash);
        if (i >= 2)
            assert_int_equal(fs.remove(fs.context, held[i % 2].hash), 0);
        assert_int_equal(push(&one), 0);
        held[i % 2] = one;
    }
    free(one.bytes);
    close_it();
}

/* 7,340,032 bytes hold two generations of a MobileNetV2 and a few small ones, whichever comes or goes. */
static void two_large_models_and_small_ones_fit_the_real_flash(void **state)
{
    (void)state;
    enum { LARGE = 3590000 };
    struct image one = {.bytes = calloc(1, LARGE + 8 * 3000)}, held[2] = {{0}, {0}};
    struct flash_store_place map = {FLASHMAP_LOG, FLASHMAP_LOG_BYTES, FLASHMAP_FRAGMENTS,
                                    FLASHMAP_FRAGMENTS_BYTES};
    assert_non_null(one.bytes);
    nor_flash_new(&nor, FLASHMAP_BYTES, FLASHMAP_ERASE_BYTES, FLASHMAP_BLOCK_BYTES);
    assert_int_equal(flash_store_open(&store, &nor.flash, &map), 0);
    fs = flash_store_functions(&store);
    push_ok(&images[7]);
    for (uint32_t i = 0; i < 6; i++) {
        one.size = LARGE + i * 3000;
        one.bytes[0] = (uint8_t)i;
        hash_sha256(one.bytes, one.size, one.hash);
        if (i >= 2)
            assert_int_equal(fs.remove(fs.context, held[i % 2].hash), 0);
        uint64_t erases = nor.erased_blocks;
        push_ok(&one);
        assert_in_range(nor.erased_blocks - erases, LARGE / 65536,
                        LARGE / 65536 + 16 + 8); /* most in one go */
        held[i % 2] = one;
        if (i == 2)
            assert_int_equal(fs.remove(fs.context, images[7].hash), 0);
        if (i == 3)
            push_ok(&images[8]);
    }
    free(one.bytes);
    close_it();
}

static void list_ends_at_the_limit_of_images(void **state)
{
    (void)state;
    struct image one = images[0];
    uint8_t byte;
    uint32_t valid;
    nor_flash_new(&nor, 1 << 20, ERASE, BLOCK);
    struct flash_store_place wide = {0, LOG, FRAGMENTS, (1 << 20) - LOG};
    assert_int_equal(flash_store_open(&store, &nor.flash, &wide), 0);
    fs = flash_store_functions(&store);
    one.bytes = &byte;
    for (uint32_t i = 0; i < BOARD_FRAGMENTS_MAX; i++) {
        byte = (uint8_t)i;
        hash_sha256(&byte, 1, one.hash);
        push_ok(&one);
    }
    byte = 200;
    hash_sha256(&byte, 1, one.hash);
    assert_int_equal(fs.begin(fs.context, one.hash, 1, &valid), STATUS_FLASH_FULL);
    assert_int_equal(flash_store_open(&store, &nor.flash, &wide), 0);
    for (uint32_t i = 0; i < BOARD_FRAGMENTS_MAX; i++) {
        byte = (uint8_t)i;
        hash_sha256(&byte, 1, one.hash);
        assert_true(holds(&one));
    }
    close_it();
}

static void small_images_wander_and_wear_no_block_out(void **state)
{
    (void)state;
    nor_flash_new(&nor, FLASHMAP_BYTES, FLASHMAP_ERASE_BYTES, FLASHMAP_BLOCK_BYTES);
    struct flash_store_place map = {FLASHMAP_LOG, FLASHMAP_LOG_BYTES, FLASHMAP_FRAGMENTS,
                                    FLASHMAP_FRAGMENTS_BYTES};
    assert_int_equal(flash_store_open(&store, &nor.flash, &map), 0);
    fs = flash_store_functions(&store);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(push(&images[i % 2 == 0 ? 4 : 5]), 0);
        assert_int_equal(fs.remove(fs.context, images[i % 2 == 0 ? 4 : 5].hash), 0);
        if (i % 100 == 0)
            assert_int_equal(flash_store_open(&store, &nor.flash, &map), 0);
    }
    uint32_t most = 0;
    for (uint32_t i = 0; i < FLASHMAP_BYTES / ERASE; i++)
        most = nor.wear[i] > most ? nor.wear[i] : most;
    assert_in_range(most, 1, 400); /* 2,000 times on the same block otherwise */
    close_it();
}

/* ---- power ---- */

/* What must be there after a cut: images whose commit returned 0 and whose removal was not begun. */
struct promise {
    bool must[SEEDS], may[SEEDS];
};

static void promised_push(struct promise *p, uint32_t i)
{
    if (nor.off)
        return;
    p->may[i] = true;
    if (push(&images[i]) == 0)
        p->must[i] = true;
}

static void promised_remove(struct promise *p, uint32_t i)
{
    if (nor.off)
        return;
    p->must[i] = false;
    if (fs.remove(fs.context, images[i].hash) == 0)
        p->may[i] = false;
}

static void check_promise(const struct promise *p)
{
    for (uint32_t i = 0; i < SEEDS; i++) {
        bool there = holds(&images[i]);
        assert_true(there || !p->must[i]);
        assert_true(!there || p->may[i]);
    }
    check_all();
}

/* The life of a deployment: the former one, then the new one beside it, the former dropped, a third that is
 * broken off and dropped for a fourth. */
static void scenario(struct promise *p)
{
    promised_push(p, 9);
    promised_push(p, 1);
    promised_push(p, 10);
    promised_remove(p, 9);
    if (!nor.off)
        (void)write_until(&images[8], 20000, 4080);
    promised_push(p, 7);
    promised_remove(p, 1);
    promised_push(p, 3);
}

/* So many records that the scenario turns the log over at step `before` of it. */
static void fill_log(uint32_t records)
{
    uint32_t valid;
    for (uint32_t i = 0; i < records; i += 2) {
        assert_int_equal(fs.begin(fs.context, images[2].hash, images[2].size, &valid), 0);
        assert_int_equal(fs.remove(fs.context, images[2].hash), 0);
    }
}

static uint64_t points;

static void cut_everywhere(uint32_t filled, uint64_t seed)
{
    struct nor_flash start;
    struct promise all = {0};
    open_new();
    fill_log(filled);
    uint8_t *kept = malloc(BYTES);
    assert_non_null(kept);
    memcpy(kept, nor.bytes, BYTES);
    start = nor;
    scenario(&all);
    uint64_t steps = nor.steps - start.steps;
    check_promise(&all);
    for (uint64_t at = 1; at <= steps; at++, points++) {
        struct promise p = {0};
        memcpy(nor.bytes, kept, BYTES);
        nor_flash_power(&nor, 0);
        reopen();
        nor.prng = prng_seed(seed * 100003 + at);
        nor_flash_power(&nor, at);
        scenario(&p);
        assert_true(nor.off);
        nor_flash_power(&nor, 0);
        reopen();
        check_promise(&p);
        /* and everything goes on from there */
        push_ok(&images[8]);
        check_promise(&(struct promise){
            .must = {[8] = true},
            .may = {true, true, true, true, true, true, true, true, true, true, true, true}});
        for (uint32_t i = 0; i < SEEDS; i++)
            if (p.must[i])
                assert_true(holds(&images[i]));
    }
    free(kept);
    close_it();
}

#ifdef SHOAL_SANITIZE
enum { CUT_SEEDS = 1 };
#else
enum { CUT_SEEDS = 2 };
#endif

static void power_cut_at_every_step_leaves_the_former_or_the_new(void **state)
{
    (void)state;
    static const uint32_t filled[] = {0, 112, 118, 122};
    points = 0;
    for (uint32_t i = 0; i < sizeof filled / sizeof filled[0]; i++)
        for (uint64_t seed = 0; seed < CUT_SEEDS; seed++)
            cut_everywhere(filled[i], seed);
    printf("%llu power cuts\n", (unsigned long long)points);
    assert_true(points > CUT_SEEDS * 2000);
}

/* ---- random series against a model in RAM ---- */

struct model {
    bool held[SEEDS];
    int part; /* image being written, -1: none */
    uint32_t valid;
};

static void model_push(struct model *m, struct prng *prng, uint32_t i)
{
    uint32_t until =
        prng_one_in(prng, 3) ? (uint32_t)prng_range(prng, 0, (int32_t)images[i].size) : images[i].size;
    int status = write_until(&images[i], until, (uint32_t)prng_range(prng, 1, 9000));
    if (status != 0) {
        assert_int_equal(status, STATUS_FLASH_FULL);
        m->part = -1;
        return;
    }
    m->held[i] = false;
    m->valid = m->part == (int)i && m->valid > until ? m->valid : until;
    m->part = (int)i;
    if (until == images[i].size) {
        assert_int_equal(fs.commit(fs.context), 0);
        m->held[i] = true;
        m->part = -1;
    }
}

static void model_step(struct model *m, struct prng *prng)
{
    uint32_t i = (uint32_t)prng_range(prng, 0, SEEDS - 1), valid;
    switch (prng_range(prng, 0, 5)) {
    case 0:
    case 1:
    case 2:
        if (!m->held[i])
            model_push(m, prng, i);
        break;
    case 3:
    case 4:
        assert_int_equal(fs.remove(fs.context, images[i].hash),
                         m->held[i] || m->part == (int)i ? 0 : STATUS_NOT_FOUND);
        m->held[i] = false;
        m->part = m->part == (int)i ? -1 : m->part;
        break;
    default:
        reopen();
        if (m->part >= 0) {
            assert_int_equal(fs.begin(fs.context, images[m->part].hash, images[m->part].size, &valid), 0);
            assert_true(valid <= m->valid && valid + BLOCK + ERASE > m->valid);
            m->valid = valid;
        }
    }
}

static void random_series_agrees_with_a_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct prng prng = prng_seed(seed);
        struct model m = {.part = -1};
        open_new();
        for (int step = 0; step < 120; step++) {
            model_step(&m, &prng);
            uint32_t n = 0;
            for (uint32_t i = 0; i < SEEDS; i++) {
                assert_int_equal(holds(&images[i]), m.held[i]);
                n += m.held[i];
            }
            assert_int_equal(check_all(), n);
        }
        close_it();
    }
}

static void random_power_cuts_break_no_promise(void **state)
{
    (void)state;
    uint64_t cuts = 0;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct prng prng = prng_seed(seed + 1000);
        struct promise p = {0};
        open_new();
        for (int round = 0; round < 60; round++) {
            nor_flash_power(&nor, (uint64_t)prng_range(&prng, 1, 400));
            for (int step = 0; step < 12 && !nor.off; step++) {
                uint32_t i = (uint32_t)prng_range(&prng, 0, SEEDS - 1);
                if (prng_one_in(&prng, 3))
                    promised_remove(&p, i);
                else if (!holds(&images[i]))
                    promised_push(&p, i);
            }
            cuts += nor.off;
            nor_flash_power(&nor, 0);
            reopen();
            check_promise(&p);
            for (uint32_t i = 0; i < SEEDS; i++) /* what was open is now known */
                p.must[i] = p.may[i] = holds(&images[i]);
        }
        close_it();
    }
    assert_true(cuts > 300);
}

/* ---- faults ---- */

static void bad_blocks_lose_one_push_and_are_not_used_again(void **state)
{
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        int failures = 0;
        open_new();
        uint32_t capacity = fs.capacity(fs.context);
        nor.bad_erases = mode < 2;
        nor.bad_says_so = mode % 2 == 0;
        for (uint32_t i = 0; i < 6; i++)
            nor_flash_bad(&nor, BYTES / ERASE - 4 - 5 * i);
        push_ok(&images[2]);
        for (int round = 0; round < 12; round++) {
            int status = push(&images[9]);
            assert_true(status == 0 || status == STATUS_IO_FAILED);
            failures += status != 0;
            assert_true(holds(&images[2]));
            if (status == 0)
                assert_int_equal(fs.remove(fs.context, images[9].hash), 0);
            if (round == 5)
                reopen();
        }
        assert_in_range(failures, 1, 6);
        push_ok(&images[9]);
        assert_int_equal(fs.capacity(fs.context), capacity - (uint32_t)failures * ERASE);
        reopen();
        check_all();
        assert_true(holds(&images[9]));
        assert_int_equal(fs.capacity(fs.context), capacity - (uint32_t)failures * ERASE);
        close_it();
    }
}

static void bad_block_in_the_log_is_stepped_over(void **state)
{
    (void)state;
    for (uint32_t block = 0; block < LOG / ERASE; block++) {
        open_new();
        nor_flash_bad(&nor, block);
        nor.bad_erases = true;
        for (int round = 0; round < 120; round++) {
            push_ok(&images[round % 2 == 0 ? 2 : 4]);
            reopen();
            assert_true(holds(&images[round % 2 == 0 ? 2 : 4]));
            assert_int_equal(fs.remove(fs.context, images[round % 2 == 0 ? 2 : 4].hash), 0);
        }
        close_it();
    }
}

static void dead_flash_fails_and_does_not_hang(void **state)
{
    (void)state;
    open_new();
    push_ok(&images[9]);
    nor_flash_power(&nor, 1);
    assert_int_equal(push(&images[3]), STATUS_IO_FAILED);
    assert_int_equal(fs.remove(fs.context, images[9].hash), STATUS_IO_FAILED);
    assert_true(holds(&images[9]));
    close_it();
}

static void any_flipped_bit_of_the_log_loses_at_most_what_it_says(void **state)
{
    (void)state;
    open_new();
    push_ok(&images[9]);
    push_ok(&images[5]);
    assert_int_equal(fs.remove(fs.context, images[9].hash), 0);
    push_ok(&images[10]);
    push_ok(&images[1]);
    uint8_t *kept = malloc(BYTES);
    assert_non_null(kept);
    memcpy(kept, nor.bytes, BYTES);
    for (uint32_t bit = 0; bit < 14 * 64 * 8; bit++) {
        memcpy(nor.bytes, kept, LOG);
        nor.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        reopen();
        check_images(false); /* one may be back whose place has another content: the board hashes it */
        int lost = !holds(&images[5]) + !holds(&images[10]) + !holds(&images[1]);
        assert_true(lost <= 1 || bit < 64 * 8); /* the HEAD is the whole half */
    }
    free(kept);
    close_it();
}

static void flash_that_is_not_as_stated_is_refused(void **state)
{
    (void)state;
    open_new();
    struct flash_store_place p = place;
    p.fragments_bytes += ERASE;
    assert_int_equal(flash_store_open(&store, &nor.flash, &p), STATUS_INVALID_ARGUMENT);
    p = place;
    p.log = 100;
    assert_int_equal(flash_store_open(&store, &nor.flash, &p), STATUS_INVALID_ARGUMENT);
    p = place;
    p.log_bytes = 2 * ERASE;
    assert_int_equal(flash_store_open(&store, &nor.flash, &p), STATUS_INVALID_ARGUMENT);
    p = place;
    p.fragments += ERASE; /* not on a border of large erases */
    p.fragments_bytes -= ERASE;
    assert_int_equal(flash_store_open(&store, &nor.flash, &p), STATUS_INVALID_ARGUMENT);
    nor.flash.program = NULL;
    assert_int_equal(flash_store_open(&store, &nor.flash, &place), STATUS_INVALID_ARGUMENT);
    close_it();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_images_last_and_others_do_not),
        cmocka_unit_test(broken_push_goes_on_where_it_was),
        cmocka_unit_test(another_push_drops_the_broken_one),
        cmocka_unit_test(wrong_content_is_refused_and_dropped),
        cmocka_unit_test(offsets_rise_without_gaps),
        cmocka_unit_test(removed_images_are_gone_and_their_room_is_free),
        cmocka_unit_test(full_flash_and_one_in_pieces_refuse),
        cmocka_unit_test(room_in_pieces_is_not_room),
        cmocka_unit_test(large_images_that_take_turns_leave_the_rest_in_one_piece),
        cmocka_unit_test(two_large_models_and_small_ones_fit_the_real_flash),
        cmocka_unit_test(list_ends_at_the_limit_of_images),
        cmocka_unit_test(small_images_wander_and_wear_no_block_out),
        cmocka_unit_test(power_cut_at_every_step_leaves_the_former_or_the_new),
        cmocka_unit_test(random_series_agrees_with_a_model),
        cmocka_unit_test(random_power_cuts_break_no_promise),
        cmocka_unit_test(bad_blocks_lose_one_push_and_are_not_used_again),
        cmocka_unit_test(bad_block_in_the_log_is_stepped_over),
        cmocka_unit_test(dead_flash_fails_and_does_not_hang),
        cmocka_unit_test(any_flipped_bit_of_the_log_loses_at_most_what_it_says),
        cmocka_unit_test(flash_that_is_not_as_stated_is_refused),
    };
    return cmocka_run_group_tests(tests, make_images, free_images);
}
