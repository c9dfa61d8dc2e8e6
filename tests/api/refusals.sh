#!/usr/bin/env bash
# Refusals that people read: too few boards, what does not fit, boards that may not be used; codes and certificates that
# are wrong, used, expired or revoked; the command line's exit codes.
# timeout: 200
. tests/support/lib.sh
"$B/demo_model" "$work/demo.tflite" "$work/input.bin" || { fail model; finish; }
start_server || finish
api PUT /api/v1/models/demo -T "$work/demo.tflite"
shoal() { "$B/shoal" "$@" >"$work/out" 2>"$work/err"; }
exits() { # NAME WANTED COMMAND
    local name=$1 want=$2
    shift 2
    shoal "$@"
    local got=$?
    if [ "$got" = "$want" ]; then pass "$name"; else fail "$name" "exit $got, expected $want: $(cat "$work/err")"; fi
}

# ---- without boards ----
api_json POST /api/v1/plans '{"model":"demo"}'
check_equal plan_without_boards_is_refused "$STATUS $(field .error.code)" "422 too_few_boards"
check_match and_says_what_is_missing "$(field .error.message)" 'no board is accepted, online'
exits deploy_without_boards_exits_1 1 deploy demo --wait 30
check_match and_says_why "$(cat "$work/err")" 'no board is accepted, online'
exits what_is_refused_at_once_never_was_a_deployment 0 status

# ---- codes ----
check_equal a_wrong_code_is_no_code "$(timeout 20 "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/w" --name w --code AAAAAA-AAAAAA 2>&1 | grep -ciE 'code' | sed 's/[1-9][0-9]*/some/')" some
shoal enrol --json --uses 1 --name-prefix lab-
once=$(jq -r .code "$work/out")
check_match code_expires "$(jq -r .expires_at "$work/out")" 'Z$'
start p1 "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/p1" --name p1 --code "$once"
pending() { [ "$(curl -sS "$URL/api/v1/boards" | jq '[.items[] | select(.state == "pending")] | length')" = 1 ]; }
check a_board_waits_to_be_accepted wait_for 20 pending
name=$(curl -sS "$URL/api/v1/boards" | jq -r '.items[0].name')
check_match prefix_is_in_the_name "$name" '^lab-'
api GET /api/v1/attention
check_equal a_pending_board_needs_a_person "$(field '[.items[] | select(.kind == "board")] | length')" 1
api_json POST /api/v1/plans "{\"model\":\"demo\",\"boards\":[\"$name\"]}"
check_match a_pending_board_is_not_used "$STATUS $(field .error.message)" '422 .*is not accepted'
exits board_accept_exits_0 0 board accept "$name"
api GET "/api/v1/boards/$name"
check_equal now_it_is_accepted "$(field .state)" accepted
start p2 "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/p2" --name p2 --code "$once"
attempt() { curl -sS "$URL/api/v1/enrolments/attempts" | jq -e --arg c "$1" '.items[] | select(.code == $c)'; }
check a_used_code_is_refused wait_for 20 attempt code_used
stop p2
api_json POST /api/v1/enrolments '{"ttl_s":1}'
old=$(field .code)
sleep 1.2
start p3 "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/p3" --name p3 --code "$old"
check an_expired_code_is_refused wait_for 20 attempt code_expired
check_match attempts_say_what_to_do "$(attempt code_expired | jq -r .action)" '[a-z]'
stop p3
api_json POST /api/v1/enrolments '{}'
api DELETE "/api/v1/enrolments/$(field .id)"
check_equal a_code_can_be_withdrawn "$STATUS" 200

# ---- what does not fit ----
start_board tiny --ram 3K
start_board small --ram 64K --flash 64K
check boards_come_online wait_for 30 boards_online 3
shortfall='.error.detail.shortfalls[0]'
api_json POST /api/v1/plans '{"model":"demo","boards":["tiny"]}'
check_equal too_little_ram_does_not_fit "$STATUS $(field .error.code) $(field "$shortfall.resource")" "422 does_not_fit arena"
check_equal shortfall_adds_up "$(field "$shortfall | .need_bytes - .have_bytes == .missing_bytes and .missing_bytes > 0")" true
check_match shortfall_names_the_layer "$(field .error.detail.op)$(field "$shortfall.op")" '[a-z]'
api_json POST /api/v1/plans '{"model":"demo","boards":["small"]}'
check_equal too_little_flash_does_not_fit "$STATUS $(field .error.code) $(field "$shortfall.resource")" "422 does_not_fit flash"
exits deploy_that_does_not_fit_exits_1 1 deploy demo --boards tiny --wait 30 --json
check_equal and_prints_the_refusal_as_json "$(jq -r .error.code "$work/out")" does_not_fit
api_json POST /api/v1/deployments '{"model":"demo","boards":["small"]}'
check_equal a_deployment_that_does_not_fit_is_refused_at_once "$STATUS $(field .error.code) $(field "$shortfall.resource")" "422 does_not_fit flash"
check_equal with_the_detail_of_the_dry_run "$(field '.error.detail | (.shortfalls | length) == 1 and (.try | length) > 0 and .missing_bytes > 0')" true
for path in plans deployments; do
    api_json POST "/api/v1/$path" '{"model":"demo","strategy":"strips"}'
    check_match "$path: a strategy that is not there yet is refused" "$STATUS $(field .error.code) $(field .error.message)" "^422 strategy_unsupported .*'strips'"
