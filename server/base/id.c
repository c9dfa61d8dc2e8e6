/*
 * ULIDs (48 bits of wall milliseconds, 80 random bits, big-endian, in base32). The last one is kept behind a
 * lock: when the clock has not advanced the next one is the last plus one, which keeps the order without
 * waiting.
 */
#include "server/base/id.h"

#include "server/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t last[16];

void id_random_bytes(void *out, size_t n)
{
    uint8_t *at = out;
    while (n) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        at += got;
        n -= (size_t)got;
    }
}

static void next_bytes(uint8_t out[16])
{
    uint8_t fresh[16];
    uint64_t now = (uint64_t)clock_wall_ms();
    for (int i = 0; i < 6; i++)
        fresh[i] = (uint8_t)(now >> (8 * (5 - i)));
    id_random_bytes(fresh + 6, 10);
    fresh[6] &= 0x7f; /* room to count up from */
    (void)pthread_mutex_lock(&lock);
    if (memcmp(fresh, last, 6) > 0)
        memcpy(last, fresh, sizeof last);
    else
        for (int i = 15; i >= 0 && ++last[i] == 0; i--)
            continue;
    memcpy(out, last, sizeof last);
    (void)pthread_mutex_unlock(&lock);
}

void id_ulid(char out[ID_ULID_BYTES])
{
    uint8_t bytes[16];
    next_bytes(bytes);
    /* 128 bits in 26 digits of 5: the first digit has 3 of them, as if two zero bits stood before. */
    unsigned held = 0, bits = 2;
    int at = 0;
    for (int i = 0; i < 16; i++) {
        held = (held << 8 | bytes[i]) & 0xfffu;
        bits += 8;
        while (bits >= 5) {
            bits -= 5;
            out[at++] = alphabet[held >> bits & 31];
        }
    }
    out[at] = '\0';
}

bool id_is_ulid(const char *text)
{
    for (int i = 0; i < ID_ULID_BYTES - 1; i++)
        if (!text[i] || !strchr(alphabet, text[i]))
            return false;
    return text[0] <= '7' && text[ID_ULID_BYTES - 1] == '\0';
}

int64_t id_ulid_wall_ms(const char *text)
{
    int64_t ms = 0;
    for (int i = 0; i < 10; i++) {
        const char *digit = text[i] ? strchr(alphabet, text[i]) : NULL;
        ms = ms * 32 + (digit ? digit - alphabet : 0);
    }
    return ms;
}
