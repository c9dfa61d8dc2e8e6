/*
 * The API in this process, over real HTTP, without boards: uploads, versions, jobs, settings, refusals, what
 * a restart takes up. The file to upload is written by the tests' own TensorFlow Lite writer.
 */
#include "server/api/app.h"
#include "server/base/clock.h"
#include "server/base/id.h"
#include "server/cli/client.h"
#include "server/import/import.h"
#include "tests/support/import_seed.h"
#include "tests/support/tflite_model.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

static char folder[64];
static struct app *app;
static struct client client;

static void start(void)
{
    struct error error;
    error_clear(&error);
    struct app_config config = {folder, "127.0.0.1:0", "127.0.0.1:0"};
    if (app_start(&app, &config, &error) < 0)
        fail_msg("%s", error.message);
    assert_int_equal(client_open(&client, app->url, false, &error), 0);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-test-api-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    app_stop(app);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A small model's file; `variant` changes a bias, so that each is a version of its own. */
static struct bytes model_file(int32_t variant, int32_t builtin)
{
    struct tw_model model = import_small_model(false);
    struct bytes file;
    if (builtin)
        model.codes[model.ops[SMALL_POOL].code].builtin =
            model.codes[model.ops[SMALL_POOL].code].deprecated_builtin = builtin;
    if (variant)
        ((int32_t *)(uintptr_t)model.buffers[model.tensors[model.ops[SMALL_CONV].inputs[2]].buffer].data)[0] =
            variant;
    tw_encode(&model, &file);
    assert_int_equal(file.status, 0);
    tw_free(&model);
    return file;
}

/* Asks; the HTTP status, and the JSON answer in *json (NULL is allowed). */
static int ask(const char *method, const char *path, const char *type, const void *body, size_t n,
               json_t **json)
{
    struct client_request request = {.method = method,
                                     .path = path,
                                     .content_type = type,
                                     .body = body,
                                     .body_bytes = n,
                                     .timeout_ms = 30000};
    struct client_answer answer;
    struct error error;
    error_clear(&error);
    if (client_ask(&client, &request, &answer, &error) < 0) {
        print_error("%s %s: %s\n", method, path, error.message);
        return -1;
    }
    if (json)
        *json = json_loadb((const char *)answer.body, answer.body_bytes, 0, NULL);
    free(answer.body);
    return answer.status;
}

static int get(const char *path, json_t **json)
{
    return ask("GET", path, NULL, NULL, 0, json);
}

static int put_json(const char *method, const char *path, const char *text, json_t **json)
{
    return ask(method, path, "application/json", text, strlen(text), json);
}

static const char *text(const json_t *json, const char *a, const char *b)
{
    const json_t *value = json_object_get(json, a);
    const char *found = json_string_value(b ? json_object_get(value, b) : value);
    return found ? found : "";
}

/* Uploads a variant; its version in `sha`, the job's id in `job`. */
static int upload(const char *name, int32_t variant, char sha[65], char job[27])
{
    char path[128];
    struct bytes file = model_file(variant, 0);
    json_t *json = NULL;
    (void)snprintf(path, sizeof path, "/api/v1/models/%s", name);
    int status = ask("PUT", path, NULL, file.data, file.size, &json);
    if (sha)
        (void)snprintf(sha, 65, "%s", text(json, "version", NULL));
    if (job)
        (void)snprintf(job, 27, "%s", text(json, "job", NULL));
    json_decref(json);
    bytes_free(&file);
    return status;
}

static int wait_job(const char *job, json_t **json)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/api/v1/jobs/%s?wait=20", job);
    return get(path, json);
}

/* ---- uploads ---- */

