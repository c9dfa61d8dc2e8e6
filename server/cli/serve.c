/*
 * `shoal serve`: the server in the foreground until SIGINT or SIGTERM. A configuration file is a JSON object
 * whose keys are the options' names; options on the command line win.
 */
#include "server/api/app.h"
#include "server/base/file.h"
#include "server/base/log.h"
#include "server/cli/commands.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct serve {
    const char *data, *listen, *board_listen;
    json_t *file; /* owns what came from the file */
};

static const char *const keys[] = {"data", "listen", "board-listen"};

static int read_config(const char *path, struct serve *serve, struct error *error)
{
    uint8_t *text;
    size_t size;
    int status = file_read(path, 65536, &text, &size, error);
    if (status < 0)
        return status;
    json_error_t where;
    serve->file = json_loadb((const char *)text, size, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!json_is_object(serve->file))
        return error_set(error, STATUS_BAD_JSON, "%s: line %d: %s", path, where.line,
                         serve->file ? "a JSON object is expected" : where.text);
    const char **targets[] = {&serve->data, &serve->listen, &serve->board_listen};
    const char *key;
    json_t *value;
    json_object_foreach(serve->file, key, value)
    {
        size_t i = 0;
        while (i < 3 && strcmp(keys[i], key) != 0)
            i++;
        if (i == 3 || !json_is_string(value))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s: '%.64s' %s; the file takes data, listen, board-listen", path, key,
                             i == 3 ? "is not known" : "is a text");
        if (!*targets[i])
            *targets[i] = json_string_value(value);
    }
    return 0;
}

/* The signals are blocked before there are threads, so that only this one takes them. */
static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int say_address(const struct app *app, bool json)
{
    if (json)
        return cli_print_json(
            json_pack("{s:s, s:s}", "url", app->url, "board_address", fleet_address(app->fleet)));
    (void)printf("Shoal is at %s/  (boards connect to %s)\n", app->url, fleet_address(app->fleet));
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

static int serve_until_signal(const struct serve *serve, bool json, struct error *error)
{
    sigset_t signals;
    block_signals(&signals);
    struct app_config config = {serve->data, serve->listen ? serve->listen : "127.0.0.1:8080",
                                serve->board_listen ? serve->board_listen : "127.0.0.1:8443"};
    struct app *app;
    if (app_start(&app, &config, error) < 0)
        return cli_fail(json, error);
    LOG_INFO("serve", "listening at %s, for boards at %s, data in %s", app->url, fleet_address(app->fleet),
             config.data);
    int code = say_address(app, json), signal_number = 0;
    if (code == CLI_DONE)
        (void)sigwait(&signals, &signal_number);
    LOG_INFO("serve", "stopping");
    app_stop(app);
    LOG_INFO("serve", "stopped");
    return code;
}

int cli_serve(const struct cli_command *self, int argc, char **argv)
{
    struct serve serve = {0};
    const char *config = NULL;
    bool json = false;
    const struct cli_option options[] = {
        {.name = "data", .kind = CLI_TEXT, .target = &serve.data},
        {.name = "listen", .kind = CLI_TEXT, .target = &serve.listen},
        {.name = "board-listen", .kind = CLI_TEXT, .target = &serve.board_listen},
        {.name = "config", .kind = CLI_TEXT, .target = &config},
        {.name = "json", .kind = CLI_FLAG, .target = &json},
    };
    int code;
    if (!cli_options(self, argc, argv, options, 5, NULL, 0, 0, NULL, &code))
        return code;
    struct error error;
    error_clear(&error);
    if (config && read_config(config, &serve, &error) < 0)
        code = cli_fail(json, &error);
    else if (!serve.data)
        code = cli_wrong_usage(self, "--data is missing");
    else
        code = serve_until_signal(&serve, json, &error);
    json_decref(serve.file);
    return code;
}
