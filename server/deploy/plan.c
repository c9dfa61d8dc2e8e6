/*
 * Planning a generation. The compile thread works on copies (a planning job) and hands the result to the
 * manager, which stores plan, fragments and parts in one transaction and goes on to pushing, or marks the
 * deployment failed.
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/log.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

struct graph *deploy_load_graph(sqlite3 *db, const char *version, struct error *error)
{
    unsigned char *bytes;
    size_t size;
    int status =
        db_blob(db, error, &bytes, &size, "SELECT graph FROM version WHERE sha = ? LIMIT 1", "s", version);
    if (status == 0)
        error_set(error, STATUS_NOT_FOUND, "no version %.12s", version);
    struct graph *graph = status == 1 ? graph_read(bytes, size, error) : NULL;
    free(bytes);
    return graph;
}

int deploy_flash_in_use(sqlite3 *db, const char *board, const char *self, const char *replaced_model,
                        int64_t *bytes, struct error *error)
{
    return db_int(
        db, error, bytes,
        "SELECT coalesce(sum((fragment_bytes + 4095) / 4096 * 4096), 0) FROM (SELECT DISTINCT part.fragment, "
        "part.fragment_bytes "
        "FROM part "
        "JOIN deployment ON deployment.id = part.deployment AND deployment.generation = part.generation "
        "WHERE "
        "part.board = ?1 AND part.fragment <> '' AND deployment.id <> ?2 AND deployment.model <> ?3 AND "
        "deployment.state IN ('planning', 'pushing', 'verifying', 'active', 'degraded', 'paused'))",
        "sss", board, self, replaced_model);
}

int deploy_boards(struct deploy *deploy, sqlite3 *db, const json_t *request, const char *self,
                  struct plan_board **boards, int32_t *n, struct error *error)
{
    json_t *only = json_object_get(request, "boards");
    int status = fleet_plan_boards(deploy->fleet, db, json_is_null(only) ? NULL : only, boards, n, error);
    bool replace = json_is_true(json_object_get(request, "replace"));
    const char *model = replace ? json_string_value(json_object_get(request, "model")) : "";
    for (int32_t i = 0; i < *n && status >= 0; i++) {
        int64_t used = 0;
        status = deploy_flash_in_use(db, (*boards)[i].id, self, model, &used, error);
        (*boards)[i].flash_bytes = used < (*boards)[i].flash_bytes ? (*boards)[i].flash_bytes - used : 0;
    }
    if (status < 0) {
        free(*boards);
        *boards = NULL;
    }
    return status < 0 ? status : 0;
}

/* ---- a placed generation ---- */

static void placed_release(struct infer_route *route)
{
    struct placed *placed = (struct placed *)route;
    plan_free(placed->plan);
    graph_free(placed->graph);
    free(placed->boards);
    free(placed);
}

struct placed *deploy_place(struct deployment *deployment, struct graph *graph, struct plan *plan)
{
    struct placed *placed = calloc(1, sizeof *placed);
    char(*boards)[FLEET_ID_BYTES] = calloc((size_t)plan->n_boards, sizeof *boards);
    if (!placed || !boards) {
        free(placed);
        free(boards);
        return NULL;
    }
    for (int32_t i = 0; i < plan->n_boards; i++)
        (void)snprintf(boards[i], sizeof boards[i], "%.32s", plan->boards[i].id);
    *placed = (struct placed){.graph = graph, .plan = plan, .boards = boards};
    struct infer_route *route = &placed->route;
    *route = (struct infer_route){.generation = deployment->generation,
                                  .graph = graph,
                                  .plan = plan,
                                  .boards = boards,
                                  .release = placed_release,
                                  .references = 1};
    memcpy(route->deployment, deployment->id, sizeof route->deployment);
    memcpy(route->model, deployment->model, sizeof route->model);
    memcpy(route->version, deployment->version, sizeof route->version);
    return placed;
}

/* ---- the job ---- */

