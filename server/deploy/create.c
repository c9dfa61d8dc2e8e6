/* New deployments and acts on them: asked by API threads, done on the manager. */
#include "server/deploy/internal.h"

#include "server/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- create ---- */

struct create {
    json_t *request;
    const char *actor;
    char id[ID_ULID_BYTES]; /* of the deployment to show */
    int status;             /* 202, 200 or negative */
    struct error *error;
    int64_t now_ms;
    bool promoted;
    struct trial trial; /* the plan, made before there is a deployment */
};

static int write_deployment(sqlite3 *db, void *context, struct error *error)
{
    const struct create *create = context;
    const char *model = json_string_value(json_object_get(create->request, "model"));
    const char *version = json_string_value(json_object_get(create->request, "version"));
    json_t *tags = json_object_get(create->request, "tags");
    char *request = json_dumps(create->request, JSON_COMPACT | JSON_SORT_KEYS);
    char *tags_text = json_is_array(tags) ? json_dumps(tags, JSON_COMPACT) : strdup("[]");
    int64_t status =
        request && tags_text
            ? db_exec(
                  db, error,
                  "INSERT INTO deployment (id, model, version, state, generation, request_json, tags_json, "
                  "promoted, owner, created_at, actor) VALUES (?, ?, ?, 'planning', 0, ?, ?, ?, ?, ?, ?)",
                  "sssssisis", create->id, model, version, request, tags_text, (int64_t)create->promoted,
                  create->actor, create->now_ms, create->actor)
            : error_set(error, STATUS_NO_MEMORY, "out of memory");
    if (status >= 0)
        status = db_exec(
            db, error,
            "INSERT INTO deployment_event (deployment, at, state, generation, reason, actor) VALUES (?, ?, "
            "'planning', 1, '', ?)",
            "sis", create->id, create->now_ms, create->actor);
    free(request);
    free(tags_text);
    return (int)status;
}

/* The model's deployment that a new request meets: the identical one (200), or another in progress (409). */
static struct deployment *meet(struct deploy *deploy, const struct create *create, bool *identical)
{
    const char *model = json_string_value(json_object_get(create->request, "model"));
    struct deployment *other = NULL;
    *identical = false;
    for (struct deployment *d = deploy->deployments; d; d = d->next) {
        if (strcmp(d->model, model) != 0)
            continue;
        if (json_equal(d->request, create->request) && d->state != DEPLOY_PAUSED) {
            *identical = true;
            return d;
        }
        if (deploy_in_progress(d->state))
            other = d;
    }
    return other;
}

/* Where there is no place for the job now, the tick tries again. */
static void begin_planning(struct deploy *deploy, struct deployment *d, struct trial *made)
{
    if (deploy_start_planning(deploy, d, made) < 0)
        d->plan_by_ms = deploy_now_ms();
}

/* Sets the status when there is one that the request meets; 0: none. */
static void meet_call(struct deploy *deploy, void *context)
{
    struct create *create = context;
    bool identical;
    const struct deployment *met = meet(deploy, create, &identical);
    if (!met)
        return;
    memcpy(create->id, met->id, sizeof create->id);
    create->status = identical
                         ? 200
                         : error_set(create->error, STATUS_CONFLICT, "deployment %s of '%s' is still %s",
                                     met->id, met->model, deploy_state_name(met->state));
}

static void create_call(struct deploy *deploy, void *context)
{
    struct create *create = context;
    meet_call(deploy, create); /* while the plan was made another may have come */
    if (create->status != 0)
        return;
    struct deployment *d = calloc(1, sizeof *d);
    if (!d) {
        create->status = error_set(create->error, STATUS_NO_MEMORY, "out of memory");
        return;
    }
    id_ulid(create->id);
    create->now_ms = clock_wall_ms();
    create->promoted = json_is_true(json_object_get(create->request, "promote"));
    create->status = store_write(deploy->store, write_deployment, create, create->error);
    if (create->status < 0) {
        free(d);
        return;
    }
    memcpy(d->id, create->id, sizeof d->id);
    (void)snprintf(d->model, sizeof d->model, "%s",
                   json_string_value(json_object_get(create->request, "model")));
    (void)snprintf(d->version, sizeof d->version, "%s",
                   json_string_value(json_object_get(create->request, "version")));
    d->request = json_incref(create->request);
    d->promoted = create->promoted;
    d->next = deploy->deployments;
    deploy->deployments = d;
    create->status = 202;
    deploy_update_routes(deploy);
    deploy_publish(deploy, d->id);
    begin_planning(deploy, d, &create->trial);
}

static json_t *show(struct deploy *deploy, const char *id, struct error *error)
{
    sqlite3 *db = store_reader(deploy->store);
    json_t *json = db ? deploy_json(deploy, db, id, error) : NULL;
    store_reader_done(deploy->store, db);
    return json;
}

