#!/usr/bin/env bash
# `make run` twice over one folder: the first enrols three boards, deploys and answers; the second finds the same fleet
# and the same deployment and pushes no weights. What ends it ends every process.
# timeout: 180
. tests/support/lib.sh
export SHOAL_DATA=$work/data SHOAL_LISTEN=127.0.0.1:0 SHOAL_BOARD_LISTEN=127.0.0.1:0

up() { grep -q '^Shoal is at' "$work/run.out"; }
# Every file that holds a fragment, by content and time of writing.
fragments() { find "$work/data/boards" -type f -size +4k -printf '%P %s %T@\n' | sort; }
none_left() { ! grep -aqs "$work/[d]ata" /proc/[0-9]*/cmdline; }
one_run() { # WHICH
    start run scripts/run
    if ! wait_for 90 up; then
        fail "${1}_run_comes_up" "$(cat "$work/run.out" "$work/run.log")"
        finish
    fi
    cp "$work/run.out" "$work/$1"
    stop run TERM
    check_equal "${1}_run_ends_with_0" "$EXIT" 0
    check "${1}_run_leaves_no_process" none_left
}

one_run first
check_match first_run_enrols_three_boards "$(cat "$work/first")" '3 boards are online \(3 new\)'
check_match first_run_answers_like_the_reference "$(cat "$work/first")" "equal to the reference executor's"
before=$(fragments)
check_equal first_run_leaves_a_fragment_on_each_board "$(cut -d/ -f1 <<<"$before" | sort -u | wc -l)" 3
one_run second
check_match second_run_finds_the_boards "$(cat "$work/second")" '3 boards are online \(0 new\)'
check_equal second_run_finds_the_deployment "$(grep ^deployment "$work/second")" "$(grep ^deployment "$work/first")"
check_equal second_run_pushes_no_weights "$(fragments)" "$before"
finish
