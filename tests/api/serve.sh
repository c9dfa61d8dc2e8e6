#!/usr/bin/env bash
# `shoal serve` itself: configuration file, addresses, one server a folder, signals, file modes.
. tests/support/lib.sh
serve() { timeout 20 "$B/shoal" serve "$@" >"$work/out" 2>"$work/err"; }
refused() { # NAME EXIT REGEX ARGUMENTS
    local name=$1 want=$2 regex=$3
    shift 3
    serve "$@"
    check_match "$name" "$? $(cat "$work/err")" "^$want .*$regex"
}
refused data_is_needed 2 'data is missing' --listen 127.0.0.1:0
refused only_loopback_is_listened_on 1 'loopback address' --data "$work/x" --listen 0.0.0.0:0 --board-listen 127.0.0.1:0
refused an_address_has_a_port 1 'ADDRESS:PORT' --data "$work/x" --listen 127.0.0.1 --board-listen 127.0.0.1:0
refused a_bad_board_address_is_named 1 'nowhere' --data "$work/x" --listen 127.0.0.1:0 --board-listen nowhere
refused an_unknown_option_is_named 2 'no option --lisen' --data "$work/x" --lisen 127.0.0.1:0
printf '{"data":"%s","colour":"red"}' "$work/x" >"$work/bad.json"
refused an_unknown_key_is_named 1 "'colour' is not known" --config "$work/bad.json"
printf '{"data":1}' >"$work/bad.json"
refused a_wrong_type_is_named 1 "'data' is a text" --config "$work/bad.json"
printf '{"data":' >"$work/bad.json"
refused a_broken_file_is_named 1 'bad.json: line 1' --config "$work/bad.json"
refused a_missing_file_is_named 1 'none.json' --config "$work/none.json"

printf '{"data":"%s","listen":"127.0.0.1:0","board-listen":"127.0.0.1:0"}' "$work/data" >"$work/config.json"
start server "$B/shoal" serve --config "$work/config.json" --json
check configuration_file_is_enough wait_for 20 test -s "$work/server.out"
check_equal one_document_is_printed "$(jq -c keys "$work/server.out")" '["board_address","url"]'
URL=$(jq -r .url "$work/server.out")
api GET /v2/health/ready
check_equal it_is_ready_when_it_says_so "$STATUS" 200
check_equal folder_is_the_owners "$(stat -c %a "$work/data")" 700
check_equal files_are_the_owners "$(find "$work/data" -type f ! -perm 600 | wc -l)" 0
refused a_second_server_may_not_have_the_folder 1 'another process is using' --data "$work/data" --listen 127.0.0.1:0 --board-listen 127.0.0.1:0
refused a_port_in_use_is_named 1 "cannot listen on ${URL#http://}" --data "$work/y" --listen "${URL#http://}" --board-listen 127.0.0.1:0
refused options_win_over_the_file 1 'another process is using' --config "$work/config.json" --listen 127.0.0.1:0
stop server INT
check_equal interrupt_ends_it_cleanly "$EXIT" 0
for signal in TERM HUP; do
    rm -f "$work/server.out"
    start server "$B/shoal" serve --config "$work/config.json" --json
    wait_for 20 test -s "$work/server.out"
    stop server $signal
    check_equal "${signal}_ends_it_cleanly" "$EXIT" 0
done
finish
