/* The frame header and the codec of messages: what is encoded is decoded to the same, and nothing else is. */
#include "shared/wire/wire.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const uint8_t types[] = {
#define TYPE(UPPER, lower) WIRE_##UPPER,
    WIRE_MESSAGES(TYPE)};
enum { TYPES = sizeof types / sizeof types[0] };

static _Alignas(8) uint8_t room[WIRE_MESSAGE_MAX], room2[WIRE_MESSAGE_MAX];

static void header_survives_the_wire(void **state)
{
    (void)state;
    struct wire_header in = {WIRE_DATA, WIRE_FLAG_LAST, 0xBEEF, 0x12345678, 0x9ABCDEF0, 4080}, out;
    uint8_t bytes[WIRE_HEADER_BYTES];
    wire_header_put(&in, bytes);
    assert_int_equal(bytes[2], 0xEF);
    assert_int_equal(bytes[4], 0x78);
    assert_int_equal(wire_header_get(bytes, &out), 0);
    assert_memory_equal(&in, &out, sizeof in);
}

static void header_with_a_length_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct wire_header in = {.type = WIRE_DATA, .length = WIRE_PAYLOAD_MAX + 1}, out;
    uint8_t bytes[WIRE_HEADER_BYTES];
    wire_header_put(&in, bytes);
    assert_int_equal(wire_header_get(bytes, &out), STATUS_WIRE_MALFORMED);
}

static void every_type_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(wire_type_name(WIRE_DATA), "DATA");
    assert_string_equal(wire_type_name(WIRE_CERT), "CERT");
    assert_string_equal(wire_type_name(WIRE_HELLO), "HELLO");
    assert_string_equal(wire_type_name(WIRE_ENROL), "ENROL");
    assert_string_equal(wire_type_name(0), "?");
    assert_string_equal(wire_type_name(WIRE_CERT + 1), "?");
    assert_string_equal(wire_type_name(WIRE_ENROL + 1), "?");
    assert_string_equal(wire_type_name(255), "?");
}

static void every_message_decodes_to_what_was_encoded(void **state)
{
    (void)state;
    uint8_t payload[WIRE_PAYLOAD_MAX], again[WIRE_PAYLOAD_MAX];
    for (int t = 0; t < TYPES; t++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            assert_int_equal(wire_sample(types[t], seed, room), 0);
            int n = wire_encode(types[t], room, payload);
            assert_true(n >= 0);
            memset(room2, 0xA5, sizeof room2);
            assert_int_equal(wire_decode(types[t], payload, (uint32_t)n, room2), 0);
            assert_int_equal(wire_encode(types[t], room2, again), n);
            assert_memory_equal(payload, again, (size_t)n);
        }
}

static void named_functions_are_the_same_codec(void **state)
{
    (void)state;
    struct wire_hello hello = {.version_min = 1,
                               .version_max = 1,
                               .name = "küche",
                               .clock_hz = 600000000,
                               .n_regions = 1,
                               .regions = {{"arena", 458752, 1000}},
                               .n_held = 1};
    struct wire_hello out;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    hello.held[0].bytes = 77;
    int n = wire_encode_hello(&hello, payload);
    assert_true(n > 0);
    assert_int_equal(wire_decode_hello(payload, (uint32_t)n, &out), 0);
    assert_string_equal(out.name, "küche");
    assert_int_equal(out.regions[0].bytes, 458752);
    assert_int_equal(out.held[0].bytes, 77);
    assert_true(out.clock_hz == 600000000);
}

static void short_and_long_payloads_are_refused_at_every_byte(void **state)
{
    (void)state;
    uint8_t payload[WIRE_PAYLOAD_MAX + 1] = {0};
    for (int t = 0; t < TYPES; t++) {
        assert_int_equal(wire_sample(types[t], 5, room), 0);
        int n = wire_encode(types[t], room, payload);
        assert_true(n >= 0 && n < WIRE_PAYLOAD_MAX);
        for (uint32_t cut = 0; cut < (uint32_t)n; cut++) {
            uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees a read past the end */
            assert_non_null(exact);
            memcpy(exact + 1, payload, cut);
            assert_int_equal(wire_decode(types[t], exact + 1, cut, room2), STATUS_WIRE_MALFORMED);
            free(exact);
        }
        assert_int_equal(wire_decode(types[t], payload, (uint32_t)n + 1, room2), STATUS_WIRE_MALFORMED);
    }
}

