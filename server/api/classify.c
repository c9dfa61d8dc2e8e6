/*
 * classify: a PNG or JPEG in, labels with scores out. The picture is decoded in the limited child and scaled
 * by the version's input settings; scores are the dequantised values of the first output.
 */
#include "server/api/protocol.h"
#include "server/models/pixels.h"

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

struct score {
    int64_t index;
    float value;
};

static int higher_first(const void *a, const void *b)
{
    const struct score *p = a, *q = b;
    if (p->value != q->value)
        return p->value < q->value ? 1 : -1;
    return p->index < q->index ? -1 : p->index > q->index;
}

static float real_value(const struct tensor *tensor, const unsigned char *data, int64_t i)
{
    int32_t number;
    float real;
    switch (tensor->dtype) {
    case DTYPE_INT8:
        return tensor->quant.scale * (float)((int8_t)data[i] - tensor->quant.zero_point);
    case DTYPE_UINT8:
        return tensor->quant.scale * (float)(data[i] - tensor->quant.zero_point);
    case DTYPE_INT32:
        memcpy(&number, data + i * 4, 4);
        return (float)number;
    default:
        memcpy(&real, data + i * 4, 4);
        return real;
    }
}

static json_t *scores_json(const struct classifying *c, const unsigned char *output)
{
    const struct tensor *tensor = &c->route->graph->tensors[c->route->graph->outputs[0]];
    int64_t n = shape_elements(tensor->shape);
    struct score *scores = calloc((size_t)n, sizeof *scores);
    if (!scores)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        scores[i] = (struct score){i, real_value(tensor, output, i)};
    qsort(scores, (size_t)n, sizeof *scores, higher_first);
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
