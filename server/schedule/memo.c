/*
 * A table of what is known about patches: open addressing over places that stay; keys are compared whole, so
 * that no answer depends on a hash.
 */
#include "server/schedule/memo.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 256, WORK = 1500000 };

static bool set_room(struct memo *memo, int32_t room)
{
    struct patch_way *ways = realloc(memo->ways, (size_t)room * sizeof *ways);
    memo->ways = ways ? ways : memo->ways;
    struct patch_key *keys = realloc(memo->keys, (size_t)room * sizeof *keys);
    memo->keys = keys ? keys : memo->keys;
    int32_t *slots = malloc(2 * (size_t)room * sizeof *slots);
    if (!ways || !keys || !slots) {
        free(slots);
        return false;
    }
    memset(slots, 0xff, 2 * (size_t)room * sizeof *slots);
    free(memo->slots);
    memo->slots = slots;
    memo->room = room;
    return true;
}

struct memo *memo_new(void)
{
    struct memo *memo = calloc(1, sizeof *memo);
    if (memo && !set_room(memo, ROOM)) {
        memo_free(memo);
        return NULL;
    }
    if (memo)
        memo->left = WORK;
    return memo;
}

void memo_free(struct memo *memo)
{
    if (!memo)
        return;
    for (int32_t i = 0; i < memo->n; i++)
        free((void *)memo->ways[i].moves);
    free(memo->ways);
    free(memo->keys);
    free(memo->slots);
    free(memo);
}

static int32_t *slot_of(const struct memo *memo, const struct patch_key *key)
{
    uint64_t hash = 1469598103934665603u;
    const unsigned char *bytes = (const unsigned char *)key;
    uint32_t mask = 2 * (uint32_t)memo->room - 1;
    for (size_t i = 0; i < sizeof *key; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    uint32_t slot = (uint32_t)(hash >> 32) & mask;
    while (memo->slots[slot] >= 0 && memcmp(&memo->keys[memo->slots[slot]], key, sizeof *key))
        slot = (slot + 1) & mask;
    return &memo->slots[slot];
}

static void set_key(struct patch_key *key, const struct net *net, const int32_t *ops, int32_t n)
{
    memset(key, 0, sizeof *key);
    key->n = n;
    for (int32_t k = 0; k < n; k++) {
        const struct net_op *op = &net->ops[ops[k]];
        key->ops[k] = op->graph_op;
        key->rules[k] = 64 * op->tall + 16 * (int32_t)op->class + 8 * op->inplace + 4 * op->channels +
                        2 * op->rows + op->row_sums;
    }
}

int32_t memo_way(struct memo *memo, const struct net *net, const int32_t *ops, int32_t n, int32_t tile_h,
                 int32_t tile_w, bool rows)
{
    struct patch_key key;
    set_key(&key, net, ops, n);
    key.tile_h = tile_h;
    key.tile_w = tile_w;
    key.rows = rows;
    int32_t *slot = slot_of(memo, &key);
    if (*slot >= 0)
        return *slot;
    if (memo->n == memo->room) {
        if (!set_room(memo, 2 * memo->room))
            return -1;
        for (int32_t i = 0; i < memo->n; i++)
            *slot_of(memo, &memo->keys[i]) = i;
        slot = slot_of(memo, &key);
    }
    memo->keys[memo->n] = key;
    memo->ways[memo->n] = (struct patch_way){.known = false};
    *slot = memo->n;
    return memo->n++;
}
