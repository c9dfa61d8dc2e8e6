/*
 * The conductor's events: begin, frames from boards, lost links, time, abort. What may go to a board is in
 * queue.c.
 *
 * Invariants. An inference is in `active` until it has its outcome, then in `ended` until it is given out,
 * once. Every presence with `sent` is answered exactly once by its board (DONE, FAILED, ABORTED) or ends with
 * its link. A failed inference leaves its sent presences behind, without inference: they swallow late frames
 * and hold an ABORT. Nothing that a board sends is trusted: a frame that its transfer does not allow is a
 * broken protocol.
 */
#include "server/conduct/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conductor *conductor_new(void)
{
    return calloc(1, sizeof(struct conductor));
}

static void free_list(struct inference *inference)
{
    while (inference != NULL) {
        struct inference *next = inference->next;
        inference_free(inference);
        inference = next;
    }
}

void conductor_free(struct conductor *conductor)
{
    if (conductor == NULL)
        return;
    for (int l = 0; l < CONDUCT_LINKS_MAX; l++)
        for (struct presence *p = conductor->links[l].first, *next; p != NULL; p = next) {
            next = p->next;
            free(p);
        }
    free_list(conductor->active);
    free_list(conductor->ended);
    free(conductor);
}

/* ---- presences ---- */

static void append_presence(struct link_state *link, struct presence *presence)
{
    if (link->last == NULL)
        link->first = presence;
    else
        link->last->next = presence;
    link->last = presence;
    link->n++;
}

static void remove_presence(struct link_state *link, struct presence *presence)
{
    struct presence **at = &link->first, *before = NULL;
    while (*at != presence) {
        before = *at;
        at = &(*at)->next;
    }
    *at = presence->next;
    if (link->last == presence)
        link->last = before;
    link->n--;
    link->runs -= presence->sent;
    free(presence);
}

static struct presence *find_presence(struct link_state *link, uint32_t id)
{
    struct presence *presence = link->first;
    while (presence != NULL && presence->id != id)
        presence = presence->next;
    return presence;
}

/* An inference waits, and its deadline counts, only once it is first on all its links. */
static void update_heads(struct conductor *conductor)
{
    for (struct inference *inference = conductor->active; inference != NULL; inference = inference->next) {
        bool first = inference->progress_us == 0;
        for (uint16_t p = 1; first && p <= inference->table->parties; p++) {
            const struct party_state *party = &inference->parties[p];
            first = party->presence == NULL || conductor->links[party->link].first == party->presence;
        }
        if (first)
            inference->progress_us = conductor->now_us > 0 ? conductor->now_us : 1;
    }
}

static void see_time(struct conductor *conductor, uint64_t now_us)
{
    if (now_us > conductor->now_us)
        conductor->now_us = now_us;
}

/* ---- outcome ---- */

/* Moves an inference from active to ended. */
static void end(struct conductor *conductor, struct inference *inference)
{
    struct inference **at = &conductor->active, *before = NULL;
    while (*at != inference) {
        before = *at;
        at = &(*at)->next;
    }
    *at = inference->next;
    if (conductor->active_last == inference)
        conductor->active_last = before;
    inference->next = NULL;
    if (conductor->ended_last == NULL)
        conductor->ended = inference;
    else
        conductor->ended_last->next = inference;
    conductor->ended_last = inference;
    inference->result.ended_us = conductor->now_us;
    inference->result.reason = inference->reason;
}

