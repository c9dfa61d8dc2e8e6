/* From a model's raw output to scores: what classify and `shoal eval` answer. Pure; safe on any thread. */
#ifndef SHOAL_SERVER_MODELS_SCORES_H
#define SHOAL_SERVER_MODELS_SCORES_H

#include "server/model/graph.h"

struct score {
    int64_t index; /* in the first output */
    float value;   /* dequantised */
};

/* How many values the first output has. */
int64_t scores_count(const struct graph *graph);

/* All values of the first output, highest first, equal ones by index; `output` holds all graph outputs.
 * malloc'ed, scores_count() of them; NULL without memory. */
struct score *scores_make(const struct graph *graph, const void *output);

#endif
