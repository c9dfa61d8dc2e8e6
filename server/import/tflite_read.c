/*
 * The structure pass over a TensorFlow Lite file: follows every offset that is used, once, and copies what it
 * finds into small structs. It knows nothing of operators' meaning: indices are read here and checked against
 * their ranges in tflite_check.c, except those that are followed here (operator codes, buffers).
 */
#include "server/import/tflite_file.h"

#include "server/base/utf8.h"
#include "server/model/graph.h"

#include <string.h>

struct reader {
    struct fb fb;
    struct arena *scratch;
    struct error *error;
    struct fb_vector codes, buffers;
};

static int out_of_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "out of memory while reading the model");
}

static int too_many(struct error *error, const char *what, int64_t limit, int64_t actual)
{
    int status = error_set(error, STATUS_MODEL_LIMIT, "the model has %lld %s, more than %lld",
                           (long long)actual, what, (long long)limit);
    error_limit(error, limit, actual);
    return status;
}

/* A vector of int32 as an array in the scratch arena. */
static int read_ints(struct reader *r, const struct fb_table *table, int field, const char *what, int32_t max,
                     const int32_t **out, int32_t *count)
{
    struct fb_vector v = fb_vector(&r->fb, table, field, 4);
    if (v.count > (uint32_t)max)
        return too_many(r->error, what, max, v.count);
    int32_t *ints = arena_alloc(r->scratch, v.count, sizeof *ints);
    if (!ints)
        return out_of_memory(r->error);
    for (uint32_t i = 0; i < v.count; i++)
        ints[i] = fb_vector_i32(&r->fb, &v, i);
    *out = ints;
    *count = (int32_t)v.count;
    return r->fb.status;
}

/* NULL when a name may be shown and stored, else what is wrong with it. */
static const char *name_fault(const char *name, size_t bytes)
{
    if (bytes > TFLITE_NAME_BYTES_MAX)
        return "is longer than 4096 bytes";
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)name[i], next = i + 1 < bytes ? (unsigned char)name[i + 1] : 0;
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0))
            return "holds control bytes";
        if (c == '<')
            return "holds markup";
    }
    return utf8_valid(name, bytes) ? NULL : "is not UTF-8";
}

static int read_quantization(struct reader *r, const struct fb_table *table, struct tflite_tensor *tensor)
{
    struct fb_table q;
    if (!fb_child(&r->fb, table, TENSOR_QUANTIZATION, &q))
        return r->fb.status;
    struct fb_vector scales = fb_vector(&r->fb, &q, QUANT_SCALE, 4);
    struct fb_vector zeros = fb_vector(&r->fb, &q, QUANT_ZERO_POINT, 8);
    if (scales.count > GRAPH_DIM_MAX || zeros.count > GRAPH_DIM_MAX)
        return too_many(r->error, "scales for one tensor", GRAPH_DIM_MAX,
                        scales.count > zeros.count ? scales.count : zeros.count);
    float *s = arena_alloc(r->scratch, scales.count, sizeof *s);
    int64_t *z = arena_alloc(r->scratch, zeros.count, sizeof *z);
    if (!s || !z)
        return out_of_memory(r->error);
    for (uint32_t i = 0; i < scales.count; i++)
        s[i] = fb_vector_f32(&r->fb, &scales, i);
    for (uint32_t i = 0; i < zeros.count; i++)
        z[i] = fb_vector_i64(&r->fb, &zeros, i);
    tensor->scales = s;
    tensor->zero_points = z;
    tensor->n_scales = (int32_t)scales.count;
    tensor->n_zero_points = (int32_t)zeros.count;
    tensor->quantized_dimension = fb_i32(&r->fb, &q, QUANT_DIMENSION, 0);
    tensor->custom_quantization = fb_u8(&r->fb, &q, QUANT_DETAILS_TYPE, 0) != 0;
    return r->fb.status;
}

static int read_data(struct reader *r, uint32_t index, int32_t t, struct tflite_tensor *tensor)
{
    if (index >= r->buffers.count)
        return error_set(r->error, STATUS_MODEL_MALFORMED, "tensor %d names buffer %u of %u", t, index,
                         r->buffers.count);
    struct fb_table buffer;
    if (!fb_vector_child(&r->fb, &r->buffers, index, &buffer))
        return r->fb.status;
    if (fb_u64(&r->fb, &buffer, BUFFER_OFFSET, 0) > 1 || fb_u64(&r->fb, &buffer, BUFFER_SIZE, 0) > 1)
        return error_set(r->error, STATUS_MODEL_UNSUPPORTED,
                         "tensor %d keeps its data outside the FlatBuffer", t);
    struct fb_vector data = fb_vector(&r->fb, &buffer, BUFFER_DATA, 1);
    if (data.count > 0) {
        tensor->data = r->fb.bytes + data.at;
        tensor->data_bytes = data.count;
    }
    return r->fb.status;
}

