/* `shoal status`: boards, deployments, and what needs a person; exit 1 when anything does. */
#include "server/cli/client.h"
#include "server/cli/commands.h"

#include <stdio.h>
#include <string.h>

struct overview {
    json_t *boards, *deployments, *attention;
};

static int load(struct client *client, struct overview *all)
{
    int code = client_json(client, "GET", "/api/v1/boards?limit=1000", NULL, 0, &all->boards);
    if (code == CLI_DONE)
        code = client_json(client, "GET", "/api/v1/deployments?limit=100", NULL, 0, &all->deployments);
    if (code == CLI_DONE)
        code = client_json(client, "GET", "/api/v1/attention", NULL, 0, &all->attention);
    return code;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static bool over(const json_t *deployment)
{
    return json_is_string(json_object_get(deployment, "ended_at"));
}

static void print(const struct overview *all)
{
    json_t *item;
    size_t i;
    json_array_foreach(json_object_get(all->boards, "items"), i, item)(void)
        printf("board       %-20s %-9s %s%s\n", text(item, "name"), text(item, "state"), text(item, "link"),
               json_is_true(json_object_get(item, "drained")) ? ", drained" : "");
    json_array_foreach(json_object_get(all->deployments, "items"), i, item) if (!over(item))(void) printf(
        "deployment  %-20s %-9s version %.12s, generation %lld\n", text(item, "model"), text(item, "state"),
        text(item, "version"), (long long)json_integer_value(json_object_get(item, "generation")));
    json_array_foreach(json_object_get(all->attention, "items"), i, item)(void)
        printf("%-11s %s %s: %s (%s)\n", text(item, "severity"), text(item, "kind"), text(item, "subject"),
               text(item, "text"), text(item, "action"));
}

static json_t *document(const struct overview *all)
{
    json_t *item, *live = json_array();
    size_t i;
    json_array_foreach(json_object_get(all->deployments, "items"), i, item) if (!over(item))
        json_array_append(live, item);
    return json_pack("{s:O, s:o, s:O}", "boards", json_object_get(all->boards, "items"), "deployments", live,
                     "attention", json_object_get(all->attention, "items"));
}

int cli_status(const struct cli_command *self, int argc, char **argv)
{
    const char *url = NULL;
    bool json = false;
    const struct cli_option options[] = {
        {.name = "url", .kind = CLI_TEXT, .target = &url},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    int code;
    if (!cli_options(self, argc, argv, options, 2, NULL, 0, 0, NULL, &code))
        return code;
    struct client client;
    struct error error;
    error_clear(&error);
    if (client_open(&client, url, json, &error) < 0)
        return cli_fail(json, &error);
    struct overview all = {0};
    code = load(&client, &all);
    if (code == CLI_DONE && json)
        code = cli_print_json(document(&all));
    else if (code == CLI_DONE)
        print(&all);
    if (code == CLI_DONE && fflush(stdout) == 0 &&
        json_array_size(json_object_get(all.attention, "items")) > 0)
        code = CLI_REFUSED;
    json_decref(all.boards);
    json_decref(all.deployments);
    json_decref(all.attention);
    return code;
}