static void an_upload_is_stored_once(void **state)
{
    (void)state;
    char first[65], second[65], job[27], again[27];
    assert_int_equal(upload("once", 0, first, job), 201);
    assert_int_equal(upload("once", 0, second, again), 200);
    assert_string_equal(first, second);
    assert_string_equal(job, again);
    json_t *model;
    assert_int_equal(get("/api/v1/models/once", &model), 200);
    assert_int_equal(json_array_size(json_object_get(model, "versions")), 1);
    assert_string_equal(text(model, "latest", "version"), first);
    json_decref(model);
}

struct uploader {
    pthread_t thread;
    int status;
    char sha[65], job[27];
};

static void *upload_at_once(void *context)
{
    struct uploader *uploader = context;
    uploader->status = upload("together", 7, uploader->sha, uploader->job);
    return NULL;
}

static void identical_uploads_at_the_same_moment_are_one_version(void **state)
{
    (void)state;
    struct uploader uploaders[6];
    int created = 0;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&uploaders[i].thread, NULL, upload_at_once, &uploaders[i]), 0);
    for (int i = 0; i < 6; i++) {
        pthread_join(uploaders[i].thread, NULL);
        assert_true(uploaders[i].status == 200 || uploaders[i].status == 201);
        created += uploaders[i].status == 201;
        assert_string_equal(uploaders[i].sha, uploaders[0].sha);
        assert_string_equal(uploaders[i].job, uploaders[0].job);
    }
    assert_int_equal(created, 1);
}

static void an_unsupported_operator_is_refused_with_layer_and_operator(void **state)
{
    (void)state;
    struct bytes file = model_file(0, 28); /* TANH */
    json_t *json;
    assert_int_equal(
        ask("POST", "/api/v1/models/tanh", "application/octet-stream", file.data, file.size, &json), 422);
    const json_t *detail = json_object_get(json_object_get(json, "error"), "detail");
    assert_string_equal(text(json, "error", "code"), "model_unsupported");
    assert_non_null(strstr(text(json, "error", "message"), "TANH"));
    assert_string_equal(text(detail, "op", NULL), "TANH");
    assert_string_not_equal(text(detail, "layer", NULL), "");
    json_decref(json);
    bytes_free(&file);
    assert_int_equal(get("/api/v1/models/tanh", NULL), 404);
}

static void a_truncated_model_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    struct bytes file = model_file(0, 0);
    for (size_t n = 0; n < file.size; n += file.size / 7) {
        json_t *json;
        int status = ask("PUT", "/api/v1/models/short", NULL, file.data, n, &json);
        assert_int_equal(status, 422);
        assert_string_not_equal(text(json, "error", "message"), "");
        json_decref(json);
    }
    bytes_free(&file);
    assert_int_equal(get("/api/v1/models/short", NULL), 404);
}

static void names_outside_the_rule_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Upper", "-dash", ".dot",   "a%20b",
        "a%27b", "%ff",   "..",     "%2e%2e",
        "a%00b", "a%2fb", "%c3%a4", "a23456789012345678901234567890123456789012345678901234567890abcd"};
    struct bytes file = model_file(0, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[160];
        (void)snprintf(path, sizeof path, "/api/v1/models/%s", names[i]);
        assert_int_equal(ask("PUT", path, NULL, file.data, file.size, NULL), 400);
    }
    bytes_free(&file);
    json_t *json;
    assert_int_equal(get("/api/v1/models?limit=1000", &json), 200);
    size_t at;
    json_t *item;
    json_array_foreach(json_object_get(json, "items"), at, item)
        assert_int_equal(models_check_name(text(item, "name", NULL), NULL), 0);
    json_decref(json);
}

/* ---- versions ---- */

