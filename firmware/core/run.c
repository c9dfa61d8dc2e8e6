/*
 * One RUN from its frame to its answer. The walker steps; POST and SEND fill two rings in the order of the
 * link (ENCODING C2, which the check of the fragment has proved), so what arrives next is always the head of
 * `posts`.
 *
 * Invariants. Each RUN gets exactly one answer. A run begins only when the answer to the one before is on its
 * way. `ended` never falls: DATA with an inference not above it that is not the current one is dropped.
 */
#include "firmware/core/parts.h"

#include <string.h>

enum { STORE_TURN_US = 20000 /* as long as a kernel may take */ };

/* ---- time ---- */

/* The entry of a layer, made when it is new; the last one when all are used. */
static struct wire_time *time_of(struct board *board, uint16_t layer, uint64_t now)
{
    struct wire_done *done = &board->done;
    for (uint32_t i = 0; i < done->n_times;
         i++) { /* layers come round in loops: look near the last one first */
        uint32_t at = (board->last_time + done->n_times - i) % done->n_times;
        if (done->times[at].layer == layer) {
            board->last_time = at;
            return &done->times[at];
        }
    }
    if (done->n_times < BOARD_TIMES_MAX) {
        struct wire_time *new = &done->times[done->n_times++];
        *new = (struct wire_time){.layer = layer, .start_us = (uint32_t)(now - board->run_us)};
    }
    board->last_time = done->n_times - 1u;
    return &done->times[board->last_time];
}

static void add_times(struct wire_time *time, uint64_t us[3])
{
    time->computing_us += (uint32_t)us[BOARD_COMPUTING];
    time->waiting_us += (uint32_t)us[BOARD_WAITING];
    time->moving_us += (uint32_t)us[BOARD_MOVING];
    memset(us, 0, 3 * sizeof *us);
}

/* Books the time since the last booking; before the first known layer it waits. */
static void book_to(struct board *board, uint16_t layer, enum board_booking booking)
{
    uint64_t now = board_now(board), us = now - board->mark_us;
    uint64_t start = board->mark_us;
    board->mark_us = now;
    board->unbooked_us[booking] += us;
    board->done.computing_us += booking == BOARD_COMPUTING ? (uint32_t)us : 0;
    board->done.waiting_us += booking == BOARD_WAITING ? (uint32_t)us : 0;
    board->done.moving_us += booking == BOARD_MOVING ? (uint32_t)us : 0;
    if (layer != FRAGMENT_NONE)
        add_times(time_of(board, layer, start), board->unbooked_us);
}

void board_run_book(struct board *board, enum board_booking booking)
{
    book_to(board, vm_layer(&board->vm), booking);
}

/* ---- transfers ---- */

static struct board_slot *head(struct board_queue *queue)
{
    return &queue->slots[queue->first];
}

static void pop(struct board_queue *queue)
{
    queue->first = (queue->first + 1) % BOARD_SLOTS_MAX;
    queue->n--;
}

static int push(struct board *board, struct board_queue *queue, const struct vm_slot *slot, const char *full)
{
    const struct fragment_transfer *transfer = &board->loaded.transfers[slot->transfer];
    if (slot->bytes == 0)
        return STATUS_OK;
    if (queue->n == BOARD_SLOTS_MAX) {
        board->fault = full;
        return STATUS_RAM_FULL;
    }
    struct board_slot *new = &queue->slots[(queue->first + queue->n++) % BOARD_SLOTS_MAX];
    *new = (struct board_slot){.slot = *slot,
                               .rank = transfer->rank,
                               .id = transfer->id,
                               .total = (uint32_t)fragment_transfer_bytes(transfer)};
    return STATUS_OK;
}

static int io_post(void *context, const struct vm_slot *slot)
{
    struct board *board = context;
    return push(board, &board->posts, slot, "more receives posted at once than the board can hold");
}

static int io_send(void *context, const struct vm_slot *slot)
{
    struct board *board = context;
    return push(board, &board->sends, slot, "more sends queued at once than the board can hold");
}

