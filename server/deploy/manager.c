/*
 * The manager thread: takes up stored deployments, runs calls, watches deadlines. It alone changes
 * deployments.
 */
#include "server/deploy/internal.h"

#include "server/base/clock.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After a restart every living board is back well within the second: it drops a silent link after 20 s. */
enum { TICK_MS = 1000, BOARDS_BACK_MS = WIRE_SILENT_MS + 10000, SPARED_MS = 5000 };

int64_t deploy_now_ms(void)
{
    return (int64_t)(clock_monotonic_us() / 1000);
}

struct deployment *deploy_find(struct deploy *deploy, const char *id)
{
    struct deployment *d = deploy->deployments;
    while (d && strcmp(d->id, id) != 0)
        d = d->next;
    return d;
}

void deploy_drop_generation(struct deployment *deployment)
{
    if (deployment->placed)
        infer_route_release(&deployment->placed->route);
    free(deployment->parts);
    free(deployment->golden_input);
    free(deployment->golden_output);
    deployment->placed = NULL;
    deployment->parts = NULL;
    deployment->n_parts = 0;
    deployment->golden_input = deployment->golden_output = NULL;
    deployment->golden_running = false;
}

void deploy_remove(struct deploy *deploy, struct deployment *deployment)
{
    infer_abort(deploy->infer, deployment->id, "the deployment ended");
    deploy_let_go(deploy, deployment);
}

void deploy_let_go(struct deploy *deploy, struct deployment *deployment)
{
    struct deployment **link = &deploy->deployments;
    while (*link != deployment)
        link = &(*link)->next;
    *link = deployment->next;
    deploy_update_routes(deploy);
    deploy_wake_waiters(deploy, false);
    deploy_drop_generation(deployment);
    infer_route_release(deployment->former);
    json_decref(deployment->request);
    free(deployment);
}

/* ---- taking up what is stored ---- */

static void take_up(struct deploy *deploy, sqlite3 *db, struct deployment *d)
{
    struct error error;
    error_clear(&error);
    if (d->state == DEPLOY_PLANNING) {
        d->plan_by_ms = deploy_now_ms() + BOARDS_BACK_MS;
        /* A replan: should it fail, the former generation is still there. */
        d->replanning = d->generation > 0 && deploy_load_generation(deploy, db, d, &error) >= 0;
        d->before = DEPLOY_DEGRADED;
        return;
    }
    if (deploy_load_generation(deploy, db, d, &error) < 0) {
        (void)deploy_set_state(deploy, d, DEPLOY_FAILED, error.message, &error);
        deploy_remove(deploy, d);
        return;
    }
    if (d->state == DEPLOY_VERIFYING)
        (void)deploy_set_state(deploy, d, DEPLOY_PUSHING, "the server was restarted", NULL);
    else if (d->state == DEPLOY_ACTIVE)
        (void)deploy_set_state(deploy, d, DEPLOY_DEGRADED, "the server was restarted; waiting for the boards",
                               NULL);
    deploy_push(deploy, d);
}

static int load_all(struct deploy *deploy, sqlite3 *db, struct error *error)
{
    json_t *rows = db_rows(
        db, error,
        "SELECT id, model, version, state, generation, request_json, promoted, coalesce(active_at, 0) AS "
        "active FROM deployment WHERE ended_at IS NULL ORDER BY id",
        "");
    if (!rows)
        return error->status;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        struct deployment *d = calloc(1, sizeof *d);
        if (!d)
            break;
        (void)snprintf(d->id, sizeof d->id, "%s", json_string_value(json_object_get(row, "id")));
        (void)snprintf(d->model, sizeof d->model, "%s", json_string_value(json_object_get(row, "model")));
        (void)snprintf(d->version, sizeof d->version, "%s",
                       json_string_value(json_object_get(row, "version")));
        d->state = deploy_state_from_name(json_string_value(json_object_get(row, "state")));
        d->generation = (uint32_t)json_integer_value(json_object_get(row, "generation"));
        d->request = json_incref(json_object_get(row, "request"));
        d->promoted = json_integer_value(json_object_get(row, "promoted")) != 0;
        d->active_ms = json_integer_value(json_object_get(row, "active"));
        d->next = deploy->deployments;
        deploy->deployments = d;
    }
    json_decref(rows);
    return 0;
}

