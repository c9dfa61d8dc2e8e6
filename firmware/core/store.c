/*
 * Fragments: pulled, verified, loaded, dropped (ENCODING C7). Requests of the server are done one after
 * another; each ends in one HAVE. A pull asks for what is missing in the order of the image: the front with
 * the slice table, then slice by slice, copied from a fragment that the board already holds where one has the
 * same content.
 *
 * Invariants. A fragment is in `verified` only when its hash and its bounds were checked since reset; only
 * such a one is loaded. Nothing is done here while a run is under way; between two runs that follow each
 * other at once requests have a turn, so that inferences without end do not keep a fragment from coming. Work
 * is cut into pieces of 64 KB.
 */
#include "firmware/core/parts.h"

#include "firmware/core/sha256.h"

#include <string.h>

enum { PIECE = 65536, COPY_PIECE = 4096, CHECK_PIECE = 10000 };
enum {
    WANT_BETWEEN_RUNS =
        16384 /* is written to the flash during the next run, which it must not hold up long */
};
enum {
    LOOK_MAX = 16000000, /* steps of one look for something to copy: some 50 M instructions */
    MISMATCHES_MAX = 4,
    RESTARTS_MAX = 4
};

static const struct board_store *store_of(const struct board *board)
{
    return &board->config.store;
}

static bool held(const struct board *board, const uint8_t *hash, const uint8_t **bytes, uint32_t *size)
{
    return store_of(board)->find(store_of(board)->context, hash, bytes, size) == 0;
}

/* ---- requests ---- */

void board_store_asked(struct board *board, enum board_request_kind kind, const uint8_t *hash, uint32_t bytes)
{
    if (board->n_requests == BOARD_REQUESTS_MAX) {
        board_log(board, WIRE_LEVEL_WARNING, STATUS_BUSY,
                  "too many requests for fragments at once; one was dropped");
        return;
    }
    struct board_request *request = &board->requests[board->n_requests++];
    *request = (struct board_request){.kind = kind, .bytes = bytes};
    memcpy(request->hash, hash, WIRE_HASH_BYTES);
}

/* Ends requests[0] with its HAVE. */
static void answer(struct board *board, uint8_t what, uint32_t valid, int status)
{
    struct wire_have *have = &board->have;
    *have = (struct wire_have){.what = what,
                               .valid_bytes = valid,
                               .copied_bytes = board->pull.copied,
                               .status = status,
                               .section = board->place.section,
                               .record = board->place.record};
    memcpy(have->hash, board->requests[0].hash, WIRE_HASH_BYTES);
    const char *reason = board->place.reason != NULL ? board->place.reason : status_text(status);
    board_text(have->reason, sizeof have->reason, status < 0 ? reason : "");
    board->due_have = true;
    board->pull.active = false;
    board->pull.copied = 0;
    board->n_requests--;
    memmove(board->requests, board->requests + 1, board->n_requests * sizeof board->requests[0]);
}

static void clear_place(struct board *board)
{
    board->place = (struct fragment_place){.section = WIRE_NO_SECTION};
}

void board_store_forget(struct board *board)
{
    board->n_requests = 0;
    board->pull.active = board->verify.active = board->check.active = false;
}

/* ---- verified and loaded ---- */

static bool is_verified(const struct board *board, const uint8_t *hash)
{
    for (uint32_t i = 0; i < board->n_verified; i++)
        if (board_hash_equal(board->verified[i], hash))
            return true;
    return false;
}

static void note_verified(struct board *board, const uint8_t *hash)
{
    if (is_verified(board, hash))
        return;
    if (board->n_verified == BOARD_FRAGMENTS_MAX) {
        board->n_verified--;
        memmove(board->verified[0], board->verified[1], board->n_verified * sizeof board->verified[0]);
    }
    memcpy(board->verified[board->n_verified++], hash, WIRE_HASH_BYTES);
}

/* Its hash was right, its bounds are being checked. */
static bool is_checking(const struct board *board, const uint8_t *hash)
{
    return board->check.active && board_hash_equal(board->check.hash, hash);
}

/* The image is gone, or no longer what it was. */
static void forget_image(struct board *board, const uint8_t *hash)
{
    if (board->is_loaded && board_hash_equal(board->loaded_hash, hash))
        board->is_loaded = false;
    if (board->verify.active && board_hash_equal(board->verify.hash, hash))
        board->verify.active = false;
    if (is_checking(board, hash))
        board->check.active = false;
    board->pull.copy = NULL;
    for (uint32_t i = 0; i < board->n_verified; i++)
        if (board_hash_equal(board->verified[i], hash)) {
            board->n_verified--;
            memmove(board->verified[i], board->verified[i + 1],
                    (board->n_verified - i) * sizeof board->verified[0]);
            return;
        }
}

