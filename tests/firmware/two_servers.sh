#!/usr/bin/env bash
# A provisioning page with two addresses: a board (the Cortex-M boards' session code as a process) enrols at the one that
# answers, and moves when the server has moved.
# long: it builds the stack once more, under the sanitizers
# timeout: 150
. tests/support/emulated.sh

start_server || finish
first=${BOARD_ADDRESS##*:}
enrol_code
stop server
BOARD_ADDRESS=
start_server || finish
second=${BOARD_ADDRESS##*:}
[ "$first" != "$second" ] || { skip two_servers "the same port twice"; finish; }
check page_is_written "$B/emulated_flash" "$work/mover.flash" mover "10.0.2.2:$first" "$CODE" "10.0.2.2:$second"
build/firmware/slirp-board "$work/mover.flash" >>"$work/mover.out" 2>>"$work/mover.log" </dev/null &
pids[mover]=$!
check it_enrols_at_the_second_address wait_for 40 boards_online 1
check the_first_was_tried said mover "not enrolled: .*offline"
stop server
BOARD_ADDRESS=127.0.0.1:$first
start_server || finish
check it_moves_to_the_first_address wait_for 60 boards_online 1
check_equal it_is_the_same_board "$(curl -s "$URL/api/v1/boards" | jq '.items | length')" 1
stop mover
check_equal it_ends_cleanly_and_the_sanitizers_found_nothing \
    "$EXIT $(grep -c 'runtime error\|ERROR: ' "$work/mover.log")" "0 0"
finish
