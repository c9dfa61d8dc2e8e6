#!/usr/bin/env bash
# A server's whole life with three boards: upload, plan, deploy, ask in every form, label, replace, restart, drain,
# retire. The answer is always the reference's, to the last byte.
# timeout: 240
. tests/support/lib.sh

"$B/demo_model" "$work/demo.tflite" "$work/input.bin" &&
    "$B/shoal" run "$work/demo.tflite" --input "$work/input.bin" --output "$work/want.bin" || {
    fail model_and_reference
    finish
}
start_server || finish
for board in b1 b2 b3; do start_board "$board"; done
wait_for 30 boards_online 3 || { fail boards_come_online "$(curl -sS "$URL/api/v1/boards")"; finish; }
measured() { [ "$(curl -sS "$URL/api/v1/boards" | jq '[.items[] | select(.rating.rating_kb_per_s > 0)] | length')" = 3 ]; }
check boards_are_measured wait_for 30 measured

# ---- upload ----
api PUT /api/v1/models/demo -T "$work/demo.tflite"
check_equal upload_is_created "$STATUS" 201
version=$(field .version)
check_equal version_is_the_files_hash "$version" "$(sha256sum <"$work/demo.tflite" | cut -d ' ' -f 1)"
api GET "/api/v1/jobs/$(field .job)?wait=60"
check_equal job_is_done "$STATUS $(field .state)" "200 done"
api GET /api/v1/models/demo/versions/latest
check_equal dry_run_is_there_before_anyone_asks "$(field .dry_run.boards)" 3
check_match schedule_is_there "$(field .schedule.partial.peak_bytes)" '^[1-9][0-9]*$'
api GET /v2/models/demo/ready
check_equal not_deployed_is_503 "$STATUS" 503

# ---- plan and deploy ----
api_json POST /api/v1/plans '{"model":"demo"}'
check_equal plan_fits "$STATUS $(field .boards_used)" "200 3"
check_equal plan_sends_nothing "$(curl -sS "$URL/api/v1/deployments" | jq '.items | length')" 0
api_json POST /api/v1/deployments '{"model":"demo"}'
check_equal deployment_is_taken "$STATUS" 202
deployment=$(field .id)
check_match location_names_it "$(tr -d '\r' <"$work/headers")" "Location: /api/v1/deployments/$deployment"
api_json POST /api/v1/deployments '{"model":"demo"}'
check_equal the_same_again_is_the_same "$STATUS $(field .id)" "200 $deployment"
api GET "/api/v1/deployments/$deployment?wait=60"
check_equal deployment_is_active "$STATUS $(field .state)" "200 active"
check_equal every_board_echoed_its_fragment "$(field '[.boards[] | select(.state == "verified")] | length')" 3
check_equal events_tell_how "$(field '[.events[].state] | join(" ")')" "planning pushing verifying active"
api_json POST /api/v1/deployments '{"model":"demo","version":"'"${version:0:12}"'"}'
check_equal a_prefix_names_the_version "$STATUS $(field .id)" "200 $deployment"

# ---- ask ----
infer=/v2/models/demo/infer
ask_raw() { api POST "$1" -H 'Content-Type: application/octet-stream' --data-binary "@$work/input.bin"; }
answer_is_right() { ask_raw $infer && [ "$STATUS" = 200 ] && cmp -s "$work/body" "$work/want.bin"; }
ask_raw $infer
check raw_answer_equals_the_reference cmp "$work/body" "$work/want.bin"
header() { sed -n "s/^$1: \(.*\)\r\$/\1/p" "$work/headers"; }
check_equal raw_answer_names_version_and_deployment "$(header Shoal-Version) $(header Shoal-Deployment)" "$version $deployment"
inference=$(header Shoal-Inference)
ask_raw "/v2/models/demo/versions/${version:0:12}/infer"
check version_can_be_asked_by_prefix cmp "$work/body" "$work/want.bin"
api GET "/api/v1/inferences/$inference"
check_equal inference_has_a_time_line "$STATUS $(field '.timeline | length') $(field '[.timeline[] | select(.computing_ms > 0)] | length')" "200 3 3"
check_match inference_has_segments "$(field '.timeline[0].segments | length')" '^[1-9]'
history_has_it() { curl -sS "$URL/api/v1/inferences?deployment=$deployment" | grep -q "$inference"; }
check history_lists_it wait_for 5 history_has_it
segments_name_the_operator() { # each by its index, in the order in which the board did them
    jq -e 'all(.timeline[]; [.segments[].op] as $ops | ($ops | length) > 0 and ($ops | sort) == $ops)' "$work/body"
}
api GET "/api/v1/inferences/$inference"
check segments_name_the_operator segments_name_the_operator
api GET "/api/v1/load?minutes=5&points=30"
check_equal load_counts_what_was_answered "$STATUS $(field '.done >= 2 and .p50_ms > 0 and .p99_ms >= .p50_ms and .per_second == .done / 300') $(field '([.points[].done] | add) == .done')" "200 true true"
api GET "/api/v1/load?minutes=0"
check_equal load_of_no_minutes_is_refused "$STATUS" 400
api GET "/api/v1/deployments/$deployment"
check_equal a_deployment_says_what_its_plan_predicts "$(field '.plan.latency_ms > 0 and ([.boards[].arena_bytes] | all(. > 0))')" true
api GET /api/v1/boards/b1/states
check_equal a_boards_time_line_begins_online "$STATUS $(field '.items[-1].state')" "200 online"

