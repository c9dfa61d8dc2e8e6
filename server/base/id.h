/* Identifiers and randomness. ULIDs name deployments, inferences, jobs and enrolments. Safe on any thread. */
#ifndef SHOAL_SERVER_BASE_ID_H
#define SHOAL_SERVER_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ID_ULID_BYTES = 27 };

/* A new ULID: 26 characters of Crockford's base32 and a NUL. Each one of a process sorts after the one
 * before, also within a millisecond and when the wall clock goes back; over processes they are unique by
 * their 80 random bits. */
void id_ulid(char out[ID_ULID_BYTES]);
/* 26 characters of the alphabet in upper case, the first at most '7'. */
bool id_is_ulid(const char *text);
/* The milliseconds since 1970 in the first ten characters; `text` must be a ULID. */
int64_t id_ulid_wall_ms(const char *text);

/* Random bytes from the kernel, fit for keys. Ends the process when the kernel has none to give. */
void id_random_bytes(void *out, size_t n);

#endif