static int read_tensor(struct reader *r, const struct fb_table *table, int32_t t,
                       struct tflite_tensor *tensor)
{
    tensor->name = fb_string(&r->fb, table, TENSOR_NAME, &tensor->name_bytes);
    const char *fault = tensor->name ? name_fault(tensor->name, tensor->name_bytes) : NULL;
    if (fault)
        return error_set(r->error, STATUS_MODEL_MALFORMED, "the name of tensor %d %s", t, fault);
    struct fb_vector dims = fb_vector(&r->fb, table, TENSOR_SHAPE, 4);
    if (dims.count > TFLITE_RANK_MAX)
        return too_many(r->error, "dimensions in one tensor", TFLITE_RANK_MAX, dims.count);
    tensor->rank = (int32_t)dims.count;
    for (uint32_t i = 0; i < dims.count; i++)
        tensor->dims[i] = fb_vector_i32(&r->fb, &dims, i);
    tensor->type = fb_u8(&r->fb, table, TENSOR_TYPE, 0);
    tensor->variable = fb_bool(&r->fb, table, TENSOR_IS_VARIABLE, false);
    tensor->sparse = fb_has(&r->fb, table, TENSOR_SPARSITY);
    if (fb_u32(&r->fb, table, TENSOR_EXTERNAL_BUFFER, 0) != 0)
        return error_set(r->error, STATUS_MODEL_UNSUPPORTED, "tensor %d keeps its data outside the file", t);
    int status = read_quantization(r, table, tensor);
    return status ? status : read_data(r, fb_u32(&r->fb, table, TENSOR_BUFFER, 0), t, tensor);
}

enum option_kind { OPTION_I8, OPTION_I32, OPTION_BOOL, OPTION_F32 };

/* Where the format keeps an option and where we do. */
struct option_row {
    int32_t type;
    int field;
    enum option_kind kind;
    size_t offset; /* in struct tflite_options */
    int32_t absent;
};

#define OPTION(type, field, kind, member, absent)                                                \
    {                                                                                            \
        TFLITE_OPT_##type, field, OPTION_##kind, offsetof(struct tflite_options, member), absent \
    }

static const struct option_row option_rows[] = {
    OPTION(CONV_2D, 0, I8, padding, 0),
    OPTION(CONV_2D, 1, I32, stride_w, 0),
    OPTION(CONV_2D, 2, I32, stride_h, 0),
    OPTION(CONV_2D, 3, I8, activation, 0),
    OPTION(CONV_2D, 4, I32, dilation_w, 1),
    OPTION(CONV_2D, 5, I32, dilation_h, 1),
    OPTION(DEPTHWISE_CONV_2D, 0, I8, padding, 0),
    OPTION(DEPTHWISE_CONV_2D, 1, I32, stride_w, 0),
    OPTION(DEPTHWISE_CONV_2D, 2, I32, stride_h, 0),
    OPTION(DEPTHWISE_CONV_2D, 3, I32, multiplier, 0),
    OPTION(DEPTHWISE_CONV_2D, 4, I8, activation, 0),
    OPTION(DEPTHWISE_CONV_2D, 5, I32, dilation_w, 1),
    OPTION(DEPTHWISE_CONV_2D, 6, I32, dilation_h, 1),
    OPTION(POOL_2D, 0, I8, padding, 0),
    OPTION(POOL_2D, 1, I32, stride_w, 0),
    OPTION(POOL_2D, 2, I32, stride_h, 0),
    OPTION(POOL_2D, 3, I32, filter_w, 0),
    OPTION(POOL_2D, 4, I32, filter_h, 0),
    OPTION(POOL_2D, 5, I8, activation, 0),
    OPTION(FULLY_CONNECTED, 0, I8, activation, 0),
    OPTION(FULLY_CONNECTED, 1, I8, weights_format, 0),
    OPTION(FULLY_CONNECTED, 2, BOOL, keep_dims, 0),
    OPTION(SOFTMAX, 0, F32, beta, 0),
    OPTION(CONCATENATION, 0, I32, axis, 0),
    OPTION(CONCATENATION, 1, I8, activation, 0),
    OPTION(ADD, 0, I8, activation, 0),
    OPTION(MUL, 0, I8, activation, 0),
    OPTION(SUB, 0, I8, activation, 0),
    OPTION(REDUCER, 0, BOOL, keep_dims, 0),
    OPTION(STRIDED_SLICE, 0, I32, begin_mask, 0),
    OPTION(STRIDED_SLICE, 1, I32, end_mask, 0),
    OPTION(STRIDED_SLICE, 2, I32, ellipsis_mask, 0),
    OPTION(STRIDED_SLICE, 3, I32, new_axis_mask, 0),
    OPTION(STRIDED_SLICE, 4, I32, shrink_mask, 0),
    OPTION(STRIDED_SLICE, 5, BOOL, offset_slice, 0),
    OPTION(PACK, 0, I32, count, 0),
    OPTION(PACK, 1, I32, axis, 0),
    OPTION(RESIZE_NEAREST_NEIGHBOR, 0, BOOL, align_corners, 0),
    OPTION(RESIZE_NEAREST_NEIGHBOR, 1, BOOL, half_pixel_centers, 0),
};

