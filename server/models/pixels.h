/*
 * From a picture to a model's input: which pictures a model takes, how its settings read, and the scaling.
 * Pure; safe on any thread.
 */
#ifndef SHOAL_SERVER_MODELS_PIXELS_H
#define SHOAL_SERVER_MODELS_PIXELS_H

#include "server/import/import.h"
#include "server/model/graph.h"

#include <jansson.h>

enum pixels_fit { PIXELS_STRETCH, PIXELS_CROP };
enum pixels_channels { PIXELS_RGB, PIXELS_BGR, PIXELS_GRAY };

/* real input value of channel c = pixel (0..255) * scale[c] + offset[c], channels in the model's order. */
struct pixels_settings {
    enum pixels_fit fit;
    enum pixels_channels channels;
    float scale[3], offset[3];
};

/* {"height","width","channels","scale","offset"} of a graph that takes a picture as its only input (1 or 3
 * channels), with the guess that the quantisation suggests: a pixel is the quantised value. JSON null for any
 * other graph. */
json_t *pixels_describe(const struct graph *graph);

/* Checks settings as the API takes them; unset keys are allowed. `image` is what pixels_describe gave. 0, or
 * STATUS_INVALID_ARGUMENT naming the key; STATUS_CONFLICT when the model takes no picture. */
int pixels_check(const json_t *image, const json_t *settings, struct error *error);
/* The settings in force: all four keys and "guessed", the list of those that nobody set. */
json_t *pixels_effective(const json_t *image, const json_t *settings);
/* The same as numbers. */
int pixels_settings(const json_t *image, const json_t *settings, struct pixels_settings *out,
                    struct error *error);

/* Scales the picture to the graph's input and quantises it: *input is malloc'ed, graph_input_bytes() long. */
int pixels_input(const struct graph *graph, const struct pixels_settings *settings,
                 const struct import_pixels *image, unsigned char **input, struct error *error);

#endif
