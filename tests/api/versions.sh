#!/usr/bin/env bash
# Versions of a model over deployments: kept back until promoted, rolled back without a push, replaced where the flash
# cannot hold both, and a board that is drained.
# timeout: 240
. tests/support/lib.sh

"$B/demo_model" "$work/one.tflite" "$work/in.bin" || fail demo_model_is_written
size=$(stat -c %s "$work/one.tflite")
cp "$work/one.tflite" "$work/two.tflite"
printf '\x11\x22\x33\x44\x55\x66\x77' | dd of="$work/two.tflite" bs=1 seek=$((size / 2)) conv=notrunc status=none
for v in one two; do
    "$B/shoal" run "$work/$v.tflite" --input "$work/in.bin" --output "$work/$v.want" || fail "reference_runs_$v"
    declare "sha_$v=$(sha256sum "$work/$v.tflite" | cut -d' ' -f1)"
done
# shellcheck disable=SC2154 # set by declare
[ "$sha_one" != "$sha_two" ] || fail the_two_files_differ
answered() { # VERSION-OR-NOTHING WANT
    api POST "/v2/models/m${1:+/versions/$1}/infer" -H 'Content-Type: application/octet-stream' --data-binary "@$work/in.bin"
    [ "$STATUS" = 200 ] && cmp -s "$work/body" "$work/$2.want"
}
deploy() { # JSON: waits until it is active or final
    api_json POST /api/v1/deployments "$1"
    id=$(field .id)
    api GET "/api/v1/deployments/$id?wait=60"
}
state_is() { [ "$(curl -s "$URL/api/v1/deployments/$1" | jq -r .state)" = "$2" ]; }

start_server || finish
for b in b1 b2 b3; do start_board $b; done
check boards_come_online wait_for 30 boards_online 3
api PUT /api/v1/models/m -T "$work/one.tflite"
deploy '{"model":"m"}'
first=$id
check_equal first_version_is_active "$(field .state)" active
api PUT /api/v1/models/m -T "$work/two.tflite"
deploy '{"model":"m","promote":false,"tags":["try"]}'
second=$id
check_equal second_version_is_active_beside_it "$(field .state)" active
check unversioned_requests_stay_with_the_first answered "" one
check second_version_answers_by_its_name answered "${sha_two:0:12}" two
api_json POST /api/v1/deployments '{"model":"m","promote":false,"tags":["try"]}'
check_equal identical_request_finds_the_running_one "$STATUS $(field .id)" "200 $second"
api POST "/api/v1/deployments/$second/promote"
check_equal promote_is_taken "$STATUS" 200
check promoted_version_answers answered "" two
check former_is_retired wait_for 10 state_is "$first" retired
api POST "/api/v1/deployments/$second/rollback"
check_match rollback_is_taken "$STATUS" '^20'
check former_is_active_again wait_for 60 state_is "$first" active
check rolled_back_version_answers answered "" one
check rolled_back_from_is_retired wait_for 10 state_is "$second" retired
api POST "/api/v1/deployments/$first/pause"
check_equal pause_is_taken "$(field .state)" paused
answered "" one
check_equal paused_deployment_answers_503 "$STATUS" 503
api POST "/api/v1/deployments/$first/resume"
check resumed_deployment_is_active wait_for 30 state_is "$first" active
check resumed_deployment_answers answered "" one

api POST /api/v1/boards/b3/drain
check_equal drain_is_taken "$STATUS" 200
left() { [ "$(curl -s "$URL/api/v1/boards/b3" | jq -r .safe_to_unplug)" = true ]; }
check drained_board_is_safe_to_unplug wait_for 60 left
check two_boards_answer wait_for 30 answered "" one
stop b3
check nothing_misses_the_drained_board state_is "$first" active
api DELETE /api/v1/boards/b1
check_equal board_in_use_is_not_forgotten "$STATUS" 409
api DELETE "/api/v1/models/m"
check_equal deployed_model_is_not_removed "$STATUS" 409
api POST "/api/v1/deployments/$first/retire"
check_equal retire_is_taken "$(field .state)" retired
answered "" one
check_equal nothing_answers_after_it "$STATUS" 503

# Boards whose flash holds one fragment, not two.
for b in b1 b2; do stop $b; done
for b in s1 s2; do start_board $b --flash 256K; done
check small_boards_come_online wait_for 30 boards_online 2
deploy "{\"model\":\"m\",\"version\":\"$sha_one\",\"boards\":[\"s1\",\"s2\"]}"
check_equal one_version_fits_on_small_boards "$(field .state)" active
api_json POST /api/v1/plans "{\"model\":\"m\",\"version\":\"$sha_two\",\"boards\":[\"s1\",\"s2\"]}"
check_equal two_do_not_and_the_dry_run_says_so "$STATUS $(field '.error.detail.shortfalls[0].resource')" "422 flash"
deploy "{\"model\":\"m\",\"version\":\"$sha_two\",\"boards\":[\"s1\",\"s2\"],\"replace\":true}"
check_equal replace_makes_room "$(field .state)" active
check replaced_version_answers answered "" two
finish
