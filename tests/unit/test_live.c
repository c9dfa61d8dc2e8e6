/*
 * The middle of the whole without HTTP: a store, the fleet, live inferences, and three shoal-board processes.
 * Random graphs are planned over the boards as they were measured, pushed, and asked; the answers equal the
 * reference.
 */
#include "server/base/clock.h"
#include "server/emit/emit.h"
#include "server/infer/infer.h"
#include "server/model/reference.h"
#include "tests/support/board_process.h"
#include "tests/support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOARDS = 3, WAIT_S = 60 };

struct world {
    struct store *store;
    struct fleet *fleet;
    struct infer *infer;
    struct board_process boards[BOARDS];
    char dir[128], address[64];
};

static void nobody_listens(void *context, const char *kind, const json_t *json)
{
    (void)context;
    (void)kind;
    (void)json;
}

static void server_up(struct world *w, const char *listen)
{
    struct error error = {0};
    struct fleet_config fleet = {.board_listen = listen, .publish = nobody_listens};
    struct infer_config infer = {.memory_bytes = 64 << 20, .queue = 16, .publish = nobody_listens};
    if (store_open(&w->store, w->dir, &error) < 0 || fleet_start(&w->fleet, w->store, &fleet, &error) < 0 ||
        infer_start(&w->infer, w->store, w->fleet, &infer, &error) < 0)
        fail_msg("%s", error.message);
    infer_attach(w->infer);
    snprintf(w->address, sizeof w->address, "%s", fleet_address(w->fleet));
}

static void server_down(struct world *w)
{
    infer_stop(w->infer);
    fleet_stop(w->fleet);
    infer_free(w->infer);
    store_close(w->store);
}

static void world_up(struct world *w, const char *name)
{
    struct error error = {0};
    struct fleet_enrolment enrolment = {.accept = true, .ttl_s = 900, .uses = BOARDS};
    memset(w, 0, sizeof *w);
    snprintf(w->dir, sizeof w->dir, "%s/%s", board_process_folder(), name);
    server_up(w, "127.0.0.1:0");
    json_t *code = fleet_enrol(w->fleet, &enrolment, "local", &error);
    if (!code)
        fail_msg("%s", error.message);
    for (int i = 0; i < BOARDS; i++) {
        char board[64];
        snprintf(board, sizeof board, "%s-board-%d", name, i + 1);
        board_process_prepare(&w->boards[i], w->address, board);
        board_process_argument(&w->boards[i], "--code", json_string_value(json_object_get(code, "code")));
        board_process_argument(&w->boards[i], "--name", board);
        board_process_begin(&w->boards[i]);
    }
    json_decref(code);
}

static void world_down(struct world *w)
{
    for (int i = 0; i < BOARDS; i++)
        board_process_stop(&w->boards[i]);
    server_down(w);
}

/* The boards once all are online and measured; malloc'ed. */
static struct plan_board *measured_boards(struct world *w)
{
    struct error error = {0};
    for (uint64_t end = clock_monotonic_us() + WAIT_S * 1000000ull; clock_monotonic_us() < end;
         poll(NULL, 0, 20)) {
        struct plan_board *boards = NULL;
        int32_t n = 0, ready = 0;
        sqlite3 *db = store_reader(w->store);
        error_clear(&error);
        int status = fleet_plan_boards(w->fleet, db, NULL, &boards, &n, &error);
        store_reader_done(w->store, db);
        for (int32_t i = 0; status >= 0 && i < n; i++)
            ready += boards[i].bandwidth_kb_per_s > 0 && boards[i].k1 > 0;
        if (ready == BOARDS)
            return boards;
        free(boards);
    }
    fail_msg("the boards were not there and measured in time: %s", error.message);
    return NULL;
}

/* ---- pushing and asking ---- */

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int left, status;
    char reason[256];
    uint64_t bytes;
    uint8_t *output;
    size_t output_bytes;
};

static void waiting_for(struct waiting *wait, int n)
{
    memset(wait, 0, sizeof *wait);
    pthread_mutex_init(&wait->lock, NULL);
    pthread_cond_init(&wait->changed, NULL);
    wait->left = n;
}

static void one_done(struct waiting *wait, int status, const char *reason)
{
    if (status < 0 && wait->status == 0) {
        wait->status = status;
        snprintf(wait->reason, sizeof wait->reason, "%s", reason);
    }
    wait->left--;
    pthread_cond_broadcast(&wait->changed);
    pthread_mutex_unlock(&wait->lock);
}

