# shellcheck shell=bash
# For the scripts in tests/api and tests/chaos: a server and boards of one's own in a folder of one's own, and lines
# that tests/run counts. Everything started here is ended here, by its process number.
#
#   . tests/support/lib.sh
#   start_server                       $URL, $BOARD_ADDRESS; options are passed on
#   start_board b1 --ram 262144        enrols on its first start; state in $work/b1
#   api GET /api/v1/boards             $STATUS, body in $work/body (printed by `body`), headers in $work/headers
#   check_equal name got want;  check name command ...;  pass name;  fail name reason;  skip name reason
#   finish                             last line of a script
# shellcheck disable=SC2034 # EXIT, STATUS are for the scripts
set -u
export B=${B:-build} FACTS=${FACTS:-../shared}
work=$(mktemp -d "${TMPDIR:-/tmp}/shoal-test.XXXXXX")
declare -A pids=()
failures=0 URL="" BOARD_ADDRESS="" STATUS="" CODE=""
patience=1
[ -z "${SANITIZE:-}" ] || patience=4

pass() { echo "ok - $1"; }
skip() { echo "SKIP $1: $2"; }
fail() {
    [ -z "${2:-}" ] || printf '%s\n' "$2" | sed 's/^/# /'
    echo "not ok - $1"
    failures=$((failures + 1))
}
# check NAME COMMAND ...
check() {
    local name=$1 said
    shift
    if said=$("$@" 2>&1); then pass "$name"; else fail "$name" "$* failed: $said"; fi
}
# check_equal NAME GOT WANT
check_equal() { if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "got '$2', expected '$3'"; fi; }
# check_match NAME TEXT EXTENDED-REGEX
check_match() { if [[ $2 =~ $3 ]]; then pass "$1"; else fail "$1" "'$2' does not match '$3'"; fi; }

# wait_for SECONDS COMMAND ...: tries until it succeeds.
wait_for() {
    local end=$(($(date +%s) + $1 * patience))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 0.05
    done
}

# start NAME COMMAND ...: in the background, output in $work/NAME.out and .log.
start() {
    local name=$1
    shift
    "$@" >"$work/$name.out" 2>>"$work/$name.log" </dev/null &
    pids[$name]=$!
}
running() { [ -n "${pids[$1]:-}" ] && kill -0 "${pids[$1]}" 2>/dev/null; }
# stop NAME [SIGNAL]: TERM unless said otherwise; KILL after 10 s. Leaves the exit status in $EXIT.
stop() {
    local pid=${pids[$1]:-} i
    [ -n "$pid" ] || return 0
    kill "-${2:-TERM}" "$pid" 2>/dev/null
    for ((i = 0; i < 200 * patience; i++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    EXIT=$?
    unset "pids[$1]"
}
stop_all() {
    local name
    for name in "${!pids[@]}"; do kill "${pids[$name]}" 2>/dev/null; done
    for name in "${!pids[@]}"; do stop "$name"; done
}
at_exit() {
    stop_all
    if [ "$failures" != 0 ]; then
        for log in "$work"/*.log; do [ -s "$log" ] && echo "# --- ${log##*/}" && tail -n 15 "$log" | sed 's/^/# /'; done
    fi
    rm -rf "$work"
}
trap at_exit EXIT
trap 'exit 130' INT TERM

# start_server [OPTION ...]: on free ports at first, on the same ones after a restart; data in $work/data.
start_server() {
    start server "$B/shoal" serve --data "$work/data" --listen "${LISTEN:-127.0.0.1:0}" \
        --board-listen "${BOARD_ADDRESS:-127.0.0.1:0}" --json "$@"
    if ! wait_for 20 test -s "$work/server.out"; then
        fail server_starts "the server said nothing"
        return 1
    fi
    URL=$(jq -r .url "$work/server.out")
    BOARD_ADDRESS=$(jq -r .board_address "$work/server.out")
    LISTEN=${URL#http://} LISTEN=${LISTEN%/}
    URL=${URL%/}
    export SHOAL_URL=$URL
}

# Sets $CODE, for any number of boards, accepted at once.
enrol_code() {
    [ -n "$CODE" ] || CODE=$("$B/shoal" enrol --accept --uses 16 --json --url "$URL" 2>>"$work/enrol.log" | jq -r .code)
}
# start_board NAME [OPTION ...]
start_board() {
    local name=$1 code=()
    shift
    [ -d "$work/$name" ] || { enrol_code && code=(--code "$CODE"); }
    start "$name" "$B/shoal-board" --server "$BOARD_ADDRESS" --state "$work/$name" --name "$name" "${code[@]}" "$@"
}
boards_online() { [ "$(curl -s "$URL/api/v1/boards" | jq '[.items[] | select(.link == "online")] | length')" = "$1" ]; }

# api METHOD PATH [CURL OPTION ...]
api() {
    local method=$1 path=$2
    shift 2
    STATUS=$(curl -sS --max-time $((60 * patience)) -X "$method" -D "$work/headers" -o "$work/body" \
        -w '%{http_code}' "$@" "$URL$path" 2>"$work/curl.err") || STATUS=000
}
# api_json METHOD PATH JSON
api_json() { api "$1" "$2" -H 'Content-Type: application/json' --data-binary "$3"; }
body() { cat "$work/body"; }
field() { jq -r "$1" "$work/body" 2>/dev/null; }

finish() { exit $((failures > 0)); }
