/*
 * Inference: parse in the pool, hand to the conductor, answer from its callback. The exchange stays valid
 * until http_finish, also when the client has gone; the callback comes exactly once, so nothing leaks.
 */
#include "server/api/protocol.h"

#include "server/base/bytes.h"
#include "server/base/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

static json_t *value_json(const struct tensor *tensor, const unsigned char *data, size_t i)
{
    int32_t number;
    float real;
    switch (tensor->dtype) {
    case DTYPE_INT8:
        return json_integer((int8_t)data[i]);
    case DTYPE_UINT8:
        return json_integer(data[i]);
    case DTYPE_INT32:
        memcpy(&number, data + i * 4, 4);
        return json_integer(number);
    default:
        memcpy(&real, data + i * 4, 4);
        json_t *json = json_real((double)real);
        return json ? json : json_null(); /* no number */
    }
}

static json_t *output_json(const struct tensor *tensor, const char *name, const unsigned char *data,
                           bool binary)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer(tensor->dims[i]));
    json_t *json =
        json_pack("{s:s, s:s, s:o}", "name", name, "datatype", dtype_name(tensor->dtype), "shape", shape);
    if (binary) {
        json_object_set_new(json, "parameters",
                            json_pack("{s:I}", "binary_data_size", (json_int_t)tensor_bytes(tensor)));
        return json;
    }
    json_t *list = json_array();
    int64_t n = shape_elements(tensor->shape);
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, value_json(tensor, data, (size_t)i));
    json_object_set_new(json, "data", list);
    return json;
}

static json_t *document(const struct graph *graph, const struct v2_request *request,
                        const struct v2_named *named, const unsigned char *output)
{
    json_t *outputs = json_array();
    char version[13], buffer[32];
    (void)snprintf(version, sizeof version, "%s", named->version);
    for (int32_t o = 0; o < graph->n_outputs; o++) {
        const struct tensor *tensor = &graph->tensors[graph->outputs[o]];
        uint32_t bit = (uint32_t)1 << o;
        if (request->wanted & bit)
            json_array_append_new(outputs, output_json(tensor, v2_end_name(tensor, "output", o, buffer),
                                                       output, request->binary & bit));
        output += tensor_bytes(tensor);
    }
    return json_pack("{s:s, s:s, s:O*, s:{s:s, s:s, s:I, s:s, s:f}, s:o}", "model_name", named->model,
                     "model_version", version, "id", json_object_get(request->header, "id"), "parameters",
                     "version", named->version, "deployment", named->deployment, "generation",
                     (json_int_t)named->generation, "inference", named->inference, "latency_ms",
                     named->latency_ms, "outputs", outputs);
}

static void name_in_headers(struct http_exchange *x, const struct v2_named *named)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", (unsigned)named->generation);
    http_set_header(x, "Shoal-Version", named->version);
    http_set_header(x, "Shoal-Deployment", named->deployment);
    http_set_header(x, "Shoal-Generation", number);
    http_set_header(x, "Shoal-Inference", named->inference);
}

/* The header, then the data of the outputs that go the binary way. */
static void answer_binary(struct http_exchange *x, const struct graph *graph,
                          const struct v2_request *request, const struct v2_named *named,
                          const unsigned char *output)
{
    json_t *json = document(graph, request, named, output);
    char *text = json_text(json);
    json_decref(json);
    struct bytes bytes;
    bytes_init(&bytes, (size_t)1 << 30);
    if (text)
        bytes_append(&bytes, text, strlen(text));
    char length[24];
    (void)snprintf(length, sizeof length, "%zu", bytes.size);
    for (int32_t o = 0; text && o < graph->n_outputs; o++) {
        size_t n = tensor_bytes(&graph->tensors[graph->outputs[o]]);
        if (request->wanted & request->binary & (uint32_t)1 << o)
            bytes_append(&bytes, output, n);
        output += n;
    }
    size_t size;
    unsigned char *whole = text ? bytes_take(&bytes, &size) : NULL;
    free(text);
    if (!whole) {
        bytes_free(&bytes);
        http_fail_status(x, STATUS_NO_MEMORY, "out of memory");
        return;
    }
    http_set_header(x, "Inference-Header-Content-Length", length);
    http_bytes(x, 200, "application/octet-stream", whole, size);
}

void v2_answer(struct http_exchange *x, const struct graph *graph, const struct v2_request *request,
               const void *output, const struct v2_named *named)
{
    const char *accept = http_header(x, "Accept");
    name_in_headers(x, named);
    if (request->raw && !(accept && strstr(accept, "application/json"))) {
        size_t n = graph_output_bytes(graph);
        unsigned char *copy = malloc(n + 1);
        if (copy)
            memcpy(copy, output, n);
        if (copy)
            http_bytes(x, 200, "application/octet-stream", copy, n);
        else
            http_fail_status(x, STATUS_NO_MEMORY, "out of memory");
        return;
    }
    struct v2_request whole = *request;
    if (request->raw)
        whole.wanted = (uint32_t)(((uint64_t)1 << graph->n_outputs) - 1);
    if (whole.wanted & whole.binary)
        answer_binary(x, graph, &whole, named, output);
    else
        http_json(x, 200, document(graph, &whole, named, output));
}

/* ---- asking ---- */

struct asking {
    struct http_exchange *x;
    struct infer_route *route;
    struct v2_request request;
};

static void asking_free(struct asking *asking)
{
    if (!asking)
        return;
    v2_request_free(&asking->request);
    infer_route_release(asking->route);
    free(asking);
}

static void answered(void *context, const struct infer_answer *answer)
{
    struct asking *asking = context;
    struct http_exchange *x = asking->x;
    const struct infer_route *route = asking->route;
    if (answer->status < 0) {
        http_fail(x, &answer->error);
    } else {
        struct v2_named named = {route->model,      route->version,    route->deployment,
                                 answer->inference, route->generation, answer->latency_ms};
        v2_answer(x, route->graph, &asking->request, answer->output, &named);
    }
    asking_free(asking);
    http_finish(x);
}

int v2_infer(struct http_exchange *x)
{
    struct error error;
    error_clear(&error);
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return http_fail_status(x, STATUS_NO_MEMORY, "out of memory");
    asking->x = x;
    asking->route = v2_route(x, api_param(x, 0), api_param(x, 1));
    if (!asking->route) {
        asking_free(asking);
        return 0;
    }
    const struct graph *graph = asking->route->graph;
    int status = v2_parse(x, graph, &asking->request, &error);
    if (status == 0)
        status = infer_submit(api_app(x)->infer, asking->route, asking->request.input,
                              graph_input_bytes(graph), answered, asking, &error);
    if (status == 0)
        return HTTP_PENDING;
    asking_free(asking);
    error_set(&error, (enum status)status, "%s", status_text(status));
    return http_fail(x, &error);
}
