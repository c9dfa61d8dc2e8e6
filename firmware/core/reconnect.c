/* See the header. A round ends when each server has been tried once since the last welcome or wait. */
#include "firmware/core/reconnect.h"

void reconnect_init(struct reconnect *reconnect, uint32_t n_servers, uint32_t seed)
{
    *reconnect = (struct reconnect){.n_servers = n_servers > 0 ? n_servers : 1,
                                    .backoff_ms = RECONNECT_MIN_MS,
                                    .random = seed != 0 ? seed : 0x9E3779B9u};
}

void reconnect_welcomed(struct reconnect *reconnect)
{
    reconnect->welcomed = true;
    reconnect->backoff_ms = RECONNECT_MIN_MS;
}

/* xorshift32 */
static uint32_t next_random(struct reconnect *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 17;
    r->random ^= r->random << 5;
    return r->random;
}

uint32_t reconnect_failed(struct reconnect *r)
{
    if (r->welcomed) {
        r->welcomed = false;
        r->tried = 0; /* a new round, which begins with the server that we had */
    } else {
        r->server = (r->server + 1) % r->n_servers;
        if (++r->tried < r->n_servers)
            return 0;
        r->tried = 0;
    }
    uint32_t ms = r->backoff_ms / 2 + next_random(r) % (r->backoff_ms + 1);
    r->backoff_ms = r->backoff_ms >= RECONNECT_MAX_MS / 2 ? RECONNECT_MAX_MS : r->backoff_ms * 2;
    return ms < RECONNECT_MAX_MS ? ms : RECONNECT_MAX_MS;
}

bool reconnect_code_refused(struct reconnect *r)
{
    r->refused |= 1u << r->server % 32;
    return r->n_servers < 32 && r->refused == (1u << r->n_servers) - 1;
}
