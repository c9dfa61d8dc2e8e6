/* Base32: five bits a character, most significant first. The decoder takes one text for one value and no
 * other, so that a code has one form only. */
#include "shared/base/base32.h"

#include "shared/base/status.h"

void base32_encode(const void *bytes, size_t n, char *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const uint8_t *in = bytes;
    uint32_t held = 0, bits = 0;
    for (size_t i = 0; i < n; i++) {
        held = (held << 8 | in[i]) & 0xfffu;
        for (bits += 8; bits >= 5; *out++ = alphabet[held >> bits & 31u])
            bits -= 5;
    }
    if (bits)
        *out++ = alphabet[held << (5 - bits) & 31u];
    *out = '\0';
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a';
    if (c >= '2' && c <= '7')
        return c - '2' + 26;
    return -1;
}

int base32_decode(const char *text, void *out, size_t n)
{
    uint8_t *to = out;
    uint32_t held = 0, bits = 0;
    size_t done = 0, chars = 0;
    for (; *text; text++) {
        if (*text == '-' || *text == ' ')
            continue;
        int digit = digit_of(*text);
        if (digit < 0 || ++chars > BASE32_CHARS(n))
            return STATUS_INVALID_ARGUMENT;
        held = (held << 5 | (uint32_t)digit) & 0xfffu;
        bits += 5;
        if (bits >= 8 && done < n) {
            bits -= 8;
            to[done++] = (uint8_t)(held >> bits);
        }
    }
    if (chars != BASE32_CHARS(n) || (held & ((1u << bits) - 1)))
        return STATUS_INVALID_ARGUMENT;
    return STATUS_OK;
}
