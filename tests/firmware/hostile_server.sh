#!/usr/bin/env bash
# A server that the board trusts and that lies about lengths, sends what nobody asked for, breaks TLS, stalls or falls
# silent (hostile_server.c): each ends in a reconnect with the reason on the console, never in a hang or a reset, and no
# memory is lost on the way. Against an emulated board, and against the same code as a process under the sanitizers.
# long: it waits for the board's deadlines, 15 and 20 s
# timeout: 170
. tests/support/emulated.sh
roles=(closes_after_handshake resets long_length short_length huge_length half_a_header long_record forged_record
    bad_welcome early_run chunk_unasked data_unasked renews renews_wrong refuses half_a_record falls_silent closes garbage stalls)
for board in emulated process; do
    start "server-$board" "$B/hostile_server" "${roles[@]}"
    check "${board}_server_listens" wait_for 20 test -s "$work/server-$board.out" || finish
    read -r port CODE < <(jq -r '"\(.port) \(.code)"' "$work/server-$board.out")
    BOARD_ADDRESS=127.0.0.1:$port
    "start_$board" "$board"
done
ended() { ! running "$1"; }
for board in emulated process; do
    check "${board}: every role is played" wait_for 160 ended "server-$board"
    wait "${pids[server-$board]}"
    check_equal "$board: it went from each and came back" "$?" 0
    for role in "${roles[@]}"; do
        check "$board: it goes when the server $role" grep -q "^$role: the board has gone" "$work/server-$board.out"
    done
    check_equal "$board: it never reset" "$(said_count $board 'reset:')" 1
    ends=$(grep -aoE '(the link is gone|no link to [^ ]+|refused): .*' "$work/$board.out" | tr -d '\r')
    echo "$ends" | sed 's/^/# /'
    check_equal "$board: each end has a reason" "$(($(grep -c . <<<"$ends") >= ${#roles[@]}))" 1
    check_match "$board: a lying length is named" "$ends" 'a record that is no frame'
    check_match "$board: a long or forged record is named" "$ends" 'TLS: -0x7[0-9a-f]{3}'
    check_match "$board: a refusal is told as it was said" "$ends" 'come again'
    check_match "$board: a stalled handshake is named" "$ends" 'did not finish the handshake in time'
    check_match "$board: silence is named" "$ends" 'not a byte from the server for 20 s'
    check_equal "$board: a certificate is renewed, a wrong one is not" \
        "$(said_count $board 'certificate was renewed') $(said_count $board 'certificate was not renewed')" "1 1"
    # What TLS holds after the last handshake is what it held after the second: nothing leaks.
    heaps=$(grep -aoE 'after handshake: TLS heap [0-9]+' "$work/$board.out" | awk '{print $NF}')
    least=$(sed -n 2p <<<"$heaps") last=$(tail -n 1 <<<"$heaps")
    check_match "$board: no memory of TLS is lost" "$least $last $((last > least - 256 && last < least + 256))" ' 1$'
    check_emulation "$board"
done
stop process
check_equal "the sanitizers found nothing" "$EXIT $(grep -c 'runtime error\|ERROR: ' "$work/process.log")" "0 0"
finish
