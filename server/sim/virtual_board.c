/*
 * Two byte rings are the link. The board's end keeps the contract of struct board_transport: send takes all
 * of a frame or nothing, recv any number of bytes.
 */
#include "server/sim/virtual_board.h"

#include "server/base/clock.h"
#include "server/sim/memory_store.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256, GUARD_PAINT = 0xC3 };

struct ring {
    uint8_t *bytes;
    uint32_t size, first, n;
};

struct virtual_board {
    struct board core;
    struct memory_store store;
    struct ring down, up; /* to the board, from the board */
    bool cut;
    uint8_t *memory; /* guard, arena, guard, resident, guard */
    uint32_t arena_bytes, resident_bytes;
};

static bool ring_open(struct ring *ring, uint32_t size)
{
    ring->size = size;
    ring->bytes = malloc(size);
    return ring->bytes != NULL;
}

static void ring_put(struct ring *ring, const uint8_t *bytes, uint32_t n)
{
    uint32_t at = (ring->first + ring->n) % ring->size, straight = ring->size - at < n ? ring->size - at : n;
    memcpy(ring->bytes + at, bytes, straight);
    memcpy(ring->bytes, bytes + straight, n - straight);
    ring->n += n;
}

static void ring_peek(const struct ring *ring, uint8_t *bytes, uint32_t n)
{
    uint32_t straight = ring->size - ring->first < n ? ring->size - ring->first : n;
    memcpy(bytes, ring->bytes + ring->first, straight);
    memcpy(bytes + straight, ring->bytes, n - straight);
}

static void ring_take(struct ring *ring, uint32_t n)
{
    ring->first = (ring->first + n) % ring->size;
    ring->n -= n;
}

/* ---- the board's end ---- */

static int32_t transport_send(void *context, const uint8_t *bytes, uint32_t n)
{
    struct virtual_board *board = context;
    if (board->cut)
        return STATUS_OFFLINE;
    if (n > board->up.size - board->up.n)
        return 0;
    ring_put(&board->up, bytes, n);
    return (int32_t)n;
}

static int32_t transport_recv(void *context, uint8_t *bytes, uint32_t n)
{
    struct virtual_board *board = context;
    if (board->cut)
        return STATUS_OFFLINE;
    if (n > board->down.n)
        n = board->down.n;
    ring_peek(&board->down, bytes, n);
    ring_take(&board->down, n);
    return (int32_t)n;
}

static uint64_t host_now(void *context)
{
    (void)context;
    return clock_monotonic_us();
}

/* ---- life ---- */