signed() { od -An -v -td1 "$1" | tr -s ' \n' '\n\n' | sed '/^$/d' | jq -cs .; }
api GET /v2/models/demo
jq -c --argjson data "$(signed "$work/input.bin")" '{id: "seven", inputs: [.inputs[0] + {data: $data}]}' "$work/body" >"$work/request"
api POST $infer -H 'Content-Type: application/json' --data-binary "@$work/request"
check_equal json_answer_equals_the_reference "$(field '.outputs[0].data | tojson')" "$(signed "$work/want.bin")"
check_equal json_answer_carries_the_id "$(field .id) $(field .model_name) $(field .model_version)" "seven demo ${version:0:12}"
check_equal json_answer_names_the_deployment "$(field .parameters.deployment) $(field .parameters.generation)" "$deployment 1"
jq -c '.inputs[0].data |= [[range(0; length; 144) as $i | .[$i:$i + 144]]]' "$work/request" >"$work/nested"
api POST $infer -H 'Content-Type: application/json' --data-binary "@$work/nested"
check_equal nested_data_is_the_same "$(field '.outputs[0].data | tojson')" "$(signed "$work/want.bin")"

head='{"inputs":[{"name":"image","datatype":"INT8","shape":[1,48,48,3],"parameters":{"binary_data_size":6912}}],"outputs":[{"name":"softmax","parameters":{"binary_data":true}}]}'
{ printf '%s' "$head" && cat "$work/input.bin"; } >"$work/request"
binary() { api POST $infer -H "Inference-Header-Content-Length: $1" -H 'Content-Type: application/octet-stream' --data-binary "@$work/request"; }
binary ${#head}
n=$(header Inference-Header-Content-Length)
tail -c "+$((n + 1))" "$work/body" >"$work/tail"
check binary_answer_equals_the_reference cmp "$work/tail" "$work/want.bin"
check_equal binary_answer_has_a_header "$(head -c "$n" "$work/body" | jq -c '[.model_name, .outputs[0].parameters.binary_data_size]')" '["demo",10]'

# ---- refusals of inputs, all read ----
refused() { # NAME STATUS REGEX
    check_match "$1" "$STATUS $(field .error)" "^$2 .*$3"
}
head -c 6911 "$work/input.bin" >"$work/short"
api POST $infer -H 'Content-Type: application/octet-stream' --data-binary "@$work/short"
refused a_byte_too_few_is_refused 400 'has 6911 bytes, the model takes 6912'
api POST $infer -H 'Content-Type: application/octet-stream' -d ''
refused an_empty_input_is_refused 400 'has 0 bytes'
binary 99999999
refused a_header_longer_than_the_body_is_refused 400 'no length within the body'
binary 12x
refused a_header_length_that_is_no_number_is_refused 400 'no length'
binary 20
refused half_a_header_is_refused 400 'line 1'
api_json POST $infer '{"inputs":[{"name":"nothing","datatype":"INT8","shape":[1],"data":[1]}]}'
refused an_unknown_input_is_refused 400 "no input 'nothing'; its first is 'image'"
api_json POST $infer '{"inputs":[{"name":"image","datatype":"FP32","shape":[1,48,48,3],"data":[1]}]}'
refused another_datatype_is_refused 400 'is FP32, the model takes INT8'
api_json POST $infer '{"inputs":[{"name":"image","datatype":"INT8","shape":[48,48,3],"data":[1]}]}'
refused another_shape_is_refused 400 'takes \[1,48,48,3\]'
api_json POST $infer '{"inputs":[{"name":"image","datatype":"INT8","shape":[1,48,48,3],"data":[1,2]}]}'
refused too_few_values_are_refused 400 'has 2 values, the model takes 6912'
api_json POST $infer '{"inputs":[{"name":"image","datatype":"INT8","shape":[1,48,48,3],"data":[1,128]}]}'
refused a_value_out_of_range_is_refused 400 'value 1 is no INT8'
api_json POST $infer '{"inputs":[]}'
refused no_inputs_are_refused 400 "list of the model's 1 inputs"
api_json POST $infer '{"inputs":[{"name":"image"}],"colour":1}'
refused unknown_keys_are_refused 400 "'colour' is not known"
ask_raw /v2/models/nothing/infer
refused an_unknown_model_is_404 404 "no model is named 'nothing'"
ask_raw /v2/models/demo/versions/ffffffffffff/infer
refused an_unknown_version_is_404 404 'no version'
check the_server_is_none_the_worse answer_is_right

# ---- classify ----
printf 'zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n' >"$work/labels"
api PUT /api/v1/models/demo/versions/latest/labels -T "$work/labels"
check_equal labels_are_taken "$STATUS $(field .labels)" "200 10"
png() { printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\2\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\3\1\1\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB\x60\x82'; }
png >"$work/red.png"
api POST '/api/v1/models/demo/classify?top=3' -H 'Content-Type: image/png' --data-binary "@$work/red.png"
check_equal classify_answers_labels "$STATUS $(field '.labels | length')" "200 3"
check_equal scores_fall "$(field '[.labels[].score] | . == (sort | reverse)')" true
check_equal labels_are_those_of_the_indices "$(field '[.labels[] | ["zero","one","two","three","four","five","six","seven","eight","nine"][.index] == .label] | all')" true
check_equal classify_names_the_deployment "$(field .deployment) $(field .version)" "$deployment $version"
head -c 40 "$work/red.png" >"$work/half.png"
api POST /api/v1/models/demo/classify -H 'Content-Type: image/png' --data-binary "@$work/half.png"
check_equal a_broken_picture_is_refused "$STATUS $(field .error.code)" "422 image_malformed"
api PUT /api/v1/models/demo/versions/latest/input -H 'Content-Type: application/json' -d '{"fit":"crop","channels":"bgr"}'
check_equal input_settings_are_taken "$STATUS $(field '[.fit, .channels, (.guessed | join(" "))] | join(",")')" "200 crop,bgr,scale offset"

# ---- a second version takes over when it is active ----
cp "$work/demo.tflite" "$work/next.tflite"
printf '\x55' | dd of="$work/next.tflite" bs=1 seek=$(($(stat -c %s "$work/demo.tflite") / 2)) conv=notrunc status=none
api PUT /api/v1/models/demo -T "$work/next.tflite"
check_equal second_version_is_created "$STATUS" 201
second=$(field .version)
api GET /api/v1/models/demo/versions/latest
check_equal second_version_inherits "$(field .labels) $(field .input.channels)" "10 bgr"
check the_first_still_answers answer_is_right
api_json POST /api/v1/deployments '{"model":"demo","promote":false}'
unpromoted=$(field .id)
api GET "/api/v1/deployments/$unpromoted?wait=60"
check_equal unpromoted_is_active "$STATUS $(field .state)" "200 active"
check unversioned_answers_stay_on_the_first answer_is_right
"$B/shoal" run "$work/next.tflite" --input "$work/input.bin" --output "$work/want2.bin"
ask_raw "/v2/models/demo/versions/${second:0:12}/infer"
check the_second_answers_by_its_version cmp "$work/body" "$work/want2.bin"
api POST "/api/v1/deployments/$unpromoted/promote"
check_equal promote_is_done "$STATUS" 200
ask_raw $infer
check unversioned_answers_move_to_the_second cmp "$work/body" "$work/want2.bin"
api GET "/api/v1/deployments/$deployment"
check_equal the_first_is_retired "$(field .state)" retired
api DELETE /api/v1/models/demo
check_equal a_deployed_model_is_not_removed "$STATUS" 409

# ---- restart ----
pushed=$(grep -c 'is pushing' "$work/server.log")
stop server
check_equal server_ends_cleanly "$EXIT" 0
rm -f "$work/server.out"
start_server || finish
right_again() { ask_raw $infer && [ "$STATUS" = 200 ] && cmp -s "$work/body" "$work/want2.bin"; }
check everything_comes_back_by_itself wait_for 30 right_again
check_equal nothing_is_pushed_again "$(grep -c 'is pushing' "$work/server.log")" "$pushed"

# ---- drain, then retire ----
api POST /api/v1/boards/b3/drain
check_equal drain_is_taken "$STATUS $(field .drained)" "200 true"
safe() { [ "$(curl -sS "$URL/api/v1/boards/b3" | jq .safe_to_unplug)" = true ]; }
check drained_board_becomes_safe_to_unplug wait_for 60 safe
check two_boards_answer_the_same wait_for 30 right_again
stop b3
check unplugged_board_is_not_missed right_again
api GET /api/v1/attention
check_equal nothing_needs_a_person "$(field '.items | length')" 0
api POST "/api/v1/deployments/$unpromoted/retire"
check_equal retire_is_done "$STATUS $(field .state)" "200 retired"
ask_raw $infer
check_equal retired_answers_503 "$STATUS" 503
check_match busy_answers_say_when_to_try_again "$(tr -d '\r' <"$work/headers")" "Retry-After: 1"
api DELETE /api/v1/models/demo
check_equal a_retired_model_is_removed "$STATUS" 200
api DELETE /api/v1/boards/b3
check_equal an_unused_board_is_forgotten "$STATUS" 200
finish
