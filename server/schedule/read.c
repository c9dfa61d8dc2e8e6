/*
 * Reads a network without weights into the ordinary graph, so that graph_finish checks it as it checks a
 * file's: order, cycles, producers, every shape by the operator table. Weights are one block of zeros that
 * all operators point into; nothing may run such a graph. Keys that are not known are refused, since one that
 * is misspelt would change the answer in silence.
 */
#include "server/schedule/read.h"

#include "server/model/optable.h"
#include "server/schedule/schedule.h"

#include <string.h>

enum { ARENA_BYTES = 1 << 30 };

struct reader {
    struct graph *graph;
    json_t *numbers; /* tensor name -> index */
    struct error *error;
};

static const struct alias {
    const char *type;
    enum op_kind kind;
} aliases[] = {
    {"dw", OP_DEPTHWISE},
    {"depthwise_conv", OP_DEPTHWISE},
    {"fc", OP_CONV},
    {"gap", OP_MEAN},
    {"maxpool", OP_MAX_POOL},
    {"avgpool", OP_AVERAGE_POOL},
    {"sigmoid", OP_LOGISTIC},
    {"concatenation", OP_CONCAT},
    {"upsample", OP_RESIZE_NEAREST},
    {"avg_pool", OP_AVERAGE_POOL},
    {"global_average_pool", OP_MEAN},
};

static int bad(struct reader *reader, const char *what, const char *name)
{
    return error_set(reader->error, STATUS_MODEL_MALFORMED, "%s '%s'", what, name);
}

static int check_keys(struct reader *reader, const json_t *object, const char *const *known,
                      const char *place)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        bool found = false;
        for (int i = 0; known[i] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found)
            return error_set(reader->error, STATUS_MODEL_MALFORMED, "%s: the key '%s' is not known", place,
                             key);
    }
    return 0;
}

/* Integers of an array of `n`, or one integer for all of them; what is missing stays. */
static int integers(struct reader *reader, const json_t *object, const char *key, int32_t *out, size_t n)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return 0;
    if (json_is_array(value) && json_array_size(value) != n)
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "'%s' takes %zu integers", key, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        json_int_t number = json_integer_value(item);
        if (!json_is_integer(item) || number < 0 || number > GRAPH_DIM_MAX)
            return error_set(reader->error, STATUS_MODEL_MALFORMED, "'%s' takes integers from 0 to %d", key,
                             GRAPH_DIM_MAX);
        out[i] = (int32_t)number;
    }
    return 0;
}

static int read_tensor(struct reader *reader, struct tensor *tensor, const char *name, const json_t *json)
{
    static const char *const known[] = {"shape", "bits", NULL};
    int32_t shape[3] = {0}, bits = 8;
    int status =
        json_is_object(json) ? check_keys(reader, json, known, name) : bad(reader, "no object: tensor", name);
    if (status == 0 && !json_object_get(json, "shape"))
        status = bad(reader, "no shape: tensor", name);
    if (status == 0)
        status = integers(reader, json, "shape", shape, 3);
    if (status == 0)
        status = integers(reader, json, "bits", &bits, 1);
    if (status == 0 && bits != 8)
        status = error_set(reader->error, STATUS_MODEL_UNSUPPORTED,
                           "tensor '%s' has %d bits; only 8 are supported", name, bits);
    tensor->name = arena_string(reader->graph->arena, name, GRAPH_NAME_MAX);
    tensor->dtype = DTYPE_INT8;
    tensor->quant = (struct quant){1.0f / 256, -128}; /* what every shape rule takes */
    tensor->rank = 4;
    tensor->dims[0] = 1;
    memcpy(tensor->dims + 1, shape, sizeof shape);
    tensor->producer = -1;
    if (status == 0)
        status = graph_shape(tensor->dims, 4, &tensor->shape, reader->error);
    if (status < 0)
        error_at_layer(reader->error, name, NULL);
    return status < 0 ? status : tensor->name ? 0 : STATUS_NO_MEMORY;
}