static void fail(struct conductor *conductor, struct inference *inference, int status, uint16_t party,
                 const char *reason)
{
    inference->result.status = status < 0 ? status : STATUS_INTERNAL;
    inference->result.party = party;
    snprintf(inference->reason, sizeof inference->reason, "%s", reason);
    for (uint16_t p = 1; p <= inference->table->parties; p++) {
        struct presence *presence = inference->parties[p].presence;
        if (presence == NULL)
            continue;
        inference->parties[p].presence = NULL;
        presence->inference = NULL;
        presence->abort_due = presence->sent;
        presence->answer_by_us =
            conductor->now_us +
            (presence->budget_us > CONDUCT_ANSWER_US ? presence->budget_us : CONDUCT_ANSWER_US);
        if (!presence->sent)
            remove_presence(&conductor->links[inference->parties[p].link], presence);
    }
    for (uint32_t e = 0; e < inference->table->n_exchanges; e++) {
        free(inference->exchanges[e].data);
        inference->exchanges[e].data = NULL;
    }
    end(conductor, inference);
    update_heads(conductor);
}

static void succeed(struct conductor *conductor, struct inference *inference)
{
    for (uint32_t e = 0; e < inference->table->n_exchanges; e++)
        if (inference->table->exchanges[e].is_output)
            inference->outputs[e] = inference->exchanges[e].data;
    end(conductor, inference);
}

const struct conduct_result *conduct_finished(struct conductor *conductor)
{
    struct inference *inference = conductor->ended;
    if (inference == NULL)
        return NULL;
    conductor->ended = inference->next;
    if (conductor->ended == NULL)
        conductor->ended_last = NULL;
    inference->next = NULL;
    return &inference->result;
}

void conduct_release(struct conductor *conductor, const struct conduct_result *result)
{
    (void)conductor;
    if (result != NULL)
        inference_free((struct inference *)((const char *)result - offsetof(struct inference, result)));
}

/* ---- begin ---- */

static bool links_valid(const struct conduct_table *table, const uint16_t *links)
{
    for (uint16_t p = 1; p <= table->parties; p++) {
        if (!conduct_party_used(table, p))
            continue;
        if (links[p - 1] >= CONDUCT_LINKS_MAX)
            return false;
        for (uint16_t q = 1; q < p; q++)
            if (conduct_party_used(table, q) && links[q - 1] == links[p - 1])
                return false;
    }
    return true;
}

static int take_inputs(struct inference *inference, const int8_t *const *inputs)
{
    for (uint32_t e = 0; e < inference->table->n_exchanges; e++) {
        if (!inference->table->exchanges[e].is_input)
            continue;
        if (inputs == NULL || inputs[e] == NULL)
            return STATUS_INVALID_ARGUMENT;
        int8_t *tensor = inference_tensor(inference, e);
        if (tensor == NULL)
            return STATUS_NO_MEMORY;
        memcpy(tensor, inputs[e], (size_t)shape_elements(inference->table->exchanges[e].shape));
    }
    return STATUS_OK;
}

/* Makes the presences, all or none; they are appended to the links by the caller. */
static int make_presences(struct inference *inference, const uint16_t *links)
{
    for (uint16_t p = 1; p <= inference->table->parties; p++) {
        if (!conduct_party_used(inference->table, p))
            continue;
        struct presence *presence = calloc(1, sizeof *presence);
        if (presence == NULL)
            return STATUS_NO_MEMORY;
        presence->inference = inference;
        presence->id = inference->id;
        presence->party = p;
        presence->budget_us = inference->budget_us;
        inference->parties[p].presence = presence;
        inference->parties[p].link = links[p - 1];
        inference->answers_missing++;
    }
    return STATUS_OK;
}

static void discard(struct inference *inference)
{
    for (uint16_t p = 1; p <= inference->table->parties; p++)
        free(inference->parties[p].presence);
    inference_free(inference);
}

static uint64_t budget_of(const struct conduct_table *table)
{
    double us = 4 * table->predicted_ms * 1000;
    return us > CONDUCT_BUDGET_US && us < 1e12 ? (uint64_t)us : CONDUCT_BUDGET_US;
}

