/* The canonical JSON of a plan and its hash. Not for other modules: plan.h offers what they need. */
#ifndef SHOAL_SERVER_PLAN_JSON_H
#define SHOAL_SERVER_PLAN_JSON_H

#include "server/plan/plan.h"

/* Of all that planning decides: neither the hash itself nor what emit adds. 0 or STATUS_NO_MEMORY. */
int json_plan_hash(const struct plan *plan, char hash[65]);

#endif
