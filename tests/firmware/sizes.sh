#!/usr/bin/env bash
# The images keep within their budgets, and a memory that is over is noticed and named.
. tests/support/lib.sh
images="build/firmware/shoal-mps2.elf build/firmware/shoal-teensy41.elf"
# shellcheck disable=SC2086 # two words
said=$(scripts/firmware-sizes $images)
check_equal images_keep_within_their_budgets "$? $(grep -c OVER <<<"$said") $(grep -c ' of ' <<<"$said")" "0 0 12"
mkdir "$work/bin"
real=$(command -v arm-none-eabi-size)
over() { # NAME SECTION BYTES LINE-OF-REPORT
    printf '#!/bin/sh\n%s "$@" | sed -E "s/^(%s +)[0-9]+/\\\\1%s/"\n' "$real" "$2" "$3" >"$work/bin/arm-none-eabi-size"
    chmod +x "$work/bin/arm-none-eabi-size"
    said=$(PATH="$work/bin:$PATH" scripts/firmware-sizes build/firmware/shoal-mps2.elf 2>&1)
    check_match "$1" "$? $(grep OVER <<<"$said")" "^1 +$4.*OVER"
}
over code_over_its_budget_is_named '\.text' 262145 'code in flash'
over kernels_over_their_budget_are_named '\.itcm' 32769 'kernels in ITCM'
over network_memory_over_its_budget_is_named '\.net' 262145 'lwIP'
over stack_and_data_over_their_budget_are_named '\.bss' 32769 'stack and data'
finish
