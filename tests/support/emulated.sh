# shellcheck shell=bash
# For the scripts in tests/firmware: emulated boards beside tests/support/lib.sh. A board's flash is $work/NAME.flash, its
# console $work/NAME.out; both go on over its starts.
. tests/support/lib.sh

# provision NAME: the flash of a new board, with a code; of a known one only the server's address anew.
provision() {
    local code=-
    [ -e "$work/$1.flash" ] || { enrol_code && code=$CODE; }
    "$B/emulated_flash" "$work/$1.flash" "$1" "10.0.2.2:${BOARD_ADDRESS##*:}" "$code"
}
# start_emulated NAME [QEMU OPTION ...]
start_emulated() {
    local name=$1
    shift
    provision "$name" || fail "provision_$name"
    scripts/qemu-board "$work/$name.flash" "$@" >>"$work/$name.out" 2>>"$work/$name.log" </dev/null &
    pids[$name]=$!
}
# start_process NAME: the same code as a process of this machine, under the sanitizers (firmware/port/slirp)
start_process() {
    provision "$1" || fail "provision_$1"
    build/firmware/slirp-board "$work/$1.flash" >>"$work/$1.out" 2>>"$work/$1.log" </dev/null &
    pids[$1]=$!
}
# said NAME REGEX: on its console, in any of its starts. said_count NAME REGEX
said() { grep -aqE "$2" "$work/$1.out"; }
said_count() { grep -acE "$2" "$work/$1.out"; }
board_is() { # NAME JQ-FILTER: true of the board as the server has it
    [ "$(curl -s "$URL/api/v1/boards/$1" | jq "$2")" = true ]
}
# Each way of losing a frame in the emulated network card, or of a board ending by itself, is a failure.
check_emulation() {
    local name
    for name in "$@"; do
        check_equal "${name}_loses_no_frame" "$(grep -c 'Failed to send packet' "$work/$name.log")" 0
        check "${name}_runs_at_the_end" running "$name"
    done
}
# The consoles too, when something failed.
consoles_at_exit() {
    if [ "$failures" != 0 ]; then
        for log in "$work"/*.out; do [ -s "$log" ] && echo "# --- ${log##*/}" && tail -n 25 "$log" | tr -d '\r' | sed 's/^/# /'; done
    fi
    at_exit
}
trap consoles_at_exit EXIT
