/* Identity records over an emulated NOR flash: what was kept lasts, whatever instant the power goes at. */
#include "firmware/core/flashmap.h"
#include "firmware/core/identity.h"
#include "shared/base/status.h"
#include "tests/support/nor_flash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { FIRST = 4096, BYTES = 8192, ALL = 16384 };

static struct nor_flash nor;
static struct identity identity;

static void reopen(void)
{
    assert_int_equal(identity_open(&identity, &nor.flash, FIRST, BYTES), 0);
}

static void open_new(void)
{
    nor_flash_new(&nor, ALL, 4096, 0);
    reopen();
}

/* Values that their number tells. */
static uint32_t value_of(enum identity_kind kind, uint32_t number, uint8_t out[IDENTITY_DER_MAX])
{
    struct prng prng = prng_seed(number * 8 + (uint32_t)kind);
    uint32_t n = kind == IDENTITY_NAME  ? 1 + number % IDENTITY_NAME_MAX
                 : kind == IDENTITY_KEY ? 121 + number % 10
                                        : 400 + number % 900;
    prng_fill(&prng, out, n);
    return n;
}

static int put(enum identity_kind kind, uint32_t number)
{
    uint8_t bytes[IDENTITY_DER_MAX], authority[IDENTITY_DER_MAX];
    uint32_t n = value_of(kind, number, bytes);
    if (kind != IDENTITY_CERTIFICATE)
        return identity_put(&identity, kind, bytes, n);
    return identity_put_certificate(&identity, bytes, n, authority, value_of(kind, number + 1000, authority));
}

static bool is(enum identity_kind kind, uint32_t number)
{
    uint8_t expected[IDENTITY_DER_MAX];
    const uint8_t *bytes, *authority;
    uint32_t n = value_of(kind, number, expected), found, n_authority;
    if (kind != IDENTITY_CERTIFICATE) {
        identity_get(&identity, kind, &bytes, &found);
        return found == n && memcmp(bytes, expected, n) == 0;
    }
    if (!identity_certificate(&identity, &bytes, &found, &authority, &n_authority) || found != n ||
        memcmp(bytes, expected, n) != 0)
        return false;
    n = value_of(kind, number + 1000, expected);
    return n_authority == n && memcmp(authority, expected, n) == 0;
}

static bool none(enum identity_kind kind)
{
    const uint8_t *bytes;
    uint32_t n;
    identity_get(&identity, kind, &bytes, &n);
    return n == 0 && bytes == NULL;
}

static void empty_flash_is_an_empty_identity(void **state)
{
    (void)state;
    char name[IDENTITY_NAME_MAX + 1];
    open_new();
    for (int kind = 1; kind < IDENTITY_KINDS; kind++)
        assert_true(none((enum identity_kind)kind));
    identity_name(&identity, name);
    assert_string_equal(name, "");
    memset(nor.bytes, 0, ALL);
    reopen();
    assert_true(none(IDENTITY_KEY));
    assert_int_equal(put(IDENTITY_KEY, 1), 0);
    reopen();
    assert_true(is(IDENTITY_KEY, 1));
    nor_flash_free(&nor);
}

static void newest_value_of_each_kind_lasts(void **state)
{
    (void)state;
    open_new();
    for (uint32_t round = 0; round < 50; round++) {
        if (round == 0)
            assert_int_equal(put(IDENTITY_KEY, 7), 0);
        assert_int_equal(put(IDENTITY_NAME, round), 0);
        assert_int_equal(put(IDENTITY_CERTIFICATE, round), 0);
        for (int twice = 0; twice < 2; twice++) {
            assert_true(is(IDENTITY_KEY, 7));
            assert_true(is(IDENTITY_NAME, round));
            assert_true(is(IDENTITY_CERTIFICATE, round));
            reopen();
        }
    }
    assert_int_equal(identity_put(&identity, IDENTITY_CERTIFICATE, NULL, 0), 0);
    reopen();
    assert_true(none(IDENTITY_CERTIFICATE));
    assert_true(is(IDENTITY_KEY, 7));
    for (uint32_t at = 0; at < ALL; at++) /* nothing outside its two blocks */
        assert_true((at >= FIRST && at < FIRST + BYTES) || nor.bytes[at] == 0xFF);
    nor_flash_free(&nor);
}

