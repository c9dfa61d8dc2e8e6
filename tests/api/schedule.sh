#!/usr/bin/env bash
# `shoal schedule` as its users meet it, without a server: a table whose columns line up whatever the network, words that
# agree with --json, refusals that say what would help, and exit codes.
. tests/support/lib.sh
shoal=$B/shoal

# Long names and 121 operators; then a block for which patches pay.
jq -n '[range(120)] | {name: "long", inputs: ["t0"], outputs: ["t121"],
    tensors: (([.[], 120] | map({("t\(.)"): {shape: [24, 24, (if . % 3 == 1 then 48 else 16 end)]}}) | add) + {t121: {shape: [1, 1, 16]}}),
    ops: (map({name: "network/with/a/very/long/name/block_\(.)/project/BatchNorm;and/all/that/was/fused/into/it", type: "conv",
        inputs: ["t\(.)"], output: "t\(. + 1)", k: (if . % 3 == 0 then 1 else 3 end)})
        + [{name: "pool", type: "gap", inputs: ["t120"], output: "t121"}])}' >"$work/long.json"
cat >"$work/wide.json" <<'END'
{"name": "wide", "inputs": ["x"], "outputs": ["y"],
 "tensors": {"x": {"shape": [64, 64, 3]}, "e": {"shape": [64, 64, 48]}, "d": {"shape": [32, 32, 48]}, "p": {"shape": [32, 32, 8]},
             "f": {"shape": [32, 32, 96]}, "g": {"shape": [16, 16, 96]}, "h": {"shape": [16, 16, 12]}, "y": {"shape": [1, 1, 12]}},
 "ops": [{"name": "stem", "type": "conv", "inputs": ["x"], "output": "e", "k": 3},
         {"name": "filter", "type": "dw", "inputs": ["e"], "output": "d", "k": 3, "s": 2},
         {"name": "project", "type": "conv", "inputs": ["d"], "output": "p"},
         {"name": "expand", "type": "conv", "inputs": ["p"], "output": "f"},
         {"name": "filter2", "type": "dw", "inputs": ["f"], "output": "g", "k": 3, "s": 2},
         {"name": "project2", "type": "conv", "inputs": ["g"], "output": "h"},
         {"name": "pool", "type": "gap", "inputs": ["h"], "output": "y"}]}
END

# table NAME OPTION...: the answer as text and as JSON, and its steps' lines alone
table() {
    local name=$1
    shift
    "$shoal" schedule "$@" >"$work/$name.txt" && "$shoal" schedule "$@" --json >"$work/$name.json.out" &&
        sed '/^$/,$d' "$work/$name.txt" >"$work/$name.steps"
}
lines_up() {
    awk 'NR == 1 {at = index($0, "operators"); how = index($0, "how"); next}
        substr($0, at - 2, 2) != "  " || substr($0, at, 1) == " " || substr($0, how - 2, 2) != "  " || substr($0, how, 1) == " " && !/each: / {bad++}
        END {print (NR > 1 && at > 0 && !bad)}' "$1"
}
for what in "digits models/digits.tflite" "long $work/long.json" "wide $work/wide.json --extra-macs 60"; do
    read -r name rest <<<"$what"
    # shellcheck disable=SC2086 # a list of options
    check "schedule_of_$name" table "$name" $rest
    check_equal "columns_line_up_for_$name" "$(lines_up "$work/$name.steps")" 1
    check_equal "a_line_a_step_with_its_bytes_for_$name" \
        "$(awk '$1 ~ /^[0-9]+$/ && !/each: / {gsub(",", "", $3); print $3}' "$work/$name.steps" | tr '\n' ' ')" \
        "$(jq -r '.partial.steps[].peak_bytes' "$work/$name.json.out" | tr '\n' ' ')"
    check_equal "peak_in_words_is_the_peak_of_$name" "$(awk '$1 == "peak" {gsub(",", "", $2); print $2}' "$work/$name.txt")" \
        "$(jq .partial.peak_bytes "$work/$name.json.out")"
done
check_equal the_longest_line_has_room "$(awk 'length > 140 {n++} END {print n + 0}' "$work/long.txt")" 0
check_equal names_are_shortened_to_what_tells_most "$(grep -c 'block_0/project' "$work/long.steps") $(grep -c BatchNorm "$work/long.txt")" "1 0"
jq -r '.partial.steps[] | select(.mode == "patches") | "patches of \(.tile[0])x\(.tile[1]), \(.patches[0])x\(.patches[1]) of them"' \
    "$work/wide.json.out" >"$work/patches"
