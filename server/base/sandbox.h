/*
 * A limited child process for work on bytes from strangers: models and images are decoded in it. The child is
 * a re-exec of the running binary (/proc/self/exe) with a hidden first argument, never a bare fork: the
 * server has threads. It has 512 MB of address space, 10 s of CPU, four descriptors, no files to write, and a
 * seccomp list that knows reading, writing and memory and nothing else. Its crash is an error of the caller's
 * job, no more.
 *
 * Every program that calls sandbox_run() must call sandbox_child() (or what wraps it) first thing in main.
 * Builds with SHOAL_SANITIZE drop the address space limit and seccomp, nothing else.
 */
#ifndef SHOAL_SERVER_BASE_SANDBOX_H
#define SHOAL_SERVER_BASE_SANDBOX_H

#include "server/base/error.h"

#include <stddef.h>

enum { SANDBOX_CPU_S = 10, SANDBOX_WALL_MS = 20000 };

/* What a child can be asked. `run` gets the whole input and answers either 0 with malloc'ed bytes in *answer,
 * or a negative status with `error` filled. */
struct sandbox_role {
    const char *name;
    int (*run)(const unsigned char *input, size_t size, const char *argument, unsigned char **answer,
               size_t *answer_size, struct error *error);
};

/* In main: runs the role and returns the exit code when this process is such a child, else -1. */
int sandbox_child(int argc, char **argv, const struct sandbox_role *roles, size_t n_roles);

/* Runs `role` in a child over the first `size` bytes of `input_fd` (a file or memfd; its offset is not
 * moved). At most `answer_max` bytes come back in *answer (malloc'ed, the caller's). Blocks up to
 * SANDBOX_WALL_MS. Errors: the child's own, STATUS_IMPORT_CRASHED when it ended without an answer,
 * STATUS_DEADLINE, STATUS_NO_MEMORY, STATUS_IO_FAILED. Safe on any thread. */
int sandbox_run(const char *role, const char *argument, int input_fd, size_t size, size_t answer_max,
                unsigned char **answer, size_t *answer_size, struct error *error);

#endif
