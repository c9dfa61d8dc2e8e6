/*
 * The importer: what it makes of files that are right. The writer of the tests and the importer were written
 * from the same facts but share no code; random graphs go through both and must answer as before.
 */
#include "server/import/import.h"
#include "server/import/tflite.h"
#include "server/import/tflite_schema.h"
#include "server/model/reference.h"
#include "tests/support/import_seed.h"
#include "tests/support/random_graph.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Imports in this process; the graph must be accepted. */
static struct graph *import_here(const struct bytes *file)
{
    struct error error;
    error_clear(&error);
    struct graph *graph = import_tflite(file->data, file->size, "test", &error);
    if (!graph)
        fail_msg("refused: %s", error.message);
    return graph;
}

static struct graph *import_model(const struct tw_model *model)
{
    struct bytes file;
    tw_encode(model, &file);
    struct graph *graph = import_here(&file);
    bytes_free(&file);
    return graph;
}

static unsigned char *answer_of(const struct graph *graph, const void *input, size_t bytes)
{
    struct error error;
    error_clear(&error);
    size_t n = graph_output_bytes(graph);
    unsigned char *out = calloc(1, n + 1);
    if (reference_run(graph, input, bytes, out, n, &error) != 0)
        fail_msg("%s", error.message);
    return out;
}

/* True when the format can express the graph; then the file must answer like it. */
static bool round_trip(uint64_t seed)
{
    struct bytes file;
    struct graph *graph = random_graph(seed, NULL);
    import_make_writable(graph, false);
    const char *reason = tflite_write(graph, NULL, &file);
    if (!reason) {
        struct graph *again = import_here(&file);
        size_t bytes;
        void *input = random_input(graph, seed, &bytes);
        unsigned char *a = answer_of(graph, input, bytes), *b = answer_of(again, input, bytes);
        assert_int_equal(graph_output_bytes(graph), graph_output_bytes(again));
        if (memcmp(a, b, graph_output_bytes(graph)) != 0)
            fail_msg("seed %llu answers differently after writing and importing", (unsigned long long)seed);
        free(a);
        free(b);
        free(input);
        graph_free(again);
        bytes_free(&file);
    }
    graph_free(graph);
    return reason == NULL;
}

static void random_graphs_answer_alike_after_writing_and_importing(void **state)
{
    (void)state;
    int done = 0;
    for (uint64_t seed = 1; seed <= 400; seed++)
        done += round_trip(seed);
    assert_true(done >= 200);
    print_message("%d of 400 random graphs can be written\n", done);
}

/* As uint8: every byte of input and output is 128 more. */
static void legacy_uint8_files_answer_like_int8_graphs_shifted_by_128(void **state)
{
    (void)state;
    struct random_graph_options options = {.int8_ends = true, .without = 1u << OP_CONCAT};
    struct tflite_write_options legacy = {.legacy_uint8 = true};
    int done = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct bytes file;
        struct graph *graph = random_graph(seed, &options);
        import_make_writable(graph, true);
        if (tflite_write(graph, &legacy, &file)) {
            graph_free(graph);
            continue;
        }
        struct graph *again = import_here(&file);
        size_t bytes;
        unsigned char *input = random_input(graph, seed, &bytes), *a = answer_of(graph, input, bytes);
        for (size_t i = 0; i < bytes; i++)
            input[i] ^= 0x80;
        unsigned char *b = answer_of(again, input, bytes);
        for (size_t i = 0; i < graph_output_bytes(graph); i++)
            if ((a[i] ^ 0x80) != b[i])
                fail_msg("seed %llu: output byte %zu is %d, not %d", (unsigned long long)seed, i, b[i],
                         a[i] ^ 0x80);
        assert_int_equal(again->tensors[again->inputs[0]].dtype, DTYPE_UINT8);
        free(input);
        free(a);
        free(b);
        graph_free(again);
        graph_free(graph);
        bytes_free(&file);
        done++;
    }
    assert_true(done >= 60);
    print_message("%d of 200 random graphs can be written as uint8\n", done);
}

