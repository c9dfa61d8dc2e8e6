/*
 * Pushing fragments. A board pulls: it is offered hash and size, asks for pieces when its flash is ready, and
 * echoes the hash when the image is whole. One push is under way per board, the others wait behind it.
 * Everything here but fleet_push, fleet_keep and fleet_push_progress runs on the coordinator thread.
 */
#include "server/fleet/members.h"

#include "server/base/log.h"

#include <stdlib.h>
#include <string.h>

static struct push_bytes *bytes_share(struct fleet *fleet, const uint8_t *hash, const void *data,
                                      uint32_t size)
{
    pthread_mutex_lock(&fleet->mutex);
    struct push_bytes *bytes = fleet->push_bytes;
    while (bytes && memcmp(bytes->hash, hash, WIRE_HASH_BYTES) != 0)
        bytes = bytes->next;
    if (!bytes && (bytes = malloc(sizeof *bytes + size)) != NULL) {
        memcpy(bytes->hash, hash, WIRE_HASH_BYTES);
        memcpy(bytes->data, data, size);
        bytes->size = size;
        bytes->references = 0;
        bytes->next = fleet->push_bytes;
        fleet->push_bytes = bytes;
    }
    if (bytes)
        bytes->references++;
    pthread_mutex_unlock(&fleet->mutex);
    return bytes;
}

static void bytes_release(struct fleet *fleet, struct push_bytes *bytes)
{
    pthread_mutex_lock(&fleet->mutex);
    if (--bytes->references == 0) {
        struct push_bytes **link = &fleet->push_bytes;
        while (*link != bytes)
            link = &(*link)->next;
        *link = bytes->next;
        free(bytes);
    }
    pthread_mutex_unlock(&fleet->mutex);
}

/* Ends the first push of a member, tells its owner, and begins the next. */
static void finish(struct fleet *fleet, struct member *member, int status, const char *reason)
{
    struct push *push = member->pushes;
    member->pushes = push->next;
    pthread_mutex_lock(&fleet->mutex);
    member->pushing = false;
    pthread_mutex_unlock(&fleet->mutex);
    push->done(push->context, push->board, push->bytes->hash, status, reason, push->sent);
    bytes_release(fleet, push->bytes);
    free(push);
}

void push_begin(struct fleet *fleet, struct member *member)
{
    struct push *push = member->pushes;
    if (!push || push->offered || !member->link || member->n_dropping < member->n_doomed)
        return; /* not before it was told what to drop: the image may need that room */
    struct wire_offer offer = {.bytes = push->bytes->size};
    memcpy(offer.hash, push->bytes->hash, sizeof offer.hash);
    pthread_mutex_lock(&fleet->mutex);
    member->pushing = true;
    member->push_bytes = 0;
    member->push_of = push->bytes->size;
    memcpy(member->push_hash, push->bytes->hash, sizeof member->push_hash);
    pthread_mutex_unlock(&fleet->mutex);
    push->offered = true;
    uint8_t payload[WIRE_PAYLOAD_MAX];
    (void)fleet_send(member, WIRE_OFFER, wire_encode_offer(&offer, payload), payload);
}

void push_link_lost(struct fleet *fleet, struct member *member)
{
    member->n_doomed = member->n_dropping = 0;
    while (member->pushes)
        finish(fleet, member, STATUS_OFFLINE, "the board's link broke");
}

/* Nobody pushes that fragment any more: an empty last CHUNK tells the board to stop asking. */
static int refuse_want(struct member *member, const struct wire_want *want)
{
    struct wire_header header = {.type = WIRE_CHUNK, .flags = WIRE_FLAG_LAST, .offset = want->offset};
    return link_send(member->link, &header, (const uint8_t *)"");
}

int push_on_want(struct fleet *fleet, struct member *member, const struct wire_want *want)
{
    struct push *push = member->pushes;
    if (!push || memcmp(want->hash, push->bytes->hash, sizeof want->hash) != 0)
        return refuse_want(member, want);
    if (want->length == 0 || want->length > WIRE_WANT_MAX || want->offset > push->bytes->size ||
        want->length > push->bytes->size - want->offset)
        return STATUS_WIRE_MALFORMED;
    push->want_at = want->offset;
    push->want_end = want->offset + want->length;
    pthread_mutex_lock(&fleet->mutex);
    member->push_bytes = want->offset;
    pthread_mutex_unlock(&fleet->mutex);
    link_kick(member->link);
    return 0;
}