static void pushed(void *context, const char *board, const uint8_t hash[WIRE_HASH_BYTES], int status,
                   const char *reason, uint64_t bytes)
{
    struct waiting *wait = context;
    (void)board;
    (void)hash;
    pthread_mutex_lock(&wait->lock);
    wait->bytes += bytes;
    one_done(wait, status, reason);
}

static void answered(void *context, const struct infer_answer *answer)
{
    struct waiting *wait = context;
    pthread_mutex_lock(&wait->lock);
    if (answer->status == 0 && answer->output_bytes == wait->output_bytes)
        memcpy(wait->output, answer->output, wait->output_bytes);
    else if (answer->status == 0)
        wait->status = STATUS_INTERNAL;
    one_done(wait, answer->status, answer->error.message);
}

static void wait_end(struct waiting *wait)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&wait->lock);
    while (wait->left > 0)
        if (pthread_cond_timedwait(&wait->changed, &wait->lock, &until) != 0)
            fail_msg("waited too long");
    pthread_mutex_unlock(&wait->lock);
}

static int push_once(struct world *w, const struct plan_board *boards, const struct emit_fragment *fragments,
                     struct waiting *wait)
{
    waiting_for(wait, 0);
    for (int i = 0; i < BOARDS; i++)
        wait->left += fragments[i].size > 0;
    for (int i = 0; i < BOARDS; i++)
        if (fragments[i].size > 0)
            assert_int_equal(0, fleet_push(w->fleet, boards[i].id, fragments[i].hash, fragments[i].bytes,
                                           fragments[i].size, pushed, wait));
    wait_end(wait);
    return wait->status;
}

/* Bytes that moved. A board that was just killed may still seem to be there: then once more. */
static uint64_t push(struct world *w, const struct plan_board *boards, const struct emit_fragment *fragments)
{
    struct waiting wait;
    uint64_t end = clock_monotonic_us() + WAIT_S * 1000000ull;
    while (push_once(w, boards, fragments, &wait) != 0) {
        if (wait.status != STATUS_OFFLINE || clock_monotonic_us() > end)
            fail_msg("push: %s: %s", status_name(wait.status), wait.reason);
        poll(NULL, 0, 50);
    }
    return wait.bytes;
}

struct deployed {
    struct graph *graph;
    struct plan *plan;
    struct emit_fragment *fragments;
    struct infer_route route;
    char ids[BOARDS][FLEET_ID_BYTES];
    uint64_t bytes_pushed;
    struct waiting unused;
};

/* The last inference gives the route back only when the conductor is done with it. */
static void route_free(struct infer_route *route)
{
    struct deployed *d = (struct deployed *)((char *)route - offsetof(struct deployed, route));
    pthread_mutex_lock(&d->unused.lock);
    one_done(&d->unused, 0, "");
}

