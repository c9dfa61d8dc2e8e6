#!/usr/bin/env bash
# A machine with too much to do: server and boards get no processor for seconds. Slow is not lost: links stay, and what
# was under way goes on.
. tests/support/lib.sh
"$B/demo_model" "$work/demo.tflite" "$work/input.bin" &&
    "$B/shoal" run "$work/demo.tflite" --input "$work/input.bin" --output "$work/want.bin" || {
    fail model_and_reference
    finish
}
start_server || finish
for board in b1 b2; do start_board "$board"; done
wait_for 30 boards_online 2 || { fail boards_come_online; finish; }
api PUT /api/v1/models/demo -T "$work/demo.tflite"
api_json POST /api/v1/deployments '{"model":"demo"}'
api GET "/api/v1/deployments/$(field .id)?wait=60"
check_equal deployment_is_active "$STATUS $(field .state)" "200 active"

# Halted longer than an inference may take and its abort could, shorter than a silent board is called stale.
links() { curl -s "$URL/api/v1/boards" | jq -c '[.items[] | [.name, .link, .since_at]]'; }
before=$(links)
kill -STOP "${pids[b1]}"
code=$(curl -sS --max-time 60 -o "$work/got" -w '%{http_code}' -H 'Content-Type: application/octet-stream' \
    --data-binary "@$work/input.bin" "$URL/v2/models/demo/infer" 2>/dev/null)
check_equal inference_of_a_halted_board_ends_at_its_deadline "$code" 504
sleep 2
kill -CONT "${pids[b1]}"
right_again() {
    curl -sS --fail --max-time 30 -o "$work/got" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/demo/infer" && cmp -s "$work/got" "$work/want.bin"
}
check answers_again wait_for 20 right_again
check_equal halted_board_kept_its_link "$(links)" "$before"

# A peer in the middle of its handshake: what the server was late does not count against it, its own silence does.
closed() { # SECONDS: whether the server closes within that time
    local end
    end=$(($(date +%s) + $1))
    while [ "$(date +%s)" -le "$end" ]; do
        read -r -t 1 -u 7 _
        [ $? -gt 128 ] || return 0
    done
    return 1
}
exec 7<>"/dev/tcp/${BOARD_ADDRESS%:*}/${BOARD_ADDRESS##*:}"
sleep 1
kill -STOP "${pids[server]}"
sleep 6
kill -CONT "${pids[server]}"
check handshake_goes_on_after_a_halt_of_the_server eval '! closed 1'
check silent_handshake_ends_at_its_deadline closed 20
finish