static uint32_t rounded(uint32_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static uint8_t *arena_of(const struct virtual_board *board)
{
    return board->memory + GUARD_BYTES;
}

static uint8_t *resident_of(const struct virtual_board *board)
{
    return board->memory + 2 * GUARD_BYTES + rounded(board->arena_bytes);
}

static size_t memory_bytes(const struct virtual_board *board)
{
    return 3 * GUARD_BYTES + (size_t)rounded(board->arena_bytes) + rounded(board->resident_bytes);
}

static int start(struct virtual_board *board, const struct virtual_config *config)
{
    struct board_config core = {
        .transport = {board, transport_send, transport_recv},
        .clock = config->clock,
        .store = memory_store_open(&board->store, config->flash_bytes),
        .hooks = config->hooks,
        .kind = WIRE_KIND_HOST,
        .name = config->name,
        .firmware = "virtual",
        .reset_reason = "start",
        .clock_hz = config->clock_hz,
        .flash_erase_bytes = 4096,
        .arena = arena_of(board),
        .arena_bytes = board->arena_bytes,
        .resident = resident_of(board),
        .resident_bytes = board->resident_bytes,
        .regions = {{"arena", board->arena_bytes, 0}, {"weights", board->resident_bytes, 0}},
        .n_regions = 2};
    if (config->store != NULL)
        core.store = *config->store;
    if (core.clock.now_us == NULL)
        core.clock.now_us = host_now;
    return board_init(&board->core, &core);
}

struct virtual_board *virtual_board_new(const struct virtual_config *config)
{
    struct virtual_board *board = calloc(1, sizeof *board);
    uint32_t link = config->link_bytes < WIRE_FRAME_MAX ? WIRE_FRAME_MAX : config->link_bytes;
    if (board == NULL)
        return NULL;
    board->arena_bytes = config->arena_bytes;
    board->resident_bytes = config->resident_bytes;
    board->memory = aligned_alloc(16, memory_bytes(board));
    if (board->memory != NULL)
        memset(board->memory, GUARD_PAINT, memory_bytes(board));
    if (board->memory == NULL || !ring_open(&board->down, link) || !ring_open(&board->up, link) ||
        start(board, config) < 0) {
        virtual_board_free(board);
        return NULL;
    }
    board_connected(&board->core);
    return board;
}

void virtual_board_free(struct virtual_board *board)
{
    if (board == NULL)
        return;
    memory_store_close(&board->store);
    free(board->down.bytes);
    free(board->up.bytes);
    free(board->memory);
    free(board);
}

int virtual_board_store(struct virtual_board *board, const uint8_t *bytes, uint32_t size,
                        const uint8_t hash[WIRE_HASH_BYTES])
{
    return memory_store_add(&board->store, bytes, size, hash);
}

uint8_t *virtual_board_image(struct virtual_board *board, const uint8_t hash[WIRE_HASH_BYTES])
{
    for (int i = 0; i < MEMORY_STORE_IMAGES; i++)
        if (board->store.images[i].bytes != NULL &&
            memcmp(board->store.images[i].hash, hash, WIRE_HASH_BYTES) == 0)
            return board->store.images[i].bytes;
    return NULL;
}

struct board *virtual_board_core(struct virtual_board *board)
{
    return &board->core;
}

static bool painted(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != GUARD_PAINT)
            return false;
    return true;
}

bool virtual_board_guards_intact(const struct virtual_board *board)
{
    const uint8_t *arena = arena_of(board), *resident = resident_of(board);
    return painted(board->memory, GUARD_BYTES) &&
           painted(arena + board->arena_bytes, (size_t)(resident - arena) - board->arena_bytes) &&
           painted(resident + board->resident_bytes,
                   memory_bytes(board) - (size_t)(resident - board->memory) - board->resident_bytes);
}

/* ---- the server's end ---- */

bool virtual_board_room(const struct virtual_board *board)
{
    return board->down.size - board->down.n >= WIRE_FRAME_MAX;
}

bool virtual_board_send(struct virtual_board *board, const struct wire_header *header, const uint8_t *payload)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    if (board->down.size - board->down.n < WIRE_HEADER_BYTES + header->length)
        return false;
    wire_header_put(header, bytes);
    ring_put(&board->down, bytes, sizeof bytes);
    if (header->length > 0)
        ring_put(&board->down, payload, header->length);
    return true;
}

uint32_t virtual_board_send_raw(struct virtual_board *board, const uint8_t *bytes, uint32_t n)
{
    uint32_t room = board->down.size - board->down.n;
    if (n > room)
        n = room;
    ring_put(&board->down, bytes, n);
    return n;
}

int virtual_board_receive(struct virtual_board *board, struct wire_header *header,
                          uint8_t payload[WIRE_PAYLOAD_MAX])
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    if (board->up.n < WIRE_HEADER_BYTES)
        return -1;
    ring_peek(&board->up, bytes, sizeof bytes);
    if (wire_header_get(bytes, header) < 0 || board->up.n < WIRE_HEADER_BYTES + header->length)
        return -1;
    ring_take(&board->up, WIRE_HEADER_BYTES);
    ring_peek(&board->up, payload, header->length);
    ring_take(&board->up, header->length);
    return (int)header->length;
}

void virtual_board_cut(struct virtual_board *board)
{
    board->cut = true;
    board->down.n = board->up.n = 0;
    board_disconnected(&board->core);
}

void virtual_board_reconnect(struct virtual_board *board)
{
    board->cut = false;
    board_connected(&board->core);
}

int virtual_board_poll(struct virtual_board *board, bool *busy)
{
    uint32_t sleep_us;
    int status = board_poll(&board->core, &sleep_us);
    *busy = status == 0 && sleep_us == 0;
    return status;
}
