/*
 * Inference requests into raw tensors. Every input of the graph must be there once, with the graph's own type
 * and shape; data is nested or flat JSON, or bytes behind the header in the order of the request. A body
 * without a JSON part is the raw inputs one after another.
 */
#include "server/api/protocol.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

enum { NESTING_MAX = 8 };

const char *v2_end_name(const struct tensor *tensor, const char *kind, int32_t index, char buffer[32])
{
    if (tensor->name && tensor->name[0])
        return tensor->name;
    (void)snprintf(buffer, 32, "%s_%d", kind, (int)index);
    return buffer;
}

void v2_request_free(struct v2_request *request)
{
    json_decref(request->header);
    free(request->input);
    memset(request, 0, sizeof *request);
}

/* ---- one tensor's data ---- */

struct filling {
    const struct tensor *tensor;
    const char *name;
    unsigned char *out;
    size_t n, at; /* elements */
    struct error *error;
};

static int put_integer(struct filling *fill, const json_t *value, json_int_t lo, json_int_t hi)
{
    double real = json_number_value(value);
    if (!json_is_number(value) || real != floor(real) || real < (double)lo || real > (double)hi)
        return error_set(fill->error, STATUS_INVALID_ARGUMENT,
                         "input '%.80s': value %zu is no %s: a whole number from %lld to %lld", fill->name,
                         fill->at, dtype_name(fill->tensor->dtype), (long long)lo, (long long)hi);
    int32_t number = (int32_t)real;
    if (fill->tensor->dtype == DTYPE_INT32)
        memcpy(fill->out + fill->at * 4, &number, 4);
    else
        fill->out[fill->at] = (unsigned char)(number & 0xff);
    fill->at++;
    return 0;
}

static int put_value(struct filling *fill, const json_t *value)
{
    if (fill->at == fill->n)
        return error_set(fill->error, STATUS_INPUT_SIZE, "input '%.80s' has more than %zu values", fill->name,
                         fill->n);
    switch (fill->tensor->dtype) {
    case DTYPE_INT8:
        return put_integer(fill, value, -128, 127);
    case DTYPE_UINT8:
        return put_integer(fill, value, 0, 255);
    case DTYPE_INT32:
        return put_integer(fill, value, INT32_MIN, INT32_MAX);
    default:
        break;
    }
    float real = (float)json_number_value(value);
    if (!json_is_number(value) || !isfinite(real))
        return error_set(fill->error, STATUS_INVALID_ARGUMENT, "input '%.80s': value %zu is no FP32",
                         fill->name, fill->at);
    memcpy(fill->out + fill->at++ * 4, &real, 4);
    return 0;
}

static int put_values(struct filling *fill, const json_t *list, int depth)
{
    if (depth > NESTING_MAX)
        return error_set(fill->error, STATUS_INVALID_ARGUMENT, "input '%.80s' is nested too deep",
                         fill->name);
    int status = 0;
    for (size_t i = 0; status == 0 && i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        status = json_is_array(value) ? put_values(fill, value, depth + 1) : put_value(fill, value);
    }
    return status;
}

static int fill_json(struct filling *fill, const json_t *data)
{
    if (!json_is_array(data))
        return error_set(fill->error, STATUS_INVALID_ARGUMENT, "input '%.80s' has no list 'data'",
                         fill->name);
    int status = put_values(fill, data, 1);
    if (status == 0 && fill->at != fill->n) {
        status =
            error_set(fill->error, STATUS_INPUT_SIZE, "input '%.80s' has %zu values, the model takes %zu",
                      fill->name, fill->at, fill->n);
        error_limit(fill->error, (int64_t)fill->n, (int64_t)fill->at);
    }
    return status;
}

/* ---- inputs ---- */