static void a_version_is_found_by_prefix_and_latest(void **state)
{
    (void)state;
    char first[65], second[65], path[160], found[65];
    assert_int_equal(upload("found", 1, first, NULL), 201);
    assert_int_equal(upload("found", 2, second, NULL), 201);
    for (size_t i = 0; i < 3; i++) {
        json_t *json;
        char version[80];
        if (i == 0)
            (void)snprintf(version, sizeof version, "latest");
        else
            (void)snprintf(version, sizeof version, "%.*s", i == 1 ? 12 : 64, second);
        (void)snprintf(path, sizeof path, "/api/v1/models/found/versions/%s", version);
        assert_int_equal(get(path, &json), 200);
        (void)snprintf(found, sizeof found, "%s", text(json, "version", NULL));
        assert_string_equal(found, second);
        json_decref(json);
    }
    (void)snprintf(path, sizeof path, "/api/v1/models/found/versions/%.11s", second);
    assert_int_equal(get(path, NULL), 400);
    assert_int_equal(get("/api/v1/models/found/versions/ffffffffffff", NULL), 404);
    assert_int_equal(get("/api/v1/models/found/versions/active", NULL), 404);
    assert_int_equal(get("/api/v1/models/nothing/versions/latest", NULL), 404);
}

static void layers_are_listed_in_order(void **state)
{
    (void)state;
    assert_int_equal(upload("layers", 0, NULL, NULL), 201);
    json_t *json;
    assert_int_equal(get("/api/v1/models/layers/versions/latest/layers", &json), 200);
    const json_t *items = json_object_get(json, "items");
    assert_int_equal(json_array_size(items), 8);
    assert_string_equal(text(json_array_get(items, SMALL_CONV), "op", NULL), "conv");
    assert_string_equal(text(json_array_get(items, SMALL_SOFTMAX), "op", NULL), "softmax");
    assert_true(json_integer_value(json_object_get(json_array_get(items, SMALL_CONV), "macs")) > 0);
    json_decref(json);
}

static void a_new_version_inherits_labels(void **state)
{
    (void)state;
    json_t *json;
    assert_int_equal(upload("heir", 1, NULL, NULL), 201);
    assert_int_equal(
        ask("PUT", "/api/v1/models/heir/versions/latest/labels", NULL, "cat\r\ndog\n\nbird", 14, &json), 200);
    assert_int_equal(json_integer_value(json_object_get(json, "labels")), 4);
    json_decref(json);
    assert_int_equal(upload("heir", 2, NULL, NULL), 201);
    assert_int_equal(get("/api/v1/models/heir/versions/latest", &json), 200);
    assert_int_equal(json_integer_value(json_object_get(json, "labels")), 4);
    assert_int_equal(json_integer_value(json_object_get(json, "serial")), 2);
    json_decref(json);
    struct client_request request = {.method = "GET", .path = "/api/v1/models/heir/versions/latest/labels"};
    struct client_answer answer;
    assert_int_equal(client_ask(&client, &request, &answer, NULL), 0);
    assert_string_equal((const char *)answer.body, "cat\ndog\n\nbird\n");
    free(answer.body);
}

static void more_labels_than_classes_are_refused(void **state)
{
    (void)state;
    json_t *json;
    assert_int_equal(upload("labels", 0, NULL, NULL), 201);
    assert_int_equal(
        ask("PUT", "/api/v1/models/labels/versions/latest/labels", NULL, "1\n2\n3\n4\n5\n6\n", 12, &json),
        400);
    const json_t *detail = json_object_get(json_object_get(json, "error"), "detail");
    assert_int_equal(json_integer_value(json_object_get(detail, "limit")), 5);
    assert_int_equal(json_integer_value(json_object_get(detail, "actual")), 6);
    json_decref(json);
    assert_int_equal(ask("PUT", "/api/v1/models/labels/versions/latest/labels", NULL, "\xff\xfe\n", 3, NULL),
                     400);
}

static void a_model_without_a_picture_takes_no_input_settings(void **state)
{
    (void)state;
    assert_int_equal(upload("plain", 0, NULL, NULL), 201); /* four channels */
    assert_int_equal(get("/api/v1/models/plain/versions/latest/input", NULL), 404);
    assert_int_equal(
        put_json("PUT", "/api/v1/models/plain/versions/latest/input", "{\"fit\":\"crop\"}", NULL), 409);
}

