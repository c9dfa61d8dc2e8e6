/* Whole files. Paths are the caller's own or the user's, never made from what came over the network. Blocks;
 * safe on any thread. Errors name the path. */
#ifndef SHOAL_SERVER_BASE_FILE_H
#define SHOAL_SERVER_BASE_FILE_H

#include "server/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Reads all of `path` ("-": standard input). *bytes is malloc'ed, has a NUL after its *size bytes, and is the
 * caller's. STATUS_NOT_FOUND, STATUS_TOO_LARGE (more than `limit` bytes; nothing more is read),
 * STATUS_IO_FAILED (also a folder), STATUS_NO_MEMORY. */
int file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size, struct error *error);

/* Puts `bytes` at `path` ("-": standard output) with permissions `mode`. After success the new content is on
 * the disk whole; after an error or a crash the old content stands. STATUS_DISK_FULL, STATUS_IO_FAILED. */
int file_write(const char *path, const void *bytes, size_t size, unsigned mode, struct error *error);

/* Makes the folder and those above it, with `mode`, where they are missing. STATUS_IO_FAILED. */
int file_make_dirs(const char *path, unsigned mode, struct error *error);

#endif
