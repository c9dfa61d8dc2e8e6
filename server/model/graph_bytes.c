/*
 * The byte form of a graph: "SHGR", a version, and every field in the order of code_graph(), little-endian,
 * strings as u16 length and bytes, arrays as u64 count and elements. One description serves writing and
 * reading: each code_ function moves one field in the direction of the coder. Reading trusts nothing: counts
 * are compared with their limits and with the bytes left before anything is allocated, and graph_finish
 * judges the rest. Producers and places are not stored; graph_finish sets them.
 */
#include "server/model/graph.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC = 0x52474853, VERSION = 1 };

struct coder {
    bool writing;
    bool failed;          /* out of memory (writing) or out of bytes, or a bad count (reading) */
    unsigned char *bytes; /* writing: malloc'ed; reading: the input, never written */
    size_t at, size;      /* position; room (writing) or length (reading) */
    struct arena *arena;  /* reading: where results go */
};

/* The next n bytes to write to or read from; NULL when there are none. */
static unsigned char *advance(struct coder *coder, size_t n)
{
    if (!coder->failed && coder->size - coder->at < n && coder->writing) {
        size_t room = coder->size * 2 + n;
        unsigned char *grown = realloc(coder->bytes, room);
        coder->failed = !grown;
        if (grown) {
            coder->bytes = grown;
            coder->size = room;
        }
    }
    if (coder->failed || coder->size - coder->at < n) {
        coder->failed = true;
        return NULL;
    }
    coder->at += n;
    return coder->bytes + coder->at - n;
}

static void code_bits(struct coder *coder, uint64_t *value, size_t n)
{
    unsigned char *p = advance(coder, n);
    uint64_t read = 0;
    for (size_t i = 0; p && i < n; i++) {
        if (coder->writing)
            p[i] = (unsigned char)(*value >> (8 * i));
        else
            read |= (uint64_t)p[i] << (8 * i);
    }
    if (!coder->writing)
        *value = read;
}

static void code_i32(struct coder *coder, int32_t *value)
{
    uint64_t bits = (uint32_t)*value;
    code_bits(coder, &bits, 4);
    *value = (int32_t)(uint32_t)bits;
}

static void code_u32(struct coder *coder, uint32_t *value)
{
    uint64_t bits = *value;
    code_bits(coder, &bits, 4);
    *value = (uint32_t)bits;
}

static void code_float(struct coder *coder, float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    code_u32(coder, &bits);
    memcpy(value, &bits, sizeof bits);
}

static void code_bool(struct coder *coder, bool *value)
{
    uint64_t bits = *value;
    code_bits(coder, &bits, 1);
    if (bits > 1)
        coder->failed = true;
    *value = bits == 1;
}

static void code_string(struct coder *coder, const char **value)
{
    uint64_t length = coder->writing ? strlen(*value) : 0;
    code_bits(coder, &length, 2);
    unsigned char *p = length > GRAPH_NAME_MAX ? NULL : advance(coder, (size_t)length);
    if (!p) {
        coder->failed = true;
        return;
    }
    if (coder->writing) {
        memcpy(p, *value, (size_t)length);
        return;
    }
    *value = arena_string(coder->arena, (const char *)p, (size_t)length);
    if (!*value || strlen(*value) != length) /* a NUL inside */
        coder->failed = true;
}

/* An array of `width`-byte little-endian numbers (1 or 4), or NULL as count 0. Hosts are little-endian. */
static void code_array(struct coder *coder, const void **value, int64_t *count, size_t width)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are stored as they lie in memory");
    uint64_t n = *value ? (uint64_t)*count : 0;
    code_bits(coder, &n, 8);
    if (coder->failed || n > GRAPH_WEIGHT_BYTES_MAX) {
        coder->failed = true;
        return;
    }
    unsigned char *p = advance(coder, (size_t)n * width);
    if (!p)
        return;
    if (coder->writing) {
        if (n)
            memcpy(p, *value, (size_t)n * width);
        return;
    }
    *count = (int64_t)n;
    *value = n ? arena_copy(coder->arena, p, (size_t)n * width) : NULL;
    coder->failed = n && !*value;
}

/* A count of things that take at least `least` bytes each; refused before anyone allocates for it. */
static void code_count(struct coder *coder, int32_t *count, int32_t most, size_t least)
{
    code_i32(coder, count);
    if (!coder->writing &&
        (*count < 0 || *count > most || (size_t)*count > (coder->size - coder->at) / least)) {
        coder->failed = true;
        *count = 0;
    }
}

static void code_tensor(struct coder *coder, struct tensor *tensor)
{
    int32_t dtype = (int32_t)tensor->dtype;
    code_string(coder, &tensor->name);
    code_i32(coder, &dtype);
    tensor->dtype = (enum dtype)dtype;
    code_i32(coder, &tensor->rank);
    for (int i = 0; i < GRAPH_RANK_MAX; i++)
        code_i32(coder, &tensor->dims[i]);
    code_float(coder, &tensor->quant.scale);
    code_i32(coder, &tensor->quant.zero_point);
    size_t width = dtype == DTYPE_INT32 || dtype == DTYPE_FLOAT32 ? 4 : 1;
    int64_t count = coder->writing ? shape_elements(tensor->shape) : 0;
    code_array(coder, &tensor->data, &count, width);
    if (coder->writing || !tensor->data)
        return;
    if (graph_shape(tensor->dims, tensor->rank, &tensor->shape, NULL) != STATUS_OK ||
        shape_elements(tensor->shape) != count)
        coder->failed = true;
}

