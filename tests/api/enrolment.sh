#!/usr/bin/env bash
# Enrolment, acceptance and revocation of real boards, and what is said of those who are turned away.
. tests/support/lib.sh

code_of() { "$B/shoal" enrol --json --url "$URL" "$@" | jq -r .code; }
board() { curl -s "$URL/api/v1/boards/$1"; }
board_is() { [ "$(board "$1" | jq -r "$2")" = "$3" ]; }
attempts() { curl -s "$URL/api/v1/enrolments/attempts" | jq -r ".items[] | \"\(.code): \(.reason) | \(.action)\""; }
attempted() { attempts | grep -q "^$1:"; }
# raw_board NAME CODE: starts a board with this very code
raw_board() { start "$1" "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/$1" --name "$1" ${2:+--code "$2"}; }

start_server || finish
once=$(code_of)
raw_board waiting "$once"
check board_waits_for_acceptance wait_for 20 board_is waiting .state pending
api_json POST /api/v1/plans '{"model":"nothing"}'
check_equal unknown_model_is_404 "$STATUS" 404
api POST "/api/v1/boards/waiting/accept"
check_match accept_is_taken "$STATUS" '^20'
check accepted_board_is_online wait_for 20 board_is waiting '.state + " " + .link' "accepted online"

raw_board second "$once"
check used_code_is_refused wait_for 20 attempted code_used
stop second
check_equal a_board_turned_away_once_is_recorded_once "$(attempts | grep -c '^code_used:')" 1
check_match refusal_says_what_to_do "$(attempts)" 'shoal enrol'
raw_board third "AAAAAA-AAAAAA-AAAAAA-AAAAAA-AAAAAA-AAAAAA-AAAAAA"
sleep 1
check_match foreign_code_is_refused_by_the_board "$(cat "$work/third.log")" '[Cc]ode|authority|server'
stop third
short=$(code_of --ttl-s 1)
sleep 2
raw_board fourth "$short"
check expired_code_is_refused wait_for 20 attempted code_expired
stop fourth

named=$(code_of --accept --name-prefix lab-)
raw_board fifth "$named"
check prefix_and_acceptance_come_with_the_code wait_for 20 board_is lab-fifth '.state + " " + .link' "accepted online"

api POST /api/v1/boards/lab-fifth/revoke
check_match revoke_is_taken "$STATUS" '^20'
gone() { board_is lab-fifth .link offline; }
check revoked_board_is_dropped_within_a_second wait_for 2 gone
check revoked_board_is_turned_away wait_for 20 attempted certificate_revoked
check_equal revoked_board_stays_revoked "$(board lab-fifth | jq -r .state)" revoked

kill -STOP "${pids[waiting]}"
check silent_board_is_stale_after_5_s wait_for 9 board_is waiting .link stale
check silent_board_is_offline_after_15_s wait_for 16 board_is waiting .link offline
kill -CONT "${pids[waiting]}"
check board_comes_back_by_itself wait_for 40 board_is waiting .link online

api_json PATCH /api/v1/boards/waiting '{"name":"<b>kitchen</b>","location":"shelf","tags":["a"]}'
check_match board_is_renamed "$STATUS" '^20'
check_equal markup_is_kept_as_text "$(curl -s "$URL/api/v1/boards" | jq -r '.items[].name' | grep -c '^<b>kitchen</b>$')" 1
api_json PATCH "/api/v1/boards/%3Cb%3Ekitchen%3C%2Fb%3E" '{}'
check_equal slash_in_a_name_is_refused_in_a_path "$STATUS" 400
api_json PATCH /api/v1/boards/lab-fifth '{"colour":"red"}'
check_equal unknown_key_is_refused "$STATUS" 400

# A port for boards on every address of the machine: the command for the board cannot name it, and says so.
start any "$B/shoal" serve --data "$work/any" --listen 127.0.0.1:0 --board-listen 0.0.0.0:0 --json
check server_for_the_network_starts wait_for 20 test -s "$work/any.out"
said=$("$B/shoal" enrol --json --url "$(jq -r .url "$work/any.out")" 2>&1)
check_match code_for_the_network_says_what_to_fill_in "$said" 'address on the network.*--server THIS_MACHINE:[1-9][0-9]*'
finish