static void largest_values_fit_together(void **state)
{
    (void)state;
    static uint8_t bytes[IDENTITY_DER_MAX + 1];
    open_new();
    for (int round = 0; round < 3; round++) {
        assert_int_equal(identity_put(&identity, IDENTITY_KEY, bytes, IDENTITY_KEY_MAX), 0);
        assert_int_equal(identity_put(&identity, IDENTITY_NAME, bytes, IDENTITY_NAME_MAX), 0);
        assert_int_equal(
            identity_put_certificate(&identity, bytes, IDENTITY_DER_MAX, bytes, IDENTITY_DER_MAX), 0);
    }
    assert_int_equal(identity_put(&identity, IDENTITY_KEY, bytes, IDENTITY_KEY_MAX + 1), STATUS_TOO_LARGE);
    assert_int_equal(identity_put(&identity, IDENTITY_NAME, bytes, IDENTITY_NAME_MAX + 1), STATUS_TOO_LARGE);
    assert_int_equal(identity_put_certificate(&identity, bytes, 10, bytes, IDENTITY_DER_MAX + 1),
                     STATUS_TOO_LARGE);
    nor_flash_free(&nor);
}

static void erased_identity_leaves_no_key_behind(void **state)
{
    (void)state;
    open_new();
    for (uint32_t round = 0; round < 20; round++)
        assert_int_equal(put(round == 0 ? IDENTITY_KEY : IDENTITY_CERTIFICATE, round), 0);
    assert_int_equal(identity_erase(&identity), 0);
    assert_true(none(IDENTITY_KEY));
    assert_true(flash_blank(&nor.flash, 0, ALL));
    assert_int_equal(put(IDENTITY_KEY, 2), 0);
    nor_flash_free(&nor);
}

/* First start, enrolment, new names and certificates until the blocks have turned over twice. */
enum { CHANGES = 9 };
static const struct {
    enum identity_kind kind;
    uint32_t number;
} change[CHANGES] = {{IDENTITY_KEY, 1},           {IDENTITY_CERTIFICATE, 600}, {IDENTITY_NAME, 3},
                     {IDENTITY_CERTIFICATE, 500}, {IDENTITY_NAME, 33},         {IDENTITY_CERTIFICATE, 700},
                     {IDENTITY_NAME, 12},         {IDENTITY_CERTIFICATE, 20},  {IDENTITY_CERTIFICATE, 899}};

/* Whether each kind has its newest value of the first `n` changes. */
static bool state_is(uint32_t n)
{
    uint32_t newest[IDENTITY_KINDS] = {0};
    for (uint32_t i = 0; i < n; i++)
        newest[change[i].kind] = i + 1;
    for (int kind = 1; kind < IDENTITY_KINDS; kind++)
        if (newest[kind] == 0 ? !none((enum identity_kind)kind)
                              : !is((enum identity_kind)kind, change[newest[kind] - 1].number))
            return false;
    return true;
}

static void power_cut_at_every_step_leaves_the_former_or_the_new(void **state)
{
    (void)state;
    uint64_t points = 0, former = 0;
    for (uint64_t seed = 0; seed < 30; seed++)
        for (uint64_t at = 1;; at++, points++) {
            uint32_t done = 0;
            open_new();
            nor.prng = prng_seed(seed * 1009 + at);
            nor_flash_power(&nor, at);
            while (done < CHANGES && put(change[done].kind, change[done].number) == 0)
                done++;
            bool cut = nor.off;
            nor_flash_power(&nor, 0);
            reopen();
            assert_true(state_is(done) || (done < CHANGES && state_is(done + 1)));
            former += cut && state_is(done);
            for (; done < CHANGES; done++) /* and it goes on from there */
                assert_int_equal(put(change[done].kind, change[done].number), 0);
            reopen();
            assert_true(state_is(CHANGES));
            nor_flash_free(&nor);
            if (!cut)
                break;
        }
    printf("%llu power cuts\n", (unsigned long long)points);
    assert_true(points > 2000 && former > 1000);
}

