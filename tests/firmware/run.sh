#!/usr/bin/env bash
# `make run BOARDS=qemu` twice over one folder: three emulated boards enrol, hold the digit reader and read the sample; the
# second run finds the same boards with what their flash files hold, and pushes nothing.
# long: the short test deploys the same model
# timeout: 170
. tests/support/lib.sh
export SHOAL_DATA=$work/data SHOAL_LISTEN=127.0.0.1:0 SHOAL_BOARD_LISTEN=127.0.0.1:0 BOARDS=qemu
up() { grep -q '^Shoal is at' "$work/run.out"; }
none_left() { ! grep -aqs "$work/[d]ata" /proc/[0-9]*/cmdline; }
one_run() { # WHICH
    rm -f "$work/run.out"
    start run setsid scripts/run
    if ! wait_for 70 up; then
        fail "${1}_run_comes_up" "$(cat "$work/run.out" "$work/run.log")"
        finish
    fi
    cp "$work/run.out" "$work/$1"
    stop run TERM
    check_equal "${1}_run_ends_with_0" "$EXIT" 0
    check "${1}_run_leaves_no_process" wait_for 5 none_left
}
pushes() { grep -c 'is pushing' "$work/data/log/server.log"; }
one_run first
check_match first_run_enrols_three_boards "$(cat "$work/first")" '3 boards are online \(3 new\)'
check_match first_run_reads_the_sample "$(cat "$work/first")" 'digit_7\.png as: 7 '
before=$(pushes)
one_run second
check_match second_run_finds_the_boards "$(cat "$work/second")" '3 boards are online \(0 new\)'
check_match second_run_reads_the_sample "$(cat "$work/second")" 'digit_7\.png as: 7 '
check_equal second_run_pushes_nothing "$(pushes)" "$before"
finish
