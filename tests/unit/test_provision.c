/* The provisioning page both ways, Intel HEX both ways, firmware images in their forms. */
#include "firmware/core/flashmap.h"
#include "firmware/core/provision.h"
#include "server/provision/image.h"
#include "shared/base/le.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- the page ---- */

static struct provision sample(void)
{
    struct provision p = {.name = "desk-1",
                          .servers = {{"192.0.2.9", 8443}, {"shoal.example", 443}},
                          .n_servers = 2,
                          .code = "ABCDEF-GHIJKL",
                          .trust = {1, 2, 3},
                          .is_static = true,
                          .address = {192, 0, 2, 7},
                          .mask = {255, 255, 255, 0},
                          .gateway = {192, 0, 2, 1},
                          .dns = {9, 9, 9, 9}};
    return p;
}

static struct provision minimal(void)
{
    return (struct provision){.servers = {{"10.0.2.2", 1}}, .n_servers = 1};
}

static void page_says_what_was_put_in(void **state)
{
    (void)state;
    uint8_t page[PROVISION_BYTES];
    struct provision in[] = {sample(), minimal()}, out;
    memset(in[1].name, 'n', PROVISION_NAME_MAX);
    memset(in[1].servers[0].host, 'h', PROVISION_HOST_MAX);
    memset(in[1].code, 'C', PROVISION_CODE_MAX);
    in[1].trust[15] = 1;
    in[1].servers[0].port = 65535;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(provision_encode(&in[i], page, NULL), 0);
        assert_int_equal(provision_decode(page, &out, NULL), 0);
        assert_string_equal(out.name, in[i].name);
        assert_int_equal(out.n_servers, in[i].n_servers);
        for (uint32_t s = 0; s < out.n_servers; s++) {
            assert_string_equal(out.servers[s].host, in[i].servers[s].host);
            assert_int_equal(out.servers[s].port, in[i].servers[s].port);
        }
        assert_string_equal(out.code, in[i].code);
        assert_memory_equal(out.trust, in[i].trust, sizeof out.trust);
        assert_int_equal(out.is_static, in[i].is_static);
        assert_memory_equal(out.address, in[i].address, 16);
    }
}

