/* All that shared/ and firmware/core may use of the C library; stands in for <string.h> where a Cortex-M
 * compiler has none (tests/checks/pure.sh). */
#ifndef SHOAL_TESTS_CHECKS_FREESTANDING_STRING_H
#define SHOAL_TESTS_CHECKS_FREESTANDING_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
void *memchr(const void *bytes, int byte, size_t n);
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t max);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);

#endif
