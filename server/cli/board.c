/* `shoal board`: the fleet's inventory and acts on one board, by id or name. provision is in a file of its
 * own. */
#include "server/cli/client.h"
#include "server/cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLACE_MS = 600000 }; /* the new board is given its fragments meanwhile */

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void print_board(const json_t *board)
{
    double rating = json_number_value(json_object_get(json_object_get(board, "rating"), "rating_kb_per_s"));
    char rated[32] = "not measured";
    if (rating > 0)
        (void)snprintf(rated, sizeof rated, "%7.0f KB/s", rating);
    (void)printf("%-20s %s  %-9s %-8s %s%s%s\n", text(board, "name"), text(board, "id"), text(board, "state"),
                 text(board, "link"), rated,
                 json_is_true(json_object_get(board, "drained")) ? "  drained" : "",
                 json_is_true(json_object_get(board, "safe_to_unplug")) ? ", safe to unplug" : "");
}

static int list(struct client *client)
{
    json_t *answer, *board;
    size_t i;
    int code = client_json(client, "GET", "/api/v1/boards?limit=1000", NULL, 0, &answer);
    if (code != CLI_DONE)
        return code;
    if (client->json)
        return cli_print_json(answer);
    json_array_foreach(json_object_get(answer, "items"), i, board) print_board(board);
    json_decref(answer);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

/* show, forget, rename (`word`: the name), replace (`word`: by which board), or an act of the API. */
static int one(struct client *client, const char *act, const char *board, const char *word)
{
    bool rename = strcmp(act, "rename") == 0;
    char *encoded = client_encode(board), path[1024];
    json_t *answer, *body = NULL;
    const char *method = "POST", *slash = "/", *tail = act;
    if (strcmp(act, "show") == 0 || strcmp(act, "forget") == 0 || rename) {
        method = rename ? "PATCH" : strcmp(act, "show") == 0 ? "GET" : "DELETE";
        slash = tail = "";
    }
    if (word)
        body = json_pack("{s:s}", rename ? "name" : "by", word);
    (void)snprintf(path, sizeof path, "/api/v1/boards/%.700s%s%s", encoded ? encoded : "", slash, tail);
    free(encoded);
    int64_t timeout_ms = strcmp(act, "replace") == 0 ? REPLACE_MS : 0;
    int code = client_json(client, method, path, body, timeout_ms, &answer);
    if (code != CLI_DONE)
        return code;
    if (client->json)
        return cli_print_json(answer);
    if (json_object_get(answer, "name"))
        print_board(answer);
    else
        (void)printf("removed %s\n", text(answer, "removed"));
    json_decref(answer);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

int cli_board(const struct cli_command *self, int argc, char **argv)
{
    static const char *const acts[] = {"show",     "accept", "revoke", "probe",  "drain",  "undrain",
                                       "identify", "reboot", "forget", "rename", "replace"};
    const char *words[3] = {"list"}, *url = NULL;
    bool json = false;
    const struct cli_option options[] = {
        {.name = "url", .kind = CLI_TEXT, .target = &url},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    int code, n;
    if (argc > 1 && strcmp(argv[1], "provision") == 0)
        return cli_board_provision(self, argc, argv);
    if (!cli_options(self, argc, argv, options, 2, words, 0, 3, &n, &code))
        return code;
    struct client client;
    struct error error;
    error_clear(&error);
    if (client_open(&client, url, json, &error) < 0)
        return cli_fail(json, &error);
    if (strcmp(words[0], "list") == 0)
        return n > 1 ? cli_wrong_usage(self, "list takes no board") : list(&client);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        bool rename = strcmp(acts[i], "rename") == 0, replace = strcmp(acts[i], "replace") == 0;
        if (strcmp(words[0], acts[i]) == 0)
            return n == (rename || replace ? 3 : 2)
                       ? one(&client, acts[i], words[1], rename || replace ? words[2] : NULL)
                       : cli_wrong_usage(self, "%s takes a board%s", acts[i],
                                         rename    ? " and a name"
                                         : replace ? " and the board that takes its place"
                                                   : "");
    }
    return cli_wrong_usage(self, "there is no '%s'", words[0]);
}
