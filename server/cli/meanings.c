/*
 * What each option means, for `shoal help COMMAND`. A row counts for the command that it names, or for all;
 * the first that fits is taken, so those with a command stand first. tests/api/readme.sh holds that no option
 * of a usage is left out.
 */
#include "server/cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct meaning {
    const char *command, *option, *text;
} meanings[] = {
    {"run", "boards",
     "as in plan, with its options: cut over virtual boards; without it the reference executor"},
    {"eval", "boards", "as in plan, with its options: virtual boards, instead of a server"},
    {"deploy", "boards", "only these, by name; without it all that are accepted, online and not drained"},
    {"plan", "boards", "how many virtual Teensy 4.1, or a file that describes each"},
    {"schedule", "ram", "the fastest schedule that fits, instead of the smallest; 8K, 1M"},
    {"schedule", "profile",
     "the board whose time is predicted: teensy41-good, teensy41-cautious, or one board's JSON"},
    {"plan", "profile", "every board is like this file's one"},
    {"upload", "name", "the model's name; without it the file's"},
    {"upload", "wait", "until memory and schedule are computed"},
    {"deploy", "wait", "until it is active, or this time has passed (exit code 4)"},
    {"eval", "settings", "how a picture becomes an input, as JSON; without it a guess"},
    {"eval", "labels", "a file with a name a class; without it the server's, or the one beside the model"},
    {"board", "accept", "the code made for it takes the board in at once"},
    {"board", "name", "the name that the board asks for"},
    {"board", "output", "the file that the loader takes; it holds the code, so only you may read it"},
    {"board", "image", "the firmware to put in; without it the provisioning page alone"},
    {"board", "server",
     "where the board connects: one address, or two to try in turn; without it this server's"},
    {"board", "code", "a code that was made before; without it one is asked for at the server"},
    {"board", "static", "a fixed IPv4 address instead of DHCP"},
    {"board", "gateway", "with --static"},
    {"board", "dns", "with --static"},
    {"enrol", "accept", "boards that bring the code are taken in at once, not only when you accept them"},
    {NULL, "ttl-s", "for how long the code is good, in seconds"},
    {NULL, "uses", "for how many boards the code is good (1)"},
    {NULL, "name-prefix", "names of boards that bring the code begin so"},
    {NULL, "data", "the folder with all state; made if it is not there"},
    {NULL, "listen", "dashboard and API; loopback only"},
    {NULL, "board-listen", "where boards connect, over mutual TLS"},
    {NULL, "config", "a JSON file with data, listen, board-listen as keys; the command line wins"},
    {NULL, "accumulator", "bits of a sum in a loop over channels (32, exact); fewer are counted, never run"},
    {NULL, "axes", "which parts of tensors may be held instead of whole ones (all: channels, rows, patches)"},
    {NULL, "extra-macs", "percent of the multiply-adds that may be computed again (0)"},
    {NULL, "image", "streamed: the input arrives by rows and counts only while it is held (counted)"},
    {NULL, "strategy",
     "neuron: every layer is cut over the boards; single: one board, in parts where memory is short"},
    {NULL, "shares", "a board's part by its rating (clock, delay, bandwidth), the same for all, or by clock"},
    {NULL, "objective", "the time of one inference, or inferences a second (latency)"},
    {NULL, "ram", "each board's arena; 448K"},
    {NULL, "flash", "each board's room for fragments; 7M"},
    {NULL, "input", "raw values of all inputs, one after another"},
    {NULL, "output", "takes the raw values of all outputs"},
    {NULL, "set", "a folder of folders named by label, or a file of lines path,label"},
    {NULL, "min-top1", "ends with 5 when fewer than this part is right; 0.9"},
    {NULL, "max-p95-ms", "ends with 5 when 95 of 100 answers take longer"},
    {NULL, "junit", "the same result for a CI's test report"},
    {NULL, "tags", "words kept with the deployment"},
    {NULL, "replace", "in the place of the version that runs now, where the boards' flash cannot hold both"},
    {NULL, "no-promote", "questions without a version stay with the former version"},
    {NULL, "url", "the server; SHOAL_URL, else http://127.0.0.1:8080"},
    {NULL, "json", "one JSON document on standard output"},
};

static const char *meaning_of(const char *command, const char *option, size_t length)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const struct meaning *m = &meanings[i];
        if ((!m->command || strcmp(m->command, command) == 0) && strlen(m->option) == length &&
            strncmp(m->option, option, length) == 0)
            return m->text;
    }
    return NULL;
}

void cli_print_meanings(const struct cli_command *command)
{
    for (const char *at = command->usage; (at = strstr(at, "--")) != NULL;) {
        const char *option = at + 2;
        size_t length = strspn(option, "abcdefghijklmnopqrstuvwxyz0123456789-");
        const char *text = meaning_of(command->name, option, length);
        if (text)
            (void)printf("  --%-13.*s %s\n", (int)length, option, text);
        at = option + length;
    }
}
