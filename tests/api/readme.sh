#!/usr/bin/env bash
# What the README and docs/ tell a user to type, as written. Every block with curl or shoal lines is run against a server
# and three boards of the test's own, with only addresses and capital-letter placeholders replaced, and curl failing on
# an HTTP error; what comes out is looked at. Targets, programs and files that the pages name must exist.
# timeout: 180
. tests/support/lib.sh
pages="README.md docs/*.md"

# The sh blocks of a page into $work/block.N; prints how many.
blocks() {
    awk -v to="$work/block." '
        FNR == 1 { inside = 0 }
        /^```sh$/ { inside = 1; n++; next }
        /^```/ { inside = 0; next }
        inside { print > (to n) }
        END { print n + 0 }' "$@"
}
# A page's words in backquotes and in sh blocks, a line each.
quoted() {
    # shellcheck disable=SC2086 # a list of pages
    { grep -hoE '`[^`]+`' $pages | tr -d '`' && cat "$work"/block.*; } | sed 's/  *#.*//'
}

start_server || finish
for name in board-1 board-2 board-3; do start_board "$name" --flash 160K; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
home=$work/home
mkdir "$home"
ln -s "$PWD/$B" "$home/build"
ln -s "$PWD/models" "$PWD/web" "$home"

# As in a user's shell, except that failures end it. What a block prints goes to $work/block.N.out.
run_block() { # FILE
    (
        cd "$home" || exit 1
        # shellcheck disable=SC2016 # expanded by the inner shell
        sed "s/127\.0\.0\.1:8080/$LISTEN/g" "$1" |
            bash -euo pipefail -c 'curl() { command curl --fail-with-body "$@"; }; set -x; eval "$(cat)"' >"$1.out"
    ) || { tail -n 5 "$1.out" && return 1; }
}

# A server and a board by hand: what stays in the foreground is started beside the test, the rest is run in between.
by_hand() { # FILE
    local line url address code said
    while IFS= read -r line; do
        line=$(sed "s#DIR#$work/hand#; s#BOARD_$work/hand#$work/kitchen#; s#CODE#${code:-none}#; s# *\#.*##
            s#127.0.0.1:8080#127.0.0.1:0#; s#--server [0-9.:]*#--server ${address:-none}#; s#127.0.0.1:8443#127.0.0.1:0#" <<<"$line")
        line="$B/${line#build/}"
        case $line in
        *"shoal serve "*)
            # shellcheck disable=SC2086 # words of the line
            start hand_server $line
            wait_for 20 grep -q '^Shoal is at' "$work/hand_server.out" || return 1
            url=$(sed -n 's#^Shoal is at \(http://[^/]*\)/.*#\1#p' "$work/hand_server.out")
            address=$(sed -n 's#.*(boards connect to \(.*\))#\1#p' "$work/hand_server.out")
            ;;
        *"shoal-board "*)
            # shellcheck disable=SC2086
            start kitchen $line
            wait_for 20 hand_shows pending "$url" || return 1
            ;;
        *)
            # shellcheck disable=SC2086
            said=$(SHOAL_URL=$url $line 2>>"$work/hand.log") || return 1
            case $line in *" enrol"*) code=$said ;; esac
            ;;
        esac
    done <"$1"
    wait_for 20 hand_shows accepted "$url"
}
hand_shows() { "$B/shoal" board --url "$2" | grep -E "^kitchen .*$1 +online"; }

# shellcheck disable=SC2086 # a list of pages
n=$(blocks $pages) ran=0
for ((i = 1; i <= n; i++)); do
    block=$work/block.$i
    grep -qE 'curl|build/' "$block" || continue
    # It needs a board on the desk; tests/api/provision.sh and tests/firmware have what comes before that.
    ! grep -q teensy_loader_cli "$block" || continue
    ran=$((ran + $(grep -c 'curl -' "$block")))
    case $(cat "$block") in
    *DIR*)
        # Not through check: what a subshell starts, no one but it could end.
        if by_hand "$block" >"$work/by_hand.out" 2>&1; then pass "readme_block_${i}_works_by_hand"; else
            fail "readme_block_${i}_works_by_hand" "$(tail -n 5 "$work/by_hand.out")"
        fi
        for name in kitchen hand_server; do
            pid=${pids[$name]:-none}
            stop "$name"
            check_equal "$name: started by hand, ended by TERM" "$EXIT $(kill -0 "$pid" 2>/dev/null || echo gone)" "0 gone"
        done
        ;;
    *) check "readme_block_${i}_works_as_written" run_block "$block" ;;
    esac
