/*
 * Enrolment codes in base32. 26 bytes are 208 bits, 42 characters 210: the last two bits are zero, and a code
 * in which they are not is refused, so that each code has one spelling but for case, dashes and look-alikes.
 */
#include "server/ca/enrol_code.h"

#include "server/base/hash.h"
#include "server/base/id.h"
#include "shared/base/base32.h"

#include <string.h>

enum { CODE_BYTES = ENROL_SECRET_BYTES + ENROL_TRUST_BYTES, GROUP = 6, TEXT_MAX = 128 };

void enrol_code_make(const uint8_t ca_key_hash[32], struct enrol_code *code)
{
    id_random_bytes(code->secret, sizeof code->secret);
    memcpy(code->trust, ca_key_hash, sizeof code->trust);
}

void enrol_code_format(const struct enrol_code *code, char out[ENROL_CODE_BYTES])
{
    uint8_t bytes[CODE_BYTES];
    char plain[BASE32_CHARS(CODE_BYTES) + 1];
    memcpy(bytes, code->secret, ENROL_SECRET_BYTES);
    memcpy(bytes + ENROL_SECRET_BYTES, code->trust, ENROL_TRUST_BYTES);
    base32_encode(bytes, sizeof bytes, plain);
    for (unsigned i = 0; i < ENROL_CODE_CHARS; i++) {
        if (i != 0 && i % GROUP == 0) {
            *out++ = '-';
        }
        *out++ = plain[i];
    }
    *out = 0;
}

/* What people read for what was printed. */
static char look_alike(char c)
{
    switch (c) {
    case '0':
        return 'O';
    case '1':
        return 'I';
    case '8':
        return 'B';
    case '\t':
    case '\r':
    case '\n':
        return ' ';
    default:
        return c;
    }
}

int enrol_code_parse(const char *text, struct enrol_code *code)
{
    uint8_t bytes[CODE_BYTES];
    char plain[TEXT_MAX];
    size_t n = strnlen(text, sizeof plain);
    if (n == sizeof plain) {
        return STATUS_CODE_WRONG;
    }
    for (size_t i = 0; i <= n; i++) {
        plain[i] = look_alike(text[i]);
    }
    if (base32_decode(plain, bytes, sizeof bytes) != 0) {
        return STATUS_CODE_WRONG;
    }
    memcpy(code->secret, bytes, ENROL_SECRET_BYTES);
    memcpy(code->trust, bytes + ENROL_SECRET_BYTES, ENROL_TRUST_BYTES);
    return 0;
}

bool enrol_code_equal(const uint8_t a[ENROL_SECRET_BYTES], const uint8_t b[ENROL_SECRET_BYTES])
{
    return hash_equal(a, b, ENROL_SECRET_BYTES);
}

bool enrol_code_trusts(const struct enrol_code *code, const uint8_t ca_key_hash[32])
{
    return hash_equal(code->trust, ca_key_hash, ENROL_TRUST_BYTES);
}
