/* SHA-256, the name of versions, plans and fragments. A struct hash has one user at a time. */
#ifndef SHOAL_SERVER_BASE_HASH_H
#define SHOAL_SERVER_BASE_HASH_H

#include <mbedtls/sha256.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_BYTES = 32, HASH_HEX_BYTES = 65 };

struct hash {
    mbedtls_sha256_context context;
};

/* Begin, any number of adds, end; after end the struct holds nothing and can begin again. */
void hash_begin(struct hash *hash);
void hash_add(struct hash *hash, const void *bytes, size_t n);
void hash_end(struct hash *hash, uint8_t out[HASH_BYTES]);

void hash_sha256(const void *bytes, size_t n, uint8_t out[HASH_BYTES]);
/* 64 lower-case digits and a NUL. */
void hash_hex(const uint8_t hash[HASH_BYTES], char out[HASH_HEX_BYTES]);
/* Any bytes as lower-case digits and a NUL: `out` has 2 n + 1 bytes. */
void hash_hex_n(const void *bytes, size_t n, char *out);
/* Exactly 64 digits, either case; false otherwise, and then `out` is not touched. */
bool hash_from_hex(const char *text, uint8_t out[HASH_BYTES]);
/* Compares in a time that does not depend on the content: for what proves an identity. */
bool hash_equal(const void *a, const void *b, size_t n);

#endif