done
# shellcheck disable=SC2086
check_equal readme_has_no_curl_line_outside_of_what_was_run "$ran" "$(cat $pages | grep -c 'curl -')"

# What came out.
cat "$work"/block.*.out >"$work/all.out" 2>/dev/null
tr '\n' ' ' <"$work/all.out" >"$work/all.line"
said() { check "readme_$1" grep -qE "$2" "$work/all.line"; }
said upload_names_version_and_job '"version":"[0-9a-f]{64}","job":"[0-9A-Z]{26}"'
said dry_run_uses_the_boards '"boards_used": 3, +"latency_ms": [0-9.]+, +"peak_bytes_max": [1-9][0-9]+'
said deployment_becomes_active ' active '
said metadata_has_the_input '"datatype":"INT8","shape":\[1,28,28,1\]'
said labels_are_counted ' 10 '
said picture_is_read '"labels":\[\{"index":7,"label":"7","score":0.9[0-9]+\}'
said inferences_tell_where_time_went '"name":"board-3","computing_ms":[0-9.]+,"waiting_ms":[0-9.]+,"moving_ms"'
said inspect_counts_macs '3266208 MACs'
said plan_predicts 'predicted latency [0-9.]+ ms'
said deploy_says_where 'is active, generation 1, on board-1, board-2, board-3'
said status_lists 'board +board-3 +accepted +online'
said enrol_gives_a_code '([0-9A-Z]{6}-){6}[0-9A-Z]{6}'
check_equal readme_inference_answers_ten_bytes "$(wc -c <"$home/output.bin")" 10
check readme_inference_equals_the_reference cmp "$home/output.bin" "$home/whole.bin"

# What is only named. A pattern with * must match something.
gone=""
for target in $(quoted | grep -oE '\bmake [a-z][a-z/_-]*' | sed 's/make //' | sort -u); do
    case $target in
    build/tests/*) [ -e "tests/unit/${target##*/}.c" ] || gone+=" make:$target" ;;
    *) grep -qE "^$target:" Makefile firmware/*.mk tests/firmware/*/*.mk || gone+=" make:$target" ;;
    esac
done
for path in $(quoted | grep -oE '(^|[^a-z/])(\.ci|tests|server|shared|firmware|scripts|web|migrations)/[][A-Za-z0-9_./*-]*' | sed 's/^[^.a-z]//' | sort -u); do
    compgen -G "$path" >/dev/null || gone+=" $path"
done
for page in $pages; do
    # shellcheck disable=SC2013 # no spaces
    for link in $(grep -hoE '\]\([a-z.][^):#]*' "$page" | sed 's/^](//'); do
        [ -e "$(dirname "$page")/$link" ] || gone+=" $page:$link"
    done
done
check_equal readme_and_docs_name_nothing_that_is_gone "$gone" ""
commands=$("$B/shoal" help | awk '/^  [a-z]+ / {print $1}')
for command in $(quoted | grep -oE '\bshoal [a-z]+' | sed 's/shoal //' | sort -u); do
    grep -qx "$command" <<<"$commands help" || [ "$command" = help ] || fail "shoal_has_the_command_$command"
done

# The page about the command line says that help lists all options: each with its meaning.
unexplained=""
for command in $commands; do
    help=$("$B/shoal" help "$command")
    for option in $(head -n 1 <<<"$help" | grep -oE -e '--[a-z0-9-]+' | sort -u); do
        grep -qE -e "^  $option +[a-zA-Z0-9]" <<<"$help" || unexplained+=" $command$option"
    done
done
check_equal help_says_what_every_option_means "$unexplained" ""
said=$("$B/shoal" schedule models/digits.tflite --ram 1K 2>&1)
check_equal a_schedule_without_a_board_names_none "$? $(grep -c 'board ,' <<<"$said") $(grep -c -e '--extra-macs' <<<"$said")" "1 0 1"
finish
