/*
 * Model files whose bytes are broken: wrong offsets, cut files, any word changed to anything, random
 * mutations, and files that ask for more memory or time than they are worth. Refused or imported, never a
 * crash; the sanitized build says so.
 */
#include "server/import/import.h"
#include "server/import/tflite.h"
#include "server/import/tflite_schema.h"
#include "tests/support/import_seed.h"
#include "tests/support/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *name, const struct error *error, enum status status, const char *words)
{
    if (error->status != status || !strstr(error->message, words))
        fail_msg("%s: %s '%s', expected %s '%s'", name, status_name(error->status), error->message,
                 status_name(status), words);
}

static struct bytes small_file(bool legacy)
{
    struct bytes file;
    struct tw_model m = import_small_model(legacy);
    tw_encode(&m, &file);
    tw_free(&m);
    return file;
}

/* The root table's position, and that of a field in it. */
static size_t root(const struct bytes *file)
{
    return le_get32(file->data);
}

static size_t root_field(const struct bytes *file, int field)
{
    size_t vtable = root(file) - le_get32(file->data + root(file));
    return root(file) + le_get16(file->data + vtable + 4 + 2 * (size_t)field);
}

static void refuse_patched(struct bytes *file, size_t at, uint32_t value, const char *name, const char *words)
{
    struct error error;
    uint32_t old = le_get32(file->data + at);
    error_clear(&error);
    le_put32(file->data + at, value);
    struct graph *graph = import_tflite(file->data, file->size, "test", &error);
    le_put32(file->data + at, old);
    if (graph)
        fail_msg("%s: accepted", name);
    expect(name, &error, STATUS_MODEL_MALFORMED, words);
    if (error.offset < 0)
        fail_msg("%s: no byte offset", name);
}

static void broken_offsets_are_refused_with_the_byte(void **state)
{
    (void)state;
    struct bytes file = small_file(false);
    size_t codes = root_field(&file, MODEL_OPERATOR_CODES), vector = codes + le_get32(file.data + codes);
    size_t vtable = root(&file) - le_get32(file.data + root(&file));
    refuse_patched(&file, 0, 0, "root offset 0", "points outside");
    refuse_patched(&file, 0, 0xffffffff, "root offset far", "points outside");
    refuse_patched(&file, 0, (uint32_t)file.size - 2, "root at the end", "outside the file");
    refuse_patched(&file, 0, (uint32_t)root(&file) + 2, "root misaligned", "misaligned");
    refuse_patched(&file, root(&file), 0x7fffffff, "vtable before the file", "vtable");
    refuse_patched(&file, root(&file), 0x80000000, "vtable after the file", "vtable");
    refuse_patched(&file, root(&file), 1, "vtable misaligned", "vtable");
    refuse_patched(&file, vtable, 0xffffffff, "vtable and table lengths", "impossible length");
    refuse_patched(&file, vtable, 0x00040002, "vtable shorter than its head", "impossible length");
    refuse_patched(&file, vtable, 0x0001000e, "table shorter than its head", "impossible length");
    refuse_patched(&file, vtable + 4, 0xfff0fff0, "fields outside their table", "field");
    refuse_patched(&file, vtable + 4, 0x00050005, "fields misaligned", "field");
    refuse_patched(&file, codes, 0, "null offset", "points outside");
    refuse_patched(&file, codes, 0x7ffffff0, "vector outside", "points outside");
    refuse_patched(&file, codes, le_get32(file.data + codes) + 1, "vector misaligned", "misaligned");
    refuse_patched(&file, vector, 0xffffffff, "vector longer than the file", "longer than the file");
    refuse_patched(&file, vector + 4, 0, "null operator code", "points outside");
    bytes_free(&file);
}

static void files_of_eight_bytes_are_refused(void **state)
{
    (void)state;
    for (uint32_t offset = 0; offset < 16; offset++) {
        struct error error;
        uint8_t *file = malloc(8);
        le_put32(file, offset);
        memcpy(file + 4, TFLITE_IDENTIFIER, 4);
        error_clear(&error);
        assert_null(import_tflite(file, 8, "test", &error));
        assert_int_equal(error.status, STATUS_MODEL_MALFORMED);
        free(file);
    }
}

/* Imports a copy of exactly this length, so that a read past its end is seen. */
static bool survives(const uint8_t *bytes, size_t size)
{
    struct error error;
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    error_clear(&error);
    struct graph *graph = import_tflite(copy, size, "test", &error);
    free(copy);
    if (!graph && (error.status == STATUS_OK || error.message[0] == 0))
        fail_msg("refused without a reason");
    graph_free(graph);
    return graph != NULL;
}

static void a_model_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    struct bytes file = small_file(false);
    for (size_t n = 0; n < file.size; n++)
        if (survives(file.data, n))
            fail_msg("a file cut to %zu of %zu bytes is accepted", n, file.size);
    assert_true(survives(file.data, file.size));
    bytes_free(&file);
}

static void every_word_of_a_model_may_be_anything(void **state)
{
    (void)state;
    static const uint32_t values[] = {0,          1,       0xffffffff, 0x7fffffff,
                                      0x80000000, 0x10000, 0xfffffff8, 0x00ff00ff};
    struct bytes file = small_file(false);
    for (size_t at = 0; at + 4 <= file.size; at += 4) {
        uint32_t old = le_get32(file.data + at);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            le_put32(file.data + at, values[k]);
            (void)survives(file.data, file.size);
        }
        le_put32(file.data + at, old);
    }
    bytes_free(&file);
}