struct job {
    char deployment[ID_ULID_BYTES];
    json_t *request;
    uint32_t generation;
    struct deployment
        result;        /* scratch: id, model, version, generation, placed, parts, golden are filled in */
    struct trial made; /* graph and plan, or NULL: to be made */
    struct emit_fragment *fragments;
    char *plan_json;
    struct error error;
};

static void free_job(struct job *job)
{
    if (job->result.placed)
        deploy_drop_generation(&job->result);
    deploy_trial_free(&job->made);
    free(job->fragments);
    free(job->plan_json);
    json_decref(job->request);
    free(job);
}

static int make_parts(struct deployment *deployment, const struct plan *plan,
                      const struct emit_fragment *fragments)
{
    deployment->n_parts = plan->n_boards;
    deployment->parts = calloc((size_t)plan->n_boards, sizeof *deployment->parts);
    if (!deployment->parts)
        return STATUS_NO_MEMORY;
    for (int32_t i = 0; i < plan->n_boards; i++) {
        struct part *part = &deployment->parts[i];
        (void)snprintf(part->board, sizeof part->board, "%.32s", plan->boards[i].id);
        part->used = fragments[i].size > 0;
        part->bytes = fragments[i].size;
        memcpy(part->fragment, fragments[i].hash, sizeof part->fragment);
        if (part->used)
            hash_hex(part->fragment, part->sha);
    }
    return 0;
}

/* Graph and plan of the job, made now where they did not come with it. */
static int make_plan(struct deploy *deploy, struct job *job)
{
    struct trial *made = &job->made;
    struct error *error = &job->error;
    if (made->plan)
        return 0;
    sqlite3 *db = store_reader(deploy->store);
    int status = db ? deploy_options(job->request, &made->options, error)
                    : error_set(error, STATUS_BUSY, "no connection");
    made->graph = status < 0 ? NULL : deploy_load_graph(db, job->result.version, error);
    if (made->graph)
        status = deploy_boards(deploy, db, job->request, job->deployment, &made->boards, &made->n, error);
    store_reader_done(deploy->store, db);
    if (made->graph && status >= 0)
        made->plan = plan_make(made->graph, job->result.version, made->boards, made->n, &made->options, NULL,
                               NULL, error);
    return made->plan ? 0 : (int)error->status;
}

static int compile(struct deploy *deploy, struct job *job)
{
    struct error *error = &job->error;
    struct trial *made = &job->made;
    int status = make_plan(deploy, job);
    if (status >= 0)
        status = emit_plan(made->plan, &job->fragments, error);
    if (status >= 0)
        status = conduct_table_check(&made->plan->table, error);
    if (status < 0)
        return status;
    job->result.placed = deploy_place(&job->result, made->graph, made->plan);
    if (!job->result.placed)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    const struct plan *plan = made->plan;
    made->graph = NULL; /* the placed generation's now */
    made->plan = NULL;
    status = make_parts(&job->result, plan, job->fragments);
    if (status >= 0)
        status = deploy_golden_make(&job->result, error);
    json_t *json = plan_to_json(plan);
    job->plan_json = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return status < 0 || !job->plan_json ? error_set(error, STATUS_NO_MEMORY, "out of memory") : 0;
}

/* ---- back on the manager ---- */

struct store_job {
    struct job *job;
    int64_t now_ms;
};

static int write_parts(sqlite3 *db, const struct job *job, struct error *error)
{
    const struct deployment *result = &job->result;
    int64_t status = 0;
    for (int32_t i = 0; i < result->n_parts && status >= 0; i++) {
        const struct part *part = &result->parts[i];
        if (part->used)
            status = store_blob_put(db, part->sha, job->fragments[i].bytes, part->bytes, error);
        if (status >= 0)
            status = db_exec(db, error,
                             "INSERT INTO part (deployment, generation, party, board, fragment, "
                             "fragment_bytes) VALUES (?, ?, "
                             "?, ?, ?, ?)",
                             "siissi", job->deployment, (int64_t)job->generation, (int64_t)i + 1, part->board,
                             part->sha, (int64_t)part->bytes);
    }
    return (int)status;
}

