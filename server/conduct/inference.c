/*
 * The memory of one inference: its index, records and buffers. A buffer is made when its first byte arrives
 * and given back when its last reader has it, unless it is an output, so that an inference rarely takes all
 * that it reserved.
 */
#include "server/conduct/state.h"

#include <stdlib.h>
#include <string.h>

static uint32_t box_bytes(struct box box)
{
    return (uint32_t)box_elements(box);
}

size_t conduct_table_bytes(const struct conduct_table *table)
{
    size_t bytes = sizeof(struct inference) +
                   (size_t)table->n_transfers * (sizeof(struct transfer_state) + 12) +
                   (size_t)table->n_exchanges * (sizeof(struct exchange_state) + 16) +
                   (size_t)table->parties * (sizeof(struct party_state) + sizeof(struct presence) + 8);
    for (uint32_t e = 0; e < table->n_exchanges; e++)
        bytes += (size_t)shape_elements(table->exchanges[e].shape);
    return bytes;
}

static void fill_states(struct inference *inference)
{
    const struct conduct_table *table = inference->table;
    const struct conduct_index *index = &inference->index;
    for (uint32_t t = 0; t < table->n_transfers; t++)
        inference->transfers[t].bytes = box_bytes(table->transfers[t].box);
    for (uint32_t e = 0; e < table->n_exchanges; e++) {
        inference->exchanges[e].ups_missing = index->into_first[e + 1] - index->into_first[e];
        inference->exchanges[e].readers_left = index->readers[e];
    }
    for (uint16_t p = 1; p <= table->parties; p++) {
        inference->parties[p].down_at = index->down_first[p];
        inference->parties[p].ups_missing = index->up_first[p + 1] - index->up_first[p];
    }
}

struct inference *inference_new(const struct conduct_table *table)
{
    struct inference *inference = calloc(1, sizeof *inference);
    if (inference == NULL)
        return NULL;
    inference->table = table;
    inference->parties = calloc((size_t)table->parties + 1, sizeof *inference->parties);
    inference->exchanges = calloc((size_t)table->n_exchanges + 1, sizeof *inference->exchanges);
    inference->transfers = calloc((size_t)table->n_transfers + 1, sizeof *inference->transfers);
    inference->outputs = calloc((size_t)table->n_exchanges + 1, sizeof *inference->outputs);
    if (inference->parties == NULL || inference->exchanges == NULL || inference->transfers == NULL ||
        inference->outputs == NULL || conduct_index_make(&inference->index, table) < 0) {
        inference_free(inference);
        return NULL;
    }
    fill_states(inference);
    return inference;
}

void inference_free(struct inference *inference)
{
    if (inference == NULL)
        return;
    for (uint32_t e = 0; inference->exchanges != NULL && e < inference->table->n_exchanges; e++)
        free(inference->exchanges[e].data);
    for (size_t p = 0; p <= CONDUCT_PARTIES_MAX; p++)
        free(inference->times[p]);
    conduct_index_free(&inference->index);
    free(inference->parties);
    free(inference->exchanges);
    free(inference->transfers);
    free(inference->outputs);
    free(inference);
}

int8_t *inference_tensor(struct inference *inference, uint32_t exchange)
{
    struct exchange_state *state = &inference->exchanges[exchange];
    if (state->data == NULL)
        state->data = calloc((size_t)shape_elements(inference->table->exchanges[exchange].shape), 1);
    return state->data;
}

void inference_drop_reader(struct inference *inference, uint32_t exchange)
{
    struct exchange_state *state = &inference->exchanges[exchange];
    if (--state->readers_left > 0 || inference->table->exchanges[exchange].is_output ||
        state->ups_missing > 0)
        return;
    free(state->data);
    state->data = NULL;
}
