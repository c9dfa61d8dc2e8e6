/*
 * classify: a PNG or JPEG in, labels with scores out. The picture is decoded in the limited child and scaled
 * by the version's input settings; scores are the dequantised values of the first output.
 */
#include "server/api/protocol.h"
#include "server/models/pixels.h"
#include "server/models/scores.h"

#include <stdlib.h>
#include <string.h>

struct classifying {
    struct http_exchange *x;
    struct infer_route *route;
    json_t *labels;
    int64_t top;
};

static void classifying_free(struct classifying *c)
{
    if (!c)
        return;
    infer_route_release(c->route);
    json_decref(c->labels);
    free(c);
}

/* ---- the answer ---- */

static json_t *scores_json(const struct classifying *c, const unsigned char *output)
{
    int64_t n = scores_count(c->route->graph);
    struct score *scores = scores_make(c->route->graph, output);
    if (!scores)
        return NULL;
    json_t *list = json_array();
    for (int64_t i = 0; i < n && i < c->top; i++)
        json_array_append_new(list, json_pack("{s:I, s:O?, s:f}", "index", (json_int_t)scores[i].index,
                                              "label", json_array_get(c->labels, (size_t)scores[i].index),
                                              "score", (double)scores[i].value));
    free(scores);
    return list;
}

static void answered(void *context, const struct infer_answer *answer)
{
    struct classifying *c = context;
    struct http_exchange *x = c->x;
    const struct infer_route *route = c->route;
    if (answer->status < 0)
        http_fail(x, &answer->error);
    else
        http_json(x, 200,
                  json_pack("{s:s, s:s, s:s, s:I, s:s, s:f, s:o?}", "model", route->model, "version",
                            route->version, "deployment", route->deployment, "generation",
                            (json_int_t)route->generation, "inference", answer->inference, "latency_ms",
                            answer->latency_ms, "labels", scores_json(c, answer->output)));
    classifying_free(c);
    http_finish(x);
}

/* ---- the question ---- */

/* The settings in force of the route's version, and its labels. */
static int load_settings(struct classifying *c, struct pixels_settings *settings, struct error *error)
{
    struct store *store = api_app(c->x)->store;
    json_t *row = NULL;
    sqlite3 *db = store_reader(store);
    int status = db ? db_row(db, error, &row,
                             "SELECT summary_json, input_json, labels_json FROM version WHERE model = ? AND "
                             "sha = ?",
                             "ss", c->route->model, c->route->version)
                    : error_set(error, STATUS_BUSY, "no connection to the database");
    store_reader_done(store, db);
    if (status == 0)
        status = error_set(error, STATUS_NOT_FOUND, "the version was removed");
    if (status == 1) {
        c->labels = json_incref(json_object_get(row, "labels"));
        status = pixels_settings(json_object_get(json_object_get(row, "summary"), "image"),
                                 json_object_get(row, "input"), settings, error);
    }
    json_decref(row);
    return status;
}

static int ask(struct classifying *c, struct error *error)
{
    const struct http_request *request = http_request(c->x);
    struct pixels_settings settings;
    struct import_pixels picture = {0};
    unsigned char *input = NULL;
    int status = load_settings(c, &settings, error);
    if (status >= 0)
        status = import_image(request->body, request->body_bytes, &picture, error);
    if (status >= 0)
        status = pixels_input(c->route->graph, &settings, &picture, &input, error);
    import_pixels_free(&picture);
    if (status >= 0)
        status = infer_submit(api_app(c->x)->infer, c->route, input, graph_input_bytes(c->route->graph),
                              answered, c, error);
    free(input);
    return status;
}

int api_classify(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    int64_t top;
    if (http_query_int(x, "top", 1, 1000, 5, &top) < 0)
        return 0;
    const char *version = http_query(x, "version");
    struct infer_route *route = v2_route(x, api_param(x, 0), version);
    struct classifying *c = route ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        infer_route_release(route);
        return route ? http_fail_status(x, STATUS_NO_MEMORY, "out of memory") : 0;
    }
    *c = (struct classifying){.x = x, .route = route, .top = top};
    int status = ask(c, &error);
    if (status >= 0)
        return HTTP_PENDING;
    classifying_free(c);
    error_set(&error, (enum status)status, "%s", status_text(status));
    return http_fail(x, &error);
}