static void random_mutations_never_crash(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    struct prng prng = prng_seed(11);
    struct bytes files[2] = {small_file(false), small_file(true)};
    int accepted = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct bytes *file = &files[i % 2];
        uint8_t *copy = malloc(file->size);
        memcpy(copy, file->data, file->size);
        for (int32_t k = prng_range(&prng, 1, 6); k > 0; k--) {
            size_t at = (size_t)prng_range(&prng, 0, (int32_t)file->size - 1);
            unsigned changed = copy[at] ^ (1u << prng_range(&prng, 0, 7));
            copy[at] = (uint8_t)(prng_one_in(&prng, 2) ? changed : prng_next(&prng));
        }
        accepted += survives(copy, file->size);
        free(copy);
    }
    print_message("%d of %d mutations are still models\n", accepted, ROUNDS);
    assert_true(accepted > 0 && accepted < ROUNDS);
    bytes_free(&files[0]);
    bytes_free(&files[1]);
}

/* ---- amplification ---- */

/* Thousands of layers that share one large weight buffer: constants may not outgrow the file. */
static void shared_weights_do_not_multiply_memory(void **state)
{
    (void)state;
    enum { LAYERS = 4000, SIDE = 1500 };
    struct error error;
    struct bytes file;
    struct tw_model m = tw_new(3 * LAYERS);
    int8_t *weights = calloc(1, (size_t)SIDE * SIDE);
    uint32_t buffer = tw_buffer(&m, weights, (size_t)SIDE * SIDE);
    static const float scale = 0.1f;
    static const int64_t zero = 0;
    struct tw_tensor x = {.type = TFLITE_INT8, .rank = 2, .dims = {1, SIDE}, .scales = &scale, .n_scales = 1};
    struct tw_tensor w = {
        .type = TFLITE_INT8, .rank = 2, .dims = {SIDE, SIDE}, .scales = &scale, .n_scales = 1};
    x.zero_points = w.zero_points = &zero;
    x.n_zero_points = w.n_zero_points = 1;
    w.buffer = buffer;
    int32_t shared = tw_tensor(&m, w), last = tw_tensor(&m, x);
    m.inputs[m.n_inputs++] = last;
    for (int i = 0; i < LAYERS; i++) {
        struct tw_op *op = tw_op(&m, TFLITE_FULLY_CONNECTED, 1);
        op->inputs[0] = last;
        op->inputs[1] = shared;
        op->n_inputs = 2;
        op->outputs[0] = last = tw_tensor(&m, x);
        op->n_outputs = 1;
        op->options_type = TFLITE_OPT_FULLY_CONNECTED;
    }
    m.outputs[m.n_outputs++] = last;
    tw_encode(&m, &file);
    error_clear(&error);
    assert_null(import_bytes(file.data, file.size, "test", &error));
    expect("shared weights", &error, STATUS_MODEL_LIMIT, "constants");
    free(weights);
    bytes_free(&file);
    tw_free(&m);
}

/* Four thousand layers of one name, and twice as many tensors as may be. */
static void counts_are_limited_and_names_cost_little(void **state)
{
    (void)state;
    enum { LAYERS = 4000 };
    struct error error;
    struct bytes file;
    struct tw_model m = tw_new(3 * LAYERS);
    static const float scale = 0.1f;
    static const int64_t zero = 0;
    char name[201];
    memset(name, 'n', 200);
    name[200] = 0;
    struct tw_tensor x = {.name = name,
                          .type = TFLITE_INT8,
                          .rank = 2,
                          .dims = {1, 4},
                          .scales = &scale,
                          .n_scales = 1,
                          .zero_points = &zero,
                          .n_zero_points = 1};
    int32_t last = tw_tensor(&m, x);
    m.inputs[m.n_inputs++] = last;
    for (int i = 0; i < LAYERS; i++) {
        struct tw_op *op = tw_op(&m, TFLITE_RELU, 1);
        op->inputs[0] = last;
        op->outputs[0] = last = tw_tensor(&m, x);
        op->n_inputs = op->n_outputs = 1;
    }
    m.outputs[m.n_outputs++] = last;
    tw_encode(&m, &file);
    error_clear(&error);
    struct graph *graph = import_bytes(file.data, file.size, "test", &error);
    if (!graph)
        fail_msg("%s", error.message);
    assert_int_equal(graph->n_ops, LAYERS);
    graph_free(graph);
    bytes_free(&file);
    for (int i = 0; i < 4300; i++)
        (void)tw_tensor(&m, x);
    tw_encode(&m, &file);
    assert_null(import_bytes(file.data, file.size, "test", &error));
    expect("tensors", &error, STATUS_MODEL_LIMIT, "8301 tensors");
    assert_int_equal(error.limit, GRAPH_TENSORS_MAX);
    bytes_free(&file);
    tw_free(&m);
}

int main(int argc, char **argv)
{
    int code = sandbox_child_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_offsets_are_refused_with_the_byte),
        cmocka_unit_test(files_of_eight_bytes_are_refused),
        cmocka_unit_test(a_model_cut_at_any_byte_is_refused),
        cmocka_unit_test(every_word_of_a_model_may_be_anything),
        cmocka_unit_test(random_mutations_never_crash),
        cmocka_unit_test(shared_weights_do_not_multiply_memory),
        cmocka_unit_test(counts_are_limited_and_names_cost_little),
    };
    return cmocka_run_group_tests_name("import_bytes", tests, NULL, NULL);
}
