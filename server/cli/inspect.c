/* `shoal inspect MODEL`: layers, shapes, MACs, parameters, memory. */
#include "server/cli/commands.h"
#include "server/cli/fleet_options.h"
#include "server/plan/describe.h"

#include <stdio.h>

static const char *dims_text(json_t *tensor, char out[64])
{
    size_t at = 0, i;
    json_t *dim, *dims = json_object_get(tensor, "dims");
    out[0] = 0;
    json_array_foreach(dims, i, dim) at +=
        (size_t)snprintf(out + at, 64 - at, "%s%lld", i ? "x" : "", (long long)json_integer_value(dim));
    return out;
}

static const char *text(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static long long number(json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_table(json_t *model)
{
    size_t i;
    json_t *layer;
    char dims[64];
    (void)printf("%-4s %-15s %-18s %12s %10s %10s  %s\n", "#", "operator", "output", "macs", "params",
                 "bytes", "layer");
    json_array_foreach(json_object_get(model, "layers"), i, layer)(void)
        printf("%-4zu %-15s %-18s %12lld %10lld %10lld  %s\n", i, text(layer, "op"),
               dims_text(json_object_get(layer, "output"), dims), number(layer, "macs"),
               number(layer, "params"), number(layer, "output_bytes"), text(layer, "name"));
    json_t *memory = json_object_get(model, "memory");
    (void)printf("\n%s: %lld MACs, %lld parameters, %lld bytes of weights\n", text(model, "name"),
                 number(model, "macs"), number(model, "params"), number(model, "weight_bytes"));
    (void)printf("one board, layer by layer: peak %lld bytes at '%s', arena %lld bytes\n",
                 number(memory, "peak_bytes"), text(json_object_get(memory, "bottleneck"), "op"),
                 number(memory, "arena_bytes"));
}

static int show(const struct graph *graph, bool json)
{
    struct error error;
    error_clear(&error);
    json_t *schedule = describe_schedule(graph, &error);
    if (!schedule)
        return cli_fail(json, &error);
    json_t *model = describe_layers(graph), *partial = json_object_get(schedule, "partial");
    json_object_set_new(model, "memory",
                        json_pack("{s:O, s:O, s:O}", "peak_bytes", json_object_get(partial, "peak_bytes"),
                                  "arena_bytes", json_object_get(partial, "arena_bytes"), "bottleneck",
                                  json_object_get(schedule, "bottleneck")));
    json_decref(schedule);
    if (json)
        return cli_print_json(model);
    print_table(model);
    json_decref(model);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

int cli_inspect(const struct cli_command *self, int argc, char **argv)
{
    bool json = false;
    const struct cli_option options[] = {{.name = "json", .kind = CLI_FLAG, .target = &json}};
    const char *path;
    struct graph *graph;
    int code;
    if (!cli_options(self, argc, argv, options, 1, &path, 1, 1, NULL, &code))
        return code;
    code = fleet_options_model(path, json, &graph, NULL);
    if (code != CLI_DONE)
        return code;
    code = show(graph, json);
    graph_free(graph);
    return code;
}
