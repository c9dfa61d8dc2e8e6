/*
 * Reading and replacing whole files. A write goes to a temporary name in the same folder, is flushed to the
 * disk, renamed over the target, and the folder is flushed: a reader sees the old or the new content, also
 * after power loss. Standard streams are plain loops.
 */
#include "server/base/file.h"

#include "server/base/bytes.h"
#include "server/base/id.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(struct error *error, const char *what, const char *path)
{
    int saved = errno;
    enum status status = saved == ENOENT                      ? STATUS_NOT_FOUND
                         : saved == ENOSPC || saved == EDQUOT ? STATUS_DISK_FULL
                                                              : STATUS_IO_FAILED;
    return error_set(error, status, "%s %s: %s", what, path, strerror(saved));
}

static int read_all(int fd, const char *path, size_t limit, struct bytes *into, struct error *error)
{
    uint8_t chunk[65536];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(error, "cannot read", path);
        if (n == 0)
            return STATUS_OK;
        if ((size_t)n > limit - into->size) {
            error_set(error, STATUS_TOO_LARGE, "%s is larger than %zu bytes", path, limit);
            error_limit(error, (int64_t)limit, -1);
            return STATUS_TOO_LARGE;
        }
        if (bytes_append(into, chunk, (size_t)n) != STATUS_OK)
            return error_set(error, STATUS_NO_MEMORY, "no memory to read %s", path);
    }
}

int file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size, struct error *error)
{
    *bytes = NULL;
    *size = 0;
    int is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(error, "cannot open", name);
    struct bytes into;
    bytes_init(&into, limit < SIZE_MAX ? limit + 1 : limit);
    int status = read_all(fd, name, limit, &into, error);
    if (!is_stdin)
        (void)close(fd);
    if (status == STATUS_OK && bytes_put8(&into, 0) != STATUS_OK)
        status = error_set(error, STATUS_NO_MEMORY, "no memory to read %s", name);
    if (status == STATUS_OK) {
        *bytes = bytes_take(&into, size);
        (*size)--;
    }
    bytes_free(&into);
    return status;
}

static int write_all(int fd, const uint8_t *at, size_t left)
{
    while (left) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        left -= (size_t)n;
    }
    return 0;
}

/* Flushes the folder that holds `path`, so that a rename in it lasts. */
static int flush_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)
        (void)snprintf(folder, sizeof folder, ".");
    else
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash == path ? 1 : slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = fsync(fd);
    (void)close(fd);
    return result;
}

static int replace(const char *path, const void *bytes, size_t size, unsigned mode, struct error *error)
{
    char temporary[PATH_MAX];
    uint32_t tag;
    id_random_bytes(&tag, sizeof tag);
    if (snprintf(temporary, sizeof temporary, "%s.%08x.new", path, tag) >= (int)sizeof temporary) {
        errno = ENAMETOOLONG;
        return failed(error, "cannot write", path);
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return failed(error, "cannot write", path);
    int bad = write_all(fd, bytes, size) || fsync(fd);
    int saved = errno;
    if (close(fd) && !bad) {
        bad = 1;
        saved = errno;
    }
    if (!bad && (rename(temporary, path) || flush_folder(path))) {
        bad = 1;
        saved = errno;
    }
    if (!bad)
        return STATUS_OK;
    (void)unlink(temporary);
    errno = saved;
    return failed(error, "cannot write", path);
}

/* Pipes, terminals and devices cannot be replaced by a rename; they are written as they are. */
static int write_stream(const char *path, const void *bytes, size_t size, struct error *error)
{
    int is_stdout = strcmp(path, "-") == 0;
    int fd = is_stdout ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC);
    int bad = fd < 0 || write_all(fd, bytes, size);
    int status = bad ? failed(error, "cannot write", is_stdout ? "standard output" : path) : STATUS_OK;
    if (!is_stdout && fd >= 0)
        (void)close(fd);
    return status;
}

int file_write(const char *path, const void *bytes, size_t size, unsigned mode, struct error *error)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return write_stream(path, bytes, size, error);
    return replace(path, bytes, size, mode, error);
}

int file_make_dirs(const char *path, unsigned mode, struct error *error)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        errno = n ? ENAMETOOLONG : EINVAL;
        return failed(error, "cannot make the folder", path);
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, mode) && errno != EEXIST)
            return failed(error, "cannot make the folder", part);
        part[i] = path[i];
    }
    struct stat st;
    if (stat(path, &st))
        return failed(error, "cannot make the folder", path);
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode) ? STATUS_OK : failed(error, "cannot make the folder", path);
}
