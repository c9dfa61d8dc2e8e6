#!/usr/bin/env bash
# Inferences while deployments are replaced, retired, paused and planned anew, and boards are lost: the server stays up
# (under the sanitizers: nothing is used after it was freed), a 200 is the reference's answer to the last bit, everything
# else is a refusal that says why, and at the end all is served again.
# timeout: 400
. tests/support/lib.sh

"$B/demo_model" "$work/base.tflite" "$work/input.bin"
"$B/shoal" run "$work/base.tflite" --input "$work/input.bin" --output "$work/want.bin"

ask_loop() { # NUMBER: asks until $work/over is there; counts what came
    local code
    while [ ! -e "$work/over" ]; do
        code=$(curl -sS --max-time 30 -o "$work/got.$1" -w '%{http_code}' -H 'Content-Type: application/octet-stream' \
            --data-binary "@$work/input.bin" "$URL/v2/models/base/infer" 2>/dev/null)
        [ "$code" = 200 ] && ! cmp -s "$work/got.$1" "$work/want.bin" && code=wrong
        echo "$code" >>"$work/codes"
    done
}
# deploy EXTRA-KEYS: the deployment's id in $id once it is active. One that is still in progress is waited for.
deploy() {
    local code
    while api_json POST /api/v1/deployments "{\"model\":\"base\"$1}" && [ "$STATUS" = 409 ]; do
        api GET "/api/v1/deployments/$id?wait=60"
    done
    id=$(field .id) code=$STATUS
    api GET "/api/v1/deployments/$id?wait=60"
    [[ $code =~ ^20[02]$ && $STATUS = 200 ]] || fail "deployed_with $1" "$code, then $STATUS: $(body)"
}
# act NAME: what may be done with the deployment in its state.
act() {
    api POST "/api/v1/deployments/$id/$1"
    [ "$STATUS" = 200 ] || [ "$STATUS" = 202 ] || fail "may_$1" "$STATUS: $(body)"
}
board_link_is() { [ "$(curl -s "$URL/api/v1/boards/$1" | jq -r .link)" = "$2" ]; }
state_is() { [ "$(curl -s "$URL/api/v1/deployments/$1" | jq -r .state)" = "$2" ]; }
count() { grep -cE "$1" "$work/codes"; }

start_server || finish
for b in b1 b2 b3; do start_board $b; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
api PUT /api/v1/models/base -T "$work/base.tflite"
deploy ''
check_equal deployment_is_active "$STATUS" 200
[ "$STATUS" = 200 ] || finish
for n in 1 2 3 4; do ask_loop $n & asking[n]=$!; done

# A deployment takes over from its former one while inferences run: nobody notices.
for n in 1 2 3 4 5 6; do deploy ",\"shares\":\"$([ $((n % 2)) = 0 ] && echo even || echo rating)\",\"tags\":[\"$n\"]"; done
check_equal no_inference_is_lost_when_a_deployment_is_replaced "$(count -v '^200$')" 0
check_equal replaced_under_load_with_answers "$([ "$(count '^200$')" -gt 5 ] && echo yes)" yes

for n in 1 2 3 4; do
    running server || { fail server_stays_up; finish; }
    act replan
    deploy ",\"tags\":[\"r$n\"]"
    act pause
    act resume
    act retire
    deploy ",\"tags\":[\"s$n\"]"
    [ "$n" != 2 ] || { stop b2 KILL && start_board b2; }
    wait_for 60 boards_online 3 || fail boards_are_online_again
    wait_for 60 state_is "$id" active || fail active_before_the_next_round "$(curl -s "$URL/api/v1/deployments/$id")"
done

# A board that is stale when another one comes back: active again as soon as both are there, without being asked.
stop b1 KILL
wait_for 60 state_is "$id" degraded || fail degraded_when_a_board_is_lost
kill -STOP "${pids[b2]}"
check silent_board_is_stale wait_for 14 board_link_is b2 stale
start_board b1
check lost_board_is_back wait_for 60 board_link_is b1 online
kill -CONT "${pids[b2]}"
check active_again_when_a_stale_board_is_back wait_for 60 state_is "$id" active

: >"$work/over"
wait "${asking[@]}"
check_equal no_answer_is_wrong "$(count wrong)" 0
check_equal every_other_answer_is_a_refusal "$(grep -vE '^(200|409|404|503|504)$' "$work/codes" | sort | uniq -c)" ""

# A board that comes back with less RAM than its part needs: degraded, with the reason; active when it has it again.
last_reason() { curl -s "$URL/api/v1/deployments/$id" | jq -r '.events[-1].reason'; }
tells_of_arena() { [[ $(last_reason) =~ bytes\ of\ arena ]]; }
stop b1 KILL
start_board b1 --ram 1024
wait_for 60 boards_online 3
check board_with_less_ram_is_told_of wait_for 60 tells_of_arena
check_equal deployment_is_degraded_by_it "$(curl -s "$URL/api/v1/deployments/$id" | jq -r .state)" degraded
stop b1 KILL
start_board b1
check active_when_the_ram_is_back wait_for 60 state_is "$id" active

# A forgotten board may enrol anew, as the refusal of a revoked one says.
api POST "/api/v1/deployments/$id/retire"
stop b3
api DELETE /api/v1/boards/b3
check_equal unused_board_is_forgotten "$STATUS" 200
rm "$work/b3/certificate.der"
start b3 "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/b3" --name b3 --code "$CODE"
check forgotten_board_enrols_anew wait_for 60 boards_online 3

stop server
check_equal server_ends_with_0 "$EXIT" 0
check_equal no_sanitizer_spoke "$(grep -hE 'Sanitizer|runtime error' "$work"/*.log)" ""
finish
