/*
 * Errors with their place. A function that can fail for a reason a person must read takes a `struct error *`,
 * returns its negative status, and fills the error once: the first cause wins, later ones do not overwrite
 * it. A NULL error is allowed everywhere and means that the caller only wants the status.
 */
#ifndef SHOAL_SERVER_BASE_ERROR_H
#define SHOAL_SERVER_BASE_ERROR_H

#include "shared/base/status.h"

#include <stdint.h>

enum { ERROR_MESSAGE_BYTES = 512, ERROR_NAME_BYTES = 128 };

/* What does not fit where; the `detail` of STATUS_DOES_NOT_FIT. Empty strings and -1 mean "not known". */
struct error_shortfall {
    char board[ERROR_NAME_BYTES];
    int segment;               /* index in the plan, -1: whole plan */
    char op[ERROR_NAME_BYTES]; /* the layer's name in the file */
    const char *resource;      /* "flash", "arena" or "weights"; NULL: no shortfall */
    int64_t need_bytes, have_bytes;
};

struct error {
    enum status status;                /* STATUS_OK while nothing went wrong */
    char message[ERROR_MESSAGE_BYTES]; /* UTF-8, one line, for people */
    char layer[ERROR_NAME_BYTES];      /* name of the layer, "" none */
    char op[ERROR_NAME_BYTES];         /* name of the operator, "" none */
    int64_t offset;                    /* byte offset in the input, -1 none */
    int64_t limit, actual;             /* -1 none */
    struct error_shortfall shortfall;
};

/* Empties the error. */
void error_clear(struct error *error);

/* Sets status and message (printf) if nothing was set before; returns `status` either way. */
int error_set(struct error *error, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds places to the error set last; each does nothing on NULL or when that place is already known. */
void error_at_layer(struct error *error, const char *layer, const char *op);
void error_at_offset(struct error *error, int64_t offset);
void error_limit(struct error *error, int64_t limit, int64_t actual);

#endif