static int remove_image(struct board *board, const uint8_t *hash)
{
    forget_image(board, hash);
    return store_of(board)->remove(store_of(board)->context, hash);
}

/* Hashes the image in the flash piece by piece. 1 it is right, 0 call again, or a negative status. */
static int verify(struct board *board, const uint8_t *hash)
{
    struct board_verify *v = &board->verify;
    if (!v->active || !board_hash_equal(v->hash, hash)) {
        memset(v, 0, sizeof *v);
        if (!held(board, hash, &v->bytes, &v->size))
            return STATUS_FRAGMENT_UNKNOWN;
        memcpy(v->hash, hash, WIRE_HASH_BYTES);
        board_sha256_begin(&v->sha);
        v->active = true;
    }
    uint32_t n = v->size - v->at < PIECE ? v->size - v->at : PIECE;
    board_sha256_add(&v->sha, v->bytes + v->at, n);
    v->at += n;
    if (v->at < v->size)
        return 0;
    uint8_t found[32];
    board_sha256_end(&v->sha, found);
    v->active = false;
    return board_hash_equal(found, hash) ? 1 : STATUS_HASH_MISMATCH;
}

/* Whether the board can run an image: form and memory; the bounds are then to be checked. */
static int check_begin(struct board *board, const uint8_t *hash, const uint8_t *bytes, uint32_t size)
{
    struct board_check *check = &board->check;
    int status = fragment_open(&check->fragment, bytes, size, &board->place);
    if (status < 0)
        return status;
    const struct fragment_header *header = check->fragment.header;
    if (header->image_bytes != size) {
        board->place.reason = "the image has another size than it states";
        return STATUS_FRAGMENT_MALFORMED;
    }
    if (header->arena_bytes > board->config.arena_bytes) {
        board->place.reason = "its arena is larger than the board's";
        return STATUS_RAM_FULL;
    }
    if (header->resident_bytes > board->config.resident_bytes) {
        board->place.reason = "its resident weights are more than the board has room for";
        return STATUS_RAM_FULL;
    }
    memcpy(check->hash, hash, WIRE_HASH_BYTES);
    return vm_check_start(&check->state, &check->fragment, board->config.arena_bytes, &board->place);
}

/* Piece by piece: 1 the image may run, 0 call again, or a negative status. Fills board->place. */
static int check_image(struct board *board, const uint8_t *hash, const uint8_t *bytes, uint32_t size)
{
    struct board_check *check = &board->check;
    if (!is_checking(board, hash)) {
        int status = check_begin(board, hash, bytes, size);
        check->active = status == STATUS_OK;
        return status;
    }
    int status = vm_check_step(&check->state, CHECK_PIECE, &board->place);
    check->active = status == VM_RAN;
    return status == VM_RAN ? 0 : status < 0 ? status : 1;
}

static int copy_resident(struct board *board, const struct fragment *fragment)
{
    for (uint32_t i = 0; i < fragment->n_slices; i++) {
        const struct fragment_slice *slice = &fragment->slices[i];
        if (slice->resident_offset == UINT32_MAX)
            continue;
        if (slice->resident_offset > board->config.resident_bytes ||
            slice->total_bytes > board->config.resident_bytes - slice->resident_offset) {
            board->place =
                (struct fragment_place){(uint16_t)i, FRAGMENT_SLICES, "resident outside the RAM for it"};
            return STATUS_RAM_FULL;
        }
        memcpy(board->config.resident + slice->resident_offset, fragment->weights + slice->offset,
               slice->total_bytes);
    }
    return STATUS_OK;
}

int board_store_load(struct board *board, const uint8_t *hash)
{
    const uint8_t *bytes;
    uint32_t size;
    if (board->is_loaded && board_hash_equal(board->loaded_hash, hash))
        return 1;
    if (!held(board, hash, &bytes, &size))
        return STATUS_FRAGMENT_UNKNOWN;
    if (!is_verified(board, hash)) {
        int status = is_checking(board, hash) ? 1 : verify(board, hash);
        if (status == 1)
            status = check_image(board, hash, bytes, size);
        if (status != 1)
            return status;
        note_verified(board, hash);
    }
    board->is_loaded = false;
    clear_place(board);
    int status = fragment_open(&board->loaded, bytes, size, &board->place);
    if (status == STATUS_OK)
        status = copy_resident(board, &board->loaded);
    if (status < 0)
        return status;
    memcpy(board->loaded_hash, hash, WIRE_HASH_BYTES);
    board->is_loaded = true;
    return 1;
}

