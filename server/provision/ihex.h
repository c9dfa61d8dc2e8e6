/*
 * Intel HEX, the format that board loaders take: text in, sparse memory out, and back. Records 00 to 05.
 * Pure: no files; any thread. Errors name the line.
 */
#ifndef SHOAL_SERVER_PROVISION_IHEX_H
#define SHOAL_SERVER_PROVISION_IHEX_H

#include "server/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ihex_run {
    uint32_t address, n;
    uint8_t *bytes;
    uint32_t room;
};

/* Bytes at addresses. Zeroed it is empty. Runs are sorted by address and do not overlap. */
struct ihex {
    struct ihex_run *runs;
    size_t n_runs, room;
    bool has_start;
    uint32_t start; /* entry address, record 05 or 03 as it stands */
    bool start_is_segment;
};

void ihex_free(struct ihex *ihex);
/* Adds `n` bytes. STATUS_CONFLICT: a byte is there already (and nothing is added); STATUS_INVALID_ARGUMENT:
 * beyond the last address; STATUS_NO_MEMORY. */
int ihex_add(struct ihex *ihex, uint32_t address, const uint8_t *bytes, uint32_t n, struct error *error);
/* Removes what lies in [first, first + n). STATUS_NO_MEMORY. */
int ihex_cut(struct ihex *ihex, uint32_t first, uint32_t n, struct error *error);
/* Adds what a file says. STATUS_INVALID_ARGUMENT (not of the format, wrong checksum, no or a second end),
 * STATUS_CONFLICT (a byte twice), STATUS_NO_MEMORY; then the memory holds what came before. */
int ihex_parse(struct ihex *ihex, const char *text, size_t n, struct error *error);
/* The file: *text is malloc'ed, with a NUL behind its *n bytes. STATUS_NO_MEMORY. */
int ihex_format(const struct ihex *ihex, char **text, size_t *n, struct error *error);
/* Bytes in all. */
uint64_t ihex_bytes(const struct ihex *ihex);

#endif
