/*
 * `shoal eval`: a set of labelled images put to a model one by one. Against a server by classify; or in this
 * process, where a picture becomes an input and an output becomes scores by the very code of the server, by
 * the reference executor or over virtual boards. The first image that cannot be asked ends it: a figure over
 * half a set would be a wrong one.
 */
#include "server/cli/client.h"
#include "server/cli/commands.h"
#include "server/cli/eval_report.h"
#include "server/cli/fleet_options.h"

#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/import/import.h"
#include "server/model/reference.h"
#include "server/models/pixels.h"
#include "server/models/scores.h"
#include "server/sim/local.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TOP = 5,
    BUSY_TRIES = 20,
    BUSY_WAIT_US = 250000,
    LABELS_BYTES_MAX = 1 << 20,
    SETTINGS_BYTES_MAX = 65536
};

struct eval {
    struct fleet_options fleet;
    const char *model, *set_path, *url, *labels_path, *settings_path, *junit;
    struct eval_thresholds thresholds;
    struct eval_set set;
    json_t *labels; /* an array; empty: answers are numbers */
    int64_t n_outputs;
    struct eval_result *results;
    char version[65];
    struct error error;
    /* in this process */
    struct graph *graph;
    struct pixels_settings settings;
    struct plan *plan;
    struct emit_fragment *fragments;
    struct sim_local *sim;
    unsigned char *output;
    /* against a server */
    struct client client;
    char *name, *path; /* the model's name; the path of its classify */
};

/* ---- labels ---- */

static const char *label_of(const struct eval *eval, int64_t index)
{
    return json_string_value(json_array_get(eval->labels, (size_t)index));
}

static bool is_right(const struct eval *eval, int64_t index, const char *truth)
{
    const char *label = label_of(eval, index);
    char number[24];
    (void)snprintf(number, sizeof number, "%lld", (long long)index);
    return strcmp(label ? label : number, truth) == 0;
}

static char *said(const struct eval *eval, int64_t index)
{
    const char *label = label_of(eval, index);
    char number[24];
    (void)snprintf(number, sizeof number, "%lld", (long long)index);
    return strdup(label ? label : number);
}

/* A line each. */
static void set_labels(struct eval *eval, char *text)
{
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        size_t n = strcspn(line, "\r");
        if (n || rest)
            json_array_append_new(eval->labels, json_stringn(line, n));
    }
}

/* Every label of the set is one that the model can answer, else each of its images would be a miss. */
static int check_set(struct eval *eval)
{
    const char *known = NULL;
    for (size_t i = 0; i < eval->set.n; i++) {
        const char *label = eval->set.images[i].label;
        bool found = known && strcmp(known, label) == 0;
        for (int64_t k = 0; k < eval->n_outputs && !found; k++)
            found = is_right(eval, k, label);
        if (!found)
            return error_set(&eval->error, STATUS_INVALID_ARGUMENT,
                             "%.200s: the model has no label '%.80s'%s", eval->set.images[i].path, label,
                             json_array_size(eval->labels) ? "" : "; without labels it answers numbers");
        known = label;
    }
    return 0;
}

/* ---- in this process ---- */

static int read_labels(struct eval *eval)
{
    uint8_t *bytes;
    size_t size;
    char *beside = NULL;
    const char *path = eval->labels_path;
    if (!path) {
        const char *dot = strrchr(eval->model, '.');
        if (!dot || asprintf(&beside, "%.*s.labels", (int)(dot - eval->model), eval->model) < 0)
            return 0;
        path = access(beside, R_OK) == 0 ? beside : NULL;
    }
    int status = path ? file_read(path, LABELS_BYTES_MAX, &bytes, &size, &eval->error) : 0;
    if (path && status == 0) {
        set_labels(eval, (char *)bytes);
        free(bytes);
    }
    free(beside);
    return status;
}

static int read_settings(struct eval *eval)
{
    uint8_t *bytes;
    size_t size;
    json_t *image = pixels_describe(eval->graph), *settings = NULL;
    int status = 0;
    if (eval->settings_path) {
        json_error_t where;
        status = file_read(eval->settings_path, SETTINGS_BYTES_MAX, &bytes, &size, &eval->error);
        settings = status == 0 ? json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &where) : NULL;
        if (status == 0)
            free(bytes);
        if (status == 0 && !settings)
            status = error_set(&eval->error, STATUS_BAD_JSON, "%s, line %d: %s", eval->settings_path,
                               where.line, where.text);
    } else {
        settings = json_object();
    }
    if (status == 0)
        status = pixels_settings(image, settings, &eval->settings, &eval->error);
    json_decref(image);
    json_decref(settings);
    return status;
}

