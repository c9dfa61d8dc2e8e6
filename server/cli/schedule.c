/* `shoal schedule MODEL|GRAPH.json`: one board's steps, peak and bottleneck under partial execution. A file
 * whose first character is '{' is a network without weights. */
#include "server/base/file.h"
#include "server/cli/commands.h"
#include "server/cli/fleet_options.h"
#include "server/emit/emit.h"
#include "server/import/import.h"
#include "server/schedule/json.h"
#include "server/schedule/read.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILE_BYTES_MAX = 64 * 1024 };

static long long number(json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_step(json_t *step)
{
    json_t *ops = json_object_get(step, "ops"), *name;
    size_t i;
    (void)printf("%-8s %10lld ", json_string_value(json_object_get(step, "mode")),
                 number(step, "peak_bytes"));
    if (number(step, "k"))
        (void)printf(" k=%lld%s", number(step, "k"),
                     json_is_true(json_object_get(step, "rings")) ? " rings" : "");
    if (json_is_array(json_object_get(step, "tile")))
        (void)printf(" tile %lldx%lld",
                     (long long)json_integer_value(json_array_get(json_object_get(step, "tile"), 0)),
                     (long long)json_integer_value(json_array_get(json_object_get(step, "tile"), 1)));
    if (number(step, "again"))
        (void)printf(" only for the last:");
    json_array_foreach(ops, i, name)(void) printf(" %s", json_string_value(name));
    (void)printf("\n");
}

/* What the packer could not avoid, beyond alignment. */
static const char *beyond(json_t *partial)
{
    static char text[64];
    long long more =
        number(partial, "arena_bytes") - number(partial, "peak_bytes") - number(partial, "scratch_bytes");
    text[0] = 0;
    if (more >= 32)
        (void)snprintf(text, sizeof text, ", %lld more than peak and scratch", more);
    return text;
}

static void print_table(json_t *schedule)
{
    json_t *partial = json_object_get(schedule, "partial"), *item;
    json_t *bottleneck = json_object_get(schedule, "bottleneck");
    size_t i;
    json_array_foreach(json_object_get(partial, "steps"), i, item) print_step(item);
    json_t *ordinary = json_object_get(schedule, "ordinary");
    (void)printf("\npeak %lld bytes (operator by operator %lld), extra MACs %lld of %lld\n",
                 number(partial, "peak_bytes"), number(ordinary, "peak_bytes"), number(partial, "extra_macs"),
                 number(schedule, "macs"));
    if (number(partial, "arena_bytes"))
        (void)printf("arena %lld bytes with %lld of scratch%s\n", number(partial, "arena_bytes"),
                     number(partial, "scratch_bytes"), beyond(partial));
    (void)printf("predicted %.1f ms (operator by operator %.1f)\n",
                 json_real_value(json_object_get(partial, "predicted_ms")),
                 json_real_value(json_object_get(ordinary, "predicted_ms")));
    const char *op = json_string_value(json_object_get(bottleneck, "op"));
    (void)printf("bottleneck: %s\n", op ? op : "-");
    json_array_foreach(json_object_get(bottleneck, "tensors"), i, item)(void)
        printf("  %-7s %10lld  %s\n", json_string_value(json_object_get(item, "role")), number(item, "bytes"),
               json_string_value(json_object_get(item, "name")));
    if (!json_is_true(json_object_get(schedule, "exhaustive")))
        (void)printf("the graph is too large to try everything\n");
    const char *reason = json_string_value(json_object_get(schedule, "why_not_executable"));
    if (reason)
        (void)printf("not executable: %s\n", reason);
}

static struct graph *read_json(const uint8_t *bytes, size_t size, struct error *error)
{
    json_error_t reason;
    json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &reason);
    struct graph *graph = json ? schedule_read(json, error) : NULL;
    if (!json) {
        error_set(error, STATUS_BAD_JSON, "line %d: %s", reason.line, reason.text);
        error_at_offset(error, reason.position);
    }
    json_decref(json);
    return graph;
}

static bool is_json(const uint8_t *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && isspace(bytes[i]))
        i++;
    return i < size && bytes[i] == '{';
}

/* *weights: it is a model. */
static struct graph *read_network(const char *path, bool *weights, struct error *error)
{
    uint8_t *bytes;
    size_t size;
    if (file_read(path, IMPORT_MODEL_BYTES_MAX, &bytes, &size, error) < 0)
        return NULL;
    const char *base = strrchr(path, '/');
    *weights = !is_json(bytes, size);
    struct graph *graph =
        *weights ? import_bytes(bytes, size, base ? base + 1 : path, error) : read_json(bytes, size, error);
    free(bytes);
    return graph;
}

static int show(const struct graph *graph, const struct schedule_options *options, bool weights, bool json)
{
    struct error error;
    error_clear(&error);
    json_t *schedule = schedule_describe(graph, options, weights ? emit_schedule : NULL, &error);
    if (!schedule) {
        int code = cli_fail(json, &error);
        if (error.status == STATUS_DOES_NOT_FIT && options->extra_macs <= 0)
            (void)fputs("  --extra-macs 50 lets parts be computed again: less memory for more time\n",
                        stderr);
        return code;
    }
    if (json)
        return cli_print_json(schedule);
    print_table(schedule);
    json_decref(schedule);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

/* --profile: a built-in name, or a file with one board's JSON. */
static int read_profile(const char *text, struct schedule_board *board, struct error *error)
{
    uint8_t *bytes;
    size_t size;
    json_error_t reason;
    json_t *json = plan_profile(text) ? json_string(text) : NULL;
    if (!json && file_read(text, PROFILE_BYTES_MAX, &bytes, &size, error) == 0) {
        json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &reason);
        free(bytes);
        if (!json)
            error_set(error, STATUS_BAD_JSON, "%s, line %d: %s", text, reason.line, reason.text);
    }
    int status = json ? plan_schedule_board(json, board, error) : (int)error->status;
    json_decref(json);
    return status;
}

int cli_schedule(const struct cli_command *self, int argc, char **argv)
{
    bool json = false, weights = false;
    struct schedule_options chosen = schedule_defaults();
    int axes = 2, image = 0, accumulator = 0;
    const char *path, *profile = NULL;
    const struct cli_option options[] = {
        {.name = "accumulator", .kind = CLI_CHOICE, .target = &accumulator, .choices = "32|16|8"},
        {.name = "axes", .kind = CLI_CHOICE, .target = &axes, .choices = "channels|rows|all"},
        {.name = "extra-macs", .kind = CLI_REAL, .target = &chosen.extra_macs},
        {.name = "image", .kind = CLI_CHOICE, .target = &image, .choices = "counted|streamed"},
        {.name = "ram", .kind = CLI_BYTES, .target = &chosen.ram, .min = 1, .max = (int64_t)1 << 40},
        {.name = "profile", .kind = CLI_TEXT, .target = &profile},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    struct schedule_board board;
    int code;
    if (!cli_options(self, argc, argv, options, sizeof options / sizeof *options, &path, 1, 1, NULL, &code))
        return code;
    chosen.accumulator = 32 >> accumulator;
    chosen.axes = (enum schedule_axes)(axes + 1);
    chosen.streamed = image == 1;
    struct error error;
    error_clear(&error);
    if (profile && read_profile(profile, &board, &error) < 0)
        return cli_fail(json, &error);
    chosen.board = profile ? &board : NULL;
    struct graph *graph = read_network(path, &weights, &error);
    code = graph ? show(graph, &chosen, weights, json) : cli_fail(json, &error);
    graph_free(graph);
    return code;
}
