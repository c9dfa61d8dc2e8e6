/*
 * The text of a JSON document that leaves the program: answers, events, `--json`. Compact, numbers to 12
 * digits; milliseconds (reals under a key that ends in "_ms") to the microsecond, since nothing is measured
 * or predicted finer than that.
 */
#ifndef SHOAL_SERVER_BASE_JSON_TEXT_H
#define SHOAL_SERVER_BASE_JSON_TEXT_H

#include <jansson.h>

/* malloc'ed; NULL without memory or document. Rounds the document itself: it must be the caller's own. */
char *json_text(json_t *json);

#endif
