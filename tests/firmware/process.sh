#!/usr/bin/env bash
# The session code of the Cortex-M boards with lwIP and mbedTLS, unchanged, as processes over libslirp under the address
# and undefined-behaviour sanitizers: they enrol, hold a real model beside an emulated board, answer exactly, reboot when
# asked, see the server go and come back, and end without a leak.
# long: it builds the stack once more, under the sanitizers
# timeout: 170
. tests/support/emulated.sh
model=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
"$B/shoal" run "$model" --input "$work/input.bin" --output "$work/want.bin" || { fail reference; finish; }
start_server || finish
for b in b1 b2; do start_process $b; done
start_emulated b3
check they_enrol_and_come_online wait_for 60 boards_online 3 || finish
"$B/shoal" upload "$model" --name digits >/dev/null 2>"$work/said" || fail upload "$(cat "$work/said")"
api_json POST /api/v1/deployments '{"model":"digits","shares":"even"}'
api GET "/api/v1/deployments/$(field .id)?wait=100"
check_equal deployment_is_active "$STATUS $(field .state)" "200 active"
right() {
    curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/digits/infer" && cmp -s "$work/got" "$work/want.bin"
}
check they_answer_exactly right
api POST /api/v1/boards/b1/reboot
check one_reboots_when_asked wait_for 20 said b1 'reset: reboot: the server asked'
check they_answer_again wait_for 30 right
stop server KILL
gone() { said b2 'the link is gone'; }
check they_see_the_server_go wait_for 30 gone
rm "$work/server.out"
start_server
check they_come_back wait_for 60 boards_online 3
check they_answer_the_new_server wait_for 30 right
for b in b1 b2; do
    stop $b
    check_equal "${b}_ends_cleanly_and_the_sanitizers_found_nothing" \
        "$EXIT $(grep -c 'runtime error\|ERROR: ' "$work/$b.log")" "0 0"
done
check_emulation b3
finish