static void start(struct conductor *conductor, struct inference *inference)
{
    for (uint16_t p = 1; p <= inference->table->parties; p++)
        if (inference->parties[p].presence != NULL)
            append_presence(&conductor->links[inference->parties[p].link], inference->parties[p].presence);
    if (conductor->active_last == NULL)
        conductor->active = inference;
    else
        conductor->active_last->next = inference;
    conductor->active_last = inference;
    conductor->last_id = inference->id;
    if (inference->answers_missing == 0) /* no board takes part */
        succeed(conductor, inference);
    update_heads(conductor);
}

int conduct_begin(struct conductor *conductor, uint32_t inference, const struct conduct_table *table,
                  const uint16_t *links, const int8_t *const *inputs, uint64_t deployment,
                  uint32_t generation, uint64_t now_us)
{
    see_time(conductor, now_us);
    if (inference <= conductor->last_id || !links_valid(table, links))
        return STATUS_INVALID_ARGUMENT;
    struct inference *new = inference_new(table);
    if (new == NULL)
        return STATUS_NO_MEMORY;
    new->id = inference;
    new->deployment = deployment;
    new->generation = generation;
    new->budget_us = budget_of(table);
    new->result.inference = inference;
    new->result.begun_us = now_us;
    new->result.outputs = new->outputs;
    int status = take_inputs(new, inputs);
    if (status == STATUS_OK)
        status = make_presences(new, links);
    if (status < 0) {
        discard(new);
        return status;
    }
    start(conductor, new);
    return STATUS_OK;
}

/* ---- frames ---- */