static void any_changed_bit_of_a_page_is_found(void **state)
{
    (void)state;
    uint8_t page[PROVISION_BYTES];
    struct provision p = sample(), out;
    const char *what = NULL;
    assert_int_equal(provision_encode(&p, page, NULL), 0);
    for (uint32_t bit = 0; bit < PROVISION_BYTES * 8; bit++) {
        page[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(provision_decode(page, &out, &what) < 0);
        assert_non_null(what);
        assert_int_equal(out.n_servers, 0);
        page[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    memset(page, 0xFF, sizeof page);
    assert_int_equal(provision_decode(page, &out, &what), STATUS_NOT_FOUND);
}

static void settings_that_cannot_work_are_refused(void **state)
{
    (void)state;
    uint8_t page[PROVISION_BYTES];
    struct provision bad[16];
    const size_t n = sizeof bad / sizeof *bad;
    for (size_t i = 0; i < n; i++)
        bad[i] = sample();
    bad[0].n_servers = 0;
    bad[1].n_servers = 3;
    bad[2].servers[0].port = 0;
    bad[3].servers[1].host[0] = 0;
    strcpy(bad[4].servers[0].host, "300.1.1.1");
    strcpy(bad[5].servers[0].host, "a b");
    memset(bad[6].servers[0].host, 'x', sizeof bad[6].servers[0].host);
    strcpy(bad[7].name, "a\nb");
    strcpy(bad[8].code, "ABC DEF");
    memset(bad[9].trust, 0, sizeof bad[9].trust);
    bad[10].address[0] = 224;
    bad[11].mask[1] = 0;
    bad[12].gateway[2] = 3;
    memset(bad[13].dns, 0, 4); /* and a server by name */
    bad[14].is_static = false;
    memset(bad[15].name, 'x', sizeof bad[15].name);
    for (size_t i = 0; i < n; i++) {
        const char *what = NULL;
        assert_int_equal(provision_encode(&bad[i], page, &what), STATUS_INVALID_ARGUMENT);
        assert_non_null(what);
    }
}

static void addresses_are_four_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",       "1.2.3",  "1.2.3.4.5", "1.2.3.256", "1.2.3.4 ",         "01.2.3.4", "1..2.3",
        "1.2.3.", ".1.2.3", "a.b.c.d",   "1.2.3.-4",  "1.2.3.4444444444", "1.2.3.00"};
    uint8_t out[4];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(provision_address(bad[i], out));
    assert_true(provision_address("0.10.200.255", out));
    assert_memory_equal(out, ((const uint8_t[]){0, 10, 200, 255}), 4);
}

/* ---- Intel HEX ---- */

static struct ihex hex;
static struct error error;

static int parse(const char *text)
{
    ihex_free(&hex);
    error_clear(&error);
    return ihex_parse(&hex, text, strlen(text), &error);
}

static void hex_files_say_bytes_at_addresses(void **state)
{
    (void)state;
    assert_int_equal(
        parse(":0200000460009A\r\n:0400000001020304F2\r\n:02000400AABB95\r\n:020000040001F9\n"
              ":01FFFF00AA57\n:0400000560002001" /* wrong on purpose below */ "76\n:00000001FF\n"),
        0);
    assert_int_equal(hex.n_runs, 2);
    assert_int_equal(hex.runs[0].address, 0x1FFFF);
    assert_int_equal(hex.runs[1].address, 0x60000000);
    assert_int_equal(hex.runs[1].n, 6);
    assert_memory_equal(hex.runs[1].bytes, "\1\2\3\4\xAA\xBB", 6);
    assert_true(hex.has_start);
    assert_int_equal(hex.start, 0x60002001);
    assert_int_equal(ihex_bytes(&hex), 7);
    assert_int_equal(parse(":020000021000EC\n:0100000055AA\n:00000001FF"),
                     0); /* a segment; no last new line */
    assert_int_equal(hex.runs[0].address, 0x10000);
    ihex_free(&hex);
}

static void hex_files_that_are_not_right_are_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "no end record"},
        {":0100000055AA\n", "no end record"},
        {"hello\n", "line 1: does not begin with a colon"},
        {":0100000055AB\n:00000001FF\n", "line 1: the checksum"},
        {":00000001FF\n:0100000055AA\n", "line 2: a record behind the end"},
        {":0100000055AA\n:0100000055AA\n:00000001FF\n", "line 2: the byte at 0x00000000 is there twice"},
        {":0200000055AAFE\n:00000001FF\n", "line 1: the checksum"},
        {":0300000055AA\n", "line 1: the record's length"},
        {":01000000\n", "line 1: a record of a wrong length"},
        {":01000000GGAA\n", "line 1: a character"},
        {":0100000955A1\n:00000001FF\n", "line 1: a record of an unknown type"},
        {":0100000460 9B\n", "line 1: a"},
        {":02FFFF00AABB9B\n:00000001FF\n", "line 1: the record runs over"},
        {":0400000560002001"
         "76\n:040000056000200176\n:00000001FF\n",
         "line 2: a second start"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int status = parse(bad[i].text);
        assert_true(status == STATUS_INVALID_ARGUMENT || status == STATUS_CONFLICT);
        if (strstr(error.message, bad[i].says) == NULL)
            fail_msg("%zu: %s", i, error.message);
    }
    ihex_free(&hex);
}

static void hex_comes_back_as_it_was(void **state)
{
    (void)state;
    struct prng prng = prng_seed(11);
    for (int round = 0; round < 200; round++) {
        struct ihex in = {0};
        uint8_t bytes[700];
        char *text;
        size_t n;
        error_clear(&error);
        for (int i = prng_range(&prng, 0, 12); i > 0; i--) {
            uint32_t address = prng_one_in(&prng, 2) ? 0x6000FF00u + (uint32_t)prng_range(&prng, 0, 2000)
                                                     : (uint32_t)prng_next(&prng);
            uint32_t size = (uint32_t)prng_range(&prng, 0, sizeof bytes);
            prng_fill(&prng, bytes, size);
            struct error ignored;
            error_clear(&ignored);
            (void)ihex_add(&in, address, bytes, size, &ignored); /* some overlap */
        }
        in.has_start = prng_one_in(&prng, 2);
        in.start = in.has_start ? (uint32_t)prng_next(&prng) : 0;
        assert_int_equal(ihex_format(&in, &text, &n, &error), 0);
        assert_int_equal(strlen(text), n);
        ihex_free(&hex);
        assert_int_equal(ihex_parse(&hex, text, n, &error), 0);
        assert_int_equal(ihex_bytes(&hex), ihex_bytes(&in));
        assert_int_equal(hex.start, in.start);
        for (size_t i = 0; i < in.n_runs; i++) { /* all of it is there: adding again is refused */
            struct error twice;
            error_clear(&twice);
            if (in.runs[i].n > 0)
                assert_int_equal(ihex_add(&hex, in.runs[i].address, in.runs[i].bytes, 1, &twice),
                                 STATUS_CONFLICT);
            if (i > 0)
                assert_true((uint64_t)in.runs[i - 1].address + in.runs[i - 1].n <= in.runs[i].address);
        }
        free(text);
        ihex_free(&in);
    }
    ihex_free(&hex);
}

