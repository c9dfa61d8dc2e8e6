#!/usr/bin/env bash
# A restart finds the same fleet and deployment, answers as before, and pushes no byte of weights again.
. tests/support/lib.sh

"$B/demo_model" "$work/m.tflite" "$work/in.bin" || fail demo_model_is_written
"$B/shoal" run "$work/m.tflite" --input "$work/in.bin" --output "$work/want.bin" || fail reference_runs
ask() {
    api POST /v2/models/m/infer -H 'Content-Type: application/octet-stream' --data-binary "@$work/in.bin"
    [ "$STATUS" = 200 ] && cmp -s "$work/body" "$work/want.bin"
}
active() { [ "$(curl -s "$URL/api/v1/deployments/$id" | jq -r .state)" = active ]; }
state_is() { [ "$(curl -s "$URL/api/v1/deployments/$id" | jq -r .state)" = "$1" ]; }
fragments() { curl -s "$URL/api/v1/boards" | jq -c '[.items[] | {name, f: [.fragments[].fragment] | sort}] | sort_by(.name)'; }
stamps() { (cd "$work" && find b1 b2 b3 -type f -size +4k -printf '%f %i %T@\n' | sort); }

start_server || finish
for b in b1 b2 b3; do start_board $b; done
check boards_come_online wait_for 30 boards_online 3
api PUT /api/v1/models/m -T "$work/m.tflite"
check_equal upload_is_new "$STATUS" 201
api_json POST /api/v1/deployments '{"model":"m"}'
id=$(field .id)
check deployment_becomes_active wait_for 60 active
check answer_equals_the_reference ask
held=$(fragments) files=$(stamps)

stop server
check_equal server_ends_cleanly "$EXIT" 0
rm -f "$work/server.out"
start_server || finish
check boards_come_back wait_for 30 boards_online 3
check same_deployment_is_active_again wait_for 60 active
check answer_is_the_same_after_a_server_restart ask
check_equal boards_hold_the_same_fragments "$(fragments)" "$held"
check_equal no_fragment_file_was_written_again "$(stamps)" "$files"

stop b2
check deployment_is_degraded_without_a_board wait_for 20 state_is degraded
api POST /v2/models/m/infer -H 'Content-Type: application/octet-stream' --data-binary "@$work/in.bin"
check_equal degraded_deployment_answers_503 "$STATUS" 503
check_match retry_after_is_said "$(cat "$work/headers")" 'Retry-After: [0-9]+'
start_board b2
check deployment_resumes_when_the_board_is_back wait_for 30 active
check answer_is_the_same_after_a_board_restart ask
check_equal nothing_was_pushed_again "$(stamps)" "$files"

stop b3
check deployment_is_degraded_again wait_for 20 state_is degraded
api POST "/api/v1/deployments/$id/replan"
check_match replan_is_taken "$STATUS" '^20'
check new_generation_runs_on_two_boards wait_for 60 active
api GET "/api/v1/deployments/$id"
check_equal generation_counts "$(field .generation)" 2
check answer_is_the_same_on_two_boards ask
finish
