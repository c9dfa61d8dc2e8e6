#!/usr/bin/env bash
# A board goes in the middle of an inference: 503 with Retry-After, soon, never a hang; it answers again when the board
# is back, without a push; and from the boards that are left after a replan.
# timeout: 200
. tests/support/lib.sh
"$B/demo_model" "$work/demo.tflite" "$work/input.bin" &&
    "$B/shoal" run "$work/demo.tflite" --input "$work/input.bin" --output "$work/want.bin" || {
    fail model_and_reference
    finish
}
start_server || finish
# The delay makes an inference of some seconds, so that there is a middle.
for board in b1 b2 b3; do start_board "$board" --delay-ms 20; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
measured() { [ "$(curl -sS "$URL/api/v1/boards" | jq '[.items[] | select(.rating.rating_kb_per_s > 0)] | length')" = 3 ]; }
check boards_are_measured wait_for 60 measured
api PUT /api/v1/models/demo -T "$work/demo.tflite"
api_json POST /api/v1/deployments '{"model":"demo","shares":"even"}'
deployment=$(field .id)
api GET "/api/v1/deployments/$deployment?wait=90"
check_equal deployment_is_active "$STATUS $(field .state)" "200 active"
ask() { # FILE
    curl -sS --max-time 60 -o "$1" -D "$1.headers" -w '%{http_code} %{time_total}' -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/demo/infer" 2>/dev/null
}
said=$(ask "$work/got")
check_equal answers_at_first "${said% *}" 200
check answer_equals_the_reference cmp "$work/got" "$work/want.bin"
took=${said#* }

# What is in flight when a board dies; another waits behind it. The board is halted first, so that it does not end.
kill -STOP "${pids[b2]}"
half=$(awk -v t="$took" 'BEGIN {printf "%.3f", t / 2}')
ask "$work/first" >"$work/first.said" &
first=$!
ask "$work/second" >"$work/second.said" &
second=$!
sleep "$half"
stop b2 KILL
wait "$first" "$second"
for name in first second; do
    check_match "$name: 503, soon" "$(cat "$work/$name.said")" '^503 [0-9]\.'
    check_match "$name: says when to try again" "$(tr -d '\r' <"$work/$name.headers")" 'Retry-After: 1'
    check_match "$name: says why" "$(jq -r .error "$work/$name" 2>&1)" '(board|offline|lost)'
done
state_is() { [ "$(curl -sS "$URL/api/v1/deployments/$deployment" | jq -r .state)" = "$1" ]; }
check deployment_is_degraded wait_for 10 state_is degraded
said=$(ask "$work/got")
check_match degraded_answers_503_at_once "$said" '^503 0\.'
api GET /api/v1/attention
check_equal it_needs_a_person "$(field '[.items[] | select(.kind == "board") | .subject] | join(" ")')" b2
failed_ones() { [ "$(curl -sS "$URL/api/v1/inferences?deployment=$deployment" | jq '[.items[] | select(.state == "failed")] | length')" -ge 1 ]; }
check history_has_the_failure wait_for 5 failed_ones

pushed=$(grep -c 'is pushing' "$work/server.log")
start_board b2 --delay-ms 20
right_again() { ask "$work/got" >/dev/null && cmp -s "$work/got" "$work/want.bin"; }
check answers_again_when_the_board_is_back wait_for 60 right_again
check_equal without_a_push "$(grep -c 'is pushing' "$work/server.log")" "$pushed"

stop b3 KILL
check deployment_is_degraded_again wait_for 10 state_is degraded
api POST "/api/v1/deployments/$deployment/replan"
check_equal replan_is_taken "$STATUS" 200
api GET "/api/v1/deployments/$deployment?wait=90"
check_equal replanned_from_two_boards "$STATUS $(field .state) $(field '[.boards[] | select(.state == "verified")] | length')" "200 active 2"
check_equal as_the_next_generation "$(field .generation)" 2
check two_boards_answer_the_same wait_for 30 right_again

# A client that goes away in the middle leaves nothing behind: the next one is answered.
timeout "$half" curl -sS -o /dev/null -H 'Content-Type: application/octet-stream' --data-binary "@$work/input.bin" \
    "$URL/v2/models/demo/infer" 2>/dev/null
check the_next_client_is_answered right_again

# The server ends cleanly with an inference in flight.
ask "$work/first" >"$work/first.said" &
first=$!
sleep 0.2
stop server
check_equal server_ends_cleanly_in_the_middle "$EXIT" 0
wait "$first"
check_match its_client_is_told "$(cat "$work/first.said")" '^(503|200|000) '
finish
