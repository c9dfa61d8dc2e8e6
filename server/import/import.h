/*
 * Importing: from an uploaded file to a graph, or from an image file to pixels, in a limited child process
 * (server/base/sandbox). Formats are told by content, never by name. What the child answers is checked again
 * here. Blocks for up to SANDBOX_WALL_MS: call it on a job thread. Safe on any thread.
 */
#ifndef SHOAL_SERVER_IMPORT_IMPORT_H
#define SHOAL_SERVER_IMPORT_IMPORT_H

#include "server/base/error.h"
#include "server/model/graph.h"

#include <stddef.h>

enum {
    IMPORT_MODEL_BYTES_MAX = 32 * 1024 * 1024,
    IMPORT_IMAGE_BYTES_MAX = 8 * 1024 * 1024,
    IMPORT_IMAGE_SIDE_MAX = 4096,
    IMPORT_IMAGE_PIXELS_MAX = 16 * 1024 * 1024
};

/* First thing in the main of every program that imports: the exit code when this process is an import child
 * (then main returns it at once), -1 otherwise. */
int sandbox_child_main(int argc, char **argv);

/* The model in the first `size` bytes of `fd` (offset not moved), or in memory. `name` names the graph (at
 * most 255 bytes are kept). The graph is the caller's; NULL with `error` set: STATUS_MODEL_MALFORMED,
 * _UNSUPPORTED, _LIMIT, STATUS_TOO_LARGE, STATUS_IMPORT_CRASHED, STATUS_DEADLINE, STATUS_NO_MEMORY,
 * STATUS_IO_FAILED. */
struct graph *import_file(int fd, size_t size, const char *name, struct error *error);
struct graph *import_bytes(const void *bytes, size_t size, const char *name, struct error *error);

/* A decoded image: RGB, 8 bits each, packed rows from the top. */
struct import_pixels {
    int32_t width, height;
    unsigned char *rgb; /* width * height * 3, malloc'ed */
};

/* PNG or JPEG. 0, or STATUS_IMAGE_MALFORMED, STATUS_TOO_LARGE (file, side or pixels) and those above. */
int import_image(const void *bytes, size_t size, struct import_pixels *pixels, struct error *error);
void import_pixels_free(struct import_pixels *pixels); /* also of an image that is all zero */

#endif
