/*
 * Real models and the exact answers expected of them, in the facts folder (environment variable FACTS,
 * default ../shared). For cmocka tests: what cannot be read or imported fails or skips the running test.
 */
#ifndef SHOAL_TESTS_SUPPORT_GOLDEN_H
#define SHOAL_TESTS_SUPPORT_GOLDEN_H

#include "server/model/graph.h"

enum { GOLDENS = 4 /* input and output pairs a model */ };

/* Golden `k` of a model: its input (end "in") or output ("out"), raw bytes, malloc'ed. */
uint8_t *golden_read(const char *name, const char *end, int k, size_t *size);
/* The model, imported, the caller's. Without the file the test skips, as `what`_of_`name`. */
struct graph *golden_load(const char *name, const char *what);

#endif
