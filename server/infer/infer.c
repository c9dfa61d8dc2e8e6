/*
 * The coordinator's side of live inferences: admission by memory, the conductor over the fleet's links. Runs
 * on the coordinator thread but for infer_submit, infer_abort, infer_start and infer_stop. Nothing here
 * computes: head and tail of the graph run on other threads.
 */
#include "server/infer/internal.h"

#include "server/base/clock.h"
#include "server/base/id.h"
#include "server/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct infer_route *infer_route_retain(struct infer_route *route)
{
    __atomic_add_fetch(&route->references, 1, __ATOMIC_RELAXED);
    return route;
}

void infer_route_release(struct infer_route *route)
{
    if (route && __atomic_sub_fetch(&route->references, 1, __ATOMIC_ACQ_REL) == 0)
        route->release(route);
}

/* ---- coordinator thread ---- */

static void unlink_job(struct infer_job *job)
{
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
}

/* Hands a job to the tail threads; with a result or with its error set. */
static void end_job(struct infer *infer, struct infer_job *job)
{
    unlink_job(job);
    job->state = INFER_JOB_ENDING;
    infer_tail_add(infer, job);
}

static void fail_job(struct infer *infer, struct infer_job *job, enum status status, const char *reason)
{
    error_set(&job->error, status, "%s", reason);
    end_job(infer, job);
}

static void kick_all(struct infer *infer)
{
    for (uint16_t link = 0; link < CONDUCT_LINKS_MAX; link++)
        if (infer->up[link] && conduct_has_frame(infer->conductor, link))
            fleet_kick(infer->fleet, link);
}

/* The number that RUN carries for a deployment; its id is longer than the field. */
static uint64_t deployment_number(const char *id)
{
    uint64_t hash = 14695981039346656037u;
    for (; *id; id++)
        hash = (hash ^ (uint8_t)*id) * 1099511628211u;
    return hash;
}

static void begin_job(struct infer *infer, struct infer_job *job)
{
    const struct plan *plan = job->route->plan;
    uint16_t links[CONDUCT_PARTIES_MAX] = {0};
    for (int32_t p = 0; p < plan->n_boards; p++) {
        int32_t link = fleet_link_of(infer->fleet, job->route->boards[p]);
        if (link < 0 && plan->parties[p].used) {
            fail_job(infer, job, STATUS_DEGRADED, "a board of the deployment is offline");
            return;
        }
        links[p] = (uint16_t)(link < 0 ? 0 : link);
    }
    job->number = infer->next_number++;
    int status = conduct_begin(infer->conductor, job->number, &plan->table, links, job->io->inputs,
                               deployment_number(job->route->deployment), job->route->generation,
                               clock_monotonic_us());
    if (status < 0) {
        fail_job(infer, job, (enum status)status, "the inference cannot begin");
        return;
    }
    job->state = INFER_JOB_RUNNING;
    infer->memory_used += job->memory_bytes;
}

/* An inference is admitted when its memory is to be had; a single one always is, so none waits for ever. */
static bool admit(const struct infer *infer, const struct infer_job *job)
{
    return infer->memory_used == 0 || infer->memory_used + job->memory_bytes <= infer->config.memory_bytes;
}

static void admit_waiting(struct infer *infer)
{
    while (infer->waiting && admit(infer, infer->waiting)) {
        struct infer_job *job = infer->waiting;
        infer->waiting = job->queued;
        if (!infer->waiting)
            infer->waiting_tail = &infer->waiting;
        job->queued = NULL;
        begin_job(infer, job);
    }
}

static void submit_call(void *context)
{
    struct infer_job *job = context;
    struct infer *infer = job->infer;
    job->next = infer->jobs;
    job->link = &infer->jobs;
    if (job->next)
        job->next->link = &job->next;
    infer->jobs = job;
    job->state = INFER_JOB_WAITING;
    if (infer->stopping) {
        fail_job(infer, job, STATUS_BUSY, "the server is stopping");
        return;
    }
    *infer->waiting_tail = job;
    infer->waiting_tail = &job->queued;
    admit_waiting(infer);
    kick_all(infer);
}

static struct infer_job *job_of(struct infer *infer, uint32_t number)
{
    struct infer_job *job = infer->jobs;
    while (job && job->number != number)
        job = job->next;
    return job;
}

