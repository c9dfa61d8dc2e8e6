#!/usr/bin/env bash
# The real firmware on three emulated Cortex-M7 boards: they enrol, pull a real model's fragments, and give the exact
# answer over mutual TLS; again after a reset, after power loss, and not with a flipped bit in the flash. Network, TLS,
# store, walker and kernels are those that run on a Teensy.
# timeout: 170
. tests/support/emulated.sh
model=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
"$B/shoal" run "$model" --input "$work/input.bin" --output "$work/want.bin" || { fail reference; finish; }
start_server || finish
for b in b1 b2 b3; do start_emulated $b; done
check boards_enrol_and_come_online wait_for 60 boards_online 3 || finish
measured() { [ "$(curl -sS "$URL/api/v1/boards" | jq '[.items[] | select(.rating.rating_kb_per_s > 0)] | length')" = 3 ]; }
check boards_are_measured wait_for 60 measured
api GET /api/v1/boards/b1
check_equal a_board_says_what_it_is "$(field '"\(.hello.kind) \(.state)"')" "mps2 accepted"
check_equal its_arena_is_a_teensys "$(field '[.hello.regions[] | select(.name == "arena") | .bytes] | add')" 458752
check_equal its_start_was_a_power_on "$(field .hello.reset_reason)" "power on"

"$B/shoal" upload "$model" --name digits >/dev/null 2>"$work/said" || fail upload "$(cat "$work/said")"
api_json POST /api/v1/deployments '{"model":"digits","shares":"even"}'
deployment=$(field .id)
api GET "/api/v1/deployments/$deployment?wait=100"
check_equal deployment_is_active "$STATUS $(field .state)" "200 active"
check_equal three_boards_hold_a_part "$(field '[.boards[] | select(.fragment_bytes > 0)] | length')" 3
ask() { # FILE
    curl -sS --max-time 60 -o "$1" -w '%{http_code}' -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/digits/infer"
}
right() { [ "$(ask "$work/got")" = 200 ] && cmp -s "$work/got" "$work/want.bin"; }
check three_boards_give_the_exact_answer right
api GET /api/v1/inferences?limit=1
high=$(field '[.items[0].timeline[].stack_high_water_bytes] | max')
check_equal a_third_of_the_stack_is_left "$((${high:-99999} < 20480 * 2 / 3))" 1

state_is() { [ "$(curl -s "$URL/api/v1/deployments/$deployment" | jq -r .state)" = "$1" ]; }
pushes() { grep -c 'is pushing' "$work/server.log"; }
before=$(pushes)
api POST /api/v1/boards/b1/reboot
check a_board_resets_when_asked wait_for 20 said b1 'reset: reboot: the server asked'
check it_answers_again wait_for 30 right
board_says_why() { board_is b1 '.hello.reset_reason == "reboot: the server asked"'; }
check it_says_why_it_started wait_for 10 board_says_why
stop b2 KILL
check a_lost_board_is_noticed wait_for 20 state_is degraded
start_emulated b2
check after_power_loss_it_answers_again wait_for 30 right
check_equal nothing_was_pushed_again "$(pushes)" "$before"
check_equal nobody_enrolled_twice "$(said_count b1 'enrolled as') $(said_count b2 'enrolled as')" "1 1"

# A bit of the fragment in b3's flash: the last byte of its first erase block, which lies in the weights.
stop b3 KILL
check its_board_is_missed wait_for 20 state_is degraded
at=$((0x0C0000))
while [ "$(od -An -tx1 -j $at -N 4 "$work/b3.flash" | tr -d ' ')" = ffffffff ]; do at=$((at + 4096)); done
at=$((at + 4095))
old=$(od -An -tu1 -j $at -N 1 "$work/b3.flash" | tr -d ' ')
printf "\\x$(printf %x $((old ^ 16)))" | dd of="$work/b3.flash" bs=1 seek=$at conv=notrunc status=none
start_emulated b3
refused() { said b3 'does not match its hash|is damaged|hash' || grep -q 'hash' "$work/server.log"; }
check a_flipped_bit_is_noticed wait_for 30 refused
never_wrong() { # an answer is right, or there is none
    local i status
    for i in 1 2 3 4 5; do
        status=$(ask "$work/got")
        [ "$status" != 200 ] || cmp -s "$work/got" "$work/want.bin" || return 1
    done
}
check a_damaged_fragment_never_answers never_wrong
check it_is_pulled_again_and_answers wait_for 60 right

golden=derived_cfu_model_mobilenetv2_160_035_to112
if [ -e "$FACTS/models/$golden.tflite" ]; then
    "$B/shoal" upload "$FACTS/models/$golden.tflite" --name mobile >/dev/null 2>"$work/said" || fail upload "$(cat "$work/said")"
    api_json POST /api/v1/deployments '{"model":"mobile"}'
    api GET "/api/v1/deployments/$(field .id)?wait=100"
    check_equal mobilenet_is_active "$STATUS $(field .state)" "200 active"
    curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$FACTS/golden/$golden.in0.bin" "$URL/v2/models/mobile/infer"
    check mobilenet_gives_the_golden_answer cmp "$work/got" "$FACTS/golden/$golden.out0.bin"
else
    skip mobilenet_gives_the_golden_answer "no models in $FACTS"
fi
check_emulation b1 b2 b3
finish
