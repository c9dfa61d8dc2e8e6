/*
 * What may go to a board next. Aborts go first. Then inferences in order: RUN, then their transfers by (rank,
 * id); the first that is not ready holds back everything behind it (ENCODING C2), so that nothing overtakes.
 *
 * A transfer is ready when every transfer that comes up into its box is whole. Frames are made when they are
 * asked for, from the one buffer of the exchange: nothing is queued twice.
 */
#include "server/conduct/state.h"

#include <stdlib.h>
#include <string.h>

enum next_kind { NEXT_NOTHING, NEXT_ABORT, NEXT_RUN, NEXT_DATA };

static bool ready(struct inference *inference, uint32_t t)
{
    const struct conduct_table *table = inference->table;
    const struct conduct_index *index = &inference->index;
    const struct conduct_transfer *transfer = &table->transfers[t];
    const struct exchange_state *exchange = &inference->exchanges[transfer->exchange];
    struct transfer_state *state = &inference->transfers[t];
    if (state->ready || exchange->ups_missing == 0)
        return state->ready = true;
    if (state->checked == exchange->version + 1)
        return false;
    state->checked = exchange->version + 1;
    for (uint32_t i = index->into_first[transfer->exchange]; i < index->into_first[transfer->exchange + 1u];
         i++) {
        const struct transfer_state *up = &inference->transfers[index->into[i]];
        if (up->at < up->bytes &&
            !box_empty(box_intersect(table->transfers[index->into[i]].box, transfer->box)))
            return false;
    }
    return state->ready = true;
}

/* What is next on a link, and whose. */
static enum next_kind next_of(const struct link_state *link, struct presence **of)
{
    for (*of = link->first; *of != NULL; *of = (*of)->next)
        if ((*of)->abort_due)
            return NEXT_ABORT;
    for (*of = link->first; *of != NULL; *of = (*of)->next) {
        struct inference *inference = (*of)->inference;
        if (inference == NULL)
            continue;
        if (!(*of)->sent)
            return link->runs < CONDUCT_RUNS_MAX ? NEXT_RUN : NEXT_NOTHING;
        uint32_t at = inference->parties[(*of)->party].down_at;
        if (at < inference->index.down_first[(*of)->party + 1u])
            return ready(inference, inference->index.down[at]) ? NEXT_DATA : NEXT_NOTHING;
    }
    return NEXT_NOTHING;
}

static int run_frame(struct presence *presence, struct wire_header *header, uint8_t *payload)
{
    const struct inference *inference = presence->inference;
    struct wire_run run = {.deployment = inference->deployment, .generation = inference->generation};
    memcpy(run.fragment, inference->table->fragments[presence->party - 1], WIRE_HASH_BYTES);
    int n = wire_encode_run(&run, payload);
    *header = (struct wire_header){.type = WIRE_RUN, .inference = presence->id, .length = (uint32_t)n};
    return n;
}

static int data_frame(struct presence *presence, struct wire_header *header, uint8_t *payload)
{
    struct inference *inference = presence->inference;
    struct party_state *party = &inference->parties[presence->party];
    uint32_t t = inference->index.down[party->down_at];
    const struct conduct_transfer *transfer = &inference->table->transfers[t];
    struct transfer_state *state = &inference->transfers[t];
    uint32_t left = state->bytes - state->at, n = left < WIRE_PAYLOAD_MAX ? left : WIRE_PAYLOAD_MAX;
    conduct_box_get(inference->exchanges[transfer->exchange].data,
                    inference->table->exchanges[transfer->exchange].shape, transfer->box, state->at, payload,
                    n);
    *header = (struct wire_header){.type = WIRE_DATA,
                                   .transfer = transfer->id,
                                   .inference = presence->id,
                                   .offset = state->at,
                                   .length = n,
                                   .flags = n == left ? WIRE_FLAG_LAST : 0};
    state->at += n;
    inference->result.bytes_sent += n;
    inference->result.party_times[presence->party].bytes_sent += n;
    if (n == left) {
        party->down_at++;
        inference_drop_reader(inference, transfer->exchange);
    }
    return (int)n;
}

int conduct_next_frame(struct conductor *conductor, uint16_t link, struct wire_header *header,
                       uint8_t payload[WIRE_PAYLOAD_MAX])
{
    struct presence *presence;
    if (link >= CONDUCT_LINKS_MAX)
        return -1;
    switch (next_of(&conductor->links[link], &presence)) {
    case NEXT_ABORT:
        presence->abort_due = false;
        *header = (struct wire_header){.type = WIRE_ABORT, .inference = presence->id};
        return 0;
    case NEXT_RUN:
        presence->sent = true;
        conductor->links[link].runs++;
        return run_frame(presence, header, payload);
    case NEXT_DATA:
        if (presence->inference->progress_us > 0)
            presence->inference->progress_us = conductor->now_us;
        return data_frame(presence, header, payload);
    default:
        return -1;
    }
}

bool conduct_has_frame(const struct conductor *conductor, uint16_t link)
{
    struct presence *presence;
    return link < CONDUCT_LINKS_MAX && next_of(&conductor->links[link], &presence) != NEXT_NOTHING;
}
