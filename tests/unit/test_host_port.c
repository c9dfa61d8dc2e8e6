/*
 * The host port's flash, arena and command line. The store is killed at random instants in a child process
 * and opened again: what it held stays whole, and a part goes on where it was.
 */
#include "firmware/port/host/host_arena.h"
#include "firmware/port/host/host_options.h"
#include "firmware/port/host/host_store.h"
#include "server/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IMAGE_MAX = 300000 };

static char root[64];
static uint8_t image[IMAGE_MAX];

/* The i-th image: its bytes into `image`, its hash. */
static uint32_t make_image(unsigned i, uint8_t hash[WIRE_HASH_BYTES])
{
    uint32_t n = 1 + (i * 7919) % IMAGE_MAX, x = i * 2654435761u + 1;
    for (uint32_t k = 0; k < n; k++) {
        x = x * 1664525u + 1013904223u;
        image[k] = (uint8_t)(x >> 24);
    }
    hash_sha256(image, n, hash);
    return n;
}

static void open_store(struct host_store *store, const char *name, uint32_t capacity)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(0, host_store_open(store, path, capacity));
}

/* Writes from `valid` on in pieces; stops before `until`. */
static void put(const struct board_store *f, uint32_t valid, uint32_t until)
{
    while (valid < until) {
        uint32_t n = until - valid < 4080 ? until - valid : 4080;
        assert_int_equal(0, f->write(f->context, valid, image + valid, n));
        valid += n;
    }
}

static void store_whole(const struct board_store *f, unsigned i, uint8_t hash[WIRE_HASH_BYTES])
{
    uint32_t valid, n = make_image(i, hash);
    assert_int_equal(0, f->begin(f->context, hash, n, &valid));
    put(f, valid, n);
    assert_int_equal(0, f->commit(f->context));
}

static void committed_image_is_found_now_and_after_a_restart(void **state)
{
    (void)state;
    struct host_store store;
    uint8_t hash[WIRE_HASH_BYTES], listed[WIRE_HASH_BYTES];
    const uint8_t *bytes;
    uint32_t size;
    for (int round = 0; round < 2; round++) {
        open_store(&store, "found", 7340032);
        struct board_store f = host_store_functions(&store);
        if (round == 0) {
            store_whole(&f, 5, hash);
        }
        uint32_t n = make_image(5, hash);
        assert_int_equal(0, f.find(f.context, hash, &bytes, &size));
        assert_int_equal(n, size);
        assert_int_equal(0, (uintptr_t)bytes % 16);
        assert_memory_equal(image, bytes, n);
        assert_int_equal(0, f.list(f.context, 0, listed, &size));
        assert_memory_equal(hash, listed, sizeof hash);
        assert_int_equal(STATUS_NOT_FOUND, f.list(f.context, 1, listed, &size));
        hash[0] ^= 1;
        assert_int_equal(STATUS_NOT_FOUND, f.find(f.context, hash, &bytes, &size));
        host_store_close(&store);
    }
}

static void broken_push_goes_on_where_it_was(void **state)
{
    (void)state;
    struct host_store store;
    uint8_t hash[WIRE_HASH_BYTES], back[100];
    uint32_t valid, n = make_image(30, hash);
    open_store(&store, "resume", 7340032);
    struct board_store f = host_store_functions(&store);
    assert_int_equal(0, f.begin(f.context, hash, n, &valid));
    assert_int_equal(0, valid);
    put(&f, 0, 100000);
    host_store_close(&store);
    open_store(&store, "resume", 7340032);
    assert_int_equal(0, f.begin(f.context, hash, n, &valid));
    assert_int_equal(100000, valid);
    assert_int_equal(0, f.read(f.context, 99900, back, sizeof back));
    assert_memory_equal(image + 99900, back, sizeof back);
    assert_true(f.read(f.context, 99901, back, sizeof back) < 0);
    assert_int_equal(STATUS_WIRE_ORDER, f.write(f.context, 100001, image, 1)); /* a gap */
    put(&f, valid, n);
    assert_int_equal(0, f.commit(f.context));
    host_store_close(&store);
}

static void image_with_the_wrong_content_is_dropped(void **state)
{
    (void)state;
    struct host_store store;
    uint8_t hash[WIRE_HASH_BYTES];
    const uint8_t *bytes;
    uint32_t valid, size, n = make_image(2, hash);
    open_store(&store, "mismatch", 7340032);
    struct board_store f = host_store_functions(&store);
    assert_int_equal(0, f.begin(f.context, hash, n, &valid));
    put(&f, 0, n - 1);
    image[n - 1] ^= 1;
    put(&f, n - 1, n);
    assert_int_equal(STATUS_HASH_MISMATCH, f.commit(f.context));
    assert_int_equal(STATUS_NOT_FOUND, f.find(f.context, hash, &bytes, &size));
    assert_int_equal(0, f.used(f.context));
    assert_int_equal(0, f.begin(f.context, hash, n, &valid)); /* from the start again */
    assert_int_equal(0, valid);
    assert_int_equal(STATUS_HASH_MISMATCH, f.commit(f.context)); /* too short */
    host_store_close(&store);
}