static void shape_text(const int32_t *dims, int32_t rank, char out[64])
{
    size_t at = (size_t)snprintf(out, 64, "[");
    for (int32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(out + at, 64 - at, "%s%d", i ? "," : "", (int)dims[i]);
    (void)snprintf(out + at, 64 - at, "]");
}

static int check_kind(const json_t *input, const struct tensor *tensor, const char *name, struct error *error)
{
    const char *datatype = json_string_value(json_object_get(input, "datatype"));
    if (!datatype || strcmp(datatype, dtype_name(tensor->dtype)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "input '%.80s' is %.20s, the model takes %s", name,
                         datatype ? datatype : "of no datatype", dtype_name(tensor->dtype));
    const json_t *shape = json_object_get(input, "shape");
    bool same = json_is_array(shape) && json_array_size(shape) == (size_t)tensor->rank;
    for (size_t i = 0; same && i < json_array_size(shape); i++)
        same = json_is_integer(json_array_get(shape, i)) &&
               json_integer_value(json_array_get(shape, i)) == tensor->dims[i];
    if (same)
        return 0;
    char wanted[64];
    shape_text(tensor->dims, tensor->rank, wanted);
    return error_set(error, STATUS_INPUT_SIZE, "input '%.80s' has another shape; the model takes %s", name,
                     wanted);
}

/* The index of the graph's input with this name, and where its bytes begin; -1: there is none. */
static int32_t find_input(const struct graph *graph, const char *name, size_t *offset)
{
    char buffer[32];
    *offset = 0;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const struct tensor *tensor = &graph->tensors[graph->inputs[i]];
        if (name && strcmp(v2_end_name(tensor, "input", i, buffer), name) == 0)
            return i;
        *offset += tensor_bytes(tensor);
    }
    return -1;
}

/* What is left of the bytes behind the header. */
struct tail {
    const unsigned char *bytes;
    size_t n;
};

static int take_binary(struct tail *tail, const struct tensor *tensor, const char *name, const json_t *size,
                       unsigned char *out, struct error *error)
{
    size_t wanted = tensor_bytes(tensor);
    json_int_t stated = json_integer_value(size);
    if (!json_is_integer(size) || stated < 0 || (size_t)stated != wanted || wanted > tail->n) {
        int status = error_set(
            error, STATUS_INPUT_SIZE, "input '%.80s' has %lld bytes, the model takes %zu", name,
            (long long)(json_is_integer(size) && (size_t)stated != wanted ? stated : (json_int_t)tail->n),
            wanted);
        error_limit(error, (int64_t)wanted, stated);
        return status;
    }
    memcpy(out, tail->bytes, wanted);
    tail->bytes += wanted;
    tail->n -= wanted;
    return 0;
}

static int parse_input(const struct graph *graph, const json_t *input, struct tail *tail,
                       struct v2_request *request, uint32_t *seen, struct error *error)
{
    const char *name = json_string_value(json_object_get(input, "name"));
    size_t offset;
    int32_t index = find_input(graph, name, &offset);
    char buffer[32];
    if (index < 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the model has no input '%.80s'; its first is '%.80s'", name ? name : "",
                         v2_end_name(&graph->tensors[graph->inputs[0]], "input", 0, buffer));
    if (*seen & (uint32_t)1 << index)
        return error_set(error, STATUS_INVALID_ARGUMENT, "input '%.80s' stands twice", name);
    *seen |= (uint32_t)1 << index;
    const struct tensor *tensor = &graph->tensors[graph->inputs[index]];
    int status = check_kind(input, tensor, name, error);
    if (status < 0)
        return status;
    const json_t *size = json_object_get(json_object_get(input, "parameters"), "binary_data_size");
    if (size)
        return take_binary(tail, tensor, name, size, request->input + offset, error);
    struct filling fill = {tensor, name, request->input + offset, (size_t)shape_elements(tensor->shape),
                           0,      error};
    return fill_json(&fill, json_object_get(input, "data"));
}

static int parse_inputs(const struct graph *graph, struct tail *tail, struct v2_request *request,
                        struct error *error)
{
    const json_t *inputs = json_object_get(request->header, "inputs");
    if (!json_is_array(inputs) || json_array_size(inputs) != (size_t)graph->n_inputs)
        return error_set(error, STATUS_INVALID_ARGUMENT, "'inputs' is a list of the model's %d inputs",
                         (int)graph->n_inputs);
    uint32_t seen = 0;
    int status = 0;
    for (size_t i = 0; status == 0 && i < json_array_size(inputs); i++)
        status = parse_input(graph, json_array_get(inputs, i), tail, request, &seen, error);
    if (status == 0 && tail->n) {
        status = error_set(error, STATUS_INPUT_SIZE, "%zu bytes are left over behind the inputs", tail->n);
        error_limit(error, 0, (int64_t)tail->n);
    }
    return status;
}

/* ---- outputs ---- */

static int find_output(const struct graph *graph, const char *name)
{
    char buffer[32];
    for (int32_t o = 0; name && o < graph->n_outputs; o++)
        if (strcmp(v2_end_name(&graph->tensors[graph->outputs[o]], "output", o, buffer), name) == 0)
            return o;
    return -1;
}

static int parse_outputs(const struct graph *graph, struct v2_request *request, struct error *error)
{
    const json_t *outputs = json_object_get(request->header, "outputs");
    uint32_t all = (uint32_t)(((uint64_t)1 << graph->n_outputs) - 1);
    bool binary =
        json_is_true(json_object_get(json_object_get(request->header, "parameters"), "binary_data_output"));
    request->wanted = all;
    request->binary = binary ? all : 0;
    if (!outputs)
        return 0;
    if (!json_is_array(outputs))
        return error_set(error, STATUS_INVALID_ARGUMENT, "'outputs' is a list");
    if (json_array_size(outputs) > 0)
        request->wanted = 0;
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const json_t *output = json_array_get(outputs, i);
        const char *name = json_string_value(json_object_get(output, "name"));
        int o = find_output(graph, name);
        if (o < 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "the model has no output '%.80s'",
                             name ? name : "");
        const json_t *own = json_object_get(json_object_get(output, "parameters"), "binary_data");
        request->wanted |= (uint32_t)1 << o;
        if (own && json_is_true(own))
            request->binary |= (uint32_t)1 << o;
        else if (own)
            request->binary &= ~((uint32_t)1 << o);
    }
    return 0;
}

