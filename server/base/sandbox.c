/*
 * The limited child: spawning it, limiting it from inside, and the answer's way back.
 *
 * The child's descriptors are the input (0), a pipe for the answer (1) and /dev/null (2); everything else is
 * closed. The answer is a header {magic, status, bytes} and then either what the role made or the error's
 * fields, packed little-endian. The parent believes none of it: lengths are capped, texts are cut and
 * cleaned. A child never spawns another: it carries SHOAL_CHILD in its environment, and sandbox_run() refuses
 * there.
 */
#include "server/base/sandbox.h"

#include "server/base/bytes.h"
#include "server/base/clock.h"
#include "server/base/stop.h"
#include "server/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef SHOAL_SANITIZE
#include <seccomp.h>
#endif

enum {
    MAGIC = 0x31584253, /* "SBX1" */
    HEADER_BYTES = 16,
    ERROR_BYTES_MAX = 2 * HEADER_BYTES + ERROR_MESSAGE_BYTES + 2 * ERROR_NAME_BYTES + 6,
    ADDRESS_SPACE_BYTES = 512 * 1024 * 1024,
    DESCRIPTORS = 4,
    EXIT_LIMITS = 3 /* the child could not limit itself */
};

#define CHILD_ARGUMENT "import-child"
#define CHILD_VARIABLE "SHOAL_CHILD"

/* ---- in the child ---- */

static bool set_limit(int what, rlim_t to)
{
    struct rlimit limit = {to, to};
    return setrlimit((__rlimit_resource_t)what, &limit) == 0;
}

#ifndef SHOAL_SANITIZE
/* Reading, writing, memory, ending; anything else kills the process. (qsort asks sysinfo for the memory's
 * size.) */
static bool limit_calls(void)
{
    static const int allowed[] = {SCMP_SYS(read),   SCMP_SYS(pread64),       SCMP_SYS(write),
                                  SCMP_SYS(munmap), SCMP_SYS(mremap),        SCMP_SYS(brk),
                                  SCMP_SYS(exit),   SCMP_SYS(exit_group),    SCMP_SYS(rt_sigreturn),
                                  SCMP_SYS(futex),  SCMP_SYS(clock_gettime), SCMP_SYS(sysinfo)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!filter)
        return false;
    bool ok = true;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        ok = ok && seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0) == 0;
    ok = ok && seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
    ok = ok && seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
    ok = ok && seccomp_load(filter) == 0;
    seccomp_release(filter);
    return ok;
}
#endif

static bool limit_myself(void)
{
    bool ok = set_limit(RLIMIT_CPU, SANDBOX_CPU_S) && set_limit(RLIMIT_FSIZE, 0) &&
              set_limit(RLIMIT_CORE, 0) && set_limit(RLIMIT_NOFILE, DESCRIPTORS);
#ifndef SHOAL_SANITIZE
    ok = ok && set_limit(RLIMIT_AS, ADDRESS_SPACE_BYTES) && limit_calls();
#endif
    return ok;
}