static void collect_finished(struct infer *infer)
{
    const struct conduct_result *result;
    while ((result = conduct_finished(infer->conductor)) != NULL) {
        struct infer_job *job = job_of(infer, result->inference);
        if (!job) {
            conduct_release(infer->conductor, result);
            continue;
        }
        job->result = result;
        if (result->status < 0)
            error_set(&job->error, (enum status)result->status, "%s", result->reason ? result->reason : "");
        end_job(infer, job);
    }
}

void infer_release_result(struct infer_job *job)
{
    struct infer *infer = job->infer;
    conduct_release(infer->conductor, job->result);
    infer_route_release(job->route); /* only now: the result reads the route's table until it is released */
    infer->memory_used -= job->memory_bytes;
    free(job);
    admit_waiting(infer);
    kick_all(infer);
}

static int on_frame(void *context, uint16_t link, const struct wire_header *header, const uint8_t *payload)
{
    struct infer *infer = context;
    int status = conduct_frame(infer->conductor, link, header, payload, clock_monotonic_us());
    collect_finished(infer);
    kick_all(infer);
    return status;
}

static int on_next_frame(void *context, uint16_t link, struct wire_header *header,
                         uint8_t payload[WIRE_PAYLOAD_MAX])
{
    struct infer *infer = context;
    return conduct_next_frame(infer->conductor, link, header, payload);
}

static void on_up(void *context, uint16_t link, const char *board)
{
    (void)board;
    struct infer *infer = context;
    infer->up[link] = true;
}

static void on_down(void *context, uint16_t link, const char *board)
{
    (void)board;
    struct infer *infer = context;
    infer->up[link] = false;
    conduct_link_lost(infer->conductor, link, clock_monotonic_us());
    collect_finished(infer);
    kick_all(infer);
}

static uint64_t on_tick(void *context, uint64_t now_us)
{
    struct infer *infer = context;
    conduct_time(infer->conductor, now_us);
    uint16_t link;
    while (conduct_next_drop(infer->conductor, &link))
        fleet_drop(infer->fleet, link, STATUS_DEADLINE, "the board did not answer an abort");
    collect_finished(infer);
    kick_all(infer);
    return conduct_next_deadline(infer->conductor, now_us);
}

/* ---- abort ---- */

struct abort_order {
    struct infer *infer;
    char deployment[27], reason[128]; /* deployment "": all */
    enum status status;
};

static void drop_waiting(struct infer *infer, const struct abort_order *order)
{
    struct infer_job **link = &infer->waiting;
    while (*link) {
        struct infer_job *job = *link;
        if (order->deployment[0] && strcmp(job->route->deployment, order->deployment) != 0) {
            link = &job->queued;
            continue;
        }
        *link = job->queued;
        job->queued = NULL;
        fail_job(infer, job, order->status, order->reason);
    }
    infer->waiting_tail = link;
}

static void abort_call(void *context)
{
    struct abort_order *order = context;
    struct infer *infer = order->infer;
    infer->stopping |= order->deployment[0] == 0;
    drop_waiting(infer, order);
    for (struct infer_job *job = infer->jobs; job; job = job->next)
        if (!order->deployment[0] || strcmp(job->route->deployment, order->deployment) == 0)
            conduct_abort(infer->conductor, job->number, order->status, order->reason, clock_monotonic_us());
    collect_finished(infer);
    kick_all(infer);
    free(order);
}

static int post_abort(struct infer *infer, const char *deployment, enum status status, const char *reason)
{
    struct abort_order *order = calloc(1, sizeof *order);
    if (!order)
        return STATUS_NO_MEMORY;
    order->infer = infer;
    order->status = status;
    (void)snprintf(order->deployment, sizeof order->deployment, "%s", deployment);
    (void)snprintf(order->reason, sizeof order->reason, "%s", reason);
    int posted = fleet_post(infer->fleet, abort_call, order);
    if (posted < 0)
        free(order);
    return posted;
}

void infer_abort(struct infer *infer, const char *deployment, const char *reason)
{
    (void)post_abort(infer, deployment, STATUS_ABORTED, reason);
}

/* ---- submission ---- */

static int reserve_place(struct infer *infer, struct error *error)
{
    pthread_mutex_lock(&infer->mutex);
    bool full = infer->closing || infer->in_flight >= infer->config.queue;
    if (!full)
        infer->in_flight++;
    pthread_mutex_unlock(&infer->mutex);
    return full ? error_set(error, STATUS_BUSY, "too many inferences are waiting") : 0;
}