static int read_tensors(struct reader *reader, const json_t *tensors)
{
    struct graph *graph = reader->graph;
    if (!json_is_object(tensors))
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "'tensors' is an object: names and shapes");
    if (json_object_size(tensors) > GRAPH_TENSORS_MAX) {
        error_set(reader->error, STATUS_MODEL_LIMIT, "%zu tensors, the limit is %d",
                  json_object_size(tensors), GRAPH_TENSORS_MAX);
        error_limit(reader->error, GRAPH_TENSORS_MAX, (int64_t)json_object_size(tensors));
        return STATUS_MODEL_LIMIT;
    }
    graph->tensors = arena_alloc(graph->arena, json_object_size(tensors) + 1, sizeof *graph->tensors);
    if (!graph->tensors)
        return STATUS_NO_MEMORY;
    const char *name;
    json_t *json;
    json_object_foreach((json_t *)(uintptr_t)tensors, name, json)
    {
        json_object_set_new(reader->numbers, name, json_integer(graph->n_tensors));
        int status = read_tensor(reader, &graph->tensors[graph->n_tensors++], name, json);
        if (status < 0)
            return status;
    }
    return 0;
}

/* `what`: the key that takes the name. */
static int tensor_number(struct reader *reader, const json_t *name, const char *what, int32_t *number)
{
    if (!json_is_string(name))
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "'%s' takes names of tensors", what);
    const json_t *found = json_object_get(reader->numbers, json_string_value(name));
    *number = (int32_t)json_integer_value(found);
    return found ? 0 : bad(reader, "no such tensor:", json_string_value(name));
}

static int read_names(struct reader *reader, const json_t *names, const char *what, int32_t *out, int32_t max,
                      int32_t *n)
{
    if (!json_is_array(names) || json_array_size(names) < 1 || json_array_size(names) > (size_t)max)
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "'%s' takes 1 to %d names of tensors", what,
                         max);
    *n = (int32_t)json_array_size(names);
    for (int32_t i = 0; i < *n; i++) {
        int status = tensor_number(reader, json_array_get(names, (size_t)i), what, &out[i]);
        if (status < 0)
            return status;
    }
    return 0;
}

static int read_kind(struct reader *reader, const char *type, enum op_kind *kind)
{
    for (int32_t i = 0; i < OP_KIND_COUNT; i++)
        if (strcmp(op_row((enum op_kind)i)->name, type) == 0) {
            *kind = (enum op_kind)i;
            return 0;
        }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].type, type) == 0) {
            *kind = aliases[i].kind;
            return 0;
        }
    return error_set(reader->error, STATUS_MODEL_UNSUPPORTED, "operators of the type '%s' are not known",
                     type);
}

/* TensorFlow's "same": the output is in / stride rounded up, the odd row of padding comes after. */
static void same_axis(int32_t in, int32_t kernel, int32_t stride, int32_t dilation, int32_t *before,
                      int32_t *after)
{
    if (stride < 1)
        return;
    int64_t out = (in + stride - 1) / stride;
    int64_t need = (out - 1) * stride + (int64_t)(kernel - 1) * dilation + 1 - in;
    need = need > 0 ? need : 0;
    *before = (int32_t)(need / 2);
    *after = (int32_t)(need - need / 2);
}

static int read_padding(struct reader *reader, const json_t *json, struct op *op)
{
    const json_t *pad = json_object_get(json, "pad");
    struct shape in = reader->graph->tensors[op->inputs[0]].shape;
    if (json_is_array(pad)) {
        int32_t four[4] = {0};
        int status = integers(reader, json, "pad", four, 4);
        op->pad_top = four[0], op->pad_left = four[1], op->pad_bottom = four[2], op->pad_right = four[3];
        return status;
    }
    const char *word = pad ? json_string_value(pad) : "same";
    if (word && strcmp(word, "valid") == 0)
        return 0;
    if (!word || strcmp(word, "same") != 0)
        return error_set(reader->error, STATUS_MODEL_MALFORMED,
                         "'pad' is \"same\", \"valid\" or four integers");
    same_axis(in.h, op->kernel_h, op->stride_h, op->dilation_h, &op->pad_top, &op->pad_bottom);
    same_axis(in.w, op->kernel_w, op->stride_w, op->dilation_w, &op->pad_left, &op->pad_right);
    return 0;
}

