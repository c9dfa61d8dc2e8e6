#!/usr/bin/env bash
# Real models over three boards, asked through the API: pictures are seen as what they are, and goldens are met to the
# last bit.
# timeout: 240
. tests/support/lib.sh
[ -e "$FACTS/models/emlearn_mnist_cnn_int8.tflite" ] || { skip real_models_through_the_api "no $FACTS/models"; finish; }
start_server || finish
for board in b1 b2 b3; do start_board "$board" --ram 2M --flash 7M; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
measured() { [ "$(curl -sS "$URL/api/v1/boards" | jq '[.items[] | select(.rating.rating_kb_per_s > 0)] | length')" = 3 ]; }
check boards_are_measured wait_for 30 measured

deploy() { # NAME MODEL
    "$B/shoal" upload "$FACTS/models/$2.tflite" --name "$1" >/dev/null 2>"$work/said" &&
        "$B/shoal" deploy "$1" --wait $((90 * patience)) >/dev/null 2>>"$work/said" && return
    fail "$1 is deployed" "$(cat "$work/said")"
    return 1
}
goldens() { # NAME MODEL
    local k right=0
    for k in 0 1 2 3; do
        api POST "/v2/models/$1/infer" -H 'Content-Type: application/octet-stream' \
            --data-binary "@$FACTS/golden/$2.in$k.bin"
        cmp -s "$work/body" "$FACTS/golden/$2.out$k.bin" && right=$((right + 1))
    done
    check_equal "$1 meets its goldens over three boards" $right 4
}
see() { # NAME FILE
    api POST "/api/v1/models/$1/classify?top=2" -H 'Content-Type: image/png' --data-binary "@$FACTS/images/$2"
}

if deploy digits emlearn_mnist_cnn_int8; then
    goldens digits emlearn_mnist_cnn_int8
    right=0
    for d in 0 1 2 3 4 5 6 7 8 9; do
        see digits "digit_$d.png"
        [ "$(field '.labels[0].index')" = "$d" ] && right=$((right + 1))
    done
    check_equal all_ten_digits_are_read $right 10
fi

if deploy person cfu_model_mobilenetv2_160_035; then
    goldens person cfu_model_mobilenetv2_160_035
    printf 'no person\nperson\n' >"$work/labels"
    api PUT /api/v1/models/person/versions/latest/labels -T "$work/labels"
    check_equal labels_are_taken "$STATUS" 200
    scale=$(curl -sS "$URL/api/v1/models/person/versions/latest" | jq '.summary.outputs[0].quantisation.scale')
    while read -r photo want; do
        see person "cfu_$photo.png"
        difference=$(field "[.labels[] | {(.label): .score}] | add | (.person - .[\"no person\"]) / $scale | round")
        check_equal "photo $photo has the recorded scores" "$difference" "$want"
    done <<<"00001_7281 -148
00001_7425 68
00002_2532 -112
00002_25869 134
00004_970 128"
fi

if [ -n "${SANITIZE:-}" ]; then
    skip imagenet_through_the_api "too slow under the sanitizers"
elif deploy imagenet coral_tf2_mobilenet_v2_1.0_224_ptq; then
    api PUT /api/v1/models/imagenet/versions/latest/labels -T "$FACTS/images/imagenet_labels.txt"
    check_equal a_thousand_and_one_labels_are_taken "$STATUS $(field .labels)" "200 1001"
    see imagenet grace_hopper.png
    check_equal grace_hopper_wears_a_military_uniform "$(field '.labels[0].label')" "military uniform"
fi
finish