static int open_boards(struct eval *eval)
{
    struct plan_options options = fleet_options_plan(&eval->fleet);
    struct plan_board *boards;
    int32_t n;
    if (fleet_options_boards(&eval->fleet, &boards, &n, &eval->error) < 0)
        return eval->error.status;
    eval->plan = plan_make(eval->graph, eval->version, boards, n, &options, NULL, NULL, &eval->error);
    free(boards);
    if (!eval->plan || emit_plan(eval->plan, &eval->fragments, &eval->error) < 0)
        return eval->error.status;
    eval->sim = sim_local_open(eval->plan, eval->fragments, &eval->error);
    return eval->sim ? 0 : (int)eval->error.status;
}

static int open_local(struct eval *eval)
{
    eval->n_outputs = scores_count(eval->graph);
    eval->output = malloc(graph_output_bytes(eval->graph) + 1);
    int status = eval->output ? 0 : error_set(&eval->error, STATUS_NO_MEMORY, "no memory for the output");
    if (status == 0)
        status = read_labels(eval);
    if (status == 0)
        status = read_settings(eval);
    return status == 0 && eval->fleet.boards ? open_boards(eval) : status;
}

static int execute(struct eval *eval, const void *input, double *latency_ms)
{
    size_t in = graph_input_bytes(eval->graph), out = graph_output_bytes(eval->graph);
    if (!eval->sim) {
        uint64_t begun = clock_monotonic_us();
        int status = reference_run(eval->graph, input, in, eval->output, out, &eval->error);
        *latency_ms = (double)(clock_monotonic_us() - begun) / 1e3;
        return status;
    }
    struct sim_local_result *result = calloc(1, sizeof *result);
    if (!result)
        return error_set(&eval->error, STATUS_NO_MEMORY, "no memory for the run");
    int status = sim_local_infer(eval->sim, input, in, eval->output, out, result, &eval->error);
    *latency_ms = result->latency_ms;
    free(result);
    return status;
}

static int take_scores(struct eval *eval, struct eval_result *result)
{
    struct score *scores = scores_make(eval->graph, eval->output);
    if (!scores)
        return error_set(&eval->error, STATUS_NO_MEMORY, "no memory for the scores");
    for (int i = 0; i < TOP && i < eval->n_outputs && !result->rank; i++)
        if (is_right(eval, scores[i].index, result->image->label))
            result->rank = i + 1;
    result->said = said(eval, scores[0].index);
    result->score = (double)scores[0].value;
    free(scores);
    return 0;
}

static int ask_local(struct eval *eval, const uint8_t *bytes, size_t size, struct eval_result *result)
{
    struct import_pixels picture = {0};
    unsigned char *input = NULL;
    int status = import_image(bytes, size, &picture, &eval->error);
    if (status >= 0)
        status = pixels_input(eval->graph, &eval->settings, &picture, &input, &eval->error);
    import_pixels_free(&picture);
    if (status >= 0)
        status = execute(eval, input, &result->latency_ms);
    free(input);
    return status < 0 ? status : take_scores(eval, result);
}

/* ---- against a server; these return exit codes ---- */

/* Names model and version, and learns labels and how many outputs there are. */
static int open_server(struct eval *eval)
{
    const char *at = strchr(eval->model, '@');
    eval->name = strndup(eval->model, at ? (size_t)(at - eval->model) : strlen(eval->model));
    char *model = client_encode(eval->name), *version = client_encode(at ? at + 1 : "active"), path[768];
    (void)snprintf(path, sizeof path, "/api/v1/models/%s/versions/%s", model ? model : "",
                   version ? version : "");
    json_t *json = NULL;
    int code = client_json(&eval->client, "GET", path, NULL, 0, &json);
    if (code == CLI_DONE) {
        json_t *outputs = json_object_get(json_object_get(json, "summary"), "outputs"), *side;
        (void)snprintf(eval->version, sizeof eval->version, "%s",
                       json_string_value(json_object_get(json, "version")));
        size_t i;
        eval->n_outputs = 1;
        json_array_foreach(json_object_get(json_array_get(outputs, 0), "shape"), i, side) eval->n_outputs *=
            json_integer_value(side);
        if (asprintf(&eval->path, "/api/v1/models/%s/classify?top=%d&version=%s", model, TOP, eval->version) <
            0)
            eval->path = NULL;
    }
    json_decref(json);
    free(model);
    free(version);
    struct client_request request = {.method = "GET", .path = strcat(path, "/labels")};
    struct client_answer answer;
    if (code != CLI_DONE)
        return code;
    if (client_ask(&eval->client, &request, &answer, &eval->error) < 0)
        return cli_fail(eval->fleet.json, &eval->error);
    if (answer.status == 200)
        set_labels(eval, (char *)answer.body);
    free(answer.body);
    return CLI_DONE;
}

