/*
 * The server is ending: long computations (planning, emitting, the reference executor, an import) look here
 * between steps and end with STATUS_BUSY, so that a stop takes seconds. What they were to make stays waiting
 * in the store and is made after the next start. One flag a process; any thread.
 */
#ifndef SHOAL_SERVER_BASE_STOP_H
#define SHOAL_SERVER_BASE_STOP_H

#include "server/base/error.h"

#include <stdbool.h>

void stop_ask(bool stop);
bool stop_asked(void);
/* 0, or STATUS_BUSY with the error set. */
int stop_check(struct error *error);

#endif