static int read_window(struct reader *reader, const json_t *json, struct op *op, bool whole_map)
{
    int32_t k[2] = {1, 1}, s[2] = {1, 1}, d[2] = {1, 1};
    struct shape in = reader->graph->tensors[op->inputs[0]].shape;
    int status = integers(reader, json, "k", k, 2);
    if (status == 0)
        status = integers(reader, json, "s", s, 2);
    if (status == 0)
        status = integers(reader, json, "dil", d, 2);
    if (status < 0)
        return status;
    if (whole_map)
        k[0] = in.h, k[1] = in.w, s[0] = s[1] = d[0] = d[1] = 1;
    op->kernel_h = k[0], op->kernel_w = k[1], op->stride_h = s[0], op->stride_w = s[1];
    op->dilation_h = d[0], op->dilation_w = d[1];
    return whole_map ? 0 : read_padding(reader, json, op);
}

static int read_parameters(struct reader *reader, const json_t *json, const char *type, struct op *op)
{
    const struct graph *graph = reader->graph;
    struct shape in = graph->tensors[op->inputs[0]].shape, out = graph->tensors[op->output].shape;
    int32_t groups = 1, axis = 2;
    int status = integers(reader, json, "groups", &groups, 1);
    if (status == 0)
        status = integers(reader, json, "axis", &axis, 1);
    if (status == 0 && op_row(op->kind)->window)
        status = read_window(reader, json, op, strcmp(type, "fc") == 0);
    op->groups = groups;
    op->axis = axis;
    op->multiplier = in.c ? out.c / in.c : 1;
    op->reduce = OP_AXIS_H | OP_AXIS_W;
    op->beta = 1;
    op->perm[0] = 0, op->perm[1] = 1, op->perm[2] = 2;
    if (op->kind == OP_PAD)
        op->pad_bottom = out.h - in.h, op->pad_right = out.w - in.w, op->pad_c1 = out.c - in.c;
    if (status == 0 && op_row(op->kind)->max_inputs == 2 && op->n_inputs == 2 &&
        shape_elements(in) < shape_elements(graph->tensors[op->inputs[1]].shape)) {
        int32_t first = op->inputs[0];
        op->inputs[0] = op->inputs[1];
        op->inputs[1] = first;
    }
    return status;
}

static int read_op(struct reader *reader, const json_t *json, struct op *op)
{
    static const char *const known[] = {"name", "type", "inputs", "output", "k", "s",
                                        "pad",  "dil",  "groups", "axis",   NULL};
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!name || !type)
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "operator %d has no name or no type",
                         reader->graph->n_ops - 1);
    op->name = arena_string(reader->graph->arena, name, GRAPH_NAME_MAX);
    op->file_op = arena_string(reader->graph->arena, type, GRAPH_NAME_MAX);
    int status = op->name && op->file_op ? check_keys(reader, json, known, name) : STATUS_NO_MEMORY;
    if (status == 0)
        status = read_kind(reader, type, &op->kind);
    if (status == 0)
        status = read_names(reader, json_object_get(json, "inputs"), "inputs", op->inputs,
                            GRAPH_OP_INPUTS_MAX, &op->n_inputs);
    if (status == 0)
        status = tensor_number(reader, json_object_get(json, "output"), "output", &op->output);
    if (status == 0)
        status = read_parameters(reader, json, type, op);
    if (status < 0)
        error_at_layer(reader->error, name, type);
    return status;
}