static void cut_removes_what_lies_inside(void **state)
{
    (void)state;
    uint8_t map[64], bytes[64];
    struct prng prng = prng_seed(3);
    prng_fill(&prng, bytes, sizeof bytes);
    for (int round = 0; round < 500; round++) {
        memset(map, 0, sizeof map);
        ihex_free(&hex);
        error_clear(&error);
        for (int i = 0; i < 5; i++) {
            struct error ignored;
            error_clear(&ignored);
            uint32_t at = (uint32_t)prng_range(&prng, 0, 55), n = (uint32_t)prng_range(&prng, 1, 8);
            if (ihex_add(&hex, 0x1000 + at, bytes + at, n, &ignored) == 0)
                memset(map + at, 1, n);
        }
        uint32_t first = (uint32_t)prng_range(&prng, 0, 60), n = (uint32_t)prng_range(&prng, 0, 40);
        assert_int_equal(ihex_cut(&hex, 0x1000 + first, n, &error), 0);
        for (uint32_t at = first; at < first + n && at < 64; at++)
            map[at] = 0;
        for (size_t i = 0; i < hex.n_runs; i++)
            for (uint32_t at = 0; at < hex.runs[i].n; at++) {
                uint32_t where = hex.runs[i].address + at - 0x1000;
                assert_int_equal(map[where], 1);
                assert_int_equal(hex.runs[i].bytes[at], bytes[where]);
                map[where] = 2;
            }
        assert_null(memchr(map, 1, sizeof map));
    }
    ihex_free(&hex);
}

static void hex_ends_at_the_last_address(void **state)
{
    (void)state;
    error_clear(&error);
    ihex_free(&hex);
    assert_int_equal(ihex_add(&hex, 0xFFFFFFFF, (const uint8_t *)"a", 1, &error), 0);
    assert_int_equal(ihex_add(&hex, 0xFFFFFFFF, (const uint8_t *)"ab", 2, &error), STATUS_INVALID_ARGUMENT);
    ihex_free(&hex);
}

/* ---- images ---- */

static int read_image(const void *bytes, size_t n)
{
    ihex_free(&hex);
    error_clear(&error);
    return image_read(&hex, bytes, n, &error);
}

/* An ELF file with one segment of 8 bytes at `address`. */
static size_t make_elf(uint8_t out[128], uint32_t address)
{
    memset(out, 0, 128);
    memcpy(out,
           "\x7F"
           "ELF\1\1\1",
           7);
    le_put16(out + 16, 2);
    le_put16(out + 18, 40);
    le_put32(out + 24, 0x60002001);
    le_put32(out + 28, 52);
    le_put16(out + 42, 32);
    le_put16(out + 44, 1);
    le_put32(out + 52, 1);
    le_put32(out + 56, 84);         /* offset */
    le_put32(out + 60, 0x20000000); /* virtual */
    le_put32(out + 64, address);    /* physical */
    le_put32(out + 68, 8);          /* in the file */
    le_put32(out + 72, 64);
    memcpy(out + 84, "segment!", 8);
    return 92;
}

static void images_come_as_hex_elf_or_bytes(void **state)
{
    (void)state;
    uint8_t elf[128];
    size_t n = make_elf(elf, 0x60001000);
    assert_int_equal(read_image(elf, n), 0);
    assert_int_equal(hex.runs[0].address, 0x60001000);
    assert_memory_equal(hex.runs[0].bytes, "segment!", 8);
    assert_int_equal(hex.start, 0x60002001);
    assert_int_equal(read_image("FCFB and so on", 14), 0);
    assert_int_equal(hex.runs[0].address, FLASHMAP_BASE);
    static const char text[] = ":020000046000"
                               "9A\n:0100100055"
                               "9A\n:00000001FF\n";
    assert_int_equal(read_image(text, strlen(text)), 0);
    assert_int_equal(hex.runs[0].address, 0x60000010);
    ihex_free(&hex);
}

