/*
 * A board in this process: the firmware's core over a link, a clock and a flash that are plain memory. The
 * arena is exactly as large as asked for, between painted guards. One thread may run any number of them.
 */
#ifndef SHOAL_SERVER_SIM_VIRTUAL_BOARD_H
#define SHOAL_SERVER_SIM_VIRTUAL_BOARD_H

#include "firmware/core/board.h"
#include "server/base/error.h"

struct virtual_config {
    const char *name;
    uint32_t arena_bytes, resident_bytes, flash_bytes;
    uint32_t link_bytes; /* that each direction of the link holds; at least WIRE_FRAME_MAX */
    uint64_t clock_hz;
    struct board_clock clock; /* now_us NULL: the host's monotonic clock */
    struct board_hooks hooks;
    const struct board_store
        *store; /* NULL: a flash of plain memory, which virtual_board_store and _image know */
};

struct virtual_board;

/* NULL without memory. The link is up and HELLO on its way. */
struct virtual_board *virtual_board_new(const struct virtual_config *config);
void virtual_board_free(struct virtual_board *board); /* NULL is allowed */

/* Puts an image into the flash as if it had been pushed. 0, STATUS_FLASH_FULL, STATUS_NO_MEMORY. */
int virtual_board_store(struct virtual_board *board, const uint8_t *bytes, uint32_t size,
                        const uint8_t hash[WIRE_HASH_BYTES]);
/* Flash as it is, for tests that damage it: the image's bytes, NULL when it is not held. */
uint8_t *virtual_board_image(struct virtual_board *board, const uint8_t hash[WIRE_HASH_BYTES]);

/* The server's end of the link. send: true, or false when the link is full. receive: payload bytes, or -1:
 * nothing. */
bool virtual_board_send(struct virtual_board *board, const struct wire_header *header,
                        const uint8_t *payload);
int virtual_board_receive(struct virtual_board *board, struct wire_header *header,
                          uint8_t payload[WIRE_PAYLOAD_MAX]);
bool virtual_board_room(const struct virtual_board *board); /* one more frame can be sent */
/* Bytes as they come, for fuzzing; returns how many fitted. */
uint32_t virtual_board_send_raw(struct virtual_board *board, const uint8_t *bytes, uint32_t n);
void virtual_board_cut(struct virtual_board *board); /* the link breaks: what was on it is lost */
void virtual_board_reconnect(struct virtual_board *board);
/* board_poll; moved says whether it may be called again at once. */
int virtual_board_poll(struct virtual_board *board, bool *busy);
/* True while nothing outside the arena and the resident RAM was written. */
bool virtual_board_guards_intact(const struct virtual_board *board);
struct board *virtual_board_core(struct virtual_board *board);

#endif