/* ---- pull ---- */

static void want(struct board *board, uint32_t end)
{
    struct board_pull *pull = &board->pull;
    if (end > pull->size)
        end = pull->size;
    uint32_t most = board->waiting.inference != 0 ? WANT_BETWEEN_RUNS : WIRE_WANT_MAX;
    if (end - pull->valid > most)
        end = pull->valid + most;
    pull->wanted_end = end;
    board->want = (struct wire_want){.offset = pull->valid, .length = end - pull->valid};
    memcpy(board->want.hash, pull->hash, WIRE_HASH_BYTES);
    board->due_want = true;
}

static uint32_t images_held(const struct board *board)
{
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t n = 0, bytes;
    while (n < BOARD_FRAGMENTS_MAX && store_of(board)->list(store_of(board)->context, n, hash, &bytes) == 0)
        n++;
    return n;
}

static uint32_t room_of(const struct board *board)
{
    const struct board_store *store = store_of(board);
    return store->capacity(store->context) - store->used(store->context);
}

static void pull_begin(struct board *board, const struct board_request *request)
{
    struct board_pull *pull = &board->pull;
    memset(pull, 0, sizeof *pull);
    pull->size = request->bytes;
    memcpy(pull->hash, request->hash, WIRE_HASH_BYTES);
    int status = STATUS_FLASH_FULL;
    if (request->bytes < sizeof(struct fragment_header))
        status = STATUS_FRAGMENT_MALFORMED;
    else if (images_held(board) < BOARD_FRAGMENTS_MAX)
        status = store_of(board)->begin(store_of(board)->context, pull->hash, pull->size, &pull->valid);
    if (status == STATUS_OK && pull->valid > pull->size)
        status = STATUS_STORE_FAILED;
    if (status == STATUS_FLASH_FULL && room_of(board) >= request->bytes)
        board->place.reason = "the flash has the room, but in pieces: drop another fragment first";
    if (status < 0)
        answer(board, WIRE_HAVE_STORED, 0, status);
    else
        pull->active = true;
}

/* Whether each of `n` slices can be looked for in all that is held (whose records are read each time) without
 * keeping the link waiting. */
static bool slices_few_enough(const struct board *board, uint32_t n)
{
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size, records = 0;
    const uint8_t *bytes;
    for (uint32_t i = 0; store_of(board)->list(store_of(board)->context, i, hash, &size) == 0; i++) {
        if (!held(board, hash, &bytes, &size) || size < sizeof(struct fragment_header))
            continue;
        const struct fragment_header *header = (const struct fragment_header *)(const void *)bytes;
        uint32_t front = header->section[FRAGMENT_WEIGHTS].offset;
        records += (front < size ? front : size) / FRAGMENT_ALIGN;
    }
    return n == 0 || records <= LOOK_MAX / n;
}

/* Where the weights begin, from the header in the flash. What does not look right is simply wanted whole: the
 * check at the end will name what is wrong. */
static void read_front(struct board *board)
{
    struct board_pull *pull = &board->pull;
    struct fragment_header header;
    pull->front = pull->size;
    if (store_of(board)->read(store_of(board)->context, 0, (uint8_t *)&header, sizeof header) < 0)
        return;
    uint32_t weights = header.section[FRAGMENT_WEIGHTS].offset,
             table = header.section[FRAGMENT_SLICES].offset, n = header.section[FRAGMENT_SLICES].count;
    if (header.image_bytes != pull->size || weights < sizeof header || weights > pull->size ||
        table > weights || n > (weights - table) / sizeof(struct fragment_slice))
        return;
    pull->front = weights;
    pull->slices = table;
    pull->n_slices = slices_few_enough(board, n) ? n : 0;
}

