/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure. */
#ifndef SHOAL_SERVER_BASE_UTF8_H
#define SHOAL_SERVER_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at the start of a NUL-terminated text, 1 to 4; 0 when it is no valid character. NUL
 * is a character of one byte. Never reads past the NUL. */
size_t utf8_length(const char *text);
/* True when all `n` bytes are valid characters and none is NUL. */
bool utf8_valid(const char *bytes, size_t n);

#endif
