#!/usr/bin/env bash
# Ratings are measured over the real link: a board with an injected delay gets what equation 5 predicts from the delay
# and from what its twin without a delay measured, within 10 %.
. tests/support/lib.sh

delay_ms=40
rated() { [ "$(curl -s "$URL/api/v1/boards" | jq '[.items[] | select(.rating != null)] | length')" = 2 ]; }

start_server || finish
start_board quick --clock 600
start_board slow --clock 600 --delay-ms $delay_ms
check boards_are_measured_when_they_join wait_for 60 rated
api GET /api/v1/boards
# predicted for the slow board: its own clock and K_1, its twin's bandwidth, and d = (twin's latency + delay) / 4 KB
said=$(jq -r --argjson delay $delay_ms '
    (.items[] | select(.name == "quick").rating) as $q | (.items[] | select(.name == "slow").rating) as $s
    | (($q.message_latency_ms + $delay) / 1000 / 4) as $d
    | ($s.clock_hz / 1e6) as $f
    | ($f * $s.k1 / (($d + 1 / $q.bandwidth_kb_per_s) * $f * $s.k1 + 1)) as $want
    | "\($s.rating_kb_per_s / $want) \($s.rating_kb_per_s) \($want)"' "$work/body")
check_match "delayed_board_is_rated_as_equation_5_predicts ($said)" "$said" '^(0\.9[0-9]*|1|1\.0[0-9]*) '
check_match k1_was_measured "$(field '.items[0].rating.k1')" '^[0-9.]+(e-?[0-9]+)?$'
before=$(field '.items[] | select(.name == "slow").rating.measured_at')
id=$(field '.items[] | select(.name == "slow").id')
api POST "/api/v1/boards/$id/probe"
check_match probe_is_taken "$STATUS" '^20'
remeasured() { [ "$(curl -s "$URL/api/v1/boards/$id" | jq -r .rating.measured_at)" != "$before" ]; }
check board_is_measured_on_request wait_for 60 remeasured
finish