/* ---- the whole ---- */

static int check_header(const json_t *header, struct error *error)
{
    static const char *const known[] = {"id", "parameters", "inputs", "outputs"};
    const char *key;
    json_t *value;
    if (!json_is_object(header))
        return error_set(error, STATUS_BAD_JSON, "the request is a JSON object with 'inputs'");
    json_object_foreach((json_t *)(uintptr_t)header, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(known[i], key) == 0;
        if (!found)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "'%.64s' is not known; a request has id, parameters, inputs, outputs", key);
    }
    const json_t *id = json_object_get(header, "id");
    return !id || json_is_string(id) ? 0 : error_set(error, STATUS_INVALID_ARGUMENT, "'id' is a text");
}

/* Cuts the body in header and tail at what Inference-Header-Content-Length says. */
static int cut_body(const struct http_request *body, const char *length, struct v2_request *request,
                    struct tail *tail, struct error *error)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(length, &end, 10);
    if (errno || *length < '0' || *length > '9' || *end || n > body->body_bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "Inference-Header-Content-Length is no length within the body of %zu bytes",
                         body->body_bytes);
    *tail = (struct tail){body->body + n, body->body_bytes - (size_t)n};
    request->raw = n == 0;
    if (n == 0)
        return 0;
    json_error_t where;
    request->header = json_loadb((const char *)body->body, (size_t)n, JSON_REJECT_DUPLICATES, &where);
    if (!request->header) {
        int status =
            error_set(error, STATUS_BAD_JSON, "line %d, column %d: %s", where.line, where.column, where.text);
        error_at_offset(error, where.position);
        return status;
    }
    return 0;
}

static int take_raw(const struct graph *graph, const struct tail *tail, struct v2_request *request,
                    struct error *error)
{
    size_t wanted = graph_input_bytes(graph);
    if (tail->n != wanted) {
        int status = error_set(error, STATUS_INPUT_SIZE, "the input has %zu bytes, the model takes %zu",
                               tail->n, wanted);
        error_limit(error, (int64_t)wanted, (int64_t)tail->n);
        return status;
    }
    memcpy(request->input, tail->bytes, wanted);
    return 0;
}

int v2_parse(const struct http_exchange *x, const struct graph *graph, struct v2_request *request,
             struct error *error)
{
    const struct http_request *body = http_request(x);
    const char *length = http_header(x, "Inference-Header-Content-Length");
    struct tail tail = {body->body, body->body_bytes};
    int status = 0;
    memset(request, 0, sizeof *request);
    if (length)
        status = cut_body(body, length, request, &tail, error);
    else if (strcmp(body->content_type, "application/json") == 0) {
        request->header = json_incref(body->json);
        tail.n = 0;
    } else
        request->raw = true;
    request->input = malloc(graph_input_bytes(graph) + 1);
    if (!request->input && status == 0)
        status = error_set(error, STATUS_NO_MEMORY, "out of memory");
    if (status == 0 && request->raw)
        status = take_raw(graph, &tail, request, error);
    else if (status == 0)
        status = check_header(request->header, error);
    if (status == 0 && !request->raw)
        status = parse_inputs(graph, &tail, request, error);
    if (status == 0 && !request->raw)
        status = parse_outputs(graph, request, error);
    if (status < 0)
        v2_request_free(request);
    return status;
}
