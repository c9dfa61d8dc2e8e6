#!/usr/bin/env bash
# `replace`: a board takes the place of another with its name, place, tags and its parts of every deployment. The same
# fragments are pushed and verified, the answers stay bit-exact, the former board is drained; what cannot be is refused
# with numbers and changes nothing.
# timeout: 200
. tests/support/lib.sh
digits=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
check reference "$B/shoal" run $digits --input "$work/input.bin" --output "$work/want.bin"
start_server || finish
for board in b1 b2 b3; do start_board "$board" --flash 160K; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
id_of() { curl -sS "$URL/api/v1/boards/$1" | jq -r .id; }
deploy() { # MODEL BODY: prints state and generation
    api_json POST /api/v1/deployments "$2"
    deployment=$(field .id)
    api GET "/api/v1/deployments/$deployment?wait=90"
}
right() { # MODEL
    curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/$1/infer" && cmp -s "$work/got" "$work/want.bin"
}
fragments() { jq -c '[.boards[] | [.name, .fragment]]' "$work/body"; }
api PUT /api/v1/models/digits -T $digits
b1=$(id_of b1) b2=$(id_of b2) b3=$(id_of b3)
api_json PATCH "/api/v1/boards/$b2" '{"location":"shelf 4","tags":["left"]}'
# Named in the request: by id, by name; a replan after the replacement must still find them.
deploy digits "{\"model\":\"digits\",\"boards\":[\"$b1\",\"b2\",\"$b3\"]}"
check_equal deployed_on_three "$STATUS $(field .state) $(field .generation)" "200 active 1"
first=$deployment before=$(fragments)
check answers_before right digits

start_board spare --flash 160K
start_board small --flash 32K
start_board tiny --ram 2K
wait_for 30 boards_online 6 || fail spares_come_online
start pending "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/pending" --name pending \
    --code "$("$B/shoal" enrol --json | jq -r .code)"
wait_for 30 boards_online 7 || fail pending_comes_online
replace() { api_json POST "/api/v1/boards/$1/replace" "$2"; }
refusal() { # NAME STATUS REGEX
    check_match "$1" "$STATUS $(field .error.message)" "^$2 .*$3"
}
replace nobody '{"by":"spare"}'
refusal unknown_board_is_refused 404 nobody
replace b2 '{"by":"nobody"}'
refusal unknown_successor_is_refused 404 nobody
replace b2 '{}'
refusal successor_must_be_named 400 by
replace b2 '{"by":"b2"}'
refusal itself_is_refused 400 'cannot take its own place'
replace b2 '{"by":"pending"}'
refusal pending_board_is_refused 409 'pending.*accepted'
replace pending '{"by":"spare"}'
refusal a_board_without_a_place_is_refused 409 'never accepted'
replace b2 '{"by":"b3"}'
refusal a_board_has_one_part_of_a_deployment 409 "'b3' has a part of the deployment of 'digits'"
replace b2 '{"by":"small"}'
refusal too_little_flash_is_refused 422 'small.*bytes of flash and has'
check_equal with_the_numbers "$(field '.error.detail | .resource == "flash" and .board == "small" and .need_bytes - .have_bytes == .missing_bytes and .missing_bytes > 0')" true
replace b2 '{"by":"tiny"}'
refusal too_little_arena_is_refused 422 'tiny.*bytes of arena and has'
check_equal arena_with_the_numbers "$(field '.error.detail | .resource == "arena" and .missing_bytes > 0')" true
api GET "/api/v1/deployments/$first"
check_equal a_refusal_changes_nothing "$(field .state) $(field .generation) $(fragments)" "active 1 $before"

# A successor that goes before it has its fragment changes nothing, and the former layout answers all the time.
ask_on() { # counts what came until $work/over is there
    while [ ! -e "$work/over" ]; do
        right digits && echo right >>"$work/answers" || echo wrong >>"$work/answers"
    done
}
answers() { sort "$work/answers" | uniq -c | awk '{print $2}' | xargs; }
story() { curl -sS "$URL/api/v1/deployments/$first" | jq -r '"\(.state) \(.generation)"'; }
storing() { [ "$(curl -sS "$URL/api/v1/boards/$1" | jq -r .link)" = "$2" ]; }
ask_on &
asking=$!
start_board fails --flash 160K
wait_for 30 storing fails online || fail the_one_that_fails_comes_online
kill -STOP "${pids[fails]}"
"$B/shoal" board replace b2 fails >/dev/null 2>"$work/said" &
replacing=$!
sleep 2
check_equal nothing_changes_while_it_is_pushed "$(story)" "active 1"
stop fails KILL
wait "$replacing"
check_equal successor_that_goes_is_told_of "$? $(grep -c "'fails' did not take its fragment, and nothing was changed" "$work/said")" "3 1"
check_equal its_end_changes_nothing "$(story) $(curl -sS "$URL/api/v1/boards/b2" | jq -r '"\(.id) \(.drained)"')" "active 1 $b2 false"

