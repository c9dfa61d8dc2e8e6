#!/usr/bin/env bash
# The Teensy's image, headers and all, with the drivers of mps2, as the one .hex that its loader takes: `shoal board
# provision` writes it, QEMU boots it behind a stub of the boot ROM (tests/firmware/rom.c); it enrols, takes a fragment, answers bit-exact, and after a reboot through
# the ROM goes on with what its flash holds. A damaged header is refused by the stub.
# timeout: 180
. tests/support/lib.sh
digits=models/digits.tflite
head -c 784 /dev/urandom >"$work/input.bin"
check reference "$B/shoal" run $digits --input "$work/input.bin" --output "$work/want.bin"
start_server || finish
check one_file_holds_image_and_page "$B/shoal" board provision --image build/firmware/teensy41-in-qemu.hex \
    --output "$work/t41.hex" --name t41 --server "10.0.2.2:${BOARD_ADDRESS##*:}" --accept
truncate -s 16M "$work/flash"
IMAGE=build/firmware/rom.elf start t41 scripts/qemu-board "$work/flash" -device "loader,file=$work/t41.hex"
said() { grep -qE "$1" "$work/t41.out"; }
count() { grep -cE "$1" "$work/t41.out"; }
check the_rom_takes_the_headers wait_for 20 said 'rom: to the image'
check the_page_is_read wait_for 20 said 'provisioned as t41'
check it_enrols wait_for 60 said 'enrolled as board'
check it_is_online wait_for 60 boards_online 1
api PUT /api/v1/models/digits -T $digits
api_json POST /api/v1/deployments '{"model":"digits","boards":["t41"]}'
api GET "/api/v1/deployments/$(field .id)?wait=60"
check_equal it_takes_a_fragment "$STATUS $(field .state)" "200 active"
right() {
    curl -sS --max-time 60 -o "$work/got" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/digits/infer" && cmp -s "$work/got" "$work/want.bin"
}
check the_answer_is_bit_exact right
api POST /api/v1/boards/t41/reboot
twice() { [ "$(count 'rom: to the image')" = 2 ] && [ "$(count 'online as t41')" = 2 ]; }
check it_reboots_through_the_rom wait_for 60 twice
check it_is_not_enrolled_again test "$(count 'enrolled as board')" = 1
check the_answer_is_bit_exact_again wait_for 30 right
stop t41

# The stub does judge: the same image with one byte of its table changed does not start.
line=$(grep '^:10100000D1002043' build/firmware/teensy41-in-qemu.hex | tr -d '\r')
other=$(printf '%s%02X' ":10100000D2002043${line:17:24}" $(((16#${line:41:2} - 1) & 255)))
sed "s/^$line/$other/" build/firmware/teensy41-in-qemu.hex >"$work/damaged.hex"
check a_byte_was_changed test "$(cmp -l build/firmware/teensy41-in-qemu.hex "$work/damaged.hex" | wc -l)" = 2 # and the record's sum
truncate -s 16M "$work/flash2"
IMAGE=build/firmware/rom.elf start damaged scripts/qemu-board "$work/flash2" -device "loader,file=$work/damaged.hex"
refused() { grep -q 'rom: no image vector table' "$work/damaged.out"; }
check a_damaged_header_is_refused wait_for 20 refused
finish
