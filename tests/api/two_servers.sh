#!/usr/bin/env bash
# A board that knows two addresses of its server: it tries them in turn, and moves when the server has moved.
. tests/support/lib.sh

start_server || finish
first=$BOARD_ADDRESS
enrol_code
stop server
BOARD_ADDRESS=
start_server || finish
second=$BOARD_ADDRESS
[ "$first" != "$second" ] || { skip two_servers "the same port twice"; finish; }

start mover "$B/shoal-board" --server "$first" --server "$second" --state "$work/mover" --name mover --code "$CODE"
check board_enrols_at_the_second_address wait_for 20 boards_online 1
check_match dead_address_was_tried_first "$(cat "$work/mover.log")" "not enrolled.*$first|no link.*$first|not enrolled: $first"

stop server
BOARD_ADDRESS=$first
start_server || finish
check board_moves_to_the_first_address wait_for 40 boards_online 1
check_equal it_is_the_same_board "$(curl -s "$URL/api/v1/boards" | jq '.items | length')" 1
stop server
BOARD_ADDRESS=$second
start_server || finish
check board_moves_back wait_for 40 boards_online 1
check board_still_runs running mover
finish
