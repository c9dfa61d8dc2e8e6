/*
 * What an uploaded model may do to the importer: one row each for the faults known from public importers,
 * made by describing a faulty file or by patching a right one. Each must be refused with the status and a
 * message that names the place, quickly, and without a crash here (the sanitized build says so) or in the
 * limited child.
 */
#include "server/import/import.h"
#include "server/import/tflite.h"
#include "server/import/tflite_schema.h"
#include "tests/support/import_seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct tw_tensor *input_of(struct tw_model *m, int op, int k)
{
    return &m->tensors[m->ops[op].inputs[k]];
}

static struct tw_tensor *output_of(struct tw_model *m, int op)
{
    return &m->tensors[m->ops[op].outputs[0]];
}

static void set_option(struct tw_op *op, int field, int32_t value)
{
    for (int32_t i = 0; i < op->n_options; i++)
        if (op->options[i].field == field)
            op->options[i].bits = (uint32_t)value;
}

static int32_t int_tensor(struct tw_model *m, const int32_t *values, int32_t n)
{
    struct tw_tensor t = {.name = "ints", .type = TFLITE_INT32, .rank = 1, .dims = {n}};
    t.buffer = tw_buffer(m, values, (size_t)n * sizeof *values);
    return tw_tensor(m, t);
}

static void set_scale(struct tw_model *m, struct tw_tensor *t, float scale)
{
    t->scales = arena_copy(m->arena, &scale, sizeof scale);
    t->n_scales = 1;
}

static void set_zero(struct tw_model *m, struct tw_tensor *t, int64_t zero)
{
    t->zero_points = arena_copy(m->arena, &zero, sizeof zero);
    t->n_zero_points = 1;
}

static void use_code(struct tw_model *m, int op, int32_t builtin, int32_t version)
{
    struct tw_op *o = tw_op(m, builtin, version);
    m->ops[op].code = o->code;
    m->n_ops--;
}

/* Each changes the small model. */
#define FAULT(name) static void name(struct tw_model *m)

