/* `shoal deploy NAME[@VERSION]`: places a version on boards; with --wait until it is active. */
#include "server/base/clock.h"
#include "server/cli/client.h"
#include "server/cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MAX_S = 300, CREATE_MS = 60000 };

struct request {
    const char *model, *boards, *tags;
    int strategy, shares, objective;
    bool replace, no_promote;
    int64_t wait_s;
};

static const char strategies[] = "auto|neuron|channels|strips|single", shares[] = "rating|even|frequency",
                  objectives[] = "latency|throughput";

/* The n-th of "a|b|c". */
static json_t *choice(const char *list, int n)
{
    while (n-- > 0)
        list += strcspn(list, "|") + 1;
    return json_stringn(list, strcspn(list, "|"));
}

/* "a,b" as a list; NULL stays NULL. */
static json_t *split(const char *text)
{
    json_t *list = text ? json_array() : NULL;
    while (text && *text) {
        size_t n = strcspn(text, ",");
        if (n)
            json_array_append_new(list, json_stringn(text, n));
        text += n + (text[n] == ',');
    }
    return list;
}

static json_t *request_json(const struct request *request)
{
    const char *at = strchr(request->model, '@');
    json_t *json = json_object(), *boards = split(request->boards), *tags = split(request->tags);
    json_object_set_new(
        json, "model",
        json_stringn(request->model, at ? (size_t)(at - request->model) : strlen(request->model)));
    if (at)
        json_object_set_new(json, "version", json_string(at + 1));
    if (boards)
        json_object_set_new(json, "boards", boards);
    if (tags)
        json_object_set_new(json, "tags", tags);
    json_object_set_new(json, "strategy", choice(strategies, request->strategy));
    json_object_set_new(json, "shares", choice(shares, request->shares));
    json_object_set_new(json, "objective", choice(objectives, request->objective));
    if (request->replace)
        json_object_set_new(json, "replace", json_true());
    if (request->no_promote)
        json_object_set_new(json, "promote", json_false());
    return json;
}

/* Asks again while the server's own limit is shorter than ours. Takes over *json. */
static int wait_active(struct client *client, int64_t wait_s, json_t **json)
{
    char id[40];
    (void)snprintf(id, sizeof id, "%s", json_string_value(json_object_get(*json, "id")));
    uint64_t end_us = clock_monotonic_us() + (uint64_t)wait_s * 1000000;
    json_decref(*json);
    *json = NULL;
    for (;;) {
        uint64_t now = clock_monotonic_us();
        int64_t left = now < end_us ? (int64_t)((end_us - now + 999999) / 1000000) : 0;
        int64_t step = left > WAIT_MAX_S ? WAIT_MAX_S : left;
        char path[128];
        (void)snprintf(path, sizeof path, "/api/v1/deployments/%s?wait=%lld", id, (long long)step);
        struct client_request ask = {.method = "GET", .path = path, .timeout_ms = (step + 30) * 1000};
        struct client_answer answer;
        struct error error;
        error_clear(&error);
        if (client_ask(client, &ask, &answer, &error) < 0)
            return cli_fail(client->json, &error);
        if (answer.status != 504 || step == left)
            return client_take(client, &answer, json);
        free(answer.body);
    }
}

static int print(json_t *json)
{
    json_t *board;
    size_t i, used = 0;
    (void)printf("deployment %s of %s, version %.12s, is %s, generation %lld",
                 json_string_value(json_object_get(json, "id")),
                 json_string_value(json_object_get(json, "model")),
                 json_string_value(json_object_get(json, "version")),
                 json_string_value(json_object_get(json, "state")),
                 (long long)json_integer_value(json_object_get(json, "generation")));
    json_array_foreach(json_object_get(json, "boards"), i, board)
    {
        const char *state = json_string_value(json_object_get(board, "state"));
        if (state && strcmp(state, "unused") != 0)
            (void)printf("%s%s", used++ ? ", " : ", on ", json_string_value(json_object_get(board, "name")));
    }
    (void)putchar('\n');
    json_decref(json);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

int cli_deploy(const struct cli_command *self, int argc, char **argv)
{
    struct request request = {0};
    const char *url = NULL;
    bool json = false;
    const struct cli_option options[] = {
        {.name = "boards", .kind = CLI_TEXT, .target = &request.boards},
        {.name = "strategy", .kind = CLI_CHOICE, .target = &request.strategy, .choices = strategies},
        {.name = "shares", .kind = CLI_CHOICE, .target = &request.shares, .choices = shares},
        {.name = "objective", .kind = CLI_CHOICE, .target = &request.objective, .choices = objectives},
        {.name = "tags", .kind = CLI_TEXT, .target = &request.tags},
        {.name = "replace", .kind = CLI_FLAG, .target = &request.replace},
        {.name = "no-promote", .kind = CLI_FLAG, .target = &request.no_promote},
        {.name = "wait", .kind = CLI_NUMBER, .target = &request.wait_s, .min = 1, .max = 86400},
        {.name = "url", .kind = CLI_TEXT, .target = &url},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    int code;
    if (!cli_options(self, argc, argv, options, 10, &request.model, 1, 1, NULL, &code))
        return code;
    struct client client;
    struct error error;
    error_clear(&error);
    if (client_open(&client, url, json, &error) < 0)
        return cli_fail(json, &error);
    json_t *answer;
    code = client_json(&client, "POST", "/api/v1/deployments", request_json(&request), CREATE_MS, &answer);
    if (code == CLI_DONE && request.wait_s)
        code = wait_active(&client, request.wait_s, &answer);
    if (code != CLI_DONE)
        return code;
    return json ? cli_print_json(answer) : print(answer);
}