static bool write_all(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static unsigned char *read_input(size_t size)
{
    unsigned char *bytes = malloc(size ? size : 1);
    for (size_t at = 0; bytes && at < size;) {
        ssize_t n = pread(STDIN_FILENO, bytes + at, size - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            free(bytes);
            return NULL;
        }
        at += (size_t)n;
    }
    return bytes;
}

static void put_text(struct bytes *out, const char *text)
{
    size_t n = strlen(text);
    bytes_put16(out, (uint16_t)n);
    bytes_append(out, text, n);
}

static bool answer_error(const struct error *error)
{
    struct bytes out;
    bytes_init(&out, ERROR_BYTES_MAX);
    bytes_put64(&out, (uint64_t)error->offset);
    bytes_put64(&out, (uint64_t)error->limit);
    bytes_put64(&out, (uint64_t)error->actual);
    put_text(&out, error->message);
    put_text(&out, error->layer);
    put_text(&out, error->op);
    unsigned char header[HEADER_BYTES];
    le_put32(header, MAGIC);
    le_put32(header + 4, (uint32_t)error->status);
    le_put64(header + 8, out.size);
    bool ok = out.status == 0 && write_all(header, sizeof header) && write_all(out.data, out.size);
    bytes_free(&out);
    return ok;
}

static bool answer_bytes(const unsigned char *bytes, size_t size)
{
    unsigned char header[HEADER_BYTES];
    le_put32(header, MAGIC);
    le_put32(header + 4, 0);
    le_put64(header + 8, size);
    return write_all(header, sizeof header) && write_all(bytes, size);
}

static int run_role(const struct sandbox_role *role, size_t size, const char *argument)
{
    struct error error;
    error_clear(&error);
    unsigned char *answer = NULL, *input = read_input(size);
    size_t answer_size = 0;
    int status = input ? role->run(input, size, argument, &answer, &answer_size, &error)
                       : error_set(&error, STATUS_IO_FAILED, "the input could not be read");
    if (status != 0 && error.status == STATUS_OK)
        (void)error_set(&error, (enum status)status, "%s", status_text(status));
    bool ok = status == 0 ? answer_bytes(answer, answer_size) : answer_error(&error);
    free(answer);
    free(input);
    return ok ? 0 : 1;
}

int sandbox_child(int argc, char **argv, const struct sandbox_role *roles, size_t n_roles)
{
    if (argc != 5 || strcmp(argv[1], CHILD_ARGUMENT) != 0 || !getenv(CHILD_VARIABLE))
        return -1;
    for (size_t i = 0; i < n_roles; i++) {
        if (strcmp(roles[i].name, argv[2]) != 0)
            continue;
        if (!limit_myself())
            _exit(EXIT_LIMITS);
        _exit(run_role(&roles[i], (size_t)strtoull(argv[3], NULL, 10), argv[4]));
    }
    return 2;
}

/* ---- in the parent ---- */

struct child {
    pid_t pid;
    int answer_fd;
};

static int spawn_with(int input_fd, int answer_fd, char **arguments, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char variable[] = CHILD_VARIABLE "=1";
    char *environment[] = {variable, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    int failed = posix_spawnattr_init(&attributes);
    if (failed) {
        posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    failed = posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
    failed = failed ? failed : posix_spawn_file_actions_adddup2(&actions, answer_fd, STDOUT_FILENO);
#ifndef SHOAL_SANITIZE
    failed =
        failed ? failed : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
#endif
    failed = failed ? failed : posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    failed = failed ? failed : posix_spawnattr_setsigmask(&attributes, &none);
    failed = failed ? failed : posix_spawnattr_setsigdefault(&attributes, &all);
    failed = failed ? failed
                    : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    failed =
        failed ? failed : posix_spawn(pid, "/proc/self/exe", &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static int spawn(const char *role, const char *argument, int input_fd, size_t size, struct child *child,
                 struct error *error)
{
    char name[] = "shoal", word[] = CHILD_ARGUMENT, number[32], role_copy[64], argument_copy[512];
    int ends[2];
    (void)snprintf(number, sizeof number, "%zu", size);
    (void)snprintf(role_copy, sizeof role_copy, "%s", role);
    (void)snprintf(argument_copy, sizeof argument_copy, "%s", argument ? argument : "");
    char *arguments[] = {name, word, role_copy, number, argument_copy, NULL};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(error, STATUS_IO_FAILED, "no pipe for the import child: %s", strerror(errno));
    /* Above the standard descriptors, which the child's actions overwrite one by one. */
    int write_end = fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int source = fcntl(input_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int failed = write_end < 0 || source < 0 ? errno : spawn_with(source, write_end, arguments, &child->pid);
    close(ends[1]);
    if (write_end >= 0)
        close(write_end);
    if (source >= 0)
        close(source);
    child->answer_fd = ends[0];
    if (!failed)
        return 0;
    close(ends[0]);
    return error_set(error, STATUS_IO_FAILED, "the import child could not be started: %s", strerror(failed));
}

static int64_t now_ms(void)
{
    return (int64_t)(clock_monotonic_us() / 1000);
}

enum { STOP_POLL_MS = 200 };

/* Reads up to `size` bytes until the end of the pipe or the deadline. Returns bytes read, STATUS_DEADLINE, or
 * STATUS_BUSY when the server is stopping. */
static int64_t read_until(int fd, unsigned char *to, size_t size, int64_t deadline_ms)
{
    size_t got = 0;
    while (got < size) {
        int64_t left = deadline_ms - now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0)
            return STATUS_DEADLINE;
        if (stop_asked())
            return STATUS_BUSY;
        int ready = poll(&p, 1, left < STOP_POLL_MS ? (int)left : STOP_POLL_MS);
        if (ready <= 0)
            continue;
        ssize_t n = read(fd, to + got, size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return (int64_t)got;
}

/* One text of the child's error: cut to fit, and fit to be shown. */
static size_t take_text(const unsigned char *bytes, size_t size, size_t at, char *to, size_t max)
{
    size_t n = at + 2 <= size ? le_get16(bytes + at) : 0;
    if (at + 2 + n > size || n >= max || !utf8_valid((const char *)bytes + at + 2, n))
        n = 0;
    memcpy(to, bytes + at + 2, n);
    to[n] = 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)to[i] < 0x20 || to[i] == 0x7f)
            to[i] = '?';
    return at + 2 + n;
}

static int take_error(int status, const unsigned char *bytes, size_t size, struct error *error)
{
    char message[ERROR_MESSAGE_BYTES], layer[ERROR_NAME_BYTES], op[ERROR_NAME_BYTES];
    if (size < 30 || status <= -STATUS_COUNT || status >= 0)
        return error_set(error, STATUS_IMPORT_CRASHED, "the importer gave an impossible answer");
    size_t at = take_text(bytes, size, 24, message, sizeof message);
    at = at + 2 <= size ? take_text(bytes, size, at, layer, sizeof layer) : (layer[0] = 0, size);
    if (at + 2 <= size)
        (void)take_text(bytes, size, at, op, sizeof op);
    else
        op[0] = 0;
    (void)error_set(error, (enum status)status, "%s", message);
    error_at_layer(error, layer[0] ? layer : NULL, op[0] ? op : NULL);
    error_at_offset(error, (int64_t)le_get64(bytes));
    if ((int64_t)le_get64(bytes + 8) >= 0)
        error_limit(error, (int64_t)le_get64(bytes + 8), (int64_t)le_get64(bytes + 16));
    return status;
}

/* The child's whole answer into *answer. */
static int take_answer(int fd, size_t answer_max, int64_t deadline_ms, unsigned char **answer,
                       size_t *answer_size, struct error *error)
{
    unsigned char header[HEADER_BYTES];
    int64_t got = read_until(fd, header, sizeof header, deadline_ms);
    if (got == STATUS_DEADLINE)
        return error_set(error, STATUS_DEADLINE, "the importer took longer than %d s",
                         SANDBOX_WALL_MS / 1000);
    if (got == STATUS_BUSY)
        return stop_check(error);
    if (got != HEADER_BYTES)
        return error_set(error, STATUS_IMPORT_CRASHED, "the importer ended without an answer");
    int status = (int32_t)le_get32(header + 4);
    uint64_t size = le_get64(header + 8);
    if (le_get32(header) != MAGIC || size > (status ? ERROR_BYTES_MAX : answer_max))
        return error_set(error, STATUS_IMPORT_CRASHED, "the importer gave an impossible answer");
    unsigned char *bytes = malloc((size_t)size + 1);
    if (!bytes)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the importer's answer");
    got = read_until(fd, bytes, (size_t)size, deadline_ms);
    if (got != (int64_t)size) {
        free(bytes);
        if (got == STATUS_BUSY)
            return stop_check(error);
        return got == STATUS_DEADLINE
                   ? error_set(error, STATUS_DEADLINE, "the importer took longer than %d s",
                               SANDBOX_WALL_MS / 1000)
                   : error_set(error, STATUS_IMPORT_CRASHED,
                               "the importer ended in the middle of its answer");
    }
    if (status) {
        status = take_error(status, bytes, (size_t)size, error);
        free(bytes);
        return status;
    }
    *answer = bytes;
    *answer_size = (size_t)size;
    return 0;
}

/* Ends the child for certain and says how it ended when that is why there is no answer. */
static int reap(const struct child *child, int status, struct error *error)
{
    int how = 0;
    pid_t ended = 0;
    close(child->answer_fd);
    /* One that crashed gets a moment to end by itself, so that it can be said how. */
    for (int i = 0; status == STATUS_IMPORT_CRASHED && i < 1000 && ended == 0; i++) {
        ended = waitpid(child->pid, &how, WNOHANG);
        if (ended == 0)
            (void)poll(NULL, 0, 1);
    }
    if (ended == 0) {
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &how, 0) < 0 && errno == EINTR)
            ;
    }
    if (status != STATUS_IMPORT_CRASHED || !error || error->status != STATUS_IMPORT_CRASHED)
        return status;
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGXCPU)
        (void)snprintf(error->message, sizeof error->message, "the importer used more than %d s of CPU time",
                       SANDBOX_CPU_S);
    else if (WIFSIGNALED(how))
        (void)snprintf(error->message, sizeof error->message, "the importer was ended by signal %d (%s)",
                       WTERMSIG(how), strsignal(WTERMSIG(how)));
    else if (WIFEXITED(how) && WEXITSTATUS(how) == EXIT_LIMITS)
        (void)snprintf(error->message, sizeof error->message,
                       "the importer could not limit itself (setrlimit or seccomp failed)");
    return status;
}

int sandbox_run(const char *role, const char *argument, int input_fd, size_t size, size_t answer_max,
                unsigned char **answer, size_t *answer_size, struct error *error)
{
    struct child child;
    *answer = NULL;
    *answer_size = 0;
    if (getenv(CHILD_VARIABLE))
        return error_set(error, STATUS_INTERNAL, "this program does not call sandbox_child() first in main");
    int status = spawn(role, argument, input_fd, size, &child, error);
    if (status)
        return status;
    status = take_answer(child.answer_fd, answer_max, now_ms() + SANDBOX_WALL_MS, answer, answer_size, error);
    return reap(&child, status, error);
}
