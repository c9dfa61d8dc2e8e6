/* Files, growable bytes, errors as JSON, arenas and embedded files of server/base; the option parser of
 * server/cli. */
#include "server/base/arena.h"
#include "server/base/bytes.h"
#include "server/base/embed.h"
#include "server/base/error_json.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/cli/cli.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int count_files(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    (void)closedir(dir);
    return n;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path_of("file"));
    (void)rmdir(path_of("a/b/c"));
    (void)rmdir(path_of("a/b"));
    (void)rmdir(path_of("a"));
    return rmdir(folder);
}

static void file_is_replaced_whole_and_leaves_nothing_beside_it(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    uint8_t *bytes;
    size_t size;
    assert_int_equal(file_write(path_of("file"), "first", 5, 0600, &error), 0);
    assert_int_equal(file_write(path_of("file"), "se\0cond", 7, 0600, &error), 0);
    assert_int_equal(count_files(), 1);
    struct stat st;
    assert_int_equal(stat(path_of("file"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(file_read(path_of("file"), 7, &bytes, &size, &error), 0);
    assert_int_equal(size, 7);
    assert_memory_equal(bytes, "se\0cond", 8);
    free(bytes);
}

static void file_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    uint8_t *bytes;
    size_t size;
    assert_int_equal(file_read(path_of("file"), 6, &bytes, &size, &error), STATUS_TOO_LARGE);
    assert_null(bytes);
    assert_int_equal(error.limit, 6);
}

static void file_errors_name_the_path(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    uint8_t *bytes;
    size_t size;
    assert_int_equal(file_read(path_of("none"), 10, &bytes, &size, &error), STATUS_NOT_FOUND);
    assert_non_null(strstr(error.message, path_of("none")));
    error_clear(&error);
    assert_int_equal(file_read(folder, 10, &bytes, &size, &error), STATUS_IO_FAILED);
    error_clear(&error);
    assert_int_equal(file_write(path_of("none/x"), "x", 1, 0600, &error), STATUS_NOT_FOUND);
    error_clear(&error);
    assert_int_equal(file_write("/dev/full", "x", 1, 0600, &error), STATUS_DISK_FULL);
}

static void folders_are_made_with_those_above(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    struct stat st;
    assert_int_equal(file_make_dirs(path_of("a/b/c"), 0700, &error), 0);
    assert_int_equal(file_make_dirs(path_of("a/b/c"), 0700, &error), 0);
    assert_int_equal(stat(path_of("a/b/c"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(file_make_dirs(path_of("file"), 0700, &error), STATUS_IO_FAILED);
    error_clear(&error);
    assert_int_equal(file_make_dirs(path_of("file/x"), 0700, &error), STATUS_IO_FAILED);
}

static void bytes_beyond_the_cap_change_nothing_and_the_failure_stays(void **state)
{
    (void)state;
    struct bytes b;
    bytes_init(&b, 10);
    assert_int_equal(bytes_append(&b, "12345678", 8), 0);
    assert_int_equal(bytes_put32(&b, 1), STATUS_TOO_LARGE);
    assert_int_equal(b.size, 8);
    assert_int_equal(bytes_put8(&b, 1), STATUS_TOO_LARGE);
    size_t size = 1;
    assert_null(bytes_take(&b, &size));
    assert_int_equal(size, 0);
    bytes_free(&b);
}

static void bytes_grow_and_are_taken_whole(void **state)
{
    (void)state;
    struct bytes b;
    size_t size;
    bytes_init(&b, 1 << 20);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(bytes_put32(&b, i), 0);
    assert_int_equal(bytes_printf(&b, "%d", 7), 0);
    assert_int_equal(bytes_align(&b, 16), 0);
    assert_int_equal(b.size, 40016);
    uint8_t *data = bytes_take(&b, &size);
    assert_int_equal(size, 40016);
    assert_int_equal(le_get32(data + 4 * 9999), 9999);
    assert_int_equal(data[40000], '7');
    assert_int_equal(data[40001], 0);
    free(data);
    bytes_init(&b, 0);
    data = bytes_take(&b, &size);
    assert_non_null(data);
    assert_int_equal(size, 0);
    free(data);
}

static void error_keeps_its_first_cause(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    assert_int_equal(error_set(&error, STATUS_TOO_LARGE, "first %d", 1), STATUS_TOO_LARGE);
    assert_int_equal(error_set(&error, STATUS_INTERNAL, "second"), STATUS_INTERNAL);
    assert_int_equal(error.status, STATUS_TOO_LARGE);
    assert_string_equal(error.message, "first 1");
    error_at_layer(&error, "conv1", NULL);
    error_at_layer(&error, "conv2", "CONV_2D");
    assert_string_equal(error.layer, "conv1");
    assert_string_equal(error.op, "CONV_2D");
    assert_int_equal(error_set(NULL, STATUS_BUSY, "nobody reads"), STATUS_BUSY);
}

static void error_json_says_what_is_known_and_no_more(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    error_set(&error, STATUS_DOES_NOT_FIT, "board b1 is too small");
    error.shortfall.resource = "arena";
    (void)snprintf(error.shortfall.board, sizeof error.shortfall.board, "b1");
    error.shortfall.need_bytes = 500;
    error.shortfall.have_bytes = 300;
    json_t *json = error_json(&error);
    json_t *want = json_pack("{s:{s:s,s:s,s:{s:s,s:s,s:i,s:i,s:i}}}", "error", "code", "does_not_fit",
                             "message", "board b1 is too small", "detail", "board", "b1", "resource", "arena",
                             "need_bytes", 500, "have_bytes", 300, "missing_bytes", 200);
    assert_non_null(want);
    assert_true(json_equal(json, want));
    json_decref(json);
    json_decref(want);
    error_clear(&error);
    error_set(&error, STATUS_BUSY, "\xff");
    json = error_json(&error);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "error"), "message")),
                        status_text(STATUS_BUSY));
    json_decref(json);
}

static void arena_stops_at_its_limit_and_at_overflow(void **state)
{
    (void)state;
    struct arena *arena = arena_new(100000);
    assert_non_null(arena_alloc(arena, 1, 90000));
    assert_null(arena_alloc(arena, 1, 10001));
    assert_null(arena_alloc(arena, SIZE_MAX / 2, 4));
    char *text = arena_string(arena, "abcdef", 3);
    assert_string_equal(text, "abc");
    assert_int_equal((uintptr_t)text % 16, 0);
    arena_free(arena);
}

static void a_string_is_cut_between_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t max;
        const char *want;
    } cases[] = {
        {"a\xce\xbb", 3, "a\xce\xbb"},
        {"a\xce\xbbz", 3, "a\xce\xbb"},
        {"a\xce\xbb", 2, "a"},
        {"a\xe2\x82\xac", 3, "a"},
        {"\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80"},
        {"\xf0\x9f\x98\x80", 3, ""},
        {"b\xf0\x9f\x98\x80", 2, "b"},
        {"abc", 2, "ab"},
        {"abc", 0, ""},
        {"\xbb\xbb\xbb\xbb\xbb", 4, "\xbb\xbb\xbb\xbb"}, /* no character's beginning: nothing to keep whole */
    };
    struct arena *arena = arena_new(100000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(arena_string(arena, cases[i].text, cases[i].max), cases[i].want);
    arena_free(arena);
}