static void the_child_answers_the_same_graph(void **state)
{
    (void)state;
    struct bytes file;
    struct error error;
    struct tw_model model = import_small_model(false);
    unsigned char *a, *b;
    size_t a_size, b_size;
    error_clear(&error);
    tw_encode(&model, &file);
    struct graph *here = import_here(&file), *there = import_bytes(file.data, file.size, "test", &error);
    if (!there)
        fail_msg("%s", error.message);
    assert_int_equal(graph_write(here, &a, &a_size, &error), 0);
    assert_int_equal(graph_write(there, &b, &b_size, &error), 0);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    assert_string_equal(there->name, "test");
    free(a);
    free(b);
    graph_free(here);
    graph_free(there);
    bytes_free(&file);
    tw_free(&model);
}

static void other_formats_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        enum status status;
        const char *words;
    } files[] = {
        {"", 0, STATUS_MODEL_MALFORMED, "empty"},
        {"\x08\x07\x12\x07pytorch\x1a\x03", 13, STATUS_MODEL_UNSUPPORTED, "ONNX is not supported yet"},
        {"\x89PNG\r\n\x1a\n", 8, STATUS_MODEL_UNSUPPORTED, "PNG"},
        {"PK\x03\x04", 4, STATUS_MODEL_UNSUPPORTED, "ZIP"},
        {"\x89HDF\r\n\x1a\n", 8, STATUS_MODEL_UNSUPPORTED, "HDF5"},
        {"what is this", 12, STATUS_MODEL_MALFORMED, "TFL3"},
        {"abcdTFL3", 8, STATUS_MODEL_MALFORMED, "byte"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct error error;
        error_clear(&error);
        assert_null(import_bytes(files[i].bytes, files[i].size, "x", &error));
        assert_int_equal(error.status, files[i].status);
        if (!strstr(error.message, files[i].words))
            fail_msg("'%s' does not say '%s'", error.message, files[i].words);
    }
}

static void a_model_over_the_limit_is_refused_unread(void **state)
{
    (void)state;
    struct error error;
    error_clear(&error);
    assert_null(import_file(-1, (size_t)IMPORT_MODEL_BYTES_MAX + 1, "x", &error));
    assert_int_equal(error.status, STATUS_TOO_LARGE);
    assert_int_equal(error.limit, IMPORT_MODEL_BYTES_MAX);
    assert_int_equal(error.actual, (int64_t)IMPORT_MODEL_BYTES_MAX + 1);
}

static int32_t count_kind(const struct graph *graph, enum op_kind kind)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_ops; i++)
        n += graph->ops[i].kind == kind;
    return n;
}

/* The small model with a PAD by (top, bottom) before the convolution, which becomes VALID. */
static struct tw_model padded_model(int32_t top, int32_t bottom)
{
    struct tw_model m = import_small_model(false);
    const int32_t pads[8] = {0, 0, top, bottom, 1, 1, 0, 0};
    struct tw_tensor paddings = {.name = "pads", .type = TFLITE_INT32, .rank = 2, .dims = {4, 2}};
    paddings.buffer = tw_buffer(&m, pads, sizeof pads);
    int32_t p = tw_tensor(&m, paddings);
    struct tw_tensor padded = m.tensors[m.ops[SMALL_CONV].inputs[0]];
    padded.name = "padded";
    padded.dims[1] = 8 + top + bottom;
    padded.dims[2] = 10;
    int32_t y = tw_tensor(&m, padded);
    struct tw_op *pad = tw_op(&m, TFLITE_PAD, 1), *conv = &m.ops[SMALL_CONV];
    pad->inputs[0] = conv->inputs[0];
    pad->inputs[1] = p;
    pad->n_inputs = 2;
    pad->outputs[0] = y;
    pad->n_outputs = 1;
    conv->inputs[0] = y;
    conv->options[0].bits = TFLITE_VALID;
    m.tensors[conv->outputs[0]].dims[1] = 8 + top + bottom - 2;
    return m;
}

