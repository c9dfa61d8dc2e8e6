/* What a deployment (or a dry run) asks for: strict keys, names looked up, defaults filled in. */
#include "server/deploy/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int deploy_resolve_version(sqlite3 *db, const char *model, const char *version, char sha[65],
                           struct error *error)
{
    char *found = NULL;
    int64_t n;
    int status = db_int(db, error, &n, "SELECT count(*) FROM model WHERE name = ?", "s", model);
    if (status >= 0 && n == 0)
        return error_set(error, STATUS_NOT_FOUND, "no model is named '%s'", model);
    if (strcmp(version, "latest") == 0) {
        status = db_text(db, error, &found,
                         "SELECT sha FROM version WHERE model = ? ORDER BY serial DESC LIMIT 1", "s", model);
    } else if (strcmp(version, "active") == 0) {
        status = db_text(
            db, error, &found,
            "SELECT version FROM deployment WHERE model = ? AND state IN ('active', 'degraded') AND promoted "
            "ORDER BY active_at DESC LIMIT 1",
            "s", model);
    } else {
        if (strlen(version) < 12 || strspn(version, "0123456789abcdef") != strlen(version))
            return error_set(
                error, STATUS_INVALID_ARGUMENT,
                "a version is at least 12 characters of its hash, 'latest' or 'active', not '%.80s'",
                version);
        status = db_int(db, error, &n,
                        "SELECT count(*) FROM version WHERE model = ? AND substr(sha, 1, length(?2)) = ?2",
                        "ss", model, version);
        if (status >= 0 && n > 1)
            return error_set(error, STATUS_INVALID_ARGUMENT, "'%.64s' fits several versions of '%s'", version,
                             model);
        status = db_text(db, error, &found,
                         "SELECT sha FROM version WHERE model = ? AND substr(sha, 1, length(?2)) = ?2", "ss",
                         model, version);
    }
    if (status == 0)
        return error_set(error, STATUS_NOT_FOUND, "'%s' has no version '%.64s'", model, version);
    if (status > 0)
        (void)snprintf(sha, 65, "%s", found);
    free(found);
    return status < 0 ? status : 0;
}

static bool strings(const json_t *list, size_t max)
{
    bool ok = json_is_array(list) && json_array_size(list) <= max;
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = json_is_string(json_array_get(list, i));
    return ok;
}

/* One key of a request; NULL: fine, else what it takes. */
static const char *check_key(const char *key, const json_t *value)
{
    enum plan_strategy strategy;
    enum plan_shares shares;
    if (strcmp(key, "model") == 0 || strcmp(key, "version") == 0)
        return json_is_string(value) ? NULL : "is a text";
    if (strcmp(key, "boards") == 0)
        return json_is_null(value) || strings(value, CONDUCT_PARTIES_MAX) ? NULL
                                                                          : "is a list of board ids or names";
    if (strcmp(key, "strategy") == 0)
        return json_is_string(value) && plan_strategy_from_name(json_string_value(value), &strategy) >= 0
                   ? NULL
                   : "is auto, neuron, channels, strips or single";
    if (strcmp(key, "shares") == 0)
        return json_is_string(value) && plan_shares_from_name(json_string_value(value), &shares) >= 0
                   ? NULL
                   : "is rating, even or frequency";
    if (strcmp(key, "objective") == 0)
        return json_is_string(value) && (strcmp(json_string_value(value), "latency") == 0 ||
                                         strcmp(json_string_value(value), "throughput") == 0)
                   ? NULL
                   : "is latency or throughput";
    if (strcmp(key, "replace") == 0 || strcmp(key, "promote") == 0)
        return json_is_boolean(value) ? NULL : "is true or false";
    if (strcmp(key, "tags") == 0)
        return strings(value, 32) ? NULL : "is a list of at most 32 texts";
    return "is not known; a deployment takes model, version, boards, strategy, shares, objective, replace, "
           "promote, tags";
}

static const char *text_or(const json_t *body, const char *key, const char *fallback)
{
    const char *text = json_string_value(json_object_get(body, key));
    return text ? text : fallback;
}

int deploy_parse_request(sqlite3 *db, const json_t *body, json_t **request, struct error *error)
{
    *request = NULL;
    if (!json_is_object(body))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the body is a JSON object with at least {\"model\": NAME}");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)body, key, value)
    {
        const char *wrong = check_key(key, value);
        if (wrong)
            return error_set(error, STATUS_INVALID_ARGUMENT, "'%.64s' %s", key, wrong);
    }
    const char *model = text_or(body, "model", NULL);
    if (!model)
        return error_set(error, STATUS_INVALID_ARGUMENT, "'model' is missing");
    char sha[65];
    int status = deploy_resolve_version(db, model, text_or(body, "version", "latest"), sha, error);
    if (status < 0)
        return status;
    json_t *boards = json_object_get(body, "boards"), *tags = json_object_get(body, "tags");
    json_t *promote = json_object_get(body, "promote");
    *request = json_pack("{s:s, s:s, s:O?, s:s, s:s, s:s, s:b, s:b, s:O?}", "model", model, "version", sha,
                         "boards", json_is_null(boards) ? NULL : boards, "strategy",
                         text_or(body, "strategy", "auto"), "shares", text_or(body, "shares", "rating"),
                         "objective", text_or(body, "objective", "latency"), "replace",
                         json_is_true(json_object_get(body, "replace")), "promote",
                         !promote || json_is_true(promote), "tags", tags);
    return *request ? 0 : error_set(error, STATUS_NO_MEMORY, "out of memory");
}

int deploy_options(const json_t *request, struct plan_options *options, struct error *error)
{
    memset(options, 0, sizeof *options);
    int status =
        plan_strategy_from_name(json_string_value(json_object_get(request, "strategy")), &options->strategy);
    if (status >= 0)
        status =
            plan_shares_from_name(json_string_value(json_object_get(request, "shares")), &options->shares);
    if (strcmp(json_string_value(json_object_get(request, "objective")), "throughput") == 0)
        options->objective = PLAN_OBJECTIVE_THROUGHPUT;
    return status < 0 ? error_set(error, STATUS_INVALID_ARGUMENT, "an unknown strategy or way to share") : 0;
}
