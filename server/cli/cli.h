/*
 * The command line: `shoal NAME [options]`. One row a subcommand in server/cli/cli.c, one file a subcommand,
 * named after it. Messages go to standard error, the answer to standard output; with --json the answer is one
 * JSON document, and so is a refusal. Runs on the main thread only.
 */
#ifndef SHOAL_SERVER_CLI_CLI_H
#define SHOAL_SERVER_CLI_CLI_H

#include "server/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1,      /* with a reason */
    CLI_WRONG_USAGE = 2,  /* the usage was printed */
    CLI_OUT_OF_REACH = 3, /* the server is out of reach or busy: try again */
    CLI_DEADLINE_PASSED = 4,
    CLI_THRESHOLD_MISSED = 5
};

struct cli_command {
    const char *name;
    const char *usage;   /* what follows the name, one line: "MODEL --input FILE [--boards N]" */
    const char *summary; /* one line for `shoal help` */
    int (*run)(const struct cli_command *self, int argc,
               char **argv); /* argv[0] is the name; returns an exit code */
};

enum cli_kind {
    CLI_FLAG,   /* no value; target bool * */
    CLI_TEXT,   /* target const char **, borrowed from argv */
    CLI_NUMBER, /* decimal, within [min, max]; target int64_t * */
    CLI_BYTES,  /* as CLI_NUMBER, not negative; K and M at the end are 1024 and 1024 * 1024 */
    CLI_REAL,   /* finite decimal, within [min, max] where these differ; target double * */
    CLI_CHOICE  /* one of "a|b|c" in `choices`; target int *: its index */
};

/* Targets hold the defaults and are only written when the option is there. Each option may stand once. */
struct cli_option {
    const char *name; /* without the dashes */
    enum cli_kind kind;
    void *target;
    int64_t min, max;
    const char *choices;
};

/*
 * Parses `--name VALUE`, `--name=VALUE`, `--flag` and positional arguments in any order; `--` ends the
 * options; "-" is positional. The positionals go to positional[0..], between min and max of them, and
 * *n_positional says how many (NULL is allowed). True: go on. False: the caller returns *exit_code at once
 * (--help printed the command's help, or something was wrong and was named together with the usage on
 * standard error).
 */
bool cli_options(const struct cli_command *command, int argc, char **argv, const struct cli_option *options,
                 size_t n_options, const char **positional, int min_positional, int max_positional,
                 int *n_positional, int *exit_code);

/* Usage, summary and what each option means, on standard output: `shoal help COMMAND` and --help alike. */
void cli_print_help(const struct cli_command *command);
/* Prints what the options of the command's usage mean, a line each, on standard output. */
void cli_print_meanings(const struct cli_command *command);

/* Says on standard error that the command was used wrongly, prints its usage, returns CLI_WRONG_USAGE. */
int cli_wrong_usage(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints the document and a new line on standard output and releases it. CLI_DONE, or CLI_REFUSED when it is
 * NULL or could not be written. */
int cli_print_json(json_t *document);
/* Says what went wrong and where on standard error, and with `json` also as the error document on standard
 * output. Returns the exit code for the error's status. */
int cli_fail(bool json, const struct error *error);
/* The exit code for a status: 0 done, 3 for busy and offline, 4 for a deadline, else 1. */
int cli_exit_code(int status);

/* Finds the subcommand in argv[1] and runs it. */
int cli_main(int argc, char **argv);

#endif