static void what_is_removed_is_gone(void **state)
{
    (void)state;
    char first[65], path[160];
    assert_int_equal(upload("gone", 1, first, NULL), 201);
    assert_int_equal(upload("gone", 2, NULL, NULL), 201);
    (void)snprintf(path, sizeof path, "/api/v1/models/gone/versions/%.12s", first);
    assert_int_equal(ask("DELETE", path, NULL, NULL, 0, NULL), 200);
    assert_int_equal(get(path, NULL), 404);
    assert_int_equal(get("/api/v1/models/gone", NULL), 200);
    assert_int_equal(ask("DELETE", "/api/v1/models/gone", NULL, NULL, 0, NULL), 200);
    assert_int_equal(get("/api/v1/models/gone", NULL), 404);
    assert_int_equal(ask("DELETE", "/api/v1/models/gone", NULL, NULL, 0, NULL), 404);
    assert_int_equal(upload("gone", 1, NULL, NULL), 201);
}

/* ---- jobs ---- */

static void the_schedule_is_there_when_the_job_is_done(void **state)
{
    (void)state;
    char job[27];
    json_t *json;
    assert_int_equal(upload("planned", 0, NULL, job), 201);
    assert_int_equal(wait_job(job, &json), 200);
    assert_string_equal(text(json, "state", NULL), "done");
    json_decref(json);
    assert_int_equal(get("/api/v1/models/planned/versions/latest", &json), 200);
    const json_t *partial = json_object_get(json_object_get(json, "schedule"), "partial");
    assert_true(json_integer_value(json_object_get(partial, "peak_bytes")) > 0);
    assert_string_equal(text(json, "job", "state"), "done");
    json_decref(json);
    assert_int_equal(put_json("POST", "/api/v1/schedules", "{\"model\":\"planned\"}", &json), 200);
    assert_true(json_object_get(json, "bottleneck") != NULL);
    json_decref(json);
}

static void a_graph_without_weights_is_scheduled(void **state)
{
    (void)state;
    json_t *json;
    assert_int_equal(
        put_json("POST", "/api/v1/schedules",
                 "{\"axes\":\"channels\",\"graph\":{\"name\":\"g\",\"tensors\":{\"a\":{\"shape\":[4,4,8]},"
                 "\"b\":{\"shape\":[4,4,8]},\"c\":{\"shape\":[1,1,8]}},\"inputs\":[\"a\"],"
                 "\"outputs\":[\"c\"],\"ops\":[{\"name\":\"b\",\"type\":\"conv\",\"inputs\":[\"a\"],"
                 "\"output\":\"b\",\"k\":[3,3]},{\"name\":\"c\",\"type\":\"gap\",\"inputs\":[\"b\"],"
                 "\"output\":\"c\"}]}}",
                 &json),
        200);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "partial"), "peak_bytes")),
                     128 + 16 + 8);
    assert_false(json_is_true(json_object_get(json, "executable")));
    json_decref(json);
    assert_int_equal(put_json("POST", "/api/v1/schedules", "{\"graph\":{\"ops\":[]}}", &json), 422);
    json_decref(json);
}

static void waiting_has_a_limit_and_unknown_jobs_are_not_found(void **state)
{
    (void)state;
    char id[ID_ULID_BYTES];
    id_ulid(id);
    assert_int_equal(wait_job(id, NULL), 404);
    assert_int_equal(wait_job("nothing", NULL), 404);
    assert_int_equal(get("/api/v1/jobs/x?wait=301", NULL), 400);
    assert_int_equal(get("/api/v1/jobs/x?wait=-1", NULL), 400);
    assert_int_equal(get("/api/v1/jobs/x?wait=1x", NULL), 400);
}

static int forget_schedule(sqlite3 *db, void *context, struct error *error)
{
    (void)context;
    int64_t status = db_exec(db, error, "UPDATE job SET state = 'running', ended_at = NULL", "");
    if (status >= 0)
        status = db_exec(db, error, "UPDATE version SET schedule_json = NULL", "");
    return (int)status;
}

