/*
 * Tables of transfers: whether one can be conducted, its index by party and by exchange, and the copying
 * between boxes and tensors. Everything here is a pure function of an immutable table.
 */
#include "server/conduct/state.h"

#include <stdlib.h>
#include <string.h>

bool conduct_party_used(const struct conduct_table *table, uint16_t party)
{
    static const uint8_t none[WIRE_HASH_BYTES];
    return table->fragments != NULL && memcmp(table->fragments[party - 1], none, WIRE_HASH_BYTES) != 0;
}

/* The board at the other end of a transfer. */
static uint16_t board_of(const struct conduct_transfer *transfer)
{
    return transfer->to == 0 ? transfer->from : transfer->to;
}

/* ---- check ---- */

static int refuse(struct error *error, uint32_t t, const char *what)
{
    return error_set(error, STATUS_INVALID_ARGUMENT, "transfer %u of the table: %s", t, what);
}

static int check_transfer(const struct conduct_table *table, uint32_t t, struct error *error)
{
    const struct conduct_transfer *transfer = &table->transfers[t];
    if (transfer->from > table->parties || transfer->to > table->parties ||
        (transfer->from == 0) == (transfer->to == 0))
        return refuse(error, t, "not between the coordinator and a board");
    if (!conduct_party_used(table, board_of(transfer)))
        return refuse(error, t, "its board has no fragment");
    if (transfer->exchange >= table->n_exchanges)
        return refuse(error, t, "no such exchange");
    if (transfer->wire != FRAGMENT_WIRE_I8)
        return refuse(error, t, "sums through the coordinator are not supported yet");
    if (box_empty(transfer->box) ||
        !box_contains(box_whole(table->exchanges[transfer->exchange].shape), transfer->box))
        return refuse(error, t, "its box is empty or outside the tensor");
    if (transfer->to == 0 && table->exchanges[transfer->exchange].is_input)
        return refuse(error, t, "sent up into an input");
    if (t == 0)
        return STATUS_OK;
    const struct conduct_transfer *before = transfer - 1;
    if (before->rank > transfer->rank)
        return refuse(error, t, "ranks are not in order");
    return STATUS_OK;
}

static int check_exchanges(const struct conduct_table *table, struct error *error)
{
    for (uint32_t e = 0; e < table->n_exchanges; e++) {
        struct shape shape = table->exchanges[e].shape;
        if (shape.h < 1 || shape.w < 1 || shape.c < 1 || shape.h > 65535 || shape.w > 65535 ||
            shape.c > 65535 || shape_elements(shape) > INT32_MAX)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "exchange %u of the table: its shape is impossible", e);
    }
    return STATUS_OK;
}

/* Whether the boxes that come up into `exchange` cover `box`. Takes one of them away from what is left, piece
 * by piece; `next` is the first of them that was not tried. */
static bool covered(const struct conduct_table *table, const struct conduct_index *index, uint32_t exchange,
                    struct box box, uint32_t next)
{
    struct box rest[BOX_DIFFERENCE_MAX];
    if (box_empty(box))
        return true;
    while (next < index->into_first[exchange + 1] &&
           box_empty(box_intersect(box, table->transfers[index->into[next]].box)))
        next++;
    if (next == index->into_first[exchange + 1])
        return false;
    int n = box_difference(box, table->transfers[index->into[next]].box, rest);
    for (int i = 0; i < n; i++)
        if (!covered(table, index, exchange, rest[i], next + 1))
            return false;
    return true;
}

static int check_coverage(const struct conduct_table *table, const struct conduct_index *index,
                          struct error *error)
{
    for (uint32_t t = 0; t < table->n_transfers; t++) {
        const struct conduct_transfer *transfer = &table->transfers[t];
        uint32_t e = transfer->exchange;
        if (transfer->from == 0 && !table->exchanges[e].is_input &&
            !covered(table, index, e, transfer->box, index->into_first[e]))
            return refuse(error, t, "sends what no board makes");
    }
    for (uint32_t e = 0; e < table->n_exchanges; e++)
        if (table->exchanges[e].is_output && !table->exchanges[e].is_input &&
            !covered(table, index, e, box_whole(table->exchanges[e].shape), index->into_first[e]))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "exchange %u of the table: the output is not whole", e);
    return STATUS_OK;
}