static int write_generation(sqlite3 *db, void *context, struct error *error)
{
    const struct store_job *write = context;
    const struct job *job = write->job;
    const struct plan *plan = job->result.placed->plan;
    int64_t status =
        db_exec(db, error,
                "INSERT INTO plan (hash, version, plan_json, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO "
                "NOTHING",
                "sssi", plan->hash, job->result.version, job->plan_json, write->now_ms);
    if (status >= 0)
        status =
            db_exec(db, error,
                    "INSERT INTO generation (deployment, generation, plan, created_at) VALUES (?, ?, ?, ?)",
                    "sisi", job->deployment, (int64_t)job->generation, plan->hash, write->now_ms);
    if (status >= 0)
        status = db_exec(db, error, "UPDATE deployment SET generation = ? WHERE id = ?", "is",
                         (int64_t)job->generation, job->deployment);
    return status < 0 ? (int)status : write_parts(db, job, error);
}

/* Planning failed: the deployment fails, or a replan goes back to what was. */
static void planning_failed(struct deploy *deploy, struct deployment *deployment, const struct error *error)
{
    if (!deployment->replanning) {
        (void)deploy_set_state(deploy, deployment, DEPLOY_FAILED, error->message, error);
        deploy_remove(deploy, deployment);
        return;
    }
    deployment->replanning = false;
    char reason[ERROR_MESSAGE_BYTES + 32];
    (void)snprintf(reason, sizeof reason, "no new plan: %s", error->message);
    /* Boards may have come and gone meanwhile: what served looks for them. */
    bool paused = deployment->before == DEPLOY_PAUSED;
    if (deploy_set_state(deploy, deployment, paused ? DEPLOY_PAUSED : DEPLOY_DEGRADED, reason, error) >= 0 &&
        !paused)
        deploy_push(deploy, deployment);
}

static void take_result(struct deployment *deployment, struct job *job)
{
    deploy_drop_generation(deployment);
    deployment->placed = job->result.placed;
    deployment->parts = job->result.parts;
    deployment->n_parts = job->result.n_parts;
    deployment->golden_input = job->result.golden_input;
    deployment->golden_output = job->result.golden_output;
    deployment->generation = job->generation;
    memset(&job->result, 0, sizeof job->result);
}

static void free_fragments(struct job *job, int32_t n)
{
    for (int32_t i = 0; job->fragments && i < n; i++)
        free(job->fragments[i].bytes);
}

static void planned(struct deploy *deploy, void *context)
{
    struct job *job = context;
    struct deployment *deployment = deploy_find(deploy, job->deployment);
    int32_t n = job->result.n_parts;
    if (deployment && deployment->state == DEPLOY_PLANNING) {
        struct store_job write = {.job = job, .now_ms = clock_wall_ms()};
        if (job->error.status == STATUS_OK)
            (void)store_write(deploy->store, write_generation, &write, &job->error);
        if (job->error.status != STATUS_OK) {
            planning_failed(deploy, deployment, &job->error);
        } else {
            take_result(deployment, job);
            if (json_is_true(json_object_get(deployment->request, "replace")))
                deploy_retire_former(deploy, deployment); /* its flash is needed */
            deploy_clean_boards(deploy);
            if (deploy_set_state(deploy, deployment, DEPLOY_PUSHING, "", NULL) >= 0)
                deploy_push(deploy, deployment);
        }
    }
    free_fragments(job, n);
    free_job(job);
}

static void compile_call(struct deploy *deploy, void *context)
{
    struct job *job = context;
    if (queue_closing(&deploy->compiles)) { /* planned after the next start: the store has it as planning */
        free_job(job);
        return;
    }
    int status = compile(deploy, job);
    if (status < 0 && job->error.status == STATUS_OK)
        error_set(&job->error, (enum status)status, "planning failed: %s", status_text(status));
    if (queue_closing(&deploy->compiles)) {
        free_fragments(job, job->result.n_parts);
        free_job(job);
        return;
    }
    while (queue_add(&deploy->calls, planned, job) == STATUS_BUSY && !deploy->calls.closing)
        ;
}

