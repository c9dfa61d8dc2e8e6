#!/usr/bin/env bash
# A server that the board trusts and that lies about lengths, sends what nobody asked for, breaks TLS, stalls or falls
# silent (hostile_server.c): each ends in a reconnect with the reason on the console, never in a hang or a reset, and no
# memory is lost on the way.
# long: it waits for the board's deadlines, 15 and 20 s
# timeout: 170
. tests/support/emulated.sh
roles=(closes_after_handshake resets long_length short_length huge_length half_a_header long_record forged_record
    bad_welcome early_run chunk_unasked data_unasked refuses half_a_record falls_silent closes garbage stalls)
start server "$B/hostile_server" "${roles[@]}"
check server_listens wait_for 20 test -s "$work/server.out" || finish
read -r port CODE < <(jq -r '"\(.port) \(.code)"' "$work/server.out")
BOARD_ADDRESS=127.0.0.1:$port
start_emulated board
ended() { ! running server; }
check every_role_is_played wait_for 160 ended
wait "${pids[server]}"
check_equal the_board_went_from_each_and_came_back "$?" 0
for role in "${roles[@]}"; do
    check "it_goes_when_the_server_$role" grep -q "^$role: the board has gone" "$work/server.out"
done
check_equal it_never_reset "$(said_count board 'reset:')" 1
ends=$(grep -aoE '(the link is gone|no link to [^ ]+|refused): .*' "$work/board.out" | tr -d '\r')
echo "$ends" | sed 's/^/# /'
check_equal each_end_has_a_reason "$(($(grep -c . <<<"$ends") >= ${#roles[@]}))" 1
check_match a_lying_length_is_named "$ends" 'a record that is no frame'
check_match a_long_or_forged_record_is_named "$ends" 'TLS: -0x7[0-9a-f]{3}'
check_match a_refusal_is_told_as_it_was_said "$ends" 'come again'
check_match a_stalled_handshake_is_named "$ends" 'did not finish the handshake in time'
# What TLS holds after the last handshake is what it held after the second: nothing leaks.
heaps=$(grep -aoE 'after handshake: TLS heap [0-9]+' "$work/board.out" | awk '{print $NF}')
least=$(sed -n 2p <<<"$heaps") last=$(tail -n 1 <<<"$heaps")
check_match no_memory_of_tls_is_lost "$least $last $((last > least - 256 && last < least + 256))" ' 1$'
check_match a_reset_connection_is_named "$ends" 'the connection was reset'
check_match silence_is_named "$ends" 'not a byte from the server for 20 s'
check_emulation board
finish