static const char *content_type(const uint8_t *bytes, size_t size)
{
    return size > 2 && bytes[0] == 0xff && bytes[1] == 0xd8 ? "image/jpeg" : "image/png";
}

/* Asks; a busy server is asked again for a while. */
static int classify(struct eval *eval, const uint8_t *bytes, size_t size, json_t **json)
{
    struct client_request request = {.method = "POST",
                                     .path = eval->path,
                                     .content_type = content_type(bytes, size),
                                     .body = bytes,
                                     .body_bytes = size};
    struct client_answer answer;
    for (int tries = 1;; tries++) {
        if (client_ask(&eval->client, &request, &answer, &eval->error) < 0)
            return cli_fail(eval->fleet.json, &eval->error);
        if (answer.status != 503 || tries == BUSY_TRIES)
            return client_take(&eval->client, &answer, json);
        free(answer.body);
        (void)usleep(BUSY_WAIT_US);
    }
}

static int ask_server(struct eval *eval, const uint8_t *bytes, size_t size, struct eval_result *result)
{
    json_t *json = NULL, *item;
    int code = classify(eval, bytes, size, &json);
    if (code != CLI_DONE) {
        (void)fprintf(stderr, "shoal: that was the answer to %s\n", result->image->path);
        return code;
    }
    json_t *list = json_object_get(json, "labels"), *first = json_array_get(list, 0);
    size_t i;
    json_array_foreach(list, i, item)
    {
        int64_t index = json_integer_value(json_object_get(item, "index"));
        if (!result->rank && is_right(eval, index, result->image->label))
            result->rank = (int)i + 1;
    }
    result->said = said(eval, json_integer_value(json_object_get(first, "index")));
    result->score = json_number_value(json_object_get(first, "score"));
    result->latency_ms = json_number_value(json_object_get(json, "latency_ms"));
    json_decref(json);
    return CLI_DONE;
}

/* ---- the run ---- */

static int ask(struct eval *eval, struct eval_result *result)
{
    uint8_t *bytes;
    size_t size;
    if (file_read(result->image->path, IMPORT_IMAGE_BYTES_MAX, &bytes, &size, &eval->error) < 0)
        return cli_fail(eval->fleet.json, &eval->error);
    int code;
    if (eval->graph) {
        code = CLI_DONE;
        if (ask_local(eval, bytes, size, result) < 0) {
            struct error named = eval->error;
            (void)snprintf(named.message, sizeof named.message, "%.200s: %.300s", result->image->path,
                           eval->error.message);
            code = cli_fail(eval->fleet.json, &named);
        }
    } else {
        code = ask_server(eval, bytes, size, result);
    }
    free(bytes);
    if (code == CLI_DONE && !result->said) {
        error_set(&eval->error, STATUS_NO_MEMORY, "out of memory");
        return cli_fail(eval->fleet.json, &eval->error);
    }
    return code;
}

static int tell(struct eval *eval)
{
    struct eval_report report = {.model = eval->name ? eval->name : eval->model,
                                 .version = eval->version,
                                 .set = eval->set_path,
                                 .executor = !eval->graph ? "server"
                                             : eval->sim  ? "boards"
                                                          : "reference",
                                 .results = eval->results,
                                 .n = eval->set.n,
                                 .thresholds = eval->thresholds};
    int status = eval_count(eval->results, eval->set.n, &report.figures);
    if (status == 0 && eval->junit) {
        char *text = eval_report_junit(&report);
        status = text ? file_write(eval->junit, text, strlen(text), 0644, &eval->error) : STATUS_NO_MEMORY;
        free(text);
    }
    if (status < 0) {
        error_set(&eval->error, (enum status)status, "%s", status_text((enum status)status));
        return cli_fail(eval->fleet.json, &eval->error);
    }
    int code = CLI_DONE;
    if (eval->fleet.json)
        code = cli_print_json(eval_report_json(&report));
    else
        eval_report_print(&report);
    return code == CLI_DONE && !eval_met(&report) ? CLI_THRESHOLD_MISSED : code;
}

