/*
 * The strict option parser. Unknown, repeated and half options are refused with the usage; numbers are read
 * whole or not at all. Nothing is copied: texts point into argv.
 */
#include "server/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 64 };

static const struct cli_option *find(const struct cli_option *options, size_t n, const char *name,
                                     size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

/* Index of `value` in "a|b|c"; -1 when it is none of them. */
static int choice_of(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (int i = 0; length && choices; i++) {
        size_t n = strcspn(choices, "|");
        if (n == length && strncmp(choices, value, n) == 0)
            return i;
        choices = choices[n] ? choices + n + 1 : NULL;
    }
    return -1;
}

/* A suffix of a size: the power of two that it stands for; moves *end past it. */
static int suffix(const char **end)
{
    int shift = **end == 'K' || **end == 'k' ? 10 : **end == 'M' || **end == 'm' ? 20 : 0;
    *end += shift > 0;
    return shift;
}

static bool set_number(const struct cli_option *option, const char *value)
{
    char *after;
    errno = 0;
    if (!(*value >= '0' && *value <= '9') && !(*value == '-' && value[1] >= '0' && value[1] <= '9'))
        return false;
    long long number = strtoll(value, &after, 10);
    const char *end = after;
    int shift = option->kind == CLI_BYTES ? suffix(&end) : 0;
    if (errno || *end || number < option->min >> shift || number > option->max >> shift)
        return false;
    number *= 1LL << shift;
    if (number < option->min)
        return false;
    *(int64_t *)option->target = number;
    return true;
}

static bool set_real(const struct cli_option *option, const char *value)
{
    if (!*value || value[strspn(value, "0123456789+-.eE")])
        return false;
    char *end;
    double number = strtod(value, &end);
    if (*end || !isfinite(number) ||
        (option->max > option->min && (number < (double)option->min || number > (double)option->max)))
        return false;
    *(double *)option->target = number;
    return true;
}

static int set(const struct cli_command *command, const struct cli_option *option, const char *value)
{
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return CLI_DONE;
    case CLI_TEXT:
        *(const char **)option->target = value;
        return CLI_DONE;
    case CLI_NUMBER:
        if (set_number(option, value))
            return CLI_DONE;
        return cli_wrong_usage(command, "--%s takes a whole number from %lld to %lld, not '%s'", option->name,
                               (long long)option->min, (long long)option->max, value);
    case CLI_BYTES:
        if (set_number(option, value))
            return CLI_DONE;
        return cli_wrong_usage(command, "--%s takes bytes, as 65536, 64K or 2M, from %lld to %lld, not '%s'",
                               option->name, (long long)option->min, (long long)option->max, value);
    case CLI_REAL:
        if (set_real(option, value))
            return CLI_DONE;
        if (option->max > option->min)
            return cli_wrong_usage(command, "--%s takes a number from %lld to %lld, not '%s'", option->name,
                                   (long long)option->min, (long long)option->max, value);
        return cli_wrong_usage(command, "--%s takes a number, not '%s'", option->name, value);
    case CLI_CHOICE: {
        int choice = choice_of(option->choices, value);
        if (choice < 0)
            return cli_wrong_usage(command, "--%s takes one of %s, not '%s'", option->name, option->choices,
                                   value);
        *(int *)option->target = choice;
        return CLI_DONE;
    }
    }
    return CLI_WRONG_USAGE;
}

/* One option at argv[*at]; moves *at past what it used. */
static int take(const struct cli_command *command, int argc, char **argv, int *at,
                const struct cli_option *options, size_t n, uint64_t *seen)
{
    const char *name = argv[(*at)++] + 2;
    size_t length = strcspn(name, "=");
    const struct cli_option *option = find(options, n, name, length);
    if (!option)
        return cli_wrong_usage(command, "there is no option --%.*s", (int)length, name);
    uint64_t bit = (uint64_t)1 << (option - options);
    if (*seen & bit)
        return cli_wrong_usage(command, "--%s stands twice", option->name);
    *seen |= bit;
    const char *value = name[length] ? name + length + 1 : NULL;
    if (option->kind == CLI_FLAG)
        return value ? cli_wrong_usage(command, "--%s takes no value", option->name)
                     : set(command, option, NULL);
    if (!value && *at < argc)
        value = argv[(*at)++];
    if (!value)
        return cli_wrong_usage(command, "--%s needs a value", option->name);
    return set(command, option, value);
}

bool cli_options(const struct cli_command *command, int argc, char **argv, const struct cli_option *options,
                 size_t n_options, const char **positional, int min_positional, int max_positional,
                 int *n_positional, int *exit_code)
{
    uint64_t seen = 0;
    int found = 0;
    bool ended = false;
    *exit_code = n_options <= OPTIONS_MAX ? CLI_DONE : CLI_REFUSED;
    for (int at = 1; at < argc && *exit_code == CLI_DONE;) {
        const char *arg = argv[at];
        if (!ended && strcmp(arg, "--") == 0) {
            ended = true;
            at++;
        } else if (!ended && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            cli_print_help(command);
            return false;
        } else if (!ended && strncmp(arg, "--", 2) == 0) {
            *exit_code = take(command, argc, argv, &at, options, n_options, &seen);
        } else if (!ended && arg[0] == '-' && arg[1]) {
            *exit_code = cli_wrong_usage(command, "there is no option %s", arg);
        } else if (found >= max_positional) {
            *exit_code = cli_wrong_usage(command, "'%s' is one argument too many", arg);
        } else {
            positional[found++] = arg;
            at++;
        }
    }
    if (*exit_code == CLI_DONE && found < min_positional)
        *exit_code = cli_wrong_usage(command, "too few arguments");
    if (n_positional)
        *n_positional = found;
    return *exit_code == CLI_DONE;
}