done
check_equal and_there_is_no_deployment "$(curl -sS "$URL/api/v1/deployments" | jq '.items | length')" 0
api_json POST /api/v1/plans '{"model":"demo","boards":["nobody"]}'
check_equal an_unknown_board_is_refused "$STATUS" 404
api_json POST /api/v1/plans '{"model":"demo","boards":["tiny","tiny"]}'
check_match a_board_twice_is_refused "$STATUS $(field .error.message)" '400 .*twice'
api_json POST /api/v1/deployments '{"model":"demo","boards":["nobody"]}'
check_equal a_deployment_over_an_unknown_board_is_refused_at_once "$STATUS" 404
api_json POST /api/v1/deployments '{"model":"demo","boards":["small","small"]}'
check_equal a_deployment_over_a_board_twice_is_refused_at_once "$STATUS" 400

# ---- revoked ----
api POST /api/v1/boards/tiny/revoke
check_equal revoke_is_done "$STATUS $(field .state)" "200 revoked"
gone() { [ "$(curl -sS "$URL/api/v1/boards/tiny" | jq -r .link)" = offline ]; }
check revoked_board_is_dropped_within_a_second wait_for 1 gone
check revoked_certificate_is_refused wait_for 20 attempt certificate_revoked
api POST /api/v1/boards/tiny/probe
check_match an_offline_board_is_not_probed "$STATUS $(field .error.code)" '503 offline'
api POST /api/v1/boards/small/dance
check_equal an_unknown_act_is_404 "$STATUS" 404
stop tiny
start_board other
check boards_come_online_again wait_for 20 boards_online 3
api PATCH /api/v1/boards/other -H 'Content-Type: application/json' -d '{"name":"small"}'
check_equal a_name_is_used_once "$STATUS $(field .error.code)" "409 conflict"
api PATCH /api/v1/boards/other -H 'Content-Type: application/json' -d '{"location":"shelf","tags":["a","b"]}'
check_equal location_and_tags_are_kept "$STATUS $(field .location) $(field '.tags | join(" ")')" "200 shelf a b"

# ---- the command line ----
exits upload_exits_0 0 upload "$work/demo.tflite" --name cli --wait --json
check_equal upload_prints_one_document "$(jq -r .version "$work/out")" "$(sha256sum <"$work/demo.tflite" | cut -d ' ' -f 1)"
exits upload_of_no_file_exits_1 1 upload "$work/nothing.tflite"
exits upload_under_a_bad_name_exits_1 1 upload "$work/demo.tflite" --name Bad/Name
head -c 20000 "$work/demo.tflite" >"$work/half.tflite"
exits upload_of_a_truncated_model_exits_1 1 upload "$work/half.tflite" --json
check_match refusal_names_the_offset "$(jq -c .error "$work/out")" 'model_malformed.*offset'
exits deploy_exits_0 0 deploy cli --boards other,small --wait 60
check_match deploy_names_the_boards "$(cat "$work/out")" 'is active, generation 1, on '
exits deploy_of_an_unknown_model_exits_1 1 deploy nothing
exits deploy_of_an_unknown_version_exits_1 1 deploy cli@ffffffffffff
exits wrong_usage_exits_2 2 deploy
exits wrong_choice_exits_2 2 deploy cli --strategy magic
exits wrong_address_exits_1 1 status --url ftp://x
exits nobody_there_exits_3 3 status --url http://127.0.0.1:1
exits board_list_exits_0 0 board
check_match board_list_names_them "$(cat "$work/out")" 'other'
exits board_rename_exits_0 0 board rename other renamed
exits status_prints_json 1 status --json
check_equal status_has_its_keys "$(jq -c 'keys' "$work/out")" '["attention","boards","deployments"]'
stop server
exits server_gone_exits_3 3 status
finish
