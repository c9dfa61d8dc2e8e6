/* Small pure parts of the board: what the LED shows, which server is tried next. */
#include "firmware/core/led.h"
#include "firmware/core/reconnect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- LED ---- */

/* Times that it goes on, and milliseconds lit, within `ms` from the start. */
static uint32_t flashes(enum led state, uint32_t ms, uint32_t *lit)
{
    uint32_t n = 0;
    bool was = false;
    *lit = 0;
    for (uint32_t at = 0; at < ms; at++) {
        bool is = led_lit(state, at);
        n += is && !was;
        *lit += is;
        was = is;
    }
    return n;
}

static void led_states_look_different(void **state)
{
    (void)state;
    uint32_t n[LED_STATES], lit[LED_STATES];
    for (int s = 0; s < LED_STATES; s++)
        n[s] = flashes((enum led)s, 2000, &lit[s]);
    assert_int_equal(lit[LED_STARTING], 2000);
    assert_int_equal(n[LED_NO_NETWORK], 1);
    assert_int_equal(n[LED_NO_SERVER], 2);
    assert_int_equal(n[LED_NOT_ENROLLED], 3);
    assert_int_equal(n[LED_FAULT], 4);
    assert_int_equal(n[LED_ONLINE], 1);
    assert_in_range(lit[LED_ONLINE], 1, lit[LED_NO_NETWORK] / 2); /* a blink, not a flash */
    assert_int_equal(n[LED_RUNNING], 10);
    assert_int_equal(n[LED_IDENTIFY], 10);
    assert_in_range(lit[LED_IDENTIFY], 1, 600);
}

/* Groups can be counted: the pause after them is longer than any gap within. */
static void led_groups_end_in_a_pause(void **state)
{
    (void)state;
    static const enum led groups[] = {LED_NO_NETWORK, LED_NO_SERVER, LED_NOT_ENROLLED, LED_FAULT};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        uint32_t longest = 0, dark = 0;
        for (uint32_t ms = 0; ms < 6000; ms++) {
            dark = led_lit(groups[i], ms) ? 0 : dark + 1;
            longest = dark > longest ? dark : longest;
        }
        assert_true(longest >= 1000);
    }
}

static void led_changes_only_when_it_says(void **state)
{
    (void)state;
    for (int s = 0; s < LED_STATES; s++) {
        assert_true(strlen(led_text((enum led)s)) > 0);
        for (uint32_t ms = 0; ms < 5000;) {
            uint32_t next = led_next_ms((enum led)s, ms);
            assert_true(next > 0);
            for (uint32_t i = 1; i < next && i < 5000; i++)
                assert_int_equal(led_lit((enum led)s, ms + i), led_lit((enum led)s, ms));
            ms = next > 5000 ? 5000 : ms + next;
        }
        (void)led_lit((enum led)s, UINT32_MAX);
    }
}

/* ---- which server ---- */

static void one_server_is_tried_again_with_growing_pauses(void **state)
{
    (void)state;
    struct reconnect r;
    uint64_t sum = 0;
    reconnect_init(&r, 1, 5);
    for (uint32_t i = 0, expected = RECONNECT_MIN_MS; i < 12; i++) {
        uint32_t ms = reconnect_failed(&r);
        assert_int_equal(r.server, 0);
        assert_in_range(ms, expected / 2, expected + expected / 2);
        assert_true(ms <= RECONNECT_MAX_MS);
        expected = expected >= RECONNECT_MAX_MS / 2 ? RECONNECT_MAX_MS : expected * 2;
        sum += ms;
    }
    assert_true(sum > 30000);
    reconnect_welcomed(&r);
    assert_in_range(reconnect_failed(&r), RECONNECT_MIN_MS / 2, 3 * RECONNECT_MIN_MS / 2);
}

static void two_servers_are_tried_in_turn_and_the_pause_is_after_both(void **state)
{
    (void)state;
    struct reconnect r;
    reconnect_init(&r, 2, 9);
    for (int round = 0; round < 5; round++) {
        assert_int_equal(r.server, 0);
        assert_int_equal(reconnect_failed(&r), 0); /* the other at once */
        assert_int_equal(r.server, 1);
        assert_true(reconnect_failed(&r) >= RECONNECT_MIN_MS / 2);
    }
}

static void lost_session_comes_back_to_its_server_first(void **state)
{
    (void)state;
    struct reconnect r;
    reconnect_init(&r, 2, 9);
    (void)reconnect_failed(&r);
    assert_int_equal(r.server, 1);
    reconnect_welcomed(&r);
    assert_in_range(reconnect_failed(&r), RECONNECT_MIN_MS / 2, 3 * RECONNECT_MIN_MS / 2);
    assert_int_equal(r.server, 1);
    assert_int_equal(reconnect_failed(&r), 0);
    assert_int_equal(r.server, 0);
    assert_true(reconnect_failed(&r) > 0);
    assert_int_equal(r.server, 1);
}

static void boards_do_not_knock_all_at_once(void **state)
{
    (void)state;
    uint32_t first[32], same = 0;
    for (uint32_t i = 0; i < 32; i++) {
        struct reconnect r;
        reconnect_init(&r, 1, i * 2654435761u);
        (void)reconnect_failed(&r);
        (void)reconnect_failed(&r);
        first[i] = reconnect_failed(&r);
        for (uint32_t j = 0; j < i; j++)
            same += first[i] == first[j];
    }
    assert_in_range(same, 0, 5);
    struct reconnect zero;
    reconnect_init(&zero, 0, 0); /* no more than a server that is not there */
    (void)reconnect_failed(&zero);
    assert_int_equal(zero.server, 0);
}

static void code_is_spent_when_every_server_has_refused_it(void **state)
{
    (void)state;
    struct reconnect r;
    reconnect_init(&r, 2, 1);
    assert_false(reconnect_code_refused(&r));
    assert_false(reconnect_code_refused(&r)); /* the same again */
    (void)reconnect_failed(&r);
    assert_true(reconnect_code_refused(&r));
    reconnect_init(&r, 1, 1);
    assert_true(reconnect_code_refused(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(led_states_look_different),
        cmocka_unit_test(led_groups_end_in_a_pause),
        cmocka_unit_test(led_changes_only_when_it_says),
        cmocka_unit_test(one_server_is_tried_again_with_growing_pauses),
        cmocka_unit_test(two_servers_are_tried_in_turn_and_the_pause_is_after_both),
        cmocka_unit_test(lost_session_comes_back_to_its_server_first),
        cmocka_unit_test(code_is_spent_when_every_server_has_refused_it),
        cmocka_unit_test(boards_do_not_knock_all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
