/*
 * What handlers share. A handler reads parse, authorise, do, answer; it returns 0 when the answer is set or
 * HTTP_PENDING. Inline handlers only read (the store's readers, copies under a mutex).
 */
#ifndef SHOAL_SERVER_API_API_H
#define SHOAL_SERVER_API_API_H

#include "server/api/app.h"
#include "server/base/error_json.h"

struct app *api_app(const struct http_exchange *x);
const char *api_param(const struct http_exchange *x, int n);

/* Refuses keys that are not in "a|b|c"; a missing body is an empty object. Returns 0, or a negative status
 * with the answer set. */
int api_check_keys(struct http_exchange *x, const json_t *json, const char *keys);
/* Values of a JSON body, left alone when missing; false with the answer (400) set when a key has another
 * type. */
bool api_bool(struct http_exchange *x, const json_t *json, const char *key, bool *value);
bool api_int(struct http_exchange *x, const json_t *json, const char *key, int64_t lo, int64_t hi,
             int64_t *value);
bool api_text(struct http_exchange *x, const json_t *json, const char *key, const char **value);

/* ?limit (1..1000, 100) and ?after. False with the answer set. */
bool api_page(struct http_exchange *x, int64_t *limit, const char **after);
/* Cuts a list of limit + 1 rows to a page {"items","next"}; `key` of the last row is the next ?after. NULL
 * passes. */
json_t *api_list(json_t *rows, int64_t limit, const char *key);

/* A reader for a handler; NULL with 503 set. Given back by api_done. */
sqlite3 *api_reader(struct http_exchange *x);
void api_done(struct http_exchange *x, sqlite3 *db);

/* 200 with json, or the error when it is NULL. */
int api_answer(struct http_exchange *x, json_t *json, const struct error *error);
/* The error document with further detail, which is taken (NULL: none). */
int api_fail_with(struct http_exchange *x, const struct error *error, json_t *detail);
/* The error that a failed job or deployment carries ({"code","message","detail"}), answered with its status;
 * `subject`: `id` is added to its detail. */
int api_fail_stored(struct http_exchange *x, const json_t *error, const char *subject, const char *id);

/* clang-format off */
#define API_HANDLERS(X)                                                                                     \
    X(api_index)                                                                                            \
    X(api_asset) X(api_models) X(api_model) X(api_model_put) X(api_model_delete) X(api_version)             \
        X(api_version_delete) X(api_layers) X(api_labels) X(api_labels_put) X(api_input) X(api_input_put)   \
            X(api_jobs) X(api_job) X(api_schedule) X(api_plan) X(api_deployments) X(api_deployment_post)    \
                X(api_deployment) X(api_deployment_plan) X(api_deployment_act) X(api_boards) X(api_board)   \
                    X(api_board_patch) X(api_board_delete) X(api_board_act) X(api_board_replace)            \
                        X(api_board_readings) X(api_board_log) X(api_board_states) X(api_load)              \
                            X(api_enrolments) X(api_enrolment_post) X(api_enrolment_delete) X(api_attempts) \
                                X(api_inferences) X(api_inference) X(api_attention) X(api_events)           \
                                    X(api_limits) X(api_fleet) X(api_openapi) X(api_classify) X(v2_server)  \
                                        X(v2_live) X(v2_ready) X(v2_model) X(v2_model_ready) X(v2_infer)
/* clang-format on */
#define API_DECLARE(name) http_handler name;
API_HANDLERS(API_DECLARE)
#undef API_DECLARE

#endif
