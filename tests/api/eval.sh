#!/usr/bin/env bash
# shoal eval: the same set in this process, over virtual boards and through a server; labels, lists, thresholds, JUnit,
# refusals.
# timeout: 120
. tests/support/lib.sh
model=$FACTS/models/emlearn_mnist_cnn_int8.tflite
[ -e "$model" ] || { skip eval "no $model"; finish; }
set=$work/set
for d in 0 1 2 3 4 5 6 7 8 9; do
    mkdir -p "$set/$d" && cp "$FACTS/images/digit_$d.png" "$set/$d/a.png"
done
cp "$FACTS/images/digit_5.png" "$set/3/wrong.png"

evaluate() { # OPTION ...: exit status in $EXIT, document in $work/said
    "$B/shoal" eval "$@" --json >"$work/said" 2>"$work/eval.log"
    EXIT=$?
}
said() { jq -c "$1" "$work/said"; }
one_miss='[.images, (.top1 * 11 | round), .top5, [.misses[] | [.label, .said]]]'

evaluate "$model" --set "$set"
check_equal the_reference_executor_finds_the_one_miss "$EXIT $(said "$one_miss")" '0 [11,10,1,[["3","5"]]]'
jq 'del(.latency_ms, .executor)' "$work/said" >"$work/reference"
evaluate "$model" --set "$set" --boards 3
check_equal virtual_boards_say_the_same "$(said .executor) $(jq 'del(.latency_ms, .executor)' "$work/said")" "\"boards\" $(cat "$work/reference")"

evaluate "$model" --set "$set" --min-top1 0.9 --junit "$work/met.xml"
check_equal a_threshold_that_is_met_exits_0 "$EXIT $(grep -c '<failure' "$work/met.xml")" "0 0"
evaluate "$model" --set "$set" --min-top1 0.95 --junit "$work/missed.xml"
check_equal a_threshold_that_is_missed_exits_5 "$EXIT $(grep -c '<failure' "$work/missed.xml")" "5 1"
evaluate "$model" --set "$set" --max-p95-ms 0.000001
check_equal a_latency_that_is_missed_exits_5 "$EXIT" 5
evaluate "$model" --set "$set" --min-top1 95
check_equal a_threshold_over_1_is_wrong_usage "$EXIT" 2

printf 'path,label\nset/7/a.png,7\nset/8/a.png,8\n' >"$work/list.csv"
evaluate "$model" --set "$work/list.csv"
check_equal a_list_names_its_images "$EXIT $(said '[.images, .top1]')" '0 [2,1]'
printf 'n\no\n' >"$work/two.labels"
evaluate "$model" --set "$set" --labels "$work/two.labels"
check_equal a_label_that_the_model_lacks_is_refused "$EXIT" 1
check_match the_refusal_names_the_image "$(cat "$work/eval.log")" "set/0/a.png: the model has no label '0'"
mkdir -p "$work/broken/1" && echo "no picture" >"$work/broken/1/x.png"
evaluate "$model" --set "$work/broken"
check_equal a_broken_picture_is_refused "$EXIT" 1
check_match the_refusal_names_the_picture "$(cat "$work/eval.log")" "broken/1/x.png"

start_server || finish
for board in b1 b2; do start_board "$board" --ram 262144; done
wait_for 30 boards_online 2 || { fail boards_come_online; finish; }
evaluate digits --set "$set"
check_equal a_model_that_the_server_lacks_is_refused "$EXIT" 1
"$B/shoal" upload "$model" --name digits >/dev/null 2>&1
evaluate digits --set "$set"
check_equal a_model_that_is_not_deployed_is_refused "$EXIT" 1
check "digits is deployed" "$B/shoal" deploy digits --wait $((60 * patience))
evaluate digits --set "$set"
check_equal a_server_says_the_same "$(said .executor) $(jq -S 'del(.latency_ms, .executor, .model)' "$work/said")" \
    "\"server\" $(jq -S 'del(.latency_ms, .executor, .model)' "$work/reference")"
version=$(jq -r .version "$work/said")
evaluate "digits@${version:0:12}" --set "$set" --min-top1 0.9
check_equal a_version_can_be_named "$EXIT $(said .thresholds[0].met)" "0 true"
for d in zero one two three four five six seven eight nine; do echo $d; done >"$work/labels"
api PUT "/api/v1/models/digits/versions/latest/labels" -H 'Content-Type: application/octet-stream' --data-binary "@$work/labels"
printf 'set/7/a.png,seven\nset/3/wrong.png,three\n' >"$work/list.csv"
evaluate digits --set "$work/list.csv"
check_equal labels_are_those_of_the_server "$EXIT $(said '[.top1, .misses[0].said]')" '0 [0.5,"five"]'
evaluate digits --set "$set" --boards 2
check_equal boards_go_with_a_file "$EXIT" 2
stop server
evaluate digits --set "$set"
check_equal a_server_that_is_gone_exits_3 "$EXIT" 3
finish