/* The same content in a fragment that the board holds, hashed anew: flash may have changed. */
static const uint8_t *find_slice(struct board *board, const struct fragment_slice *slice)
{
    uint8_t hash[WIRE_HASH_BYTES], found[32];
    uint32_t size;
    const uint8_t *bytes;
    struct fragment_place place;
    struct fragment other;
    for (uint32_t i = 0; store_of(board)->list(store_of(board)->context, i, hash, &size) == 0; i++) {
        if (!held(board, hash, &bytes, &size) || fragment_open(&other, bytes, size, &place) < 0)
            continue;
        for (uint32_t s = 0; s < other.n_slices; s++) {
            if (other.slices[s].total_bytes != slice->total_bytes ||
                !board_hash_equal(other.slices[s].sha256, slice->sha256))
                continue;
            struct board_sha256 sha;
            board_sha256_begin(&sha);
            board_sha256_add(&sha, other.weights + other.slices[s].offset, slice->total_bytes);
            board_sha256_end(&sha, found);
            if (board_hash_equal(found, slice->sha256))
                return other.weights + other.slices[s].offset;
            if (++board->pull.mismatches == MISMATCHES_MAX) { /* each costs a hash: no more of them */
                board->pull.n_slices = 0;
                return NULL;
            }
        }
    }
    return NULL;
}

/* The first slice at or after pull->valid that can be copied: its start, or the image's end. */
static uint32_t next_copy(struct board *board, const uint8_t **from, uint32_t *bytes)
{
    const struct board_pull *pull = &board->pull;
    uint32_t best = pull->size;
    for (uint32_t i = 0; i < pull->n_slices; i++) {
        struct fragment_slice slice;
        uint32_t at = pull->slices + i * (uint32_t)sizeof slice;
        if (store_of(board)->read(store_of(board)->context, at, (uint8_t *)&slice, sizeof slice) < 0)
            return pull->size;
        uint32_t room = pull->size - pull->front;
        if (slice.total_bytes == 0 || slice.offset > room || slice.total_bytes > room - slice.offset)
            continue;
        uint32_t start = pull->front + slice.offset;
        if (start < pull->valid || start >= best)
            continue;
        const uint8_t *found = find_slice(board, &slice);
        if (found == NULL)
            continue;
        best = start;
        *from = found;
        *bytes = slice.total_bytes;
    }
    return best;
}

static int put(struct board *board, const uint8_t *bytes, uint32_t n)
{
    int status = store_of(board)->write(store_of(board)->context, board->pull.valid, bytes, n);
    if (status == STATUS_OK)
        board->pull.valid += n;
    return status;
}

static int copy_some(struct board *board)
{
    struct board_pull *pull = &board->pull;
    uint32_t n = pull->copy_left < COPY_PIECE ? pull->copy_left : COPY_PIECE;
    int status = put(board, pull->copy, n);
    pull->copied += n;
    pull->copy_left -= n;
    pull->copy = pull->copy_left > 0 ? pull->copy + n : NULL;
    return status;
}

/* After a write that failed: a store that knows the block now gives another place, where the image begins
 * anew. 0, or the status to be told. */
static int restart(struct board *board, int status)
{
    struct board_pull *pull = &board->pull;
    const struct board_pull former = *pull;
    if (status != STATUS_IO_FAILED || former.restarts == RESTARTS_MAX)
        return status;
    *pull = (struct board_pull){.active = true,
                                .size = former.size,
                                .restarts = former.restarts + 1,
                                .mismatches = former.mismatches};
    memcpy(pull->hash, former.hash, WIRE_HASH_BYTES);
    status = store_of(board)->begin(store_of(board)->context, pull->hash, pull->size, &pull->valid);
    if (status == STATUS_OK)
        board_log(board, WIRE_LEVEL_WARNING, STATUS_IO_FAILED,
                  "a block of the flash failed: the fragment is written to another place");
    return status == STATUS_OK && pull->valid > pull->size ? STATUS_STORE_FAILED : status;
}

/* What lies between two slices is zero: not worth a question. */
static int pull_weights(struct board *board)
{
    static const uint8_t zeros[FRAGMENT_ALIGN];
    struct board_pull *pull = &board->pull;
    const uint8_t *from = NULL;
    uint32_t bytes = 0, start = next_copy(board, &from, &bytes);
    if (start == pull->size || start - pull->valid >= FRAGMENT_ALIGN || pull->valid == pull->front) {
        if (start == pull->valid && from != NULL) {
            pull->copy = from;
            pull->copy_left = bytes;
        } else {
            want(board, start);
        }
        return STATUS_OK;
    }
    int status = start > pull->valid ? put(board, zeros, start - pull->valid) : STATUS_OK;
    pull->copy = from;
    pull->copy_left = bytes;
    return status;
}

