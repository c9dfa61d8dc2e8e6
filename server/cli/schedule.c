/* `shoal schedule MODEL|GRAPH.json`: one board's steps, peak and bottleneck under partial execution. A file
 * whose first character is '{' is a network without weights. */
#include "server/base/file.h"
#include "server/cli/commands.h"
#include "server/cli/fleet_options.h"
#include "server/cli/schedule_table.h"
#include "server/emit/emit.h"
#include "server/import/import.h"
#include "server/schedule/json.h"
#include "server/schedule/read.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROFILE_BYTES_MAX = 64 * 1024 };

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

/* What would need less, found out: the same with one option more. */
static void print_helps(const struct graph *graph, const struct schedule_options *options)
{
    struct schedule_options more[2] = {*options, *options};
    const char *const names[2] = {"--extra-macs 50", "--image streamed"};
    bool tried[2] = {options->extra_macs < 50 && options->axes == SCHEDULE_AXES_ALL, !options->streamed};
    more[0].extra_macs = 50;
    more[1].streamed = true;
    for (int i = 0; i < 2; i++) {
        more[i].ram = 0;
        struct schedule *schedule = tried[i] ? schedule_make(graph, &more[i], NULL) : NULL;
        if (schedule && schedule->peak_bytes <= options->ram)
            (void)fprintf(stderr, "  with %s it fits: %lld bytes\n", names[i],
                          (long long)schedule->peak_bytes);
        else if (schedule)
            (void)fprintf(stderr, "  with %s it does not fit either: %lld bytes\n", names[i],
                          (long long)schedule->peak_bytes);
        schedule_free(schedule);
    }
}

static int show(const struct graph *graph, const struct schedule_options *options, bool weights, bool json)
{
    struct error error;
    error_clear(&error);
    json_t *schedule = schedule_describe(graph, options, weights ? emit_schedule : NULL, &error);
    if (!schedule) {
        int code = cli_fail(json, &error);
        if (error.status == STATUS_DOES_NOT_FIT && !json)
            print_helps(graph, options);
        return code;
    }
    if (json)
        return cli_print_json(schedule);
    schedule_table_print(schedule);
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
    bool named = !json && access(text, F_OK) < 0;
    if (named)
        error_set(error, STATUS_INVALID_ARGUMENT,
                  "--profile '%s' is neither teensy41-good, teensy41-cautious, nor a file", text);
    if (!json && !named && file_read(text, PROFILE_BYTES_MAX, &bytes, &size, error) == 0) {
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
        {.name = "extra-macs", .kind = CLI_REAL, .target = &chosen.extra_macs, .min = 0, .max = 1000},
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