static void pad_of_zero_points_joins_its_only_convolution(void **state)
{
    (void)state;
    struct tw_model plain = import_small_model(false), padded = padded_model(1, 1);
    struct graph *a = import_model(&plain), *b = import_model(&padded);
    assert_int_equal(count_kind(b, OP_PAD), 0);
    assert_int_equal(a->n_ops, b->n_ops);
    assert_int_equal(a->n_tensors, b->n_tensors);
    size_t bytes;
    void *input = random_input(a, 1, &bytes);
    unsigned char *x = answer_of(a, input, bytes), *y = answer_of(b, input, bytes);
    assert_memory_equal(x, y, graph_output_bytes(a));
    free(x);
    free(y);
    free(input);
    graph_free(a);
    graph_free(b);
    tw_free(&plain);
    tw_free(&padded);
}

static void pad_stays_when_something_else_reads_it(void **state)
{
    (void)state;
    struct tw_model m = padded_model(1, 1);
    m.outputs[m.n_outputs++] = m.ops[SMALL_CONV].inputs[0];
    struct graph *graph = import_model(&m);
    assert_int_equal(count_kind(graph, OP_PAD), 1);
    graph_free(graph);
    tw_free(&m);
}

/* SHAPE, STRIDED_SLICE and PACK before the RESHAPE, as converters write a flatten with an open batch. */
static struct tw_model shape_arithmetic(void)
{
    struct tw_model m = import_small_model(false);
    struct tw_op *reshape = &m.ops[SMALL_RESHAPE];
    const int32_t zero = 0, one = 1, last = -1;
    struct tw_tensor vector = {.name = "i", .type = TFLITE_INT32, .rank = 1, .dims = {4}};
    int32_t shape = tw_tensor(&m, vector);
    vector.dims[0] = 1;
    const int32_t *values[] = {&zero, &one, &one};
    int32_t ends[3];
    for (int i = 0; i < 3; i++) {
        vector.buffer = tw_buffer(&m, values[i], sizeof(int32_t));
        ends[i] = tw_tensor(&m, vector);
    }
    struct tw_tensor scalar = {.name = "s", .type = TFLITE_INT32};
    int32_t batch = tw_tensor(&m, scalar);
    scalar.buffer = tw_buffer(&m, &last, sizeof last);
    int32_t rest = tw_tensor(&m, scalar);
    vector.buffer = 0;
    vector.dims[0] = 2;
    int32_t target = tw_tensor(&m, vector);
    struct tw_op saved[3] = {m.ops[SMALL_RESHAPE], m.ops[SMALL_DENSE], m.ops[SMALL_SOFTMAX]};
    m.n_ops = SMALL_RESHAPE;
    struct tw_op *op = tw_op(&m, TFLITE_SHAPE, 1);
    op->inputs[0] = saved[0].inputs[0];
    op->outputs[0] = shape;
    op->n_inputs = op->n_outputs = 1;
    op->options_type = 0;
    op = tw_op(&m, TFLITE_STRIDED_SLICE, 1);
    memcpy(op->inputs, (int32_t[]){shape, ends[0], ends[1], ends[2]}, 4 * sizeof(int32_t));
    op->n_inputs = 4;
    op->outputs[0] = batch;
    op->n_outputs = 1;
    op->options_type = TFLITE_OPT_STRIDED_SLICE;
    op->n_options = 0;
    tw_option(op, 4, 4, 1);
    op = tw_op(&m, TFLITE_PACK, 2);
    memcpy(op->inputs, (int32_t[]){batch, rest}, 2 * sizeof(int32_t));
    op->n_inputs = 2;
    op->outputs[0] = target;
    op->n_outputs = 1;
    op->options_type = TFLITE_OPT_PACK;
    op->n_options = 0;
    tw_option(op, 0, 4, 2);
    for (int i = 0; i < 3; i++)
        m.ops[m.n_ops++] = saved[i];
    reshape = &m.ops[m.n_ops - 3];
    reshape->inputs[1] = target;
    m.tensors[reshape->outputs[0]].rank = 2;
    m.tensors[reshape->outputs[0]].dims[1] = 4;
    return m;
}

