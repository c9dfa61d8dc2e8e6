/* What is stored with a version about its graph: ends as the inference protocol names them, and figures. */
#include "server/models/internal.h"
#include "server/models/pixels.h"

#include <stdio.h>

static json_t *end_json(const struct graph *graph, int32_t t, const char *kind, int32_t index)
{
    const struct tensor *tensor = &graph->tensors[t];
    json_t *shape = json_array();
    for (int32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer(tensor->dims[i]));
    char name[32];
    (void)snprintf(name, sizeof name, "%s_%d", kind, (int)index);
    json_t *quant = json_null();
    if (tensor->dtype == DTYPE_INT8 || tensor->dtype == DTYPE_UINT8)
        quant = json_pack("{s:f, s:i}", "scale", (double)tensor->quant.scale, "zero_point",
                          (int)tensor->quant.zero_point);
    return json_pack("{s:s, s:s, s:o, s:I, s:o}", "name",
                     tensor->name && tensor->name[0] ? tensor->name : name, "datatype",
                     dtype_name(tensor->dtype), "shape", shape, "bytes", (json_int_t)tensor_bytes(tensor),
                     "quantisation", quant);
}

static json_t *ends_json(const struct graph *graph, const int32_t *ends, int32_t n, const char *kind)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, end_json(graph, ends[i], kind, i));
    return list;
}

json_t *models_summary(const struct graph *graph, const json_t *layers)
{
    return json_pack("{s:o, s:o, s:O, s:O, s:O, s:i, s:o}", "inputs",
                     ends_json(graph, graph->inputs, graph->n_inputs, "input"), "outputs",
                     ends_json(graph, graph->outputs, graph->n_outputs, "output"), "macs",
                     json_object_get(layers, "macs"), "params", json_object_get(layers, "params"),
                     "weight_bytes", json_object_get(layers, "weight_bytes"), "layers", (int)graph->n_ops,
                     "image", pixels_describe(graph));
}