/* Weights of the right number for every operator, all in one block of zeros. */
static int give_weights(struct reader *reader)
{
    struct graph *graph = reader->graph;
    int64_t most = 1;
    for (int32_t i = 0; i < graph->n_ops; i++) {
        struct op *op = &graph->ops[i];
        if (!op_row(op->kind)->needs_weights)
            continue;
        struct shape in = graph->tensors[op->inputs[0]].shape, out = graph->tensors[op->output].shape;
        int64_t window = (int64_t)op->kernel_h * op->kernel_w;
        bool own = op_row(op->kind)->class == OP_CLASS_CHANNELWISE;
        op->weight_bytes = window * out.c * (own ? 1 : in.c / (op->groups ? op->groups : 1));
        if (op->weight_bytes > GRAPH_WEIGHT_BYTES_MAX) {
            error_set(reader->error, STATUS_MODEL_LIMIT, "%lld bytes of weights",
                      (long long)op->weight_bytes);
            error_at_layer(reader->error, op->name, op->file_op);
            return STATUS_MODEL_LIMIT;
        }
        most = op->weight_bytes > most ? op->weight_bytes : most;
    }
    int8_t *weights = arena_alloc(graph->arena, (size_t)most, 1);
    int32_t *bias = arena_alloc(graph->arena, GRAPH_DIM_MAX + 1, sizeof *bias);
    float *scale = arena_alloc(graph->arena, 1, sizeof *scale);
    if (!weights || !bias || !scale)
        return STATUS_NO_MEMORY;
    *scale = 1;
    for (int32_t i = 0; i < graph->n_ops; i++)
        if (op_row(graph->ops[i].kind)->needs_weights) {
            graph->ops[i].weights = weights;
            graph->ops[i].bias = bias;
            graph->ops[i].weight_scales = scale;
            graph->ops[i].n_weight_scales = 1;
        }
    return 0;
}

static int read_ops(struct reader *reader, const json_t *ops)
{
    struct graph *graph = reader->graph;
    size_t n = json_array_size(ops);
    graph->ops = arena_alloc(graph->arena, n, sizeof *graph->ops);
    if (!graph->ops)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        int status = read_op(reader, json_array_get(ops, i), &graph->ops[graph->n_ops++]);
        if (status < 0)
            return status;
    }
    return give_weights(reader);
}

static int check_count(struct reader *reader, const json_t *ops)
{
    size_t n = json_array_size(ops);
    if (!json_is_array(ops) || n < 1)
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "'ops' is an array of one operator or more");
    if (n <= SCHEDULE_OPS_MAX)
        return 0;
    error_set(reader->error, STATUS_MODEL_LIMIT, "%zu operators, the limit is %d", n, SCHEDULE_OPS_MAX);
    error_limit(reader->error, SCHEDULE_OPS_MAX, (int64_t)n);
    return STATUS_MODEL_LIMIT;
}

static int read_graph(struct reader *reader, const json_t *json)
{
    static const char *const known[] = {"name", "tensors", "inputs", "outputs", "ops", NULL};
    struct graph *graph = reader->graph;
    const char *name = json_string_value(json_object_get(json, "name"));
    if (!json_is_object(json))
        return error_set(reader->error, STATUS_MODEL_MALFORMED, "a graph is a JSON object");
    int status = check_keys(reader, json, known, "graph");
    graph->name = arena_string(graph->arena, name ? name : "graph", GRAPH_NAME_MAX);
    if (status == 0)
        status = check_count(reader, json_object_get(json, "ops"));
    if (status == 0)
        status = read_tensors(reader, json_object_get(json, "tensors"));
    if (status == 0)
        status = read_names(reader, json_object_get(json, "inputs"), "inputs", graph->inputs, GRAPH_ENDS_MAX,
                            &graph->n_inputs);
    if (status == 0)
        status = read_names(reader, json_object_get(json, "outputs"), "outputs", graph->outputs,
                            GRAPH_ENDS_MAX, &graph->n_outputs);
    if (status == 0)
        status = read_ops(reader, json_object_get(json, "ops"));
    return status < 0 ? status : graph_finish(graph, reader->error);
}

struct graph *schedule_read(const json_t *json, struct error *error)
{
    struct reader reader = {graph_new(ARENA_BYTES), json_object(), error};
    int status = reader.graph && reader.numbers ? read_graph(&reader, json) : STATUS_NO_MEMORY;
    json_decref(reader.numbers);
    if (status >= 0)
        return reader.graph;
    error_set(error, (enum status)status, "the graph could not be read");
    graph_free(reader.graph);
    return NULL;
}
