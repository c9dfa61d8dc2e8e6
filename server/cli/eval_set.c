/*
 * Sets of labelled images. Only names are read here, never the images. In a list the label stands after the
 * last comma, so that a path may hold commas; blank lines, lines that begin with # and a first line
 * `path,label` are passed over. Hidden files and files of other kinds in a folder are not images.
 */
#include "server/cli/eval_set.h"

#include "server/base/file.h"
#include "server/base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Takes both texts, NULL meaning no memory. */
static int add_take(struct eval_set *set, char *path, char *label, struct error *error)
{
    int status = path && label ? 0 : error_set(error, STATUS_NO_MEMORY, "no memory for the set");
    if (status == 0 && (!utf8_valid(path, strlen(path)) || !utf8_valid(label, strlen(label))))
        status = error_set(error, STATUS_INVALID_ARGUMENT,
                           "image %zu of the set: its name or label is not UTF-8", set->n + 1);
    if (status == 0 && set->n == EVAL_IMAGES_MAX)
        status =
            error_set(error, STATUS_INVALID_ARGUMENT, "the set has more than %d images", EVAL_IMAGES_MAX);
    if (status == 0 && (set->n & (set->n - 1)) == 0) {
        size_t room = set->n ? 2 * set->n : 1;
        struct eval_image *more = realloc(set->images, room * sizeof *more);
        if (more)
            set->images = more;
        else
            status = error_set(error, STATUS_NO_MEMORY, "no memory for the set");
    }
    if (status == 0) {
        set->images[set->n++] = (struct eval_image){path, label};
        return 0;
    }
    free(path);
    free(label);
    return status;
}

void eval_set_free(struct eval_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        free(set->images[i].path);
        free(set->images[i].label);
    }
    free(set->images);
    memset(set, 0, sizeof *set);
}

/* "folder/name", or name alone where it is absolute or there is no folder. malloc'ed. */
static char *join(const char *folder, const char *name, size_t n)
{
    char *path = NULL;
    bool alone = !folder || !*folder || name[0] == '/';
    if (asprintf(&path, "%s%s%.*s", alone ? "" : folder, alone ? "" : "/", (int)n, name) < 0)
        return NULL;
    return path;
}

/* ---- lists ---- */

static const char *skip_space(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    return from;
}

static const char *skip_space_back(const char *from, const char *to)
{
    while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
        to--;
    return to;
}

static int parse_line(const char *from, const char *to, const char *folder, int line, struct eval_set *set,
                      struct error *error)
{
    from = skip_space(from, to);
    to = skip_space_back(from, to);
    if (from == to || *from == '#')
        return 0;
    if (set->n == 0 && to - from == 10 && memcmp(from, "path,label", 10) == 0)
        return 0;
    const char *comma = memrchr(from, ',', (size_t)(to - from));
    const char *label = comma ? skip_space(comma + 1, to) : to;
    const char *path_end = comma ? skip_space_back(from, comma) : from;
    if (label == to || path_end == from)
        return error_set(error, STATUS_INVALID_ARGUMENT, "line %d of the set is not path,label", line);
    if (memchr(from, 0, (size_t)(to - from)))
        return error_set(error, STATUS_INVALID_ARGUMENT, "line %d of the set has a zero byte", line);
    return add_take(set, join(folder, from, (size_t)(path_end - from)), strndup(label, (size_t)(to - label)),
                    error);
}

int eval_set_parse(const char *text, size_t size, const char *folder, struct eval_set *set,
                   struct error *error)
{
    memset(set, 0, sizeof *set);
    int status = 0, line = 0;
    for (const char *from = text, *end = text + size; from < end && status == 0;) {
        const char *to = memchr(from, '\n', (size_t)(end - from));
        to = to ? to : end;
        status = parse_line(from, to, folder, ++line, set, error);
        from = to + 1;
    }
    if (status == 0 && set->n == 0)
        status = error_set(error, STATUS_INVALID_ARGUMENT, "the set names no image");
    if (status < 0)
        eval_set_free(set);
    return status;
}

static int read_list(const char *path, struct eval_set *set, struct error *error)
{
    uint8_t *bytes;
    size_t size;
    int status = file_read(path, EVAL_LIST_BYTES_MAX, &bytes, &size, error);
    if (status < 0)
        return status;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : NULL;
    status = eval_set_parse((const char *)bytes, size, folder, set, error);
    free(folder);
    free(bytes);
    return status;
}

/* ---- folders ---- */

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool image_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

/* The images of one label; a file beside the labels' folders is none. */
static int read_label(const char *folder, const char *label, struct eval_set *set, struct error *error)
{
    char *path = join(folder, label, strlen(label));
    struct stat about;
    struct dirent **entries = NULL;
    int n = 0, status = path ? 0 : error_set(error, STATUS_NO_MEMORY, "no memory for the set");
    if (status == 0 && stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        n = scandir(path, &entries, visible, alphasort);
    if (n < 0)
        status = error_set(error, STATUS_IO_FAILED, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (status == 0 && image_name(name))
            status = add_take(set, join(path, name, strlen(name)), strdup(label), error);
        free(entries[i]);
    }
    free(entries);
    free(path);
    return status;
}

static int read_folder(const char *path, struct eval_set *set, struct error *error)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, visible, alphasort), status = 0;
    if (n < 0)
        return error_set(error, STATUS_IO_FAILED, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (status == 0)
            status = read_label(path, entries[i]->d_name, set, error);
        free(entries[i]);
    }
    free(entries);
    if (status == 0 && set->n == 0)
        status = error_set(error, STATUS_INVALID_ARGUMENT,
                           "%s has no PNG or JPEG in folders named by label, as in %s/cat/1.png", path, path);
    if (status < 0)
        eval_set_free(set);
    return status;
}

int eval_set_read(const char *path, struct eval_set *set, struct error *error)
{
    struct stat about;
    memset(set, 0, sizeof *set);
    if (stat(path, &about) != 0)
        return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO_FAILED, "%s: %s", path,
                         strerror(errno));
    return S_ISDIR(about.st_mode) ? read_folder(path, set, error) : read_list(path, set, error);
}