static void arithmetic_on_shapes_folds_to_constants(void **state)
{
    (void)state;
    struct tw_model m = shape_arithmetic();
    struct graph *graph = import_model(&m);
    assert_int_equal(graph->n_ops, 8);
    graph_free(graph);
    tw_free(&m);
}

/* The small model whose ADD gets a constant of `dims` as input `at`. */
static struct graph *with_constant(int at, int32_t builtin, int32_t rank, const int32_t *dims, int n)
{
    struct tw_model m = import_small_model(false);
    struct tw_op *add = &m.ops[SMALL_ADD];
    int8_t values[256];
    for (int i = 0; i < n; i++)
        values[i] = (int8_t)(i * 11 - 60);
    struct tw_tensor t = m.tensors[add->inputs[0]];
    t.name = "constant";
    t.rank = rank;
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    t.buffer = tw_buffer(&m, values, (size_t)n);
    int32_t constant = tw_tensor(&m, t);
    add->inputs[1 - at] = add->inputs[1];
    add->inputs[at] = constant;
    add->options_type = builtin == TFLITE_MUL ? TFLITE_OPT_MUL : TFLITE_OPT_ADD;
    m.codes[add->code].builtin = m.codes[add->code].deprecated_builtin = builtin;
    struct graph *graph = import_model(&m);
    tw_free(&m);
    return graph;
}

static void constants_come_second_and_are_repeated_to_fit(void **state)
{
    (void)state;
    static const int32_t vector[] = {4}, rows[] = {8, 1, 1}, map[] = {8, 8, 4};
    struct graph *graph = with_constant(0, TFLITE_MUL, 1, vector, 4);
    const struct op *op = &graph->ops[SMALL_ADD];
    assert_int_equal(op->kind, OP_MUL);
    assert_null(graph->tensors[op->inputs[0]].data);
    assert_non_null(graph->tensors[op->inputs[1]].data);
    graph_free(graph);
    graph = with_constant(1, TFLITE_ADD, 3, rows, 8);
    op = &graph->ops[SMALL_ADD];
    const int8_t *wide = graph->tensors[op->inputs[1]].data;
    assert_int_equal(shape_elements(graph->tensors[op->inputs[1]].shape), 256);
    for (int i = 0; i < 256; i++)
        assert_int_equal(wide[i], (int8_t)(i / 32 * 11 - 60));
    graph_free(graph);
    graph = with_constant(0, TFLITE_ADD, 0, map, 1);
    assert_int_equal(shape_elements(graph->tensors[graph->ops[SMALL_ADD].inputs[1]].shape), 1);
    graph_free(graph);
}

static void a_layer_has_the_first_of_the_names_that_were_fused(void **state)
{
    (void)state;
    struct tw_model m = import_small_model(false);
    m.tensors[m.ops[SMALL_CONV].outputs[0]].name = "block/relu;block/batch_norm;block/conv";
    m.tensors[m.ops[SMALL_DEPTHWISE].outputs[0]].name = ";odd";
    struct graph *graph = import_model(&m);
    assert_string_equal(graph->ops[0].name, "block/relu");
    assert_string_equal(graph->ops[1].name, ";odd");
    graph_free(graph);
    tw_free(&m);
}

