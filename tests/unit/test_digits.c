/* The demo model that is in the repository: it imports, and it reads the ten samples that come with it. */
#include "server/base/file.h"
#include "server/import/import.h"
#include "server/model/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 28, CLASSES = 10, FILE_BYTES_MAX = 1 << 20 };

static uint8_t *read_all(const char *path, size_t *size)
{
    struct error error;
    uint8_t *bytes;
    error_clear(&error);
    if (file_read(path, FILE_BYTES_MAX, &bytes, size, &error) < 0)
        fail_msg("%s", error.message);
    return bytes;
}

static struct graph *demo_model(void)
{
    size_t size;
    struct error error;
    error_clear(&error);
    uint8_t *file = read_all("models/digits.tflite", &size);
    struct graph *graph = import_bytes(file, size, "digits", &error);
    if (!graph)
        fail_msg("%s", error.message);
    free(file);
    return graph;
}

static void the_demo_model_is_a_classifier_of_inverted_residual_blocks(void **state)
{
    (void)state;
    struct graph *graph = demo_model();
    int32_t of_kind[OP_KIND_COUNT] = {0};
    int64_t weights = 0;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        of_kind[graph->ops[i].kind]++;
        weights += graph->ops[i].weight_bytes;
    }
    assert_int_equal(graph_input_bytes(graph), SIDE * SIDE);
    assert_int_equal(graph_output_bytes(graph), CLASSES);
    assert_int_equal(of_kind[OP_DEPTHWISE], 9);
    assert_true(of_kind[OP_ADD] >= 3);
    assert_int_equal(of_kind[OP_MEAN], 1);
    assert_int_equal(graph->ops[graph->n_ops - 1].kind, OP_SOFTMAX);
    assert_in_range(weights, 150000, 200000); /* more than a board's flash in `make run` */
    graph_free(graph);
}

static void the_demo_model_reads_each_sample(void **state)
{
    (void)state;
    struct graph *graph = demo_model();
    for (int32_t digit = 0; digit < CLASSES; digit++) {
        char path[64];
        size_t size;
        struct error error;
        struct import_pixels picture;
        int8_t in[SIDE * SIDE], out[CLASSES];
        int32_t top = 0;
        error_clear(&error);
        (void)snprintf(path, sizeof path, "web/samples/digit_%d.png", digit);
        uint8_t *file = read_all(path, &size);
        if (import_image(file, size, &picture, &error) < 0)
            fail_msg("%s: %s", path, error.message);
        assert_int_equal(picture.width, SIDE);
        assert_int_equal(picture.height, SIDE);
        for (int32_t i = 0; i < SIDE * SIDE; i++)
            in[i] = (int8_t)(picture.rgb[3 * i] - 128);
        assert_int_equal(reference_run(graph, in, sizeof in, out, sizeof out, &error), 0);
        for (int32_t c = 1; c < CLASSES; c++)
            top = out[c] > out[top] ? c : top;
        if (top != digit)
            fail_msg("%s is read as %d", path, top);
        import_pixels_free(&picture);
        free(file);
    }
    graph_free(graph);
}

int main(int argc, char **argv)
{
    int code = sandbox_child_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_demo_model_is_a_classifier_of_inverted_residual_blocks),
        cmocka_unit_test(the_demo_model_reads_each_sample),
    };
    return cmocka_run_group_tests_name("digits", tests, NULL, NULL);
}
