/*
 * What the files of firmware/core share; private. board.c: life and poll. link.c: frames in and out. run.c:
 * RUN to DONE. store.c: fragments in, verified, loaded, dropped. calibrate.c: K_1.
 */
#ifndef SHOAL_FIRMWARE_CORE_PARTS_H
#define SHOAL_FIRMWARE_CORE_PARTS_H

#include "firmware/core/board.h"

uint64_t board_now(const struct board *board);
void board_log(struct board *board, uint8_t level, int status, const char *text);
bool board_hash_equal(const uint8_t *a, const uint8_t *b);
/* "the text", cut to the room, always terminated. */
void board_text(char *to, uint32_t room, const char *from);

/* end.c: logs once why the link must be closed (board->dead). */
void board_say_end(struct board *board);

/* link.c: each moves a bounded number of frames; true when something moved. Set board->dead on failure. */
bool board_link_send(struct board *board);
bool board_link_receive(struct board *board);

/* run.c */
void board_run_asked(struct board *board, uint32_t inference, const struct wire_run *run);
void board_run_aborted(struct board *board, uint32_t inference);
void board_run_forget(struct board *board); /* the link is gone */
bool board_run_step(struct board *board);   /* true: call again at once */
void board_run_book(struct board *board, enum board_booking booking);
bool board_run_busy(const struct board *board); /* one runs or waits */
/* What a DATA frame is: TAKE it, PARK it, DROP it, or a broken protocol (negative status). */
enum { BOARD_DATA_TAKE, BOARD_DATA_PARK, BOARD_DATA_DROP };
int board_run_judge(const struct board *board, const struct wire_header *header);
/* Puts away what it can from a frame's payload, from byte `taken` on; returns the new `taken`. */
uint32_t board_run_data(struct board *board, const struct wire_header *header, const uint8_t *payload,
                        uint32_t taken);
/* The next DATA frame to send; payload bytes, or -1: none. */
int board_run_next_data(struct board *board, struct wire_header *header, uint8_t *payload);

/* store.c */
void board_store_asked(struct board *board, enum board_request_kind kind, const uint8_t *hash,
                       uint32_t bytes);
int board_store_chunk(struct board *board, const struct wire_header *header, const uint8_t *payload);
void board_store_forget(struct board *board); /* the link is gone */
bool board_store_step(struct board *board);   /* true: call again at once */
/* A run that waits lets requests go first: a while after the end of the one before, if there is work now. */
bool board_store_has_turn(const struct board *board);
/* For a RUN: 1 loaded, 0 not yet (call again), or a negative status. */
int board_store_load(struct board *board, const uint8_t *hash);

#endif