FAULT(buffer_out_of_range)
{
    output_of(m, SMALL_ADD)->buffer = 5000;
}
FAULT(tensor_out_of_range)
{
    m->ops[SMALL_ADD].inputs[1] = 5000;
}
FAULT(tensor_far_negative)
{
    m->ops[SMALL_ADD].inputs[1] = INT32_MIN;
}
FAULT(missing_where_needed)
{
    m->ops[SMALL_ADD].inputs[1] = -1;
}
FAULT(missing_first)
{
    m->ops[SMALL_CONV].inputs[0] = -1;
}
FAULT(missing_output)
{
    m->ops[SMALL_ADD].outputs[0] = -1;
}
FAULT(no_outputs)
{
    m->ops[SMALL_ADD].n_outputs = 0;
}
FAULT(no_inputs)
{
    m->ops[SMALL_ADD].n_inputs = 0;
}
FAULT(too_many_inputs)
{
    m->ops[SMALL_ADD].n_inputs = 70;
}
FAULT(code_out_of_range)
{
    m->ops[SMALL_POOL].code = 99;
}
FAULT(unknown_version)
{
    use_code(m, SMALL_CONV, TFLITE_CONV_2D, 77);
}
FAULT(unknown_operator)
{
    use_code(m, SMALL_POOL, 28, 1);
}
FAULT(operator_beyond_the_list)
{
    use_code(m, SMALL_POOL, 9999, 1);
}
FAULT(control_flow)
{
    use_code(m, SMALL_POOL, 119, 1);
}
FAULT(options_of_another)
{
    m->ops[SMALL_POOL].options_type = TFLITE_OPT_QUANTIZE;
}
FAULT(options_missing)
{
    m->ops[SMALL_POOL].options_type = TFLITE_OPT_NONE;
}
FAULT(two_subgraphs)
{
    m->subgraphs = 2;
}
FAULT(no_subgraph)
{
    m->subgraphs = 0;
}
FAULT(old_schema)
{
    m->version = 2;
}
FAULT(sparse_weights)
{
    input_of(m, SMALL_CONV, 1)->sparse = true;
}
FAULT(variable_tensor)
{
    output_of(m, SMALL_ADD)->variable = true;
}
FAULT(custom_quantization)
{
    output_of(m, SMALL_ADD)->custom_quantization = true;
}
FAULT(type_float16)
{
    input_of(m, SMALL_CONV, 1)->type = TFLITE_FLOAT16;
}
FAULT(type_int16)
{
    output_of(m, SMALL_ADD)->type = TFLITE_INT16;
}
FAULT(type_unknown)
{
    output_of(m, SMALL_ADD)->type = 200;
}
FAULT(hybrid)
{
    input_of(m, SMALL_CONV, 0)->type = TFLITE_FLOAT32;
}
FAULT(zero_stride)
{
    set_option(&m->ops[SMALL_CONV], 1, 0);
}
FAULT(negative_stride)
{
    set_option(&m->ops[SMALL_POOL], 2, -2);
}
FAULT(zero_dilation)
{
    set_option(&m->ops[SMALL_CONV], 4, 0);
}
FAULT(huge_dilation)
{
    set_option(&m->ops[SMALL_CONV], 5, 60000);
}
FAULT(zero_window)
{
    set_option(&m->ops[SMALL_POOL], 3, 0);
}
FAULT(zero_multiplier)
{
    set_option(&m->ops[SMALL_DEPTHWISE], 3, 0);
}
FAULT(wrong_multiplier)
{
    set_option(&m->ops[SMALL_DEPTHWISE], 3, 3);
}
FAULT(unknown_padding)
{
    set_option(&m->ops[SMALL_CONV], 0, 7);
}
FAULT(unknown_activation)
{
    set_option(&m->ops[SMALL_CONV], 3, 4);
}
FAULT(bias_of_another_size)
{
    m->tensors[m->ops[SMALL_CONV].inputs[2]].dims[0] = 3,
    m->buffers[m->tensors[m->ops[SMALL_CONV].inputs[2]].buffer].size = 12;
}
FAULT(bias_not_constant)
{
    m->tensors[m->ops[SMALL_CONV].inputs[2]] = m->tensors[m->ops[SMALL_CONV].inputs[0]],
    m->ops[SMALL_CONV].inputs[2] = m->ops[SMALL_CONV].inputs[0];
}
FAULT(weights_of_another_size)
{
    input_of(m, SMALL_CONV, 1)->dims[0] = 5;
}
FAULT(weights_not_constant)
{
    m->ops[SMALL_CONV].inputs[1] = m->ops[SMALL_CONV].inputs[0];
}
FAULT(dimension_zero)
{
    output_of(m, SMALL_ADD)->dims[2] = 0;
}
FAULT(dimension_negative)
{
    output_of(m, SMALL_ADD)->dims[2] = -8;
}
FAULT(dimension_beyond_the_limit)
{
    output_of(m, SMALL_ADD)->dims[2] = 65536;
}
FAULT(product_overflows)
{
    for (int i = 1; i < 4; i++)
        output_of(m, SMALL_ADD)->dims[i] = 65535;
}
FAULT(too_many_dimensions)
{
    output_of(m, SMALL_ADD)->rank = 9;
}
FAULT(five_dimensions)
{
    output_of(m, SMALL_ADD)->rank = 5, output_of(m, SMALL_ADD)->dims[4] = 1;
}
FAULT(batch_of_two)
{
    input_of(m, SMALL_CONV, 0)->dims[0] = 2;
}
FAULT(inner_batch)
{
    output_of(m, SMALL_ADD)->dims[0] = 2;
}
FAULT(wrong_shape)
{
    output_of(m, SMALL_CONV)->dims[1] = 9;
}
FAULT(reshape_makes_more)
{
    output_of(m, SMALL_RESHAPE)->dims[3] = 400;
}
FAULT(scale_zero)
{
    set_scale(m, output_of(m, SMALL_ADD), 0);
}
FAULT(scale_negative)
{
    set_scale(m, output_of(m, SMALL_ADD), -0.5f);
}
FAULT(scale_nan)
{
    set_scale(m, output_of(m, SMALL_ADD), NAN);
}
FAULT(scale_infinite)
{
    set_scale(m, output_of(m, SMALL_ADD), INFINITY);
}
FAULT(no_scale)
{
    output_of(m, SMALL_ADD)->n_scales = 0, output_of(m, SMALL_ADD)->n_zero_points = 0;
}
FAULT(zero_point_outside)
{
    set_zero(m, output_of(m, SMALL_ADD), 128);
}
FAULT(zero_point_far_outside)
{
    set_zero(m, output_of(m, SMALL_ADD), INT64_MIN);
}
FAULT(two_scales_on_activation)
{
    static const float two[2] = {0.1f, 0.2f};
    static const int64_t zeros[2] = {0, 0};
    struct tw_tensor *t = output_of(m, SMALL_ADD);
    t->scales = two, t->zero_points = zeros, t->n_scales = t->n_zero_points = 2;
}
FAULT(scales_not_channels)
{
    input_of(m, SMALL_CONV, 1)->n_scales = 3, input_of(m, SMALL_CONV, 1)->n_zero_points = 3;
}
FAULT(scales_along_nothing)
{
    input_of(m, SMALL_CONV, 1)->quantized_dimension = 77;
}
FAULT(zero_points_unlike_scales)
{
    input_of(m, SMALL_CONV, 1)->n_zero_points = 3;
}
FAULT(weights_with_zero_point)
{
    static const int64_t zeros[4] = {0, 0, 1, 0};
    input_of(m, SMALL_CONV, 1)->zero_points = zeros;
}
FAULT(axis_out_of_range)
{
    static const int32_t axes[2] = {1, 4};
    m->ops[SMALL_MEAN].inputs[1] = int_tensor(m, axes, 2);
}
FAULT(axis_negative_out_of_range)
{
    static const int32_t axes[1] = {-5};
    m->ops[SMALL_MEAN].inputs[1] = int_tensor(m, axes, 1);
}
FAULT(many_axes)
{
    static const int32_t axes[200] = {1};
    m->ops[SMALL_MEAN].inputs[1] = int_tensor(m, axes, 200);
}
FAULT(axes_not_constant)
{
    m->ops[SMALL_MEAN].inputs[1] = m->ops[SMALL_MEAN].inputs[0];
}
FAULT(softmax_scale)
{
    set_scale(m, output_of(m, SMALL_SOFTMAX), 0.5f);
}
FAULT(softmax_beta)
{
    tw_option_float(&m->ops[SMALL_SOFTMAX], 0, NAN),
        m->ops[SMALL_SOFTMAX].options[0] = m->ops[SMALL_SOFTMAX].options[1],
        m->ops[SMALL_SOFTMAX].n_options = 1;
}
FAULT(data_of_another_size)
{
    m->buffers[input_of(m, SMALL_CONV, 1)->buffer].size--;
}
FAULT(data_outside)
{
    m->buffers[input_of(m, SMALL_CONV, 1)->buffer].outside_offset = 4096;
}
FAULT(writes_constant)
{
    m->ops[SMALL_ADD].outputs[0] = m->ops[SMALL_CONV].inputs[1];
}
FAULT(written_twice)
{
    m->ops[SMALL_POOL].outputs[0] = m->ops[SMALL_ADD].outputs[0];
}
FAULT(writes_an_input)
{
    m->ops[SMALL_ADD].outputs[0] = m->inputs[0];
}
FAULT(cycle)
{
    m->ops[SMALL_CONV].inputs[0] = m->ops[SMALL_ADD].outputs[0];
}
FAULT(reads_itself)
{
    m->ops[SMALL_ADD].inputs[1] = m->ops[SMALL_ADD].outputs[0];
}
FAULT(nobody_produces)
{
    m->inputs[0] = m->ops[SMALL_CONV].inputs[1];
}
FAULT(output_nobody_produces)
{
    struct tw_tensor t = *output_of(m, SMALL_ADD);
    m->outputs[0] = tw_tensor(m, t);
}
FAULT(output_is_input)
{
    m->outputs[0] = m->inputs[0];
}
FAULT(output_missing)
{
    m->outputs[0] = -1;
}
FAULT(input_out_of_range)
{
    m->inputs[0] = 9999;
}
FAULT(input_twice)
{
    m->inputs[1] = m->inputs[0], m->n_inputs = 2;
}
FAULT(no_input_at_all)
{
    m->n_inputs = 0;
}
FAULT(no_output_at_all)
{
    m->n_outputs = 0;
}
FAULT(too_many_outputs)
{
    m->n_outputs = 40;
}
FAULT(no_operators)
{
    m->n_ops = 0;
}
FAULT(name_with_nul)
{
    output_of(m, SMALL_ADD)->name = "a\0b", output_of(m, SMALL_ADD)->name_bytes = 3;
}
FAULT(name_with_control)
{
    output_of(m, SMALL_ADD)->name = "a\x1b[31m\n";
}
FAULT(name_with_c1_control)
{
    output_of(m, SMALL_ADD)->name = "a\xc2\x9b";
}
FAULT(name_with_markup)
{
    output_of(m, SMALL_ADD)->name = "<script>alert(1)</script>";
}
FAULT(name_not_utf8)
{
    output_of(m, SMALL_ADD)->name = "a\xff\xfe";
}
FAULT(name_overlong_utf8)
{
    output_of(m, SMALL_ADD)->name = "a\xc0\xaf";
}
FAULT(name_cut_utf8)
{
    output_of(m, SMALL_ADD)->name = "a\xe2\x82";
}
FAULT(name_of_a_megabyte)
{
    char *name = arena_alloc(m->arena, 1 << 20, 1);
    memset(name, 'x', (1 << 20) - 1);
    output_of(m, SMALL_ADD)->name = name;
}
FAULT(custom_operator)
{
    use_code(m, SMALL_POOL, TFLITE_CUSTOM, 1);
    m->codes[m->ops[SMALL_POOL].code].custom = "MyOwnOp";
}