static void embedded_files_are_sorted_and_match_their_etag(void **state)
{
    (void)state;
    size_t n[2];
    const struct embed_file *tables[2] = {embed_web(&n[0]), embed_migrations(&n[1])};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < n[t]; i++) {
            const struct embed_file *f = &tables[t][i];
            if (i)
                assert_true(strcmp(f[-1].name, f->name) < 0);
            assert_int_equal(f->bytes[f->size], 0);
            uint8_t hash[HASH_BYTES];
            char hex[HASH_HEX_BYTES];
            hash_sha256(f->bytes, f->size, hash);
            hash_hex(hash, hex);
            assert_int_equal(strlen(f->etag), 66);
            assert_memory_equal(f->etag + 1, hex, 64);
            if (t == 0)
                assert_ptr_equal(embed_web_find(f->name), f);
        }
    assert_null(embed_web_find("../Makefile"));
    assert_null(embed_web_find(""));
}

struct parsed {
    bool json;
    const char *name;
    int64_t boards;
    double share;
    int strategy;
    const char *positional[2];
    int n_positional, exit_code;
};

/* Parses a line split at blanks; what was printed goes to the null device. */
static bool parse(struct parsed *p, const char *line)
{
    static char copy[256];
    char *argv[16];
    int argc = 0;
    *p = (struct parsed){.boards = 3, .exit_code = -1};
    (void)snprintf(copy, sizeof copy, "x %s", line);
    for (char *word = strtok(copy, " "); word && argc < 16; word = strtok(NULL, " "))
        argv[argc++] = word;
    const struct cli_command command = {"x", "[options]", "nothing", NULL};
    const struct cli_option options[] = {
        {"json", CLI_FLAG, &p->json, 0, 0, NULL},
        {"name", CLI_TEXT, &p->name, 0, 0, NULL},
        {"boards", CLI_NUMBER, &p->boards, 1, 16, NULL},
        {"share", CLI_REAL, &p->share, 0, 0, NULL},
        {"strategy", CLI_CHOICE, &p->strategy, 0, 0, "auto|neuron|single"},
    };
    (void)fflush(stderr);
    int kept = dup(STDERR_FILENO);
    FILE *null = fopen("/dev/null", "w");
    (void)dup2(fileno(null), STDERR_FILENO);
    bool go =
        cli_options(&command, argc, argv, options, 5, p->positional, 1, 2, &p->n_positional, &p->exit_code);
    (void)fflush(stderr);
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    (void)fclose(null);
    return go;
}

