#!/usr/bin/env bash
# The README's commands, as written: every sh block but the two with the make targets and the placeholders is run
# against a server and three boards of the test's own; only the server's address is replaced, and curl fails on an
# HTTP error.
# timeout: 180
. tests/support/lib.sh

# Blocks into $work/block.N; prints how many.
blocks() {
    awk -v to="$work/block." '
        /^```sh$/ { inside = 1; n++; next }
        /^```$/ { inside = 0; next }
        inside { print > (to n) }
        END { print n + 0 }' README.md
}

start_server || finish
for name in b1 b2 b3; do start_board "$name"; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
mkdir "$work/home" "$work/home/data"
ln -s "$PWD/$B" "$work/home/build"
"$B/demo_model" "$work/home/data/demo.tflite"

run_block() { # FILE
    (
        cd "$work/home" || exit 1
        # shellcheck disable=SC2016 # expanded by the inner shell
        sed "s/127\.0\.0\.1:8080/$LISTEN/g" "$1" |
            bash -euo pipefail -c 'curl() { command curl --fail-with-body "$@"; }; set -x; eval "$(cat)"'
    )
}

n=$(blocks) ran=0
for ((i = 1; i <= n; i++)); do
    block=$work/block.$i
    if grep -qE '^make |--state [A-Z]' "$block"; then
        ! grep -q curl "$block" || fail "readme_block_${i}_is_left_out_but_has_curl"
        continue
    fi
    ran=$((ran + $(grep -c 'curl -' "$block")))
    check "readme_block_${i}_works_as_written" run_block "$block"
done
check_equal readme_has_no_curl_line_outside_of_what_was_run "$ran" "$(grep -c 'curl -' README.md)"
finish