static void take_up_all(struct deploy *deploy)
{
    sqlite3 *db = store_reader(deploy->store);
    struct error error;
    error_clear(&error);
    if (!db || load_all(deploy, db, &error) < 0)
        LOG_ERROR("deploy", "deployments were not loaded: %s", error.message);
    for (struct deployment *d = deploy->deployments, *next; d; d = next) {
        next = d->next;
        take_up(deploy, db, d);
    }
    store_reader_done(deploy->store, db);
    deploy_update_routes(deploy);
}

/* ---- deadlines ---- */

/* Whether every board that a plan may use is online. */
static bool boards_are_back(struct deploy *deploy)
{
    sqlite3 *db = store_reader(deploy->store);
    json_t *rows =
        db ? db_rows(db, NULL, "SELECT id FROM board WHERE state = 'accepted' AND drained = 0", "") : NULL;
    bool back = rows != NULL;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) back =
        back && fleet_online(deploy->fleet, json_string_value(json_object_get(row, "id")));
    json_decref(rows);
    if (db)
        store_reader_done(deploy->store, db);
    return back;
}

/* Takes planning up again where a restart broke it off. */
static void plan_when_boards_are_back(struct deploy *deploy)
{
    bool back = false, asked = false;
    for (struct deployment *d = deploy->deployments; d; d = d->next) {
        if (!d->plan_by_ms)
            continue;
        if (!asked)
            back = boards_are_back(deploy);
        asked = true;
        if ((back || deploy_now_ms() >= d->plan_by_ms) && deploy_start_planning(deploy, d, NULL) == 0)
            d->plan_by_ms = 0;
    }
}

/* A board whose place was taken may drop its fragments when nobody asks for them any more. */
static void end_sparing(struct deploy *deploy, int64_t now)
{
    bool asked = false;
    for (const struct deployment *d = deploy->deployments; d; d = d->next)
        asked = asked || d->former;
    if (asked) {
        deploy->spared_ms = now + SPARED_MS;
    } else if (deploy->spared[0] && now >= deploy->spared_ms) {
        deploy->spared[0] = 0;
        deploy_clean_boards(deploy);
    }
}

static void tick(struct deploy *deploy)
{
    int64_t now = deploy_now_ms();
    end_sparing(deploy, now);
    for (struct deployment *d = deploy->deployments, *next; d; d = next) {
        next = d->next;
        if (deploy_in_progress(d->state) && d->deadline_ms && now > d->deadline_ms) {
            struct error error;
            error_clear(&error);
            error_set(&error, STATUS_DEADLINE, "%s did not end in time", deploy_state_name(d->state));
            (void)deploy_set_state(deploy, d, DEPLOY_FAILED, error.message, &error);
            deploy_remove(deploy, d);
        } else if (d->state == DEPLOY_PUSHING || d->state == DEPLOY_VERIFYING ||
                   d->state == DEPLOY_DEGRADED) {
            /* A board that was stale comes back without a call, and a push may have found no place. */
            deploy_push_missing(deploy, d);
            deploy_check(deploy, d);
        } else {
            deploy_leave_drained(deploy, d);
        }
    }
    plan_when_boards_are_back(deploy);
    deploy_wake_waiters(deploy, true);
}

/* ---- threads ---- */

static void *manage(void *context)
{
    struct deploy *deploy = context;
    take_up_all(deploy);
    int64_t next_tick = deploy_now_ms() + TICK_MS;
    for (;;) {
        int64_t wait = next_tick - deploy_now_ms();
        bool idle;
        struct call *call = queue_take(&deploy->calls, wait < 0 ? 0 : wait, &idle);
        if (!call && !idle)
            return NULL;
        if (call)
            call->run(deploy, call->context);
        free(call);
        if (deploy_now_ms() >= next_tick) {
            tick(deploy);
            next_tick = deploy_now_ms() + TICK_MS;
        }
    }
}

static void *compile_loop(void *context)
{
    struct deploy *deploy = context;
    for (;;) {
        bool idle;
        struct call *call = queue_take(&deploy->compiles, -1, &idle);
        if (!call)
            return NULL;
        call->run(deploy, call->context);
        free(call);
    }
}

/* A board came or went, on its way from the coordinator thread. */
struct board_change {
    char board[FLEET_ID_BYTES];
    bool up;
};

