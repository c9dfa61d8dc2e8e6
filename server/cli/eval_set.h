/*
 * A set of labelled images on the disk: a folder of folders named by label (label/file.png), or a file with a
 * line `path,label` for each image.
 */
#ifndef SHOAL_SERVER_CLI_EVAL_SET_H
#define SHOAL_SERVER_CLI_EVAL_SET_H

#include "server/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { EVAL_IMAGES_MAX = 1000000, EVAL_LIST_BYTES_MAX = 64 << 20 };

struct eval_image {
    char *path, *label; /* owned by the set */
};
struct eval_set {
    struct eval_image *images; /* in order of path; of the list's lines */
    size_t n;
};

/* Reads the folder or the list at `path`. 0, STATUS_NOT_FOUND, STATUS_INVALID_ARGUMENT (no image at all, a
 * line without label, too many images; the message names the line), STATUS_IO_FAILED, STATUS_NO_MEMORY. */
int eval_set_read(const char *path, struct eval_set *set, struct error *error);
/* The same for the text of a list; paths that do not begin with / are of `folder`. */
int eval_set_parse(const char *text, size_t size, const char *folder, struct eval_set *set,
                   struct error *error);
void eval_set_free(struct eval_set *set); /* also of a set that is all zero */

#endif
