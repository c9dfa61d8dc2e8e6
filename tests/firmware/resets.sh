#!/usr/bin/env bash
# Emulated boards that reset, or lose power, in the middle of a push and of a run: the deployment gets there all the same,
# inferences fail soon and with a reason or give the exact answer, and nothing is left half done.
# long: it deploys again and again
# timeout: 200
. tests/support/emulated.sh
"$B/demo_model" "$work/demo.tflite" "$work/input.bin" &&
    "$B/shoal" run "$work/demo.tflite" --input "$work/input.bin" --output "$work/want.bin" || {
    fail model_and_reference
    finish
}
start_server || finish
for b in b1 b2 b3; do start_emulated $b; done
check boards_enrol_and_come_online wait_for 60 boards_online 3 || finish
"$B/shoal" upload "$work/demo.tflite" --name demo >/dev/null 2>"$work/said" || fail upload "$(cat "$work/said")"

pushes() { grep -c 'is pushing' "$work/server.log"; }
more_pushes_than() { [ "$(pushes)" -gt "$1" ]; }
state_is() { [ "$(curl -s "$URL/api/v1/deployments/$deployment" | jq -r .state)" = "$1" ]; }
ask() { # FILE: status and seconds
    curl -sS --max-time 60 -o "$1" -w '%{http_code} %{time_total}' -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/demo/infer" 2>/dev/null
}
right() { [[ $(ask "$work/got") = 200* ]] && cmp -s "$work/got" "$work/want.bin"; }
reboot() { api POST "/api/v1/boards/$1/reboot"; }
power_loss() { stop "$1" KILL && start_emulated "$1"; }

# round NAME REQUEST SECONDS WHAT BOARD: a deployment, and SECONDS into its push WHAT happens to BOARD.
round() {
    local before
    before=$(pushes)
    api_json POST /api/v1/deployments "$2"
    deployment=$(field .id)
    wait_for 20 more_pushes_than "$before" || fail "$1: it begins to push" "$(body)"
    sleep "$3"
    state_is pushing && in_the_middle=$((in_the_middle + 1))
    "$4" "$5" 2>/dev/null
    check "$1: it becomes active" wait_for 60 state_is active
    check "$1: it answers exactly" wait_for 30 right
}
in_the_middle=0
round a_reset_at_the_start_of_a_push '{"model":"demo","shares":"even"}' 0 reboot b1
round power_loss_in_a_push '{"model":"demo","shares":"even","strategy":"neuron","replace":true}' 0.15 power_loss b2
round power_loss_later_in_a_push '{"model":"demo","replace":true,"boards":["b1","b3"],"shares":"even"}' 0.3 power_loss b3
round a_reset_later_in_a_push '{"model":"demo","replace":true,"shares":"rating"}' 0.3 reboot b2

check_equal some_were_in_the_middle_of_a_push "$((in_the_middle >= 2))" 1

for what in reboot power_loss; do
    said=$(ask "$work/got")
    took=${said#* }
    ask "$work/got" >"$work/said.middle" &
    asked=$!
    sleep "$(awk -v t="$took" 'BEGIN {printf "%.3f", t / 3}')"
    "$what" b1 2>/dev/null
    wait "$asked"
    answer=$(cat "$work/said.middle")
    if [[ $answer = 200* ]]; then
        check "${what}_in_a_run: the answer that was quicker is exact" cmp "$work/got" "$work/want.bin"
    else
        check_match "${what}_in_a_run: 503, soon" "$answer" '^503 [0-9]\.'
        check_match "${what}_in_a_run: with the reason" "$(jq -r .error "$work/got" 2>&1)" '(board|offline|lost)'
    fi
    check "${what}_in_a_run: it answers again" wait_for 60 right
done
check_equal nobody_enrolled_twice "$(cat "$work"/b?.out | grep -ac 'enrolled as')" 3
check_equal nothing_reset_by_itself "$(cat "$work"/b?.out | grep -aE 'reset: ' | grep -acvE 'power on|the server asked')" 0
check_emulation b1 b2 b3
finish