/* The plan first, on this thread: what cannot be planned is refused and never was a deployment. */
int deploy_create(struct deploy *deploy, const json_t *request, const char *actor, json_t **json,
                  struct error *error)
{
    *json = NULL;
    struct create create = {.actor = actor, .error = error};
    sqlite3 *db = store_reader(deploy->store);
    int status = db ? deploy_parse_request(db, request, &create.request, error)
                    : error_set(error, STATUS_BUSY, "busy");
    store_reader_done(deploy->store, db);
    if (status >= 0)
        status = deploy_ask(deploy, meet_call, &create);
    if (status >= 0 && create.status == 0)
        status = deploy_trial_make(deploy, create.request, &create.trial, json, error);
    if (status >= 0 && create.status == 0)
        status = deploy_ask(deploy, create_call, &create);
    deploy_trial_free(&create.trial);
    json_decref(create.request);
    if (status < 0)
        return error_set(error, (enum status)status, "%s", status_text(status));
    if (create.id[0])
        *json = show(deploy, create.id, NULL);
    return create.status;
}

/* ---- acts ---- */

struct act {
    const char *id, *name;
    int status;
    struct error *error;
};

static int refuse(struct act *act, const struct deployment *d)
{
    return error_set(act->error, STATUS_CONFLICT, "a deployment that is %s cannot %s",
                     d ? deploy_state_name(d->state) : "over", act->name);
}

static int end(struct deploy *deploy, struct deployment *d, enum deploy_state state, const char *reason)
{
    int status = deploy_set_state(deploy, d, state, reason, NULL);
    if (status >= 0) {
        deploy_remove(deploy, d);
        deploy_clean_boards(deploy);
    }
    return status;
}

static int act_pause(struct deploy *deploy, struct deployment *d, struct act *act)
{
    if (d->state != DEPLOY_ACTIVE && d->state != DEPLOY_DEGRADED)
        return refuse(act, d);
    int status = deploy_set_state(deploy, d, DEPLOY_PAUSED, "on request", NULL);
    infer_abort(deploy->infer, d->id, "the deployment was paused");
    return status;
}

static int act_resume(struct deploy *deploy, struct deployment *d, struct act *act)
{
    if (d->state != DEPLOY_PAUSED)
        return refuse(act, d);
    int status = deploy_set_state(deploy, d, DEPLOY_DEGRADED, "resumed; looking for the boards", NULL);
    if (status >= 0)
        deploy_push(deploy, d);
    return status;
}

static int act_cancel(struct deploy *deploy, struct deployment *d, struct act *act)
{
    return deploy_in_progress(d->state) ? end(deploy, d, DEPLOY_CANCELLED, "on request") : refuse(act, d);
}

static int act_retire(struct deploy *deploy, struct deployment *d, struct act *act)
{
    (void)act;
    return end(deploy, d, deploy_in_progress(d->state) ? DEPLOY_CANCELLED : DEPLOY_RETIRED, "on request");
}

static int act_replan(struct deploy *deploy, struct deployment *d, struct act *act)
{
    if (d->state != DEPLOY_ACTIVE && d->state != DEPLOY_DEGRADED && d->state != DEPLOY_PAUSED)
        return refuse(act, d);
    d->before = d->state;
    d->replanning = true;
    int status = deploy_set_state(deploy, d, DEPLOY_PLANNING, "a new plan was asked for", NULL);
    if (status < 0)
        d->replanning = false;
    else
        begin_planning(deploy, d, NULL);
    return status;
}

static int act_promote(struct deploy *deploy, struct deployment *d, struct act *act)
{
    if (d->state != DEPLOY_ACTIVE && d->state != DEPLOY_DEGRADED)
        return refuse(act, d);
    d->promoted = true;
    int status = deploy_set_state(deploy, d, d->state, "promoted", NULL);
    if (status >= 0)
        deploy_retire_former(deploy, d);
    return status;
}

/* Whether a board's flash cannot hold its part beside what living deployments have on it. */
static bool lacks_room(struct deploy *deploy, sqlite3 *db, const struct deployment *d)
{
    bool lacks = false;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const struct part *part = &d->parts[i];
        int64_t used = 0, flash = fleet_flash_bytes(deploy->fleet, part->board);
        if (part->used && flash && deploy_flash_in_use(db, part->board, d->id, "", &used, NULL) >= 0)
            lacks = lacks || used + part->bytes > flash;
    }
    return lacks;
}

/* Brings the model's last retired deployment back: its boards mostly still hold their parts. Where the flash
 * cannot hold both, the present one goes first. */
