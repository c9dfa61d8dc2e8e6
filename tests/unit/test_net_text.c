/* The firmware's own formatting: what the console and the crash record say. */
#include "firmware/net/say.h"
#include "firmware/port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "firmware/net/say.c" /* it belongs to the images, not to libshoal */

static char console[256];
static uint64_t now_us;

uint64_t port_now_us(void)
{
    return now_us;
}

void port_console(const char *text, uint32_t n)
{
    memcpy(console, text, n);
    console[n] = 0;
}

static void numbers_and_texts_read_as_with_printf(void **state)
{
    char ours[64], theirs[64];
    (void)state;
#define SAME(...)                                           \
    do {                                                    \
        text_format(ours, sizeof ours, __VA_ARGS__);        \
        (void)snprintf(theirs, sizeof theirs, __VA_ARGS__); \
        assert_string_equal(ours, theirs);                  \
    } while (0)
    SAME("%s|%c|%%", "text", 'x');
    SAME("%d %d %d %d", 0, -1, INT32_MAX, INT32_MIN);
    SAME("%u %u", 0u, UINT32_MAX);
    SAME("%x %08x %8x %02x", 0xabcu, 0xabcu, 0xabcu, 0x1234u);
    SAME("[%5u.%03u]", 12u, 7u);
    SAME("%4d|%4d|%4d", -5, 5, -12345);
    SAME("%04d|%04d|%01d", -5, 5, -12345);
#undef SAME
}

static void what_does_not_fit_is_cut_and_ends(void **state)
{
    char small[8];
    (void)state;
    memset(small, 'z', sizeof small);
    assert_int_equal(text_format(small, 5, "%s %u", "abc", 12345u), 4);
    assert_string_equal(small, "abc ");
    assert_int_equal(small[5], 'z');
    assert_int_equal(text_format(small, 0, "x"), 0);
    assert_int_equal(small[0], 'a');
}

static void a_line_has_the_time_and_one_end_however_long(void **state)
{
    char text[400];
    (void)state;
    now_us = 61234567;
    say("up %u", 3u);
    assert_string_equal(console, "[   61.234] up 3\r\n");
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    say("%s", text);
    assert_true(strlen(console) <= LINE);
    assert_string_equal(console + strlen(console) - 3, "a\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_texts_read_as_with_printf),
        cmocka_unit_test(what_does_not_fit_is_cut_and_ends),
        cmocka_unit_test(a_line_has_the_time_and_one_end_however_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