check patches_are_said_with_their_size_and_number grep -qFf "$work/patches" "$work/wide.steps"
check_equal what_a_patch_does_stands_below_it "$(grep -c 'each: ' "$work/wide.steps")" "$(jq '[.partial.steps[].inner[]] | length' "$work/wide.json.out")"
check_equal patches_cover_the_output "$(jq -c '[.partial.steps[] | select(.tile) | .ops[-1] as $op | {project: 32, expand: 32, filter: 32}[$op] // 16 as $h
    | .tile[0] * .patches[0] >= $h and .tile[0] * (.patches[0] - 1) < $h] | all' "$work/wide.json.out")" true

# What docs/schedule.md says of a search loop: the largest tensor of the bottleneck, and what is tied to it, made narrower.
limit=40000
cp "$work/wide.json" "$work/pruned.json"
turns=0
while "$shoal" schedule - --axes channels --json <"$work/pruned.json" >"$work/answer" &&
    [ "$(jq .partial.peak_bytes "$work/answer")" -gt $limit ] && [ $((turns += 1)) -lt 60 ]; do
    jq --slurpfile answer "$work/answer" '{e: ["e", "d"], d: ["e", "d"], p: ["p"], f: ["f", "g"], g: ["f", "g"]} as $tied
        | ([$answer[0].bottleneck.tensors[] | select($tied[.name])] | max_by(.bytes).name) as $most
        | reduce $tied[$most][] as $name (.; .tensors[$name].shape[2] -= 4)' "$work/pruned.json" >"$work/next.json"
    mv "$work/next.json" "$work/pruned.json"
done
check_equal narrowing_what_is_in_the_way_reaches_a_limit "$(jq --argjson limit $limit '.partial.peak_bytes <= $limit' "$work/answer") $((turns > 0 && turns < 60))" "true 1"

"$shoal" schedule models/digits.tflite --axes rows --json | jq -c '[.partial.steps[] | select(.mode == "rows")][0]' >"$work/rows"
check_equal rows_say_what_comes_in_and_out "$(jq -c '.rows[0] == 28 and (.rows[1] as $out | any(28, 14, 7, 4; . == $out))' "$work/rows")" true
check_equal rings_are_no_taller_than_a_window_needs "$(jq '.ring_rows[0] >= 1 and .ring_rows[1] <= 5' "$work/rows")" true
"$shoal" schedule models/digits.tflite --axes channels --json >"$work/channels"
check_equal turns_and_channels_cover_all "$(jq '[.partial.steps[] | select(.mode == "channels") | .turns >= 1 and .k >= 1] | length > 0 and all' "$work/channels")" true

"$shoal" plan models/digits.tflite --boards 1 --ram 4K >"$work/plan.txt"
sed -n '/^step/,$p' "$work/plan.txt" >"$work/plan.steps"
check_equal a_plan_shows_the_steps_of_a_board_that_runs_parts "$(awk '$1 ~ /^[0-9]+$/ && !/each: / {gsub(",", "", $3); print $3}' "$work/plan.steps" | tr '\n' ' ')" \
    "$("$shoal" plan models/digits.tflite --boards 1 --ram 4K --json | jq -r '.parties[0].schedule[].peak_bytes' | tr '\n' ' ')"
check_equal columns_line_up_for_a_plan "$(lines_up "$work/plan.steps")" 1

check_equal help_by_option_and_by_command_is_the_same "$("$shoal" schedule --help)" "$("$shoal" help schedule)"
code() { "$@" >"$work/said" 2>"$work/reason"; echo $?; }
for usage in "--extra-macs -1" "--extra-macs 1001" "--extra-macs x" "--axes patches" "--ram 0" "--ram 64KB" "--accumulator 7" "--image none"; do
    # shellcheck disable=SC2086
    check_equal "wrong_usage_is_2: $usage" "$(code "$shoal" schedule models/digits.tflite $usage)" 2
done
check_equal a_missing_file_is_1 "$(code "$shoal" schedule "$work/none.json")" 1
check_equal an_unknown_profile_is_1 "$(code "$shoal" schedule models/digits.tflite --profile nobody)" 1
check an_unknown_profile_is_told_with_the_known_ones grep -q teensy41-cautious "$work/reason"
jq '.ops[0] += {name: "a", type: "lstm"}' "$work/wide.json" >"$work/letter.json"
check_equal a_layer_is_named_also_where_its_name_is_a_letter \
    "$("$shoal" schedule "$work/letter.json" 2>&1 | grep -c '; layer a$')" 1
check_equal too_little_ram_is_1 "$(code "$shoal" schedule models/digits.tflite --ram 4K)" 1
for option in "--extra-macs 50" "--image streamed"; do
    # shellcheck disable=SC2086
    least=$("$shoal" schedule models/digits.tflite $option --json | jq .partial.peak_bytes)
    check "help_is_found_out_not_guessed: $option" grep -qF -e "with $option it $([ "$least" -le 4096 ] && echo fits || echo does not fit either): $least bytes" "$work/reason"
done
finish