/* The reshape gets a shape that is not what it makes. */
FAULT(reshape_told_otherwise)
{
    static const int32_t shape[5] = {1, 1, 1, 2, 2};
    m->ops[SMALL_RESHAPE].inputs[1] = int_tensor(m, shape, 5);
}

struct fault {
    const char *name;
    void (*make)(struct tw_model *m);
    enum status status;
    const char *words; /* in the message */
};

#define MALFORMED(name, words)                     \
    {                                              \
#name, name, STATUS_MODEL_MALFORMED, words \
    }
#define UNSUPPORTED(name, words)                     \
    {                                                \
#name, name, STATUS_MODEL_UNSUPPORTED, words \
    }
#define LIMIT(name, words)                     \
    {                                          \
#name, name, STATUS_MODEL_LIMIT, words \
    }

static const struct fault faults[] = {
    MALFORMED(buffer_out_of_range, "names buffer 5000"),
    MALFORMED(tensor_out_of_range, "(ADD): input 1 is tensor 5000"),
    MALFORMED(tensor_far_negative, "(ADD): input 1 is tensor -2147483648"),
    MALFORMED(missing_where_needed, "(ADD): input 1 is missing"),
    MALFORMED(missing_first, "(CONV_2D): input 0 is missing"),
    MALFORMED(missing_output, "(ADD): output 0 is tensor -1"),
    MALFORMED(no_outputs, "(ADD): it has no output"),
    MALFORMED(no_inputs, "(ADD): it has 0 inputs"),
    LIMIT(too_many_inputs, "70 inputs at one operator"),
    MALFORMED(code_out_of_range, "names operator code 99"),
    UNSUPPORTED(unknown_version, "(CONV_2D): version 77"),
    UNSUPPORTED(unknown_operator, "(TANH): this operator is not supported"),
    UNSUPPORTED(operator_beyond_the_list, "(operator code 9999)"),
    UNSUPPORTED(control_flow, "(WHILE): this operator is not supported"),
    MALFORMED(options_of_another, "(MAX_POOL_2D): its options are those of another"),
    MALFORMED(options_missing, "(MAX_POOL_2D): its options are missing"),
    UNSUPPORTED(two_subgraphs, "2 subgraphs"),
    MALFORMED(no_subgraph, "no subgraph"),
    UNSUPPORTED(old_schema, "schema version 2"),
    UNSUPPORTED(sparse_weights, "(CONV_2D): tensor"),
    UNSUPPORTED(variable_tensor, "is a variable"),
    UNSUPPORTED(custom_quantization, "custom quantisation"),
    UNSUPPORTED(type_float16, "FLOAT16"),
    UNSUPPORTED(type_int16, "INT16"),
    UNSUPPORTED(type_unknown, "unknown type"),
    UNSUPPORTED(hybrid, "hybrid"),
    MALFORMED(zero_stride, "(CONV_2D): its horizontal stride is 0"),
    MALFORMED(negative_stride, "(MAX_POOL_2D): its vertical stride is -2"),
    MALFORMED(zero_dilation, "its horizontal dilation is 0"),
    LIMIT(huge_dilation, "its window spans 120001"),
    MALFORMED(zero_window, "its window width is 0"),
    MALFORMED(zero_multiplier, "depth multiplier 0"),
    MALFORMED(wrong_multiplier, "depth multiplier 3"),
    MALFORMED(unknown_padding, "its padding is 7"),
    UNSUPPORTED(unknown_activation, "fused activation 4"),
    MALFORMED(bias_of_another_size, "its bias has 3 values for 4 channels"),
    UNSUPPORTED(bias_not_constant, "is not a constant of INT32"),
    MALFORMED(weights_of_another_size, "bytes of data"),
    UNSUPPORTED(weights_not_constant, "are not constant"),
    MALFORMED(dimension_zero, "(ADD): dimension 2 of tensor"),
    MALFORMED(dimension_negative, "(ADD): dimension 2 of tensor"),
    LIMIT(dimension_beyond_the_limit, "is 65536, more than 65535"),
    LIMIT(product_overflows, "elements"),
    LIMIT(too_many_dimensions, "9 dimensions"),
    UNSUPPORTED(five_dimensions, "5 dimensions"),
    UNSUPPORTED(batch_of_two, "batch of 2"),
    UNSUPPORTED(inner_batch, "batch"),
    MALFORMED(wrong_shape, "layer '"),
    MALFORMED(reshape_makes_more, "(RESHAPE): it makes 400 elements of 4"),
    MALFORMED(reshape_told_otherwise, "(RESHAPE): the shape it is given"),
    MALFORMED(scale_zero, "(ADD): scale 0 of tensor"),
    MALFORMED(scale_negative, "(ADD): scale 0 of tensor"),
    MALFORMED(scale_nan, "(ADD): scale 0 of tensor"),
    MALFORMED(scale_infinite, "(ADD): scale 0 of tensor"),
    UNSUPPORTED(no_scale, "without a quantisation"),
    MALFORMED(zero_point_outside, "is 128, outside INT8"),
    MALFORMED(zero_point_far_outside, "outside INT8"),
    UNSUPPORTED(two_scales_on_activation, "has 2 scales"),
    MALFORMED(scales_not_channels, "has 3 scales along dimension 0"),
    MALFORMED(scales_along_nothing, "along dimension 77"),
    MALFORMED(zero_points_unlike_scales, "4 scales and 3 zero points"),
    UNSUPPORTED(weights_with_zero_point, "zero point 1"),
    MALFORMED(axis_out_of_range, "(MEAN): its axis 4 is out of range"),
    MALFORMED(axis_negative_out_of_range, "(MEAN): its axis -5 is out of range"),
    MALFORMED(many_axes, "has 200 values"),
    UNSUPPORTED(axes_not_constant, "(MEAN): its axes"),
    UNSUPPORTED(softmax_scale, "(SOFTMAX): its output must have scale 1/256"),
    MALFORMED(softmax_beta, "(SOFTMAX): its beta"),
    MALFORMED(data_of_another_size, "bytes of data; its shape needs"),
    UNSUPPORTED(data_outside, "outside the FlatBuffer"),
    MALFORMED(writes_constant, "(ADD): it writes the constant tensor"),
    MALFORMED(written_twice, "which another operator writes too"),
    MALFORMED(writes_an_input, "an input of the model"),
    MALFORMED(cycle, ""),
    MALFORMED(reads_itself, ""),
    MALFORMED(nobody_produces, "input 0 is the constant"),
    MALFORMED(output_nobody_produces, "which no operator produces"),
    MALFORMED(output_is_input, "which no operator produces"),
    MALFORMED(output_missing, "output 0 is tensor -1"),
    MALFORMED(input_out_of_range, "input 0 is tensor 9999"),
    MALFORMED(input_twice, "like input 0"),
    MALFORMED(no_input_at_all, "no input"),
    MALFORMED(no_output_at_all, "no output"),
    LIMIT(too_many_outputs, "40 outputs"),
    MALFORMED(no_operators, "no operators"),
    MALFORMED(name_with_nul, "control bytes"),
    MALFORMED(name_with_control, "control bytes"),
    MALFORMED(name_with_c1_control, "control bytes"),
    MALFORMED(name_with_markup, "markup"),
    MALFORMED(name_not_utf8, "not UTF-8"),
    MALFORMED(name_overlong_utf8, "not UTF-8"),
    MALFORMED(name_cut_utf8, "not UTF-8"),
    MALFORMED(name_of_a_megabyte, "longer than 4096"),
    UNSUPPORTED(custom_operator, "(MyOwnOp): this operator is not supported"),
};