/* Commits, then checks piece by piece. */
static int pull_finish(struct board *board)
{
    struct board_pull *pull = &board->pull;
    const uint8_t *bytes;
    uint32_t size;
    if (!pull->committed) {
        clear_place(board);
        int status = store_of(board)->commit(store_of(board)->context);
        pull->committed = status == STATUS_OK;
        return status;
    }
    if (!held(board, pull->hash, &bytes, &size))
        return STATUS_STORE_FAILED;
    int status = check_image(board, pull->hash, bytes, size);
    if (status == 0)
        return STATUS_OK;
    if (status < 0) {
        remove_image(board, pull->hash);
        return status;
    }
    note_verified(board, pull->hash);
    answer(board, WIRE_HAVE_STORED, size, STATUS_OK);
    return STATUS_OK;
}

static void pull_step(struct board *board)
{
    struct board_pull *pull = &board->pull;
    int status = STATUS_OK;
    if (pull->front == 0 && pull->valid >= sizeof(struct fragment_header))
        read_front(board);
    if (pull->copy != NULL)
        status = copy_some(board);
    else if (pull->valid == pull->size)
        status = pull_finish(board);
    else if (pull->valid < sizeof(struct fragment_header))
        want(board, sizeof(struct fragment_header));
    else if (pull->valid < pull->front)
        want(board, pull->front);
    else
        status = pull_weights(board);
    if (status < 0)
        status = restart(board, status);
    if (status < 0)
        answer(board, WIRE_HAVE_STORED, 0, status);
}

int board_store_chunk(struct board *board, const struct wire_header *header, const uint8_t *payload)
{
    struct board_pull *pull = &board->pull;
    bool last = (header->flags & WIRE_FLAG_LAST) != 0;
    if (board->swallow) {
        board->swallow = !last;
        return STATUS_OK;
    }
    if (!pull->active || pull->wanted_end == 0)
        return STATUS_WIRE_ORDER;
    if (header->length == 0 && last) { /* the server no longer has it */
        pull->wanted_end = 0;
        answer(board, WIRE_HAVE_STORED, pull->valid, STATUS_NOT_FOUND);
        return STATUS_OK;
    }
    if (header->offset != pull->valid || header->length == 0 ||
        header->length > pull->wanted_end - pull->valid ||
        last != (header->length == pull->wanted_end - pull->valid))
        return STATUS_WIRE_ORDER;
    int status = put(board, payload, header->length);
    if (last)
        pull->wanted_end = 0;
    if (status == STATUS_OK)
        return status;
    board->swallow = !last;
    status = restart(board, status);
    if (status < 0)
        answer(board, WIRE_HAVE_STORED, pull->valid, status);
    return STATUS_OK;
}

/* ---- requests, step by step ---- */

/* Held: the echo is a hash of what is in the flash now. Else it is pulled. */
static void step_offer(struct board *board, const struct board_request *request)
{
    const uint8_t *bytes;
    uint32_t size;
    if (board->pull.active) {
        pull_step(board);
        return;
    }
    clear_place(board);
    if (!held(board, request->hash, &bytes, &size)) {
        pull_begin(board, request);
        return;
    }
    int status = verify(board, request->hash);
    if (status == 0)
        return;
    if (status < 0)
        remove_image(board, request->hash);
    answer(board, WIRE_HAVE_STORED, status < 0 ? 0 : size, status < 0 ? status : STATUS_OK);
}

static void step_activate(struct board *board, const struct board_request *request)
{
    clear_place(board);
    int status = board_store_load(board, request->hash);
    if (status == 0)
        return;
    answer(board, WIRE_HAVE_ACTIVE, status == 1 ? board->loaded.header->image_bytes : 0,
           status < 0 ? status : STATUS_OK);
}

static void step_drop(struct board *board, const struct board_request *request)
{
    clear_place(board);
    int status = remove_image(board, request->hash);
    answer(board, WIRE_HAVE_DROPPED, 0, status == STATUS_NOT_FOUND ? STATUS_OK : status);
}

/* Whether there is work that waits for nothing from the link. */
static bool has_work(const struct board *board)
{
    bool awaits_chunk = board->pull.active && (board->pull.wanted_end > 0 || board->swallow);
    return board->n_requests > 0 && !board->due_have && !awaits_chunk;
}

bool board_store_has_turn(const struct board *board)
{
    return has_work(board) && board_now(board) < board->store_turn_us;
}

bool board_store_step(struct board *board)
{
    if (board->run_state != BOARD_RUN_NONE || !has_work(board))
        return false;
    const struct board_request request = board->requests[0];
    switch (request.kind) {
    case BOARD_REQUEST_OFFER:
        step_offer(board, &request);
        break;
    case BOARD_REQUEST_ACTIVATE:
        step_activate(board, &request);
        break;
    default:
        step_drop(board, &request);
    }
    return true;
}
