/* `shoal upload`: sends a model file; with --wait until its schedule is there. */
#include "server/base/file.h"
#include "server/cli/client.h"
#include "server/cli/commands.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64, UPLOAD_MS = 120000, WAIT_S = 300 };

/* "dir/My Model.tflite" -> "my-model": what a model may be called. */
static void name_from_path(const char *path, char out[NAME_BYTES])
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base), used = 0;
    for (size_t i = 0; i < n && used + 1 < NAME_BYTES; i++) {
        unsigned char c = (unsigned char)tolower((unsigned char)base[i]);
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (plain || (used && (c == '.' || c == '_' || c == '-')))
            out[used++] = (char)c;
        else if (used && out[used - 1] != '-')
            out[used++] = '-';
    }
    out[used] = 0;
}

static int send_file(struct client *client, const char *path, const char *name, json_t **json)
{
    struct error error;
    error_clear(&error);
    uint8_t *bytes;
    size_t size;
    if (file_read(path, CLIENT_UPLOAD_MAX, &bytes, &size, &error) < 0)
        return cli_fail(client->json, &error);
    char *encoded = client_encode(name), url[512];
    (void)snprintf(url, sizeof url, "/api/v1/models/%s", encoded ? encoded : "");
    free(encoded);
    struct client_request request = {.method = "PUT",
                                     .path = url,
                                     .content_type = "application/octet-stream",
                                     .body = bytes,
                                     .body_bytes = size,
                                     .timeout_ms = UPLOAD_MS};
    struct client_answer answer;
    int status = client_ask(client, &request, &answer, &error);
    free(bytes);
    if (status < 0)
        return cli_fail(client->json, &error);
    bool known = answer.status == 200;
    int code = client_take(client, &answer, json);
    json_object_set_new(*json, "known", json_boolean(known));
    return code;
}

static int wait_for_job(struct client *client, const char *job)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/api/v1/jobs/%.40s?wait=%d", job, WAIT_S);
    json_t *done;
    int code = client_json(client, "GET", path, NULL, (WAIT_S + 30) * 1000, &done);
    json_decref(done);
    return code;
}

int cli_upload(const struct cli_command *self, int argc, char **argv)
{
    const char *path, *url = NULL, *name = NULL;
    bool json = false, wait = false;
    const struct cli_option options[] = {
        {.name = "name", .kind = CLI_TEXT, .target = &name},
        {.name = "wait", .kind = CLI_FLAG, .target = &wait},
        {.name = "url", .kind = CLI_TEXT, .target = &url},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    int code;
    if (!cli_options(self, argc, argv, options, 4, &path, 1, 1, NULL, &code))
        return code;
    struct client client;
    struct error error;
    error_clear(&error);
    if (client_open(&client, url, json, &error) < 0)
        return cli_fail(json, &error);
    char guessed[NAME_BYTES];
    name_from_path(path, guessed);
    json_t *answer = NULL;
    code = send_file(&client, path, name ? name : guessed, &answer);
    const char *job = json_string_value(json_object_get(answer, "job"));
    if (code == CLI_DONE && wait && job)
        code = wait_for_job(&client, job);
    if (code != CLI_DONE) {
        json_decref(answer);
        return code;
    }
    if (json)
        return cli_print_json(answer);
    (void)printf("model %s, version %.12s%s\n", name ? name : guessed,
                 json_string_value(json_object_get(answer, "version")),
                 json_is_true(json_object_get(answer, "known")) ? " (known)" : "");
    json_decref(answer);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}
