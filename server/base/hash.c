/* SHA-256 over mbedTLS. Its functions can only fail on hardware back ends, which no build of ours has: a
 * failure is our own mistake and ends the process rather than giving a wrong name to something. */
#include "server/base/hash.h"

#include <stdlib.h>
#include <string.h>

static void must(int result)
{
    if (result != 0)
        abort();
}

void hash_begin(struct hash *hash)
{
    mbedtls_sha256_init(&hash->context);
    must(mbedtls_sha256_starts_ret(&hash->context, 0));
}

void hash_add(struct hash *hash, const void *bytes, size_t n)
{
    if (n)
        must(mbedtls_sha256_update_ret(&hash->context, bytes, n));
}

void hash_end(struct hash *hash, uint8_t out[HASH_BYTES])
{
    must(mbedtls_sha256_finish_ret(&hash->context, out));
    mbedtls_sha256_free(&hash->context);
}

void hash_sha256(const void *bytes, size_t n, uint8_t out[HASH_BYTES])
{
    struct hash hash;
    hash_begin(&hash);
    hash_add(&hash, bytes, n);
    hash_end(&hash, out);
}

void hash_hex_n(const void *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = bytes;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * n] = '\0';
}

void hash_hex(const uint8_t hash[HASH_BYTES], char out[HASH_HEX_BYTES])
{
    hash_hex_n(hash, HASH_BYTES, out);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hash_from_hex(const char *text, uint8_t out[HASH_BYTES])
{
    uint8_t bytes[HASH_BYTES];
    for (size_t i = 0; i < HASH_BYTES; i++) {
        int high = digit_of(text[2 * i]);
        int low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    if (text[2 * HASH_BYTES])
        return false;
    memcpy(out, bytes, sizeof bytes);
    return true;
}

bool hash_equal(const void *a, const void *b, size_t n)
{
    const volatile uint8_t *x = a, *y = b;
    unsigned difference = 0;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned)(x[i] ^ y[i]);
    return difference == 0;
}
