/* Clocks, log, hashes, ids, base32 and UTF-8 of server/base and shared/base. */
#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/id.h"
#include "server/base/json_text.h"
#include "server/base/log.h"
#include "server/base/utf8.h"
#include "shared/base/base32.h"
#include "shared/base/le.h"
#include "shared/base/status.h"
#include "tests/support/prng.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void status_names_are_unique_and_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_int_equal(status_from_name(status_name(-i)), -i);
        assert_true(status_text(-i)[0] != '\0');
        assert_in_range(status_http(-i), 200, 599);
    }
    assert_string_equal(status_name(-STATUS_COUNT), "internal");
    assert_string_equal(status_name(7), "ok");
}

static void rfc3339_writes_known_times(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } known[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1796032694123, "2026-11-30T09:58:14.123Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char text[CLOCK_TEXT_BYTES];
        clock_rfc3339(known[i].ms, text);
        assert_string_equal(text, known[i].text);
    }
}

static void rfc3339_reads_back_what_it_wrote(void **state)
{
    (void)state;
    struct prng prng = prng_seed(1);
    for (int i = 0; i < 20000; i++) {
        int64_t ms = (int64_t)(prng_next(&prng) % 315569519999999u) - 62167219200000, back = 0;
        char text[CLOCK_TEXT_BYTES];
        clock_rfc3339(ms, text);
        assert_true(clock_from_rfc3339(text, &back));
        assert_int_equal(back, ms);
    }
}

static void rfc3339_refuses_what_is_no_time(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "2026-02-29T00:00:00Z",
                                        "2026-13-01T00:00:00Z",
                                        "2026-00-01T00:00:00Z",
                                        "2026-01-00T00:00:00Z",
                                        "2026-01-01T24:00:00Z",
                                        "2026-01-01T00:60:00Z",
                                        "2026-01-01T00:00:00",
                                        "2026-01-01T00:00:00.12Z",
                                        "2026-01-01T00:00:00Zx",
                                        "2026-01-01 00:00:00Z",
                                        "+026-01-01T00:00:00Z"};
    int64_t ms = 5;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(clock_from_rfc3339(wrong[i], &ms));
    assert_true(clock_from_rfc3339("1970-01-01T00:00:01Z", &ms));
    assert_int_equal(ms, 1000);
}

