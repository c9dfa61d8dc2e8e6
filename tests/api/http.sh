#!/usr/bin/env bash
# What makes a server on loopback safe and strict: framing, Host, Origin, content types, limits, names, the page.
. tests/support/lib.sh
start_server || finish

raw() { # REQUEST TEXT: sent as it is; the status line of the answer
    local host=${LISTEN%:*} port=${LISTEN##*:}
    exec 9<>"/dev/tcp/$host/$port" && printf '%b' "$1" >&9 && timeout 10 head -n 1 <&9 | tr -d '\r'
    exec 9<&- 9>&-
}
status() { # CURL ARGUMENTS
    curl -sS --max-time 20 -o "$work/body" -D "$work/headers" -w '%{http_code}' "$@" 2>/dev/null
}

check_equal foreign_host_is_refused "$(status -H 'Host: evil.example' "$URL/api/v1/models")" 403
check_equal localhost_is_a_name_of_this_server "$(status -H 'Host: localhost:1' "$URL/api/v1/models")" 200
check_equal foreign_origin_may_not_write \
    "$(status -X POST -H 'Origin: http://evil.example' "$URL/api/v1/enrolments")" 403
check_equal own_origin_may_write "$(status -X POST -H "Origin: $URL" "$URL/api/v1/enrolments")" 201
check_equal cross_site_write_without_origin_is_refused \
    "$(status -X POST -H 'Sec-Fetch-Site: cross-site' "$URL/api/v1/enrolments")" 403
check_equal form_bodies_are_refused "$(status -d a=b "$URL/api/v1/deployments")" 415
check_match refusal_prints_the_right_curl_line "$(field .error.message)" "curl -X POST .*application/json"
check_equal two_lengths_are_refused "$(raw 'POST /api/v1/enrolments HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n')" \
    "HTTP/1.1 400 Bad Request"
check_equal length_with_encoding_is_refused "$(raw 'POST /api/v1/enrolments HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n')" \
    "HTTP/1.1 400 Bad Request"
check_equal two_hosts_are_refused "$(raw 'GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n')" "HTTP/1.1 400 Bad Request"
check_equal no_host_is_refused "$(raw 'GET / HTTP/1.1\r\n\r\n')" "HTTP/1.1 400 Bad Request"
check_equal unknown_method_is_405 "$(status -X PUT "$URL/api/v1/models")" 405
check_match allow_names_the_methods "$(cat "$work/headers")" "Allow: GET"
for path in %2e%2e%2fdata%2fshoal.db ..%2fshoal.db %2e%2e/shoal.db a%00.css 'js%5capi.js' js%2fapi.js INDEX.HTML index.html/; do
    check_match "hostile_path_is_no_file: $path" "$(status --path-as-is "$URL/$path")" '^40[04]$'
done
check_equal page_is_served "$(status "$URL/")" 200
check_match page_may_only_run_its_own_code "$(tr -d '\r' <"$work/headers")" "Content-Security-Policy: default-src 'none'; script-src 'self'"
if grep -qE 'src="https?:|href="https?:|<script>| on[a-z]+=' "$work/body"; then fail page_needs_no_other_host; else pass page_needs_no_other_host; fi
etag=$(sed -n 's/^ETag: \(.*\)\r$/\1/p' "$work/headers")
check_equal page_has_an_etag "$(status -H "If-None-Match: $etag" "$URL/")" 304
for asset in $(curl -sS "$URL/" | grep -oE '(src|href)="[^"]+"' | sed 's/.*="//; s/"//'); do
    check_equal "page_finds_$asset" "$(status "$URL/${asset#/}")" 200
done
check_equal head_is_a_get_without_body "$(status -I "$URL/api/v1/limits")" 200
check_equal deep_json_is_refused "$(status -H 'Content-Type: application/json' --data-binary "$(printf '[%.0s' $(seq 5000))" "$URL/api/v1/deployments")" 400
head -c 1100000 /dev/zero | tr '\0' ' ' >"$work/blank"
check_equal long_json_is_refused "$(status -H 'Content-Type: application/json' --data-binary "@$work/blank" "$URL/api/v1/deployments")" 413

truncate -s 33554433 "$work/big"
check_equal upload_over_the_limit_is_413 "$(status -T "$work/big" "$URL/api/v1/models/big")" 413
check_equal refusal_names_the_limit "$(field .error.detail.limit)" 33554432
check_equal upload_over_the_limit_in_chunks_is_413 \
    "$(status -H 'Transfer-Encoding: chunked' -T "$work/big" "$URL/api/v1/models/big")" 413
check_equal nothing_is_left_of_it "$(status "$URL/api/v1/models/big")" 404
check_equal empty_upload_is_refused "$(status -X PUT "$URL/api/v1/models/none")" 422
check_equal upload_as_a_form_is_refused "$(status -F file=@"$work/blank" "$URL/api/v1/models/form")" 415

# Events: what happens is told, and a client that was away is told what it missed.
(timeout 60 curl -sS -N "$URL/api/v1/events" >"$work/events" 2>/dev/null &)
wait_for 5 test -s "$work/events"
"$B/demo_model" "$work/demo.tflite"
check_equal upload_is_created "$(status -T "$work/demo.tflite" "$URL/api/v1/models/demo")" 201
wait_for 20 grep -q '^event: model' "$work/events"
check events_tell_of_models grep -q '^event: model' "$work/events"
wait_for 20 grep -q '"state":"done"' "$work/events"
check events_tell_of_jobs grep -q '^event: job' "$work/events"
last=$(sed -n 's/^id: //p' "$work/events" | tail -n 1)
check_match events_resume "$(timeout 1 curl -sS -N -H "Last-Event-ID: $((last - 1))" "$URL/api/v1/events" | head -n 1)" "^id: $last"
check_match events_that_are_lost_reset "$(timeout 1 curl -sS -N -H 'Last-Event-ID: 99999' "$URL/api/v1/events" | sed -n 2p)" '^event: reset'

(timeout 20 curl -sS -N "$URL/api/v1/events" >/dev/null 2>&1 &)
sleep 0.2
stop server
check_equal server_ends_cleanly_with_a_client_listening "$EXIT" 0
finish
