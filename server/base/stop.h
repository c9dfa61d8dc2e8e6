/*
 * The server is ending: long computations (planning, emitting, the reference executor, an import) look here
 * between steps and end with STATUS_BUSY, so that a stop takes seconds. What they were to make stays waiting
 * in the store and is made after the next start. One flag a process, and one watch a thread; any thread.
 */
#ifndef SHOAL_SERVER_BASE_STOP_H
#define SHOAL_SERVER_BASE_STOP_H

#include "server/base/error.h"

#include <stdbool.h>

void stop_ask(bool stop);
/* Also true once whoever waits for this thread's answer has gone; see stop_watch. */
bool stop_asked(void);
/* 0, or STATUS_BUSY or STATUS_CANCELLED with the error set. */
int stop_check(struct error *error);

/* From now on this thread's computations also end, with STATUS_CANCELLED, after `gone` has been true once. It
 * is asked between their steps. NULL: no more. */
typedef bool stop_gone(const void *context);
void stop_watch(stop_gone *gone, const void *context);

#endif
