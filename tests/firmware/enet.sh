#!/usr/bin/env bash
# The Teensy's Ethernet driver against QEMU's model of the same controller (imx.enet on mcimx6ul-evk): the board, its
# lwIP and its TLS over it enrol with a real server, take a fragment and give bit-exact answers; frames
# wake it; the cable is pulled and put back.
# timeout: 180
. tests/support/lib.sh
digits=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
check reference "$B/shoal" run $digits --input "$work/input.bin" --output "$work/want.bin"
start_server || finish
enrol_code
"$B/emulated_flash" "$work/flash" a7 "10.0.2.2:${BOARD_ADDRESS##*:}" "$CODE"
# QEMU's monitor: commands in through 8, answers to where nobody reads.
mkfifo "$work/monitor.in" "$work/monitor.out"
exec 8<>"$work/monitor.in" 9<>"$work/monitor.out"
board() {
    # -nic names the first controller's link; what the second has no peer for is of no interest.
    exec qemu-system-arm -M mcimx6ul-evk -m 512 -display none -serial stdio -chardev serial,id=random,path=/dev/urandom \
        -serial chardev:random -chardev pipe,id=monitor,path="$work/monitor" -mon chardev=monitor \
        -nic user,id=n0,model=imx.enet -kernel build/firmware/enet.elf \
        -device "loader,file=$work/flash,addr=0x90000000,force-raw=on"
}
start a7 board
said() { grep -qE "$1" "$work/a7.out"; }
check the_phy_is_found_by_its_id wait_for 20 said 'PHY 0007c0d. at address 2'
check the_link_is_negotiated wait_for 20 said 'link: 100 Mbit/s, full duplex'
check it_enrols_over_tls wait_for 40 said 'enrolled as board'
check it_is_online wait_for 40 boards_online 1
deploy() { # BODY
    api_json POST /api/v1/deployments "$1"
    api GET "/api/v1/deployments/$(field .id)?wait=60"
}
right() {
    curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/digits/infer" && cmp -s "$work/got" "$work/want.bin"
}
api PUT /api/v1/models/digits -T $digits
deploy '{"model":"digits","boards":["a7"]}'
check_equal it_takes_a_fragment "$STATUS $(field .state)" "200 active"
for i in 1 2 3 4 5; do check "answer_${i}_is_bit_exact" right; done

# What the driver counted: nothing lost, and frames end sleeps by the controller's interrupt.
last() { grep 'enet: received' "$work/a7.out" | tail -n 1 | tr -d '\r'; }
number() { last | sed -nE "s/.* $1 ([0-9]+).*/\1/p"; }
sleep 0.6
check_equal no_frame_is_damaged "$(number damaged) $(number restarts)" "0 0"
check frames_raise_the_interrupt test "$(number interrupts)" -gt 10
check no_send_ever_finds_the_ring_full test "$(number refused)" = 0

echo 'set_link n0 off' >&8
check a_pulled_cable_is_noticed wait_for 20 said 'link: down'
check the_server_notices wait_for 60 boards_online 0
echo 'set_link n0 on' >&8
relinked() { [ "$(grep -c 'link: 100 Mbit/s, full duplex' "$work/a7.out")" = 2 ]; }
check a_cable_put_back_is_noticed wait_for 20 relinked
check it_comes_back wait_for 60 boards_online 1
check_answers() { wait_for 20 right; }
check answers_are_bit_exact_again check_answers
check nothing_was_reset test "$(grep -c 'reset: power on' "$work/a7.out")" = 1
finish