/* LOG is u8, i32, string: its text starts at byte 7. */
static int decode_log_text(const char *text, size_t n)
{
    uint8_t payload[600] = {0};
    struct wire_log out;
    payload[5] = (uint8_t)n;
    payload[6] = (uint8_t)(n >> 8);
    memcpy(payload + 7, text, n);
    return wire_decode_log(payload, (uint32_t)(7 + n), &out);
}

static void texts_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFF",
                                      "a\xC3",
                                      "\xE2\x82",
                                      "\xC3("};
    static const char *const good[] = {
        "", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(decode_log_text(bad[i], strlen(bad[i])), STATUS_WIRE_MALFORMED);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(decode_log_text(good[i], strlen(good[i])), 0);
    assert_int_equal(decode_log_text("a\0b", 3), STATUS_WIRE_MALFORMED);
}

static void texts_and_lists_over_their_cap_are_refused(void **state)
{
    (void)state;
    char text[512];
    memset(text, 'x', sizeof text);
    assert_int_equal(decode_log_text(text, 500), 0);
    assert_int_equal(decode_log_text(text, 501), STATUS_WIRE_MALFORMED);
    static struct wire_done done;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    done.n_times = 216;
    int n = wire_encode_done(&done, payload);
    assert_true(n > 0);
    done.n_times = 217;
    assert_int_equal(wire_encode_done(&done, payload), STATUS_WIRE_MALFORMED);
    payload[40] = 217; /* the count, after six u32 and two u64 */
    assert_int_equal(wire_decode_done(payload, (uint32_t)n, &done), STATUS_WIRE_MALFORMED);
    static struct wire_log log;
    memset(log.text, 'x', sizeof log.text); /* no NUL */
    assert_int_equal(wire_encode_log(&log, payload), STATUS_WIRE_MALFORMED);
}

static void random_payloads_never_decode_to_something_that_encodes_otherwise(void **state)
{
    (void)state;
    struct prng prng = prng_seed(7);
    uint8_t payload[WIRE_PAYLOAD_MAX], again[WIRE_PAYLOAD_MAX];
    uint32_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        uint8_t type = types[prng_range(&prng, 0, TYPES - 1)];
        assert_int_equal(wire_sample(type, prng_next(&prng), room), 0);
        int n = wire_encode(type, room, payload);
        assert_true(n >= 0);
        for (int k = prng_range(&prng, 0, 3); k > 0 && n > 0; k--)
            payload[prng_range(&prng, 0, n - 1)] = (uint8_t)prng_next(&prng);
        if (wire_decode(type, payload, (uint32_t)n, room2) != 0)
            continue;
        accepted++;
        assert_int_equal(wire_encode(type, room2, again), n);
        assert_memory_equal(payload, again, (size_t)n);
    }
    assert_true(accepted > 1000);
}

static void types_without_fields_are_not_found(void **state)
{
    (void)state;
    uint8_t payload[WIRE_PAYLOAD_MAX] = {0};
    assert_int_equal(wire_decode(WIRE_DATA, payload, 0, room), STATUS_NOT_FOUND);
    assert_int_equal(wire_encode(200, room, payload), STATUS_NOT_FOUND);
    assert_int_equal(wire_sample(WIRE_NOP, 1, room), STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_survives_the_wire),
        cmocka_unit_test(header_with_a_length_over_the_limit_is_refused),
        cmocka_unit_test(every_type_has_its_name),
        cmocka_unit_test(every_message_decodes_to_what_was_encoded),
        cmocka_unit_test(named_functions_are_the_same_codec),
        cmocka_unit_test(short_and_long_payloads_are_refused_at_every_byte),
        cmocka_unit_test(texts_that_are_not_utf8_are_refused),
        cmocka_unit_test(texts_and_lists_over_their_cap_are_refused),
        cmocka_unit_test(random_payloads_never_decode_to_something_that_encodes_otherwise),
        cmocka_unit_test(types_without_fields_are_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