/* Ids are unique on a link and direction. */
static int check_ids(const struct conduct_table *table, const uint32_t *list, uint32_t first, uint32_t end,
                     struct error *error)
{
    uint8_t seen[65536 / 8] = {0};
    for (uint32_t i = first; i < end; i++) {
        uint16_t id = table->transfers[list[i]].id;
        if (seen[id / 8] & 1u << id % 8)
            return refuse(error, list[i], "its id is used twice on the link");
        seen[id / 8] = (uint8_t)(seen[id / 8] | 1u << id % 8);
    }
    return STATUS_OK;
}

/* What goes down waits only for lower ranks. */
static int check_order(const struct conduct_table *table, const struct conduct_index *index,
                       struct error *error)
{
    int status = STATUS_OK;
    for (uint32_t p = 1; status == STATUS_OK && p <= table->parties; p++) {
        status = check_ids(table, index->up, index->up_first[p], index->up_first[p + 1], error);
        if (status == STATUS_OK)
            status = check_ids(table, index->down, index->down_first[p], index->down_first[p + 1], error);
    }
    for (uint32_t t = 0; status == STATUS_OK && t < table->n_transfers; t++) {
        const struct conduct_transfer *transfer = &table->transfers[t];
        uint32_t e = transfer->exchange;
        for (uint32_t i = index->into_first[e]; transfer->from == 0 && i < index->into_first[e + 1]; i++)
            if (table->transfers[index->into[i]].rank >= transfer->rank)
                return refuse(error, t, "sent down before it came up");
    }
    return status;
}

