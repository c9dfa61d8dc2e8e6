#!/usr/bin/env bash
# A board that was let in and means harm (hostile_board.c): whatever it says, the server stays up, tells why it dropped
# the link, and goes on serving what the other boards serve.
# timeout: 300
. tests/support/lib.sh

"$B/demo_model" "$work/base.tflite" "$work/input.bin"
"$B/shoal" run "$work/base.tflite" --input "$work/input.bin" --output "$work/want.bin"

ask() { # MODEL: $STATUS, answer in $work/body
    api POST "/v2/models/$1/infer" -H 'Content-Type: application/octet-stream' --data-binary "@$work/input.bin"
}
good_deployment_answers() { ask base && [ "$STATUS" = 200 ] && cmp -s "$work/body" "$work/want.bin"; }
reason() { # a board whose HELLO was refused never was online: it stands among the attempts
    if [ "$1" = bad_hello ]; then
        curl -s "$URL/api/v1/enrolments/attempts" | jq -r '.items[0].reason'
    else
        curl -s "$URL/api/v1/boards/evil-$1" | jq -r .reason
    fi
}
has_reason() { [[ $(reason "$1") =~ [a-z]{4} ]]; }
dropped() { ! running "evil-$1"; }

# evil ROLE [yes: it is to be dropped]
evil() {
    local role=$1 id
    start "evil-$role" "$B/hostile_board" 127.0.0.1 "${BOARD_ADDRESS##*:}" "$work/evil-$role" "$CODE" "evil-$role" \
        "$role" 60
    if [[ ! $role =~ ^(bad_hello|garbage|lying_length|huge_beat)$ ]]; then
        wait_for 10 boards_online 3 || fail "$role: comes online" "$(cat "$work/evil-$role.log")"
        api_json POST /api/v1/deployments \
            "{\"model\":\"other\",\"boards\":[\"evil-$role\",\"b1\"],\"shares\":\"even\",\"tags\":[\"$role\"]}"
        id=$(field .id)
        check_match "$role: a deployment on it is taken" "$STATUS" '20[02]'
    fi
    good_deployment_answers || fail "$role: the other deployment is served" "$STATUS $(head -c 200 "$work/body")"
    if [ "${2:-}" = yes ]; then
        if wait_for 20 dropped "$role"; then
            wait "${pids[evil-$role]}"
            check_equal "$role: the link is dropped" "$?" 0
            unset "pids[evil-$role]"
            check_match "$role: with a reason" "$(wait_for 5 has_reason "$role"; reason "$role")" '[a-z]'
        else
            fail "$role: the link is dropped" "$(curl -s "$URL/api/v1/boards/evil-$role")"
        fi
    else
        sleep 2
        check "$role: the link stays" running "evil-$role"
        stop "evil-$role" KILL
    fi
    good_deployment_answers || fail "$role: the other deployment is still served" "$STATUS $(head -c 200 "$work/body")"
    [ -z "${id:-}" ] || api POST "/api/v1/deployments/$id/retire"
    check "$role: the server is up" running server
}

start_server || finish
for b in b1 b2; do start_board $b; done
wait_for 30 boards_online 2 || { fail boards_come_online; finish; }
api PUT /api/v1/models/base -T "$work/base.tflite"
api PUT /api/v1/models/other -T "$work/base.tflite"
api_json POST /api/v1/deployments '{"model":"base","boards":["b1","b2"]}'
api GET "/api/v1/deployments/$(field .id)?wait=60"
check_equal good_deployment_is_active "$STATUS" 200
[ "$STATUS" = 200 ] || finish
for role in garbage lying_length bad_hello huge_beat wrong_want wrong_order foreign early_done too_much answered_twice mute; do
    evil $role yes
done
for role in failed_long log_flood; do evil $role; done
stop server
check_equal server_ends_with_0 "$EXIT" 0
check_equal no_sanitizer_spoke "$(grep -hE 'Sanitizer|runtime error' "$work"/*.log)" ""
finish