static void images_outside_their_place_are_refused(void **state)
{
    (void)state;
    uint8_t elf[128];
    static uint8_t large[FLASHMAP_IMAGE_BYTES + 1];
    static const uint32_t bad[] = {0,
                                   0x20000000,
                                   0x5FFFFFFC,
                                   FLASHMAP_BASE + FLASHMAP_IMAGE_BYTES - 7,
                                   FLASHMAP_BASE + FLASHMAP_IDENTITY,
                                   FLASHMAP_BASE + FLASHMAP_FRAGMENTS};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = make_elf(elf, bad[i]);
        assert_int_equal(read_image(elf, n), STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "outside of the firmware's place"));
    }
    assert_int_equal(read_image(large, sizeof large), STATUS_INVALID_ARGUMENT);
    assert_int_equal(read_image("", 0), STATUS_INVALID_ARGUMENT);
    ihex_free(&hex);
}

static void former_page_is_left_out_and_a_long_firmware_is_not_cut(void **state)
{
    (void)state;
    static uint8_t all[FLASHMAP_PROVISION + PROVISION_BYTES];
    struct provision p = sample();
    struct ihex in = {0};
    char *text;
    size_t n;
    error_clear(&error);
    memset(all, 7, sizeof all);
    assert_int_equal(provision_encode(&p, all + FLASHMAP_PROVISION, NULL), 0);
    assert_int_equal(ihex_add(&in, FLASHMAP_BASE, all, sizeof all, &error), 0);
    assert_int_equal(ihex_format(&in, &text, &n, &error), 0);
    assert_int_equal(read_image(text, n), 0);
    assert_int_equal(ihex_bytes(&hex), FLASHMAP_PROVISION);
    assert_memory_equal(hex.runs[0].bytes, all, FLASHMAP_PROVISION);
    free(text);
    in.runs[0].bytes[FLASHMAP_PROVISION] ^= 1; /* not a page */
    assert_int_equal(ihex_format(&in, &text, &n, &error), 0);
    assert_int_equal(read_image(text, n), STATUS_INVALID_ARGUMENT);
    free(text);
    ihex_free(&in);
    ihex_free(&hex);
}

static void elf_files_that_lie_are_refused(void **state)
{
    (void)state;
    uint8_t elf[128];
    size_t n = make_elf(elf, 0x60000000);
    for (size_t cut = 0; cut < n; cut++) { /* cut short */
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, elf, cut);
        if (cut >= 4)
            assert_int_equal(read_image(exact, cut), STATUS_INVALID_ARGUMENT);
        free(exact);
    }
    struct prng prng = prng_seed(1);
    for (int round = 0; round < 20000; round++) {
        n = make_elf(elf, 0x60000000);
        for (int i = prng_range(&prng, 1, 3); i > 0; i--)
            elf[prng_range(&prng, 4, 83)] = prng_one_in(&prng, 2) ? 0xFF : (uint8_t)prng_next(&prng);
        (void)read_image(elf, n); /* whatever it says: no byte beyond the file is read */
    }
    ihex_free(&hex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_says_what_was_put_in),
        cmocka_unit_test(any_changed_bit_of_a_page_is_found),
        cmocka_unit_test(settings_that_cannot_work_are_refused),
        cmocka_unit_test(addresses_are_four_numbers),
        cmocka_unit_test(hex_files_say_bytes_at_addresses),
        cmocka_unit_test(hex_files_that_are_not_right_are_refused_by_line),
        cmocka_unit_test(hex_comes_back_as_it_was),
        cmocka_unit_test(cut_removes_what_lies_inside),
        cmocka_unit_test(hex_ends_at_the_last_address),
        cmocka_unit_test(images_come_as_hex_elf_or_bytes),
        cmocka_unit_test(images_outside_their_place_are_refused),
        cmocka_unit_test(former_page_is_left_out_and_a_long_firmware_is_not_cut),
        cmocka_unit_test(elf_files_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
