/* Errors that keep their first cause and its place. */
#include "server/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void error_clear(struct error *error)
{
    if (!error)
        return;
    memset(error, 0, sizeof *error);
    error->offset = error->limit = error->actual = -1;
    error->shortfall.segment = -1;
    error->shortfall.need_bytes = error->shortfall.have_bytes = -1;
}

int error_set(struct error *error, enum status status, const char *format, ...)
{
    if (!error || error->status != STATUS_OK)
        return status;
    error_clear(error);
    error->status = status;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(error->message, sizeof error->message, format, list);
    va_end(list);
    return status;
}

/* Copies as many whole characters as fit. */
static void copy_name(char to[ERROR_NAME_BYTES], const char *from)
{
    size_t n = strlen(from);
    if (n >= ERROR_NAME_BYTES)
        for (n = ERROR_NAME_BYTES - 1; n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80;)
            n--;
    memcpy(to, from, n);
    to[n] = 0;
}

void error_at_layer(struct error *error, const char *layer, const char *op)
{
    if (!error)
        return;
    if (layer && !error->layer[0])
        copy_name(error->layer, layer);
    if (op && !error->op[0])
        copy_name(error->op, op);
}

void error_at_offset(struct error *error, int64_t offset)
{
    if (error && error->offset < 0)
        error->offset = offset;
}

void error_limit(struct error *error, int64_t limit, int64_t actual)
{
    if (!error || error->limit >= 0)
        return;
    error->limit = limit;
    error->actual = actual;
}
