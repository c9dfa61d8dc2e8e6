#!/usr/bin/env bash
# What must end a start on the board ends it: the null page, the flash and the code as constants, data that is not
# executed, the guard below the stack, the watchdog; and the next start says why. Then: under -no-reboot QEMU ends with 0
# when the board resets, so the status alone never counts as success.
# timeout: 60
. tests/support/lib.sh
truncate -s 16M "$work/flash"
IMAGE=build/firmware/shoal-faults.elf start faults scripts/qemu-board "$work/flash"
said() { grep -q "$1" "$work/faults.out"; }
check all_steps_are_done wait_for 40 said 'faults: done'
stop faults
reason() { # NAME START REGEX
    check_match "$1" "$(sed -n "s/.*start $2: //p" "$work/faults.out" | tr -d '\r')" "^$3"
}
reason the_first_start_is_a_power_on 0 'power on$'
reason address_0_is_nothing 1 'memory fault at 6.*address 00000000'
reason the_null_page_ends_at_256 2 'memory fault at 6.*address 000000fc'
reason flash_is_not_written_by_accident 3 'memory fault at 6.*address 60010000'
reason code_in_itcm_is_not_written 4 'memory fault at 6.*address 00000200'
reason data_is_not_executed 5 'instruction fault'
reason what_is_not_memory_faults 6 '(memory|bus) fault at 6.*address 10000000'
reason the_stack_has_a_guard 7 'stack overflow'
reason an_undefined_instruction_faults 8 'usage fault at 6'
reason the_watchdog_bites_and_says_where 9 'watchdog at 6'
reason a_watchdog_that_is_fed_does_not 10 'the watchdog was fed$'
reason a_reset_is_told_from_a_power_on 11 'software$'
check_equal nothing_passed_unnoticed "$(grep -c 'nothing happened' "$work/faults.out")" 0

truncate -s 16M "$work/flash2"
IMAGE=build/firmware/shoal-faults.elf start once scripts/qemu-board "$work/flash2" -no-reboot
ended() { ! running once; }
wait_for 20 ended
wait "${pids[once]}"
check_equal no_reboot_ends_qemu_with_0_though_the_board_failed \
    "$? $(grep -c 'start 0' "$work/once.out") $(grep -c 'faults: done' "$work/once.out")" "0 1 0"
finish