static void board_changed(struct deploy *deploy, void *context)
{
    struct board_change *change = context;
    if (change->up)
        deploy_board_up(deploy, change->board);
    else
        deploy_board_down(deploy, change->board);
    free(change);
}

static void on_board(void *context, const char *board, bool up)
{
    struct deploy *deploy = context;
    struct board_change *change = calloc(1, sizeof *change);
    if (!change)
        return;
    (void)snprintf(change->board, sizeof change->board, "%s", board);
    change->up = up;
    if (queue_add(&deploy->calls, board_changed, change) < 0)
        free(change);
}

/* ---- asking the manager ---- */

struct question {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool done;
    void (*run)(struct deploy *, void *);
    void *context;
};

static void answer(struct deploy *deploy, void *context)
{
    struct question *question = context;
    question->run(deploy, question->context);
    pthread_mutex_lock(&question->mutex);
    question->done = true;
    pthread_cond_signal(&question->wake);
    pthread_mutex_unlock(&question->mutex);
}

int deploy_ask(struct deploy *deploy, void (*run)(struct deploy *, void *), void *context)
{
    struct question question = {.run = run, .context = context};
    pthread_mutex_init(&question.mutex, NULL);
    pthread_cond_init(&question.wake, NULL);
    int status = queue_add(&deploy->calls, answer, &question);
    if (status >= 0) {
        pthread_mutex_lock(&question.mutex);
        while (!question.done)
            pthread_cond_wait(&question.wake, &question.mutex);
        pthread_mutex_unlock(&question.mutex);
    }
    pthread_mutex_destroy(&question.mutex);
    pthread_cond_destroy(&question.wake);
    return status;
}

int deploy_start(struct deploy **out, struct store *store, struct fleet *fleet, struct infer *infer,
                 fleet_publish_fn *publish, void *publish_context, struct error *error)
{
    *out = NULL;
    struct deploy *deploy = calloc(1, sizeof *deploy);
    if (!deploy)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    *deploy = (struct deploy){.store = store,
                              .fleet = fleet,
                              .infer = infer,
                              .publish = publish,
                              .publish_context = publish_context};
    queue_init(&deploy->calls);
    queue_init(&deploy->compiles);
    pthread_mutex_init(&deploy->routes_mutex, NULL);
    pthread_mutex_init(&deploy->waiters_mutex, NULL);
    fleet_watch(fleet, on_board, deploy);
    bool ok = true;
    for (; ok && deploy->n_compilers < DEPLOY_COMPILERS; deploy->n_compilers += ok)
        ok = pthread_create(&deploy->compilers[deploy->n_compilers], NULL, compile_loop, deploy) == 0;
    deploy->manager_started = ok && pthread_create(&deploy->manager, NULL, manage, deploy) == 0;
    if (!deploy->manager_started) {
        deploy_stop(deploy);
        deploy_free(deploy);
        return error_set(error, STATUS_NO_MEMORY, "a thread cannot be started");
    }
    *out = deploy;
    return 0;
}

void deploy_stop(struct deploy *deploy)
{
    if (!deploy)
        return;
    queue_close(&deploy->compiles);
    while (deploy->n_compilers)
        pthread_join(deploy->compilers[--deploy->n_compilers], NULL);
    queue_close(&deploy->calls);
    if (deploy->manager_started)
        pthread_join(deploy->manager, NULL);
    deploy->manager_started = false;
    pthread_mutex_lock(&deploy->waiters_mutex);
    struct waiter *waiters = deploy->waiters;
    deploy->waiters = NULL;
    deploy->waiters_closed = true;
    pthread_mutex_unlock(&deploy->waiters_mutex);
    for (struct waiter *next; waiters; waiters = next) {
        next = waiters->next;
        waiters->call(waiters->context, true);
        free(waiters);
    }
}

void deploy_free(struct deploy *deploy)
{
    if (!deploy)
        return;
    for (size_t i = 0; i < deploy->n_routes; i++)
        infer_route_release(deploy->routes[i].route);
    free(deploy->routes);
    for (struct deployment *d = deploy->deployments, *next; d; d = next) {
        next = d->next;
        deploy_drop_generation(d);
        infer_route_release(d->former);
        json_decref(d->request);
        free(d);
    }
    for (struct staged *staged = deploy->staged, *next; staged; staged = next) {
        next = staged->next;
        deploy_staged_free(staged);
    }
    free(deploy);
}
