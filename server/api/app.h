/*
 * The server as a whole: which module is started after which, and ended before which. See app.c for the order
 * and why.
 */
#ifndef SHOAL_SERVER_API_APP_H
#define SHOAL_SERVER_API_APP_H

#include "server/api/keep.h"
#include "server/http/http.h"
#include "server/models/models.h"

struct app {
    struct store *store;
    struct http_events *events;
    struct fleet *fleet;
    struct infer *infer;
    struct deploy *deploy;
    struct models *models;
    struct keep *keep;
    struct http_server *http;
    char url[96]; /* "http://127.0.0.1:8080" */
    int64_t started_ms;
};

struct app_config {
    const char *data, *listen, *board_listen;
};

/* Starts everything; when it returns 0 the server listens. On error nothing is left running. */
int app_start(struct app **app, const struct app_config *config, struct error *error);
/* Ends everything in order; returns when no thread is left. NULL is allowed. */
void app_stop(struct app *app);

#endif