# An online board first: by the command, as a user does. It is slow to take its fragment.
spare=$(id_of spare)
kill -STOP "${pids[spare]}"
"$B/shoal" board replace b2 spare >"$work/said" 2>&1 &
replacing=$!
sleep 2
check_equal nothing_changes_before_it_has_its_fragment "$(story)" "active 1"
kill -CONT "${pids[spare]}"
wait "$replacing"
check_equal shoal_board_replace "$?" 0
api GET "/api/v1/deployments/$first?wait=60"
sleep 1
: >"$work/over"
wait "$asking"
check_equal nobody_noticed "$(answers)" right
check_equal many_asked "$([ "$(wc -l <"$work/answers")" -gt 20 ] && echo yes)" yes
api GET "/api/v1/deployments/$first"
check_equal active_again_as_the_next_generation "$STATUS $(field .state) $(field .generation)" "200 active 2"
check_equal the_same_fragments_under_the_same_names "$(fragments)" "$before"
check_equal on_the_new_board "$(field '.boards[1].board')" "$spare"
check answers_bit_exact_after_the_swap right digits
api GET /api/v1/boards/b2
check_equal new_board_has_the_place "$(field .id) $(field .location) $(field '.tags[0]') $(field .drained)" "$spare shelf 4 left false"
api GET "/api/v1/boards/$b2"
check_equal former_board_is_drained "$(field .name) $(field .drained) $(field .in_use) $(field .safe_to_unplug)" "b2-old true false true"
check_equal the_event_says_why "$(curl -sS "$URL/api/v1/deployments/$first" | jq '[.events[] | select(.reason | test("took the place of b2"))] | length')" 1
flash_of() { curl -sS "$URL/api/v1/boards/$1" | jq '.flash_used_bytes'; }
emptied() { [ "$(flash_of "$b2")" = 0 ]; }
check former_board_gives_its_flash_back wait_for 30 emptied
api POST "/api/v1/deployments/$first/replan"
api GET "/api/v1/deployments/$first?wait=60"
check_equal a_replan_finds_the_named_boards "$(field .state) $(field .generation) $(field '[.boards[].board] | sort == (["'"$b1"'","'"$spare"'","'"$b3"'"] | sort)')" "active 3 true"

# A dead board: degraded, then active on the one that takes its place, here the former one again.
stop b3 KILL
degraded() { [ "$(curl -sS "$URL/api/v1/deployments/$first" | jq -r .state)" = degraded ]; }
check degraded_without_it wait_for 15 degraded
replace b1 '{"by":"b3"}'
refusal an_offline_successor_is_refused 503 'b3.*offline'
replace b3 '{"by":"b2-old"}'
check_equal a_dead_board_is_replaced "$STATUS $(field .name) $(field .id)" "200 b3 $b2"
api GET "/api/v1/deployments/$first?wait=60"
check_equal active_on_the_third "$(field .state) $(field .generation)" "active 4"
check answers_bit_exact_after_the_second right digits

# Paused stays paused; after a restart all is as it was.
api POST "/api/v1/deployments/$first/pause"
replace b1 '{"by":"tiny"}'
refusal paused_ones_count_too 422 arena
start_board fresh --flash 200K
wait_for 30 curl -sf "$URL/api/v1/boards/fresh" || fail fresh_comes
fresh_online() { [ "$(curl -sS "$URL/api/v1/boards/fresh" | jq -r .link)" = online ]; }
wait_for 30 fresh_online
replace b1 '{"by":"fresh"}'
check_equal paused_board_is_replaced "$STATUS" 200
api GET "/api/v1/deployments/$first"
check_equal paused_stays_paused "$(field .state) $(field .generation)" "paused 5"
stop server
start_server || finish
api POST "/api/v1/deployments/$first/resume"
active() { [ "$(curl -sS "$URL/api/v1/deployments/$first" | jq -r .state)" = active ]; }
check resumes_on_the_new_board wait_for 60 active
check answers_bit_exact_after_a_restart right digits

# The deployment that a rollback takes up follows too: its board may be gone for good.
check_equal no_former_deployment_yet "$(curl -sS "$URL/api/v1/deployments/$first" | jq -c .former)" null
deploy digits '{"model":"digits","shares":"even","replace":true,"boards":["b1","b2","b3"]}'
second=$deployment
check_equal another_deployment_is_active "$(field .state) $(field .former)" "active $first"
replace b2 '{"by":"b1-old"}'
check_equal both_change "$STATUS $(curl -sS "$URL/api/v1/deployments/$first" | jq -c '[.state, .boards[1].board, .generation]')" "200 [\"retired\",\"$b1\",6]"
api GET "/api/v1/deployments/$second?wait=60"
check_equal the_living_one_is_active "$(field .state)" active
stop spare KILL # the one that was b2
api POST "/api/v1/deployments/$second/rollback"
api GET "/api/v1/deployments/$first?wait=60"
check_equal rolled_back_without_the_former_board "$(field .state)" active
check answers_bit_exact_after_the_rollback right digits
finish
