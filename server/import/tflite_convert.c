/*
 * From a checked file to a graph: tensors, operators in the file's order, then the passes. Tensors are made
 * when something first needs them. A uint8 tensor stays uint8 only at the graph's ends, next to a QUANTIZE or
 * DEQUANTIZE; everywhere else the network is a legacy uint8 one and the tensor is kept as int8 less 128.
 */
#include "server/import/tflite_convert.h"

#include "server/import/tflite.h"

#include <stdio.h>
#include <string.h>

static int out_of_memory(struct convert *cx)
{
    return error_set(cx->error, STATUS_NO_MEMORY, "out of memory while importing");
}

bool tflite_shape(const struct tflite_tensor *tensor, struct shape *shape)
{
    int32_t d[3] = {1, 1, 1};
    for (int32_t i = 0; i < tensor->rank; i++) {
        int32_t axis = i + 3 - tensor->rank;
        if (axis < 0 && tensor->dims[i] != 1)
            return false;
        if (axis >= 0)
            d[axis] = tensor->dims[i];
    }
    *shape = (struct shape){d[0], d[1], d[2]};
    return true;
}

int32_t tflite_axis(const struct tflite_tensor *tensor, int64_t axis)
{
    int32_t rank = tensor->rank;
    if (axis < -rank || axis >= rank)
        return -2;
    int32_t at = (int32_t)(axis < 0 ? axis + rank : axis) + 3 - rank;
    return at < 0 ? -1 : at;
}

void *convert_constant(struct convert *cx, int64_t count, size_t size)
{
    int64_t bytes = count * (int64_t)size;
    if (bytes > cx->constant_bytes_max - cx->constant_bytes) {
        CONVERT_REFUSE(cx, STATUS_MODEL_LIMIT, "the model's constants are more than its file could hold");
        return NULL;
    }
    cx->constant_bytes += bytes;
    void *p = arena_alloc(cx->graph->arena, (size_t)count, size);
    if (!p)
        (void)out_of_memory(cx);
    return p;
}

/* The first `n` bytes of the name of tensor `t` of the file, or a made-up one, cut at a character to what
 * there is room for, and a suffix. */
static const char *name_cut(struct convert *cx, int32_t t, size_t n, const char *suffix)
{
    char text[256];
    const struct tflite_tensor *x = &cx->file->tensors[t];
    size_t max = sizeof text - 1 - strlen(suffix) - 8; /* 8: room to make it unique */
    if (n > max)
        for (n = max; n > 0 && ((unsigned char)x->name[n] & 0xc0) == 0x80;)
            n--;
    if (n > 0)
        (void)snprintf(text, sizeof text, "%.*s%s", (int)n, x->name, suffix);
    else
        (void)snprintf(text, sizeof text, "tensor %d%s", t, suffix);
    const char *copy = arena_string(cx->graph->arena, text, sizeof text);
    if (!copy)
        (void)out_of_memory(cx);
    return copy;
}

static const char *name_of(struct convert *cx, int32_t t, const char *suffix)
{
    return name_cut(cx, t, cx->file->tensors[t].name_bytes, suffix);
}

static const char *layer_name(struct convert *cx, int32_t t, const char *suffix)
{
    return name_cut(cx, t, tflite_layer_bytes(&cx->file->tensors[t]), suffix);
}

static int32_t new_tensor(struct convert *cx, const struct tensor *tensor)
{
    if (cx->graph->n_tensors >= cx->tensors_max)
        return error_set(cx->error, STATUS_MODEL_LIMIT, "the model needs more than %d tensors",
                         cx->tensors_max);
    cx->graph->tensors[cx->graph->n_tensors] = *tensor;
    return cx->graph->n_tensors++;
}

struct op *convert_op(struct convert *cx, enum op_kind kind, const char *suffix)
{
    struct graph *g = cx->graph;
    const struct tflite_op *in = &cx->file->ops[cx->at];
    char buffer[TFLITE_LABEL_BYTES];
    if (g->n_ops >= cx->ops_max) {
        (void)error_set(cx->error, STATUS_MODEL_LIMIT, "the model needs more than %d operators", cx->ops_max);
        return NULL;
    }
    struct op *op = &g->ops[g->n_ops];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->name = layer_name(cx, in->outputs[0], suffix);
    op->file_op = arena_string(g->arena, tflite_op_name(in, buffer), sizeof buffer);
    op->output = -1;
    if (!op->name || !op->file_op) {
        (void)out_of_memory(cx);
        return NULL;
    }
    g->n_ops++;
    return op;
}