static int evaluate(struct eval *eval)
{
    if (eval_set_read(eval->set_path, &eval->set, &eval->error) < 0)
        return cli_fail(eval->fleet.json, &eval->error);
    int code = CLI_DONE;
    if (!eval->graph)
        code = open_server(eval);
    else if (open_local(eval) < 0)
        code = cli_fail(eval->fleet.json, &eval->error);
    if (code == CLI_DONE && check_set(eval) < 0)
        code = cli_fail(eval->fleet.json, &eval->error);
    eval->results = code == CLI_DONE ? calloc(eval->set.n, sizeof *eval->results) : NULL;
    if (code == CLI_DONE && !eval->results) {
        error_set(&eval->error, STATUS_NO_MEMORY, "no memory for the results");
        code = cli_fail(eval->fleet.json, &eval->error);
    }
    for (size_t i = 0; i < eval->set.n && code == CLI_DONE; i++) {
        eval->results[i].image = &eval->set.images[i];
        code = ask(eval, &eval->results[i]);
    }
    return code == CLI_DONE ? tell(eval) : code;
}

static void clean_up(struct eval *eval)
{
    for (size_t i = 0; eval->results && i < eval->set.n; i++)
        free(eval->results[i].said);
    free(eval->results);
    eval_set_free(&eval->set);
    json_decref(eval->labels);
    sim_local_close(eval->sim);
    if (eval->fragments)
        emit_free(eval->fragments, eval->plan->n_boards);
    plan_free(eval->plan);
    graph_free(eval->graph);
    free(eval->output);
    free(eval->name);
    free(eval->path);
}

static int check_usage(const struct cli_command *self, const struct eval *eval, bool local)
{
    if (!eval->set_path)
        return cli_wrong_usage(self, "--set is needed");
    if (!local && eval->fleet.boards)
        return cli_wrong_usage(self, "--boards goes with a model file; '%s' is asked of a server",
                               eval->model);
    if (!local && (eval->labels_path || eval->settings_path))
        return cli_wrong_usage(self, "--labels and --settings go with a model file; the server has its own");
    if (eval->thresholds.min_top1 < 0 || eval->thresholds.min_top1 > 1)
        return cli_wrong_usage(self, "--min-top1 is a part of 1, as in 0.98");
    return CLI_DONE;
}

int cli_eval(const struct cli_command *self, int argc, char **argv)
{
    struct eval eval = {.thresholds = {NAN, NAN}};
    struct cli_option options[FLEET_OPTIONS + 7] = {0};
    const struct cli_option own[] = {
        {.name = "set", .kind = CLI_TEXT, .target = &eval.set_path},
        {.name = "url", .kind = CLI_TEXT, .target = &eval.url},
        {.name = "labels", .kind = CLI_TEXT, .target = &eval.labels_path},
        {.name = "settings", .kind = CLI_TEXT, .target = &eval.settings_path},
        {.name = "min-top1", .kind = CLI_REAL, .target = &eval.thresholds.min_top1},
        {.name = "max-p95-ms", .kind = CLI_REAL, .target = &eval.thresholds.max_p95_ms},
        {.name = "junit", .kind = CLI_TEXT, .target = &eval.junit},
    };
    int code;
    fleet_options_rows(&eval.fleet, options);
    memcpy(options + FLEET_OPTIONS, own, sizeof own);
    if (!cli_options(self, argc, argv, options, FLEET_OPTIONS + 7, &eval.model, 1, 1, NULL, &code))
        return code;
    bool local = !eval.url && access(eval.model, F_OK) == 0;
    code = check_usage(self, &eval, local);
    if (code != CLI_DONE)
        return code;
    error_clear(&eval.error);
    if (local)
        code = fleet_options_model(eval.model, eval.fleet.json, &eval.graph, eval.version);
    else if (client_open(&eval.client, eval.url, eval.fleet.json, &eval.error) < 0)
        code = cli_fail(eval.fleet.json, &eval.error);
    eval.labels = json_array();
    if (code == CLI_DONE)
        code = evaluate(&eval);
    clean_up(&eval);
    return code;
}
