/*
 * Start: store, events, fleet, infer, deploy, models; then boards are let in; then HTTP listens. A module
 * only calls those that are started before it.
 *
 * Stop. New requests are refused and streams end. models and deploy join their threads and answer all who
 * wait for them; infer aborts what is in flight and answers. Then every pending exchange has its answer,
 * http_stop waits for handlers that still run (they get "busy" from the modules that are down) and ends. The
 * fleet's thread calls into infer and deploy until fleet_stop; only then are they freed. The store's writer
 * publishes boards' changes, so the store closes before the events go.
 */
#include "server/api/app.h"

#include "server/api/routes.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_RING = 1000, WORKERS = 8, WORKER_QUEUE = 64, CONNECTIONS = 256, INFER_QUEUE = 64 };
static const int64_t infer_memory_bytes = (int64_t)256 << 20;

/* Every event passes here. A board's is completed with what only deployments know. */
static void publish(void *context, const char *kind, const json_t *json)
{
    struct app *app = context;
    struct deploy *deploy = __atomic_load_n(&app->deploy, __ATOMIC_ACQUIRE);
    if (strcmp(kind, "board") != 0 || !deploy) {
        http_events_publish(app->events, kind, json);
        return;
    }
    json_t *board = json_copy((json_t *)(uintptr_t)json);
    api_complete_board(deploy, board);
    http_events_publish(app->events, kind, board ? board : json);
    json_decref(board);
}

static int start_modules(struct app *app, const struct app_config *config, struct error *error)
{
    int status = file_make_dirs(config->data, 0700, error);
    if (status >= 0)
        status = store_open(&app->store, config->data, error);
    if (status >= 0 && !(app->events = http_events_new(EVENTS_RING)))
        status = error_set(error, STATUS_NO_MEMORY, "out of memory");
    struct fleet_config fleet = {
        .board_listen = config->board_listen, .publish = publish, .publish_context = app};
    if (status >= 0)
        status = fleet_start(&app->fleet, app->store, &fleet, error);
    struct infer_config infer = {
        .memory_bytes = infer_memory_bytes, .queue = INFER_QUEUE, .publish = publish, .publish_context = app};
    if (status >= 0)
        status = infer_start(&app->infer, app->store, app->fleet, &infer, error);
    struct deploy *deploy = NULL;
    if (status >= 0)
        status = deploy_start(&deploy, app->store, app->fleet, app->infer, publish, app, error);
    __atomic_store_n(&app->deploy, deploy, __ATOMIC_RELEASE);
    if (status >= 0)
        status = models_start(&app->models, app->store, app->deploy, publish, app, error);
    if (status >= 0)
        status = keep_start(&app->keep, app->store, error);
    return status;
}

static int start_http(struct app *app, const struct app_config *config, struct error *error)
{
    struct http_config http = {.listen = config->listen,
                               .spool_dir = config->data,
                               .workers = WORKERS,
                               .worker_queue = WORKER_QUEUE,
                               .connections = CONNECTIONS,
                               .text_errors_under = "/v2",
                               .app = app};
    http.routes = api_routes(&http.n_routes);
    int status = http_start(&app->http, &http, error);
    if (status < 0)
        return status;
    const char *colon = strrchr(config->listen, ':');
    (void)snprintf(app->url, sizeof app->url, "http://%.*s:%u", (int)(colon - config->listen), config->listen,
                   (unsigned)http_port(app->http));
    return 0;
}

int app_start(struct app **out, const struct app_config *config, struct error *error)
{
    *out = NULL;
    struct app *app = calloc(1, sizeof *app);
    if (!app)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    app->started_ms = clock_wall_ms();
    int status = start_modules(app, config, error);
    if (status >= 0) {
        infer_attach(app->infer);
        status = start_http(app, config, error);
    }
    if (status < 0) {
        app_stop(app);
        return status;
    }
    *out = app;
    return 0;
}

void app_stop(struct app *app)
{
    if (!app)
        return;
    stop_ask(true);
    if (app->http)
        http_refuse(app->http);
    if (app->events)
        http_events_close(app->events);
    keep_stop(app->keep);
    models_stop(app->models);
    deploy_stop(app->deploy);
    infer_stop(app->infer);
    http_stop(app->http);
    fleet_stop(app->fleet);
    infer_free(app->infer);
    store_close(app->store);
    models_free(app->models);
    deploy_free(app->deploy);
    http_events_free(app->events);
    stop_ask(false); /* a test starts another one in this process */
    free(app);
}