static int copy_data(struct convert *cx, const struct tflite_tensor *x, struct tensor *out)
{
    unsigned char *copy = convert_constant(cx, (int64_t)x->data_bytes, 1);
    if (!copy)
        return cx->error->status;
    memcpy(copy, x->data, x->data_bytes);
    for (size_t i = 0; i < x->data_bytes && x->type == TFLITE_UINT8; i++)
        copy[i] = (unsigned char)(copy[i] ^ 0x80);
    out->data = copy;
    out->rank = GRAPH_RANK_MAX;
    out->dims[0] = 1;
    out->dims[1] = out->shape.h;
    out->dims[2] = out->shape.w;
    out->dims[3] = out->shape.c;
    return 0;
}

/* Everything of a tensor but its data. */
static int describe(struct convert *cx, int32_t t, bool shifted, struct tensor *out)
{
    const struct tflite_tensor *x = &cx->file->tensors[t];
    memset(out, 0, sizeof *out);
    out->producer = -1;
    out->dtype = x->type == TFLITE_FLOAT32             ? DTYPE_FLOAT32
                 : x->type == TFLITE_INT32             ? DTYPE_INT32
                 : x->type == TFLITE_UINT8 && !shifted ? DTYPE_UINT8
                                                       : DTYPE_INT8;
    if (x->type == TFLITE_INT64)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "tensor %d is INT64", t);
    if (!tflite_shape(x, &out->shape))
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED,
                              "tensor %d has a batch of %d; only batch 1 is supported", t, x->dims[0]);
    out->rank = x->rank > GRAPH_RANK_MAX ? GRAPH_RANK_MAX : x->rank;
    for (int32_t i = 0; i < out->rank; i++)
        out->dims[i] = x->dims[i];
    if (out->dtype == DTYPE_INT8 || out->dtype == DTYPE_UINT8) {
        out->quant.scale = x->scales[0];
        out->quant.zero_point = (x->n_zero_points ? (int32_t)x->zero_points[0] : 0) - (shifted ? 128 : 0);
    }
    out->name = name_of(cx, t, "");
    return out->name ? 0 : cx->error->status;
}

int32_t convert_tensor(struct convert *cx, int32_t t)
{
    const struct tflite_tensor *x = &cx->file->tensors[t];
    if (cx->map[t] >= 0)
        return cx->map[t];
    if (cx->folds[t])
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "it computes with a shape (tensor %d)", t);
    if (x->data && x->n_scales > 1)
        return CONVERT_REFUSE(cx, STATUS_MODEL_UNSUPPORTED, "the constant tensor %d has %d scales", t,
                              x->n_scales);
    struct tensor tensor;
    bool shifted = x->type == TFLITE_UINT8 && (x->data || cx->legacy[t]);
    int status = describe(cx, t, shifted, &tensor);
    if (!status && x->data)
        status = copy_data(cx, x, &tensor);
    if (status)
        return status;
    return cx->map[t] = new_tensor(cx, &tensor);
}

int32_t convert_temporary(struct convert *cx, const struct tensor *like, struct shape shape,
                          const char *suffix)
{
    struct tensor tensor = *like;
    tensor.name = name_of(cx, cx->file->ops[cx->at].outputs[0], suffix);
    tensor.rank = GRAPH_RANK_MAX;
    tensor.dims[0] = 1;
    tensor.dims[1] = shape.h;
    tensor.dims[2] = shape.w;
    tensor.dims[3] = shape.c;
    tensor.shape = shape;
    tensor.data = NULL;
    return tensor.name ? new_tensor(cx, &tensor) : (int32_t)cx->error->status;
}

int convert_input(struct convert *cx, struct op *op, int32_t t)
{
    int32_t x = convert_tensor(cx, t);
    if (x < 0)
        return x;
    if (op->n_inputs >= GRAPH_OP_INPUTS_MAX)
        return CONVERT_REFUSE(cx, STATUS_MODEL_LIMIT, "it has more than %d inputs", GRAPH_OP_INPUTS_MAX);
    op->inputs[op->n_inputs++] = x;
    return 0;
}