static void code_weights(struct coder *coder, struct op *op, int32_t out_channels)
{
    const void *weights = op->weights, *scales = op->weight_scales, *bias = op->bias;
    int64_t n_scales = op->n_weight_scales, n_bias = out_channels;
    code_array(coder, &weights, &op->weight_bytes, 1);
    code_array(coder, &scales, &n_scales, 4);
    code_array(coder, &bias, &n_bias, 4);
    code_i32(coder, &op->weight_zero_point);
    if (coder->writing)
        return;
    op->weights = weights;
    op->weight_scales = scales;
    op->n_weight_scales = (int32_t)n_scales;
    op->bias = bias;
    if (bias && n_bias != out_channels)
        coder->failed = true;
}

static void code_op(struct coder *coder, struct op *op, const struct graph *graph)
{
    int32_t kind = (int32_t)op->kind, activation = (int32_t)op->activation;
    code_string(coder, &op->name);
    code_string(coder, &op->file_op);
    code_i32(coder, &kind);
    code_i32(coder, &activation);
    op->kind = (enum op_kind)kind;
    op->activation = (enum activation)activation;
    code_count(coder, &op->n_inputs, GRAPH_OP_INPUTS_MAX, 4);
    for (int32_t i = 0; i < op->n_inputs; i++)
        code_i32(coder, &op->inputs[i]);
    code_i32(coder, &op->output);
    int32_t *const numbers[] = {&op->kernel_h,   &op->kernel_w,   &op->stride_h, &op->stride_w,
                                &op->dilation_h, &op->dilation_w, &op->pad_top,  &op->pad_left,
                                &op->pad_bottom, &op->pad_right,  &op->groups,   &op->multiplier,
                                &op->axis,       &op->perm[0],    &op->perm[1],  &op->perm[2],
                                &op->pad_c0,     &op->pad_c1,     &op->fill};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        code_i32(coder, numbers[i]);
    code_u32(coder, &op->reduce);
    code_float(coder, &op->beta);
    bool *const flags[] = {&op->float_scale_product, &op->legacy_uint8, &op->align_corners,
                           &op->half_pixel_centers};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        code_bool(coder, flags[i]);
    /* The bias's length is the output's channels; an output that does not exist has none. */
    struct shape shape = {0};
    if (op->output >= 0 && op->output < graph->n_tensors) {
        const struct tensor *tensor = &graph->tensors[op->output];
        (void)graph_shape(tensor->dims, tensor->rank, &shape, NULL);
    }
    code_weights(coder, op, shape.c);
}

static void code_ends(struct coder *coder, int32_t ends[GRAPH_ENDS_MAX], int32_t *count)
{
    code_count(coder, count, GRAPH_ENDS_MAX, 4);
    for (int32_t i = 0; i < *count; i++)
        code_i32(coder, &ends[i]);
}

/* Header, name, ends, counts; then the tensors, then the operators. */
static void code_graph(struct coder *coder, struct graph *graph)
{
    uint32_t magic = MAGIC, version = VERSION;
    code_u32(coder, &magic);
    code_u32(coder, &version);
    if (magic != MAGIC || version != VERSION)
        coder->failed = true;
    code_string(coder, &graph->name);
    code_ends(coder, graph->inputs, &graph->n_inputs);
    code_ends(coder, graph->outputs, &graph->n_outputs);
    code_count(coder, &graph->n_tensors, GRAPH_TENSORS_MAX, 42);
    code_count(coder, &graph->n_ops, GRAPH_OPS_MAX, 140);
}

int graph_write(const struct graph *graph, unsigned char **bytes, size_t *size, struct error *error)
{
    struct coder coder = {.writing = true};
    struct graph head = *graph;
    code_graph(&coder, &head);
    for (int32_t t = 0; t < graph->n_tensors; t++) {
        struct tensor tensor = graph->tensors[t];
        code_tensor(&coder, &tensor);
    }
    for (int32_t o = 0; o < graph->n_ops; o++) {
        struct op op = graph->ops[o];
        code_op(&coder, &op, graph);
    }
    if (coder.failed) {
        free(coder.bytes);
        return error_set(error, STATUS_NO_MEMORY, "out of memory");
    }
    *bytes = coder.bytes;
    *size = coder.at;
    return STATUS_OK;
}

static void read_body(struct coder *coder, struct graph *graph)
{
    graph->tensors = arena_alloc(coder->arena, (size_t)graph->n_tensors, sizeof *graph->tensors);
    graph->ops = arena_alloc(coder->arena, (size_t)graph->n_ops, sizeof *graph->ops);
    if (!graph->tensors || !graph->ops)
        coder->failed = true;
    for (int32_t t = 0; t < graph->n_tensors && !coder->failed; t++)
        code_tensor(coder, &graph->tensors[t]);
    for (int32_t o = 0; o < graph->n_ops && !coder->failed; o++)
        code_op(coder, &graph->ops[o], graph);
    if (coder->at != coder->size)
        coder->failed = true;
}

struct graph *graph_read(const unsigned char *bytes, size_t size, struct error *error)
{
    /* Everything that is read is at most a few times as long in memory as in bytes. */
    enum { FIXED_BYTES = 4 << 20 };
    struct graph *graph = graph_new(FIXED_BYTES + 4 * size);
    if (!graph) {
        error_set(error, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    /* The coder never writes through `bytes` while reading. */
    struct coder coder = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = size, .arena = graph->arena};
    code_graph(&coder, graph);
    if (!coder.failed)
        read_body(&coder, graph);
    int status = coder.failed ? error_set(error, STATUS_MODEL_MALFORMED, "the graph's byte form is malformed")
                              : graph_finish(graph, error);
    if (coder.failed && error)
        error_at_offset(error, (int64_t)coder.at);
    if (status == STATUS_OK)
        return graph;
    graph_free(graph);
    return NULL;
}
