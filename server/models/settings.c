/* Changes to a version that are not its identity: labels and input settings. */
#include "server/models/internal.h"

#include "server/base/utf8.h"
#include "server/models/pixels.h"

#include <stdlib.h>
#include <string.h>

struct setting {
    const char *sql, *name, *text;
    char sha[65];
};

static int write_setting(sqlite3 *db, void *context, struct error *error)
{
    const struct setting *setting = context;
    int64_t n = db_exec(db, error, setting->sql, "sss", setting->text, setting->name, setting->sha);
    if (n == 0)
        return error_set(error, STATUS_NOT_FOUND, "'%s' has no version %.12s", setting->name, setting->sha);
    return (int)n;
}

static int store_setting(struct models *models, struct setting *setting, struct error *error)
{
    int status = store_write(models->store, write_setting, setting, error);
    if (status >= 0)
        models_publish(models, "model", setting->name);
    return status < 0 ? status : 0;
}

/* The summary of a version, whose name is resolved into `sha`. */
static json_t *summary_of(struct models *models, const char *name, const char *version, char sha[65],
                          struct error *error)
{
    sqlite3 *db = store_reader(models->store);
    json_t *row = NULL;
    int status =
        db ? deploy_resolve_version(db, name, version, sha, error) : error_set(error, STATUS_BUSY, "busy");
    if (status >= 0)
        status = db_row(db, error, &row, "SELECT summary_json FROM version WHERE model = ? AND sha = ?", "ss",
                        name, sha);
    store_reader_done(models->store, db);
    json_t *summary = status == 1 ? json_incref(json_object_get(row, "summary")) : NULL;
    json_decref(row);
    if (status == 0)
        error_set(error, STATUS_NOT_FOUND, "'%s' has no version %.12s", name, sha);
    return summary;
}

/* The lines of a text as an array; a last line may lack its end. NULL: `error` says why. */
static json_t *lines_of(const char *text, size_t bytes, struct error *error)
{
    json_t *list = json_array();
    size_t line = 1;
    for (size_t at = 0; list && at < bytes; line++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - (text + at)) : bytes - at, next = at + n + 1;
        if (n && text[at + n - 1] == '\r')
            n--;
        if (line > MODELS_LABELS_MAX || n > 1000 || !utf8_valid(text + at, n)) {
            error_set(error, STATUS_INVALID_ARGUMENT,
                      "line %zu: a label is UTF-8 text of at most 1000 bytes, and there are at most %d", line,
                      MODELS_LABELS_MAX);
            error_at_offset(error, (int64_t)at);
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_stringn(text + at, n));
        at = next;
    }
    return list;
}

static int64_t classes_of(const json_t *summary)
{
    json_t *output = json_array_get(json_object_get(summary, "outputs"), 0), *dim;
    int64_t n = 1;
    size_t i;
    json_array_foreach(json_object_get(output, "shape"), i, dim) n *= json_integer_value(dim);
    return n;
}

int models_set_labels(struct models *models, const char *name, const char *version, const void *text,
                      size_t bytes, struct error *error)
{
    struct setting setting = {.sql = "UPDATE version SET labels_json = ? WHERE model = ? AND sha = ?",
                              .name = name};
    json_t *summary = summary_of(models, name, version, setting.sha, error);
    if (!summary)
        return error->status;
    int64_t classes = classes_of(summary);
    json_decref(summary);
    json_t *labels = lines_of(text, bytes, error);
    if (!labels)
        return error->status ? (int)error->status : STATUS_NO_MEMORY;
    int status = 0;
    if ((int64_t)json_array_size(labels) > classes) {
        status = error_set(error, STATUS_INVALID_ARGUMENT, "%zu labels for an output of %lld values",
                           json_array_size(labels), (long long)classes);
        error_limit(error, classes, (int64_t)json_array_size(labels));
    }
    char *json = status < 0 ? NULL : json_dumps(labels, JSON_COMPACT);
    json_decref(labels);
    setting.text = json;
    if (status >= 0)
        status = json ? store_setting(models, &setting, error)
                      : error_set(error, STATUS_NO_MEMORY, "out of memory");
    free(json);
    return status;
}

int models_set_input(struct models *models, const char *name, const char *version, const json_t *settings,
                     struct error *error)
{
    struct setting setting = {.sql = "UPDATE version SET input_json = ? WHERE model = ? AND sha = ?",
                              .name = name};
    json_t *summary = summary_of(models, name, version, setting.sha, error);
    if (!summary)
        return error->status;
    int status = pixels_check(json_object_get(summary, "image"), settings, error);
    json_decref(summary);
    if (status < 0)
        return status;
    char *text = json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS);
    setting.text = text;
    status =
        text ? store_setting(models, &setting, error) : error_set(error, STATUS_NO_MEMORY, "out of memory");
    free(text);
    return status;
}