int deploy_start_planning(struct deploy *deploy, struct deployment *deployment, struct trial *made)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return STATUS_NO_MEMORY;
    error_clear(&job->error);
    memcpy(job->deployment, deployment->id, sizeof job->deployment);
    job->request = json_deep_copy(deployment->request);
    job->generation = deployment->generation + 1;
    memcpy(job->result.id, deployment->id, sizeof job->result.id);
    memcpy(job->result.model, deployment->model, sizeof job->result.model);
    memcpy(job->result.version, deployment->version, sizeof job->result.version);
    job->result.generation = job->generation;
    if (made) {
        job->made.graph = made->graph;
        job->made.plan = made->plan;
        made->graph = NULL;
        made->plan = NULL;
    }
    int status = queue_add(&deploy->compiles, compile_call, job);
    if (status < 0)
        free_job(job);
    return status;
}

/* ---- taking up a stored generation ---- */

static int load_parts(sqlite3 *db, struct deployment *deployment, struct plan *plan, struct error *error)
{
    json_t *rows = db_rows(
        db, error,
        "SELECT board, fragment, fragment_bytes FROM part WHERE deployment = ? AND generation = ? ORDER BY "
        "party",
        "si", deployment->id, (int64_t)deployment->generation);
    if (!rows)
        return error->status;
    deployment->n_parts = (int32_t)json_array_size(rows);
    deployment->parts = calloc((size_t)deployment->n_parts + 1, sizeof *deployment->parts);
    int status = deployment->parts && deployment->n_parts == plan->n_boards
                     ? 0
                     : error_set(error, STATUS_STORE_FAILED, "the stored parts do not match the plan");
    for (int32_t i = 0; i < deployment->n_parts && status == 0; i++) {
        const json_t *row = json_array_get(rows, (size_t)i);
        struct part *part = &deployment->parts[i];
        (void)snprintf(part->board, sizeof part->board, "%s",
                       json_string_value(json_object_get(row, "board")));
        (void)snprintf(part->sha, sizeof part->sha, "%s",
                       json_string_value(json_object_get(row, "fragment")));
        part->bytes = (uint32_t)json_integer_value(json_object_get(row, "fragment_bytes"));
        part->used = part->sha[0] != 0;
        if (part->used && !hash_from_hex(part->sha, part->fragment))
            status = error_set(error, STATUS_STORE_FAILED, "a stored fragment's hash is malformed");
        memcpy(plan->table.fragments[i], part->fragment, sizeof part->fragment);
    }
    json_decref(rows);
    return status;
}

int deploy_load_generation(struct deploy *deploy, sqlite3 *db, struct deployment *deployment,
                           struct error *error)
{
    (void)deploy;
    char *text = NULL;
    int status = db_text(
        db, error, &text,
        "SELECT plan_json FROM plan JOIN generation ON generation.plan = plan.hash WHERE deployment = ? AND "
        "generation = ?",
        "si", deployment->id, (int64_t)deployment->generation);
    if (status == 0)
        return error_set(error, STATUS_NOT_FOUND, "no plan of generation %u is stored",
                         deployment->generation);
    struct graph *graph = status == 1 ? deploy_load_graph(db, deployment->version, error) : NULL;
    json_t *json = graph ? json_loads(text, 0, NULL) : NULL;
    free(text);
    struct plan *plan = json ? plan_from_json(graph, json, error) : NULL;
    json_decref(json);
    status = plan ? load_parts(db, deployment, plan, error)
                  : error_set(error, STATUS_STORE_FAILED, "the stored plan is malformed");
    if (status >= 0)
        status = conduct_table_check(&plan->table, error);
    deployment->placed = status >= 0 ? deploy_place(deployment, graph, plan) : NULL;
    if (!deployment->placed) {
        plan_free(plan);
        graph_free(graph);
        free(deployment->parts);
        deployment->parts = NULL;
        deployment->n_parts = 0;
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    return 0;
}
