/* The subcommands, in the order `shoal help` shows them: X(function, "name", "usage", "summary"). The
 * function stands in server/cli/<name>.c. */
#ifndef SHOAL_SERVER_CLI_COMMANDS_H
#define SHOAL_SERVER_CLI_COMMANDS_H

#include "server/cli/cli.h"

#define CLI_COMMANDS(X)                                                                                      \
    X(cli_serve, "serve",                                                                                    \
      "--data DIR [--listen 127.0.0.1:8080] [--board-listen 127.0.0.1:8443] [--config FILE] [--json]",       \
      "the server, until Ctrl-C")                                                                            \
    X(cli_inspect, "inspect", "MODEL [--json]", "a model's layers, shapes, MACs, parameters, memory")        \
    X(cli_schedule, "schedule",                                                                              \
      "MODEL|GRAPH.json [--accumulator 32|16|8] [--axes channels|rows|all] [--extra-macs PCT] "              \
      "[--image counted|streamed] [--ram BYTES] [--profile NAME|FILE] [--json]",                             \
      "the least memory one board could run a network in, and how")                                          \
    X(cli_plan, "plan",                                                                                      \
      "MODEL --boards N|FLEET.json [--strategy auto|neuron|single] [--shares rating|even|frequency] "        \
      "[--profile FILE] [--ram BYTES] [--flash BYTES] [--json]",                                             \
      "how a fleet would run a model: a dry run")                                                            \
    X(cli_run, "run",                                                                                        \
      "MODEL --input FILE --output FILE [--boards N|FLEET.json and the options of plan] [--json]",           \
      "one inference in this process, over virtual boards or by the reference executor")                     \
    X(cli_eval, "eval",                                                                                      \
      "MODEL|NAME[@VERSION] --set DIR|LIST [--url URL | --boards N|FLEET.json and the options of plan] "     \
      "[--labels FILE] [--settings FILE] [--min-top1 X] [--max-p95-ms X] [--junit FILE] [--json]",           \
      "how well a model does on labelled images, on a server or in this process")                            \
    X(cli_upload, "upload", "MODEL [--name NAME] [--wait] [--url URL] [--json]", "send a model to a server") \
    X(cli_deploy, "deploy",                                                                                  \
      "NAME[@VERSION] [--boards A,B] [--strategy auto|neuron|single] "                                       \
      "[--shares rating|even|frequency] [--objective latency|throughput] [--tags A,B] [--replace] "          \
      "[--no-promote] [--wait SECONDS] [--url URL] [--json]",                                                \
      "place a model on a server's boards")                                                                  \
    X(cli_status, "status", "[--url URL] [--json]", "a server's boards, deployments, and what needs you")    \
    X(cli_enrol, "enrol", "[--accept] [--ttl-s S] [--uses N] [--name-prefix P] [--url URL] [--json]",        \
      "a one-time code for new boards")                                                                      \
    X(cli_board, "board",                                                                                    \
      "[list | show|accept|revoke|probe|drain|undrain|identify|reboot|forget BOARD | rename BOARD NAME | "   \
      "replace OLD NEW] | provision --output FILE.hex [--image FILE] [--server HOST:PORT[,HOST:PORT]] "      \
      "[--code CODE | "                                                                                      \
      "--accept --ttl-s S] [--name NAME] [--static ADDRESS/BITS --gateway ADDRESS --dns ADDRESS] [--url "    \
      "URL] [--json]",                                                                                       \
      "a server's boards")                                                                                   \
    X(cli_version, "version", "[--json]", "the version of this program")

/* What `shoal board provision` does, with the row of `board`. */
int cli_board_provision(const struct cli_command *self, int argc, char **argv);

#define CLI_DECLARE(function, name, usage, summary) \
    int function(const struct cli_command *self, int argc, char **argv);
CLI_COMMANDS(CLI_DECLARE)
#undef CLI_DECLARE

#endif