static void bad_block_keeps_the_former_value_and_says_so(void **state)
{
    (void)state;
    open_new();
    assert_int_equal(put(IDENTITY_KEY, 1), 0);
    nor_flash_bad(&nor, FIRST / 4096 + 1);
    int status = 0;
    for (uint32_t i = 0; i < 20 && status == 0; i++)
        status = put(IDENTITY_CERTIFICATE, i);
    assert_int_equal(status, STATUS_IO_FAILED);
    reopen();
    assert_true(is(IDENTITY_KEY, 1));
    nor_flash_free(&nor);
}

static void any_flipped_bit_loses_at_most_one_value(void **state)
{
    (void)state;
    static uint8_t kept[BYTES];
    open_new();
    assert_int_equal(put(IDENTITY_KEY, 1), 0);
    assert_int_equal(put(IDENTITY_CERTIFICATE, 2), 0);
    assert_int_equal(put(IDENTITY_NAME, 3), 0);
    memcpy(kept, nor.bytes + FIRST, BYTES);
    for (uint32_t bit = 16 * 8; bit < 4096 * 8; bit++) {
        memcpy(nor.bytes + FIRST, kept, BYTES);
        nor.bytes[FIRST + bit / 8] ^= (uint8_t)(1 << bit % 8);
        reopen();
        int lost = !is(IDENTITY_KEY, 1) + !is(IDENTITY_CERTIFICATE, 2) + !is(IDENTITY_NAME, 3);
        assert_in_range(lost, 0, 1);
        assert_true(is(IDENTITY_KEY, 1) || none(IDENTITY_KEY)); /* never a wrong one */
        assert_true(is(IDENTITY_NAME, 3) || none(IDENTITY_NAME));
        assert_true(is(IDENTITY_CERTIFICATE, 2) || none(IDENTITY_CERTIFICATE));
    }
    nor_flash_free(&nor);
}

static void random_bytes_open_as_something_harmless(void **state)
{
    (void)state;
    open_new();
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct prng prng = prng_seed(seed);
        for (uint32_t i = 0; i < 6; i++) {
            reopen();
            assert_int_equal(put((enum identity_kind)(1 + i % 3), (uint32_t)seed + i), 0);
        }
        for (int i = 0; i < 40; i++)
            nor.bytes[FIRST + prng_range(&prng, 0, BYTES - 1)] = (uint8_t)prng_next(&prng);
    }
    assert_int_equal(identity_open(&identity, &nor.flash, FIRST, 4096), STATUS_INVALID_ARGUMENT);
    assert_int_equal(identity_open(&identity, &nor.flash, 100, BYTES), STATUS_INVALID_ARGUMENT);
    assert_int_equal(identity_open(&identity, &nor.flash, ALL, BYTES), STATUS_INVALID_ARGUMENT);
    nor_flash_free(&nor);
}

static void map_has_room_for_an_identity(void **state)
{
    (void)state;
    nor_flash_new(&nor, FLASHMAP_BYTES, FLASHMAP_ERASE_BYTES, FLASHMAP_BLOCK_BYTES);
    assert_int_equal(identity_open(&identity, &nor.flash, FLASHMAP_IDENTITY, FLASHMAP_IDENTITY_BYTES), 0);
    assert_int_equal(flash_crc32(0, (const uint8_t *)"123456789", 9), 0xCBF43926);
    nor_flash_free(&nor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_flash_is_an_empty_identity),
        cmocka_unit_test(newest_value_of_each_kind_lasts),
        cmocka_unit_test(largest_values_fit_together),
        cmocka_unit_test(erased_identity_leaves_no_key_behind),
        cmocka_unit_test(power_cut_at_every_step_leaves_the_former_or_the_new),
        cmocka_unit_test(bad_block_keeps_the_former_value_and_says_so),
        cmocka_unit_test(any_flipped_bit_loses_at_most_one_value),
        cmocka_unit_test(random_bytes_open_as_something_harmless),
        cmocka_unit_test(map_has_room_for_an_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
