/* Child processes of shoal-board for tests. */
#include "tests/support/board_process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64], program[512];

int board_process_root(const char *prefix)
{
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 32);
    snprintf(root, sizeof root, "/tmp/%s-XXXXXX", prefix);
    if (n <= 0 || mkdtemp(root) == NULL) {
        return -1;
    }
    program[n] = 0;
    for (int up = 0; up < 2; up++) { /* build/tests/x to build */
        *strrchr(program, '/') = 0;
    }
    strcat(program, "/shoal-board");
    return 0;
}

const char *board_process_folder(void)
{
    return root;
}

void board_process_root_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0) {
        print_message("%s is left\n", root);
    }
}

void board_process_argument(struct board_process *b, const char *name, const char *value)
{
    assert_true(b->argc + 3 < BOARD_ARGUMENTS_MAX);
    b->argv[b->argc++] = strdup(name);
    b->argv[b->argc++] = strdup(value);
    b->argv[b->argc] = NULL;
}

void board_process_prepare(struct board_process *b, const char *server, const char *name)
{
    memset(b, 0, sizeof *b);
    snprintf(b->state, sizeof b->state, "%s/%s", root, name);
    snprintf(b->errors, sizeof b->errors, "%s/%s.log", root, name);
    b->argv[b->argc++] = strdup(program);
    board_process_argument(b, "--server", server);
    board_process_argument(b, "--state", b->state);
}

/* The board ends with the test, however that ends. */
void board_process_begin(struct board_process *b)
{
    int fd = open(b->errors, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    pid_t parent = getpid();
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && dup2(fd, 1) == 1 && dup2(fd, 2) == 2) {
            execv(program, b->argv);
        }
        _exit(127);
    }
    close(fd);
}

void board_process_discard(struct board_process *b)
{
    for (int i = 0; i < b->argc; i++) {
        free(b->argv[i]);
    }
    b->argc = 0;
}

/* Waits for the end; its exit status. */
int board_process_end(struct board_process *b)
{
    int status = 0;
    for (int i = 0; i < 3000; i++) {
        if (waitpid(b->pid, &status, WNOHANG) == b->pid) {
            b->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
        }
        poll(NULL, 0, 10);
    }
    kill(b->pid, SIGKILL);
    fail_msg("the board did not end");
    return -1;
}

void board_process_stop(struct board_process *b)
{
    kill(b->pid, SIGTERM);
    assert_int_equal(0, board_process_end(b));
    board_process_discard(b);
}

void board_process_kill(struct board_process *b)
{
    kill(b->pid, SIGKILL);
    assert_int_equal(1000 + SIGKILL, board_process_end(b));
}

/* How often `text` stands in what the board said. */
int board_process_said(const struct board_process *b, const char *text)
{
    static char all[65536];
    int count = 0, fd = open(b->errors, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, all, sizeof all - 1);
    close(fd);
    all[n < 0 ? 0 : n] = 0;
    for (const char *at = all; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

void board_process_await(const struct board_process *b, const char *text, int least)
{
    for (int i = 0; i < BOARD_WAIT_MS / 10; i++) {
        if (board_process_said(b, text) >= least) {
            return;
        }
        poll(NULL, 0, 10);
    }
    char command[256];
    snprintf(command, sizeof command, "cat %s", b->errors);
    if (system(command) != 0) {
        print_message("nothing was said\n");
    }
    fail_msg("the board did not say \"%s\"", text);
}
