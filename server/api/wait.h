/* ?wait=SECONDS on a job or a deployment: the exchange is put aside and answered when it has settled. */
#ifndef SHOAL_SERVER_API_WAIT_H
#define SHOAL_SERVER_API_WAIT_H

#include "server/api/api.h"

enum { WAIT_SECONDS_MAX = 300 };

/* Answers an exchange with the resource as it is now; `timed_out`: 504 unless it has settled. */
typedef int wait_show(struct http_exchange *x, bool timed_out);

/* What is handed to models_wait and deploy_wait; NULL without memory. */
struct wait {
    struct http_exchange *x;
    wait_show *show;
};
struct wait *wait_new(struct http_exchange *x, wait_show *show);
/* Shows, finishes the exchange, and frees the wait. */
void wait_over(void *wait, bool timed_out);

#endif
