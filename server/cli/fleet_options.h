/*
 * What `shoal run`, `plan`, `schedule` and `inspect` share: opening a model, and the options that describe a
 * fleet. */
#ifndef SHOAL_SERVER_CLI_FLEET_OPTIONS_H
#define SHOAL_SERVER_CLI_FLEET_OPTIONS_H

#include "server/cli/cli.h"
#include "server/plan/plan.h"

struct fleet_options {
    const char *boards;   /* "N" or a path of FLEET.json; NULL: not given */
    const char *profile;  /* path of one board's JSON; NULL: teensy41-good */
    int strategy, shares; /* indices into the choices */
    int64_t ram, flash;   /* of every board; 0: the board's own */
    bool json;
};

enum { FLEET_OPTIONS = 7 };
/* Fills FLEET_OPTIONS rows: boards, profile, strategy, shares, ram, flash, json. */
void fleet_options_rows(struct fleet_options *fleet, struct cli_option rows[FLEET_OPTIONS]);

/* The boards that the options describe; *boards is malloc'ed. 0 or a negative status with `error` set. */
int fleet_options_boards(const struct fleet_options *fleet, struct plan_board **boards, int32_t *n,
                         struct error *error);
struct plan_options fleet_options_plan(const struct fleet_options *fleet);

/* Imports a model file; CLI_DONE, or the exit code after the error was reported. `version` (65 bytes, may be
 * NULL) gets the hash of its bytes. */
int fleet_options_model(const char *path, bool json, struct graph **graph, char *version);

#endif
