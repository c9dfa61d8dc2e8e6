#!/usr/bin/env bash
# Boards whose flash is smaller than the model's weights: none can hold it alone, and no two generations fit at a time.
# Draining a board, planning anew and replacing a deployment must work all the same, and nothing may stay stuck.
# timeout: 180
. tests/support/lib.sh

model=models/digits.tflite small=163840
state_is() { [ "$(curl -s "$URL/api/v1/deployments/$id" | jq -r .state)" = "$1" ]; }
generation_runs() { [ "$(curl -s "$URL/api/v1/deployments/$id" | jq -r '"\(.state) \(.generation)"')" = "active $1" ]; }
story() { curl -s "$URL/api/v1/deployments/$id" | jq -c "{state, generation, reason, error}"; }
reads_seven() {
    api POST "/api/v1/models/$1/classify" -H 'Content-Type: image/png' --data-binary @web/samples/digit_7.png
    [ "$STATUS $(field '.labels[0].index')" = "200 7" ]
}

start_server || finish
for b in b1 b2 b3; do start_board $b --flash $small; done
check boards_come_online wait_for 30 boards_online 3
"$B/shoal" upload "$model" --name digits >/dev/null 2>"$work/said" || fail upload "$(cat "$work/said")"
api GET /api/v1/models/digits/versions/latest
check_equal weights_are_larger_than_a_boards_flash "$(field ".summary.weight_bytes > $small")" true

api_json POST /api/v1/plans '{"model":"digits","boards":["b1"]}'
check_equal one_board_cannot_hold_it "$STATUS $(field '.error.detail.resource')" "422 flash"
api_json POST /api/v1/deployments '{"model":"digits"}'
id=$(field .id)
check three_boards_hold_it wait_for 60 generation_runs 1 || story
check the_boards_read_a_seven reads_seven digits

api POST /api/v1/boards/b3/drain
check draining_moves_the_model_to_two_boards wait_for 60 generation_runs 2 || story
check two_boards_read_a_seven reads_seven digits
api POST /api/v1/boards/b3/undrain
api POST "/api/v1/deployments/$id/replan"
check planning_anew_takes_the_third_board_in wait_for 60 generation_runs 3 || story

"$B/demo_model" "$work/demo.tflite"
"$B/shoal" upload "$work/demo.tflite" --name other >/dev/null 2>&1
api_json POST /api/v1/plans '{"model":"other"}'
check_equal another_model_does_not_fit_beside_it "$STATUS" 422
first=$id
helps='.error.detail.try'
check_equal retiring_what_holds_the_flash_is_offered "$(field "$helps | map(select(.retire))[0] | [.retire, .text]" | jq -r '.[]')" \
    "$first
the deployment of 'digits' retired"
check_equal nothing_of_its_own_is_there_to_replace "$(field "$helps | map(select(.replace)) | length")" 0
api_json POST /api/v1/deployments '{"model":"digits","strategy":"neuron","shares":"even"}'
check_equal no_two_deployments_fit "$STATUS" 422
check_equal replacing_the_former_is_offered "$(field "$helps | map(select(.replace))[0] | .replace and .latency_ms > 0")" true
api_json POST /api/v1/plans '{"model":"digits","strategy":"neuron","shares":"even","replace":true}'
check_equal and_it_fits_then "$STATUS" 200
check_equal milliseconds_have_three_decimals_at_most "$(body | grep -oE '_ms":[0-9.e-]+' | grep -cE '\.[0-9]{4,}|e')" 0
check_equal of_many_milliseconds "$([ "$(body | grep -oE '_ms":[0-9.]+' | wc -l)" -gt 20 ] && echo yes)" yes
"$B/shoal" deploy digits --strategy neuron --shares even >/dev/null 2>"$work/said"
check_match command_line_names_the_option "$(cat "$work/said")" 'it would fit with --replace: '
api_json POST /api/v1/deployments '{"model":"digits","strategy":"neuron","shares":"even","replace":true}'
id=$(field .id)
check replacing_gives_up_the_former_deployment wait_for 60 generation_runs 1 || story
check the_replacement_reads_a_seven reads_seven digits
id=$first
check the_former_deployment_is_retired wait_for 10 state_is retired

# More images that nobody needs than a board keeps requests: each is dropped, and then there is room for a fragment.
images() { curl -s "$URL/api/v1/boards/b4" | jq -r '.fragments | length'; }
few_images() { [ "$(images)" -le 1 ]; }
fill() { # its flash, with images of somebody else
    stop b4
    rm -f "$work/b4/fragments/"*
    for n in $(seq 10 69); do head -c 8000 /dev/zero >"$work/b4/fragments/$(printf '%062d%d' 0 "$n")"; done
}
start_board b4 --flash 524288
wait_for 30 boards_online 4 || fail fourth_board_comes_online
fill
check_equal flash_is_full_of_old_images "$(find "$work/b4/fragments" -type f | wc -l)" 60
start_board b4 --flash 524288
wait_for 30 boards_online 4 || fail fourth_board_comes_back
api_json POST /api/v1/deployments '{"model":"other","boards":["b4"]}'
id=$(field .id)
check full_of_old_images_takes_a_fragment_at_once wait_for 20 generation_runs 1 || story
check old_images_are_dropped wait_for 10 few_images
fill
check degraded_without_its_board wait_for 10 state_is degraded
start_board b4 --flash 524288
check back_without_its_fragment_and_full_it_is_pushed_to_at_once wait_for 20 generation_runs 1 || story
finish
