/* /api/v1/events, limits and fleet. */
#include "server/api/api.h"
#include "server/import/import.h"

#include "server/base/version.h"

#include <stdlib.h>

int api_events(struct http_exchange *x)
{
    return http_events_stream(x, api_app(x)->events);
}

int api_limits(struct http_exchange *x)
{
    struct app *app = api_app(x);
    json_t *json = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:b}", "server_version",
        SHOAL_VERSION, "model_bytes", IMPORT_MODEL_BYTES_MAX, "image_bytes", IMPORT_IMAGE_BYTES_MAX,
        "image_side", IMPORT_IMAGE_SIDE_MAX, "image_pixels", IMPORT_IMAGE_PIXELS_MAX, "json_bytes", 1 << 20,
        "tensor_bytes", 8 << 20, "labels_bytes", MODELS_LABELS_BYTES_MAX, "model_name_bytes",
        MODELS_NAME_BYTES - 1, "wait_s", 300, "page_limit", 1000, "boards", FLEET_BOARDS_MAX,
        "boards_in_a_deployment", CONDUCT_PARTIES_MAX, "board_address", fleet_address(app->fleet),
        "board_address_is_loopback", fleet_address_is_loopback(app->fleet));
    json_object_set_new(json, "keeps",
                        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "inferences", KEEP_INFERENCES,
                                  "inference_days", KEEP_INFERENCE_DAYS, "log_lines", KEEP_LOG_LINES,
                                  "log_days", KEEP_LOG_DAYS, "attempt_days", KEEP_ATTEMPT_DAYS,
                                  "expired_code_days", KEEP_CODE_DAYS, "ended_job_days", KEEP_JOB_DAYS));
    return http_json(x, 200, json);
}

int api_fleet(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    struct plan_board *boards = NULL;
    int32_t n = 0;
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    int status = fleet_plan_boards(api_app(x)->fleet, db, NULL, &boards, &n, &error);
    api_done(x, db);
    if (status < 0 && status != STATUS_TOO_FEW_BOARDS)
        return http_fail(x, &error);
    json_t *list = json_array();
    for (int32_t i = 0; status >= 0 && i < n; i++)
        json_array_append_new(list, plan_board_json(&boards[i]));
    free(boards);
    return http_json(x, 200, list);
}