int conduct_table_check(const struct conduct_table *table, struct error *error)
{
    struct conduct_index index = {0};
    if (table->parties == 0 || table->parties > CONDUCT_PARTIES_MAX || table->fragments == NULL)
        return error_set(error, STATUS_INVALID_ARGUMENT, "a table needs 1 to %d boards with fragments",
                         CONDUCT_PARTIES_MAX);
    int status = check_exchanges(table, error);
    for (uint32_t t = 0; status == STATUS_OK && t < table->n_transfers; t++)
        status = check_transfer(table, t, error);
    if (status < 0)
        return status;
    status = conduct_index_make(&index, table);
    if (status < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory to check the table");
    status = check_order(table, &index, error);
    if (status == STATUS_OK)
        status = check_coverage(table, &index, error);
    conduct_index_free(&index);
    return status;
}

/* ---- index ---- */

static _Thread_local const struct conduct_transfer *sort_transfers; /* qsort passes no context */

static int by_rank_and_id(const void *a, const void *b)
{
    const struct conduct_transfer *x = &sort_transfers[*(const uint32_t *)a],
                                  *y = &sort_transfers[*(const uint32_t *)b];
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (int)x->id - (int)y->id;
}

static int by_id(const void *a, const void *b)
{
    const struct conduct_transfer *x = &sort_transfers[*(const uint32_t *)a],
                                  *y = &sort_transfers[*(const uint32_t *)b];
    return (int)x->id - (int)y->id;
}

static void sort_groups(const struct conduct_table *table, uint32_t *list, const uint32_t *first,
                        uint32_t groups, int (*compare)(const void *, const void *))
{
    sort_transfers = table->transfers;
    for (uint32_t g = 0; g < groups; g++)
        if (first[g + 1] - first[g] > 1)
            qsort(list + first[g], first[g + 1] - first[g], sizeof *list, compare);
}

/* Counts become starts: first[g] is where group g begins, first[groups] the end. */
static void starts_from_counts(uint32_t *first, uint32_t groups)
{
    uint32_t sum = 0;
    for (uint32_t g = 0; g <= groups; g++) {
        uint32_t n = first[g];
        first[g] = sum;
        sum += n;
    }
}

static void fill(struct conduct_index *index, const struct conduct_table *table)
{
    for (uint32_t t = 0; t < table->n_transfers; t++) {
        const struct conduct_transfer *transfer = &table->transfers[t];
        if (transfer->to == 0) {
            index->up_first[transfer->from]++;
            index->into_first[transfer->exchange]++;
        } else {
            index->down_first[transfer->to]++;
            index->readers[transfer->exchange]++;
        }
    }
    starts_from_counts(index->up_first, table->parties + 1u);
    starts_from_counts(index->down_first, table->parties + 1u);
    starts_from_counts(index->into_first, table->n_exchanges);
    for (uint32_t t = 0; t < table->n_transfers; t++) {
        const struct conduct_transfer *transfer = &table->transfers[t];
        if (transfer->to == 0) {
            index->up[index->up_first[transfer->from]++] = t;
            index->into[index->into_first[transfer->exchange]++] = t;
        } else {
            index->down[index->down_first[transfer->to]++] = t;
        }
    }
}

/* After filling, first[g] is the end of group g: shift back by one group. */
static void restore_starts(uint32_t *first, uint32_t groups)
{
    memmove(first + 1, first, groups * sizeof *first);
    first[0] = 0;
}

int conduct_index_make(struct conduct_index *index, const struct conduct_table *table)
{
    size_t transfers = (size_t)table->n_transfers + 1, parties = (size_t)table->parties + 3,
           exchanges = (size_t)table->n_exchanges + 2;
    memset(index, 0, sizeof *index);
    uint32_t *memory = calloc(3 * transfers + 2 * parties + 2 * exchanges, sizeof *memory);
    if (memory == NULL)
        return STATUS_NO_MEMORY;
    index->down = memory;
    index->up = index->down + transfers;
    index->into = index->up + transfers;
    index->down_first = index->into + transfers;
    index->up_first = index->down_first + parties;
    index->into_first = index->up_first + parties;
    index->readers = index->into_first + exchanges;
    fill(index, table);
    restore_starts(index->up_first, table->parties + 1u);
    restore_starts(index->down_first, table->parties + 1u);
    restore_starts(index->into_first, table->n_exchanges);
    sort_groups(table, index->down, index->down_first, table->parties + 1u, by_rank_and_id);
    sort_groups(table, index->up, index->up_first, table->parties + 1u, by_id);
    return STATUS_OK;
}

void conduct_index_free(struct conduct_index *index)
{
    free(index->down);
    memset(index, 0, sizeof *index);
}

/* ---- boxes and tensors ---- */

/* The run of a box's packed stream that begins at `at`: where it lies in the tensor, and how long it is. */
static size_t run_at(struct shape shape, struct box box, uint32_t at, uint32_t *run)
{
    uint32_t c = (uint32_t)(box.c1 - box.c0), w = (uint32_t)(box.w1 - box.w0);
    if (box.c0 == 0 && box.c1 == shape.c) { /* whole pixels: a row is one run */
        uint32_t row = w * c;
        *run = row - at % row;
        return ((size_t)(box.h0 + (int32_t)(at / row)) * (size_t)shape.w + (size_t)box.w0) * (size_t)shape.c +
               at % row;
    }
    uint32_t pixel = at / c;
    *run = c - at % c;
    return ((size_t)(box.h0 + (int32_t)(pixel / w)) * (size_t)shape.w +
            (size_t)(box.w0 + (int32_t)(pixel % w))) *
               (size_t)shape.c +
           (size_t)box.c0 + at % c;
}

void conduct_box_put(int8_t *tensor, struct shape shape, struct box box, uint32_t at, const uint8_t *in,
                     uint32_t n)
{
    while (n > 0) {
        uint32_t run;
        size_t place = run_at(shape, box, at, &run);
        if (run > n)
            run = n;
        memcpy(tensor + place, in, run);
        in += run;
        at += run;
        n -= run;
    }
}

void conduct_box_get(const int8_t *tensor, struct shape shape, struct box box, uint32_t at, uint8_t *out,
                     uint32_t n)
{
    while (n > 0) {
        uint32_t run;
        size_t place = run_at(shape, box, at, &run);
        if (run > n)
            run = n;
        memcpy(out, tensor + place, run);
        out += run;
        at += run;
        n -= run;
    }
}
