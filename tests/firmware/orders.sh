#!/usr/bin/env bash
# What a fleet's keeper does with an emulated board, from the page that `shoal board provision` writes on: a static address,
# a second server, a name, identify, the cable out and in again, revoking, and a board that was provisioned for nobody.
# long: it waits until a board without cable is missed
# timeout: 170
. tests/support/emulated.sh
start_server || finish
enrol_code
blank() { head -c 16777216 /dev/zero | tr '\0' '\377' >"$work/$1.flash"; }
# keyed NAME [PROVISION OPTION ...]: a new board whose page comes from the command line; its monitor is a pipe.
keyed() {
    local name=$1
    shift
    blank "$name"
    "$B/shoal" board provision --output "$work/$name.hex" --code "$CODE" --name "$name" "$@" --url "$URL" \
        >/dev/null 2>"$work/said" || fail "provision_$name" "$(cat "$work/said")"
}
run_keyed() {
    mkfifo "$work/$1.monitor.in" "$work/$1.monitor.out" 2>/dev/null
    cat "$work/$1.monitor.out" >/dev/null &
    pids[monitor-$1]=$!
    scripts/qemu-board "$work/$1.flash" -device "loader,file=$work/$1.hex" -chardev "pipe,id=m,path=$work/$1.monitor" \
        -mon chardev=m >>"$work/$1.out" 2>>"$work/$1.log" </dev/null &
    pids[$1]=$!
}
order() { echo "$2" >"$work/$1.monitor.in"; }

dead=10.0.2.2:9 # nobody listens on the discard port
keyed static --server "10.0.2.2:${BOARD_ADDRESS##*:}" --static 10.0.2.77/24 --gateway 10.0.2.2 --dns 10.0.2.3
keyed second --server "$dead,10.0.2.2:${BOARD_ADDRESS##*:}"
run_keyed static
run_keyed second
check they_come_online wait_for 60 boards_online 2 || finish
check the_static_address_is_used said static 'address 10\.0\.2\.77'
check the_first_server_is_tried said second "no link to $dead|not enrolled: the connection was refused"

api POST /api/v1/boards/static/identify
check identify_is_heard wait_for 10 said static 'identify: this is static'
api_json PATCH /api/v1/boards/static '{"name":"kitchen"}'
check_equal a_name_is_given "$STATUS" 200
stop static KILL
run_keyed static
check the_name_lasts wait_for 30 said static 'online as kitchen'

order second 'set_link n0 off'
check the_cable_out_is_told wait_for 10 said second 'the cable is out'
sleep 3
order second 'set_link n0 on'
check the_cable_in_is_told wait_for 10 said second 'cable is in'
still_there() { board_is second '.link == "online"' && ! said second 'the link is gone'; }
sleep 2
check a_short_break_is_survived still_there
order second 'set_link n0 off'
missed() { board_is second '.link == "offline"'; }
check a_long_break_is_missed wait_for 30 missed
order second 'set_link n0 on'
back() { board_is second '.link == "online"'; }
check it_comes_back_by_itself wait_for 60 back
took() { grep -aoE 'handshake took [0-9]+' "$work/second.out" | awk '{print $NF}' | sed -n "$1"; }
check_match its_session_was_resumed "$(took 1p) ms, then $(took '$p') ms $(($(took '$p') * 2 < $(took 1p)))" ' 1$'
check_equal without_a_reset "$(said_count second 'reset:')" 1

api POST /api/v1/boards/kitchen/revoke
check a_revoked_board_is_told wait_for 20 said static 'refused: .*revoked'
blank nobody
start nobody scripts/qemu-board "$work/nobody.flash"
check a_board_without_a_page_says_so wait_for 10 said nobody 'provisioning: there is no provisioning page'
check_emulation static second nobody
finish
