#!/usr/bin/env bash
# The subcommands that work on models without a server: inspect, schedule, plan, run. The model is the demo's, which the
# build writes itself.
. tests/support/lib.sh
model=$work/demo.tflite sample=$work/sample.bin
"$B/demo_model" "$model" "$sample" >/dev/null || exit 1
shoal() { "$B/shoal" "$@" 2>>"$work/err.log"; }
json() { shoal "$@" --json >"$work/json"; }
get() { jq -r "$1" "$work/json"; }

# ---- inspect, schedule
json inspect "$model"
check_equal inspect_counts_what_layers_sum_up_to "$(get '.macs == ([.layers[].macs] | add)')" true
check_equal inspect_names_input_and_output "$(get '[.inputs[0].dims[-1], .outputs[0].dims[-1]] | @csv')" 3,10
peak=$(get .memory.peak_bytes)
json schedule "$model"
check_equal schedule_and_inspect_agree_on_the_peak "$(get .ordinary.peak_bytes)" "$peak"
check_equal schedule_bottleneck_adds_up_to_the_peak "$(get '([.bottleneck.tensors[].bytes] | add) == .partial.peak_bytes')" true
check_equal schedule_takes_less_than_operator_by_operator "$(get '.partial.peak_bytes < .ordinary.peak_bytes')" true
check_equal schedule_is_emitted_and_checked "$(get '[.executable, .why_not_executable == null] | @csv')" true,true
check_equal schedule_packs_within_peak_and_scratch "$(get '.partial | .arena_bytes >= .peak_bytes and .arena_bytes < .peak_bytes + .scratch_bytes + 32')" true
shoal schedule "$model" --ram 1000 >/dev/null
check_equal schedule_beyond_the_memory_is_refused $? 1

# ---- plan
json plan "$model" --boards 3
check_equal plan_uses_all_three_boards "$(get .boards_used)" 3
check_equal plan_shares_sum_up_to_one "$(get '([.parties[].share] | add) as $s | $s > 0.99999 and $s < 1.00001')" true
hash=$(get .hash)
json plan "$model" --boards 3
check_equal plan_is_the_same_every_time "$(get .hash)" "$hash"
json plan "$model" --boards 3 --ram 4000
check_equal plan_that_does_not_fit_exits_1 $? 1
check_equal plan_refusal_says_what_is_missing "$(get '.error.detail | [.resource, .missing_bytes == .need_bytes - .have_bytes, (.shortfalls | length)] | @csv')" '"arena",true,3'
json plan "$model" --boards 3 --flash 2M --ram 256K
check_equal plan_takes_sizes_with_a_suffix "$(get .boards_used)" 3
plain=$(get .hash)
json plan "$model" --boards 3 --flash 2097152 --ram 262144
check_equal plan_with_a_suffix_is_the_plan_with_the_number "$(get .hash)" "$plain"
for size in 1G 0K K 9999999999999M 1.5M; do shoal plan "$model" --boards 3 --ram $size >/dev/null; check_equal "plan --ram $size is wrong usage" $? 2; done
jq -n '[{name: "a", clock_hz: 600e6}, {name: "b", clock_hz: 150e6}]' >"$work/fleet.json"
json plan "$model" --boards "$work/fleet.json" --shares frequency
check_equal plan_shares_follow_the_fleet "$(get '[.parties[] | .name, (.share * 100 | round)] | @csv')" '"a",80,"b",20'
echo '[{"name": "a", "clock": 1}]' >"$work/bad.json"
shoal plan "$model" --boards "$work/bad.json" >/dev/null
check_equal plan_refuses_an_unknown_key_of_a_board $? 1
shoal plan "$model" >/dev/null
check_equal plan_without_boards_is_wrong_usage $? 2
shoal plan "$work/fleet.json" --boards 1 >/dev/null
check_equal plan_of_no_model_is_refused $? 1

# ---- run
shoal run "$model" --input "$sample" --output "$work/whole" && [ -s "$work/whole" ]
check_equal run_answers $? 0
for n in 1 2 3 5 16; do
    for shares in rating even; do
        json run "$model" --input "$sample" --output "$work/split" --boards $n --strategy neuron --shares $shares
        check "run_over_${n}_boards_shares_${shares}_equals_the_reference" cmp "$work/whole" "$work/split"
    done
done
check_equal run_reports_each_board "$(get '.parties | length')" 16
json run "$model" --input "$sample" --output "$work/split" --boards "$work/fleet.json"
check run_over_a_fleet_file_equals_the_reference cmp "$work/whole" "$work/split"
shoal run "$model" --input - --output - <"$sample" | cmp -s - "$work/whole"
check_equal run_takes_and_gives_standard_streams $? 0
head -c 100 "$sample" >"$work/short"
json run "$model" --input "$work/short" --output "$work/none"
check_equal run_refuses_an_input_of_the_wrong_size "$? $(get .error.code)" "1 input_size"
check_equal run_refused_writes_nothing "$([ -e "$work/none" ] && echo there)" ""
finish