static void unfinished_jobs_are_taken_up_after_a_restart(void **state)
{
    (void)state;
    char job[27];
    json_t *json;
    assert_int_equal(upload("again", 0, NULL, job), 201);
    assert_int_equal(wait_job(job, NULL), 200);
    assert_true(store_write(app->store, forget_schedule, NULL, NULL) >= 0);
    app_stop(app);
    start();
    assert_int_equal(wait_job(job, &json), 200);
    assert_string_equal(text(json, "state", NULL), "done");
    json_decref(json);
    assert_int_equal(get("/api/v1/models/again/versions/latest", &json), 200);
    assert_true(json_is_object(json_object_get(json, "schedule")));
    json_decref(json);
}

/* ---- refusals ---- */

static void without_boards_a_plan_needs_boards(void **state)
{
    (void)state;
    json_t *json;
    assert_int_equal(upload("lonely", 0, NULL, NULL), 201);
    assert_int_equal(put_json("POST", "/api/v1/plans", "{\"model\":\"lonely\"}", &json), 422);
    assert_string_equal(text(json, "error", "code"), "too_few_boards");
    json_decref(json);
    char path[160];
    int status = put_json("POST", "/api/v1/deployments", "{\"model\":\"lonely\"}", &json);
    if (status == 202) { /* it is told where the planning is waited for */
        (void)snprintf(path, sizeof path, "/api/v1/deployments/%s?wait=20", text(json, "id", NULL));
        json_decref(json);
        status = get(path, &json);
    }
    assert_int_equal(status, 422);
    assert_string_equal(text(json, "error", "code"), "too_few_boards");
    json_decref(json);
    assert_int_equal(get("/v2/models/lonely/ready", &json), 503);
    assert_string_not_equal(text(json, "error", NULL), "");
    json_decref(json);
}

static void unknown_keys_and_wrong_types_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"/api/v1/plans", "{\"model\":\"x\",\"colour\":1}"},
        {"/api/v1/plans", "[]"},
        {"/api/v1/deployments", "{\"model\":1}"},
        {"/api/v1/deployments", "{}"},
        {"/api/v1/deployments", "{\"model\":\"x\",\"strategy\":\"magic\"}"},
        {"/api/v1/enrolments", "{\"uses\":0}"},
        {"/api/v1/enrolments", "{\"uses\":1.0}"},
        {"/api/v1/enrolments", "{\"ttl_s\":604801}"},
        {"/api/v1/enrolments", "{\"accept\":\"yes\"}"},
        {"/api/v1/enrolments", "{\"accept\":true,\"accept\":true}"},
        {"/api/v1/enrolments", "{\"accept\":true"},
        {"/api/v1/schedules", "{\"model\":\"x\",\"colour\":1}"},
        {"/api/v1/schedules", "{\"model\":\"x\",\"accumulator\":12}"},
        {"/api/v1/schedules", "{\"model\":\"x\",\"graph\":{}}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json;
        assert_int_equal(put_json("POST", bad[i][0], bad[i][1], &json), 400);
        assert_string_not_equal(text(json, "error", "message"), "");
        json_decref(json);
    }
}

static void lists_come_in_pages(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "page-%d", i);
        assert_int_equal(upload(name, 0, NULL, NULL), 201);
    }
    char after[80] = "page";
    int seen = 0;
    while (*after) {
        json_t *json;
        char path[160];
        (void)snprintf(path, sizeof path, "/api/v1/models?limit=2&after=%s", after);
        assert_int_equal(get(path, &json), 200);
        size_t n = json_array_size(json_object_get(json, "items"));
        assert_true(n <= 2);
        for (size_t i = 0; i < n; i++)
            seen += strncmp(text(json_array_get(json_object_get(json, "items"), i), "name", NULL), "page-",
                            5) == 0;
        (void)snprintf(after, sizeof after, "%s", text(json, "next", NULL));
        json_decref(json);
    }
    assert_int_equal(seen, 5);
    assert_int_equal(get("/api/v1/models?limit=0", NULL), 400);
    assert_int_equal(get("/api/v1/models?limit=1001", NULL), 400);
}

