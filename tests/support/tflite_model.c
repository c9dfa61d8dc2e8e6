/*
 * The encoder writes front to back: a table is written with empty slots for its offsets, its children follow
 * and their offsets are patched in. So every offset points forward, as FlatBuffers wants it. Vectors of a
 * buffer are aligned to 16 bytes.
 */
#include "tests/support/tflite_model.h"

#include "server/import/tflite_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *room(struct arena *arena, size_t count, size_t size)
{
    void *p = arena_alloc(arena, count, size);
    if (!p) {
        fputs("tflite_model: out of memory\n", stderr);
        abort();
    }
    return p;
}

struct tw_model tw_new(int32_t max)
{
    struct tw_model m = {
        .arena = arena_new((size_t)1 << 30), .version = TFLITE_VERSION, .max = max, .subgraphs = 1};
    m.tensors = room(m.arena, (size_t)max, sizeof *m.tensors);
    m.ops = room(m.arena, (size_t)max, sizeof *m.ops);
    m.codes = room(m.arena, (size_t)max, sizeof *m.codes);
    m.buffers = room(m.arena, (size_t)max, sizeof *m.buffers);
    m.n_buffers = 1;
    return m;
}

void tw_free(struct tw_model *model)
{
    arena_free(model->arena);
    model->arena = NULL;
}

static void full(const struct tw_model *model, int32_t n)
{
    if (n < model->max)
        return;
    fputs("tflite_model: more than the model has room for\n", stderr);
    abort();
}

int32_t tw_tensor(struct tw_model *model, struct tw_tensor tensor)
{
    full(model, model->n_tensors);
    model->tensors[model->n_tensors] = tensor;
    return model->n_tensors++;
}

uint32_t tw_buffer(struct tw_model *model, const void *data, size_t size)
{
    full(model, model->n_buffers);
    void *copy = room(model->arena, size, 1);
    if (size)
        memcpy(copy, data, size);
    model->buffers[model->n_buffers] = (struct tw_buffer){copy, size, 0};
    return (uint32_t)model->n_buffers++;
}

struct tw_op *tw_op(struct tw_model *model, int32_t builtin, int32_t version)
{
    int32_t i = 0;
    while (i < model->n_codes && (model->codes[i].builtin != builtin || model->codes[i].version != version))
        i++;
    if (i == model->n_codes) {
        full(model, i);
        int32_t old = builtin < 127 ? builtin : 127;
        model->codes[model->n_codes++] = (struct tw_code){old, builtin, version, NULL};
    }
    full(model, model->n_ops);
    struct tw_op *op = &model->ops[model->n_ops++];
    op->code = (uint32_t)i;
    return op;
}

void tw_option(struct tw_op *op, int field, int bytes, int32_t value)
{
    if (op->n_options < TW_OPTIONS_MAX)
        op->options[op->n_options++] = (struct tw_option){field, bytes, (uint32_t)value};
}

void tw_option_float(struct tw_op *op, int field, float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tw_option(op, field, 4, bits);
}

/* ---- FlatBuffers, front to back ---- */

enum { FIELDS_MAX = 12 };

/* A field to write; `at` is where it came to lie. Offsets are 4 bytes of value 0, patched later. */
struct field {
    int number, bytes;
    uint64_t value;
    size_t at;
};

#define OFFSET(number)  \
    {                   \
        number, 4, 0, 0 \
    }

static void put(struct bytes *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bytes_put8(out, (uint8_t)(value >> (8 * i)));
}

/* vtable, then table; returns where the table lies. Fields lie in the order given, each aligned to its size.
 */
static size_t put_table(struct bytes *out, struct field *fields, int n)
{
    uint16_t slots[FIELDS_MAX] = {0};
    int highest = -1;
    size_t offset = 4;
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)fields[i].bytes;
        offset = (offset + bytes - 1) / bytes * bytes;
        slots[fields[i].number] = (uint16_t)offset;
        fields[i].at = offset;
        offset += bytes;
        highest = fields[i].number > highest ? fields[i].number : highest;
    }
    size_t vtable_bytes = 4 + 2 * (size_t)(highest + 1);
    bytes_align(out, 2);
    while ((out->size + vtable_bytes) % 8 != 0)
        bytes_put16(out, 0);
    size_t vtable = out->size;
    bytes_put16(out, (uint16_t)vtable_bytes);
    bytes_put16(out, (uint16_t)offset);
    for (int i = 0; i <= highest; i++)
        bytes_put16(out, slots[i]);
    size_t table = out->size;
    bytes_put32(out, (uint32_t)(table - vtable));
    for (int i = 0; i < n; i++) {
        fields[i].at += table;
        bytes_zero(out, fields[i].at - out->size);
        put(out, fields[i].value, fields[i].bytes);
    }
    return table;
}

