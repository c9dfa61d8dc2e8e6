#!/usr/bin/env bash
# Boards that ask for other layouts of weights than plain get them, with scratch in their arena, and answer as the
# reference does: virtual ones by their FLEET.json, live ones by their HELLO, beside a board that takes plain ones only.
# Where there is no room for scratch, weights are plain.
. tests/support/lib.sh
digits=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
check reference "$B/shoal" run $digits --input "$work/input.bin" --output "$work/want.bin"
echo '[{"name":"m7","layouts":7},{"name":"plain"}]' >"$work/fleet.json"
"$B/shoal" run $digits --input "$work/input.bin" --output "$work/virtual.bin" --boards "$work/fleet.json" --json >"$work/run.json"
check virtual_boards_answer_as_the_reference cmp -s "$work/virtual.bin" "$work/want.bin"
scratch() { # FLEET
    echo "$1" >"$work/one.json"
    "$B/shoal" plan $digits --boards "$work/one.json" --json | jq -c '.parties[0] | [.scratch_bytes, .arena_bytes]'
}
plain=$(scratch '{"name":"a"}')
packed=$(scratch '{"name":"a","layouts":7}')
check_equal only_packed_weights_take_scratch "$(jq -nc "[($packed[0] > $plain[0]), ($packed[1] > $plain[1])]")" '[true,true]'
# Arenas of 8 KiB hold the model under a schedule, but not beside the least scratch of packed weights.
check_equal where_scratch_does_not_fit_weights_are_plain \
    "$(scratch '{"name":"a","layouts":7,"arena_bytes":8192}')" "$(scratch '{"name":"a","arena_bytes":8192}')"
check_equal scratch_may_take_what_a_schedule_saves \
    "$(scratch "{\"name\":\"a\",\"layouts\":7,\"arena_bytes\":$(jq -n "$plain[1]")}" | jq -c --argjson plain "$plain" '[.[0] > $plain[0], .[1] <= $plain[1]]')" \
    '[true,true]'

start_server || finish
start_board m1 --layouts 7
start_board m2 --layouts 7
start_board plain
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
api GET /api/v1/fleet
check_equal fleet_tells_what_boards_take "$(jq -c '[.. | .layouts? | numbers] | sort' "$work/body")" '[1,7,7]'
api PUT /api/v1/models/digits -T $digits
api_json POST /api/v1/deployments '{"model":"digits"}'
api GET "/api/v1/deployments/$(field .id)?wait=90"
check_equal deployment_is_verified "$(field .state)" active
curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' --data-binary "@$work/input.bin" \
    "$URL/v2/models/digits/infer"
check live_boards_answer_as_the_reference cmp -s "$work/got" "$work/want.bin"
finish
