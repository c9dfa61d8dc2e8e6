/* /api/v1/deployments, /plans and /schedules. */
#include "server/api/wait.h"

#include "server/base/stop.h"
#include "server/emit/emit.h"
#include "server/schedule/json.h"
#include "server/schedule/read.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is computed for a client that has gone ends. */
static bool has_gone(const void *exchange)
{
    return http_client_gone(exchange);
}

int api_plan(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    json_t *json = NULL;
    stop_watch(has_gone, x);
    int status = deploy_dry_run(api_app(x)->deploy, http_request(x)->json, &json, &error);
    stop_watch(NULL, NULL);
    if (status < 0)
        return api_fail_with(x, &error, json);
    return http_json(x, 200, json);
}

/* The graph of a stored version, or one without weights from the body; NULL with the answer or `error` set.
 */
static struct graph *schedule_graph(struct http_exchange *x, const json_t *body, const char *model,
                                    const char *version, struct error *error)
{
    const json_t *given = json_object_get(body, "graph");
    char sha[65];
    struct graph *graph = NULL;
    if (given)
        return schedule_read(given, error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return NULL;
    if (deploy_resolve_version(db, model, version, sha, error) >= 0)
        graph = deploy_load_graph(db, sha, error);
    api_done(x, db);
    if (!graph)
        error_set(error, STATUS_NO_MEMORY, "no memory for the model");
    return graph;
}

/* Searches over rows and patches may take seconds each: few run at once and few wait, so that workers are
 * left for everything else. Those over channels only are quick and come in as they are. */
enum { SEARCHES = 2, SEARCHES_WAITING = 3, SEARCH_WAIT_MS = 10000, LOOK_MS = 250 };
static pthread_mutex_t searches_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t searches_end = PTHREAD_COND_INITIALIZER;
static int searches, searches_waiting;

/* Waits until a search has ended, at most LOOK_MS. The mutex is held. */
static void wait_shortly(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(&searches_end, &searches_mutex, &until);
}

/* False: too many, or the client has not waited. */
static bool search_begin(const struct http_exchange *x)
{
    pthread_mutex_lock(&searches_mutex);
    bool may = searches < SEARCHES || searches_waiting < SEARCHES_WAITING;
    searches_waiting++;
    for (int waited = 0; may && searches >= SEARCHES; waited += LOOK_MS) {
        wait_shortly();
        may = waited < SEARCH_WAIT_MS && !http_client_gone(x) && !stop_asked();
    }
    searches_waiting--;
    searches += may;
    pthread_mutex_unlock(&searches_mutex);
    return may;
}

static void search_end(void)
{
    pthread_mutex_lock(&searches_mutex);
    searches--;
    pthread_cond_signal(&searches_end);
    pthread_mutex_unlock(&searches_mutex);
}

/* As schedule_describe, when its turn has come. */
static json_t *describe_in_turn(const struct http_exchange *x, const struct graph *graph,
                                const struct schedule_options *options, schedule_check *check,
                                struct error *error)
{
    bool quick = options->axes == SCHEDULE_AXES_CHANNELS;
    if (!quick && !search_begin(x)) {
        error_set(error, STATUS_BUSY, "%d schedules are being searched and others wait", SEARCHES);
        return NULL;
    }
    stop_watch(has_gone, x);
    json_t *json = schedule_describe(graph, options, check, error);
    stop_watch(NULL, NULL);
    if (!quick)
        search_end();
    return json;
}

int api_schedule(struct http_exchange *x)
{
    const json_t *body = http_request(x)->json;
    struct error error;
    error_clear(&error);
    const char *model = NULL, *version = "latest";
    struct schedule_options options = schedule_defaults();
    if (api_check_keys(x, body, "model|version|graph|accumulator|axes|extra_macs|image|ram|profile") < 0 ||
        !api_text(x, body, "model", &model) || !api_text(x, body, "version", &version))
        return 0;
    if (!model == !json_object_get(body, "graph"))
        return http_fail_status(x, STATUS_INVALID_ARGUMENT,
                                "one of 'model' and 'graph' must be there, not both");
    struct schedule_board board;
    json_t *profile = json_object_get(body, "profile");
    if (schedule_options_read(body, &options, &error) < 0 ||
        (profile && plan_schedule_board(profile, &board, &error) < 0))
        return http_fail(x, &error);
    options.board = profile ? &board : NULL;
    struct graph *graph = schedule_graph(x, body, model, version, &error);
    if (!graph && error.status == STATUS_OK)
        return 0;
    json_t *json = graph ? describe_in_turn(x, graph, &options, model ? emit_schedule : NULL, &error) : NULL;
    graph_free(graph);
    return api_answer(x, json, &error);
}

int api_deployments(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    int64_t limit;
    const char *after, *model = http_query(x, "model");
    if (!api_page(x, &limit, &after))
        return 0;
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = deploy_list_json(api_app(x)->deploy, db, model, after, limit, &error);
    api_done(x, db);
    return api_answer(x, json, &error);
}

int api_deployment_post(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    json_t *json = NULL;
    stop_watch(has_gone, x);
    int status = deploy_create(api_app(x)->deploy, request->json, request->actor, &json, &error);
    stop_watch(NULL, NULL);
    const char *id = json_string_value(json_object_get(json, "id"));
    if (status < 0) {
        json_t *detail = id ? json_pack("{s:s}", "deployment", id) : json_incref(json);
        json_decref(json);
        return api_fail_with(x, &error, detail);
    }
    char location[128];
    (void)snprintf(location, sizeof location, "/api/v1/deployments/%s", id ? id : "");
    if (id)
        http_set_header(x, "Location", location);
    return http_json(x, status, json);
}

static bool in_progress(const char *state)
{
    return strcmp(state, "planning") == 0 || strcmp(state, "pushing") == 0 || strcmp(state, "verifying") == 0;
}

static int show_deployment(struct http_exchange *x, bool timed_out)
{
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = deploy_json(api_app(x)->deploy, db, api_param(x, 0), &error);
    api_done(x, db);
    if (!json || !http_query(x, "wait"))
        return api_answer(x, json, &error);
    const char *state = json_string_value(json_object_get(json, "state"));
    if (strcmp(state, "failed") == 0) {
        int answer = api_fail_stored(x, json_object_get(json, "error"), "deployment", api_param(x, 0));
        json_decref(json);
        return answer;
    }
    if (strcmp(state, "cancelled") == 0)
        error_set(&error, STATUS_CANCELLED, "the deployment was cancelled");
    else if (timed_out && in_progress(state))
        error_set(&error, STATUS_DEADLINE, "the deployment is still %s", state);
    if (error.status == STATUS_OK)
        return http_json(x, 200, json);
    json_decref(json);
    return api_fail_with(x, &error, json_pack("{s:s}", "deployment", api_param(x, 0)));
}

int api_deployment(struct http_exchange *x)
{
    int64_t seconds;
    if (http_query_int(x, "wait", 0, WAIT_SECONDS_MAX, 0, &seconds) < 0)
        return 0;
    struct wait *wait = seconds ? wait_new(x, show_deployment) : NULL;
    if (!wait)
        return show_deployment(x, true);
    int status = deploy_wait(api_app(x)->deploy, api_param(x, 0), seconds * 1000, wait_over, wait);
    if (status == 0)
        return HTTP_PENDING;
    free(wait);
    return http_fail_status(x, (enum status)status, "the server cannot wait for it now");
}

int api_deployment_plan(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = deploy_plan_json(api_app(x)->deploy, db, api_param(x, 0), &error);
    api_done(x, db);
    return api_answer(x, json, &error);
}

int api_deployment_act(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    json_t *json = NULL;
    if (deploy_act(api_app(x)->deploy, api_param(x, 0), api_param(x, 1), http_request(x)->actor, &json,
                   &error) < 0) {
        json_decref(json);
        return http_fail(x, &error);
    }
    return api_answer(x, json, &error);
}
