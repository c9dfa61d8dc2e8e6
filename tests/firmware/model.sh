#!/usr/bin/env bash
# The very image for the Teensy, on a model of its chip (tests/firmware/model): it comes up from rubbish in RAM, step by
# step, to an address by DHCP and the attempt to reach its server; writes its key into a flash that cannot be read
# meanwhile; and when a part of the chip does not answer, says which and starts anew. Then images and chips with one thing
# wrong, which the model must not let pass.
# timeout: 180
. tests/support/lib.sh
elf=build/firmware/shoal-teensy41.elf
check a_page_is_made "$B/shoal" board provision --image build/firmware/shoal-teensy41.hex --output "$work/board.hex" \
    --name desk-1 --server 192.0.2.9:8443 --code "$(printf 'B%.0s' {1..41})A"
board() { # NAME SECONDS [ADDRESS MASK VALUE]: output in $work/NAME
    timeout $((60 * patience)) "$B/model_board" "${image:-$work/board.hex}" "${@:2}" 2>&1 | tr -d '\r' >"$work/$1"
}
said() { grep -qE "$2" "$work/$1"; }

board good 4
check nothing_forbidden_happens said good '^model: ended after'
steps=('console' 'timer' 'memory protection, caches' 'core at 600 MHz' 'random numbers' 'shoal-board teensy41' 'provisioned as desk-1'
    'Ethernet clock: 50 MHz' 'PHY 2000a140 at address 0' 'link: 100 Mbit/s, full duplex' 'network: address 192.0.2.7' 'a new key was made')
missing=""
for step in "${steps[@]}"; do said good "\] .*$step" || missing="$missing, $step"; done
check_equal each_step_is_said "$missing" ""
check it_asks_by_the_address_of_its_fuses said good 'DHCP, discover, from 04:e9:e5:01:02:03'
check it_calls_its_server said good 'TCP to 192.0.2.9:8443, flags 02'
check_match the_flash_is_erased_and_programmed "$(tail -n 1 "$work/good")" ' [1-9][0-9]* erases, [1-9][0-9]* programs, 0 flash resets, MPU on'
check the_loop_sleeps said good ' [1-9][0-9]{2,} sleeps'

# One part of the chip broken at a time: named for a minute, and then another start.
broken() { # NAME TEXT ADDRESS MASK VALUE
    board "$1" "${seconds:-1}" "${@:3}"
    check "$1_is_named" said "$1" "failed: $2"
}
broken voltage 'core voltage does not settle' 0x40080000 0x80000000 0
seconds=70 broken core_pll 'core PLL does not lock' 0x400D8000 0x80000000 0
check after_a_minute_it_starts_anew said core_pll 'model: the board resets itself'
check_equal and_says_it_every_5_s "$(grep -c 'failed: core PLL' "$work/core_pll")" 12
broken bus_divider 'bus divider does not take' 0x400FC048 2 2
broken timer 'timer does not count' 0x401EC024 0xFFFFFFFF 0
broken random_numbers 'random number generator gives no set' 0x400CC000 0x1400 0
broken ethernet_pll 'Ethernet PLL does not lock' 0x400D80E0 0x80000000 0
broken phy 'no PHY answers' 0x402D8040 0xFFFF 0xFFFF
board flash 6 0x402A8100 1 1
check a_flash_that_stays_busy_is_named said flash 'flash is busy before the command'
check it_does_not_stop_the_board said flash '^model: ended after'

# The model judges. A busy bit that lies: the driver returns to code in a flash that cannot be read.
board lie 4 0x402A8100 1 0
check running_from_a_busy_flash_is_noticed said lie '^model: 6[0-9a-f]{7} is (run|read) while the flash is busy'
changed() { # NAME ADDRESS WORD: the image with one word changed
    arm-none-eabi-objcopy -O binary $elf "$work/$1.bin"
    printf '%b' "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($3 & 255)) $(($3 >> 8 & 255)) $(($3 >> 16 & 255)) $(($3 >> 24)))" |
        dd of="$work/$1.bin" bs=1 seek=$(($2 - 0x60000000)) conv=notrunc status=none
    arm-none-eabi-objcopy -I binary -O ihex --change-addresses 0x60000000 "$work/$1.bin" "$work/$1.only"
    "$B/shoal" board provision --image "$work/$1.only" --output "$work/$1.hex" --name x --server 192.0.2.9:8443 \
        --code "$(printf 'B%.0s' {1..41})A" >"$work/$1.log" 2>&1
    image=$work/$1.hex board "$1" 3
}
word_at() { # VALUE FROM TO: where the image has this word
    arm-none-eabi-objdump -s --start-address="$2" --stop-address="$3" -j .text $elf |
        awk -v want="$1" '/^ [0-9a-f]+ / {for (i = 2; i <= 5; i++) if ($i == want) {print "0x" $1 "+" 4 * (i - 2); exit}}'
}
symbol() { arm-none-eabi-nm -S $elf | awk -v name="$1" '$4 == name || ($3 == name && NF == 3) {print "0x" $1; exit}'; }
entry=$(($(symbol m7_entry) & ~1))
at=$(($(word_at abaaaaaa $entry $((entry + 128)))))
changed banks $at 0xAAAAAAAA
check wrong_banks_are_noticed said banks 'before FlexRAM is divided'
# The attributes of uncached data in the MPU's table, made those of cached data.
table=$(($(symbol attributes)))
at=$(($(word_at 00000813 $table $((table + 32)))))
changed cached $at 0x130B0000
check cached_rings_are_noticed said cached "Ethernet controller's memory at [0-9a-f]+ is cached"
finish
