/* Evaluations: how sets are read, what is counted, what the reports say. */
#include "server/base/file.h"
#include "server/cli/eval_report.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

static int parse(const char *text, struct eval_set *set, struct error *error)
{
    error_clear(error);
    return eval_set_parse(text, strlen(text), "data", set, error);
}

static void a_list_has_a_path_and_a_label_a_line(void **state)
{
    (void)state;
    struct eval_set set;
    struct error error;
    assert_int_equal(
        parse("path,label\r\n# a remark\n\n a.png , 7 \nb,c.png,tabby cat\n/abs/d.jpg,9", &set, &error), 0);
    assert_int_equal(set.n, 3);
    assert_string_equal(set.images[0].path, "data/a.png");
    assert_string_equal(set.images[0].label, "7");
    assert_string_equal(set.images[1].path, "data/b,c.png");
    assert_string_equal(set.images[1].label, "tabby cat");
    assert_string_equal(set.images[2].path, "/abs/d.jpg");
    eval_set_free(&set);
    assert_int_equal(set.n, 0);
}

static void a_line_without_path_or_label_is_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"a.png,1\nb.png", "a.png,1\nb.png,", "a.png,1\n,2", "a.png,1\n ,\t"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct eval_set set;
        struct error error;
        assert_int_equal(parse(wrong[i], &set, &error), STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, "line 2"));
        assert_int_equal(set.n, 0);
    }
}

static void a_set_without_images_is_refused(void **state)
{
    (void)state;
    struct eval_set set;
    struct error error;
    assert_int_equal(parse("", &set, &error), STATUS_INVALID_ARGUMENT);
    assert_int_equal(parse("# nothing\n\npath,label\n", &set, &error), STATUS_INVALID_ARGUMENT);
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    (void)state;
    struct eval_set set;
    struct error error;
    error_clear(&error);
    assert_int_equal(eval_set_parse("a\0b.png,1", 9, "", &set, &error), STATUS_INVALID_ARGUMENT);
    assert_int_equal(parse("a\xff.png,1", &set, &error), STATUS_INVALID_ARGUMENT);
    assert_int_equal(parse("a.png,\xc3(", &set, &error), STATUS_INVALID_ARGUMENT);
}

static void put(const char *folder, const char *name)
{
    char path[256];
    struct error error;
    error_clear(&error);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write(path, "x", 1, 0644, &error), 0);
}

static void a_folder_gives_images_of_its_folders_in_order(void **state)
{
    (void)state;
    char root[] = "/tmp/test-eval-XXXXXX", path[128];
    assert_non_null(mkdtemp(root));
    static const char *const labels[] = {"dog", "cat", ".hidden"};
    static const char *const names[] = {"2.JPG", "1.png", "3.jpeg", "notes.txt", ".4.png"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, labels[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        for (size_t k = 0; k < 5; k++)
            put(path, names[k]);
    }
    put(root, "beside.png");
    struct eval_set set;
    struct error error;
    error_clear(&error);
    assert_int_equal(eval_set_read(root, &set, &error), 0);
    assert_int_equal(set.n, 6);
    assert_string_equal(set.images[0].label, "cat");
    assert_string_equal(strrchr(set.images[0].path, '/'), "/1.png");
    assert_string_equal(strrchr(set.images[1].path, '/'), "/2.JPG");
    assert_string_equal(set.images[5].label, "dog");
    eval_set_free(&set);
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 5; k++) {
            (void)snprintf(path, sizeof path, "%s/%s/%s", root, labels[i], names[k]);
            assert_int_equal(unlink(path), 0);
        }
        (void)snprintf(path, sizeof path, "%s/%s", root, labels[i]);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(eval_set_read(root, &set, &error), STATUS_INVALID_ARGUMENT);
    (void)snprintf(path, sizeof path, "%s/beside.png", root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(root), 0);
    error_clear(&error);
    assert_int_equal(eval_set_read(root, &set, &error), STATUS_NOT_FOUND);
}

static void percentiles_are_values_that_occurred(void **state)
{
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = i + 1;
    assert_true(eval_percentile(values, 100, 0.95) == 95);
    assert_true(eval_percentile(values, 100, 0.5) == 50);
    assert_true(eval_percentile(values, 100, 1) == 100);
    assert_true(eval_percentile(values, 1, 0.95) == 1);
    assert_true(eval_percentile(values, 10, 0.95) == 10);
    assert_true(eval_percentile(values, 20, 0.95) == 19);
    assert_true(eval_percentile(values, 3, 0.5) == 2);
}

