/*
 * What the files of server/deploy share.
 *
 * Threads. The manager thread runs calls one after another and alone changes deployments; it may block on the
 * store. Compile threads plan and emit and give the result back as a call. `routes` (under its mutex) is the
 * only thing that other threads read; what GET shows comes from the store.
 */
#ifndef SHOAL_SERVER_DEPLOY_INTERNAL_H
#define SHOAL_SERVER_DEPLOY_INTERNAL_H

#include "server/base/id.h"
#include "server/deploy/deploy.h"
#include "server/emit/emit.h"

#include <pthread.h>

enum { DEPLOY_QUEUE_MAX = 4096, DEPLOY_COMPILERS = 2, DEPLOY_GRAPH_LIMIT = 256 << 20 };

enum deploy_state {
    DEPLOY_PLANNING,
    DEPLOY_PUSHING,
    DEPLOY_VERIFYING,
    DEPLOY_ACTIVE,
    DEPLOY_DEGRADED,
    DEPLOY_PAUSED,
    DEPLOY_RETIRED,
    DEPLOY_CANCELLED,
    DEPLOY_FAILED,
    DEPLOY_STATES
};
const char *deploy_state_name(enum deploy_state state);
enum deploy_state deploy_state_from_name(const char *name);
static inline bool deploy_in_progress(enum deploy_state state)
{
    return state <= DEPLOY_VERIFYING;
}
static inline bool deploy_final(enum deploy_state state)
{
    return state >= DEPLOY_RETIRED;
}

/* A generation that is placed: what an inference needs, reference counted through its route. */
struct placed {
    struct infer_route route; /* first: released through it */
    struct graph *graph;
    struct plan *plan;
    char (*boards)[FLEET_ID_BYTES];
};

/* One board's part of the current generation. */
struct part {
    char board[FLEET_ID_BYTES];
    uint8_t fragment[WIRE_HASH_BYTES];
    char sha[65];
    uint32_t bytes;
    bool used, verified, pushing;
    int64_t retry_ms;      /* monotonic: not pushed again before; 0: at once */
    uint64_t pushed_bytes; /* moved to the board by this server */
};

struct deployment {
    struct deployment *next;
    char id[ID_ULID_BYTES], model[64], version[65];
    enum deploy_state state;
    uint32_t generation;
    json_t *request; /* defaults filled in */
    bool promoted;
    int64_t active_ms;
    /* what answers while a board that took a place is verified; NULL: nothing */
    struct infer_route *former;
    /* current generation, NULL while planning the first */
    struct placed *placed;
    struct part *parts;
    int32_t n_parts;
    /* the golden inference */
    unsigned char *golden_input, *golden_output;
    bool golden_running;
    int64_t deadline_ms; /* monotonic; 0: none */
    int64_t plan_by_ms;  /* planning again after a restart begins when all boards are back, or then; 0: no */
    bool replanning;     /* the former generation serves or waits meanwhile */
    enum deploy_state before; /* where a failed replan goes back to */
    bool leave; /* a board was drained meanwhile: planned anew once settled, if it uses such a board */
};

/* What a board gets before it takes a place; boards keep it meanwhile. */
struct staged_fragment {
    char sha[65];
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t bytes;
};
struct staged {
    struct staged *next;
    char board[FLEET_ID_BYTES], name[64];
    struct staged_fragment *fragments;
    size_t n;
};

/* A call for a thread; freed by whoever made it. */
struct call {
    struct call *next;
    void (*run)(struct deploy *deploy, void *context);
    void *context;
};
struct call_queue {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct call *head, **tail;
    uint32_t length;
    bool closing;
};

struct waiter {
    struct waiter *next;
    char deployment[ID_ULID_BYTES];
    int64_t deadline_ms;
    deploy_wait_fn *call;
    void *context;
};

/* A route that may be asked, or why not. */
struct route_row {
    char deployment[ID_ULID_BYTES], model[64], version[65];
    enum deploy_state state;
    bool promoted;
    int64_t active_ms;
    struct infer_route *route; /* a reference; NULL unless active or degraded, or the former one answers */
    bool former;
};

struct deploy {
    struct store *store;
    struct fleet *fleet;
    struct infer *infer;
    fleet_publish_fn *publish;
    void *publish_context;
    struct call_queue calls, compiles;
    pthread_t manager, compilers[DEPLOY_COMPILERS];
    int n_compilers;
    bool manager_started;
    struct deployment *deployments; /* manager only: all that are not final */
    struct staged *staged;          /* manager only */
    /* manager only: a board whose place was taken keeps its fragments while inferences may still ask for them
     */
    char spared[FLEET_ID_BYTES];
    int64_t spared_ms;
    pthread_mutex_t routes_mutex;
    struct route_row *routes;
    size_t n_routes;
    pthread_mutex_t waiters_mutex;
    struct waiter *waiters;
    bool waiters_closed; /* stopping: nobody is taken on any more */
};