static void deploy(struct world *w, struct deployed *d, uint64_t seed)
{
    struct error error = {0};
    struct plan_options options = {.strategy = PLAN_STRATEGY_NEURON};
    struct plan_board *boards = measured_boards(w);
    memset(d, 0, sizeof *d);
    waiting_for(&d->unused, 1);
    d->graph = random_graph(seed, NULL);
    d->plan = plan_make(d->graph, "", boards, BOARDS, &options, NULL, NULL, &error);
    if (!d->plan || emit_plan(d->plan, &d->fragments, &error) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
    for (int i = 0; i < BOARDS; i++)
        snprintf(d->ids[i], sizeof d->ids[i], "%.32s", boards[i].id);
    d->bytes_pushed = push(w, boards, d->fragments);
    d->route = (struct infer_route){.generation = 1,
                                    .graph = d->graph,
                                    .plan = d->plan,
                                    .boards = d->ids,
                                    .release = route_free,
                                    .references = 1};
    snprintf(d->route.deployment, sizeof d->route.deployment, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    snprintf(d->route.model, sizeof d->route.model, "random");
    free(boards);
}

static void forget(struct deployed *d)
{
    infer_route_release(&d->route);
    wait_end(&d->unused);
    emit_free(d->fragments, BOARDS);
    plan_free(d->plan);
    graph_free(d->graph);
}

/* One inference; 0 and the output compared, or its status. */
static int ask(struct world *w, struct deployed *d, uint64_t seed)
{
    struct error error = {0};
    struct waiting wait;
    size_t in_bytes, out_bytes = graph_output_bytes(d->graph);
    void *input = random_input(d->graph, seed, &in_bytes);
    uint8_t *want = malloc(out_bytes), *got = calloc(1, out_bytes);
    assert_int_equal(0, reference_run(d->graph, input, in_bytes, want, out_bytes, &error));
    waiting_for(&wait, 1);
    wait.output = got;
    wait.output_bytes = out_bytes;
    int status = infer_submit(w->infer, &d->route, input, in_bytes, answered, &wait, &error);
    if (status == 0) {
        wait_end(&wait);
        status = wait.status;
    }
    if (status == 0 && memcmp(want, got, out_bytes) != 0)
        fail_msg("seed %llu: boards and reference differ", (unsigned long long)seed);
    free(input);
    free(want);
    free(got);
    return status;
}

/* ---- tests ---- */

static void boards_in_processes_of_their_own_answer_exactly(void **state)
{
    (void)state;
    struct world w;
    world_up(&w, "exact");
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct deployed d;
        deploy(&w, &d, seed);
        assert_true(d.bytes_pushed > 0);
        for (uint64_t i = 0; i < 5; i++) {
            int status = ask(&w, &d, seed * 100 + i);
            if (status != 0)
                fail_msg("seed %llu: %s", (unsigned long long)seed, status_name(status));
        }
        forget(&d);
    }
    world_down(&w);
}

/* After every kill the fleet comes back and the same fragments answer, without a byte of weights pushed
 * again. */
static void killed_boards_and_server_come_back_without_a_push(void **state)
{
    (void)state;
    struct world w;
    struct deployed d;
    world_up(&w, "killed");
    deploy(&w, &d, 7);
    assert_int_equal(0, ask(&w, &d, 1));
    for (int i = 0; i < BOARDS; i++) {
        board_process_kill(&w.boards[i]);
        board_process_begin(&w.boards[i]);
        struct plan_board *boards = measured_boards(&w);
        assert_int_equal(0, push(&w, boards, d.fragments));
        free(boards);
        assert_int_equal(0, ask(&w, &d, 2));
    }
    char address[64];
    snprintf(address, sizeof address, "%s", w.address);
    server_down(&w);
    server_up(&w, address);
    struct plan_board *boards = measured_boards(&w);
    assert_int_equal(0, push(&w, boards, d.fragments));
    free(boards);
    assert_int_equal(0, ask(&w, &d, 3));
    forget(&d);
    world_down(&w);
}

/* A board that dies in the middle gives its inference a status at once, never a hang. */
static void board_lost_during_an_inference_gives_an_answer(void **state)
{
    (void)state;
    struct world w;
    struct deployed d;
    world_up(&w, "lost");
    deploy(&w, &d, 3);
    for (uint32_t round = 0; round < 3; round++) {
        kill(w.boards[1].pid, SIGSTOP); /* it computes for ever, as it were */
        struct error error = {0};
        struct waiting wait;
        size_t in_bytes;
        void *input = random_input(d.graph, round, &in_bytes);
        waiting_for(&wait, 1);
        wait.output_bytes = graph_output_bytes(d.graph);
        wait.output = malloc(wait.output_bytes);
        assert_int_equal(0, infer_submit(w.infer, &d.route, input, in_bytes, answered, &wait, &error));
        poll(NULL, 0, 30);
        uint64_t from = clock_monotonic_us();
        board_process_kill(&w.boards[1]);
        wait_end(&wait);
        assert_true(clock_monotonic_us() - from < 5000000);
        assert_int_equal(STATUS_BOARD_LOST, wait.status);
        free(wait.output);
        free(input);
        board_process_begin(&w.boards[1]);
        free(measured_boards(&w));
        assert_int_equal(0, ask(&w, &d, round + 10));
    }
    forget(&d);
    world_down(&w);
}

int main(void)
{
    if (board_process_root("shoal-live") != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boards_in_processes_of_their_own_answer_exactly),
        cmocka_unit_test(killed_boards_and_server_come_back_without_a_push),
        cmocka_unit_test(board_lost_during_an_inference_gives_an_answer),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    board_process_root_remove();
    return failed;
}
