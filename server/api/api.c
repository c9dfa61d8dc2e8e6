/* What handlers share: parsing with a refusal that names the key, pages, errors. */
#include "server/api/api.h"

#include <string.h>

struct app *api_app(const struct http_exchange *x)
{
    return http_request(x)->app;
}

const char *api_param(const struct http_exchange *x, int n)
{
    return http_request(x)->param[n];
}

static bool listed(const char *keys, const char *key)
{
    size_t n = strlen(key);
    while (*keys) {
        size_t length = strcspn(keys, "|");
        if (length == n && memcmp(keys, key, n) == 0)
            return true;
        keys += length + (keys[length] == '|');
    }
    return false;
}

int api_check_keys(struct http_exchange *x, const json_t *json, const char *keys)
{
    if (!json)
        return 0;
    const char *key;
    json_t *value;
    if (!json_is_object(json)) {
        http_fail_status(x, STATUS_BAD_JSON, "the body is a JSON object");
        return STATUS_BAD_JSON;
    }
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (listed(keys, key))
            continue;
        http_fail_status(x, STATUS_INVALID_ARGUMENT, "'%.64s' is not known; this takes %s", key, keys);
        return STATUS_INVALID_ARGUMENT;
    }
    return 0;
}

bool api_bool(struct http_exchange *x, const json_t *json, const char *key, bool *value)
{
    const json_t *found = json_object_get(json, key);
    if (found && !json_is_boolean(found)) {
        http_fail_status(x, STATUS_INVALID_ARGUMENT, "'%s' is true or false", key);
        return false;
    }
    *value = found ? json_is_true(found) : *value;
    return true;
}

bool api_int(struct http_exchange *x, const json_t *json, const char *key, int64_t lo, int64_t hi,
             int64_t *value)
{
    const json_t *found = json_object_get(json, key);
    json_int_t number = json_integer_value(found);
    if (found && (!json_is_integer(found) || number < lo || number > hi)) {
        http_fail_status(x, STATUS_INVALID_ARGUMENT, "'%s' is a whole number from %lld to %lld", key,
                         (long long)lo, (long long)hi);
        return false;
    }
    *value = found ? number : *value;
    return true;
}

bool api_text(struct http_exchange *x, const json_t *json, const char *key, const char **value)
{
    const json_t *found = json_object_get(json, key);
    if (found && !json_is_string(found)) {
        http_fail_status(x, STATUS_INVALID_ARGUMENT, "'%s' is a text", key);
        return false;
    }
    *value = found ? json_string_value(found) : *value;
    return true;
}

bool api_page(struct http_exchange *x, int64_t *limit, const char **after)
{
    *after = http_query(x, "after");
    return http_query_int(x, "limit", 1, 1000, 100, limit) >= 0;
}

json_t *api_list(json_t *rows, int64_t limit, const char *key)
{
    json_t *next = json_null();
    if (!rows)
        return NULL;
    if ((int64_t)json_array_size(rows) > limit) {
        json_array_remove(rows, (size_t)limit);
        next = json_incref(json_object_get(json_array_get(rows, (size_t)limit - 1), key));
    }
    return json_pack("{s:o, s:o}", "items", rows, "next", next);
}

sqlite3 *api_reader(struct http_exchange *x)
{
    sqlite3 *db = store_reader(api_app(x)->store);
    if (!db)
        http_fail_status(x, STATUS_BUSY, "no connection to the database; try again");
    return db;
}

void api_done(struct http_exchange *x, sqlite3 *db)
{
    store_reader_done(api_app(x)->store, db);
}

int api_answer(struct http_exchange *x, json_t *json, const struct error *error)
{
    if (json)
        return http_json(x, 200, json);
    if (error->status == STATUS_OK)
        return http_fail_status(x, STATUS_NO_MEMORY, "out of memory");
    return http_fail(x, error);
}

int api_fail_with(struct http_exchange *x, const struct error *error, json_t *detail)
{
    if (!detail)
        return http_fail(x, error);
    json_t *document = error_json(error);
    json_object_update(json_object_get(json_object_get(document, "error"), "detail"), detail);
    json_decref(detail);
    int status = status_http(error->status);
    if (status == 503)
        http_set_header(x, "Retry-After", "1");
    return http_json(x, status, document);
}

int api_fail_stored(struct http_exchange *x, const json_t *stored, const char *subject, const char *id)
{
    const char *code = json_string_value(json_object_get(stored, "code"));
    json_t *copy = json_is_object(stored) ? json_deep_copy(stored) : json_object();
    if (!json_is_object(json_object_get(copy, "detail")))
        json_object_set_new(copy, "detail", json_object());
    json_object_set_new(json_object_get(copy, "detail"), subject, json_string(id));
    int status = status_http(code ? status_from_name(code) : STATUS_INTERNAL);
    if (status == 503)
        http_set_header(x, "Retry-After", "1");
    return http_json(x, status, json_pack("{s:o}", "error", copy));
}
