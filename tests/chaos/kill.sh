#!/usr/bin/env bash
# Seeded kill -9 of the server or a board during upload, deployment and inference. What was acknowledged is there after
# the restart, everything comes back by itself, and the answer stays the reference's to the last bit.
# CHAOS_SEEDS=N runs seeds 1..N (8), CHAOS_FIRST begins elsewhere.
# timeout: 900
. tests/support/lib.sh

seeds=${CHAOS_SEEDS:-8} first=${CHAOS_FIRST:-1}
boards=(b1 b2 b3)
declare -A acknowledged=()

make_input() { # the model's own sample and the reference's answer to it
    "$B/demo_model" "$work/base.tflite" "$work/input.bin" &&
        "$B/shoal" run "$work/base.tflite" --input "$work/input.bin" --output "$work/want.bin"
}
# variant SEED: another version of the model: one byte of its weights is changed.
variant() {
    local size
    size=$(stat -c %s "$work/base.tflite")
    cp "$work/base.tflite" "$work/variant.tflite"
    printf "\\x$(printf %02x $(($1 % 100 + 1)))" |
        dd of="$work/variant.tflite" bs=1 seek=$((size / 2 + $1)) conv=notrunc status=none
}
infer() { # FILE: asks the base model; fails unless 200
    curl -sS --fail --max-time 60 -o "$1" -H 'Content-Type: application/octet-stream' \
        --data-binary "@$work/input.bin" "$URL/v2/models/base/infer" 2>/dev/null
}
answers_right() { infer "$work/got.bin" && cmp -s "$work/got.bin" "$work/want.bin"; }
state_of() { curl -sS --max-time 20 "$URL/api/v1/deployments/$1" | jq -r .state; }
deployment_settled() { [[ $(state_of "$1") =~ ^(active|failed|retired|cancelled)$ ]]; }

do_upload() { # SEED: in the background; what the server said goes to $work/said
    variant "$1"
    curl -sS --max-time 60 -o "$work/said" -w '%{http_code}' -T "$work/variant.tflite" \
        "$URL/api/v1/models/chaos" >"$work/code" 2>/dev/null
}
do_deploy() {
    local shares=(even rating frequency)
    curl -sS --max-time 60 -o "$work/said" -w '%{http_code}' -H 'Content-Type: application/json' \
        -d "{\"model\":\"base\",\"shares\":\"${shares[$(($1 % 3))]}\",\"tags\":[\"seed $1\"]}" \
        "$URL/api/v1/deployments" >"$work/code" 2>/dev/null
    local id
    id=$(jq -r '.id // empty' "$work/said" 2>/dev/null)
    [ -z "$id" ] || curl -sS --max-time 20 "$URL/api/v1/deployments/$id?wait=10" >/dev/null 2>&1
}
do_infer() {
    local i
    for i in 1 2 3 4 5 6 7 8; do infer "$work/got.$i" || break; done
    echo done >"$work/code"
}

do_replan() { # the deployment that serves gets a new generation
    local id
    id=$(curl -sS --max-time 20 "$URL/api/v1/deployments?model=base" |
        jq -r '[.items[] | select(.state == "active" or .state == "degraded")][0].id // empty')
    [ -z "$id" ] || curl -sS --max-time 60 -X POST "$URL/api/v1/deployments/$id/replan" >/dev/null 2>&1
    [ -z "$id" ] || curl -sS --max-time 20 "$URL/api/v1/deployments/$id?wait=10" >/dev/null 2>&1
    echo done >"$work/code"
}

kill_and_restart() { # VICTIM
    kill -KILL "${pids[$1]}" 2>/dev/null
    wait "${pids[$1]}" 2>/dev/null
    unset "pids[$1]"
    if [ "$1" = server ]; then
        rm -f "$work/server.out"
        start_server
    else
        start_board "$1"
    fi
}

check_round() { # SEED PHASE VICTIM
    local code id sha label="seed $1: $2, $3 killed"
    code=$(cat "$work/code" 2>/dev/null)
    if [ "$2" = upload ] && [[ $code = 20[01] ]]; then
        acknowledged[$(jq -r .version "$work/said")]=1
    fi
    for sha in "${!acknowledged[@]}"; do
        api GET "/api/v1/models/chaos/versions/$sha"
        [ "$STATUS" = 200 ] || fail "$label: acknowledged version ${sha:0:12} is there" "$STATUS $(body)"
    done
    if [ "$2" = deploy ] && [[ $code = 20[02] ]]; then
        id=$(jq -r .id "$work/said")
        wait_for 60 deployment_settled "$id" || fail "$label: the deployment settles" "$(state_of "$id")"
        [ "$(state_of "$id")" != failed ] ||
            fail "$label: the deployment does not fail" "$(curl -sS "$URL/api/v1/deployments/$id")"
    fi
    if ! wait_for 60 boards_online 3; then
        fail "$label: all boards come back" "$(curl -sS "$URL/api/v1/boards" | jq -c '[.items[] | {name, link, reason}]')"
    elif ! wait_for 60 answers_right; then
        fail "$label: the answer is right again" "$(infer /dev/stdout; curl -sS "$URL/api/v1/deployments?limit=3")"
    else
        pass "$label"
    fi
}

round() { # SEED
    RANDOM=$1
    local phases=(upload deploy infer replan) victims=(server server b1 b2 b3) phase victim delay
    phase=${phases[$((RANDOM % 4))]} victim=${victims[$((RANDOM % 5))]} delay=$((RANDOM % 400))
    rm -f "$work/said" "$work/code"
    "do_$phase" "$1" &
    local doing=$!
    sleep "0.$(printf %03d $delay)"
    kill_and_restart "$victim" || return
    wait "$doing" 2>/dev/null
    check_round "$1" "$phase" "$victim"
}

make_input || { fail model_and_reference "the demo model does not run"; finish; }
start_server || finish
for board in "${boards[@]}"; do start_board "$board"; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
api PUT /api/v1/models/base -T "$work/base.tflite"
check_equal upload_is_taken "$STATUS" 201
api_json POST /api/v1/deployments '{"model":"base"}'
check_equal deployment_is_taken "$STATUS" 202
api GET "/api/v1/deployments/$(field .id)?wait=60"
check_equal deployment_is_active "$(field .state)" active
check answer_equals_the_reference answers_right
for ((seed = first; seed < first + seeds; seed++)); do round "$seed"; done
finish
