/*
 * One way to change a deployment's state: the store first, in one transaction with the event row, then
 * memory, routes, waiters and the event for people. Runs on the manager thread.
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"
#include "server/base/error_json.h"
#include "server/base/log.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[DEPLOY_STATES] = {"planning", "pushing", "verifying", "active", "degraded",
                                                 "paused",   "retired", "cancelled", "failed"};

const char *deploy_state_name(enum deploy_state state)
{
    return names[state];
}

enum deploy_state deploy_state_from_name(const char *name)
{
    for (int i = 0; i < DEPLOY_STATES; i++)
        if (strcmp(names[i], name) == 0)
            return (enum deploy_state)i;
    return DEPLOY_FAILED;
}

struct change {
    struct deployment *deployment;
    enum deploy_state state;
    const char *reason;
    char *error;
    int64_t now_ms;
};

static int write_change(sqlite3 *db, void *context, struct error *error)
{
    const struct change *change = context;
    const struct deployment *deployment = change->deployment;
    bool active = change->state == DEPLOY_ACTIVE;
    int64_t status =
        db_exec(db, error,
                "UPDATE deployment SET state = ?1, error_json = ?2, promoted = ?3, generation = ?4, "
                "active_at = CASE WHEN ?5 AND active_at IS NULL THEN ?6 ELSE active_at END, "
                "ended_at = CASE WHEN ?7 THEN ?6 ELSE NULL END WHERE id = ?8",
                "ssiiiiis", names[change->state], change->error, (int64_t)deployment->promoted,
                (int64_t)deployment->generation, (int64_t)active, change->now_ms,
                (int64_t)deploy_final(change->state), deployment->id);
    if (status >= 0)
        status = db_exec(db, error,
                         "INSERT INTO deployment_event (deployment, at, state, generation, reason, actor) "
                         "VALUES (?, ?, ?, ?, "
                         "?, 'local')",
                         "sisis", deployment->id, change->now_ms, names[change->state],
                         (int64_t)deployment->generation, change->reason);
    return (int)status;
}

/* Whether boards are there just now: found out anew after every start, so a full disk need not keep a
 * deployment from serving. */
static bool is_live(enum deploy_state state)
{
    return state == DEPLOY_ACTIVE || state == DEPLOY_DEGRADED;
}

/* While a board that took another's place gets ready the generation before it answers. */
static bool answers_as_before(const struct deployment *d)
{
    return d->former && (d->state == DEPLOY_PUSHING || d->state == DEPLOY_VERIFYING);
}

int deploy_set_state(struct deploy *deploy, struct deployment *deployment, enum deploy_state state,
                     const char *reason, const struct error *error)
{
    json_t *json = error ? error_json(error) : NULL;
    struct change change = {
        .deployment = deployment, .state = state, .reason = reason, .now_ms = clock_wall_ms()};
    if (json)
        change.error = json_dumps(json_object_get(json, "error"), JSON_COMPACT);
    struct error why;
    error_clear(&why);
    int status = store_write(deploy->store, write_change, &change, &why);
    free(change.error);
    json_decref(json);
    if (status < 0) {
        LOG_ERROR("deploy", "%s: the change to %s was not stored: %s", deployment->id, names[state],
                  why.message);
        if (!is_live(state) || !is_live(deployment->state) || !deployment->active_ms)
            return status;
    }
    if (state == DEPLOY_ACTIVE && !deployment->active_ms)
        deployment->active_ms = change.now_ms;
    LOG_INFO("deploy", "%s of %s is %s%s%s", deployment->id, deployment->model, names[state],
             *reason ? ": " : "", reason);
    deployment->state = state;
    if (!answers_as_before(deployment)) {
        infer_route_release(deployment->former);
        deployment->former = NULL;
    }
    deploy_update_routes(deploy);
    deploy_publish(deploy, deployment->id);
    deploy_wake_waiters(deploy, false);
    return 0;
}

void deploy_publish(struct deploy *deploy, const char *id)
{
    sqlite3 *db = store_reader(deploy->store);
    json_t *json = db ? deploy_json(deploy, db, id, NULL) : NULL;
    store_reader_done(deploy->store, db);
    if (json && deploy->publish)
        deploy->publish(deploy->publish_context, "deployment", json);
    json_decref(json);
}

/* ---- routes ---- */

static void free_routes(struct route_row *routes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        infer_route_release(routes[i].route);
    free(routes);
}

