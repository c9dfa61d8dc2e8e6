/* What an import child can be asked; see server/base/sandbox.h for `run`. Private to server/import. */
#ifndef SHOAL_SERVER_IMPORT_CHILD_H
#define SHOAL_SERVER_IMPORT_CHILD_H

#include "server/base/error.h"

#include <stddef.h>

/* A model file to the byte form of its graph, named `name`. */
int import_child_model(const unsigned char *input, size_t size, const char *name, unsigned char **answer,
                       size_t *answer_size, struct error *error);

/* A PNG or JPEG to {width u32, height u32, RGB bytes}, little-endian. */
enum { IMAGE_HEADER_BYTES = 8 };
int import_child_image(const unsigned char *input, size_t size, const char *unused, unsigned char **answer,
                       size_t *answer_size, struct error *error);

#endif
