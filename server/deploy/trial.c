/*
 * A plan for a request, made where somebody waits for the answer: the dry run, and the first plan of a new
 * deployment, which is so refused before there is one. Nothing is stored or sent. Runs on workers.
 */
#include "server/deploy/internal.h"

#include "server/base/error_json.h"
#include "server/plan/describe.h"

#include <stdlib.h>
#include <string.h>

void deploy_trial_free(struct trial *trial)
{
    plan_free(trial->plan);
    graph_free(trial->graph);
    free(trial->boards);
    *trial = (struct trial){0};
}

/* What is missing on each board, and what would help. */
static json_t *refusal(struct deploy *deploy, const json_t *request, const struct trial *trial,
                       const struct error_shortfall *shortfalls, int32_t n, const struct error *error)
{
    json_t *detail = error_json_detail(error);
    json_object_set_new(detail, "shortfalls", describe_shortfalls(shortfalls, n));
    json_object_set_new(detail, "try", deploy_try(deploy, request, trial, shortfalls, n));
    return detail;
}

int deploy_trial_make(struct deploy *deploy, const json_t *request, struct trial *trial, json_t **detail,
                      struct error *error)
{
    const char *version = json_string_value(json_object_get(request, "version"));
    struct error_shortfall shortfalls[CONDUCT_PARTIES_MAX];
    int32_t n = CONDUCT_PARTIES_MAX;
    *trial = (struct trial){0};
    *detail = NULL;
    sqlite3 *db = store_reader(deploy->store);
    int status =
        db ? deploy_options(request, &trial->options, error) : error_set(error, STATUS_BUSY, "no connection");
    if (status >= 0 && !(trial->graph = deploy_load_graph(db, version, error)))
        status = error->status;
    if (status >= 0)
        status = deploy_boards(deploy, db, request, "", &trial->boards, &trial->n, error);
    store_reader_done(deploy->store, db);
    if (status < 0)
        return status;
    trial->plan =
        plan_make(trial->graph, version, trial->boards, trial->n, &trial->options, shortfalls, &n, error);
    if (!trial->plan && error->status == STATUS_DOES_NOT_FIT)
        *detail = refusal(deploy, request, trial, shortfalls,
                          n > CONDUCT_PARTIES_MAX ? CONDUCT_PARTIES_MAX : n, error);
    return trial->plan ? 0 : (int)error->status;
}

int deploy_dry_run(struct deploy *deploy, const json_t *body, json_t **json, struct error *error)
{
    json_t *request = NULL;
    struct trial trial = {0};
    struct emit_fragment *fragments = NULL;
    *json = NULL;
    sqlite3 *db = store_reader(deploy->store);
    int status = db ? deploy_parse_request(db, body, &request, error) : error_set(error, STATUS_BUSY, "busy");
    store_reader_done(deploy->store, db);
    if (status >= 0)
        status = deploy_trial_make(deploy, request, &trial, json, error);
    if (status >= 0)
        status = emit_plan(trial.plan, &fragments, error); /* the true sizes; the fragments pass the checks */
    if (status >= 0) {
        *json = plan_summary_json(trial.plan);
        /* the name asked for, not the one that the version came with first */
        json_object_set(*json, "model", json_object_get(request, "model"));
        emit_free(fragments, trial.n);
    }
    deploy_trial_free(&trial);
    json_decref(request);
    return status < 0 ? status : 0;
}
