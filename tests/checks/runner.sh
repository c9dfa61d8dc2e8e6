#!/usr/bin/env bash
# The test runner itself: what it counts, and that nothing that went wrong is lost.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check NAME STATUS EXPECTED-COUNTS OUTPUT
check() {
    printf '%b' "$4" >"$work/log"
    got=$(tests/run --count "$work/log" "$2" | head -n 1)
    skips=$(tests/run --count "$work/log" "$2" | grep -c '^S')
    if [ "$got $skips" = "$3" ]; then
        echo "ok - $1"
    else
        echo "got '$got $skips', expected '$3'"
        echo "not ok - $1"
        failed=1
    fi
}

check runner_counts_passed_and_failed 1 "2 1 0" 'ok 1 - a\nnot ok 2 - b\nok 3 - c\n'
check runner_counts_a_skip_once_and_not_as_passed 0 "1 0 1" 'ok 1 - a\nSKIP b: no facts\nok 2 - b\n'
check runner_counts_a_skip_of_cmocka_as_no_failure 0 "1 0 1" 'ok 1 - a\nnot ok 2 # SKIP b\n'
check runner_counts_a_crash_after_passed_tests_as_failed 139 "1 1 0" 'ok 1 - a\n'
check runner_counts_a_time_limit_as_failed 124 "1 1 0" 'ok 1 - a\n'
check runner_counts_missing_results_of_a_plan_as_failed 0 "1 1 0" '1..3\nok 1 - a\n'
check runner_counts_a_silent_script_by_its_status 0 "1 0 0" 'hello\n'
check runner_counts_a_silent_script_that_fails 3 "0 1 0" 'hello\n'
exit $failed