static void every_get_of_the_table_answers(void **state)
{
    (void)state;
    static const char *const paths[] = {"/",
                                        "/api/v1/models",
                                        "/api/v1/jobs",
                                        "/api/v1/deployments",
                                        "/api/v1/boards",
                                        "/openapi.json",
                                        "/api/v1/enrolments",
                                        "/api/v1/inferences",
                                        "/api/v1/attention",
                                        "/api/v1/limits",
                                        "/v2",
                                        "/v2/health/live",
                                        "/v2/health/ready",
                                        "/api/v1/fleet",
                                        "/api/v1/enrolments/attempts"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(get(paths[i], NULL), 200);
    static const char *const missing[] = {
        "/nothing",         "/js/../index.html",     "/index.html/",         "/api/v1/jobs/x",
        "/api/v1/boards/x", "/api/v1/deployments/x", "/api/v1/inferences/x", "/v2/models/x",
        "/api/v2/models"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        assert_int_equal(get(missing[i], NULL), 404);
}

static int make_old(sqlite3 *db, void *context, struct error *error)
{
    const int64_t *at = context;
    int64_t status = 0;
    for (int i = 0; i < 2 && status >= 0; i++) {
        char id[ID_ULID_BYTES];
        id_ulid(id);
        status = db_exec(db, error,
                         "INSERT INTO attempt (id, at, address, code, reason, action) VALUES (?, ?, '', '', "
                         "'old', '')",
                         "si", id, at[i]);
    }
    return (int)status;
}

static void what_is_older_than_its_time_is_dropped(void **state)
{
    (void)state;
    int64_t now = clock_wall_ms(), at[2] = {now - (KEEP_ATTEMPT_DAYS * (int64_t)86400 + 60) * 1000,
                                            now - (KEEP_ATTEMPT_DAYS * (int64_t)86400 - 60) * 1000};
    assert_true(store_write(app->store, make_old, at, NULL) >= 0);
    assert_int_equal(keep_round(app->store, NULL), 0);
    json_t *json;
    assert_int_equal(get("/api/v1/enrolments/attempts", &json), 200);
    assert_int_equal(json_array_size(json_object_get(json, "items")), 1);
    json_decref(json);
}

/* ---- load, drift, certificates ---- */

/* One inference in history. */
static void add_inference(const char *deployment, const char *outcome, int64_t at_ms, int64_t latency_us)
{
    char id[ID_ULID_BYTES];
    id_ulid(id);
    assert_true(
        store_telemetry(app->store,
                        "INSERT INTO inference (id, model, version, deployment, generation, state, "
                        "begun_at, latency_us, bytes_moved, timeline_json) VALUES (?, 'm', 'v', ?, 1, "
                        "?, ?, ?, 0, '[]')",
                        "sssii", id, deployment, outcome, at_ms, latency_us) >= 0);
}

static void wait_history(const char *deployment, int64_t n)
{
    int64_t there = 0;
    for (int tries = 0; tries < 400 && there != n; tries++) {
        sqlite3 *db = store_telemetry_reader(app->store);
        (void)db_int(db, NULL, &there, "SELECT count(*) FROM inference WHERE deployment = ?", "s",
                     deployment);
        store_telemetry_reader_done(app->store, db);
        usleep(5000);
    }
    assert_int_equal(there, n);
}

static double real(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static bool is_near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void load_counts_and_ranks_the_last_minutes_only(void **state)
{
    (void)state;
    json_t *json;
    int64_t at = clock_wall_ms() / 10000 * 10000 - 5000; /* in the middle of a point */
    assert_int_equal(get("/api/v1/load", &json), 200);
    assert_int_equal(real(json, "done"), 0);
    assert_true(json_is_null(json_object_get(json, "p50_ms")));
    json_decref(json);
    for (int i = 1; i <= 100; i++) /* 1 ms to 100 ms */
        add_inference("load", "done", i % 2 ? at : at - 90000, i * 1000);
    add_inference("load", "failed", at, 9000000);
    add_inference("load", "done", at - 3600000, 9000000);
    wait_history("load", 102);
    assert_int_equal(get("/api/v1/load?minutes=3&points=18", &json), 200);
    assert_int_equal(real(json, "done"), 100);
    assert_int_equal(real(json, "failed"), 1);
    assert_true(is_near(real(json, "p50_ms"), 50));
    assert_true(is_near(real(json, "p99_ms"), 99));
    assert_true(is_near(real(json, "per_second"), 100 / 180.0));
    json_t *points = json_object_get(json, "points"), *first = json_array_get(points, 0);
    assert_int_equal(json_array_size(points), 2);
    assert_int_equal(real(first, "done"), 50);
    assert_true(is_near(real(first, "p50_ms"), 50));
    assert_true(is_near(real(json_array_get(points, 1), "p99_ms"), 99));
    json_decref(json);
    assert_int_equal(get("/api/v1/load?minutes=1441", NULL), 400);
    assert_int_equal(get("/api/v1/load?points=0", NULL), 400);
}

/* An active deployment whose plan predicts 10 ms, and two boards: one's certificate ends in 5 days. */
static int make_fleet(sqlite3 *db, void *context, struct error *error)
{
    const char *sha = context;
    int64_t now = clock_wall_ms(), day = 86400000;
    int64_t status =
        db_exec(db, error, "INSERT INTO plan VALUES ('p', ?, '{\"latency_ms\":10.0,\"parties\":[]}', ?)",
                "si", sha, now);
    if (status >= 0)
        status = db_exec(db, error,
                         "INSERT INTO deployment (id, model, version, state, generation, request_json, "
                         "tags_json, promoted, owner, created_at, active_at, actor) VALUES ('drifting', "
                         "'drifter', ?, 'active', 1, '{}', '[]', 1, 'local', ?, ?, 'local')",
                         "sii", sha, now, now);
    if (status >= 0)
        status = db_exec(db, error, "INSERT INTO generation VALUES ('drifting', 1, 'p', ?)", "i", now);
    static const char board[] =
        "INSERT INTO board (id, name, state, kind, location, tags_json, certificate_serial, "
        "certificate_until, owner, created_at, actor) VALUES (?, ?, 'accepted', 'host', '', '[]', ?, ?, "
        "'local', ?, 'test')";
    if (status >= 0)
        status = db_exec(db, error, board, "sssii", "b1", "ends-soon", "1", now + 5 * day, now);
    if (status >= 0)
        status = db_exec(db, error, board, "sssii", "b2", "ends-late", "2", now + 20 * day, now);
    return (int)status;
}

/* The attention items about `subject`, their texts one after another. */
static void attention_of(const char *subject, char out[512])
{
    json_t *json, *item;
    size_t i;
    assert_int_equal(get("/api/v1/attention", &json), 200);
    *out = '\0';
    json_array_foreach(json_object_get(json, "items"), i, item)
    {
        if (strcmp(text(item, "subject", NULL), subject) == 0)
            (void)snprintf(out + strlen(out), 512 - strlen(out), "%s;", text(item, "text", NULL));
    }
    json_decref(json);
}

static void drift_and_ending_certificates_need_a_person(void **state)
{
    (void)state;
    char sha[65], said[512];
    assert_int_equal(upload("drifter", 0, sha, NULL), 201);
    assert_true(store_write(app->store, make_fleet, sha, NULL) >= 0);
    attention_of("ends-soon", said);
    assert_non_null(strstr(said, "certificate that ends on"));
    attention_of("ends-late", said);
    assert_string_equal(said, "");
    for (int i = 0; i < 19; i++)
        add_inference("drifting", "done", clock_wall_ms(), 40000);
    wait_history("drifting", 19);
    attention_of("drifter", said); /* too few to tell */
    assert_string_equal(said, "");
    add_inference("drifting", "done", clock_wall_ms(), 40000);
    wait_history("drifting", 20);
    attention_of("drifter", said);
    assert_non_null(strstr(said, "takes 40.0 ms"));
    assert_non_null(strstr(said, "10.0 ms"));
    for (int i = 0; i < 50; i++)
        add_inference("drifting", "done", clock_wall_ms(), 12000);
    wait_history("drifting", 70);
    attention_of("drifter", said); /* the last ones count */
    assert_string_equal(said, "");
}

static void errors_below_v2_take_the_protocols_form(void **state)
{
    (void)state;
    json_t *json;
    assert_int_equal(get("/v2/nothing/here", &json), 404);
    assert_true(json_is_string(json_object_get(json, "error")));
    json_decref(json);
    assert_int_equal(ask("POST", "/v2/models/x/infer", "text/plain", "x", 1, &json), 415);
    assert_true(json_is_string(json_object_get(json, "error")));
    json_decref(json);
}

static void server_addresses_are_read_strictly(void **state)
{
    (void)state;
    struct client other;
    static const char *const good[] = {"http://127.0.0.1:8080", "http://localhost:1/", "HTTP://[::1]:80",
                                       "http://box"};
    static const char *const bad[] = {
        "127.0.0.1:8080",  "https://x:1", "http://",        "http://x:",  "http://x:1/path",
        "http://x:123456", "http://x:1a", "http://[::1:80", "http://:80", "http://x:1 "};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(client_open(&other, good[i], false, NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(client_open(&other, bad[i], false, NULL), STATUS_INVALID_ARGUMENT);
}

int main(int argc, char **argv)
{
    int code = sandbox_child_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upload_is_stored_once),
        cmocka_unit_test(identical_uploads_at_the_same_moment_are_one_version),
        cmocka_unit_test(an_unsupported_operator_is_refused_with_layer_and_operator),
        cmocka_unit_test(a_truncated_model_is_refused_and_leaves_nothing),
        cmocka_unit_test(names_outside_the_rule_are_refused),
        cmocka_unit_test(a_version_is_found_by_prefix_and_latest),
        cmocka_unit_test(layers_are_listed_in_order),
        cmocka_unit_test(a_new_version_inherits_labels),
        cmocka_unit_test(more_labels_than_classes_are_refused),
        cmocka_unit_test(a_model_without_a_picture_takes_no_input_settings),
        cmocka_unit_test(what_is_removed_is_gone),
        cmocka_unit_test(the_schedule_is_there_when_the_job_is_done),
        cmocka_unit_test(a_graph_without_weights_is_scheduled),
        cmocka_unit_test(waiting_has_a_limit_and_unknown_jobs_are_not_found),
        cmocka_unit_test(unfinished_jobs_are_taken_up_after_a_restart),
        cmocka_unit_test(without_boards_a_plan_needs_boards),
        cmocka_unit_test(unknown_keys_and_wrong_types_are_refused),
        cmocka_unit_test(lists_come_in_pages),
        cmocka_unit_test(every_get_of_the_table_answers),
        cmocka_unit_test(what_is_older_than_its_time_is_dropped),
        cmocka_unit_test(load_counts_and_ranks_the_last_minutes_only),
        cmocka_unit_test(drift_and_ending_certificates_need_a_person),
        cmocka_unit_test(errors_below_v2_take_the_protocols_form),
        cmocka_unit_test(server_addresses_are_read_strictly),
    };
    return cmocka_run_group_tests_name("api", tests, set_up, tear_down);
}
