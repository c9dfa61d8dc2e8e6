#!/usr/bin/env bash
# `shoal board provision`: the file that a loader takes, and that its code and address are true.
. tests/support/lib.sh

start_server || finish
page_at=$((0x60048000))
# page_of FILE: its provisioning page as 512 bytes in $work/page
page_of() {
    objcopy -I ihex -O binary --gap-fill 0xFF "$1" "$work/all" &&
        tail -c 512 "$work/all" >"$work/page"
}
text_at() { tail -c "+$(($1 + 1))" "$work/page" | head -c "$2" | tr -d '\0'; }
provision() { "$B/shoal" board provision --url "$URL" "$@"; }

said=$(provision --output "$work/one.hex" --name desk-1 --accept --json 2>"$work/err")
check_equal answer_names_the_page "$(jq -r '.page_address' <<<"$said")" "$page_at"
check_equal answer_has_the_servers_address "$(jq -r '.servers[0]' <<<"$said")" "$BOARD_ADDRESS"
check_match loopback_is_pointed_out "$(cat "$work/err")" 'this machine only'
check_equal file_is_for_its_owner_only "$(stat -c %a "$work/one.hex")" 600
check page_can_be_read page_of "$work/one.hex"
check_equal page_begins_with_its_mark "$(text_at 0 4)" SHPV
check_equal page_ends_with_its_hash "$(head -c 480 "$work/page" | sha256sum | cut -c 1-64)" \
    "$(tail -c 32 "$work/page" | od -An -tx1 | tr -d ' \n')"
check_equal page_has_the_name "$(text_at 32 64)" desk-1

start desk "$B/shoal-board" --server "$(jq -r '.servers[0]' <<<"$said")" --state "$work/desk" --name desk-1 --code "$(text_at 240 64)"
online() { curl -s "$URL/api/v1/boards/desk-1" | jq -e '.state == "accepted" and .link == "online"' >/dev/null; }
check code_of_the_page_enrols_a_board wait_for 20 online

# With a firmware, two servers and a static address; the code is given.
head -c 20000 /dev/zero | tr '\0' 'f' >"$work/firmware.bin"
code=$("$B/shoal" enrol --json --url "$URL" 2>/dev/null | jq -r .code)
check firmware_and_page_go_into_one_file provision --output "$work/two.hex" --image "$work/firmware.bin" --code "$code" \
    --server 192.0.2.9:8443,shoal.example:443 --static 192.0.2.7/24 --gateway 192.0.2.1 --dns 192.0.2.1
page_of "$work/two.hex"
check_equal firmware_is_in_it "$(head -c 20000 "$work/all" | sha256sum)" "$(sha256sum <"$work/firmware.bin")"
check_equal code_is_in_it "$(text_at 240 64)" "$code"
check_equal second_server_is_in_it "$(text_at 160 64)" shoal.example
check_equal network_is_in_it "$(text_at 12 16 | od -An -tu1 -N 4 | xargs)" "192 2 7 255" # NULs left out
check former_page_is_replaced provision --output "$work/three.hex" --image "$work/two.hex" --code "$code" --server 192.0.2.8:1
page_of "$work/three.hex"
check_equal only_the_new_server_is_left "$(text_at 96 128)" 192.0.2.8

refuses() { # NAME PATTERN OPTIONS...
    local name=$1 pattern=$2 codes
    shift 2
    codes=$(curl -s "$URL/api/v1/enrolments" | jq '.items | length')
    if provision --output "$work/no.hex" "$@" >"$work/no.out" 2>&1; then fail "$name" "it was taken"; return; fi
    check_match "$name" "$(cat "$work/no.out")" "$pattern"
    check_equal "$name, and leaves no code behind" "$(curl -s "$URL/api/v1/enrolments" | jq '.items | length')" "$codes"
}
sed '2s/./:/2' "$work/two.hex" >"$work/broken.hex"
refuses broken_hex_is_refused_by_line 'broken.hex: line 2' --image "$work/broken.hex"
refuses missing_image_is_refused 'nothing.hex' --image "$work/nothing.hex"
refuses wrong_port_is_refused 'port is 1 to 65535' --server host:0
refuses third_server_is_refused 'at most two' --server a:1,b:2,c:3
refuses name_without_dns_is_refused 'needs a DNS server' --server host:1 --static 192.0.2.7/24
refuses gateway_elsewhere_is_refused 'gateway is not in' --static 192.0.2.7/24 --gateway 10.0.0.1
refuses gateway_with_dhcp_is_refused 'go with --static' --gateway 10.0.0.1
refuses wrong_code_is_refused 'not an enrolment code' --code ABC --server a:1
provision >/dev/null 2>&1
check_equal output_is_needed $? 2
check_equal nothing_was_written "$(ls "$work/no.hex" 2>/dev/null)" ""
finish
