#!/usr/bin/env bash
# A board with less memory than the model takes operator by operator: it runs a schedule of partial execution. The
# deployment is verified and answers as the reference does; the board's arena is the plan's, to the alignment. Less still
# is refused with what is missing.
. tests/support/lib.sh
digits=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
check reference "$B/shoal" run $digits --input "$work/input.bin" --output "$work/want.bin"
whole=$("$B/shoal" plan $digits --boards 1 --json | jq .parties[0].arena_bytes)
ram=$((whole * 2 / 3))
"$B/shoal" run $digits --input "$work/input.bin" --output "$work/virtual.bin" --boards 1 --ram "$ram" --json >"$work/run.json"
check virtual_board_answers_as_the_reference cmp -s "$work/virtual.bin" "$work/want.bin"
check_equal virtual_board_uses_its_arena_to_the_alignment "$(jq --argjson ram "$ram" \
    '.parties[0] | .arena_bytes <= $ram and .arena_high_water_bytes <= .arena_bytes and .arena_high_water_bytes > .arena_bytes - 32' \
    "$work/run.json")" true
start_server || finish
start_board small --ram "$ram"
wait_for 30 boards_online 1 || { fail board_comes_online; finish; }
api PUT /api/v1/models/digits -T $digits
api_json POST /api/v1/plans '{"model":"digits"}'
check_equal dry_run_names_the_schedule "$STATUS $(field '[.strategy, (.parties[0].schedule | length > 0)] | @csv')" '200 "single",true'
arena=$(field .parties[0].arena_bytes)
check_equal schedule_fits_the_board "$((arena <= ram && arena < whole))" 1
api_json POST /api/v1/deployments '{"model":"digits"}'
deployment=$(field .id)
api GET "/api/v1/deployments/$deployment?wait=90"
check_equal deployment_is_verified "$(field .state)" active
check_equal deployment_reserves_the_planned_arena "$(field .boards[0].arena_bytes)" "$arena"
curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' --data-binary "@$work/input.bin" \
    "$URL/v2/models/digits/infer"
check board_answers_as_the_reference cmp -s "$work/got" "$work/want.bin"
api GET /api/v1/inferences
id=$(field .items[0].id)
api GET "/api/v1/inferences/$id"
used=$(field '[.. | .arena_high_water_bytes? | numbers] | first')
check_equal board_uses_its_arena_to_the_alignment "$((used <= arena && used > arena - 32))" 1
stop server
start_server || finish
active() { api GET "/api/v1/deployments/$deployment" && [ "$(field .state)" = active ]; }
check plan_is_taken_up_after_a_restart wait_for 30 active
start_board tiny --ram 3000
wait_for 30 boards_online 2 || { fail second_board_comes_online; finish; }
api_json POST /api/v1/plans '{"model":"digits","boards":["tiny"]}'
check_equal too_little_is_refused_with_what_is_missing "$STATUS $(field '.error.detail | [.resource, .need_bytes > .have_bytes] | @csv')" '422 "arena",true'
finish