static int read_options(struct reader *r, const struct fb_table *table, struct tflite_options *options)
{
    struct fb_table t;
    options->type = fb_u8(&r->fb, table, OPERATOR_OPTIONS_TYPE, 0);
    if (!fb_child(&r->fb, table, OPERATOR_OPTIONS, &t))
        options->type = TFLITE_OPT_NONE;
    for (size_t i = 0; i < sizeof option_rows / sizeof *option_rows; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->type != options->type)
            continue;
        void *to = (char *)options + row->offset;
        if (row->kind == OPTION_I8)
            *(int32_t *)to = fb_i8(&r->fb, &t, row->field, (int8_t)row->absent);
        else if (row->kind == OPTION_I32)
            *(int32_t *)to = fb_i32(&r->fb, &t, row->field, row->absent);
        else if (row->kind == OPTION_BOOL)
            *(bool *)to = fb_bool(&r->fb, &t, row->field, row->absent != 0);
        else
            *(float *)to = fb_f32(&r->fb, &t, row->field, (float)row->absent);
    }
    return r->fb.status;
}

/* A custom operator's name, fit to be shown. */
static const char *custom_name(struct reader *r, const struct fb_table *code)
{
    size_t n;
    const char *name = fb_string(&r->fb, code, CODE_CUSTOM, &n);
    if (!name || n > 64 || name_fault(name, n))
        return "CUSTOM";
    char *copy = arena_alloc(r->scratch, n + 1, 1);
    if (copy)
        memcpy(copy, name, n);
    return copy;
}

static int read_op(struct reader *r, const struct fb_table *table, int32_t i, struct tflite_op *op)
{
    uint32_t index = fb_u32(&r->fb, table, OPERATOR_CODE_INDEX, 0);
    if (!fb_failed(&r->fb) && index >= r->codes.count)
        return error_set(r->error, STATUS_MODEL_MALFORMED, "operator %d names operator code %u of %u", i,
                         index, r->codes.count);
    struct fb_table code;
    if (!fb_vector_child(&r->fb, &r->codes, index, &code))
        return r->fb.status;
    int32_t old = fb_i8(&r->fb, &code, CODE_DEPRECATED_BUILTIN, 0);
    int32_t new = fb_i32(&r->fb, &code, CODE_BUILTIN, 0);
    op->code = new > old ? new : old;
    op->version = fb_i32(&r->fb, &code, CODE_VERSION, 1);
    if (op->code == TFLITE_CUSTOM && !(op->custom = custom_name(r, &code)))
        return out_of_memory(r->error);
    int status = read_ints(r, table, OPERATOR_INPUTS, "inputs at one operator", TFLITE_OP_ENDS_MAX,
                           &op->inputs, &op->n_inputs);
    if (!status)
        status = read_ints(r, table, OPERATOR_OUTPUTS, "outputs at one operator", TFLITE_OP_ENDS_MAX,
                           &op->outputs, &op->n_outputs);
    return status ? status : read_options(r, table, &op->options);
}

