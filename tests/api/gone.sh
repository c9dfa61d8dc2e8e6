#!/usr/bin/env bash
# A search ends soon after its client has left, so that the next one need not wait; so does a server that is stopped
# while it searches. The network has eight long branches, which takes many seconds with extra MACs.
. tests/support/lib.sh
jq -cn '[range(8) as $b | range(40) as $i | "\($b)_\($i)"] as $blocks |
    def before: split("_") | if .[1] == "0" then "x" else "p\(.[0])_\((.[1] | tonumber) - 1)" end;
    {extra_macs: 10, image: "streamed",
    graph: {
        inputs: ["x"], outputs: [range(8) | "p\(.)_39"],
        tensors: ([{x: {shape: [64, 64, 8]}}] + [$blocks[] |
            {"e\(.)": {shape: [64, 64, 32]}, "d\(.)": {shape: [64, 64, 32]}, "p\(.)": {shape: [64, 64, 8]}}] | add),
        ops: [$blocks[] | {name: "e\(.)", type: "conv", inputs: [before], output: "e\(.)"},
            {name: "d\(.)", type: "dw", k: 3, inputs: ["e\(.)"], output: "d\(.)"},
            {name: "p\(.)", type: "conv", inputs: ["d\(.)"], output: "p\(.)"}]}}' >"$work/long.json"
jq -c '.graph |= (.outputs = ["p0_0"] | .ops |= .[:3] |
    .tensors |= with_entries(select(.key | IN("x", "e0_0", "d0_0", "p0_0"))))' "$work/long.json" >"$work/short.json"
start_server || finish
# ask SECONDS FILE: curl's exit status is 28 when it left before there was an answer.
ask() {
    curl -sS --max-time "$1" -o "$work/answer" -w '%{http_code}' -H 'Content-Type: application/json' \
        --data-binary "@$2" "$URL/api/v1/schedules" 2>/dev/null
}
ticks() { awk '{print $14 + $15}' "/proc/${pids[server]}/stat"; }
# Less than a fifth of a second of computing in a second.
idle() {
    local before
    before=$(ticks)
    sleep 1
    [ $(($(ticks) - before)) -lt $(($(getconf CLK_TCK) / 5)) ]
}
ask 1 "$work/long.json" >/dev/null & first=$!
ask 1 "$work/long.json" >/dev/null & second=$!
sleep 0.7
check two_searches_keep_the_server_busy test "$(ticks)" -gt $(($(getconf CLK_TCK) / 10))
wait "$first"
check_equal first_client_left_without_an_answer $? 28
wait "$second"
check_equal second_client_left_without_an_answer $? 28
check_equal next_search_has_its_turn_at_once "$(ask 8 "$work/short.json")" 200
check searches_end_when_their_clients_have_left wait_for 4 idle
check_equal server_answers_as_before "$(ask 8 "$work/short.json")" 200
ask 30 "$work/long.json" >"$work/code" & third=$!
sleep 0.7
before=$(date +%s%N)
stop server
took=$((($(date +%s%N) - before) / 1000000))
check_equal server_stops_within_two_seconds_of_a_search "$EXIT $((took < 2000 * patience))" "0 1"
wait "$third"
check_match search_of_a_stopped_server_is_refused "$(cat "$work/code")" '^(503|000)$'
finish