static void layers_get_names_of_their_own(void **state)
{
    (void)state;
    struct tw_model m = import_small_model(false);
    char long_name[600];
    memset(long_name, 'a', sizeof long_name);
    memcpy(long_name + 244, "\xc3\xa9\xc3\xa9\xc3\xa9", 6);
    long_name[599] = 0;
    m.tensors[m.ops[SMALL_CONV].outputs[0]].name = "same";
    m.tensors[m.ops[SMALL_DEPTHWISE].outputs[0]].name = "same";
    m.tensors[m.ops[SMALL_ADD].outputs[0]].name = "same#2";
    m.tensors[m.ops[SMALL_POOL].outputs[0]].name = NULL;
    m.tensors[m.ops[SMALL_MEAN].outputs[0]].name = long_name;
    m.tensors[m.ops[SMALL_RESHAPE].outputs[0]].name = long_name;
    struct graph *graph = import_model(&m);
    assert_string_equal(graph->ops[0].name, "same");
    assert_string_equal(graph->ops[1].name, "same#2");
    assert_string_equal(graph->ops[2].name, "same#2#2");
    assert_memory_equal(graph->ops[3].name, "tensor ", 7);
    for (int32_t i = 0; i < graph->n_ops; i++)
        for (int32_t j = 0; j < i; j++)
            assert_string_not_equal(graph->ops[i].name, graph->ops[j].name);
    assert_true(strlen(graph->ops[SMALL_MEAN].name) <= 255);
    assert_true(strlen(graph->ops[SMALL_RESHAPE].name) <= 255);
    /* Cut between characters. */
    assert_int_equal((unsigned char)graph->ops[SMALL_MEAN].name[strlen(graph->ops[SMALL_MEAN].name) - 1],
                     0xa9);
    graph_free(graph);
    tw_free(&m);
}

static void the_larger_of_the_two_operator_codes_counts(void **state)
{
    (void)state;
    struct tw_model m = import_small_model(false);
    for (int32_t i = 0; i < m.n_codes; i++)
        m.codes[i].builtin = 0;
    struct graph *graph = import_model(&m);
    assert_int_equal(graph->n_ops, 8);
    graph_free(graph);
    tw_free(&m);
}

/* TFLite writes quantised dimension 3 on biases of one dimension; a bias' own quantisation does not count. */
static void the_quantisation_of_a_bias_does_not_count(void **state)
{
    (void)state;
    struct tw_model m = import_small_model(false);
    static const float scales[4] = {0, 1, 2, 3};
    static const int64_t zeros[4] = {0};
    struct tw_tensor *bias = &m.tensors[m.ops[SMALL_CONV].inputs[2]];
    bias->scales = scales;
    bias->zero_points = zeros;
    bias->n_scales = bias->n_zero_points = 4;
    bias->quantized_dimension = 3;
    graph_free(import_model(&m));
    m.ops[SMALL_CONV].inputs[2] = -1;
    struct graph *graph = import_model(&m);
    assert_null(graph->ops[SMALL_CONV].bias);
    graph_free(graph);
    tw_free(&m);
}

/* A fully connected layer straight on a map: the kernel is the whole map. */
static void fully_connected_on_a_map_is_a_convolution_over_all_of_it(void **state)
{
    (void)state;
    struct tw_model m = import_small_model(false);
    struct tw_op *dense = &m.ops[SMALL_DENSE];
    int8_t weights[5 * 64];
    for (int i = 0; i < 5 * 64; i++)
        weights[i] = (int8_t)(i * 5);
    struct tw_tensor *w = &m.tensors[dense->inputs[1]];
    w->dims[1] = 64;
    w->buffer = tw_buffer(&m, weights, sizeof weights);
    dense->inputs[0] = m.ops[SMALL_POOL].outputs[0];
    struct graph *graph = import_model(&m);
    for (int32_t i = 0; i < graph->n_ops; i++)
        if (strcmp(graph->ops[i].file_op, "FULLY_CONNECTED") == 0) {
            assert_int_equal(graph->ops[i].kernel_h, 4);
            assert_int_equal(graph->ops[i].kernel_w, 4);
            assert_true(graph->ops[i].float_scale_product);
        }
    graph_free(graph);
    tw_free(&m);
}

/* ---- real models, where the facts folder is there ---- */

static int open_fact(const char *folder, const char *name, size_t *size)
{
    char path[512];
    const char *facts = getenv("FACTS");
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s/%s", facts && *facts ? facts : "../shared", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        print_message("SKIP import %s: no %s\n", name, path);
        return -1;
    }
    *size = (size_t)info.st_size;
    return fd;
}