/* Four images: right, second, sixth at best, right. */
static struct eval_image images[] = {
    {"a/1.png", "2"}, {"a/2.png", "10"}, {"a/<3>.png", "10"}, {"a/4.png", "10"}};
static struct eval_result results[] = {{&images[0], "2", 1, 0.9, 4},
                                       {&images[1], "2", 2, 0.5, 1},
                                       {&images[2], "2", 0, 0.4, 3},
                                       {&images[3], "10", 1, 0.8, 2}};

static struct eval_report report_of(double min_top1, double max_p95_ms)
{
    struct eval_report report = {.model = "m&m",
                                 .version = "",
                                 .set = "a",
                                 .executor = "server",
                                 .results = results,
                                 .n = 4,
                                 .thresholds = {min_top1, max_p95_ms}};
    assert_int_equal(eval_count(results, 4, &report.figures), 0);
    return report;
}

static void ranks_and_latencies_are_counted(void **state)
{
    (void)state;
    struct eval_figures f = report_of(NAN, NAN).figures;
    assert_int_equal(f.images, 4);
    assert_int_equal(f.top1, 2);
    assert_int_equal(f.top5, 3);
    assert_true(f.mean_ms == 2.5 && f.p50_ms == 2 && f.p95_ms == 4 && f.max_ms == 4);
}

static void a_threshold_is_met_at_its_limit(void **state)
{
    (void)state;
    static const struct {
        double min_top1, max_p95_ms;
        bool met;
    } cases[] = {{NAN, NAN, true}, {0.5, NAN, true},  {0.51, NAN, false},
                 {NAN, 4, true},   {NAN, 3.9, false}, {0.5, 3.9, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eval_report report = report_of(cases[i].min_top1, cases[i].max_p95_ms);
        assert_int_equal(eval_met(&report), cases[i].met);
    }
}

static void the_document_counts_each_pair_once(void **state)
{
    (void)state;
    struct eval_report report = report_of(0.9, NAN);
    json_t *json = eval_report_json(&report);
    assert_non_null(json);
    char *confusion = json_dumps(json_object_get(json, "confusion"), JSON_COMPACT);
    assert_string_equal(confusion,
                        "[{\"label\":\"2\",\"said\":\"2\",\"count\":1},{\"label\":\"10\",\"said\":\"2\","
                        "\"count\":2},{\"label\":\"10\",\"said\":\"10\",\"count\":1}]");
    free(confusion);
    json_t *misses = json_object_get(json, "misses");
    assert_int_equal(json_array_size(misses), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(misses, 0), "rank")), 2);
    assert_true(json_is_null(json_object_get(json_array_get(misses, 1), "rank")));
    json_t *threshold = json_array_get(json_object_get(json, "thresholds"), 0);
    assert_true(json_is_false(json_object_get(threshold, "met")));
    assert_true(json_real_value(json_object_get(threshold, "actual")) == 0.5);
    json_decref(json);
}

static void junit_escapes_names_and_fails_what_was_missed(void **state)
{
    (void)state;
    struct eval_report missed = report_of(0.9, 100), plain = report_of(NAN, NAN);
    char *text = eval_report_junit(&missed);
    assert_non_null(strstr(text, "tests=\"2\" failures=\"1\""));
    assert_non_null(strstr(text, "classname=\"m&amp;m\" name=\"min_top1\""));
    assert_non_null(strstr(text, "<failure message=\"min_top1 is 0.5, the limit 0.9\"/>"));
    assert_non_null(strstr(text, "a/&lt;3&gt;.png: 10 read as 2"));
    assert_null(strstr(text, "<3>"));
    free(text);
    text = eval_report_junit(&plain);
    assert_non_null(strstr(text, "tests=\"1\" failures=\"0\""));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_a_path_and_a_label_a_line),
        cmocka_unit_test(a_line_without_path_or_label_is_named),
        cmocka_unit_test(a_set_without_images_is_refused),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(a_folder_gives_images_of_its_folders_in_order),
        cmocka_unit_test(percentiles_are_values_that_occurred),
        cmocka_unit_test(ranks_and_latencies_are_counted),
        cmocka_unit_test(a_threshold_is_met_at_its_limit),
        cmocka_unit_test(the_document_counts_each_pair_once),
        cmocka_unit_test(junit_escapes_names_and_fails_what_was_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