static void leave_place(struct infer *infer)
{
    pthread_mutex_lock(&infer->mutex);
    infer->in_flight--;
    pthread_cond_broadcast(&infer->drained);
    pthread_mutex_unlock(&infer->mutex);
}

static int check_online(struct infer *infer, const struct infer_route *route, struct error *error)
{
    for (int32_t p = 0; p < route->plan->n_boards; p++)
        if (route->plan->parties[p].used && !fleet_online(infer->fleet, route->boards[p]))
            return error_set(error, STATUS_DEGRADED, "board %s of the deployment is offline",
                             route->plan->boards[p].name);
    return 0;
}

int infer_submit(struct infer *infer, struct infer_route *route, const void *input, size_t input_bytes,
                 infer_done_fn *done, void *context, struct error *error)
{
    size_t wanted = graph_input_bytes(route->graph);
    if (input_bytes != wanted) {
        int status = error_set(error, STATUS_INPUT_SIZE, "the input has %zu bytes, the model takes %zu",
                               input_bytes, wanted);
        error_limit(error, (int64_t)wanted, (int64_t)input_bytes);
        return status;
    }
    int status = check_online(infer, route, error);
    if (status == 0)
        status = reserve_place(infer, error);
    if (status < 0)
        return status;
    struct infer_job *job = calloc(1, sizeof *job);
    if (job) {
        *job = (struct infer_job){.infer = infer,
                                  .done = done,
                                  .context = context,
                                  .submitted_us = clock_monotonic_us(),
                                  .begun_wall_ms = clock_wall_ms(),
                                  .memory_bytes = route->plan->coordinator_bytes};
        error_clear(&job->error);
        id_ulid(job->id);
        job->io = plan_io_begin(route->plan, input, input_bytes, error);
    } else {
        error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    if (!job || !job->io) {
        free(job);
        leave_place(infer);
        return error->status;
    }
    job->route = infer_route_retain(route);
    status = fleet_post(infer->fleet, submit_call, job);
    if (status < 0) {
        infer_route_release(job->route);
        plan_io_free(job->io);
        free(job);
        leave_place(infer);
        return error_set(error, STATUS_BUSY, "the coordinator is busy");
    }
    return 0;
}

/* ---- life ---- */

int infer_start(struct infer **out, struct store *store, struct fleet *fleet,
                const struct infer_config *config, struct error *error)
{
    *out = NULL;
    struct infer *infer = calloc(1, sizeof *infer);
    if (!infer)
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    infer->store = store;
    infer->fleet = fleet;
    infer->config = *config;
    infer->next_number = 1;
    infer->waiting_tail = &infer->waiting;
    infer->conductor = conductor_new();
    pthread_mutex_init(&infer->mutex, NULL);
    pthread_cond_init(&infer->wake, NULL);
    pthread_cond_init(&infer->drained, NULL);
    int status = infer->conductor ? infer_tails_start(infer, error)
                                  : error_set(error, STATUS_NO_MEMORY, "out of memory");
    if (status < 0) {
        infer_free(infer);
        return status;
    }
    *out = infer;
    return 0;
}

void infer_attach(struct infer *infer)
{
    struct fleet_hooks hooks = {.context = infer,
                                .frame = on_frame,
                                .next_frame = on_next_frame,
                                .up = on_up,
                                .down = on_down,
                                .tick = on_tick};
    fleet_set_hooks(infer->fleet, &hooks);
}

void infer_stop(struct infer *infer)
{
    if (!infer)
        return;
    pthread_mutex_lock(&infer->mutex);
    infer->closing = true;
    pthread_mutex_unlock(&infer->mutex);
    while (post_abort(infer, "", STATUS_BUSY, "the server is stopping") == STATUS_BUSY)
        usleep(1000);
    pthread_mutex_lock(&infer->mutex);
    while (infer->in_flight)
        pthread_cond_wait(&infer->drained, &infer->mutex);
    pthread_mutex_unlock(&infer->mutex);
}

void infer_free(struct infer *infer)
{
    if (!infer)
        return;
    infer_tails_stop(infer);
    conductor_free(infer->conductor);
    free(infer);
}