static int act_rollback(struct deploy *deploy, struct deployment *d, struct act *act)
{
    json_t *row = NULL;
    sqlite3 *db = store_reader(deploy->store);
    int status =
        db ? db_row(
                 db, act->error, &row,
                 "SELECT id, version, generation, request_json FROM deployment WHERE model = ? AND state = "
                 "'retired' AND generation > 0 AND id <> ? ORDER BY ended_at DESC LIMIT 1",
                 "ss", d->model, d->id)
           : error_set(act->error, STATUS_BUSY, "busy");
    struct deployment *former = status == 1 ? calloc(1, sizeof *former) : NULL;
    if (status == 0)
        status = error_set(act->error, STATUS_CONFLICT, "'%s' has no former deployment", d->model);
    if (former) {
        (void)snprintf(former->id, sizeof former->id, "%s", json_string_value(json_object_get(row, "id")));
        (void)snprintf(former->version, sizeof former->version, "%s",
                       json_string_value(json_object_get(row, "version")));
        memcpy(former->model, d->model, sizeof former->model);
        former->generation = (uint32_t)json_integer_value(json_object_get(row, "generation"));
        former->request = json_incref(json_object_get(row, "request"));
        former->promoted = true;
        status = deploy_load_generation(deploy, db, former, act->error);
    }
    bool lacks = former && status >= 0 && lacks_room(deploy, db, former);
    json_decref(row);
    store_reader_done(deploy->store, db);
    if (!former || status < 0) {
        if (former)
            json_decref(former->request);
        free(former);
        return status < 0 ? status : STATUS_NO_MEMORY;
    }
    former->next = deploy->deployments;
    deploy->deployments = former;
    status = deploy_set_state(deploy, former, DEPLOY_PUSHING, "rolled back to", NULL);
    if (status >= 0 && lacks)
        status = end(deploy, d, DEPLOY_RETIRED, "the deployment that it is rolled back to needs its flash");
    if (status >= 0)
        deploy_push(deploy, former);
    return status;
}

static const struct {
    const char *name;
    int (*run)(struct deploy *deploy, struct deployment *d, struct act *act);
} acts[] = {{"pause", act_pause},      {"resume", act_resume}, {"cancel", act_cancel},
            {"retire", act_retire},    {"replan", act_replan}, {"promote", act_promote},
            {"rollback", act_rollback}};

static void act_call(struct deploy *deploy, void *context)
{
    struct act *act = context;
    struct deployment *d = deploy_find(deploy, act->id);
    if (!d) {
        act->status = refuse(act, NULL);
        return;
    }
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (strcmp(acts[i].name, act->name) == 0) {
            act->status = acts[i].run(deploy, d, act);
            return;
        }
    act->status = error_set(act->error, STATUS_NOT_FOUND, "no such act: %s", act->name);
}

int deploy_act(struct deploy *deploy, const char *id, const char *name, const char *actor, json_t **json,
               struct error *error)
{
    (void)actor;
    *json = show(deploy, id, error);
    if (!*json)
        return error && error->status ? (int)error->status : STATUS_NOT_FOUND;
    json_decref(*json);
    *json = NULL;
    struct act act = {.id = id, .name = name, .error = error};
    int status = deploy_ask(deploy, act_call, &act);
    if (status < 0)
        return error_set(error, (enum status)status, "%s", status_text(status));
    if (act.status < 0)
        return error_set(error, (enum status)act.status, "%s", status_text(act.status));
    *json = show(deploy, id, error);
    return *json ? 0 : STATUS_NOT_FOUND;
}

/* ---- boards ---- */

struct replan_board {
    const char *board;
    int n;
};

static void replan_board_call(struct deploy *deploy, void *context)
{
    struct replan_board *ask = context;
    for (struct deployment *d = deploy->deployments; d; d = d->next) {
        struct act act = {.id = d->id, .name = "replan"};
        d->leave = d->leave || deploy_in_progress(d->state) || d->replanning;
        for (int32_t i = 0; i < d->n_parts; i++)
            if (d->parts[i].used && strcmp(d->parts[i].board, ask->board) == 0) {
                ask->n += act_replan(deploy, d, &act) >= 0;
                break;
            }
    }
}

static bool on_drained_board(struct deploy *deploy, const struct deployment *d)
{
    int64_t n = 0;
    sqlite3 *db = store_reader(deploy->store);
    int status = db ? db_int(db, NULL, &n,
                             "SELECT count(*) FROM part JOIN board ON board.id = part.board WHERE "
                             "part.deployment = ? AND part.generation = ? AND part.fragment <> '' AND "
                             "board.drained = 1",
                             "si", d->id, (int64_t)d->generation)
                    : -1;
    store_reader_done(deploy->store, db);
    return status >= 0 && n > 0;
}

void deploy_leave_drained(struct deploy *deploy, struct deployment *d)
{
    if (!d->leave || deploy_in_progress(d->state) || d->replanning)
        return;
    struct act act = {.id = d->id, .name = "replan"};
    d->leave = false;
    if (on_drained_board(deploy, d))
        (void)act_replan(deploy, d, &act);
}

int deploy_leave_board(struct deploy *deploy, const char *board)
{
    struct replan_board ask = {.board = board};
    int status = deploy_ask(deploy, replan_board_call, &ask);
    return status < 0 ? status : ask.n;
}

bool deploy_uses_board(struct deploy *deploy, const char *board)
{
    int64_t n = 0;
    sqlite3 *db = store_reader(deploy->store);
    int status =
        db ? db_int(
                 db, NULL, &n,
                 "SELECT count(*) FROM part JOIN deployment ON deployment.id = part.deployment AND "
                 "deployment.generation = part.generation WHERE part.board = ? AND part.fragment <> '' AND "
                 "deployment.ended_at IS NULL",
                 "s", board)
           : -1;
    store_reader_done(deploy->store, db);
    return status < 0 || n > 0;
}
