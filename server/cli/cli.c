/*
 * The table of subcommands, dispatch, and what all of them share: help, usage errors, JSON answers, exit
 * codes. The table comes from the X-macro in commands.h.
 */
#include "server/cli/cli.h"

#include "server/base/error_json.h"
#include "server/base/json_text.h"
#include "server/base/id.h"
#include "server/cli/commands.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct cli_command commands[] = {
#define CLI_ROW(function, name, usage, summary) {name, usage, summary, function},
    CLI_COMMANDS(CLI_ROW)};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_usage(FILE *to, const struct cli_command *command)
{
    (void)fprintf(to, "usage: shoal %s %s\n", command->name, command->usage);
}

static void print_overview(FILE *to)
{
    (void)fputs("usage: shoal COMMAND [OPTION ...]\n\n", to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        (void)fprintf(to, "  %-9s  %s\n", commands[i].name, commands[i].summary);
    (void)fputs(
        "\n`shoal help COMMAND` shows a command's options. --json answers with one JSON document.\n"
        "Exit: 0 done, 1 refused with a reason, 2 wrong usage, 3 server out of reach or busy (try again),\n"
        "4 deadline passed, 5 threshold missed.\n",
        to);
}

void cli_print_help(const struct cli_command *command)
{
    print_usage(stdout, command);
    (void)printf("%s\n", command->summary);
    cli_print_meanings(command);
}

static int help(int argc, char **argv)
{
    if (argc > 2) {
        const struct cli_command *command = find(argv[2]);
        if (!command) {
            (void)fprintf(stderr, "shoal: there is no command '%s'\n", argv[2]);
            return CLI_WRONG_USAGE;
        }
        cli_print_help(command);
        return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
    }
    print_overview(stdout);
    return fflush(stdout) ? CLI_REFUSED : CLI_DONE;
}

static void seed_json(void)
{
    uint32_t seed;
    id_random_bytes(&seed, sizeof seed);
    json_object_seed(seed);
}

int cli_main(int argc, char **argv)
{
    seed_json();
    if (argc < 2) {
        print_overview(stderr);
        return CLI_WRONG_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(argc, argv);
    const struct cli_command *command = find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (!command) {
        (void)fprintf(stderr, "shoal: there is no command '%s'; `shoal help` lists them\n", argv[1]);
        return CLI_WRONG_USAGE;
    }
    return command->run(command, argc - 1, argv + 1);
}

int cli_wrong_usage(const struct cli_command *command, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)fprintf(stderr, "shoal %s: ", command->name);
    (void)vfprintf(stderr, format, list);
    (void)fputc('\n', stderr);
    va_end(list);
    print_usage(stderr, command);
    return CLI_WRONG_USAGE;
}

int cli_print_json(json_t *document)
{
    char *text = json_text(document);
    int bad = !text || puts(text) == EOF || fflush(stdout);
    json_decref(document);
    free(text);
    if (bad)
        (void)fputs("shoal: the answer could not be written\n", stderr);
    return bad ? CLI_REFUSED : CLI_DONE;
}

int cli_exit_code(int status)
{
    if (status >= 0)
        return CLI_DONE;
    if (status == STATUS_BUSY || status == STATUS_OFFLINE)
        return CLI_OUT_OF_REACH;
    return status == STATUS_DEADLINE ? CLI_DEADLINE_PASSED : CLI_REFUSED;
}

static bool in_a_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether the message names it: in quotes, or before a colon. A layer may be called `a`. */
static bool tells(const char *message, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(message, name); at && length > 0; at = strstr(at + 1, name)) {
        char before = at == message ? ' ' : at[-1], after = at[length];
        if (!in_a_word(before) && (after == ':' || (before == '\'' && after == '\'')))
            return true;
    }
    return false;
}

int cli_fail(bool json, const struct error *error)
{
    (void)fprintf(stderr, "shoal: %s", error->message[0] ? error->message : status_text(error->status));
    /* Only what the message does not tell. */
    if (error->layer[0] && !tells(error->message, error->layer))
        (void)fprintf(stderr, "; layer %s", error->layer);
    if (error->op[0] && !tells(error->message, error->op))
        (void)fprintf(stderr, "; operator %s", error->op);
    if (error->offset >= 0)
        (void)fprintf(stderr, "; at byte %lld", (long long)error->offset);
    if (error->limit >= 0 && error->actual >= 0)
        (void)fprintf(stderr, "; limit %lld, actual %lld", (long long)error->limit, (long long)error->actual);
    const struct error_shortfall *s = &error->shortfall;
    if (s->resource && !strstr(error->message, s->resource))
        (void)fprintf(stderr, "; %s%s%s%s: needs %lld bytes, has %lld", s->board[0] ? "board " : "", s->board,
                      s->board[0] ? ", " : "", s->resource, (long long)s->need_bytes,
                      (long long)s->have_bytes);
    (void)fputc('\n', stderr);
    if (json)
        (void)cli_print_json(error_json(error));
    return cli_exit_code(error->status < 0 ? error->status : STATUS_INTERNAL);
}
