/* `shoal enrol`: a one-time code for new boards, shown once. */
#include "server/cli/client.h"
#include "server/cli/commands.h"

#include <stdio.h>

int cli_enrol(const struct cli_command *self, int argc, char **argv)
{
    const char *url = NULL, *prefix = NULL;
    bool json = false, accept = false;
    int64_t ttl_s = 900, uses = 1;
    const struct cli_option options[] = {
        {.name = "accept", .kind = CLI_FLAG, .target = &accept},
        {.name = "ttl-s", .kind = CLI_NUMBER, .target = &ttl_s, .min = 1, .max = 7 * 86400},
        {.name = "uses", .kind = CLI_NUMBER, .target = &uses, .min = 1, .max = 1000},
        {.name = "name-prefix", .kind = CLI_TEXT, .target = &prefix},
        {.name = "url", .kind = CLI_TEXT, .target = &url},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    int code;
    if (!cli_options(self, argc, argv, options, 6, NULL, 0, 0, NULL, &code))
        return code;
    struct client client;
    struct error error;
    error_clear(&error);
    if (client_open(&client, url, json, &error) < 0)
        return cli_fail(json, &error);
    json_t *answer, *body = json_pack("{s:b, s:I, s:I, s:s*}", "accept", accept, "ttl_s", (json_int_t)ttl_s,
                                      "uses", (json_int_t)uses, "name_prefix", prefix);
    code = client_json(&client, "POST", "/api/v1/enrolments", body, 0, &answer);
    if (code != CLI_DONE)
        return code;
    const char *warning = json_string_value(json_object_get(answer, "warning"));
    const char *command = json_string_value(json_object_get(answer, "command"));
    if (warning)
        (void)fprintf(stderr, "shoal: %s\n", warning);
    if (json)
        return cli_print_json(answer);
    (void)printf("%s\n", json_string_value(json_object_get(answer, "code")));
    (void)fprintf(stderr, "good until %s; on the board: %s\n",
                  json_string_value(json_object_get(answer, "expires_at")), command ? command : "");
    json_decref(answer);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}