static void options_stand_in_any_order_and_keep_defaults(void **state)
{
    (void)state;
    struct parsed p;
    assert_true(parse(&p, "model --boards 8 --json --name=a=b - --strategy neuron --share -1.5e2"));
    assert_true(p.json);
    assert_string_equal(p.name, "a=b");
    assert_int_equal(p.boards, 8);
    assert_true(p.share == -150.0);
    assert_int_equal(p.strategy, 1);
    assert_int_equal(p.n_positional, 2);
    assert_string_equal(p.positional[0], "model");
    assert_string_equal(p.positional[1], "-");
    assert_true(parse(&p, "-- --json"));
    assert_false(p.json);
    assert_int_equal(p.boards, 3);
    assert_string_equal(p.positional[0], "--json");
}

static void options_that_are_wrong_exit_with_2(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "a b c",
                                        "a --bogus",
                                        "a --jso",
                                        "a --json=1",
                                        "a --name",
                                        "a --boards 0",
                                        "a --boards 17",
                                        "a --boards 3x",
                                        "a --boards 99999999999999999999",
                                        "a --boards +3",
                                        "a --share nan",
                                        "a --share 0x10",
                                        "a --strategy neuro",
                                        "a --strategy neuron|single",
                                        "a --json --json",
                                        "a -v"};
    struct parsed p;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(parse(&p, wrong[i]));
        assert_int_equal(p.exit_code, CLI_WRONG_USAGE);
    }
}

static void exit_codes_follow_the_status(void **state)
{
    (void)state;
    assert_int_equal(cli_exit_code(STATUS_OK), CLI_DONE);
    assert_int_equal(cli_exit_code(STATUS_BUSY), CLI_OUT_OF_REACH);
    assert_int_equal(cli_exit_code(STATUS_OFFLINE), CLI_OUT_OF_REACH);
    assert_int_equal(cli_exit_code(STATUS_DEADLINE), CLI_DEADLINE_PASSED);
    assert_int_equal(cli_exit_code(STATUS_DOES_NOT_FIT), CLI_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_replaced_whole_and_leaves_nothing_beside_it),
        cmocka_unit_test(file_over_the_limit_is_refused),
        cmocka_unit_test(file_errors_name_the_path),
        cmocka_unit_test(folders_are_made_with_those_above),
        cmocka_unit_test(bytes_beyond_the_cap_change_nothing_and_the_failure_stays),
        cmocka_unit_test(bytes_grow_and_are_taken_whole),
        cmocka_unit_test(error_keeps_its_first_cause),
        cmocka_unit_test(error_json_says_what_is_known_and_no_more),
        cmocka_unit_test(arena_stops_at_its_limit_and_at_overflow),
        cmocka_unit_test(a_string_is_cut_between_characters),
        cmocka_unit_test(embedded_files_are_sorted_and_match_their_etag),
        cmocka_unit_test(options_stand_in_any_order_and_keep_defaults),
        cmocka_unit_test(options_that_are_wrong_exit_with_2),
        cmocka_unit_test(exit_codes_follow_the_status),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