/* The transfer with this id that party sends up, or NULL. */
static const uint32_t *find_up(const struct inference *inference, uint16_t party, uint16_t id)
{
    uint32_t lo = inference->index.up_first[party], hi = inference->index.up_first[party + 1];
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2, t = inference->index.up[mid];
        uint16_t there = inference->table->transfers[t].id;
        if (there == id)
            return &inference->index.up[mid];
        if (there < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static int take_data(struct conductor *conductor, struct presence *presence, const struct wire_header *header,
                     const uint8_t *payload)
{
    struct inference *inference = presence->inference;
    const uint32_t *found = find_up(inference, presence->party, header->transfer);
    if (found == NULL)
        return STATUS_WIRE_ORDER;
    const struct conduct_transfer *transfer = &inference->table->transfers[*found];
    struct transfer_state *state = &inference->transfers[*found];
    struct exchange_state *exchange = &inference->exchanges[transfer->exchange];
    if (header->length == 0 || header->offset != state->at || header->length > state->bytes - state->at)
        return STATUS_WIRE_ORDER;
    bool last = header->length == state->bytes - state->at;
    if (last != ((header->flags & WIRE_FLAG_LAST) != 0))
        return STATUS_WIRE_ORDER;
    int8_t *tensor = inference_tensor(inference, transfer->exchange);
    if (tensor == NULL) {
        fail(conductor, inference, STATUS_NO_MEMORY, 0, "the coordinator is out of memory");
        return STATUS_OK;
    }
    conduct_box_put(tensor, inference->table->exchanges[transfer->exchange].shape, transfer->box, state->at,
                    payload, header->length);
    state->at += header->length;
    inference->result.bytes_received += header->length;
    inference->result.party_times[presence->party].bytes_received += header->length;
    if (last) {
        exchange->ups_missing--;
        exchange->version++;
        inference->parties[presence->party].ups_missing--;
    }
    return STATUS_OK;
}

/* The board's answer is in: its presence ends. */
static void answered(struct conductor *conductor, uint16_t link, struct presence *presence)
{
    if (presence->inference != NULL) {
        presence->inference->parties[presence->party].presence = NULL;
        presence->inference->answers_missing--;
    }
    remove_presence(&conductor->links[link], presence);
}

static int keep_times(struct inference *inference, uint16_t party, const struct wire_done *done)
{
    struct conduct_times *times = calloc((size_t)done->n_times + 1, sizeof *times);
    if (times == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < done->n_times; i++)
        times[i] =
            (struct conduct_times){done->times[i].layer, done->times[i].start_us, done->times[i].computing_us,
                                   done->times[i].waiting_us, done->times[i].moving_us};
    inference->times[party] = times;
    inference->result.party_times[party].times = times;
    inference->result.party_times[party].n_times = done->n_times;
    inference->result.party_times[party].arena_high_water = done->arena_high_water;
    inference->result.party_times[party].stack_high_water = done->stack_high_water;
    inference->result.party_times[party].computing_us = done->computing_us;
    inference->result.party_times[party].waiting_us = done->waiting_us;
    inference->result.party_times[party].moving_us = done->moving_us;
    return STATUS_OK;
}

static int take_done(struct conductor *conductor, uint16_t link, struct presence *presence,
                     const struct wire_header *header, const uint8_t *payload)
{
    struct inference *inference = presence->inference;
    int status = wire_decode_done(payload, header->length, &conductor->done);
    if (status < 0)
        return status;
    if (inference != NULL) {
        const struct party_state *party = &inference->parties[presence->party];
        if (party->ups_missing > 0 || party->down_at < inference->index.down_first[presence->party + 1])
            return STATUS_WIRE_ORDER;
        if (keep_times(inference, presence->party, &conductor->done) < 0) {
            fail(conductor, inference, STATUS_NO_MEMORY, 0, "the coordinator is out of memory");
            inference = NULL;
        }
    }
    answered(conductor, link, presence);
    if (inference != NULL && inference->answers_missing == 0)
        succeed(conductor, inference);
    update_heads(conductor);
    return STATUS_OK;
}

static int take_failed(struct conductor *conductor, uint16_t link, struct presence *presence,
                       const struct wire_header *header, const uint8_t *payload)
{
    struct inference *inference = presence->inference;
    uint16_t party = presence->party;
    struct wire_failed failed;
    char reason[CONDUCT_REASON_BYTES];
    int status = wire_decode_failed(payload, header->length, &failed);
    if (status < 0)
        return status;
    answered(conductor, link, presence);
    if (inference == NULL) {
        update_heads(conductor);
        return STATUS_OK;
    }
    int n = snprintf(reason, sizeof reason, "the board answered: %s",
                     failed.reason[0] != 0 ? failed.reason : status_text(failed.status));
    if (failed.layer != WIRE_NO_LAYER)
        snprintf(reason + n, sizeof reason - (size_t)n, " (layer %u)", failed.layer);
    bool known = failed.status < 0 && failed.status > -(int)STATUS_COUNT;
    fail(conductor, inference, known ? failed.status : STATUS_INTERNAL, party, reason);
    return STATUS_OK;
}

static int take_aborted(struct conductor *conductor, uint16_t link, struct presence *presence)
{
    struct inference *inference = presence->inference;
    uint16_t party = presence->party;
    answered(conductor, link, presence);
    if (inference != NULL)
        fail(conductor, inference, STATUS_ABORTED, party, "the board ended the inference");
    else
        update_heads(conductor);
    return STATUS_OK;
}

int conduct_frame(struct conductor *conductor, uint16_t link, const struct wire_header *header,
                  const uint8_t *payload, uint64_t now_us)
{
    see_time(conductor, now_us);
    if (link >= CONDUCT_LINKS_MAX || header->length > WIRE_PAYLOAD_MAX)
        return STATUS_WIRE_MALFORMED;
    struct presence *presence = find_presence(&conductor->links[link], header->inference);
    if (presence == NULL || !presence->sent)
        return STATUS_WIRE_ORDER; /* the board speaks of an inference that it was not asked for */
    if (presence->inference != NULL && presence->inference->progress_us > 0)
        presence->inference->progress_us = conductor->now_us;
    switch (header->type) {
    case WIRE_DATA:
        return presence->inference == NULL ? STATUS_OK : take_data(conductor, presence, header, payload);
    case WIRE_DONE:
        return take_done(conductor, link, presence, header, payload);
    case WIRE_FAILED:
        return take_failed(conductor, link, presence, header, payload);
    case WIRE_ABORTED:
        return header->length != 0 ? STATUS_WIRE_MALFORMED : take_aborted(conductor, link, presence);
    default:
        return STATUS_WIRE_ORDER;
    }
}

/* ---- lost links, time, abort ---- */

void conduct_link_lost(struct conductor *conductor, uint16_t link, uint64_t now_us)
{
    see_time(conductor, now_us);
    if (link >= CONDUCT_LINKS_MAX)
        return;
    struct link_state *state = &conductor->links[link];
    while (state->first != NULL) {
        struct presence *presence = state->first;
        struct inference *inference = presence->inference;
        uint16_t party = presence->party;
        if (inference != NULL)
            inference->parties[party].presence = NULL;
        remove_presence(state, presence);
        if (inference != NULL)
            fail(conductor, inference, STATUS_BOARD_LOST, party, "a board was lost during the inference");
    }
    state->drop_due = false;
    state->drop_told = false;
    update_heads(conductor);
}

void conduct_abort(struct conductor *conductor, uint32_t inference, int status, const char *reason,
                   uint64_t now_us)
{
    see_time(conductor, now_us);
    struct inference *found = conductor->active;
    while (found != NULL && found->id != inference)
        found = found->next;
    if (found != NULL)
        fail(conductor, found, status, 0, reason);
}

/* The board that an inference waits for, for people: the first that has not answered. */
static uint16_t awaited(const struct inference *inference)
{
    for (uint16_t p = 1; p <= inference->table->parties; p++)
        if (inference->parties[p].presence != NULL && inference->parties[p].ups_missing > 0)
            return p;
    for (uint16_t p = 1; p <= inference->table->parties; p++)
        if (inference->parties[p].presence != NULL)
            return p;
    return 0;
}

void conduct_time(struct conductor *conductor, uint64_t now_us)
{
    see_time(conductor, now_us);
    for (struct inference *i = conductor->active, *next; i != NULL; i = next) {
        next = i->next;
        if (i->progress_us > 0 && now_us >= i->progress_us + i->budget_us)
            fail(conductor, i, STATUS_DEADLINE, awaited(i), "a board did not answer in time");
    }
    for (int l = 0; l < CONDUCT_LINKS_MAX; l++) {
        struct link_state *link = &conductor->links[l];
        for (const struct presence *p = link->first; p != NULL; p = p->next)
            if (p->inference == NULL && now_us >= p->answer_by_us && !link->drop_told)
                link->drop_due = link->drop_told = conductor->drop_due = true;
    }
}

bool conduct_next_drop(struct conductor *conductor, uint16_t *link)
{
    for (uint16_t l = 0; conductor->drop_due && l < CONDUCT_LINKS_MAX; l++)
        if (conductor->links[l].drop_due) {
            conductor->links[l].drop_due = false;
            *link = l;
            return true;
        }
    conductor->drop_due = false;
    return false;
}

uint64_t conduct_next_deadline(const struct conductor *conductor, uint64_t now_us)
{
    uint64_t next = UINT64_MAX;
    for (const struct inference *i = conductor->active; i != NULL; i = i->next)
        if (i->progress_us > 0 && i->progress_us + i->budget_us < next)
            next = i->progress_us + i->budget_us;
    for (int l = 0; l < CONDUCT_LINKS_MAX; l++)
        for (const struct presence *p = conductor->links[l].first; p != NULL; p = p->next)
            if (p->inference == NULL && !conductor->links[l].drop_told && p->answer_by_us < next)
                next = p->answer_by_us;
    return next == UINT64_MAX ? next : next <= now_us ? 0 : next - now_us;
}

uint32_t conduct_active(const struct conductor *conductor, uint16_t link)
{
    return link < CONDUCT_LINKS_MAX ? conductor->links[link].n : 0;
}
