#!/usr/bin/env bash
# scripts/setup with every program that it asks replaced: what it installs, how, and what it says where it may not.
. tests/support/lib.sh
fake=$work/bin
mkdir "$fake"
fake() { # NAME BODY
    printf '#!/bin/sh\n%s\n' "$2" >"$fake/$1"
    chmod +x "$fake/$1"
}
# jq is missing, the rest is there, until apt-get installed it.
fake dpkg-query 'shift 3; for p; do [ "$p" = jq ] && [ ! -e '"$work"'/installed ] || echo "installed $p"; done'
fake apt-get 'echo "$*" >>'"$work"'/calls; [ -z "$BROKEN" ] || { echo no such mirror; exit 100; }; case $* in *install*) touch '"$work"'/installed ;; esac'
fake sudo 'shift; echo sudo >>'"$work"'/calls; exec "$@"'
fake id 'echo ${FAKE_UID:-0}'
setup() { # ENVIRONMENT ...; what it says, and its status
    rm -f "$work/calls"
    touch "$work/calls"
    said=$(env -u SHOAL_SETUP "$@" TMPDIR="$work" PATH="$fake:$PATH" scripts/setup run 2>&1)
    status=$?
}

setup FAKE_UID=0
check_equal setup_succeeds_as_root "$status" 0
check_equal setup_says_what_it_installs "$said" "setup: installing jq"
check_match setup_installs_what_is_missing_and_no_more "$(cat "$work/calls")" '^install .* jq$'
setup FAKE_UID=0
check_equal setup_is_silent_when_all_is_there "$status:$said:$(cat "$work/calls")" "0::"

rm "$work/installed"
setup FAKE_UID=1000
check_equal setup_goes_through_sudo "$status:$(grep -c sudo "$work/calls")" "0:2"

rm "$work/installed"
fake sudo 'exit 1'
setup FAKE_UID=1000
check_equal setup_without_rights_stops "$status:$(cat "$work/calls")" "1:"
check_match setup_without_rights_prints_the_line_to_type "$said" 'sudo apt-get update && sudo apt-get install .* jq$'

setup FAKE_UID=0 BROKEN=1
check_equal setup_fails_when_installing_fails "$status" 1
check_match setup_says_why_it_failed "$said" 'no such mirror.*installing failed'
check_match setup_tries_with_fresh_lists "$(tr '\n' ' ' <"$work/calls")" '^install .*update'
finish
