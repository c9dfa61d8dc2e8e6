/*
 * shoal-board as a process of its own against real links: enrolment, state lines, restarts of either side by
 * kill -9, refusals with the message read, delay, and the rating that equation 5 gives.
 *
 * alone: the last test measures delays
 */
#include "server/base/clock.h"
#include "server/plan/plan.h"
#include "tests/support/board_process.h"
#include "tests/support/fake_fleet.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set(struct server *s, int *field, int value)
{
    pthread_mutex_lock(&s->lock);
    *field = value;
    pthread_mutex_unlock(&s->lock);
}

static void board_enrols_says_what_it_has_and_ends_cleanly(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    server_start(&s, NULL);
    board_process_prepare(&b, links_address(s.links), "first");
    board_process_argument(&b, "--code", s.text);
    board_process_argument(&b, "--name", "attic");
    board_process_argument(&b, "--ram", "100K");
    board_process_argument(&b, "--flash", "1M");
    board_process_argument(&b, "--clock", "528");
    board_process_begin(&b);
    server_await(&s, &s.hellos, 1);
    board_process_await(&b, "enrolled as board", 1);
    board_process_await(&b, "online as attic, accepted", 1);
    assert_string_equal("attic", s.hello.name);
    assert_int_equal(WIRE_KIND_HOST, s.hello.kind);
    assert_int_equal(528000000, s.hello.clock_hz);
    assert_int_equal(1 << 20, s.hello.flash_bytes);
    assert_string_equal("arena", s.hello.regions[0].name);
    assert_int_equal(102400, s.hello.regions[0].bytes);
    server_await(&s, &s.beats, 2);
    assert_true(s.beat.stack_high_water > 4096 && s.beat.stack_high_water < 1 << 20);
    board_process_stop(&b);
    server_await(&s, &s.downs, 1);
    assert_string_equal("closed by the board", s.down_reason);
    server_stop(&s);
}

static void pending_board_stays_and_says_so(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    server_start(&s, NULL);
    s.state = WIRE_STATE_PENDING;
    board_process_prepare(&b, links_address(s.links), "pending");
    board_process_argument(&b, "--code", s.text);
    board_process_begin(&b);
    board_process_await(&b, "pending: accept it on the server", 1);
    server_await(&s, &s.beats, 1);
    board_process_stop(&b);
    server_stop(&s);
}

static void killed_board_comes_back_as_itself_without_the_code(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    char board[CA_ID_BYTES];
    server_start(&s, NULL);
    board_process_prepare(&b, links_address(s.links), "killed");
    board_process_argument(&b, "--code", s.text);
    board_process_begin(&b);
    server_await(&s, &s.ups, 1);
    strcpy(board, s.up_board);
    for (int i = 2; i <= 4; i++) {
        board_process_kill(&b);
        board_process_begin(&b);
        server_await(&s, &s.ups, i);
        assert_string_equal(board, s.up_board);
    }
    assert_int_equal(1, s.enrolments);
    board_process_stop(&b);
    server_stop(&s);
}

/* Killed at random instants from its start on: key, certificate and lock are never left in a state that keeps
 * it from coming up. */
static void board_killed_while_it_enrols_comes_up_in_the_end(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    uint32_t x = 7;
    server_start(&s, NULL);
    for (int round = 0; round < 4; round++) {
        char name[24];
        snprintf(name, sizeof name, "enrol%d", round);
        board_process_prepare(&b, links_address(s.links), name);
        board_process_argument(&b, "--code", s.text);
        for (int i = 0; i < 6; i++) {
            board_process_begin(&b);
            x = x * 1664525u + 1013904223u;
            usleep((x >> 16) % 60000);
            board_process_kill(&b);
        }
        pthread_mutex_lock(&s.lock);
        int ups = s.ups;
        pthread_mutex_unlock(&s.lock);
        board_process_begin(&b);
        server_await(&s, &s.ups, ups + 1);
        board_process_stop(&b);
    }
    server_stop(&s);
}