static int io_wait(void *context, uint32_t rank)
{
    struct board *board = context;
    return (board->posts.n == 0 || head(&board->posts)->rank > rank) &&
           (board->sends.n == 0 || head(&board->sends)->rank > rank);
}

int board_run_judge(const struct board *board, const struct wire_header *header)
{
    if (board->current.inference == 0 || header->inference != board->current.inference) {
        if (header->inference <= board->ended)
            return BOARD_DATA_DROP;
        return header->inference == board->waiting.inference ? BOARD_DATA_PARK : STATUS_WIRE_ORDER;
    }
    if (board->run_state != BOARD_RUN_WALKING || board->posts.n == 0)
        return BOARD_DATA_PARK;
    const struct board_slot *slot = &board->posts.slots[board->posts.first];
    if (header->transfer != slot->id || header->length == 0 || header->offset > slot->total ||
        header->length > slot->total - header->offset ||
        header->offset + board->rx_taken != slot->slot.first + slot->at)
        return STATUS_WIRE_ORDER;
    bool last = header->offset + header->length == slot->total;
    return last == ((header->flags & WIRE_FLAG_LAST) != 0) ? BOARD_DATA_TAKE : STATUS_WIRE_ORDER;
}

uint32_t board_run_data(struct board *board, const struct wire_header *header, const uint8_t *payload,
                        uint32_t taken)
{
    while (taken < header->length && board->posts.n > 0 && head(&board->posts)->id == header->transfer) {
        struct board_slot *slot = head(&board->posts);
        uint32_t left = slot->slot.bytes - slot->at, n = header->length - taken;
        if (n > left)
            n = left;
        vm_slot_put(&slot->slot, slot->at, payload + taken, n, slot->carry);
        slot->at += n;
        taken += n;
        board->done.bytes_received += n;
        if (slot->at == slot->slot.bytes)
            pop(&board->posts);
    }
    return taken;
}

int board_run_next_data(struct board *board, struct wire_header *header, uint8_t *payload)
{
    if (board->run_state != BOARD_RUN_WALKING || board->sends.n == 0)
        return -1;
    struct board_slot *slot = head(&board->sends);
    uint32_t left = slot->slot.bytes - slot->at, n = left < WIRE_PAYLOAD_MAX ? left : WIRE_PAYLOAD_MAX;
    uint32_t offset = slot->slot.first + slot->at;
    vm_slot_get(&slot->slot, slot->at, payload, n);
    *header = (struct wire_header){.type = WIRE_DATA,
                                   .flags = offset + n == slot->total ? WIRE_FLAG_LAST : 0,
                                   .transfer = slot->id,
                                   .inference = board->current.inference,
                                   .offset = offset};
    slot->at += n;
    board->done.bytes_sent += n;
    if (slot->at == slot->slot.bytes)
        pop(&board->sends);
    return (int)n;
}

/* ---- begin and end ---- */

bool board_run_busy(const struct board *board)
{
    return board->run_state != BOARD_RUN_NONE || board->waiting.inference != 0;
}

static void clear_queues(struct board *board)
{
    board->posts.first = board->posts.n = 0;
    board->sends.first = board->sends.n = 0;
}

static void end_current(struct board *board)
{
    if (board->current.inference > board->ended)
        board->ended = board->current.inference;
    if (board->vm.high_water > board->arena_high_water && board->run_state == BOARD_RUN_WALKING)
        board->arena_high_water = board->vm.high_water;
    board->current.inference = 0;
    board->run_state = BOARD_RUN_NONE;
    board->blocked = false;
    board->store_turn_us = board_now(board) + STORE_TURN_US;
    clear_queues(board);
}