int push_next_frame(struct member *member, struct wire_header *header, uint8_t *payload)
{
    struct push *push = member->pushes;
    if (!push || push->want_at == push->want_end)
        return -1;
    uint32_t left = push->want_end - push->want_at;
    uint32_t n = left < WIRE_PAYLOAD_MAX ? left : WIRE_PAYLOAD_MAX;
    *header = (struct wire_header){
        .type = WIRE_CHUNK, .flags = n == left ? WIRE_FLAG_LAST : 0, .offset = push->want_at, .length = n};
    memcpy(payload, push->bytes->data + push->want_at, n);
    push->want_at += n;
    push->sent += n;
    return (int)n;
}

/* The list of what the board holds, as HELLO gave it and HAVE changes it. */
static void note_held(struct fleet *fleet, struct member *member, const uint8_t *hash, uint32_t bytes,
                      bool there)
{
    struct wire_hello *hello = &member->hello;
    pthread_mutex_lock(&fleet->mutex);
    int at = 0;
    while (at < hello->n_held && memcmp(hello->held[at].hash, hash, WIRE_HASH_BYTES) != 0)
        at++;
    if (there && at == hello->n_held && at < FLEET_HELD_MAX) {
        memcpy(hello->held[at].hash, hash, WIRE_HASH_BYTES);
        hello->held[at].bytes = bytes;
        hello->n_held++;
    } else if (!there && at < hello->n_held) {
        hello->held[at] = hello->held[--hello->n_held];
    }
    pthread_mutex_unlock(&fleet->mutex);
}

/* ---- what is to be dropped ---- */

static bool is_pushed(const struct member *member, const uint8_t *hash)
{
    for (const struct push *push = member->pushes; push; push = push->next)
        if (memcmp(push->bytes->hash, hash, WIRE_HASH_BYTES) == 0)
            return true;
    return false;
}

/* Its place among the doomed, or n_doomed. */
static int doomed_at(const struct member *member, const uint8_t *hash)
{
    int at = 0;
    while (at < member->n_doomed && memcmp(member->doomed[at], hash, WIRE_HASH_BYTES) != 0)
        at++;
    return at;
}

static void doomed_remove(struct member *member, int at)
{
    if (at >= member->n_doomed)
        return;
    member->n_doomed--;
    member->n_dropping -= at < member->n_dropping;
    memmove(member->doomed[at], member->doomed[at + 1],
            (size_t)(member->n_doomed - at) * sizeof member->doomed[0]);
}

/* Each is told once, and few at a time: what a board has no place for among its requests it does not do. */
static void drop_next(struct member *member)
{
    while (member->n_dropping < member->n_doomed && member->n_dropping < FLEET_DROPS_MAX) {
        const uint8_t *hash = member->doomed[member->n_dropping];
        if (is_pushed(member, hash)) {
            doomed_remove(member, member->n_dropping);
            continue;
        }
        struct wire_activate drop = {.what = WIRE_HAVE_DROPPED};
        memcpy(drop.hash, hash, sizeof drop.hash);
        uint8_t payload[WIRE_PAYLOAD_MAX];
        member->n_dropping++;
        (void)fleet_send(member, WIRE_ACTIVATE, wire_encode_activate(&drop, payload), payload);
    }
}

static void on_dropped(struct fleet *fleet, struct member *member, const struct wire_have *have)
{
    if (have->status < 0) /* tried again when the board's next HELLO names it */
        LOG_WARN("fleet", "board %s could not drop a fragment: %s", member->name,
                 have->reason[0] ? have->reason : status_text(have->status));
    note_held(fleet, member, have->hash, 0, false);
    doomed_remove(member, doomed_at(member, have->hash));
    drop_next(member);
    push_begin(fleet, member);
}

