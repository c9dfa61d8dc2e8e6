/* Looking up embedded files. Names are compared whole, and are never joined to a folder: there is no path to
 * walk out of. */
#include "server/base/embed.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct embed_file *)row)->name);
}

const struct embed_file *embed_web_find(const char *name)
{
    return bsearch(name, embed_web_table, embed_web_count, sizeof embed_web_table[0], by_name);
}

const struct embed_file *embed_web(size_t *count)
{
    *count = embed_web_count;
    return embed_web_table;
}

const struct embed_file *embed_migrations(size_t *count)
{
    *count = embed_migrations_count;
    return embed_migrations_table;
}
