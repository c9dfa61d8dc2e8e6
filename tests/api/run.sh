#!/usr/bin/env bash
# `make run` twice over one folder: the first enrols three boards, deploys and answers; the second finds the same fleet
# and the same deployment and pushes no weights. What ends it ends every process, and kill -9 of everything leaves a
# folder that the next run takes up. What hinders it is named, with what to do.
# timeout: 180
. tests/support/lib.sh
export SHOAL_DATA=$work/data SHOAL_LISTEN=127.0.0.1:0 SHOAL_BOARD_LISTEN=127.0.0.1:0

up() { grep -q '^Shoal is at' "$work/run.out"; }
# Every file that holds a fragment, by content and time of writing.
fragments() { find "$work/data/boards" -type f -size +4k -printf '%P %s %T@\n' | sort; }
none_left() { ! grep -aqs "$work/[d]ata" /proc/[0-9]*/cmdline; }
come_up() { # WHICH
    rm -f "$work/run.out" # the last run's words
    start run setsid scripts/run
    if ! wait_for 90 up; then
        fail "${1}_run_comes_up" "$(cat "$work/run.out" "$work/run.log")"
        finish
    fi
    cp "$work/run.out" "$work/$1"
}
one_run() { # WHICH
    come_up "$1"
    stop run TERM
    check_equal "${1}_run_ends_with_0" "$EXIT" 0
    check "${1}_run_leaves_no_process" none_left
}

one_run first
check_match first_run_enrols_three_boards "$(cat "$work/first")" '3 boards are online \(3 new\)'
check_match first_run_reads_the_sample "$(cat "$work/first")" 'digit_7\.png as: 7 '
before=$(fragments)
check_equal first_run_leaves_a_fragment_on_each_board "$(cut -d/ -f1 <<<"$before" | sort -u | wc -l)" 3
one_run second
check_match second_run_finds_the_boards "$(cat "$work/second")" '3 boards are online \(0 new\)'
check_equal second_run_finds_the_deployment "$(grep ^deployment "$work/second")" "$(grep ^deployment "$work/first")"
check_equal second_run_pushes_no_weights "$(fragments)" "$before"

come_up killed
said=$(scripts/run 2>&1)
check_equal a_run_over_a_folder_in_use_is_refused "$?" 1
check_match it_says_what_holds_the_folder "$said" 'another process.*it serves http://127\.0\.0\.1:[0-9]+; to end it: kill [0-9]+'
taken=$(jq -r .url "$work/data/.serve.json")
said=$(SHOAL_DATA=$work/other SHOAL_LISTEN=${taken#http://} scripts/run 2>&1)
check_equal a_run_on_a_port_in_use_is_refused "$?" 1
check_match it_names_the_port_and_the_way_out "$said" "cannot listen on ${taken#http://}.*SHOAL_LISTEN="
{ kill -KILL -- "-${pids[run]}" && wait "${pids[run]}"; } 2>/dev/null
wait_for 10 none_left
one_run third
check_match a_killed_fleet_is_found_again "$(cat "$work/third")" '3 boards are online \(0 new\)'
check_equal a_killed_deployment_is_found_again "$(grep ^deployment "$work/third")" "$(grep ^deployment "$work/first")"
check_equal nothing_is_pushed_after_a_kill "$(fragments)" "$before"

# What a user deployed in its place is what the next run finds.
come_up other
url=$(jq -r .url "$work/data/.serve.json")
other=$(curl -sS "${url%/}/api/v1/deployments" -H 'Content-Type: application/json' \
    -d '{"model":"digits","replace":true,"tags":["mine"]}' | jq -r .id)
check_equal another_deployment_replaces_it "$(curl -sS "${url%/}/api/v1/deployments/$other?wait=60" | jq -r .state)" active
stop run TERM
one_run last
check_match the_next_run_finds_the_other_deployment "$(grep ^deployment "$work/last")" "^deployment $other is active"
finish
