/*
 * One loop: every board gets its frames, one poll, and is heard; until the conductor has an outcome. The
 * conductor's clock stands still, so no deadline depends on this machine: when a whole round moves nothing,
 * nothing ever will, and that is the error.
 */
#include "server/sim/local.h"

#include "server/base/clock.h"
#include "server/sim/virtual_board.h"

#include <stdlib.h>
#include <string.h>

enum { LINK_BYTES = 65536, STILL_US = 1 };

struct sim_local {
    const struct plan *plan;
    const struct emit_fragment *fragments;
    struct conductor *conductor;
    struct virtual_board *boards[CONDUCT_PARTIES_MAX]; /* NULL: not used */
    bool welcomed[CONDUCT_PARTIES_MAX];
    uint16_t links[CONDUCT_PARTIES_MAX];
    uint32_t last_inference;
};

static const char *board_name(const struct sim_local *sim, int32_t b)
{
    return sim->plan->boards != NULL && sim->plan->boards[b].name[0] != 0 ? sim->plan->boards[b].name
                                                                          : "virtual";
}

static int open_board(struct sim_local *sim, int32_t b, struct error *error)
{
    const struct emit_fragment *image = &sim->fragments[b];
    struct fragment fragment;
    struct fragment_place place;
    sim->links[b] = (uint16_t)b;
    if (image->size == 0)
        return STATUS_OK;
    int status = fragment_open(&fragment, image->bytes, image->size, &place);
    if (status < 0)
        return error_set(error, status, "the fragment of board %d (%s): %s", b + 1, board_name(sim, b),
                         place.reason);
    struct virtual_config config = {.name = board_name(sim, b),
                                    .arena_bytes = fragment.header->arena_bytes,
                                    .resident_bytes = fragment.header->resident_bytes,
                                    .flash_bytes = image->size,
                                    .link_bytes = LINK_BYTES,
                                    .clock_hz = 600000000};
    sim->boards[b] = virtual_board_new(&config);
    if (sim->boards[b] == NULL ||
        virtual_board_store(sim->boards[b], image->bytes, image->size, image->hash) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for board %d", b + 1);
    return STATUS_OK;
}

struct sim_local *sim_local_open(const struct plan *plan, const struct emit_fragment *fragments,
                                 struct error *error)
{
    struct sim_local *sim = calloc(1, sizeof *sim);
    int status = STATUS_OK;
    if (sim == NULL) {
        error_set(error, STATUS_NO_MEMORY, "no memory for a virtual fleet");
        return NULL;
    }
    sim->plan = plan;
    sim->fragments = fragments;
    sim->conductor = conductor_new();
    if (sim->conductor == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the conductor");
    if (status == STATUS_OK)
        status = conduct_table_check(&plan->table, error);
    for (int32_t b = 0; b < plan->n_boards && status == STATUS_OK; b++)
        status = open_board(sim, b, error);
    if (status < 0) {
        sim_local_close(sim);
        return NULL;
    }
    return sim;
}

void sim_local_close(struct sim_local *sim)
{
    if (sim == NULL)
        return;
    for (int32_t b = 0; b < CONDUCT_PARTIES_MAX; b++)
        virtual_board_free(sim->boards[b]);
    conductor_free(sim->conductor);
    free(sim);
}

/* ---- the loop ---- */

static void welcome(struct sim_local *sim, int32_t b)
{
    struct wire_welcome message = {.version = WIRE_VERSION, .state = WIRE_STATE_ACCEPTED};
    uint8_t payload[WIRE_PAYLOAD_MAX];
    int n = wire_encode_welcome(&message, payload);
    sim->welcomed[b] = true;
    virtual_board_send(sim->boards[b], &(struct wire_header){.type = WIRE_WELCOME, .length = (uint32_t)n},
                       payload);
}

static bool send_frames(struct sim_local *sim, int32_t b)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    bool moved = false;
    while (sim->welcomed[b] && virtual_board_room(sim->boards[b]) &&
           conduct_next_frame(sim->conductor, sim->links[b], &header, payload) >= 0) {
        virtual_board_send(sim->boards[b], &header, payload);
        moved = true;
    }
    return moved;
}

/* 1 something was heard, 0 nothing, or a negative status. Life signs are not progress. */
static int receive_frames(struct sim_local *sim, int32_t b)
{
    struct wire_header header;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    int moved = 0;
    while (virtual_board_receive(sim->boards[b], &header, payload) >= 0) {
        if (header.type == WIRE_BEAT || header.type == WIRE_LOG)
            continue;
        moved = 1;
        if (header.type == WIRE_HELLO) {
            welcome(sim, b);
            continue;
        }
        int status = conduct_frame(sim->conductor, sim->links[b], &header, payload, STILL_US);
        if (status < 0)
            return status;
    }
    return moved;
}

/* One turn of one board: 1 something moved, 0 nothing can, or a negative status. */
static int turn(struct sim_local *sim, int32_t b)
{
    bool busy, moved = send_frames(sim, b);
    int status = virtual_board_poll(sim->boards[b], &busy);
    if (status < 0)
        return status;
    status = receive_frames(sim, b);
    return status < 0 ? status : moved || busy || status > 0;
}

static const struct conduct_result *loop(struct sim_local *sim, struct error *error)
{
    for (;;) {
        bool moved = false;
        for (int32_t b = 0; b < sim->plan->n_boards; b++) {
            int status = sim->boards[b] != NULL ? turn(sim, b) : 0;
            if (status < 0) {
                error_set(error, (enum status)status, "board %d (%s): %s", b + 1, board_name(sim, b),
                          status_text(status));
                return NULL;
            }
            moved = moved || status > 0;
        }
        const struct conduct_result *result = conduct_finished(sim->conductor);
        if (result != NULL)
            return result;
        if (!moved) {
            error_set(error, STATUS_DEADLINE, "all boards wait: the plan breaks the order of exchanges");
            return NULL;
        }
    }
}

/* ---- results ---- */

static void keep_result(const struct sim_local *sim, const struct conduct_result *from, uint64_t us,
                        struct sim_local_result *to)
{
    memset(to, 0, sizeof *to);
    to->latency_ms = (double)us / 1000;
    to->bytes_moved = from->bytes_sent + from->bytes_received;
    to->n_parties = sim->plan->n_boards;
    for (int32_t b = 0; b < sim->plan->n_boards; b++) {
        struct sim_local_party *party = &to->party[b];
        party->used = sim->boards[b] != NULL;
        party->computing_us = from->party_times[b + 1].computing_us;
        party->waiting_us = from->party_times[b + 1].waiting_us;
        party->moving_us = from->party_times[b + 1].moving_us;
        party->bytes_sent = from->party_times[b + 1].bytes_received; /* what the coordinator received */
        party->bytes_received = from->party_times[b + 1].bytes_sent;
        party->arena_high_water = from->party_times[b + 1].arena_high_water;
        if (party->used)
            party->arena_bytes = virtual_board_core(sim->boards[b])->config.arena_bytes;
        for (uint32_t i = 0; i < from->party_times[b + 1].n_times && i < 216; i++)
            party->times[party->n_times++] = from->party_times[b + 1].times[i];
    }
}

static int check_guards(const struct sim_local *sim, struct error *error)
{
    for (int32_t b = 0; b < sim->plan->n_boards; b++)
        if (sim->boards[b] != NULL && !virtual_board_guards_intact(sim->boards[b]))
            return error_set(error, STATUS_INTERNAL, "board %d (%s) wrote outside its arena", b + 1,
                             board_name(sim, b));
    return STATUS_OK;
}

/* The inference between the graph's ends. */
static int conduct(struct sim_local *sim, struct plan_io *io, void *output, size_t output_bytes,
                   struct sim_local_result *result, struct error *error)
{
    uint64_t begun = clock_monotonic_us();
    int status = conduct_begin(sim->conductor, ++sim->last_inference, &sim->plan->table, sim->links,
                               io->inputs, 0, 0, STILL_US);
    if (status < 0)
        return error_set(error, (enum status)status, "the inference could not begin: %s",
                         status_text(status));
    const struct conduct_result *done = loop(sim, error);
    if (done == NULL) {
        status = error != NULL ? error->status : STATUS_INTERNAL;
        conduct_abort(sim->conductor, sim->last_inference, status, "no progress", STILL_US);
        conduct_release(sim->conductor, conduct_finished(sim->conductor));
        return status;
    }
    status = done->status;
    if (status < 0)
        error_set(error, (enum status)status, "board %d (%s): %s", done->party,
                  done->party > 0 ? board_name(sim, done->party - 1) : "coordinator", done->reason);
    else if (result != NULL)
        keep_result(sim, done, clock_monotonic_us() - begun, result);
    if (status == STATUS_OK)
        status = check_guards(sim, error);
    if (status == STATUS_OK)
        status = plan_io_end(io, done->outputs, output, output_bytes, error);
    conduct_release(sim->conductor, done);
    return status;
}

int sim_local_infer(struct sim_local *sim, const void *input, size_t input_bytes, void *output,
                    size_t output_bytes, struct sim_local_result *result, struct error *error)
{
    struct error own;
    if (error == NULL) {
        error = &own;
        error_clear(error);
    }
    struct plan_io *io = plan_io_begin(sim->plan, input, input_bytes, error);
    if (io == NULL)
        return error->status;
    int status = conduct(sim, io, output, output_bytes, result, error);
    plan_io_free(io);
    return status;
}

int sim_local_run(const struct plan *plan, const struct emit_fragment *fragments, const void *input,
                  size_t input_bytes, void *output, size_t output_bytes, struct sim_local_result *result,
                  struct error *error)
{
    struct error own;
    if (error == NULL) {
        error = &own;
        error_clear(error);
    }
    struct sim_local *sim = sim_local_open(plan, fragments, error);
    if (sim == NULL)
        return error->status;
    int status = sim_local_infer(sim, input, input_bytes, output, output_bytes, result, error);
    sim_local_close(sim);
    return status;
}