static void sha256_gives_the_published_digests_in_any_pieces(void **state)
{
    (void)state;
    uint8_t out[HASH_BYTES], again[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    hash_sha256("abc", 3, out);
    hash_hex(out, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sha256("", 0, out);
    hash_hex(out, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");

    static uint8_t big[100000];
    struct prng prng = prng_seed(2);
    prng_fill(&prng, big, sizeof big);
    hash_sha256(big, sizeof big, out);
    struct hash hash;
    hash_begin(&hash);
    for (size_t at = 0; at < sizeof big;) {
        size_t n = (size_t)prng_range(&prng, 0, 5000);
        n = n < sizeof big - at ? n : sizeof big - at;
        hash_add(&hash, big + at, n);
        at += n;
    }
    hash_end(&hash, again);
    assert_memory_equal(out, again, sizeof out);
}

static void hash_hex_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    uint8_t out[HASH_BYTES], back[HASH_BYTES];
    char hex[HASH_HEX_BYTES + 1] = "";
    hash_sha256("x", 1, out);
    hash_hex(out, hex);
    hex[3] = (char)(hex[3] >= 'a' ? hex[3] - 32 : hex[3]);
    assert_true(hash_from_hex(hex, back));
    assert_memory_equal(out, back, sizeof out);
    hex[64] = '0';
    assert_false(hash_from_hex(hex, back));
    hex[63] = '\0';
    assert_false(hash_from_hex(hex, back));
    hex[10] = 'g';
    assert_false(hash_from_hex(hex, back));
    assert_true(hash_equal(out, back, sizeof out));
    back[31] ^= 1;
    assert_false(hash_equal(out, back, sizeof out));
}

enum { ULID_THREADS = 4, ULIDS = 5000 };
static char ulids[ULID_THREADS][ULIDS][ID_ULID_BYTES];

static void *make_ulids(void *into)
{
    char(*list)[ID_ULID_BYTES] = into;
    for (int i = 0; i < ULIDS; i++)
        id_ulid(list[i]);
    return NULL;
}

static int compare_ulids(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void ulids_rise_in_each_thread_and_are_unique_over_all(void **state)
{
    (void)state;
    pthread_t threads[ULID_THREADS];
    for (int i = 0; i < ULID_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_ulids, ulids[i]), 0);
    for (int i = 0; i < ULID_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int t = 0; t < ULID_THREADS; t++)
        for (int i = 0; i < ULIDS; i++) {
            assert_true(id_is_ulid(ulids[t][i]));
            if (i)
                assert_true(strcmp(ulids[t][i - 1], ulids[t][i]) < 0);
        }
    char *all = ulids[0][0];
    qsort(all, (size_t)ULID_THREADS * ULIDS, ID_ULID_BYTES, compare_ulids);
    for (int i = 1; i < ULID_THREADS * ULIDS; i++)
        assert_true(strcmp(all + (i - 1) * ID_ULID_BYTES, all + i * ID_ULID_BYTES) < 0);
}

static void ulid_begins_with_its_time(void **state)
{
    (void)state;
    char id[ID_ULID_BYTES];
    int64_t before = clock_wall_ms();
    id_ulid(id);
    int64_t ms = id_ulid_wall_ms(id);
    assert_true(ms >= before && ms <= clock_wall_ms());
    assert_int_equal(id_ulid_wall_ms("01ARZ3NDEKTSV4RRFFQ69G5FAV"), 1469922850259);
    assert_false(id_is_ulid("81ARZ3NDEKTSV4RRFFQ69G5FAV"));
    assert_false(id_is_ulid("01ARZ3NDEKTSV4RRFFQ69G5FA"));
    assert_false(id_is_ulid("01ARZ3NDEKTSV4RRFFQ69G5FAVX"));
    assert_false(id_is_ulid("01ARZ3NDEKTSV4RRFFQ69G5FAU"));
}

static void base32_meets_rfc4648(void **state)
{
    (void)state;
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"", "MY", "MZXQ", "MZXW6", "MZXW6YQ", "MZXW6YTB", "MZXW6YTBOI"};
    for (size_t n = 0; n < 7; n++) {
        char text[16], back[8];
        base32_encode(plain[n], n, text);
        assert_string_equal(text, coded[n]);
        assert_int_equal(base32_decode(text, back, n), 0);
        assert_memory_equal(back, plain[n], n);
    }
}

static void base32_has_one_text_for_one_value(void **state)
{
    (void)state;
    uint8_t code[26], back[26];
    char text[64];
    id_random_bytes(code, sizeof code);
    base32_encode(code, sizeof code, text);
    assert_int_equal(strlen(text), BASE32_CHARS(sizeof code));
    assert_int_equal(base32_decode(text, back, sizeof back), 0);
    assert_memory_equal(code, back, sizeof code);
    assert_int_equal(base32_decode("mzx-w6 ytb", back, 5), 0);
    assert_memory_equal(back, "fooba", 5);
    static const char *const wrong[] = {"MZ", "MZ1", "M", "MYA", "", "M="};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(base32_decode(wrong[i], back, 1), STATUS_INVALID_ARGUMENT);
}

static void utf8_refuses_overlong_surrogate_and_cut_characters(void **state)
{
    (void)state;
    static const char *const good[] = {
        "", "abc", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x9f", "\xef\xbf\xbf"};
    static const char *const bad[] = {
        "\xc0\x80",     "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80", "\x80",     "\xe2\x82",     "\xff",         "\xf0\x9f\x90"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(utf8_valid(bad[i], strlen(bad[i])));
        assert_int_equal(utf8_length(bad[i]), 0);
    }
    assert_false(utf8_valid("a\0b", 3));
}

static void little_endian_numbers_stand_at_any_address(void **state)
{
    (void)state;
    uint8_t bytes[9] = {0};
    le_put64(bytes + 1, 0x0102030405060708u);
    assert_int_equal(bytes[1], 8);
    assert_true(le_get64(bytes + 1) == 0x0102030405060708u);
    le_put32(bytes + 1, 0xfffefdfcu);
    assert_int_equal(le_get32(bytes + 1), 0xfffefdfcu);
    assert_int_equal(le_get16(bytes + 1), 0xfdfc);
}

/* Runs log_line with standard error in a pipe; the text that came out. */
static void captured(char *out, size_t room, const char *text)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    errno = ENOENT;
    LOG_INFO("test", "%s", text);
    int after = errno;
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    (void)close(ends[1]);
    ssize_t n = read(ends[0], out, room - 1);
    (void)close(ends[0]);
    out[n > 0 ? n : 0] = '\0';
    assert_int_equal(after, ENOENT);
}

static void log_line_cannot_be_forged_by_its_text(void **state)
{
    (void)state;
    char out[4096];
    captured(out, sizeof out, "a\nb\x1b[31m\xff \xc3\xa4");
    int64_t ms;
    char *rest = strchr(out, ' ');
    assert_non_null(rest);
    *rest = '\0';
    assert_true(clock_from_rfc3339(out, &ms));
    assert_string_equal(rest + 1, "info  test: a\\x0ab\\x1b[31m\\xff \xc3\xa4\n");
}

static void log_line_too_long_is_cut_and_marked(void **state)
{
    (void)state;
    static char text[5000], out[8192];
    memset(text, 'x', sizeof text - 1);
    captured(out, sizeof out, text);
    size_t n = strlen(out);
    assert_true(n <= LOG_LINE_BYTES && n > LOG_LINE_BYTES - 64);
    assert_string_equal(out + n - 5, "x...\n");
    memset(text, '\n', sizeof text - 1);
    captured(out, sizeof out, text);
    assert_true(strlen(out) <= LOG_LINE_BYTES);
    assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

static void log_below_the_level_is_dropped(void **state)
{
    (void)state;
    char out[256];
    log_set_level((enum log_level)log_level_from_name("warn"));
    captured(out, sizeof out, "quiet");
    log_set_level(LOG_LEVEL_INFO);
    assert_string_equal(out, "");
    assert_int_equal(log_level_from_name("loud"), -1);
}

static void milliseconds_leave_with_three_decimals_and_other_numbers_with_all(void **state)
{
    (void)state;
    json_t *json = json_pack("{s:f, s:f, s:{s:f, s:[f]}, s:[{s:f}], s:i}", "latency_ms", 26.24937761163,
                             "share", 0.24937761163, "times_ms", "mean", 0.00049, "all", 1.0006, "list",
                             "moving_ms", 23.749, "until_ms", 7);
    char *text = json_text(json);
    assert_non_null(text);
    assert_string_equal(text,
                        "{\"latency_ms\":26.249,\"share\":0.24937761163,\"times_ms\":{\"mean\":0.0,\"all\":"
                        "[1.001]},\"list\":[{\"moving_ms\":23.749}],\"until_ms\":7}");
    free(text);
    json_decref(json);
    assert_null(json_text(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_are_unique_and_read_back),
        cmocka_unit_test(rfc3339_writes_known_times),
        cmocka_unit_test(rfc3339_reads_back_what_it_wrote),
        cmocka_unit_test(rfc3339_refuses_what_is_no_time),
        cmocka_unit_test(sha256_gives_the_published_digests_in_any_pieces),
        cmocka_unit_test(hash_hex_is_read_whole_or_not_at_all),
        cmocka_unit_test(ulids_rise_in_each_thread_and_are_unique_over_all),
        cmocka_unit_test(ulid_begins_with_its_time),
        cmocka_unit_test(base32_meets_rfc4648),
        cmocka_unit_test(base32_has_one_text_for_one_value),
        cmocka_unit_test(utf8_refuses_overlong_surrogate_and_cut_characters),
        cmocka_unit_test(little_endian_numbers_stand_at_any_address),
        cmocka_unit_test(log_line_cannot_be_forged_by_its_text),
        cmocka_unit_test(log_line_too_long_is_cut_and_marked),
        cmocka_unit_test(log_below_the_level_is_dropped),
        cmocka_unit_test(milliseconds_leave_with_three_decimals_and_other_numbers_with_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
