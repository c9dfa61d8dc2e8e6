/* `shoal schedule MODEL`: one board's steps, peak and bottleneck. For now every operator runs whole ("full").
 */
#include "server/cli/commands.h"
#include "server/cli/fleet_options.h"
#include "server/plan/describe.h"

#include <stdio.h>

static long long number(json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_table(json_t *schedule)
{
    json_t *partial = json_object_get(schedule, "partial"), *steps = json_object_get(partial, "steps");
    json_t *bottleneck = json_object_get(schedule, "bottleneck"), *item;
    size_t i;
    json_array_foreach(steps, i, item)(void) printf(
        "%-8s %10lld  %s\n", json_string_value(json_object_get(item, "mode")), number(item, "peak_bytes"),
        json_string_value(json_array_get(json_object_get(item, "ops"), 0)));
    (void)printf("\npeak %lld bytes, arena %lld, scratch %lld, extra MACs %lld\n",
                 number(partial, "peak_bytes"), number(partial, "arena_bytes"),
                 number(partial, "scratch_bytes"), number(partial, "extra_macs"));
    const char *op = json_string_value(json_object_get(bottleneck, "op"));
    (void)printf("bottleneck: %s\n", op ? op : "-");
    json_array_foreach(json_object_get(bottleneck, "tensors"), i, item)(void)
        printf("  %-7s %10lld  %s\n", json_string_value(json_object_get(item, "role")), number(item, "bytes"),
               json_string_value(json_object_get(item, "name")));
}

static int check_ram(json_t *schedule, int64_t ram, struct error *error)
{
    int64_t need = number(json_object_get(schedule, "partial"), "arena_bytes");
    if (ram == 0 || need <= ram)
        return 0;
    error_set(error, STATUS_DOES_NOT_FIT, "the arena needs %lld bytes and there are %lld", (long long)need,
              (long long)ram);
    const char *op = json_string_value(json_object_get(json_object_get(schedule, "bottleneck"), "op"));
    error->shortfall =
        (struct error_shortfall){.segment = -1, .resource = "arena", .need_bytes = need, .have_bytes = ram};
    snprintf(error->shortfall.op, sizeof error->shortfall.op, "%s", op ? op : "");
    return STATUS_DOES_NOT_FIT;
}

static int show(const struct graph *graph, int64_t ram, bool json)
{
    struct error error;
    error_clear(&error);
    json_t *schedule = describe_schedule(graph, &error);
    if (!schedule || check_ram(schedule, ram, &error) < 0) {
        json_decref(schedule);
        return cli_fail(json, &error);
    }
    if (json)
        return cli_print_json(schedule);
    print_table(schedule);
    json_decref(schedule);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

int cli_schedule(const struct cli_command *self, int argc, char **argv)
{
    bool json = false;
    int64_t ram = 0;
    const struct cli_option options[] = {
        {.name = "ram", .kind = CLI_NUMBER, .target = &ram, .min = 1, .max = (int64_t)1 << 40},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    const char *path;
    struct graph *graph;
    int code;
    if (!cli_options(self, argc, argv, options, 2, &path, 1, 1, NULL, &code))
        return code;
    code = fleet_options_model(path, json, &graph, NULL);
    if (code != CLI_DONE)
        return code;
    code = show(graph, ram, json);
    graph_free(graph);
    return code;
}
