/*
 * Enrolment codes: 10 random bytes and the first 16 bytes of the SHA-256 of the authority's public key, in
 * base32. By the second part a board trusts the server, by the first it proves itself. 42 characters, shown
 * in seven groups of six with dashes. Used by server and host board; no state, any thread.
 */
#ifndef SHOAL_SERVER_CA_ENROL_CODE_H
#define SHOAL_SERVER_CA_ENROL_CODE_H

#include "shared/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ENROL_SECRET_BYTES = 10,
    ENROL_TRUST_BYTES = 16,
    ENROL_CODE_CHARS = 42,
    ENROL_CODE_BYTES = ENROL_CODE_CHARS + 6 + 1 /* with dashes and the end */
};

struct enrol_code {
    uint8_t secret[ENROL_SECRET_BYTES];
    uint8_t trust[ENROL_TRUST_BYTES];
};

/* A new code for an authority (its key's SHA-256). */
void enrol_code_make(const uint8_t ca_key_hash[32], struct enrol_code *code);
void enrol_code_format(const struct enrol_code *code, char out[ENROL_CODE_BYTES]);
/* Case, dashes and blanks do not matter; 0, 1 and 8 are read as O, I and B. STATUS_CODE_WRONG when it cannot
 * be a code. */
int enrol_code_parse(const char *text, struct enrol_code *code);
/* Compares the secrets in constant time. */
bool enrol_code_equal(const uint8_t a[ENROL_SECRET_BYTES], const uint8_t b[ENROL_SECRET_BYTES]);
/* Whether the code was made for the authority with this key hash. */
bool enrol_code_trusts(const struct enrol_code *code, const uint8_t ca_key_hash[32]);

#endif
