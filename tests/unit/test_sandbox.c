/*
 * The limited child: what it answers, what it may not do, how its end is told. The roles below misbehave on
 * purpose.
 */
#include "server/base/sandbox.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define ROLE(name)                                                                                         \
    static int name(const unsigned char *input, size_t size, const char *argument, unsigned char **answer, \
                    size_t *answer_size, struct error *error)
#define UNUSED ((void)input, (void)size, (void)argument, (void)answer, (void)answer_size, (void)error)

ROLE(role_echo)
{
    UNUSED;
    *answer = malloc(size + 1);
    memcpy(*answer, input, size);
    *answer_size = size;
    return 0;
}

ROLE(role_refuse)
{
    UNUSED;
    (void)error_set(error, STATUS_MODEL_LIMIT, "layer '%s' is too wide", argument);
    error_at_layer(error, argument, "CONV_2D");
    error_at_offset(error, 77);
    error_limit(error, 10, 11);
    return STATUS_MODEL_LIMIT;
}

ROLE(role_crash)
{
    UNUSED;
    abort();
}

ROLE(role_silent)
{
    UNUSED;
    _exit(0);
}

/* Answers 1 when an allocation of 1 GiB is refused. */
ROLE(role_allocate)
{
    UNUSED;
    volatile unsigned char *p = malloc((size_t)1 << 30);
    if (p)
        p[1 << 20] = 1;
    *answer = malloc(1);
    (*answer)[0] = p == NULL;
    *answer_size = 1;
    return 0;
}

ROLE(role_socket)
{
    UNUSED;
    (void)socket(AF_INET, SOCK_STREAM, 0);
    return 0;
}

ROLE(role_open)
{
    UNUSED;
    (void)open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    return 0;
}

ROLE(role_executable_memory)
{
    UNUSED;
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return 0;
}

/* Sends half a header, and a header that claims more than there is. */
ROLE(role_half)
{
    UNUSED;
    (void)!write(STDOUT_FILENO, "SBX1\0\0\0", 7);
    _exit(0);
}

ROLE(role_lie)
{
    UNUSED;
    (void)!write(STDOUT_FILENO, "SBX1\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16);
    _exit(0);
}

static const struct sandbox_role roles[] = {
    {"echo", role_echo},         {"refuse", role_refuse},
    {"crash", role_crash},       {"silent", role_silent},
    {"half", role_half},         {"lie", role_lie},
    {"allocate", role_allocate}, {"socket", role_socket},
    {"open", role_open},         {"executable", role_executable_memory},
};

static int input_file(const void *bytes, size_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    return fd;
}

static int run(const char *role, unsigned char **answer, size_t *size, struct error *error)
{
    int fd = input_file("hello", 5);
    error_clear(error);
    int status = sandbox_run(role, "conv1", fd, 5, 1024, answer, size, error);
    close(fd);
    return status;
}

static void expect_crash(const char *role, const char *words)
{
    struct error error;
    unsigned char *answer;
    size_t size;
    assert_int_equal(run(role, &answer, &size, &error), STATUS_IMPORT_CRASHED);
    assert_null(answer);
    if (!strstr(error.message, words))
        fail_msg("%s: '%s' does not say '%s'", role, error.message, words);
}

static void child_answers_with_bytes_of_the_whole_input(void **state)
{
    (void)state;
    struct error error;
    unsigned char *answer;
    size_t size;
    assert_int_equal(run("echo", &answer, &size, &error), 0);
    assert_int_equal(size, 5);
    assert_memory_equal(answer, "hello", 5);
    free(answer);
}

static void large_answers_come_back_whole(void **state)
{
    (void)state;
    enum { BYTES = 3 * 1024 * 1024 };
    unsigned char *input = malloc(BYTES), *answer;
    size_t size;
    struct error error;
    error_clear(&error);
    for (size_t i = 0; i < BYTES; i++)
        input[i] = (unsigned char)(i * 7 + i / 255);
    int fd = input_file(input, BYTES);
    assert_int_equal(sandbox_run("echo", "", fd, BYTES, BYTES, &answer, &size, &error), 0);
    assert_int_equal(size, BYTES);
    assert_memory_equal(answer, input, BYTES);
    free(answer);
    assert_int_equal(sandbox_run("echo", "", fd, BYTES, BYTES - 1, &answer, &size, &error),
                     STATUS_IMPORT_CRASHED);
    close(fd);
    free(input);
}

static void errors_keep_their_places_over_the_pipe(void **state)
{
    (void)state;
    struct error error;
    unsigned char *answer;
    size_t size;
    assert_int_equal(run("refuse", &answer, &size, &error), STATUS_MODEL_LIMIT);
    assert_string_equal(error.message, "layer 'conv1' is too wide");
    assert_string_equal(error.layer, "conv1");
    assert_string_equal(error.op, "CONV_2D");
    assert_int_equal(error.offset, 77);
    assert_int_equal(error.limit, 10);
    assert_int_equal(error.actual, 11);
}

static void a_child_without_an_answer_is_told_as_crashed(void **state)
{
    (void)state;
    expect_crash("crash", "signal");
    expect_crash("silent", "without an answer");
    expect_crash("half", "without an answer");
    expect_crash("lie", "impossible");
    expect_crash("no such role", "without an answer");
}

static void an_input_shorter_than_stated_is_an_error(void **state)
{
    (void)state;
    struct error error;
    unsigned char *answer;
    size_t size;
    int fd = input_file("hello", 5);
    error_clear(&error);
    assert_int_equal(sandbox_run("echo", "", fd, 6, 1024, &answer, &size, &error), STATUS_IO_FAILED);
    close(fd);
}

static void no_child_starts_children(void **state)
{
    (void)state;
    struct error error;
    unsigned char *answer;
    size_t size;
    setenv("SHOAL_CHILD", "1", 1);
    assert_int_equal(run("echo", &answer, &size, &error), STATUS_INTERNAL);
    unsetenv("SHOAL_CHILD");
}

static void address_space_and_system_calls_are_limited(void **state)
{
    (void)state;
#ifdef SHOAL_SANITIZE
    print_message(
        "SKIP address_space_and_system_calls_are_limited: a sanitized build drops these two limits\n");
    skip();
#else
    struct error error;
    unsigned char *answer;
    size_t size;
    assert_int_equal(run("allocate", &answer, &size, &error), 0);
    assert_int_equal(size, 1);
    assert_int_equal(answer[0], 1);
    free(answer);
    expect_crash("socket", "signal 31");
    expect_crash("open", "signal 31");
    expect_crash("executable", "signal 31");
#endif
}

int main(int argc, char **argv)
{
    int code = sandbox_child(argc, argv, roles, sizeof roles / sizeof *roles);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_answers_with_bytes_of_the_whole_input),
        cmocka_unit_test(large_answers_come_back_whole),
        cmocka_unit_test(errors_keep_their_places_over_the_pipe),
        cmocka_unit_test(a_child_without_an_answer_is_told_as_crashed),
        cmocka_unit_test(an_input_shorter_than_stated_is_an_error),
        cmocka_unit_test(no_child_starts_children),
        cmocka_unit_test(address_space_and_system_calls_are_limited),
    };
    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