static const char *const integer_models[] = {
    "cfu_model_mobilenetv2_160_035",
    "coral_mobilenet_v1_0.25_128_quant",
    "coral_tf2_mobilenet_v2_1.0_224_ptq",
    "derived_cfu_model_mobilenetv2_160_035_to112",
    "derived_coral_tf2_mobilenet_v2_1.0_224_ptq_to112",
    "emlearn_mnist_cnn_int8",
    "mcunet_vww",
    "mlperf_ad01_int8",
    "mlperf_kws_ref_model",
    "mlperf_pretrainedResnet_quant",
    "mlperf_vww_96_int8",
    "nxp_yolo_face_detect",
    "silabs_image_example1",
    "silabs_keyword_spotting_on_off_v3",
    "tflm_hello_world_int8",
    "tflm_person_detect",
};

static void real_integer_models_pass_the_limited_child(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof integer_models / sizeof *integer_models; i++) {
        char file[128];
        size_t size;
        struct error error;
        (void)snprintf(file, sizeof file, "%s.tflite", integer_models[i]);
        int fd = open_fact("models", file, &size);
        if (fd < 0)
            continue;
        error_clear(&error);
        struct graph *graph = import_file(fd, size, integer_models[i], &error);
        close(fd);
        if (!graph)
            fail_msg("%s: %s", integer_models[i], error.message);
        assert_string_equal(graph->name, integer_models[i]);
        graph_free(graph);
    }
}

static void float_and_onnx_models_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
    } files[] = {
        {"mlperf_vww_96_float.tflite",
         "(CONV_2D): this is a float model; only int8 and uint8 quantised models"},
        {"mlperf_pretrainedResnet.tflite", "(CONV_2D): this is a float model"},
        {"emlearn_mnist_cnn_fp32.tflite", "(CONV_2D): this is a float model"},
        {"onnx2c_mnist_simplified.onnx", "ONNX is not supported yet"},
        {"ort_ultraface_RFB320.onnx", "ONNX is not supported yet"},
        {"synth_mobilenetv2_035_112.onnx", "ONNX is not supported yet"},
        {"synth_qdq_conv_dw_add_gap_fc.onnx", "ONNX is not supported yet"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t size;
        struct error error;
        int fd = open_fact("models", files[i].file, &size);
        if (fd < 0)
            continue;
        error_clear(&error);
        assert_null(import_file(fd, size, "x", &error));
        close(fd);
        assert_int_equal(error.status, STATUS_MODEL_UNSUPPORTED);
        if (!strstr(error.message, files[i].words))
            fail_msg("%s: '%s' does not say '%s'", files[i].file, error.message, files[i].words);
    }
}

int main(int argc, char **argv)
{
    int code = sandbox_child_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_answer_alike_after_writing_and_importing),
        cmocka_unit_test(legacy_uint8_files_answer_like_int8_graphs_shifted_by_128),
        cmocka_unit_test(the_child_answers_the_same_graph),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(a_model_over_the_limit_is_refused_unread),
        cmocka_unit_test(pad_of_zero_points_joins_its_only_convolution),
        cmocka_unit_test(pad_stays_when_something_else_reads_it),
        cmocka_unit_test(arithmetic_on_shapes_folds_to_constants),
        cmocka_unit_test(constants_come_second_and_are_repeated_to_fit),
        cmocka_unit_test(layers_get_names_of_their_own),
        cmocka_unit_test(a_layer_has_the_first_of_the_names_that_were_fused),
        cmocka_unit_test(the_larger_of_the_two_operator_codes_counts),
        cmocka_unit_test(the_quantisation_of_a_bias_does_not_count),
        cmocka_unit_test(fully_connected_on_a_map_is_a_convolution_over_all_of_it),
        cmocka_unit_test(real_integer_models_pass_the_limited_child),
        cmocka_unit_test(float_and_onnx_models_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
