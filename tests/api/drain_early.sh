#!/usr/bin/env bash
# A board that is drained while a deployment is planned or pushed to it is left as soon as that is settled.
. tests/support/lib.sh
start_server || finish
for name in b1 b2 b3; do start_board $name --delay-ms 20; done
wait_for 30 boards_online 3 || { fail boards_come_online; finish; }
api PUT /api/v1/models/digits -T models/digits.tflite
api_json POST /api/v1/deployments '{"model":"digits","strategy":"neuron"}'
check_equal deployment_is_taken "$STATUS" 202
deployment=$(field .id)
api POST /api/v1/boards/b3/drain
check_equal drain_is_taken "$STATUS $(field .drained)" "200 true"
safe() { [ "$(curl -sS "$URL/api/v1/boards/b3" | jq .safe_to_unplug)" = true ]; }
settled() { [ "$(curl -sS "$URL/api/v1/deployments/$deployment" | jq -r .state)" = active ]; }
check deployment_settles wait_for 60 settled
check drained_board_becomes_safe_to_unplug wait_for 30 safe
finish