static void capacity_is_enforced_in_blocks_and_freed_by_remove(void **state)
{
    (void)state;
    struct host_store store;
    uint8_t hash[WIRE_HASH_BYTES], first[WIRE_HASH_BYTES];
    uint32_t valid;
    open_store(&store, "full", 16384);
    struct board_store f = host_store_functions(&store);
    assert_int_equal(16384, f.capacity(f.context));
    store_whole(&f, 1, first); /* 7920 bytes: two blocks */
    assert_int_equal(8192, f.used(f.context));
    make_image(200, hash);
    assert_int_equal(STATUS_FLASH_FULL, f.begin(f.context, hash, 8193, &valid));
    assert_int_equal(STATUS_FLASH_FULL, f.begin(f.context, hash, 0, &valid));
    assert_int_equal(STATUS_FLASH_FULL, f.begin(f.context, hash, UINT32_MAX, &valid));
    assert_int_equal(0, f.begin(f.context, hash, 8192, &valid));
    assert_int_equal(16384, f.used(f.context));
    assert_int_equal(0, f.remove(f.context, hash)); /* while it is written */
    assert_int_equal(0, f.remove(f.context, first));
    assert_int_equal(STATUS_NOT_FOUND, f.remove(f.context, first));
    assert_int_equal(0, f.used(f.context));
    assert_int_equal(0, f.begin(f.context, hash, 16384, &valid));
    host_store_close(&store);
}

static void another_image_takes_the_place_of_a_part(void **state)
{
    (void)state;
    struct host_store store;
    uint8_t a[WIRE_HASH_BYTES], b[WIRE_HASH_BYTES];
    uint32_t valid, n = make_image(3, a);
    open_store(&store, "another", 65536);
    struct board_store f = host_store_functions(&store);
    assert_int_equal(0, f.begin(f.context, a, n, &valid));
    put(&f, 0, 5000);
    store_whole(&f, 4, b);
    assert_int_equal(0, f.begin(f.context, a, n, &valid));
    assert_int_equal(0, valid); /* it was dropped */
    host_store_close(&store);
}

static void foreign_files_in_the_folder_are_left_alone(void **state)
{
    (void)state;
    struct host_store store;
    char path[192];
    uint8_t hash[WIRE_HASH_BYTES];
    uint32_t size;
    open_store(&store, "foreign", 65536);
    host_store_close(&store);
    snprintf(path, sizeof path, "%s/foreign/notes.txt", root);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(4, write(fd, "text", 4));
    close(fd);
    snprintf(path, sizeof path, "%s/foreign/%064d", root, 0); /* named like an image, empty */
    close(open(path, O_WRONLY | O_CREAT, 0600));
    snprintf(path, sizeof path, "%s/foreign/%064d", root, 1); /* a folder of that name */
    assert_int_equal(0, mkdir(path, 0700));
    open_store(&store, "foreign", 65536);
    struct board_store f = host_store_functions(&store);
    assert_int_equal(STATUS_NOT_FOUND, f.list(f.context, 0, hash, &size));
    host_store_close(&store);
    snprintf(path, sizeof path, "%s/foreign/notes.txt", root);
    assert_int_equal(0, access(path, F_OK));
}

/* Stores image after image and says on `out` which one is committed; removes every third again. */
static void child(int out)
{
    struct host_store store;
    open_store(&store, "killed", 1u << 30);
    struct board_store f = host_store_functions(&store);
    for (unsigned i = 0;; i++) {
        uint8_t hash[WIRE_HASH_BYTES];
        const uint8_t *bytes;
        uint32_t size;
        make_image(i % 40, hash);
        if (f.find(f.context, hash, &bytes, &size) != 0) {
            store_whole(&f, i % 40, hash);
            if (write(out, &i, sizeof i) != (ssize_t)sizeof i) {
                _exit(1);
            }
        } else if (i % 3 == 0) {
            f.remove(f.context, hash);
        }
    }
}

static void kill_at_any_instant_leaves_whole_images(void **state)
{
    (void)state;
    uint32_t x = 12345;
    for (int round = 0; round < 25; round++) {
        int pipes[2];
        unsigned done, last = 1000;
        struct host_store store;
        uint8_t hash[WIRE_HASH_BYTES], listed[WIRE_HASH_BYTES];
        uint32_t size, valid;
        const uint8_t *bytes;
        assert_int_equal(0, pipe(pipes));
        pid_t pid = fork();
        if (pid == 0) {
            close(pipes[0]);
            child(pipes[1]);
            _exit(0);
        }
        close(pipes[1]);
        x = x * 1664525u + 1013904223u;
        usleep(2000 + (x >> 16) % 40000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(pipes[0], &done, sizeof done) == (ssize_t)sizeof done) {
            last = done % 40;
        }
        close(pipes[0]);
        open_store(&store, "killed", 1u << 30);
        struct board_store f = host_store_functions(&store);
        for (uint32_t i = 0; f.list(f.context, i, listed, &size) == 0; i++) {
            assert_int_equal(0, f.find(f.context, listed, &bytes, &size));
            hash_sha256(bytes, size, hash);
            assert_memory_equal(listed, hash, sizeof hash);
        }
        /* Whatever part there is can be ended. */
        unsigned next = last == 1000 ? 0 : (last + 1) % 40;
        uint32_t n = make_image(next, hash);
        if (f.find(f.context, hash, &bytes, &size) != 0) {
            assert_int_equal(0, f.begin(f.context, hash, n, &valid));
            put(&f, valid, n);
            assert_int_equal(0, f.commit(f.context));
        }
        host_store_close(&store);
    }
}

