/* Names, texts and HTTP numbers of the status list: three tables made from one X-macro. */
#include "shared/base/status.h"

#include <stddef.h>
#include <string.h>

struct status_row {
    const char *name;
    const char *text;
    int http;
};

static const struct status_row rows[STATUS_COUNT] = {{"ok", "done", 200},
#define STATUS_ROW(id, name, text, http) {name, text, http},
                                                     STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

static const struct status_row *row_of(int status)
{
    if (status >= 0)
        return &rows[0];
    if (status <= -(int)STATUS_COUNT)
        return &rows[STATUS_MAGNITUDE_INTERNAL];
    return &rows[-status];
}

const char *status_name(int status)
{
    return row_of(status)->name;
}

const char *status_text(int status)
{
    return row_of(status)->text;
}

int status_http(int status)
{
    return row_of(status)->http;
}

enum status status_from_name(const char *name)
{
    for (int i = 0; i < (int)STATUS_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0)
            return (enum status) - i;
    return STATUS_INTERNAL;
}
