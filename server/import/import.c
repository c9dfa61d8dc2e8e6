/*
 * The parent's side of importing: sizes, the child, and the check of what comes back. The graph is read as if
 * a stranger had sent it, because after a fault in the child one has.
 */
#include "server/import/import.h"

#include "server/base/sandbox.h"
#include "server/import/child.h"
#include "shared/base/le.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A graph is a little larger than its file: names, and constants that were spread out. */
static size_t graph_bytes_max(size_t size)
{
    return 2 * size + (size_t)64 * 1024 * 1024;
}

static int check_size(size_t size, size_t max, const char *what, struct error *error)
{
    if (size == 0)
        return error_set(error, STATUS_MODEL_MALFORMED, "the %s is empty", what);
    if (size <= max)
        return 0;
    int status = error_set(error, STATUS_TOO_LARGE, "the %s has %zu bytes, more than %zu", what, size, max);
    error_limit(error, (int64_t)max, (int64_t)size);
    return status;
}

struct graph *import_file(int fd, size_t size, const char *name, struct error *error)
{
    unsigned char *answer;
    size_t answer_size;
    if (check_size(size, IMPORT_MODEL_BYTES_MAX, "model", error) != 0)
        return NULL;
    if (sandbox_run("model", name, fd, size, graph_bytes_max(size), &answer, &answer_size, error) != 0)
        return NULL;
    struct graph *graph = graph_read(answer, answer_size, error);
    free(answer);
    return graph;
}

/* An unnamed file in memory with these bytes; -1 with the error set. */
static int memory_file(const void *bytes, size_t size, struct error *error)
{
    int fd = memfd_create("import", MFD_CLOEXEC);
    const char *p = bytes;
    while (fd >= 0 && size > 0) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(fd);
            fd = -1;
            break;
        }
        p += n;
        size -= (size_t)n;
    }
    if (fd < 0)
        (void)error_set(error, STATUS_IO_FAILED, "no memory file for the import child: %s", strerror(errno));
    return fd;
}

struct graph *import_bytes(const void *bytes, size_t size, const char *name, struct error *error)
{
    if (check_size(size, IMPORT_MODEL_BYTES_MAX, "model", error) != 0)
        return NULL;
    int fd = memory_file(bytes, size, error);
    if (fd < 0)
        return NULL;
    struct graph *graph = import_file(fd, size, name, error);
    close(fd);
    return graph;
}

int import_image(const void *bytes, size_t size, struct import_pixels *pixels, struct error *error)
{
    unsigned char *answer;
    size_t answer_size;
    memset(pixels, 0, sizeof *pixels);
    if (size == 0)
        return error_set(error, STATUS_IMAGE_MALFORMED, "the image is empty");
    int status = check_size(size, IMPORT_IMAGE_BYTES_MAX, "image", error);
    int fd = status ? -1 : memory_file(bytes, size, error);
    if (fd < 0)
        return status ? status : STATUS_IO_FAILED;
    status = sandbox_run("image", "", fd, size, IMAGE_HEADER_BYTES + (size_t)IMPORT_IMAGE_PIXELS_MAX * 3,
                         &answer, &answer_size, error);
    close(fd);
    if (status)
        return status;
    uint32_t width = answer_size >= IMAGE_HEADER_BYTES ? le_get32(answer) : 0;
    uint32_t height = answer_size >= IMAGE_HEADER_BYTES ? le_get32(answer + 4) : 0;
    bool fits = width >= 1 && height >= 1 && width <= IMPORT_IMAGE_SIDE_MAX &&
                height <= IMPORT_IMAGE_SIDE_MAX &&
                answer_size == IMAGE_HEADER_BYTES + (size_t)width * height * 3;
    if (fits)
        pixels->rgb = malloc(answer_size - IMAGE_HEADER_BYTES);
    if (pixels->rgb) {
        memcpy(pixels->rgb, answer + IMAGE_HEADER_BYTES, answer_size - IMAGE_HEADER_BYTES);
        pixels->width = (int32_t)width;
        pixels->height = (int32_t)height;
    } else {
        status = fits ? error_set(error, STATUS_NO_MEMORY, "no memory for the image")
                      : error_set(error, STATUS_IMPORT_CRASHED, "the importer gave an impossible answer");
    }
    free(answer);
    return status;
}

void import_pixels_free(struct import_pixels *pixels)
{
    free(pixels->rgb);
    memset(pixels, 0, sizeof *pixels);
}