static void board_finds_a_server_that_was_away(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    server_start(&s, NULL);
    board_process_prepare(&b, links_address(s.links), "away");
    board_process_argument(&b, "--code", s.text);
    board_process_begin(&b);
    server_await(&s, &s.ups, 1);
    server_restart(&s);
    server_await(&s, &s.ups, 2);
    board_process_await(&b, "the link is gone", 1);
    board_process_await(&b, "online as", 2);
    board_process_stop(&b);
    server_stop(&s);
}

static void revoked_board_says_why_and_comes_back_when_it_may(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    server_start(&s, NULL);
    board_process_prepare(&b, links_address(s.links), "revoked");
    board_process_argument(&b, "--code", s.text);
    board_process_begin(&b);
    server_await(&s, &s.ups, 1);
    set(&s, &s.admit, STATUS_CERTIFICATE_REVOKED);
    assert_int_equal(0, links_drop_board(s.links, s.up_board, STATUS_CERTIFICATE_REVOKED, "revoked"));
    board_process_await(&b, "is revoked (certificate_revoked)", 1);
    assert_int_equal(1, s.ups);
    set(&s, &s.admit, 0);
    server_await(&s, &s.ups, 2);
    board_process_stop(&b);
    server_stop(&s);
}

static void expired_board_enrols_anew_with_a_code_and_only_then(void **state)
{
    (void)state;
    struct server s;
    struct board_process b;
    server_start(&s, NULL);
    set(&s, &s.days, -1);
    board_process_prepare(&b, links_address(s.links), "expired");
    board_process_argument(&b, "--code", s.text);
    board_process_begin(&b);
    board_process_await(&b, "(certificate_expired)", 1);
    set(&s, &s.days, CA_BOARD_DAYS);
    board_process_kill(&b);
    assert_int_equal(0, s.ups);
    b.argc -= 2; /* without the code: waits, refused again and again */
    char *code = b.argv[b.argc], *value = b.argv[b.argc + 1];
    b.argv[b.argc] = NULL;
    board_process_begin(&b);
    server_await_failure(&s, STATUS_CERTIFICATE_EXPIRED, "expired at");
    poll(NULL, 0, 300);
    assert_int_equal(0, s.ups);
    board_process_kill(&b);
    b.argv[b.argc++] = code;
    b.argv[b.argc++] = value;
    board_process_begin(&b);
    server_await(&s, &s.ups, 1);
    board_process_stop(&b);
    server_stop(&s);
}

static void refusals_at_the_start_end_with_a_reason(void **state)
{
    (void)state;
    struct server s, other;
    struct board_process b;
    struct enrol_code code;
    char text[ENROL_CODE_BYTES];
    server_start(&s, NULL);
    server_start(&other, NULL);
    enrol_code_make(ca_key_hash(s.ca), &code);
    enrol_code_format(&code, text);
    board_process_prepare(&b, links_address(s.links), "wrong"); /* a code that nobody gave out */
    board_process_argument(&b, "--code", text);
    board_process_begin(&b);
    assert_int_equal(1, board_process_end(&b));
    assert_int_equal(1, board_process_said(&b, "not enrolled: the code is not known (code_wrong)"));
    board_process_discard(&b);
    board_process_prepare(&b, links_address(s.links), "foreign"); /* a code of another server */
    board_process_argument(&b, "--code", other.text);
    board_process_begin(&b);
    assert_int_equal(1, board_process_end(&b));
    assert_int_equal(1, board_process_said(&b, "the code was not made by this server"));
    board_process_discard(&b);
    board_process_prepare(&b, links_address(s.links), "none"); /* no code */
    board_process_begin(&b);
    assert_int_equal(1, board_process_end(&b));
    assert_int_equal(1, board_process_said(&b, "no certificate: make a code with `shoal enrol`"));
    board_process_argument(&b, "--ram", "much");
    board_process_begin(&b);
    assert_int_equal(2, board_process_end(&b));
    assert_int_equal(1, board_process_said(&b, "--ram takes a number"));
    board_process_discard(&b);
    server_stop(&other);
    server_stop(&s);
}

