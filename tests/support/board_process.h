/*
 * shoal-board as a child process of a test: started with a state folder under one root, its messages in a
 * file. All functions end the test when something fails.
 */
#ifndef SHOAL_TESTS_SUPPORT_BOARD_PROCESS_H
#define SHOAL_TESTS_SUPPORT_BOARD_PROCESS_H

#include <sys/types.h>

enum { BOARD_ARGUMENTS_MAX = 24, BOARD_WAIT_MS = 30000 };

/* A board's process and what it wrote. */
struct board_process {
    pid_t pid;
    char state[128], errors[160];
    char *argv[BOARD_ARGUMENTS_MAX];
    int argc;
};

/* Finds the program beside the test's folder and makes a folder for all states. -1: cannot. */
int board_process_root(const char *prefix);
void board_process_root_remove(void);
const char *board_process_folder(void);

/* Not yet started: --server and --state are set. */
void board_process_prepare(struct board_process *b, const char *server, const char *name);
void board_process_argument(struct board_process *b, const char *name, const char *value);
void board_process_begin(struct board_process *b);
/* Waits for the end: its exit status, or 1000 + the signal. */
int board_process_end(struct board_process *b);
void board_process_discard(struct board_process *b); /* frees the arguments */
void board_process_stop(struct board_process *b);    /* SIGTERM, must exit with 0; discards */
void board_process_kill(struct board_process *b);    /* SIGKILL */
/* How often `text` stands in what the board said; waits until it is at least that. */
int board_process_said(const struct board_process *b, const char *text);
void board_process_await(const struct board_process *b, const char *text, int least);

#endif