/* queue.c */
void queue_init(struct call_queue *queue);
int queue_add(struct call_queue *queue, void (*run)(struct deploy *, void *), void *context);
/* Waits up to `ms` (negative: for ever); NULL: closing and empty, or time over (then *idle is true). */
struct call *queue_take(struct call_queue *queue, int64_t ms, bool *idle);
void queue_close(struct call_queue *queue);
bool queue_closing(struct call_queue *queue);

/* manager.c */
struct deployment *deploy_find(struct deploy *deploy, const char *id);
int64_t deploy_now_ms(void); /* monotonic */
/* Takes a deployment that is over out of memory; its inferences are aborted, or (let_go) may end. */
void deploy_remove(struct deploy *deploy, struct deployment *deployment);
void deploy_let_go(struct deploy *deploy, struct deployment *deployment);
void deploy_drop_generation(struct deployment *deployment);
/* Runs `run` on the manager and waits for it. [worker] */
int deploy_ask(struct deploy *deploy, void (*run)(struct deploy *, void *), void *context);

/* state.c: a change of state in the store, then in memory, routes, waiters and events. `reason` for people.
 */
int deploy_set_state(struct deploy *deploy, struct deployment *deployment, enum deploy_state state,
                     const char *reason, const struct error *error);
void deploy_publish(struct deploy *deploy, const char *id);
void deploy_update_routes(struct deploy *deploy);
void deploy_wake_waiters(struct deploy *deploy, bool tick);
/* Tells boards to keep what deployments use and what the last retired one of each model used. */
void deploy_clean_boards(struct deploy *deploy);

/* trial.c: a plan of a request as deploy_parse_request() gives it. */
struct trial {
    struct graph *graph;
    struct plan *plan; /* of `graph` */
    struct plan_board *boards;
    int32_t n;
    struct plan_options options;
};
/* STATUS_DOES_NOT_FIT: *detail is {shortfalls, try} (the caller's); else it is NULL. The trial is to be freed
 * either way. [worker] */
int deploy_trial_make(struct deploy *deploy, const json_t *request, struct trial *trial, json_t **detail,
                      struct error *error);
void deploy_trial_free(struct trial *trial);

/* plan.c: `made` (NULL: none) is a plan that is there already; its graph and plan are taken over when
 * planning begins. */
int deploy_start_planning(struct deploy *deploy, struct deployment *deployment, struct trial *made);
/* Boards of a request, flash less what other deployments hold. */
int deploy_boards(struct deploy *deploy, sqlite3 *db, const json_t *request, const char *self,
                  struct plan_board **boards, int32_t *n, struct error *error);
/* Flash that living deployments hold on a board, but those of id `self` and of model `replaced_model`. */
int deploy_flash_in_use(sqlite3 *db, const char *board, const char *self, const char *replaced_model,
                        int64_t *bytes, struct error *error);
int deploy_options(const json_t *request, struct plan_options *options, struct error *error);
/* Loads the current generation of a deployment from the store. */
int deploy_load_generation(struct deploy *deploy, sqlite3 *db, struct deployment *deployment,
                           struct error *error);
struct placed *deploy_place(struct deployment *deployment, struct graph *graph, struct plan *plan);

/* push.c */
void deploy_push(struct deploy *deploy, struct deployment *deployment);
/* Offers what boards lack and is not under way; a part that was refused again only after a while. */
void deploy_push_missing(struct deploy *deploy, struct deployment *deployment);
void deploy_check(struct deploy *deploy,
                  struct deployment *deployment); /* moves on when every board has its part */
void deploy_board_up(struct deploy *deploy, const char *board);
void deploy_board_down(struct deploy *deploy, const char *board);

int64_t deploy_push_ms(int64_t bytes);  /* how long it may take to push so many */
int64_t deploy_on_flash(int64_t bytes); /* flash that an image takes: boards store on erase blocks */

/* stage.c: pushes and waits; nothing else is changed. [worker] */
int deploy_stage_push(struct deploy *deploy, const struct staged *staged, struct error *error);
void deploy_staged_free(struct staged *staged);
/* The fragments that are staged for a board, and the flash they take. [manager] */
size_t deploy_staged_for(const struct deploy *deploy, const char *board, uint8_t (*hashes)[WIRE_HASH_BYTES],
                         size_t max, int64_t *bytes);

/* golden.c */
int deploy_golden_make(struct deployment *deployment, struct error *error); /* compile thread */
void deploy_golden_run(struct deploy *deploy, struct deployment *deployment);
/* The former promoted deployments of a model end when another is active. */
void deploy_retire_former(struct deploy *deploy, const struct deployment *active);

/* request.c */
/* Checks a request and fills in defaults; *request is a new object. `version` is resolved to its whole hash.
 */
int deploy_parse_request(sqlite3 *db, const json_t *body, json_t **request, struct error *error);

/* try.c: changes that make a refused trial fit, each planned before it is named; a list of objects. [worker]
 */
json_t *deploy_try(struct deploy *deploy, const json_t *request, const struct trial *trial,
                   const struct error_shortfall *shortfalls, int32_t n_shortfalls);

/* Plans anew what a drain met on its way, once it is settled (create.c). */
void deploy_leave_drained(struct deploy *deploy, struct deployment *d);

#endif