static void try_start(struct board *board)
{
    if (board->run_state != BOARD_RUN_NONE || board->waiting.inference == 0 || board->due_done ||
        board->due_failed || board_store_has_turn(board))
        return;
    board->current = board->waiting;
    board->waiting.inference = 0;
    board->run_state = BOARD_RUN_LOADING;
    memset(&board->done, 0, sizeof board->done);
    memset(board->unbooked_us, 0, sizeof board->unbooked_us);
    board->last_time = 0;
    board->run_us = board->mark_us = board_now(board);
    board->fault = NULL;
    board->place = (struct fragment_place){.section = WIRE_NO_SECTION};
}

void board_run_asked(struct board *board, uint32_t inference, const struct wire_run *run)
{
    board->last_run = inference;
    board->waiting.inference = inference;
    memcpy(board->waiting.fragment, run->fragment, WIRE_HASH_BYTES);
    try_start(board);
}

void board_run_aborted(struct board *board, uint32_t inference)
{
    bool current = board->current.inference == inference, waiting = board->waiting.inference == inference;
    if (inference == 0 || (!current && !waiting))
        return; /* answered already, or never asked for: a doubled abort is harmless */
    if (board->n_due_aborted == sizeof board->due_aborted / sizeof board->due_aborted[0]) {
        board->end = "more aborts at once than the board can answer";
        board->dead = STATUS_WIRE_ORDER;
        return;
    }
    board->due_aborted[board->n_due_aborted++] = inference;
    if (current) {
        end_current(board);
    } else {
        board->waiting.inference = 0;
        board->ended = inference > board->ended ? inference : board->ended;
    }
}

void board_run_forget(struct board *board)
{
    end_current(board);
    board->waiting.inference = 0;
    board->last_run = board->ended = 0;
}

static void fail(struct board *board, int status, uint16_t layer)
{
    struct wire_failed *failed = &board->failed;
    *failed = (struct wire_failed){
        .status = status, .section = board->place.section, .record = board->place.record, .layer = layer};
    const char *reason = board->fault != NULL ? board->fault : board->place.reason;
    board_text(failed->reason, sizeof failed->reason, reason != NULL ? reason : status_text(status));
    board->answered = board->current.inference;
    board->due_failed = true;
    end_current(board);
}

static void succeed(struct board *board)
{
    const struct board_hooks *hooks = &board->config.hooks;
    struct wire_done *done = &board->done;
    if (done->n_times > 0)
        add_times(&done->times[board->last_time], board->unbooked_us);
    done->total_us = (uint32_t)(board_now(board) - board->run_us);
    done->arena_high_water = board->vm.high_water;
    done->stack_high_water = hooks->stack_high_water != NULL ? hooks->stack_high_water(hooks->context) : 0;
    board->answered = board->current.inference;
    board->due_done = true;
    end_current(board);
}

/* ---- steps ---- */

static bool step_loading(struct board *board)
{
    int status = board_store_load(board, board->current.fragment);
    if (status < 0)
        fail(board, status, WIRE_NO_LAYER);
    if (status != 1)
        return true;
    struct vm_memory memory = {board->config.arena, board->config.arena_bytes, board->config.resident,
                               &board->tables};
    vm_start(&board->vm, &board->loaded, memory, (struct vm_io){board, io_post, io_send, io_wait});
    board->run_state = BOARD_RUN_WALKING;
    board->blocked = false;
    book_to(board, FRAGMENT_NONE, BOARD_MOVING);
    return true;
}

static bool step_walking(struct board *board)
{
    uint16_t layer = vm_layer(&board->vm);
    int status = vm_step(&board->vm);
    if (status < 0) {
        fail(board, status, layer);
        return true;
    }
    board->blocked = status == VM_WAITING;
    book_to(board, layer, board->blocked ? BOARD_WAITING : BOARD_COMPUTING);
    if (status == VM_DONE)
        succeed(board);
    return !board->blocked;
}

bool board_run_step(struct board *board)
{
    try_start(board);
    switch (board->run_state) {
    case BOARD_RUN_LOADING:
        return step_loading(board);
    case BOARD_RUN_WALKING:
        return step_walking(board);
    default:
        return false;
    }
}