int convert_output_plain(struct convert *cx, struct op *op)
{
    op->output = convert_tensor(cx, cx->file->ops[cx->at].outputs[0]);
    return op->output < 0 ? op->output : 0;
}

int convert_output(struct convert *cx, struct op *op, struct shape natural)
{
    int status = convert_output_plain(cx, op);
    if (status)
        return status;
    const struct tensor *y = &cx->graph->tensors[op->output];
    if (shape_equal(y->shape, natural))
        return 0;
    if (shape_elements(y->shape) != shape_elements(natural))
        return CONVERT_REFUSE(cx, STATUS_MODEL_MALFORMED, "it makes %dx%dx%d, its output is %dx%dx%d",
                              natural.h, natural.w, natural.c, y->shape.h, y->shape.w, y->shape.c);
    int32_t temporary = convert_temporary(cx, y, natural, "/unshaped");
    struct op *reshape = convert_op(cx, OP_RESHAPE, "/reshape");
    if (temporary < 0 || !reshape)
        return cx->error->status;
    reshape->inputs[0] = temporary;
    reshape->n_inputs = 1;
    reshape->output = op->output;
    op->output = temporary;
    return 0;
}

/* Which uint8 tensors are kept as int8: all but inputs that only QUANTIZE and DEQUANTIZE read and outputs
 * that QUANTIZE writes and nothing reads. */
static void find_legacy(struct convert *cx)
{
    const struct tflite_file *f = cx->file;
    enum { INPUT = 1, OUTPUT = 2, READ = 4, COMPUTED = 8 };
    for (int32_t t = 0; t < f->n_tensors; t++)
        cx->legacy[t] = f->tensors[t].type == TFLITE_UINT8;
    for (int32_t k = 0; k < f->n_inputs; k++)
        cx->legacy[f->inputs[k]] = false;
    for (int32_t k = 0; k < f->n_outputs; k++)
        cx->legacy[f->outputs[k]] = false;
    for (int32_t i = 0; i < f->n_ops; i++) {
        const struct tflite_op *op = &f->ops[i];
        bool changes_type = op->code == TFLITE_QUANTIZE || op->code == TFLITE_DEQUANTIZE;
        for (int32_t k = 0; k < op->n_inputs; k++) {
            int32_t t = op->inputs[k];
            bool output = false;
            for (int32_t j = 0; t >= 0 && j < f->n_outputs; j++)
                output = output || f->outputs[j] == t;
            if (t >= 0 && f->tensors[t].type == TFLITE_UINT8 && (output || !changes_type))
                cx->legacy[t] = true;
        }
        if (!changes_type && f->tensors[op->outputs[0]].type == TFLITE_UINT8)
            cx->legacy[op->outputs[0]] = true;
    }
}

/* A uint8 end of a legacy network: a uint8 tensor and the QUANTIZE between it and the int8 one. */
static int32_t legacy_end(struct convert *cx, int32_t t, bool input)
{
    struct tensor outer;
    int32_t inner = convert_tensor(cx, t);
    if (inner < 0)
        return inner;
    int status = describe(cx, t, false, &outer);
    int32_t end = status ? status : new_tensor(cx, &outer);
    struct op *op = end < 0 ? NULL : convert_op(cx, OP_QUANTIZE, "");
    if (!op)
        return cx->error->status;
    op->name = layer_name(cx, t, "/quantize");
    op->file_op = "QUANTIZE";
    op->inputs[0] = input ? end : inner;
    op->n_inputs = 1;
    op->output = input ? inner : end;
    return op->name ? end : (int32_t)cx->error->status;
}

static int convert_ends(struct convert *cx, const int32_t *from, int32_t n, bool input, int32_t *to)
{
    for (int32_t k = 0; k < n; k++) {
        int32_t t = cx->legacy[from[k]] ? legacy_end(cx, from[k], input) : convert_tensor(cx, from[k]);
        if (t < 0)
            return t;
        to[k] = t;
    }
    return 0;
}

