/*
 * How long what is kept: history and logs would grow for ever. A thread drops what is too old or too much, at
 * the start and every ten minutes. State (models, deployments, boards) is never dropped by age.
 */
#ifndef SHOAL_SERVER_API_KEEP_H
#define SHOAL_SERVER_API_KEEP_H

#include "server/store/store.h"

enum {
    KEEP_INFERENCES = 100000,
    KEEP_INFERENCE_DAYS = 30,
    KEEP_LOG_LINES = 100000,
    KEEP_LOG_DAYS = 30,
    KEEP_ATTEMPT_DAYS = 30,
    KEEP_CODE_DAYS = 7, /* after a code has expired */
    KEEP_JOB_DAYS = 90  /* after a job has ended */
};

struct keep;
int keep_start(struct keep **keep, struct store *store, struct error *error);
void keep_stop(struct keep *keep); /* joins and frees; NULL is allowed */

/* One round, as the thread does it. Returns 0 or the state database's error. [worker] */
int keep_round(struct store *store, struct error *error);

#endif