static void patch(struct bytes *out, size_t slot, size_t target)
{
    if (out->status == 0)
        le_put32(out->data + slot, (uint32_t)(target - slot));
}

/* The head of a vector whose elements are aligned to `align`; the slot points to it. */
static void put_vector_head(struct bytes *out, size_t slot, size_t count, size_t align)
{
    bytes_align(out, 4);
    while ((out->size + 4) % align != 0)
        bytes_put32(out, 0);
    patch(out, slot, out->size);
    bytes_put32(out, (uint32_t)count);
}

static void put_text(struct bytes *out, size_t slot, const char *text, size_t n)
{
    put_vector_head(out, slot, n, 4);
    bytes_append(out, text, n);
    bytes_put8(out, 0);
}

static void put_ints(struct bytes *out, size_t slot, const int32_t *ints, int32_t n)
{
    put_vector_head(out, slot, (size_t)n, 4);
    for (int32_t i = 0; i < n; i++)
        bytes_put32(out, (uint32_t)ints[i]);
}

/* A vector of offsets, to be patched; returns where the first slot lies. */
static size_t put_slots(struct bytes *out, size_t slot, int32_t n)
{
    put_vector_head(out, slot, (size_t)n, 4);
    size_t first = out->size;
    bytes_zero(out, 4 * (size_t)n);
    return first;
}

static void put_quantization(struct bytes *out, size_t slot, const struct tw_tensor *t)
{
    struct field f[] = {OFFSET(QUANT_SCALE),
                        OFFSET(QUANT_ZERO_POINT),
                        {QUANT_DETAILS_TYPE, 1, t->custom_quantization, 0},
                        {QUANT_DIMENSION, 4, (uint32_t)t->quantized_dimension, 0}};
    patch(out, slot, put_table(out, f, 4));
    put_vector_head(out, f[0].at, (size_t)t->n_scales, 4);
    for (int32_t i = 0; i < t->n_scales; i++) {
        uint32_t bits;
        memcpy(&bits, &t->scales[i], sizeof bits);
        bytes_put32(out, bits);
    }
    put_vector_head(out, f[1].at, (size_t)t->n_zero_points, 8);
    for (int32_t i = 0; i < t->n_zero_points; i++)
        bytes_put64(out, (uint64_t)t->zero_points[i]);
}

static void put_tensor(struct bytes *out, size_t slot, const struct tw_tensor *t)
{
    struct field f[7] = {OFFSET(TENSOR_SHAPE),
                         {TENSOR_TYPE, 1, (uint64_t)t->type, 0},
                         {TENSOR_BUFFER, 4, t->buffer, 0},
                         {TENSOR_IS_VARIABLE, 1, t->variable, 0}};
    int n = 4, quantization = -1, name = -1, sparsity = -1;
    if (t->name)
        f[name = n++] = (struct field)OFFSET(TENSOR_NAME);
    if (t->n_scales || t->n_zero_points)
        f[quantization = n++] = (struct field)OFFSET(TENSOR_QUANTIZATION);
    if (t->sparse)
        f[sparsity = n++] = (struct field)OFFSET(TENSOR_SPARSITY);
    patch(out, slot, put_table(out, f, n));
    put_ints(out, f[0].at, t->dims, t->rank);
    if (name >= 0)
        put_text(out, f[name].at, t->name, t->name_bytes ? t->name_bytes : strlen(t->name));
    if (quantization >= 0)
        put_quantization(out, f[quantization].at, t);
    if (sparsity >= 0) {
        struct field none;
        patch(out, f[sparsity].at, put_table(out, &none, 0));
    }
}