static int read_tensors(struct reader *r, const struct fb_table *subgraph, struct tflite_file *file)
{
    struct fb_vector v = fb_vector(&r->fb, subgraph, SUBGRAPH_TENSORS, 4);
    if (v.count > GRAPH_TENSORS_MAX)
        return too_many(r->error, "tensors", GRAPH_TENSORS_MAX, v.count);
    struct tflite_tensor *tensors = arena_alloc(r->scratch, v.count, sizeof *tensors);
    if (!tensors)
        return out_of_memory(r->error);
    for (uint32_t i = 0; i < v.count; i++) {
        struct fb_table t;
        int status =
            fb_vector_child(&r->fb, &v, i, &t) ? read_tensor(r, &t, (int32_t)i, &tensors[i]) : r->fb.status;
        if (status)
            return status;
    }
    file->tensors = tensors;
    file->n_tensors = (int32_t)v.count;
    return r->fb.status;
}

static int read_ops(struct reader *r, const struct fb_table *subgraph, struct tflite_file *file)
{
    struct fb_vector v = fb_vector(&r->fb, subgraph, SUBGRAPH_OPERATORS, 4);
    if (v.count > GRAPH_OPS_MAX)
        return too_many(r->error, "operators", GRAPH_OPS_MAX, v.count);
    struct tflite_op *ops = arena_alloc(r->scratch, v.count, sizeof *ops);
    if (!ops)
        return out_of_memory(r->error);
    for (uint32_t i = 0; i < v.count; i++) {
        struct fb_table t;
        int status = fb_vector_child(&r->fb, &v, i, &t) ? read_op(r, &t, (int32_t)i, &ops[i]) : r->fb.status;
        if (status)
            return status;
    }
    file->ops = ops;
    file->n_ops = (int32_t)v.count;
    return r->fb.status;
}

/* The model's table, its vectors and its only subgraph. */
static int read_model(struct reader *r, struct fb_table *subgraph)
{
    struct fb_table model;
    if (!fb_root(&r->fb, TFLITE_IDENTIFIER, &model))
        return r->fb.status;
    uint32_t version = fb_u32(&r->fb, &model, MODEL_VERSION, 0);
    r->codes = fb_vector(&r->fb, &model, MODEL_OPERATOR_CODES, 4);
    r->buffers = fb_vector(&r->fb, &model, MODEL_BUFFERS, 4);
    struct fb_vector subgraphs = fb_vector(&r->fb, &model, MODEL_SUBGRAPHS, 4);
    if (fb_failed(&r->fb))
        return r->fb.status;
    if (version != TFLITE_VERSION)
        return error_set(r->error, STATUS_MODEL_UNSUPPORTED, "TensorFlow Lite schema version %u, not 3",
                         version);
    if (r->codes.count > TFLITE_CODES_MAX)
        return too_many(r->error, "operator codes", TFLITE_CODES_MAX, r->codes.count);
    if (r->buffers.count > TFLITE_BUFFERS_MAX)
        return too_many(r->error, "buffers", TFLITE_BUFFERS_MAX, r->buffers.count);
    if (subgraphs.count == 0)
        return error_set(r->error, STATUS_MODEL_MALFORMED, "the model has no subgraph");
    if (subgraphs.count > 1)
        return error_set(r->error, STATUS_MODEL_UNSUPPORTED,
                         "the model has %u subgraphs; control flow between subgraphs is not supported",
                         subgraphs.count);
    fb_vector_child(&r->fb, &subgraphs, 0, subgraph);
    return r->fb.status;
}

int tflite_read(const unsigned char *bytes, size_t size, struct arena *scratch, struct tflite_file *file,
                struct error *error)
{
    struct error local;
    error_clear(&local);
    memset(file, 0, sizeof *file);
    if (!error)
        error = &local;
    struct reader r = {
        .fb = {.bytes = bytes, .size = size, .error = error}, .scratch = scratch, .error = error};
    struct fb_table subgraph;
    int status = read_model(&r, &subgraph);
    if (!status)
        status = read_tensors(&r, &subgraph, file);
    if (!status)
        status = read_ops(&r, &subgraph, file);
    if (!status)
        status = read_ints(&r, &subgraph, SUBGRAPH_INPUTS, "inputs", GRAPH_ENDS_MAX, &file->inputs,
                           &file->n_inputs);
    if (!status)
        status = read_ints(&r, &subgraph, SUBGRAPH_OUTPUTS, "outputs", GRAPH_ENDS_MAX, &file->outputs,
                           &file->n_outputs);
    return status;
}
