/* Echo probes in virtual time: the fitted line is the link's, also with outliers, and equation 5 follows from
 * it. */
#include "server/fleet/probe.h"
#include "server/plan/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* A link: each message takes `latency_us`, each KB `kb_us`; every seventh probe is disturbed. */
static struct probe_result run(double latency_us, double kb_us, uint64_t disturbance_us)
{
    static struct probe probe;
    struct wire_header header, echo = {.type = WIRE_ECHO};
    static uint8_t payload[WIRE_PAYLOAD_MAX];
    uint64_t now = 1000;
    probe_start(&probe);
    for (uint16_t number = 0;; number++) {
        uint32_t bytes = 0;
        int n;
        while ((n = probe_next_frame(&probe, now, &header, payload)) >= 0) {
            assert_int_equal(header.offset, bytes);
            assert_int_equal(header.transfer, number);
            bytes += (uint32_t)n;
            assert_int_equal(header.flags, bytes == probe_bytes(number) ? WIRE_FLAG_LAST : 0);
        }
        assert_int_equal(bytes, probe_bytes(number));
        now += (uint64_t)(latency_us + kb_us * bytes / 1024) + (number % 7 == 3 ? disturbance_us : 0);
        echo.transfer = number;
        echo.offset = bytes;
        if (probe_on_echo(&probe, &echo, now))
            break;
        assert_true(number < PROBE_TOTAL);
    }
    assert_int_equal(probe_next_frame(&probe, now, &header, payload), -1);
    return probe_result(&probe);
}

static void assert_near(double got, double want, double part)
{
    if (fabs(got - want) > part * fabs(want))
        fail_msg("got %g, wanted %g", got, want);
}

static void line_is_the_links_also_with_outliers(void **state)
{
    (void)state;
    struct probe_result result = run(700, 90, 50000);
    assert_near(result.latency_s, 700e-6, 0.01);
    assert_near(result.bandwidth_kb_per_s, 1e6 / 90, 0.01);
    assert_near(result.delay_s_per_kb, 700e-6 / 4, 0.01);
}

/* A board with a delay of 20 ms a message: the rating is what equation 5 says of d = 20 ms / 4 KB. */
static void injected_delay_gives_the_rating_of_equation_5(void **state)
{
    (void)state;
    struct probe_result result = run(20000 + 300, 95, 0);
    double f = 600, k1 = 0.15, kc = 1, d = 0.0203 / 4, b = 1e6 / 95;
    double want = f * k1 / ((d + 1 / b) * f * k1 * kc + 1);
    assert_near(plan_rating(f, k1, result.delay_s_per_kb, result.bandwidth_kb_per_s, kc), want, 0.01);
}

static void stale_echo_is_ignored(void **state)
{
    (void)state;
    static struct probe probe;
    struct wire_header header, echo = {.type = WIRE_ECHO, .transfer = 5};
    static uint8_t payload[WIRE_PAYLOAD_MAX];
    probe_start(&probe);
    echo.transfer = 0;
    assert_false(probe_on_echo(&probe, &echo, 1)); /* nothing was sent yet */
    assert_int_equal(probe.number, 0);
    assert_true(probe_next_frame(&probe, 2, &header, payload) > 0);
    echo.transfer = 3;
    assert_false(probe_on_echo(&probe, &echo, 3));
    assert_int_equal(probe.number, 0);
    echo.transfer = 0;
    assert_false(probe_on_echo(&probe, &echo, 4));
    assert_int_equal(probe.number, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_is_the_links_also_with_outliers),
        cmocka_unit_test(injected_delay_gives_the_rating_of_equation_5),
        cmocka_unit_test(stale_echo_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
