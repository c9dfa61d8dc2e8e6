/* Base32 of RFC 4648 without padding, for codes that people type: upper case out, either case in; spaces and
 * dashes are skipped on the way in. Pure. */
#ifndef SHOAL_SHARED_BASE_BASE32_H
#define SHOAL_SHARED_BASE_BASE32_H

#include <stddef.h>
#include <stdint.h>

/* Characters for n bytes, without the NUL. */
#define BASE32_CHARS(n) (((n)*8 + 4) / 5)

/* `out` has BASE32_CHARS(n) + 1 bytes. */
void base32_encode(const void *bytes, size_t n, char *out);
/* Exactly `n` bytes from a NUL-terminated text. 0, or STATUS_INVALID_ARGUMENT: a character outside the
 * alphabet, too few or too many characters, or bits that are not zero after the last byte. */
int base32_decode(const char *text, void *out, size_t n);

#endif
