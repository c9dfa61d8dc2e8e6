/*
 * Deployments: a version placed on boards. One manager thread owns all deployments; the API asks it and
 * waits.
 *
 * planning -> pushing -> verifying -> active; then degraded (a board is offline; resumes without a push),
 * paused, retired, cancelled, failed. Every state but active, degraded and paused has a deadline that grows
 * with the bytes to write. Every change is in the store before it is told to anyone. The former deployment of
 * a model stays until the new one is active.
 */
#ifndef SHOAL_SERVER_DEPLOY_DEPLOY_H
#define SHOAL_SERVER_DEPLOY_DEPLOY_H

#include "server/infer/infer.h"

struct deploy;

/* Loads deployments from the store and takes them up where they stood. `jobs` compile in `workers` threads of
 * this module (planning, emitting, the golden answer), never on the manager. */
int deploy_start(struct deploy **deploy, struct store *store, struct fleet *fleet, struct infer *infer,
                 fleet_publish_fn *publish, void *publish_context, struct error *error);
/* Joins the threads; waiters are called. Nothing of this module may be asked after it but deploy_free, which
 * comes after fleet_stop and infer_stop (their threads may still hold routes and post until then). */
void deploy_stop(struct deploy *deploy);
void deploy_free(struct deploy *deploy);

/* POST /deployments: `request` as DESIGN section 5. Planned at once; *json is the deployment. Returns 202
 * (new), 200 (the identical one is running), or a negative status: STATUS_CONFLICT (*json is the one in
 * progress), STATUS_DOES_NOT_FIT (*json is the detail {shortfalls, try}), STATUS_TOO_FEW_BOARDS and others.
 * [worker] */
int deploy_create(struct deploy *deploy, const json_t *request, const char *actor, json_t **json,
                  struct error *error);
/* pause, resume, cancel, rollback, replan, promote, retire. [worker] */
int deploy_act(struct deploy *deploy, const char *id, const char *act, const char *actor, json_t **json,
               struct error *error);
/* GET: the deployment with its boards, states, progress, events. [any] */
json_t *deploy_json(struct deploy *deploy, sqlite3 *db, const char *id, struct error *error);
json_t *deploy_list_json(struct deploy *deploy, sqlite3 *db, const char *model, const char *after,
                         int64_t limit, struct error *error);
/* POST /plans: the dry run; nothing is sent. 0 with the summary, STATUS_DOES_NOT_FIT with detail {shortfalls,
 * try}. *json is the detail then. [worker] */
int deploy_dry_run(struct deploy *deploy, const json_t *request, json_t **json, struct error *error);

/* The route of a model for inferences: `version` NULL or "" for the newest promoted active one, else any
 * unique prefix from 12 characters. A reference; STATUS_NOT_FOUND (no such model), STATUS_NOT_DEPLOYED,
 * STATUS_DEGRADED. [any] */
int deploy_route(struct deploy *deploy, const char *model, const char *version, struct infer_route **route,
                 struct error *error);
/* Calls `call` (once, any thread) when the deployment is active or final, or after wait_ms; at once if it is
 * so. [any] */
typedef void deploy_wait_fn(void *context, bool timed_out);
int deploy_wait(struct deploy *deploy, const char *id, int64_t wait_ms, deploy_wait_fn *call, void *context);
bool deploy_uses_board(struct deploy *deploy, const char *board); /* [any] */
/* Plans every deployment that uses a board anew (the board is drained first). How many, or negative. [worker]
 */
int deploy_leave_board(struct deploy *deploy, const char *board);
/* Board `by` takes the place of board `old` (ids): its name, location, tags and its part of every deployment,
 * as the next generation with the same fragments; what runs is pushed to it and verified, what is paused
 * stays so. `old` is drained. How many deployments, or STATUS_INVALID_ARGUMENT (the same board),
 * STATUS_CONFLICT (not accepted, a part of the same deployment already, a deployment in progress),
 * STATUS_OFFLINE, STATUS_DOES_NOT_FIT with its shortfall. [worker] */
int deploy_replace_board(struct deploy *deploy, const char *old, const char *by, const char *actor,
                         struct error *error);
/* The whole plan of the current generation. [any] */
json_t *deploy_plan_json(struct deploy *deploy, sqlite3 *db, const char *id, struct error *error);
/* A version of a model by any unique prefix from 12 characters, "latest" or "active": its whole hash.
 * STATUS_NOT_FOUND, STATUS_INVALID_ARGUMENT. [any] */
int deploy_resolve_version(sqlite3 *db, const char *model, const char *version, char sha[65],
                           struct error *error);
/* The graph of a stored version; the caller's. [any but the HTTP pool] */
struct graph *deploy_load_graph(sqlite3 *db, const char *version, struct error *error);

#endif