static void two_processes_do_not_share_a_state_folder(void **state)
{
    (void)state;
    struct server s;
    struct board_process b, second;
    server_start(&s, NULL);
    board_process_prepare(&b, links_address(s.links), "shared");
    board_process_argument(&b, "--code", s.text);
    board_process_begin(&b);
    server_await(&s, &s.ups, 1);
    second = b;
    snprintf(second.errors, sizeof second.errors, "%s/second.log", board_process_folder());
    board_process_begin(&second);
    assert_int_equal(1, board_process_end(&second));
    assert_int_equal(1, board_process_said(&second, "another process uses the state folder"));
    board_process_stop(&b);
    server_stop(&s);
}

static struct probe_result measure(const char *name, const char *delay)
{
    struct server s;
    struct board_process b;
    server_start(&s, NULL);
    board_process_prepare(&b, links_address(s.links), name);
    board_process_argument(&b, "--code", s.text);
    board_process_argument(&b, "--delay-ms", delay);
    board_process_begin(&b);
    server_await(&s, &s.hellos, 1);
    struct probe_result result = server_probe(&s);
    board_process_stop(&b);
    server_stop(&s);
    return result;
}

/* Equation 5 with the delay that was injected (a message of 4 KB is late by it once) and the bandwidth as
 * measured. On a busy machine the medians are late by more than the delay; so there are a few attempts. */
static bool rating_is_as_predicted(int attempt, int delay_ms)
{
    char text[8], name[24];
    snprintf(text, sizeof text, "%d", delay_ms);
    snprintf(name, sizeof name, "delay%d-%d", delay_ms, attempt);
    struct probe_result r = measure(name, text);
    double want = plan_rating(600, 0.15, delay_ms * 1e-3 / 4, r.bandwidth_kb_per_s, 1);
    double got = plan_rating(600, 0.15, r.delay_s_per_kb, r.bandwidth_kb_per_s, 1);
    print_message("delay %d ms: measured %.3f ms, %.0f KB/s, rating %.3f, expected %.3f\n", delay_ms,
                  r.latency_s * 1e3, r.bandwidth_kb_per_s, got, want);
    return got > want * 0.9 && got < want * 1.1;
}

static void injected_delay_gives_the_rating_of_equation_5(void **state)
{
    (void)state;
    static const int delays_ms[] = {20, 60};
    for (size_t i = 0; i < sizeof delays_ms / sizeof delays_ms[0]; i++) {
        bool good = false;
        for (int attempt = 0; attempt < 8 && !good; attempt++) {
            good = rating_is_as_predicted(attempt, delays_ms[i]);
        }
        assert_true(good);
    }
}

int main(void)
{
    if (board_process_root("shoal-board") != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(board_enrols_says_what_it_has_and_ends_cleanly),
        cmocka_unit_test(pending_board_stays_and_says_so),
        cmocka_unit_test(killed_board_comes_back_as_itself_without_the_code),
        cmocka_unit_test(board_killed_while_it_enrols_comes_up_in_the_end),
        cmocka_unit_test(board_finds_a_server_that_was_away),
        cmocka_unit_test(revoked_board_says_why_and_comes_back_when_it_may),
        cmocka_unit_test(expired_board_enrols_anew_with_a_code_and_only_then),
        cmocka_unit_test(refusals_at_the_start_end_with_a_reason),
        cmocka_unit_test(two_processes_do_not_share_a_state_folder),
        cmocka_unit_test(injected_delay_gives_the_rating_of_equation_5),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    board_process_root_remove();
    return failed;
}