static int convert_one(struct convert *cx, int32_t i)
{
    const struct tflite_op *in = &cx->file->ops[i];
    const struct tflite_row *row = tflite_row(in->code);
    cx->at = i;
    if (row->kind < 0)
        return row->convert(cx, in, NULL);
    struct op *op = convert_op(cx, (enum op_kind)row->kind, "");
    if (!op)
        return cx->error->status;
    op->legacy_uint8 = cx->file->tensors[in->outputs[0]].type == TFLITE_UINT8 && cx->legacy[in->outputs[0]];
    return row->convert(cx, in, op);
}

int tflite_convert(struct convert *cx)
{
    const struct tflite_file *f = cx->file;
    int status = 0;
    find_legacy(cx);
    for (int32_t i = 0; i < f->n_ops && !status; i++)
        status = convert_one(cx, i);
    cx->at = 0;
    if (!status)
        status = convert_ends(cx, f->inputs, f->n_inputs, true, cx->graph->inputs);
    cx->at = f->n_ops - 1;
    if (!status)
        status = convert_ends(cx, f->outputs, f->n_outputs, false, cx->graph->outputs);
    cx->graph->n_inputs = f->n_inputs;
    cx->graph->n_outputs = f->n_outputs;
    if (!status)
        status = convert_fold_pads(cx);
    if (!status)
        status = convert_drop_unused(cx);
    return status ? status : convert_unique_names(cx);
}

/* Room for what the conversion may add: a RESHAPE for each operator, a QUANTIZE for each end. */
static int make_room(struct convert *cx)
{
    const struct tflite_file *f = cx->file;
    struct graph *g = cx->graph;
    cx->tensors_max = 3 * f->n_tensors + GRAPH_ENDS_MAX * 2;
    cx->ops_max = 3 * f->n_ops + GRAPH_ENDS_MAX * 2;
    g->tensors = arena_alloc(g->arena, (size_t)cx->tensors_max, sizeof *g->tensors);
    g->ops = arena_alloc(g->arena, (size_t)cx->ops_max, sizeof *g->ops);
    cx->map = arena_alloc(cx->scratch, (size_t)f->n_tensors, sizeof *cx->map);
    cx->folds = arena_alloc(cx->scratch, (size_t)f->n_tensors, sizeof(void *));
    cx->legacy = arena_alloc(cx->scratch, (size_t)f->n_tensors, sizeof *cx->legacy);
    if (!g->tensors || !g->ops || !cx->map || !cx->folds || !cx->legacy)
        return out_of_memory(cx);
    for (int32_t t = 0; t < f->n_tensors; t++)
        cx->map[t] = -1;
    return 0;
}

/* Finishes the graph. Its refusals keep the layer beside the text; ours, and what people read, have it in the
 * text. */
static int finish(struct convert *cx)
{
    char text[ERROR_MESSAGE_BYTES];
    int status = graph_finish(cx->graph, cx->error);
    if (status == 0 || !cx->error->layer[0])
        return status;
    (void)snprintf(text, sizeof text, "%s", cx->error->message);
    (void)snprintf(cx->error->message, sizeof cx->error->message, "layer '%s' (%s): %.240s", cx->error->layer,
                   cx->error->op, text);
    return status;
}

struct graph *import_tflite(const unsigned char *bytes, size_t size, const char *name, struct error *error)
{
    struct error local;
    struct tflite_file file;
    error_clear(&local);
    struct convert cx = {.file = &file, .error = error ? error : &local};
    cx.constant_bytes_max = (int64_t)size + CONSTANT_BYTES_MAX;
    cx.scratch = arena_new(64 * 1024 * 1024);
    cx.graph = graph_new(2 * size + 64 * 1024 * 1024);
    int status = cx.scratch && cx.graph ? 0 : out_of_memory(&cx);
    if (!status)
        status = tflite_read(bytes, size, cx.scratch, &file, cx.error);
    if (!status)
        status = tflite_check(&file, cx.scratch, cx.error);
    if (!status)
        status = make_room(&cx);
    if (!status)
        status = tflite_convert(&cx);
    if (!status && !(cx.graph->name = arena_string(cx.graph->arena, name ? name : "", 255)))
        status = out_of_memory(&cx);
    if (!status)
        status = finish(&cx);
    arena_free(cx.scratch);
    if (!status)
        return cx.graph;
    graph_free(cx.graph);
    return NULL;
}