int push_on_have(struct fleet *fleet, struct member *member, const struct wire_have *have)
{
    struct push *push = member->pushes;
    if (have->what == WIRE_HAVE_DROPPED)
        on_dropped(fleet, member, have);
    if (have->what == WIRE_HAVE_STORED && have->status >= 0)
        note_held(fleet, member, have->hash, have->valid_bytes, true);
    if (have->what != WIRE_HAVE_STORED || !push ||
        memcmp(have->hash, push->bytes->hash, sizeof have->hash) != 0)
        return 0;
    int status = have->status < 0 ? have->status : 0;
    if (status == 0 && have->valid_bytes != push->bytes->size)
        status = STATUS_HASH_MISMATCH;
    int at = doomed_at(member, have->hash);
    if (at >= member->n_dropping) /* wanted again before it was told */
        doomed_remove(member, at);
    finish(fleet, member, status, status < 0 && have->reason[0] ? have->reason : status_text(status));
    push_begin(fleet, member);
    return 0;
}

static void push_add(void *context)
{
    struct push *push = context;
    struct fleet *fleet = push->fleet;
    struct member *member = member_get(fleet, push->board);
    if (!member || !member->link) {
        push->done(push->context, push->board, push->bytes->hash, STATUS_OFFLINE, "the board is offline", 0);
        bytes_release(fleet, push->bytes);
        free(push);
        return;
    }
    struct push **link = &member->pushes;
    while (*link)
        link = &(*link)->next;
    *link = push;
    push_begin(fleet, member);
}

int fleet_push(struct fleet *fleet, const char *board, const uint8_t hash[WIRE_HASH_BYTES], const void *bytes,
               uint32_t size, fleet_push_fn *done, void *context)
{
    struct push *push = calloc(1, sizeof *push);
    if (!push)
        return STATUS_NO_MEMORY;
    strncpy(push->board, board, sizeof push->board - 1);
    push->fleet = fleet;
    push->done = done;
    push->context = context;
    push->bytes = bytes_share(fleet, hash, bytes, size);
    int status = push->bytes ? fleet_post(fleet, push_add, push) : STATUS_NO_MEMORY;
    if (status < 0) {
        if (push->bytes)
            bytes_release(fleet, push->bytes);
        free(push);
    }
    return status;
}

bool fleet_push_progress(struct fleet *fleet, const char *board, const uint8_t hash[WIRE_HASH_BYTES],
                         uint64_t *bytes, uint64_t *of)
{
    pthread_mutex_lock(&fleet->mutex);
    const struct member *member = member_find(fleet, board);
    bool under_way = member && member->pushing && memcmp(member->push_hash, hash, WIRE_HASH_BYTES) == 0;
    if (under_way) {
        *bytes = member->push_bytes;
        *of = member->push_of;
    }
    pthread_mutex_unlock(&fleet->mutex);
    return under_way;
}

/* ---- what a board is to keep ---- */

struct keep {
    struct fleet *fleet;
    char board[FLEET_ID_BYTES];
    uint32_t n;
    uint8_t hashes[][WIRE_HASH_BYTES];
};

static bool kept(const struct keep *keep, const uint8_t *hash)
{
    for (uint32_t i = 0; i < keep->n; i++)
        if (memcmp(keep->hashes[i], hash, WIRE_HASH_BYTES) == 0)
            return true;
    return false;
}

static void keep_call(void *context)
{
    struct keep *keep = context;
    struct member *member = member_get(keep->fleet, keep->board);
    if (member && member->link) {
        member->n_doomed = member->n_dropping;
        for (int i = 0; i < member->hello.n_held && member->n_doomed < FLEET_HELD_MAX; i++) {
            const uint8_t *hash = member->hello.held[i].hash;
            if (!kept(keep, hash) && !is_pushed(member, hash) && doomed_at(member, hash) == member->n_doomed)
                memcpy(member->doomed[member->n_doomed++], hash, WIRE_HASH_BYTES);
        }
        drop_next(member);
        push_begin(keep->fleet, member);
    }
    free(keep);
}

int fleet_keep(struct fleet *fleet, const char *board, const uint8_t (*hashes)[WIRE_HASH_BYTES], uint32_t n)
{
    struct keep *keep = calloc(1, sizeof *keep + (size_t)n * WIRE_HASH_BYTES);
    if (!keep)
        return STATUS_NO_MEMORY;
    keep->fleet = fleet;
    keep->n = n;
    strncpy(keep->board, board, sizeof keep->board - 1);
    if (n)
        memcpy(keep->hashes, hashes, (size_t)n * WIRE_HASH_BYTES);
    int status = fleet_post(fleet, keep_call, keep);
    if (status < 0)
        free(keep);
    return status;
}