static void expect(const char *name, const struct error *error, enum status status, const char *words)
{
    if (error->status != status || !strstr(error->message, words))
        fail_msg("%s: %s '%s', expected %s '%s'", name, status_name(error->status), error->message,
                 status_name(status), words);
}

static void faulty_models_are_refused_with_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error;
        struct bytes file;
        struct tw_model m = import_small_model(false);
        error_clear(&error);
        faults[i].make(&m);
        tw_encode(&m, &file);
        clock_t start = clock();
        struct graph *graph = import_tflite(file.data, file.size, "test", &error);
        double ms = (double)(clock() - start) * 1000 / CLOCKS_PER_SEC;
        if (graph)
            fail_msg("%s: accepted", faults[i].name);
        expect(faults[i].name, &error, faults[i].status, faults[i].words);
        if (ms > 100)
            fail_msg("%s: refusing took %.0f ms", faults[i].name, ms);
        bytes_free(&file);
        tw_free(&m);
    }
}

/* The same through the child: the message and its places survive the way back. */
static void the_child_refuses_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error error, here;
        struct bytes file;
        struct tw_model m = import_small_model(false);
        error_clear(&error);
        error_clear(&here);
        faults[i].make(&m);
        tw_encode(&m, &file);
        assert_null(import_tflite(file.data, file.size, "test", &here));
        assert_null(import_bytes(file.data, file.size, "test", &error));
        expect(faults[i].name, &error, faults[i].status, faults[i].words);
        assert_string_equal(error.layer, here.layer);
        assert_string_equal(error.op, here.op);
        assert_int_equal(error.limit, here.limit);
        bytes_free(&file);
        tw_free(&m);
    }
}

int main(int argc, char **argv)
{
    int code = sandbox_child_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faulty_models_are_refused_with_the_place),
        cmocka_unit_test(the_child_refuses_the_same),
    };
    return cmocka_run_group_tests_name("import_threats", tests, NULL, NULL);
}
