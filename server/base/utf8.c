/* Checking UTF-8 by the table of well-formed sequences (Unicode 15, table 3-7): the second byte's range
 * depends on the first, all later bytes are 80 to BF. */
#include "server/base/utf8.h"

#include <stdint.h>

struct lead {
    unsigned char first, last; /* of the lead byte */
    unsigned char low, high;   /* of the second byte */
    unsigned char length;
};

static const struct lead leads[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

static size_t length_within(const unsigned char *text, size_t n)
{
    if (text[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        const struct lead *lead = &leads[i];
        if (text[0] < lead->first || text[0] > lead->last)
            continue;
        if (n < 2 || text[1] < lead->low || text[1] > lead->high)
            return 0;
        for (size_t k = 2; k < lead->length; k++)
            if (k >= n || text[k] < 0x80 || text[k] > 0xbf)
                return 0;
        return lead->length;
    }
    return 0;
}

size_t utf8_length(const char *text)
{
    return length_within((const unsigned char *)text,
                         SIZE_MAX); /* a NUL is in no range: it ends the reading */
}

bool utf8_valid(const char *bytes, size_t n)
{
    const unsigned char *text = (const unsigned char *)bytes;
    for (size_t at = 0; at < n;) {
        size_t length = text[at] ? length_within(text + at, n - at) : 0;
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}
