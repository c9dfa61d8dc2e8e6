/* The route table. Static files come last: their patterns match what nothing else did. */
#include "server/api/routes.h"

#include "server/api/api.h"
#include "server/import/import.h"

#define VIEWER HTTP_ROLE_VIEWER
#define OPERATOR HTTP_ROLE_OPERATOR
#define ADMIN HTTP_ROLE_ADMIN
#define READ(path, where, handler, schema, summary)                                   \
    {                                                                                 \
        "GET", path, VIEWER, where, HTTP_BODY_NONE, 0, handler, summary, NULL, schema \
    }
#define WRITE(method, path, role, body, limit, handler, request, response, summary)       \
    {                                                                                     \
        method, path, role, HTTP_WORKER, body, limit, handler, summary, request, response \
    }

enum { JSON_BYTES = 65536, GRAPH_BYTES = 1 << 20 };

/* clang-format off */
static const struct http_route routes[] = {
    READ("/", HTTP_INLINE, api_index, NULL, "the dashboard"),

    READ("/api/v1/models", HTTP_INLINE, api_models, "list", "all models"),
    READ("/api/v1/models/{name}", HTTP_INLINE, api_model, "model", "a model and its versions"),
    WRITE("POST", "/api/v1/models/{name}", OPERATOR, HTTP_BODY_SPOOL, IMPORT_MODEL_BYTES_MAX, api_model_put,
          "file", "upload", "uploads a version; the body is the file"),
    WRITE("PUT", "/api/v1/models/{name}", OPERATOR, HTTP_BODY_SPOOL, IMPORT_MODEL_BYTES_MAX, api_model_put,
          "file", "upload", "uploads a version; the body is the file"),
    WRITE("DELETE", "/api/v1/models/{name}", OPERATOR, HTTP_BODY_NONE, 0, api_model_delete, NULL, "removed",
          "removes a model; 409 while it is deployed"),
    READ("/api/v1/models/{name}/versions/{sha}", HTTP_INLINE, api_version, "version",
         "a version: ends, figures, schedule, dry run"),
    WRITE("DELETE", "/api/v1/models/{name}/versions/{sha}", OPERATOR, HTTP_BODY_NONE, 0, api_version_delete,
          NULL, "removed", "removes a version; 409 while it is deployed"),
    READ("/api/v1/models/{name}/versions/{sha}/layers", HTTP_INLINE, api_layers, "list", "a version's layers"),
    READ("/api/v1/models/{name}/versions/{sha}/labels", HTTP_INLINE, api_labels, "labels", "a line each"),
    WRITE("PUT", "/api/v1/models/{name}/versions/{sha}/labels", OPERATOR, HTTP_BODY_BINARY,
          MODELS_LABELS_BYTES_MAX, api_labels_put, "labels", "version", "sets labels, a line each"),
    READ("/api/v1/models/{name}/versions/{sha}/input", HTTP_INLINE, api_input, "input",
         "how pictures become inputs"),
    WRITE("PUT", "/api/v1/models/{name}/versions/{sha}/input", OPERATOR, HTTP_BODY_JSON, JSON_BYTES,
          api_input_put, "input", "input", "sets how pictures become inputs; unset keys are guessed"),
    WRITE("POST", "/api/v1/models/{name}/classify", VIEWER, HTTP_BODY_IMAGE, IMPORT_IMAGE_BYTES_MAX,
          api_classify, "image", "classification", "PNG or JPEG in, labels out; ?version, ?top"),

    READ("/api/v1/jobs", HTTP_INLINE, api_jobs, "list", "jobs, newest first"),
    READ("/api/v1/jobs/{id}", HTTP_INLINE, api_job, "job", "a job; ?wait=SECONDS"),
    WRITE("POST", "/api/v1/schedules", VIEWER, HTTP_BODY_JSON, GRAPH_BYTES, api_schedule, "schedule_request",
          "schedule", "one board's schedule and memory of a model, or of a graph without weights"),
    WRITE("POST", "/api/v1/plans", VIEWER, HTTP_BODY_JSON, JSON_BYTES, api_plan, "deployment_request", "plan",
          "a dry run: nothing is sent; 422 names what does not fit and what would"),

    READ("/api/v1/deployments", HTTP_INLINE, api_deployments, "list", "deployments, newest first; ?model"),
    WRITE("POST", "/api/v1/deployments", OPERATOR, HTTP_BODY_JSON, JSON_BYTES, api_deployment_post,
          "deployment_request", "deployment", "deploys a version: 202, or 200 when it runs already"),
    READ("/api/v1/deployments/{id}", HTTP_INLINE, api_deployment, "deployment",
         "a deployment, board by board; ?wait=SECONDS"),
    READ("/api/v1/deployments/{id}/plan", HTTP_INLINE, api_deployment_plan, NULL,
         "the whole plan of its generation"),
    WRITE("POST", "/api/v1/deployments/{id}/{act}", OPERATOR, HTTP_BODY_NONE, 0, api_deployment_act, NULL,
          "deployment", "pause, resume, cancel, rollback, replan, promote, retire"),

    READ("/api/v1/boards", HTTP_INLINE, api_boards, "list", "all boards"),
    READ("/api/v1/boards/{id}", HTTP_INLINE, api_board, "board", "a board, by id or name"),
    WRITE("PATCH", "/api/v1/boards/{id}", OPERATOR, HTTP_BODY_JSON, JSON_BYTES, api_board_patch, "board_patch",
          "board", "sets name, location, tags"),
    WRITE("DELETE", "/api/v1/boards/{id}", ADMIN, HTTP_BODY_NONE, 0, api_board_delete, NULL, "removed",
          "forgets a board; 409 while it is used"),
    READ("/api/v1/boards/{id}/log", HTTP_INLINE, api_board_log, "list", "what the board said"),
    READ("/api/v1/boards/{id}/readings", HTTP_INLINE, api_board_readings, "list",
         "memory and temperature of the last hour, one reading in 10 s, since the server's start"),
    READ("/api/v1/boards/{id}/states", HTTP_INLINE, api_board_states, "list",
         "the time line of a board's link, newest first"),
    WRITE("POST", "/api/v1/boards/{id}/replace", OPERATOR, HTTP_BODY_JSON, JSON_BYTES, api_board_replace,
          "board_replace", "board", "{\"by\": a board}: it takes the name, the place and the parts of this one"),
    WRITE("POST", "/api/v1/boards/{id}/{act}", OPERATOR, HTTP_BODY_NONE, 0, api_board_act, NULL, "board",
          "accept, revoke, probe, drain, undrain, identify, reboot"),

    READ("/api/v1/enrolments", HTTP_INLINE, api_enrolments, "list", "codes that were given out"),
    WRITE("POST", "/api/v1/enrolments", ADMIN, HTTP_BODY_JSON, JSON_BYTES, api_enrolment_post,
          "enrolment_request", "enrolment", "a one-time code for new boards, shown once"),
    READ("/api/v1/enrolments/attempts", HTTP_INLINE, api_attempts, "list",
         "failed attempts to enrol or connect"),
    WRITE("DELETE", "/api/v1/enrolments/{id}", ADMIN, HTTP_BODY_NONE, 0, api_enrolment_delete, NULL, "removed",
          "withdraws a code"),

    READ("/api/v1/inferences", HTTP_INLINE, api_inferences, "list",
         "history, newest first; ?deployment, ?model"),
    READ("/api/v1/inferences/{id}", HTTP_WORKER, api_inference, "inference", "an inference with its time line"),
    READ("/api/v1/load", HTTP_WORKER, api_load, "load",
         "inferences per second and latency of the last minutes; ?minutes, ?points"),
    READ("/api/v1/attention", HTTP_INLINE, api_attention, "list", "what needs a person"),
    READ("/api/v1/events", HTTP_INLINE, api_events, "events", "server-sent events"),
    READ("/api/v1/limits", HTTP_INLINE, api_limits, "limits", "what the server accepts and keeps"),
    READ("/api/v1/fleet", HTTP_INLINE, api_fleet, NULL, "the usable boards as FLEET.json"),
    READ("/openapi.json", HTTP_INLINE, api_openapi, NULL, "this API's description"),

    READ("/v2", HTTP_INLINE, v2_server, NULL, "inference protocol: the server"),
    READ("/v2/health/live", HTTP_INLINE, v2_live, NULL, "inference protocol: alive"),
    READ("/v2/health/ready", HTTP_INLINE, v2_ready, NULL, "inference protocol: ready"),
    READ("/v2/models/{name}", HTTP_INLINE, v2_model, NULL, "inference protocol: a model's ends"),
    READ("/v2/models/{name}/ready", HTTP_INLINE, v2_model_ready, NULL,
         "inference protocol: whether it is deployed"),
    READ("/v2/models/{name}/versions/{version}", HTTP_INLINE, v2_model, NULL,
         "inference protocol: a version's ends"),
    READ("/v2/models/{name}/versions/{version}/ready", HTTP_INLINE, v2_model_ready, NULL,
         "inference protocol: whether it is deployed"),
    {"POST", "/v2/models/{name}/infer", VIEWER, HTTP_INLINE, HTTP_BODY_TENSOR, 0, v2_infer,
     "inference protocol: asks the newest active deployment", "tensors", NULL},
    {"POST", "/v2/models/{name}/versions/{version}/infer", VIEWER, HTTP_INLINE, HTTP_BODY_TENSOR, 0, v2_infer,
     "inference protocol: asks a version", "tensors", NULL},

    READ("/{file}", HTTP_INLINE, api_asset, NULL, "a file of the dashboard"),
    READ("/{folder}/{file}", HTTP_INLINE, api_asset, NULL, "a file of the dashboard"),
};
/* clang-format on */

const struct http_route *api_routes(size_t *count)
{
    *count = sizeof routes / sizeof *routes;
    return routes;
}
