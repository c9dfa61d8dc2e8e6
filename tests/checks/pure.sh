#!/usr/bin/env bash
# shared/ and firmware/core run on boards: no allocation, no input or output, no operating system. The objects may refer
# to each other, to <string.h> and to the compiler's own helpers, and to nothing else. Where clang is installed the
# sources are also compiled for a Cortex-M7 against a <string.h> of ours and no other header of a C library.
set -u
failed=0
objects=$(make --no-print-directory -s B="$B" SANITIZE="${SANITIZE:-}" SHOAL_SETUP=skip pure-objects | tail -n 1)
allowed='^(mem(cpy|move|set|cmp|chr)|str(n?len|n?cmp))$'
allowed_helpers='^(__(memcpy|memmove|memset|strncpy)_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__cpu_(model|indicator_init)|__(asan|ubsan|sanitizer)_.*)$'

# shellcheck disable=SC2086 # lists of words
foreign=$(nm -g $objects | awk -v allowed="$allowed" -v helpers="$allowed_helpers" '
    /:$/ { file = $0; next }
    NF == 3 { defined[$3] = 1 }
    $1 == "U" { used[$2] = used[$2] " " file }
    END { for (s in used) if (!(s in defined) && s !~ allowed && s !~ helpers) print s " in" used[s] }')
if [ -n "$objects" ] && [ -z "$foreign" ]; then
    echo "ok - boards_code_refers_to_nothing_outside_itself"
else
    echo "$foreign"
    echo "not ok - boards_code_refers_to_nothing_outside_itself"
    failed=1
fi

# Writable data would be shared by all boards of one process, and costs RAM on a real one.
# shellcheck disable=SC2086
writable=$(objdump -h $objects | awk '/file format/ {file = $1} $2 ~ /^\.(data|bss|tdata|tbss)/ && $2 !~ /^\.data\.rel\.ro/ && $3 !~ /^0+$/ {print file " " $2}')
if [ -n "${SANITIZE:-}" ] || [ -z "$writable" ]; then
    echo "ok - boards_code_keeps_no_state_of_its_own"
else
    echo "$writable"
    echo "not ok - boards_code_keeps_no_state_of_its_own"
    failed=1
fi

if [ -z "${SANITIZE:-}" ] && command -v clang >/dev/null; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    bad=0
    for source in shared/*/*.c firmware/core/*.c; do
        [ -e "$source" ] || continue
        clang --target=thumbv7em-none-eabihf -mcpu=cortex-m7 -std=c11 -O2 -ffreestanding -nostdlibinc \
            -Itests/checks/freestanding -I. -Wall -Wextra -Wvla -Werror -c "$source" -o "$out/o.o" || bad=1
    done
    if [ $bad = 0 ]; then
        echo "ok - boards_code_compiles_for_a_cortex_m7"
    else
        echo "not ok - boards_code_compiles_for_a_cortex_m7"
        failed=1
    fi
fi
exit $failed