static void put_op(struct bytes *out, size_t slot, const struct tw_op *op)
{
    struct field f[5] = {
        {OPERATOR_CODE_INDEX, 4, op->code, 0}, OFFSET(OPERATOR_INPUTS), OFFSET(OPERATOR_OUTPUTS)};
    int n = 3;
    if (op->options_type) {
        f[n++] = (struct field){OPERATOR_OPTIONS_TYPE, 1, (uint64_t)op->options_type, 0};
        f[n++] = (struct field)OFFSET(OPERATOR_OPTIONS);
    }
    patch(out, slot, put_table(out, f, n));
    put_ints(out, f[1].at, op->inputs, op->n_inputs);
    put_ints(out, f[2].at, op->outputs, op->n_outputs);
    if (!op->options_type)
        return;
    struct field o[TW_OPTIONS_MAX];
    for (int32_t i = 0; i < op->n_options; i++)
        o[i] = (struct field){op->options[i].field, op->options[i].bytes, op->options[i].bits, 0};
    patch(out, f[4].at, put_table(out, o, op->n_options));
}

static void put_codes(const struct tw_model *m, struct bytes *out, size_t slot)
{
    size_t slots = put_slots(out, slot, m->n_codes);
    for (int32_t i = 0; i < m->n_codes; i++) {
        const struct tw_code *c = &m->codes[i];
        struct field f[4] = {{CODE_DEPRECATED_BUILTIN, 1, (uint8_t)c->deprecated_builtin, 0},
                             {CODE_VERSION, 4, (uint32_t)c->version, 0},
                             {CODE_BUILTIN, 4, (uint32_t)c->builtin, 0},
                             OFFSET(CODE_CUSTOM)};
        patch(out, slots + 4 * (size_t)i, put_table(out, f, c->custom ? 4 : 3));
        if (c->custom)
            put_text(out, f[3].at, c->custom, strlen(c->custom));
    }
}

static void put_buffers(const struct tw_model *m, struct bytes *out, size_t slot)
{
    size_t slots = put_slots(out, slot, m->n_buffers);
    for (int32_t i = 0; i < m->n_buffers; i++) {
        const struct tw_buffer *b = &m->buffers[i];
        struct field f[2];
        int n = 0;
        if (b->size)
            f[n++] = (struct field)OFFSET(BUFFER_DATA);
        if (b->outside_offset)
            f[n++] = (struct field){BUFFER_OFFSET, 8, b->outside_offset, 0};
        patch(out, slots + 4 * (size_t)i, put_table(out, f, n));
        if (!b->size)
            continue;
        put_vector_head(out, f[0].at, b->size, 16);
        bytes_append(out, b->data, b->size);
    }
}

static void put_subgraph(const struct tw_model *m, struct bytes *out, size_t slot)
{
    struct field f[] = {OFFSET(SUBGRAPH_TENSORS), OFFSET(SUBGRAPH_INPUTS), OFFSET(SUBGRAPH_OUTPUTS),
                        OFFSET(SUBGRAPH_OPERATORS)};
    patch(out, slot, put_table(out, f, 4));
    size_t slots = put_slots(out, f[0].at, m->n_tensors);
    for (int32_t i = 0; i < m->n_tensors; i++)
        put_tensor(out, slots + 4 * (size_t)i, &m->tensors[i]);
    put_ints(out, f[1].at, m->inputs, m->n_inputs);
    put_ints(out, f[2].at, m->outputs, m->n_outputs);
    slots = put_slots(out, f[3].at, m->n_ops);
    for (int32_t i = 0; i < m->n_ops; i++)
        put_op(out, slots + 4 * (size_t)i, &m->ops[i]);
}

void tw_encode(const struct tw_model *model, struct bytes *out)
{
    static const char description[] = "written by shoal's test writer";
    struct field f[] = {{MODEL_VERSION, 4, model->version, 0},
                        OFFSET(MODEL_OPERATOR_CODES),
                        OFFSET(MODEL_SUBGRAPHS),
                        OFFSET(MODEL_DESCRIPTION),
                        OFFSET(MODEL_BUFFERS)};
    bytes_init(out, (size_t)1 << 30);
    bytes_put32(out, 0);
    bytes_append(out, TFLITE_IDENTIFIER, 4);
    patch(out, 0, put_table(out, f, 5));
    put_codes(model, out, f[1].at);
    size_t slots = put_slots(out, f[2].at, model->subgraphs);
    for (int32_t i = 0; i < model->subgraphs; i++)
        put_subgraph(model, out, slots + 4 * (size_t)i);
    put_text(out, f[3].at, description, sizeof description - 1);
    put_buffers(model, out, f[4].at);
}