static int touch(volatile uint8_t *at)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        *at = 1;
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) || WEXITSTATUS(status) != 0 ? -1 : 0;
}

static void arena_ends_at_a_guard_page(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 4080, 4096, 4112, 458752};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct host_arena arena;
        assert_int_equal(0, host_arena_open(&arena, sizes[i]));
        assert_int_equal(0, (uintptr_t)arena.bytes % 16);
        memset(arena.bytes, 0xff, sizes[i]);
        assert_int_equal(0, touch(arena.bytes + sizes[i] - 1));
        assert_int_equal(-1, touch(arena.bytes + sizes[i]));
        assert_int_equal(-1, touch((uint8_t *)arena.map));
        assert_int_equal(-1, touch((uint8_t *)((uintptr_t)arena.bytes / 4096 * 4096) - 1));
        host_arena_close(&arena);
    }
}

static int parse(struct host_options *o, const char *const *more)
{
    char *argv[24] = {(char *)"shoal-board", (char *)"--server", (char *)"localhost:8443", (char *)"--state",
                      (char *)"dir"};
    int argc = 5;
    while (*more != NULL) {
        argv[argc++] = (char *)(uintptr_t)*more++;
    }
    return host_options_parse(argc, argv, o);
}

static void options_have_the_defaults_of_a_teensy_and_take_suffixes(void **state)
{
    (void)state;
    struct host_options o;
    assert_int_equal(0, parse(&o, (const char *const[]){NULL}));
    assert_int_equal(458752, o.ram_bytes);
    assert_int_equal(7340032, o.flash_bytes);
    assert_int_equal(600, o.clock_mhz);
    assert_int_equal(0, o.delay_ms);
    assert_int_equal(1, o.n_servers);
    assert_string_equal("localhost", o.servers[0].host);
    assert_string_equal("8443", o.servers[0].port);
    assert_int_equal(
        0, parse(&o, (const char *const[]){"--ram", "100K", "--flash=2M", "--clock", "528", "--delay-ms",
                                           "20", "--server", "[::1]:99", "--name", "attic", NULL}));
    assert_int_equal(102400, o.ram_bytes);
    assert_int_equal(2097152, o.flash_bytes);
    assert_int_equal(528, o.clock_mhz);
    assert_int_equal(20, o.delay_ms);
    assert_int_equal(2, o.n_servers);
    assert_string_equal("::1", o.servers[1].host);
    assert_string_equal("99", o.servers[1].port);
    assert_string_equal("attic", o.name);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct host_options o;
    static const char *const wrong[][2] = {
        {"--ram", "x"},           {"--ram", "-1"},           {"--ram", "1"},        {"--ram", "1Q"},
        {"--ram", "99999999999"}, {"--ram", "99999999999M"}, {"--ram", ""},         {"--flash", "2G"},
        {"--clock", "0"},         {"--clock", "600K"},       {"--delay-ms", "1e3"}, {"--server", "host"},
        {"--server", ":1"},       {"--server", "a:b"},       {"--server", "a:"},    {"--colour", "red"},
        {"extra", "word"}};
    FILE *quiet = freopen("/dev/null", "w", stderr);
    assert_non_null(quiet);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(-1, parse(&o, (const char *const[]){wrong[i][0], wrong[i][1], NULL}));
    }
    assert_int_equal(-1, parse(&o, (const char *const[]){"--server", "a:1", "--server", "b:2", NULL}));
    assert_int_equal(-1, parse(&o, (const char *const[]){"--code", NULL}));
    char *bare[] = {(char *)"shoal-board", (char *)"--state", (char *)"dir"};
    assert_int_equal(-1, host_options_parse(3, bare, &o));
}

int main(void)
{
    snprintf(root, sizeof root, "/tmp/shoal-port-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_image_is_found_now_and_after_a_restart),
        cmocka_unit_test(broken_push_goes_on_where_it_was),
        cmocka_unit_test(image_with_the_wrong_content_is_dropped),
        cmocka_unit_test(capacity_is_enforced_in_blocks_and_freed_by_remove),
        cmocka_unit_test(another_image_takes_the_place_of_a_part),
        cmocka_unit_test(foreign_files_in_the_folder_are_left_alone),
        cmocka_unit_test(kill_at_any_instant_leaves_whole_images),
        cmocka_unit_test(arena_ends_at_a_guard_page),
        cmocka_unit_test(options_have_the_defaults_of_a_teensy_and_take_suffixes),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) == 0 ? failed : 1;
}
