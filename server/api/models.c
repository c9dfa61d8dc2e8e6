/* /api/v1/models: uploads, versions, labels, input settings. */
#include "server/api/api.h"

#include "server/base/bytes.h"

int api_models(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    int64_t limit;
    const char *after;
    if (!api_page(x, &limit, &after))
        return 0;
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = models_list_json(db, after, limit, &error);
    api_done(x, db);
    return api_answer(x, json, &error);
}

int api_model(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return 0;
    json_t *json = models_json(db, api_param(x, 0), &error);
    api_done(x, db);
    return api_answer(x, json, &error);
}

int api_model_put(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    struct models_upload upload = {.name = request->param[0],
                                   .actor = request->actor,
                                   .fd = request->body_fd,
                                   .bytes = request->body_fd_bytes,
                                   .sha = request->body_sha};
    struct models_uploaded uploaded;
    if (models_upload(api_app(x)->models, &upload, &uploaded, &error) < 0)
        return http_fail(x, &error);
    return http_json(x, uploaded.known ? 200 : 201,
                     json_pack("{s:s, s:s, s:s?}", "model", upload.name, "version", upload.sha, "job",
                               uploaded.job[0] ? uploaded.job : NULL));
}

int api_model_delete(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    if (models_remove(api_app(x)->models, api_param(x, 0), NULL, &error) < 0)
        return http_fail(x, &error);
    return http_json(x, 200, json_pack("{s:s}", "removed", api_param(x, 0)));
}

int api_version_delete(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    if (models_remove(api_app(x)->models, api_param(x, 0), api_param(x, 1), &error) < 0)
        return http_fail(x, &error);
    return http_json(x, 200, json_pack("{s:s}", "removed", api_param(x, 1)));
}

/* Reads that differ only in the function that makes the answer. */
typedef json_t *version_view(sqlite3 *db, const char *name, const char *version, struct error *error);

static json_t *view(struct http_exchange *x, version_view *make)
{
    struct error error;
    error_clear(&error);
    sqlite3 *db = api_reader(x);
    if (!db)
        return NULL;
    json_t *json = make(db, api_param(x, 0), api_param(x, 1), &error);
    api_done(x, db);
    if (!json)
        (void)api_answer(x, NULL, &error);
    return json;
}

static int show(struct http_exchange *x, version_view *make)
{
    json_t *json = view(x, make);
    return json ? http_json(x, 200, json) : 0;
}

int api_version(struct http_exchange *x)
{
    return show(x, models_version_json);
}

int api_layers(struct http_exchange *x)
{
    return show(x, models_layers_json);
}

int api_labels(struct http_exchange *x)
{
    json_t *labels = view(x, models_labels_json), *label;
    if (!labels)
        return 0;
    struct bytes text;
    bytes_init(&text, (size_t)MODELS_LABELS_MAX * 1024);
    size_t i;
    json_array_foreach(labels, i, label)
    {
        bytes_append(&text, json_string_value(label), json_string_length(label));
        bytes_put8(&text, '\n');
    }
    json_decref(labels);
    size_t size;
    unsigned char *bytes = bytes_take(&text, &size);
    if (!bytes)
        return http_fail_status(x, STATUS_NO_MEMORY, "out of memory");
    return http_bytes(x, 200, "text/plain; charset=utf-8", bytes, size);
}

int api_labels_put(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    if (models_set_labels(api_app(x)->models, request->param[0], request->param[1], request->body,
                          request->body_bytes, &error) < 0)
        return http_fail(x, &error);
    return show(x, models_version_json);
}

static json_t *input_view(sqlite3 *db, const char *name, const char *version, struct error *error)
{
    json_t *whole = models_version_json(db, name, version, error);
    json_t *input = json_incref(json_object_get(whole, "input"));
    json_decref(whole);
    if (json_is_null(input))
        error_set(error, STATUS_NOT_FOUND, "the model does not take a picture as its input");
    return json_is_null(input) ? NULL : input;
}

int api_input(struct http_exchange *x)
{
    return show(x, input_view);
}

int api_input_put(struct http_exchange *x)
{
    const struct http_request *request = http_request(x);
    struct error error;
    error_clear(&error);
    if (models_set_input(api_app(x)->models, request->param[0], request->param[1], request->json, &error) < 0)
        return http_fail(x, &error);
    return show(x, input_view);
}
