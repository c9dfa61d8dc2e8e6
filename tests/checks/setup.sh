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
repository=$work/repository
mkdir -p "$repository"
cp -r scripts package.json package-lock.json .npmrc "$repository"
setup() { # ENVIRONMENT ...; what it says, and its status
    rm -f "$work/calls"
    touch "$work/calls"
    said=$(cd "$repository" && env -u SHOAL_SETUP "$@" TMPDIR="$work" PATH="$fake:$PATH" scripts/setup "${purpose:-run}" 2>&1)
    status=$?
}
# npm installs two small packages, or cannot.
fake npm '[ -z "$OFFLINE" ] || { echo "npm error code ENOTFOUND"; exit 1; }
echo "npm $*" >>'"$work"'/calls
mkdir -p node_modules/uplot/dist && echo "var uPlot=1;" >node_modules/uplot/dist/uPlot.iife.min.js
echo x >node_modules/uplot/dist/uPlot.min.css; echo MIT >node_modules/uplot/LICENSE
case $* in *omit=dev*) rm -rf node_modules/playwright-core ;; *) mkdir -p node_modules/playwright-core ;; esac'

# ---- npm ----
touch "$work/installed"
setup FAKE_UID=0 OFFLINE=1
check_equal build_without_npm_packages_stops "$status:$(cat "$work/calls")" "1:"
check_match build_without_npm_packages_says_what_to_do "$said" 'uplot.*ENOTFOUND.*let npm reach a registry.*then type make again$'
check_match embedding_without_them_says_what_to_type "$(cd "$repository" && mkdir -p web && scripts/embed web x.c 2>&1)" 'type scripts/setup build'
setup FAKE_UID=0
check_match building_fetches_what_the_page_embeds_alone "$status:$(cat "$work/calls")" '^0:npm ci --omit=dev '
check_equal page_gets_a_module "$(cat "$repository/build/node/page/uplot.js")" $'var uPlot=1;\nexport default uPlot;'
setup FAKE_UID=0 OFFLINE=1
check_equal building_again_asks_npm_nothing "$status:$said:$(cat "$work/calls")" "0::"
purpose=node setup FAKE_UID=0 OFFLINE=1
check_match browser_tests_without_npm_packages_are_skipped "$status:$said" '^0:.*browser tests are skipped'
purpose=node setup FAKE_UID=0
check_match browser_tests_fetch_all "$status:$(cat "$work/calls")" '^0:npm ci --ignore'
setup FAKE_UID=0 OFFLINE=1
check_equal all_serves_the_page_too "$status:$said" "0:"
sed -i 's/"version": "0.0.0"/"version": "0.0.1"/' "$repository/package-lock.json"
setup FAKE_UID=0
check_match another_lock_file_is_fetched_anew "$status:$(cat "$work/calls")" '^0:npm ci --omit=dev '
rm "$work/installed"

# ---- Debian packages ----

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