void deploy_update_routes(struct deploy *deploy)
{
    size_t n = 0, at = 0;
    for (struct deployment *d = deploy->deployments; d; d = d->next)
        n++;
    struct route_row *rows = calloc(n + 1, sizeof *rows);
    if (!rows)
        return;
    for (struct deployment *d = deploy->deployments; d; d = d->next) {
        struct route_row *row = &rows[at++];
        memcpy(row->deployment, d->id, sizeof row->deployment);
        memcpy(row->model, d->model, sizeof row->model);
        memcpy(row->version, d->version, sizeof row->version);
        row->state = d->state;
        row->promoted = d->promoted;
        row->active_ms = d->active_ms;
        row->former = answers_as_before(d);
        if (row->former)
            row->route = infer_route_retain(d->former);
        else if (d->placed && (d->state == DEPLOY_ACTIVE || d->state == DEPLOY_DEGRADED))
            row->route = infer_route_retain(&d->placed->route);
    }
    pthread_mutex_lock(&deploy->routes_mutex);
    struct route_row *old = deploy->routes;
    size_t old_n = deploy->n_routes;
    deploy->routes = rows;
    deploy->n_routes = at;
    pthread_mutex_unlock(&deploy->routes_mutex);
    free_routes(old, old_n);
}

static bool matches(const struct route_row *row, const char *model, const char *version)
{
    if (strcmp(row->model, model) != 0)
        return false;
    if (version && *version)
        return strncmp(row->version, version, strlen(version)) == 0;
    return row->promoted;
}

static bool serves(const struct route_row *row)
{
    return row->state == DEPLOY_ACTIVE || row->former;
}

int deploy_route(struct deploy *deploy, const char *model, const char *version, struct infer_route **route,
                 struct error *error)
{
    *route = NULL;
    const struct route_row *best = NULL, *any = NULL;
    enum deploy_state seen = DEPLOY_STATES;
    pthread_mutex_lock(&deploy->routes_mutex);
    for (size_t i = 0; i < deploy->n_routes; i++) {
        const struct route_row *row = &deploy->routes[i];
        if (!matches(row, model, version))
            continue;
        any = row;
        seen = row->state;
        if (row->route && (!best || (serves(row) && !serves(best)) ||
                           (serves(row) == serves(best) && row->active_ms > best->active_ms)))
            best = row;
    }
    bool degraded = best && best->state == DEPLOY_DEGRADED;
    if (best && !degraded)
        *route = infer_route_retain(best->route);
    pthread_mutex_unlock(&deploy->routes_mutex);
    if (*route)
        return 0;
    if (degraded)
        return error_set(error, STATUS_DEGRADED, "a board of the deployment of '%s' is offline", model);
    if (any)
        return error_set(error, STATUS_NOT_DEPLOYED, "the deployment of '%s' is %s", model, names[seen]);
    return error_set(error, STATUS_NOT_DEPLOYED, "'%s' has no active deployment", model);
}

/* ---- waiters ---- */

void deploy_wake_waiters(struct deploy *deploy, bool tick)
{
    (void)tick;
    struct waiter *due = NULL;
    int64_t now = deploy_now_ms();
    pthread_mutex_lock(&deploy->waiters_mutex);
    for (struct waiter **link = &deploy->waiters; *link;) {
        struct waiter *waiter = *link;
        const struct deployment *d = deploy_find(deploy, waiter->deployment);
        bool settled = !d || (!deploy_in_progress(d->state) && !d->replanning);
        if (!settled && now < waiter->deadline_ms) {
            link = &waiter->next;
            continue;
        }
        waiter->deadline_ms = settled ? 0 : -1;
        *link = waiter->next;
        waiter->next = due;
        due = waiter;
    }
    pthread_mutex_unlock(&deploy->waiters_mutex);
    while (due) {
        struct waiter *waiter = due;
        due = waiter->next;
        waiter->call(waiter->context, waiter->deadline_ms < 0);
        free(waiter);
    }
}

static void check_waiters(struct deploy *deploy, void *context)
{
    (void)context;
    deploy_wake_waiters(deploy, false);
}

int deploy_wait(struct deploy *deploy, const char *id, int64_t wait_ms, deploy_wait_fn *call, void *context)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return STATUS_NO_MEMORY;
    strncpy(waiter->deployment, id, sizeof waiter->deployment - 1);
    waiter->deadline_ms = deploy_now_ms() + wait_ms;
    waiter->call = call;
    waiter->context = context;
    pthread_mutex_lock(&deploy->waiters_mutex);
    bool closed = deploy->waiters_closed;
    if (!closed) {
        waiter->next = deploy->waiters;
        deploy->waiters = waiter;
    }
    pthread_mutex_unlock(&deploy->waiters_mutex);
    if (closed) {
        free(waiter);
        return STATUS_BUSY;
    }
    (void)queue_add(&deploy->calls, check_waiters, NULL);
    return 0;
}
