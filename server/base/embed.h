/* Files carried in the binary: the web page and the migrations. scripts/embed makes the tables at build time.
 * All of it is constant and lives as long as the process; safe on any thread. */
#ifndef SHOAL_SERVER_BASE_EMBED_H
#define SHOAL_SERVER_BASE_EMBED_H

#include <stddef.h>

struct embed_file {
    const char *name;           /* below its folder: "index.html", "js/boards.js", "0001_first.sql" */
    const unsigned char *bytes; /* `size` bytes, and a NUL after them that does not count */
    size_t size;
    const char *type; /* content type */
    const char *etag; /* SHA-256 of the bytes in double quotes, ready for the header */
};

/* The file of web/ with exactly this name, or NULL. */
const struct embed_file *embed_web_find(const char *name);
/* All files of web/, sorted by name. */
const struct embed_file *embed_web(size_t *count);
/* All migrations, sorted by name, hence in the order in which they run. */
const struct embed_file *embed_migrations(size_t *count);

/* The tables themselves; each ends with a row of zeros. */
extern const struct embed_file embed_web_table[], embed_migrations_table[];
extern const size_t embed_web_count, embed_migrations_count;

#endif
