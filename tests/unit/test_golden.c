/*
 * The reference executor against TensorFlow Lite's own answers: real models by others, four inputs each,
 * every byte of every output; and every tensor of four of the models, so that a difference names the first
 * layer. Needs the facts folder (environment variable FACTS, default ../shared); without it each test skips
 * and says so.
 */
#include "server/import/tflite.h"
#include "server/model/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Under sanitizers the random input and the gradient: five times slower. */
#ifdef SHOAL_SANITIZE
static const int goldens[] = {0, 3};
#else
static const int goldens[] = {0, 1, 2, 3};
#endif

static const char *facts(void)
{
    const char *folder = getenv("FACTS");
    return folder && *folder ? folder : "../shared";
}

/* The whole file, malloc'ed; NULL if there is none. */
static unsigned char *read_file(const char *path, size_t *size)
{
    unsigned char *bytes = NULL;
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long length = ftell(file);
        rewind(file);
        bytes = length >= 0 ? malloc((size_t)length + 1) : NULL;
        *size = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
    }
    (void)fclose(file);
    return bytes;
}

/* The model's graph; NULL when there is no facts folder. A model that is there must be accepted. */
static struct graph *load(const char *name)
{
    char path[512];
    size_t size = 0;
    struct error error;
    (void)snprintf(path, sizeof path, "%s/models/%s.tflite", facts(), name);
    unsigned char *bytes = read_file(path, &size);
    if (!bytes) {
        (void)printf("SKIP %s: no %s\n", name, path);
        return NULL;
    }
    error_clear(&error);
    struct graph *graph = import_tflite(bytes, size, name, &error);
    free(bytes);
    if (!graph)
        fail_msg("%s: layer '%s' (%s): %s", name, error.layer, error.op, error.message);
    return graph;
}

static unsigned char *golden(const char *name, const char *end, int k, size_t expected)
{
    char path[512];
    size_t size = 0;
    (void)snprintf(path, sizeof path, "%s/golden/%s.%s%d.bin", facts(), name, end, k);
    unsigned char *bytes = read_file(path, &size);
    if (!bytes || size != expected)
        fail_msg("%s has %zu bytes, not %zu", path, size, expected);
    return bytes;
}

static void check_golden(const struct graph *graph, const char *name, int k)
{
    size_t in_size = graph_input_bytes(graph), out_size = graph_output_bytes(graph);
    unsigned char *in = golden(name, "in", k, in_size), *expected = golden(name, "out", k, out_size);
    unsigned char *out = calloc(1, out_size);
    assert_non_null(out);
    assert_int_equal(reference_run(graph, in, in_size, out, out_size, NULL), 0);
    for (size_t i = 0; i < out_size; i++)
        if (out[i] != expected[i])
            fail_msg("%s, input %d: output byte %zu of %zu is %d, not %d", name, k, i, out_size, out[i],
                     expected[i]);
    free(in);
    free(expected);
    free(out);
}

static void reference_meets_the_goldens(void **state)
{
    const char *name = *state;
    struct graph *graph = load(name);
    if (!graph)
        skip();
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
        check_golden(graph, name, goldens[i]);
    graph_free(graph);
}

/* Tensor files are named by the file's tensor index; the graph is found again by size and order: each
 * operator's output must be one of the files' contents that has its size. */
struct recorded {
    unsigned char *bytes[512];
    size_t sizes[512];
};

static void load_recorded(struct recorded *recorded, const char *name)
{
    for (int t = 0; t < 512; t++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/tensors/%s/t%d.bin", facts(), name, t);
        recorded->bytes[t] = read_file(path, &recorded->sizes[t]);
    }
}

static bool was_recorded(const struct recorded *recorded, const void *bytes, size_t size)
{
    for (int t = 0; t < 512; t++)
        if (recorded->bytes[t] && recorded->sizes[t] == size && memcmp(recorded->bytes[t], bytes, size) == 0)
            return true;
    return false;
}

static void reference_meets_every_recorded_tensor(void **state)
{
    const char *name = *state;
    struct graph *graph = load(name);
    if (!graph)
        skip();
    struct recorded *recorded = calloc(1, sizeof *recorded);
    void **tensors = calloc((size_t)graph->n_tensors, sizeof *tensors);
    assert_true(recorded && tensors);
    load_recorded(recorded, name);
    size_t in_size = graph_input_bytes(graph);
    unsigned char *in = golden(name, "in", 3, in_size);
    assert_int_equal(reference_run_keep(graph, in, in_size, tensors, NULL), 0);
    for (int32_t o = 0; o < graph->n_ops; o++) {
        int32_t t = graph->ops[o].output;
        if (!was_recorded(recorded, tensors[t], tensor_bytes(&graph->tensors[t])))
            fail_msg("%s: layer '%s' (%s) differs first", name, graph->ops[o].name, graph->ops[o].file_op);
    }
    reference_free_tensors(graph, tensors);
    for (int t = 0; t < 512; t++)
        free(recorded->bytes[t]);
    free(recorded);
    free(tensors);
    free(in);
    graph_free(graph);
}

#define GOLDEN(name)                                            \
    {                                                           \
        name, reference_meets_the_goldens, NULL, NULL, (char[]) \
        {                                                       \
            name                                                \
        }                                                       \
    }
#define TENSORS(name)                                                                \
    {                                                                                \
        "tensors " name, reference_meets_every_recorded_tensor, NULL, NULL, (char[]) \
        {                                                                            \
            name                                                                     \
        }                                                                            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TENSORS("mlperf_kws_ref_model"),
        TENSORS("mlperf_pretrainedResnet_quant"),
        TENSORS("tflm_person_detect"),
        TENSORS("cfu_model_mobilenetv2_160_035"),
        GOLDEN("cfu_model_mobilenetv2_160_035"),
        GOLDEN("derived_cfu_model_mobilenetv2_160_035_to112"),
        GOLDEN("coral_mobilenet_v1_0.25_128_quant"),
        GOLDEN("coral_tf2_mobilenet_v2_1.0_224_ptq"),
        GOLDEN("derived_coral_tf2_mobilenet_v2_1.0_224_ptq_to112"),
        GOLDEN("emlearn_mnist_cnn_int8"),
        GOLDEN("mcunet_vww"),
        GOLDEN("mlperf_ad01_int8"),
        GOLDEN("mlperf_kws_ref_model"),
        GOLDEN("mlperf_pretrainedResnet_quant"),
        GOLDEN("mlperf_vww_96_int8"),
        GOLDEN("nxp_yolo_face_detect"),
        GOLDEN("silabs_image_example1"),
        GOLDEN("silabs_keyword_spotting_on_off_v3"),
        GOLDEN("tflm_hello_world_int8"),
        GOLDEN("tflm_person_detect"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
